"""The models of Odoo that the adapter uses, and the values of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crmhub.adapter import Choice, Described, PropertyType
from crmhub.adapter.answers import text_of
from crmhub.adapter.names import Names
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
_OF_NAME: Mapping[str, PropertyType] = {
    "email": "email",
    "phone": "phone",
    "mobile": "phone",
    "website": "url",
}
# The contact of a deal or ticket; what is written to the others, Odoo writes to the contact, too.
_OF_CONTACT = frozenset(
    {"partner_id", "email_from", "phone", "mobile", "partner_email", "partner_phone"}
)
ATTRIBUTES = ["string", "type", "selection", "required", "readonly", "store"]
"""The attributes of fields that `Field` needs from Odoo's `fields_get`."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model of Odoo: its name, and the names of its fields.

    `places` are its fields for pipeline and stage, `pipelines` and `stages` the models to which
    they lead. `owner` is its field for the owner.
    """

    name: str
    names: Names
    places: tuple[str, str] | tuple[()] = ()
    pipelines: str = ""
    stages: str = ""
    owner: str = "user_id"


CONTACTS = Model("res.partner", Names({"mobilephone": "mobile", _OWNER: "user_id"}))
DEALS = Model("crm.lead", Names(_DEAL), ("team_id", "stage_id"), "crm.team", "crm.stage")
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
class Field:
    """A field of a model: its name and type in Odoo, and its definition under Odoo's name."""

    name: str
    type: str
    described: Described

    def text(self, value: Any) -> str:
        """Return a value that Odoo answered as text.

        Where nothing is stored, Odoo answers false, and 0 for a number.
        """
        if not value:
            return ""
        match self.type:
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
        """Return a text of the contract in the form in which `text` returns it later."""
        match self.type:
            case "boolean" | "integer" | "float" | "monetary" if text in ("false", "0"):
                return ""
            case "datetime" if text:
                return f"{text[:19]}.000Z"
            case "many2many":
                return ";".join(sorted(text.split(";"), key=lambda id: (len(id), id)))
        return text

    def cell(self, text: str) -> tuple[str, str]:
        """Return the column and the cell of a `load` for a text of the contract."""
        match self.type:
            case "many2one" | "many2many":
                return f"{self.name}/.id", text.replace(";", ",")
            case "html":
                return self.name, to_html(text)
            case "datetime":
                return self.name, text[:19].replace("T", " ")
        return self.name, text


def fields_in(listed: Mapping[str, Any], model: Model) -> dict[str, Field]:
    """Return the fields of a model that a text can hold, by name.

    `listed` is the result of `fields_get`.
    """
    fields: dict[str, Field] = {}
    for name, told in listed.items():
        kind = text_of(told.get("type"))
        if kind not in _TYPES:
            continue
        of_name = _OF_NAME.get(name, _TYPES[kind]) if kind == "char" else _TYPES[kind]
        if kind == "many2one" and name in (model.owner, *model.places):
            # Their options are listed elsewhere.
            of_name = "enumeration"
        of_contact = bool(model.places) and name in _OF_CONTACT
        described = Described(
            name,
            text_of(told.get("string")),
            of_name,
            tuple(Choice(text_of(value), text_of(label)) for value, label in _options(told)),
            read_only=of_contact or bool(told.get("readonly")) or told.get("store") is False,
            required=bool(told.get("required")),
        )
        fields[name] = Field(name, kind, described)
    return fields


def _options(told: Mapping[str, Any]) -> list[Any]:
    options = told.get("selection")
    return [one for one in options if isinstance(one, list) and len(one) == 2] if options else []


def linked_ids(value: Any) -> list[int]:
    """Return the ids of a link: of a many2one, which Odoo answers with a label, or a many2many."""
    if not isinstance(value, list):
        return []
    return value[:1] if len(value) == 2 and isinstance(value[1], str) else value
