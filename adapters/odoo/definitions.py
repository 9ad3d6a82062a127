"""The fields, pipelines and owners of an Odoo, kept for an hour, and values that fit them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from adapters.odoo.api import Api
from adapters.odoo.fields import (
    ATTRIBUTES,
    CONTACTS,
    DEALS,
    TICKETS,
    Field,
    Model,
    fields_in,
    linked_ids,
)
from crmhub.adapter import (
    Choice,
    Context,
    Described,
    Owner,
    Pipeline,
    PropertyType,
    Rejected,
    Unsupported,
)
from crmhub.adapter.coercion import fitted
from crmhub.adapter.places import place
from crmhub.adapter.remembered import HOUR, Remembered
from crmhub.adapter.types import to_text

STALE_S = 30.0
"""How old definitions may be, in seconds, when a value does not fit them."""
# HubSpot's priorities in the order of Odoo's, by their number.
_PRIORITIES = {2: ("low", "high"), 4: ("low", "medium", "high", "urgent")}
# How stages name their pipelines; a model has one of these.
_LINKS = ("team_ids", "team_id", "project_ids")


class Definitions:
    """The definitions of the models that the settings name, by kind of record."""

    def __init__(self, api: Api, context: Context) -> None:
        self._api = api
        self._project = context.settings["project"]
        self._models = {"contacts": CONTACTS, "deals": DEALS}
        if context.settings["tickets"] in TICKETS:
            self._models["tickets"] = TICKETS[context.settings["tickets"]]
        self._fields = {
            kind: Remembered(partial(self._load_fields, model), context)
            for kind, model in self._models.items()
        }
        self._pipelines = {
            kind: Remembered(partial(self._load_pipelines, model), context)
            for kind, model in self._models.items()
        }
        self._owners = Remembered(self._load_owners, context)

    def model(self, kind: str) -> Model:
        """Return the model of a kind of record; raise Unsupported if there is none."""
        if kind not in self._models:
            raise Unsupported(f"Odoo keeps no {kind} here; see the setting tickets.")
        return self._models[kind]

    def fields(self, kind: str, *, newer_than: float = HOUR) -> dict[str, Field]:
        """Return the fields of a kind of record, by Odoo's names.

        They were loaded at most `newer_than` seconds ago, as in the methods below.
        """
        return self._fields[kind].get(newer_than=newer_than)

    def pipelines(self, kind: str, *, newer_than: float = HOUR) -> list[Pipeline]:
        """Return the sales teams, helpdesk teams or the project, each with its stages."""
        self.model(kind)
        return self._pipelines[kind].get(newer_than=newer_than)

    def owners(self, *, newer_than: float = HOUR) -> list[Owner]:
        """Return the people who work in Odoo."""
        return self._owners.get(newer_than=newer_than)

    def described(self, kind: str) -> list[Described]:
        """Return the definitions of all fields under the hub's names, with their options."""
        names = self.model(kind).names
        described = [self._described(kind, one, HOUR) for one in self.fields(kind).values()]
        return [replace(one, name=names.ours(one.name)) for one in described]

    def fit(self, kind: str, given: Mapping[str, str]) -> dict[str, str]:
        """Return values by Odoo's names in the form of their types.

        For deals and tickets, pipeline and stage are added. Raises Rejected for values that do not
        fit, unless they fit definitions that are asked for anew.
        """
        try:
            return self.fit_to(kind, given, newer_than=HOUR)
        except Rejected:
            return self.fit_to(kind, given, newer_than=STALE_S)

    def fit_to(self, kind: str, given: Mapping[str, str], *, newer_than: float) -> dict[str, str]:
        """Do what `fit` does, with definitions that are at most `newer_than` seconds old."""
        model, fields = self.model(kind), self.fields(kind, newer_than=newer_than)
        values = {name: text for name, text in given.items() if name not in model.places}
        if "@" in values.get(model.owner, ""):
            values[model.owner] = self._owner_id(values[model.owner], newer_than)
        if kind == "tickets" and "priority" in values.keys() & fields.keys():
            values["priority"] = _priority(fields["priority"].described, values["priority"])
        known = {n: self._described(kind, fields[n], newer_than) for n in values if n in fields}
        fit = fitted(values, known, of=kind)
        if model.places:
            pipeline, stage = model.places
            wanted = given.get(pipeline, ""), given.get(stage, "")
            pipelines = self.pipelines(kind, newer_than=newer_than)
            fit |= zip(model.places, place(pipelines, wanted, (pipeline, stage)), strict=True)
        return fit

    def _described(self, kind: str, field: Field, newer_than: float) -> Described:
        """Return the definition of a field; those of owner, pipeline and stage have options."""
        model = self._models[kind]
        if field.name == model.owner:
            owners = self.owners(newer_than=newer_than)
            options = [Choice(owner.id, owner.name) for owner in owners]
        elif field.name in model.places:
            pipelines = self.pipelines(kind, newer_than=newer_than)
            options = [Choice(pipeline.id, pipeline.label) for pipeline in pipelines]
            if field.name == "stage_id":
                options = [stage for pipeline in pipelines for stage in pipeline.stages]
        else:
            return field.described
        kind_of: PropertyType = "enumeration"
        if field.type == "many2many":
            kind_of = "multi_enumeration"
        return replace(field.described, type=kind_of, options=tuple(dict.fromkeys(options)))

    def _owner_id(self, email: str, newer_than: float) -> str:
        folded = email.strip().casefold()
        owners = self.owners(newer_than=newer_than)
        return next((one.id for one in owners if one.email.casefold() == folded), email)

    def _load_fields(self, model: Model) -> dict[str, Field]:
        return fields_in(self._api.call(model.name, "fields_get", attributes=ATTRIBUTES), model)

    def _load_pipelines(self, model: Model) -> list[Pipeline]:
        if not model.places:
            return []
        domain: list[Any] = [["use_opportunities", "=", True]] if model is DEALS else []
        if model.pipelines == "project.project":
            domain = [["id", "=", int(self._project)]]
        found = self._api.search(model.pipelines, domain, ["name"], order="sequence, id")
        told = self._api.call(model.stages, "fields_get", attributes=["type"])
        known = told.mapping(told.object().get("result"))
        link = next((name for name in _LINKS if name in known), "")
        asked = ["name", link] if link else ["name"]
        listed = self._api.search(model.stages, [], asked, order="sequence, id")
        stages = [
            (Choice(listed.id(one), to_text(one.get("name"))), linked_ids(one.get(link)))
            for one in listed.items("result")
        ]
        pipelines = []
        for team in found.items("result"):
            id = found.id(team)
            # A stage of leads without a team is a stage of all teams.
            mine = [
                stage
                for stage, teams in stages
                if int(id) in teams or (model is DEALS and not teams)
            ]
            if mine:
                pipelines.append(Pipeline(id, to_text(team.get("name")), tuple(mine)))
        return pipelines

    def _load_owners(self) -> list[Owner]:
        fields = ["name", "login", "email"]
        answer = self._api.search("res.users", [["share", "=", False]], fields)
        return [
            Owner(
                answer.id(user),
                to_text(user.get("email") or user.get("login") or ""),
                to_text(user.get("name") or ""),
            )
            for user in answer.items("result")
        ]


def _priority(described: Described, wanted: str) -> str:
    """Return Odoo's priority for one of HubSpot's; other texts are returned unchanged."""
    words = dict(zip(_PRIORITIES.get(len(described.options), ()), described.options, strict=False))
    word = wanted.strip().lower()
    return words[word].value if word in words else wanted
