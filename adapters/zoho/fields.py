"""The field definitions of a Zoho account, and its values as text and as JSON.

Zoho ignores unknown and wrongly written names silently, so a name counts only if it is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from crmhub.adapter import Choice, Context, Described, Kind, Linked, Problem, PropertyType, Rejected
from crmhub.adapter.answers import objects_in, parse_time
from crmhub.adapter.coercion import Misfit, coerced, fitted
from crmhub.adapter.http import Answer
from crmhub.adapter.remembered import HOUR, Remembered
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
_LINKS = ("lookup", "ownerlookup", "userlookup")
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
# The parts of a definition that the adapter needs.
_KEPT = (
    *("api_name", "field_label", "data_type", "json_type", "length", "pick_list_values"),
    *("read_only", "field_read_only", "operation_type", "system_mandatory", "unique", "crypt"),
    *("lookup", "created_time"),
)
# Zoho requires a last name. This invisible character (WORD JOINER) ends one that nobody has given.
_FILLED = "\u2060"
_CLOSES_IN = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a module.

    `described` is its definition under the hub's name, `name` its API name, and `raw` the
    definition as Zoho's JSON.
    """

    described: Described
    name: str
    raw: Mapping[str, Any]

    def within(self, operation: str) -> Described:
        """Return the definition, read-only if `operation` may not write the field.

        `operation` is `api_create` or `api_update`.
        """
        allowed = self.raw.get("operation_type")
        refused = isinstance(allowed, dict) and allowed.get(operation) is False
        return replace(self.described, read_only=self.described.read_only or refused)

    @property
    def is_owner(self) -> bool:
        """Whether the field holds a user of the account."""
        return self.raw.get("data_type") in ("ownerlookup", "userlookup")

    @property
    def is_unique(self) -> bool:
        """Whether Zoho refuses a second record with the same value."""
        return bool(self.raw.get("unique"))

    @property
    def ignores_case(self) -> bool:
        """Whether upper and lower case are the same for the uniqueness of the field."""
        unique = self.raw.get("unique")
        return isinstance(unique, dict) and unique.get("case_sensitive") is False

    @property
    def is_encrypted(self) -> bool:
        """Whether COQL finds no record by the field's value."""
        return bool(self.raw.get("crypt"))

    @property
    def takes_marks(self) -> bool:
        """Whether the hub can write its marks into the field, and find records by it."""
        described = self.within("api_create")
        return described.type == "string" and not (described.read_only or self.is_encrypted)

    @property
    def is_mandatory(self) -> bool:
        """Whether Zoho refuses a new record without the field."""
        return self.raw.get("system_mandatory") is True

    @property
    def links_to(self) -> str:
        """Zoho's name of the module to whose records the field links, or ""."""
        lookup = self.raw.get("lookup")
        module = lookup.get("module") if isinstance(lookup, dict) else None
        return str(module.get("api_name")) if isinstance(module, dict) else ""

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


Definition = Mapping[str, Any]
"""The definition of a field, as Zoho's JSON."""
Fields = Mapping[str, Field]
"""The fields of a module, each by its API name and by the hub's name."""


class Definitions:
    """The fields of a kind of record, remembered as Zoho's JSON, which all processes share.

    `load` reads the definitions from Zoho, as `read_fields` returns them.
    """

    def __init__(self, kind: Kind, load: Callable[[], list[Definition]], context: Context) -> None:
        self._kind = kind
        self._listed = Remembered(load, context, name=f"fields of {kind}")
        self._fields: tuple[list[Definition], Fields] | None = None

    def get(self, *, newer_than: float = HOUR) -> Fields:
        """Return the fields; read them anew if they are older than `newer_than` seconds.

        Raises the errors of `Remembered.get` and of `load`.
        """
        listed, known = self._listed.get(newer_than=newer_than), self._fields
        if known is None or known[0] is not listed:
            known = self._fields = listed, by_name(self._kind, listed)
        return known[1]


def by_name(kind: Kind, listed: Sequence[Definition]) -> Fields:
    """Return the fields with these definitions, each by its API name and by the hub's name."""
    fields = {str(raw["api_name"]): _field(kind, raw) for raw in listed}
    return fields | {field.described.name: field for field in fields.values()}


def read_fields(answer: Answer) -> list[Definition]:
    """Return the definitions of the fields that the adapter can read or write from Zoho's answer.

    Only the parts that it needs are kept, since Zoho sends much for each field.
    """
    found: list[Definition] = []
    for raw in answer.items("fields"):
        if not isinstance(raw.get("api_name"), str) or not raw["api_name"]:
            raise answer.broken("a field has no name")
        of = raw.get("data_type")
        is_list = raw.get("json_type") in _LISTS and of not in ("multiselectpicklist", *_LINKS)
        if of in _TYPES and not is_list and raw.get("visible") is not False:
            found.append({name: raw[name] for name in _KEPT if name in raw})
    return found


def _field(kind: Kind, raw: Definition) -> Field:
    name, of = str(raw["api_name"]), _TYPES[raw["data_type"]]
    operations = raw.get("operation_type")
    allowed = operations if isinstance(operations, dict) else {}
    never = allowed.get("api_create") is False and allowed.get("api_update") is False
    described = Described(
        name=_OURS[kind].get(name, name),
        label=str(raw.get("field_label") or name),
        type=of,
        options=_options(raw) if of in ("enumeration", "multi_enumeration") else (),
        read_only=bool(raw.get("read_only") or raw.get("field_read_only") or never),
        required=raw.get("system_mandatory") is True,
    )
    return Field(described, name, raw)


def _options(raw: Definition) -> tuple[Choice, ...]:
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


def texts_of(
    kind: Kind, fields: Fields, properties: Mapping[str, str], operation: str
) -> dict[str, str]:
    """Return the properties with each value in the form of its type, without pipeline and stage.

    `operation` is `api_create` or `api_update`. Raises Rejected with a problem for each value that
    Zoho would refuse, cut or ignore.
    """
    places = PLACES[kind] if kind == "deals" or kind == "tickets" else ()
    given = {name: text for name, text in properties.items() if name not in places}
    usable = {name: fields[name].within(operation) for name in given if name in fields}
    texts = fitted(given, usable, of=kind)
    problems = [replace(p, name=n) for n, text in texts.items() if (p := fields[n].too_long(text))]
    seen: dict[str, str] = {}
    for name in texts:
        first = seen.setdefault(fields[name].name, name)
        if first != name:
            problems.append(Problem(name, f"is the same field as {first}; send one of them"))
    if problems:
        raise Rejected(problems)
    return texts


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
    if closing and (closing.is_mandatory or closing.name in names):
        values[closing.name] = (datetime.now(UTC) + _CLOSES_IN).date().isoformat()
    if origin and (origin.is_mandatory or origin.name in names):
        options = [option.value for option in origin.described.options]
        values[origin.name] = "Web" if "Web" in options or not options else options[0]
    return values


def existed(field: Field, since: float) -> bool:
    """Return whether all processes knew the field at the time `since` (seconds since 1970).

    Definitions are remembered for an hour.
    """
    return parse_time(field.raw.get("created_time")) + HOUR < since
