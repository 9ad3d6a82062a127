"""The definitions of a Zoho account, cached for an hour, and its values as text and as JSON.

Zoho ignores unknown and wrongly written names silently, so a name counts only if it is defined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from adapters.zoho.api import MODULES, Api
from crmhub.adapter import (
    BadConfig,
    Choice,
    Context,
    Described,
    Kind,
    LacksRight,
    Linked,
    Owner,
    Pipeline,
    PropertyType,
    Unsupported,
    fields,
)
from crmhub.adapter.answers import objects_in, parse_time, text_of, value_at
from crmhub.adapter.coercion import Misfit, coerced
from crmhub.adapter.places import PLACES
from crmhub.adapter.remembered import HOUR
from crmhub.adapter.types import to_json, to_text

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
_USERS = ("ownerlookup", "userlookup")
_LINKS = ("lookup", *_USERS)
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
# Zoho requires a last name. This invisible character (WORD JOINER) ends one that nobody has given.
_FILLED = "\u2060"
_CLOSES_IN = timedelta(days=30)
_OWNERS = 200
CREATE, UPDATE = "api_create", "api_update"
"""What is done with a record, under Zoho's names."""


@dataclass(frozen=True, slots=True)
class Field(fields.Field):
    """`refuses`: `CREATE`, `UPDATE` or both. `is_encrypted`: COQL finds no record by its value.
    `leads_to`: the module of linked records, or "". `created`: in seconds since 1970.
    """

    is_text: bool = False
    refuses: tuple[str, ...] = ()
    unique: bool = False
    in_any_case: bool = False
    is_encrypted: bool = False
    leads_to: str = ""
    created: float = 0.0

    def to_json(self, text: str) -> Any:
        if text and self.their_type in _LINKS:
            return {"id": text}
        if text and self.type == "datetime":
            return f"{text[:19]}+00:00"
        return to_json("string" if self.is_text else self.type, text)

    def to_text(self, row: Mapping[str, Any]) -> str:
        value = row.get(self.theirs)
        text = to_text(value.get("id") if isinstance(value, dict) else value)
        if text == _NOTHING or (self.theirs == "Last_Name" and text.endswith(_FILLED)):
            return ""
        if self.type == "datetime":
            with suppress(Misfit):
                return coerced(self, text)
        return text


@dataclass(frozen=True, slots=True)
class InLayout(Pipeline):
    layout: str = ""


class Definitions(fields.Fields[Field]):
    types = (Field, InLayout)
    hidden = (LacksRight,)

    def __init__(self, api: Api, context: Context) -> None:
        super().__init__(context, MODULES)
        self._api = api
        self._mark = context.settings["mark_field"]

    def mark(self, kind: Kind, *, newer_than: float = HOUR) -> tuple[bool, float] | None:
        field = self.fields(kind, newer_than=newer_than).get(self._mark)
        return (not field.is_encrypted, field.created) if field else None

    def link(self, kind: Linked) -> Field:
        """Raises Unsupported if the account has no such field."""
        links = [one for one in self.fields(kind).values() if one.leads_to == MODULES["contacts"]]
        usual = [one for one in links if one.theirs in ("Contact_Name", "Related_To")]
        if not links:
            raise Unsupported(f"{MODULES[kind]} have no field for a contact in this Zoho account.")
        return (usual or links)[0]

    def layout(self, kind: Linked, pipeline: str) -> dict[str, Any]:
        found = [one for one in self.pipelines(kind) if isinstance(one, InLayout)]
        layouts = {one.id: one.layout for one in found}
        return {"Layout": {"id": layouts[pipeline]}} if len({*layouts.values()}) > 1 else {}

    def load_list(self, name: str, kind: Kind) -> dict[str, Described]:
        """Read the fields of a kind of record; return them by Zoho's name and by the hub's."""
        fields = list(self.load_fields(kind))
        by_theirs: dict[str, Described] = {field.theirs: field for field in fields}
        return by_theirs | {field.name: field for field in fields}

    def load_fields(self, kind: Kind) -> Iterator[Field]:
        """Raises Unsupported for tickets if the account has no cases."""
        params = {"module": MODULES[kind], "include": "allowed_permissions_to_update"}
        try:
            answer = self._api.send("GET", "settings", "fields", params=params)
        except BadConfig as exc:
            if kind != "tickets" or "INVALID_MODULE" not in exc.message:
                raise
            raise Unsupported("This edition of Zoho CRM has no cases.") from None
        for raw in answer.items("fields"):
            if not isinstance(raw.get("api_name"), str) or not raw["api_name"]:
                raise answer.broken("a field has no name")
            of = raw.get("data_type")
            is_list = raw.get("json_type") in _LISTS and of not in ("multiselectpicklist", *_LINKS)
            if of in _TYPES and not is_list and raw.get("visible") is not False:
                yield _field(kind, raw)

    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        found: dict[str, Pipeline] = {}
        layouts = []
        if kind == "deals":
            params = {"module": MODULES[kind]}
            answer = self._api.send("GET", "settings", "layouts", params=params)
            active = [one for one in answer.items("layouts") if one.get("status") != "inactive"]
            layouts = [answer.id(layout) for layout in active]
        for layout in layouts:
            answer = self._api.send("GET", "settings", "pipeline", params={"layout_id": layout})
            listed = [] if answer.status == 204 else answer.items("pipeline")
            for raw in sorted(listed, key=lambda raw: raw.get("default") is not True):
                choice = _choice(raw)
                stages = tuple(filter(None, map(_choice, objects_in(raw.get("maps")))))
                if choice is None:
                    raise answer.broken("a pipeline has no name")
                # Records name their pipeline by its text, so the first of two equal ones counts.
                pipeline = InLayout(choice.value, choice.label, stages, layout)
                found.setdefault(pipeline.id, pipeline)
        if found:
            return list(found.values())
        stage = self.fields(kind).get(PLACES[kind][1])
        return [InLayout("", "", stage.options if stage else ())]

    def load_owners(self) -> list[Owner]:
        owners: list[Owner] = []
        page, more = 1, True
        while more:
            params = {"type": "ActiveUsers", "page": str(page), "per_page": str(_OWNERS)}
            answer = self._api.send("GET", "users", params=params)
            if answer.status == 204:
                break
            for user in answer.items("users"):
                name, email = text_of(user.get("full_name")), text_of(user.get("email"))
                owners.append(Owner(answer.id(user), email, name))
            page, more = page + 1, value_at(answer.body, "info", "more_records") is True
        return owners


def _field(kind: Kind, raw: Mapping[str, Any]) -> Field:
    theirs, of = raw["api_name"], _TYPES[raw["data_type"]]
    operations = (CREATE, UPDATE)
    refuses = tuple(one for one in operations if value_at(raw, "operation_type", one) is False)
    read_only = raw.get("read_only") or raw.get("field_read_only") or refuses == operations
    options = _options(raw) if of in ("enumeration", "multi_enumeration") else ()
    is_text, length = raw.get("json_type") == "string", raw.get("length")
    if not isinstance(length, int) or not is_text or options or of == "datetime":
        length = 0
    return Field(
        _OURS[kind].get(theirs, theirs),
        str(raw.get("field_label") or theirs),
        of,
        options,
        bool(read_only),
        raw.get("system_mandatory") is True,
        theirs=theirs,
        their_type=raw["data_type"],
        longest=length,
        is_user=raw["data_type"] in _USERS,
        is_text=is_text,
        refuses=refuses,
        unique=bool(raw.get("unique")),
        in_any_case=value_at(raw, "unique", "case_sensitive") is False,
        is_encrypted=bool(raw.get("crypt")),
        leads_to=text_of(value_at(raw, "lookup", "module", "api_name")),
        created=parse_time(raw.get("created_time")),
    )


def _options(raw: Mapping[str, Any]) -> tuple[Choice, ...]:
    options: dict[str, Choice] = {}
    for one in objects_in(raw.get("pick_list_values")):
        choice = _choice(one)
        if choice and choice.value != _NOTHING:
            options.setdefault(choice.value, choice)
    return tuple(options.values())


def _choice(raw: Mapping[str, Any]) -> Choice | None:
    value, label = raw.get("actual_value"), raw.get("display_value")
    value = value or label
    return Choice(str(value), str(label or value)) if value else None


def with_last_name(row: dict[str, Any]) -> dict[str, Any]:
    """Without a last name, which Zoho requires, it is the email, the phone or a marked dash."""
    if row.get("Last_Name"):
        return row
    known = "-" if row.get("First_Name") else row.get("Email") or row.get("Phone") or "-"
    return {**row, "Last_Name": f"{known[:70]}{_FILLED}"}


def demanded(fields: Mapping[str, Field], names: set[str]) -> dict[str, Any]:
    """Return values for `names`, seen to be demanded, and for mandatory fields that bots lack."""
    values: dict[str, Any] = {}
    closing, origin = fields.get("Closing_Date"), fields.get("Case_Origin")
    if closing and (closing.required or closing.theirs in names):
        values[closing.theirs] = (datetime.now(UTC) + _CLOSES_IN).date().isoformat()
    if origin and (origin.required or origin.theirs in names):
        options = [option.value for option in origin.options]
        values[origin.theirs] = "Web" if "Web" in options or not options else options[0]
    return values
