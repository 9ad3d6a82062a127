"""Odoo's models under the hub's names, with their cached definitions and the values of fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from adapters.odoo.api import Api
from crmhub.adapter import (
    Choice,
    Context,
    Described,
    Kind,
    Linked,
    Owner,
    Pipeline,
    Problem,
    PropertyType,
    Rejected,
    Unsupported,
)
from crmhub.adapter import definitions as shared
from crmhub.adapter.answers import text_of
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.names import Names
from crmhub.adapter.remembered import HOUR
from crmhub.adapter.types import from_html, to_html, to_text

_OWNER = "hubspot_owner_id"
_DEAL = {
    "dealname": "name",
    "amount": "expected_revenue",
    "closedate": "date_deadline",
    "pipeline": "team_id",
    "dealstage": "stage_id",
    _OWNER: "user_id",
}
_TICKET = {
    "subject": "name",
    "content": "description",
    "hs_pipeline": "team_id",
    "hs_pipeline_stage": "stage_id",
    "hs_ticket_priority": "priority",
    _OWNER: "user_id",
}
_TASK = _TICKET | {"hs_pipeline": "project_id", _OWNER: "user_ids"}
_TYPES: Mapping[str, PropertyType] = {
    "char": "string",
    "text": "text",
    "html": "text",
    "integer": "number",
    "float": "number",
    "monetary": "currency",
    "boolean": "bool",
    "date": "date",
    "datetime": "datetime",
    "selection": "enumeration",
    "many2one": "number",
    "many2many": "multi_enumeration",
}
_TYPE_BY_NAME: Mapping[str, PropertyType] = {
    "email": "email",
    "phone": "phone",
    "mobile": "phone",
    "website": "url",
}
_ATTRIBUTES = ["string", "type", "selection", "required", "readonly", "store"]
# The contact of a deal or ticket; what is written to the others, Odoo writes to the contact, too.
_OF_CONTACT = frozenset(
    {"partner_id", "email_from", "phone", "mobile", "partner_email", "partner_phone"}
)
# HubSpot's priorities in the order of Odoo's, by the number of Odoo's.
_PRIORITIES = {2: ("low", "high"), 4: ("low", "medium", "high", "urgent")}
_LINKS = ("team_ids", "team_id", "project_ids")


@dataclass(frozen=True, slots=True)
class Model:
    """`places`: fields for pipeline and stage; `pipelines`, `stages`: the models they lead to."""

    name: str
    names: Names
    places: tuple[str, str] = ("", "")
    pipelines: str = ""
    stages: str = ""
    owner: str = "user_id"


CONTACTS = Model("res.partner", Names({"mobilephone": "mobile", _OWNER: "user_id"}))
_DEALS = Model("crm.lead", Names(_DEAL), ("team_id", "stage_id"), "crm.team", "crm.stage")
TICKETS = {
    "helpdesk.ticket": Model(
        "helpdesk.ticket",
        Names(_TICKET),
        ("team_id", "stage_id"),
        "helpdesk.team",
        "helpdesk.stage",
    ),
    "project.task": Model(
        "project.task",
        Names(_TASK),
        ("project_id", "stage_id"),
        "project.project",
        "project.task.type",
        "user_ids",
    ),
}
"""The models that tickets may have, by the value of the setting `tickets`."""


@dataclass(frozen=True, slots=True)
class Field(Described):
    odoo_type: str = ""

    def text(self, value: Any) -> str:
        """Where nothing is stored, Odoo answers false, and 0 for a number."""
        if not value:
            return ""
        match self.odoo_type:
            case "many2one":
                return str(value[0] if isinstance(value, list) else value)
            case "many2many":
                return ";".join(map(str, sorted(value)))
            case "html":
                return from_html(value)
            case "datetime":
                return f"{value.replace(' ', 'T')}.000Z"
        return to_text(value)

    def stored(self, text: str) -> str:
        match self.odoo_type:
            case "boolean" | "integer" | "float" | "monetary" if text in ("false", "0"):
                return ""
            case "datetime" if text:
                return f"{text[:19]}.000Z"
            case "many2many":
                return ";".join(sorted(text.split(";"), key=lambda id: (len(id), id)))
        return text

    def fault(self, text: str) -> str:
        """Return why Odoo refuses a text, where it does not name the field; "" if it does."""
        match self.odoo_type:
            case "integer" if abs(Decimal(text or 0)) >= 2**31:
                return "Odoo takes only whole numbers below 2147483648 here"
            case "date" | "datetime" if "" < text < "1000":
                return "Odoo takes no year before 1000"
        return ""

    def cell(self, text: str) -> tuple[str, str]:
        match self.odoo_type:
            case "many2one" | "many2many":
                return f"{self.name}/.id", text.replace(";", ",")
            case "html":
                return self.name, to_html(text)
            case "datetime":
                return self.name, text[:19].replace("T", " ")
        return self.name, text


class Definitions(shared.Definitions):
    """The definitions of the models that the settings name; properties have Odoo's names."""

    types = (Field,)

    def __init__(self, api: Api, context: Context) -> None:
        self._api = api
        self._project = context.settings["project"]
        self._models: dict[Kind, Model] = {"contacts": CONTACTS, "deals": _DEALS}
        if context.settings["tickets"]:
            self._models["tickets"] = TICKETS[context.settings["tickets"]]
        super().__init__(context, self._models)

    def model(self, kind: Kind) -> Model:
        if kind not in self._models:
            why = "For tickets, choose a model in the settings."
            raise Unsupported(f"Odoo keeps no {kind} here. {why}")
        return self._models[kind]

    def fields(self, kind: Kind) -> Mapping[str, Field]:
        self.model(kind)
        return cast("Mapping[str, Field]", self._lists["properties"][kind].get())

    def fitting(self, kind: Kind) -> Fitting:
        model = self.model(kind)
        return Fitting(self, places={kind: model.places}, owner=model.owner)

    def fitted(
        self, kind: Kind, properties: Mapping[str, str], *, newer_than: float = HOUR
    ) -> dict[str, str]:
        """Definitions of the last `newer_than` seconds are used first; raises Rejected."""
        fit = self.fitting(kind).fitted(kind, properties, newer_than=newer_than)
        fields = self.fields(kind)
        faults = {name: fields[name].fault(text) for name, text in fit.items()}
        if any(faults.values()):
            raise Rejected([Problem(name, fault) for name, fault in faults.items() if fault])
        return fit

    def priority(self, text: str) -> str:
        """Return the ticket priority that HubSpot calls `text`; another text is unchanged."""
        described = self.fields("tickets").get("priority")
        options = [option.value for option in described.options] if described else []
        words = dict(zip(_PRIORITIES.get(len(options), ()), options, strict=False))
        return words.get(text.strip().lower(), text)

    def load_list(self, name: str, kind: Kind) -> dict[str, Described]:
        model = self.model(kind)
        answer = self._api.call(model.name, "fields_get", attributes=_ATTRIBUTES)
        fields: dict[str, Described] = {}
        for name, listed in answer.mapping(answer.object().get("result")).items():
            attributes = answer.mapping(listed)
            odoo_type = text_of(attributes.get("type"))
            if odoo_type not in _TYPES:
                continue
            hub_type = _TYPES[odoo_type]
            if odoo_type == "char":
                hub_type = _TYPE_BY_NAME.get(name, hub_type)
            elif odoo_type == "many2one" and name in (model.owner, *model.places):
                # Their options are listed elsewhere.
                hub_type = "enumeration"
            of_contact = kind != "contacts" and name in _OF_CONTACT
            fields[name] = Field(
                name,
                text_of(attributes.get("string")),
                hub_type,
                tuple(Choice(*map(text_of, one)) for one in attributes.get("selection") or ()),
                read_only=of_contact
                or bool(attributes.get("readonly"))
                or attributes.get("store") is False,
                required=bool(attributes.get("required")),
                odoo_type=odoo_type,
            )
        return fields

    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        model = self.model(kind)
        domain: list[Any] = [["use_opportunities", "=", True]] if kind == "deals" else []
        if model.pipelines == "project.project":
            domain = [["id", "=", int(self._project)]]
        teams = self._api.search(model.pipelines, domain, ["name"], order="sequence, id")
        answer = self._api.call(model.stages, "fields_get", attributes=["type"])
        names = answer.mapping(answer.object().get("result"))
        if "name" not in names:
            raise answer.broken("it does not list the fields of stages")
        link = next((name for name in _LINKS if name in names), "name")
        stages = self._api.search(model.stages, [], {"name", link}, order="sequence, id")
        pipelines = []
        for team in teams.items("result"):
            id, choices = teams.id(team), []
            for stage in stages.items("result"):
                linked = _linked_ids(stage.get(link))
                # A stage of leads without a team is a stage of all teams.
                if int(id) in linked or (kind == "deals" and not linked):
                    choices.append(Choice(stages.id(stage), text_of(stage.get("name"))))
            if choices:
                pipelines.append(Pipeline(id, text_of(team.get("name")), tuple(choices)))
        return pipelines

    def load_owners(self) -> list[Owner]:
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


def _linked_ids(value: Any) -> list[int]:
    if not isinstance(value, list):
        return []
    return value[:1] if len(value) == 2 and isinstance(value[1], str) else value
