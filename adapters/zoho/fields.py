"""The field definitions of a Zoho account, and its values as text and as JSON.

Zoho ignores unknown and wrongly written names silently, so a name counts only if it is defined.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from crmhub.adapter import Choice, Described, Kind, Linked, Problem, PropertyType
from crmhub.adapter.answers import objects_in, parse_time, value_at
from crmhub.adapter.coercion import Misfit, coerced
from crmhub.adapter.http import Answer
from crmhub.adapter.remembered import HOUR
from crmhub.adapter.types import to_json, to_text

MODULES: Mapping[Kind, str] = {
    "contacts": "Contacts",
    "deals": "Deals",
    "companies": "Accounts",
    "tickets": "Cases",
}
"""Zoho's names of the kinds of records."""
PLACES: Mapping[Linked, tuple[str, str]] = {
    "deals": ("pipeline", "dealstage"),
    "tickets": ("hs_pipeline", "hs_pipeline_stage"),
}
"""The hub's names of pipeline and stage; cases have a status as their stage, and no pipeline."""
# The fields that crmhub names differently, by Zoho's name.
_OURS: Mapping[Kind, Mapping[str, str]] = {
    "contacts": {
        "Email": "email",
        "Phone": "phone",
        "Mobile": "mobilephone",
        "First_Name": "firstname",
        "Last_Name": "lastname",
        "Title": "jobtitle",
        "Owner": "hubspot_owner_id",
    },
    "deals": {
        "Deal_Name": "dealname",
        "Amount": "amount",
        "Pipeline": "pipeline",
        "Stage": "dealstage",
        "Closing_Date": "closedate",
        "Description": "description",
        "Owner": "hubspot_owner_id",
    },
    "companies": {"Account_Name": "name", "Phone": "phone", "Owner": "hubspot_owner_id"},
    "tickets": {
        "Subject": "subject",
        "Description": "content",
        "Status": "hs_pipeline_stage",
        "Priority": "hs_ticket_priority",
        "Owner": "hubspot_owner_id",
    },
}
OWNERS = ("ownerlookup", "userlookup")
"""Zoho's types of fields that hold a user of the account."""
_LINKS = ("lookup", *OWNERS)
# Fields of other types, such as images and subforms, are left out.
_TYPES: Mapping[str, PropertyType] = {
    "text": "string",
    "textarea": "text",
    "email": "email",
    "phone": "phone",
    "website": "url",
    "boolean": "bool",
    "date": "date",
    "datetime": "datetime",
    "picklist": "enumeration",
    "multiselectpicklist": "multi_enumeration",
    "integer": "number",
    "bigint": "number",
    "double": "number",
    "percent": "number",
    "currency": "currency",
    "autonumber": "string",
    "formula": "string",
    **dict.fromkeys(_LINKS, "string"),
}
_LISTS = ("jsonarray", "jsonobject")
_NOTHING = "-None-"
# The parts of Zoho's definition that the adapter needs beside `Described`.
_KEPT = (
    *("data_type", "json_type", "length", "operation_type"),
    *("unique", "crypt", "lookup", "created_time"),
)
# Zoho requires a last name. This invisible character (WORD JOINER) ends one that nobody has given.
_FILLED = "\u2060"
_CLOSES_IN = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a module.

    `described` is its definition under the hub's name, `name` its API name, and `raw` further parts
    of the definition as Zoho's JSON.
    """

    described: Described
    name: str
    raw: Mapping[str, Any]

    def within(self, operation: str) -> Described:
        """Return the definition, read-only if `operation` may not write the field.

        `operation` is `api_create` or `api_update`.
        """
        refused = value_at(self.raw, "operation_type", operation) is False
        return replace(self.described, read_only=self.described.read_only or refused)

    @property
    def is_encrypted(self) -> bool:
        """Whether COQL finds no record by the field's value."""
        return bool(self.raw.get("crypt"))

    def to_json(self, text: str) -> Any:
        """Return a text in the form of the field's type as Zoho's JSON value; None for ""."""
        if text and self.raw.get("data_type") in _LINKS:
            return {"id": text}
        if text and self.described.type == "datetime":
            return f"{text[:19]}+00:00"
        is_text = self.raw.get("json_type") == "string"
        return to_json("string" if is_text else self.described.type, text)

    def to_text(self, value: Any) -> str:
        """Return Zoho's JSON value as text; the id for a link to another record."""
        text = to_text(value.get("id") if isinstance(value, dict) else value)
        if text == _NOTHING or (self.name == "Last_Name" and text.endswith(_FILLED)):
            return ""
        if self.described.type == "datetime":
            with suppress(Misfit):
                return coerced(self.described, text)
        return text

    def too_long(self, text: str) -> Problem | None:
        """Return the problem of a text that Zoho would refuse or cut, or None."""
        length = self.raw.get("length")
        if self.described.options or not isinstance(length, int) or len(text) <= length:
            return None
        if self.raw.get("json_type") != "string" or self.described.type == "datetime":
            return None
        return Problem(self.described.name, f"is too long; send at most {length} characters")


Fields = dict[str, Field]
"""The fields of a module, each by its API name and by the hub's name."""


def read_fields(kind: Kind, answer: Answer) -> Fields:
    """Return the fields that the adapter can read or write from Zoho's answer.

    Only the parts that it needs are kept, since Zoho sends much for each field.
    """
    fields: Fields = {}
    for raw in answer.items("fields"):
        if not isinstance(raw.get("api_name"), str) or not raw["api_name"]:
            raise answer.broken("a field has no name")
        of = raw.get("data_type")
        is_list = raw.get("json_type") in _LISTS and of not in ("multiselectpicklist", *_LINKS)
        if of in _TYPES and not is_list and raw.get("visible") is not False:
            fields[raw["api_name"]] = _field(kind, raw)
    return fields | {field.described.name: field for field in fields.values()}


def _field(kind: Kind, raw: Mapping[str, Any]) -> Field:
    name, of = raw["api_name"], _TYPES[raw["data_type"]]
    allowed = [value_at(raw, "operation_type", one) for one in ("api_create", "api_update")]
    never = allowed == [False, False]
    described = Described(
        name=_OURS[kind].get(name, name),
        label=str(raw.get("field_label") or name),
        type=of,
        options=_options(raw) if of in ("enumeration", "multi_enumeration") else (),
        read_only=bool(raw.get("read_only") or raw.get("field_read_only") or never),
        required=raw.get("system_mandatory") is True,
    )
    return Field(described, name, {part: raw[part] for part in _KEPT if part in raw})


def _options(raw: Mapping[str, Any]) -> tuple[Choice, ...]:
    options: dict[str, Choice] = {}
    for one in objects_in(raw.get("pick_list_values")):
        choice = read_choice(one)
        if choice and choice.value != _NOTHING:
            options.setdefault(choice.value, choice)
    return tuple(options.values())


def read_choice(raw: Mapping[str, Any]) -> Choice | None:
    """Return an option, a pipeline or a stage from Zoho's JSON; None if it has no value."""
    value, label = raw.get("actual_value"), raw.get("display_value")
    value = value or label
    return Choice(str(value), str(label or value)) if value else None


def with_last_name(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a contact with a last name, which Zoho requires.

    A last name that is missing or empty becomes the email, the phone or a dash, with an invisible
    mark, so that it is read as "".
    """
    if row.get("Last_Name"):
        return row
    known = "-" if row.get("First_Name") else row.get("Email") or row.get("Phone") or "-"
    return {**row, "Last_Name": f"{known[:70]}{_FILLED}"}


def demanded(fields: Fields, names: set[str]) -> dict[str, Any]:
    """Return values for fields that accounts may demand of a deal or case, and bots do not send.

    `names` are the API names of fields that Zoho was seen to demand, beside the mandatory ones.
    """
    values: dict[str, Any] = {}
    closing, origin = fields.get("Closing_Date"), fields.get("Case_Origin")
    if closing and (closing.described.required or closing.name in names):
        values[closing.name] = (datetime.now(UTC) + _CLOSES_IN).date().isoformat()
    if origin and (origin.described.required or origin.name in names):
        options = [option.value for option in origin.described.options]
        values[origin.name] = "Web" if "Web" in options or not options else options[0]
    return values


def existed(field: Field, since: float) -> bool:
    """Return whether all processes knew the field at the time `since` (seconds since 1970).

    Definitions are remembered for an hour.
    """
    return parse_time(field.raw.get("created_time")) + HOUR < since
