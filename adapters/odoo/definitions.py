"""The fields, pipelines and owners of an Odoo, cached for an hour, and values that fit them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from crmhub.adapter import Choice, Context, Described, Kind, Owner, Pipeline, Unsupported
from crmhub.adapter.answers import text_of
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.remembered import HOUR, Remembered

# HubSpot's priorities in the order of Odoo's, by the number of Odoo's.
_PRIORITIES = {2: ("low", "high"), 4: ("low", "medium", "high", "urgent")}
# How stages name their pipelines; a model has one of these.
_LINKS = ("team_ids", "team_id", "project_ids")


class Definitions:
    """The definitions of the models that the settings name, by kind of record.

    Properties have Odoo's names. The definitions were loaded at most `newer_than` seconds ago,
    where a method takes it. A value is refused by definitions of `stale_s` seconds at most.
    """

    stale_s = 30.0

    def __init__(self, api: Api, context: Context) -> None:
        self._api = api
        self._project = context.settings["project"]
        self._models = {"contacts": CONTACTS, "deals": DEALS}
        if context.settings["tickets"] in TICKETS:
            self._models["tickets"] = TICKETS[context.settings["tickets"]]
        known = self._models.items()
        # What Odoo answers, since all processes share it.
        self._listed = {
            kind: Remembered(partial(self.load_fields, model), context, name=f"{kind} fields")
            for kind, model in known
        }
        self._read: dict[str, tuple[Any, dict[str, Field]]] = {}
        self._pipelines = {
            kind: Remembered(partial(self.load_stages, model), context, name=f"{kind} pipelines")
            for kind, model in known
            if model.places
        }
        self._owners = Remembered(self._load_owners, context)
        self._fitting = {
            kind: Fitting(
                self, places={kind: model.places} if model.places else {}, owner=model.owner
            )
            for kind, model in known
        }

    def model(self, kind: str) -> Model:
        """Return the model of a kind of record; raise Unsupported if there is none."""
        if kind not in self._models:
            raise Unsupported(
                f"Odoo keeps no {kind} here. For tickets, choose a model in the settings."
            )
        return self._models[kind]

    def fields(self, kind: str, *, newer_than: float = HOUR) -> dict[str, Field]:
        """Return the fields of a kind of record."""
        listed = self._listed[kind].get(newer_than=newer_than)
        read = self._read.get(kind)
        if read is None or read[0] is not listed:
            read = self._read[kind] = (listed, fields_in(listed, self.model(kind)))
        return read[1]

    def properties(
        self, kind: Kind, names: Iterable[str], *, newer_than: float = HOUR
    ) -> dict[str, Described]:
        """Return the definitions of the fields `names`; leave out unknown names."""
        fields = self.fields(kind, newer_than=newer_than)
        return {name: fields[name].described for name in names if name in fields}

    def pipelines(self, kind: str, *, newer_than: float = HOUR) -> list[Pipeline]:
        """Return the sales teams, the helpdesk teams or the project, each with its stages."""
        self.model(kind)
        return self._pipelines[kind].get(newer_than=newer_than)

    def owners(self, *, newer_than: float = HOUR) -> list[Owner]:
        """Return the people who work in Odoo."""
        return self._owners.get(newer_than=newer_than)

    def described(self, kind: Kind) -> list[Described]:
        """Return the definitions of all fields under the hub's names, with their options."""
        ours, with_options = self.model(kind).names.ours, self._fitting[kind].with_options
        described = [with_options(kind, one.described) for one in self.fields(kind).values()]
        return [replace(one, name=ours(one.name)) for one in described]

    def fit(
        self, kind: Kind, given: Mapping[str, str], *, newer_than: float = HOUR
    ) -> dict[str, str]:
        """Return values in the form of their types; for deals and tickets, with their stage.

        Raises Rejected for values that do not fit.
        """
        values = dict(given)
        if kind == "tickets" and "priority" in values:
            described = self.properties(kind, ["priority"], newer_than=newer_than)
            values["priority"] = _priority(described, values["priority"])
        return self._fitting[kind].fitted(kind, values, newer_than=newer_than)

    def load_fields(self, model: Model) -> Mapping[str, Any]:
        """Ask Odoo for the fields of a model; return its answer."""
        answer = self._api.call(model.name, "fields_get", attributes=ATTRIBUTES)
        listed = answer.mapping(answer.object().get("result"))
        return {name: answer.mapping(told) for name, told in listed.items()}

    def load_stages(self, model: Model) -> list[Pipeline]:
        """Ask Odoo for the pipelines of a model that have stages."""
        domain: list[Any] = [["use_opportunities", "=", True]] if model is DEALS else []
        if model.pipelines == "project.project":
            domain = [["id", "=", int(self._project)]]
        found = self._api.search(model.pipelines, domain, ["name"], order="sequence, id")
        told = self._api.call(model.stages, "fields_get", attributes=["type"])
        known = told.mapping(told.object().get("result"))
        asked = ["name", *[name for name in _LINKS if name in known][:1]]
        listed = self._api.search(model.stages, [], asked, order="sequence, id")
        stages = [
            (Choice(listed.id(one), text_of(one.get("name"))), linked_ids(one.get(asked[-1])))
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
                pipelines.append(Pipeline(id, text_of(team.get("name")), tuple(mine)))
        return pipelines

    def _load_owners(self) -> list[Owner]:
        fields = ["name", "login", "email"]
        answer = self._api.search("res.users", [["share", "=", False]], fields)
        return [
            Owner(
                answer.id(user),
                text_of(user.get("email") or user.get("login") or ""),
                text_of(user.get("name") or ""),
            )
            for user in answer.items("result")
        ]


def _priority(described: Mapping[str, Described], wanted: str) -> str:
    """Return Odoo's priority for one of HubSpot's; other texts are returned unchanged."""
    options = [option.value for one in described.values() for option in one.options]
    words = dict(zip(_PRIORITIES.get(len(options), ()), options, strict=False))
    return words.get(wanted.strip().lower(), wanted)
