"""Pipedrive's fields under the hub's names, and the conversion of their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from adapters.pipedrive.api import ME, USERS, Api, MissingScope, Record
from adapters.pipedrive.entries import LISTED, stand_in, value, written
from adapters.pipedrive.pipelines import Pipelines
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
    Written,
)
from crmhub.adapter.answers import objects_in, text_of
from crmhub.adapter.remembered import HOUR, Remembered
from crmhub.adapter.types import to_json, to_text

OWNER = "hubspot_owner_id"
CHANNEL = "channel_id"
_LONGEST_LINE = 255
# Pipedrive's own fields that can be written, by the hub's names: Pipedrive's name, and the type.
_Own = Mapping[str, tuple[str, PropertyType]]
_OF_ALL: _Own = {
    OWNER: ("owner_id", "enumeration"),
    "org_id": ("org_id", "number"),
    "visible_to": ("visible_to", "number"),
    "label_ids": ("label_ids", "multi_enumeration"),
}
_OF_DEALS: _Own = {
    "amount": ("value", "currency"),
    "currency": ("currency", "string"),
    "closedate": ("expected_close_date", "date"),
    "status": ("status", "enumeration"),
    CHANNEL: (CHANNEL, "string"),
    **_OF_ALL,
}
_OWN: Mapping[Written, _Own] = {
    "contacts": {
        "name": ("name", "string"),
        "email": ("email", "email"),
        "phone": ("phone", "phone"),
        "mobilephone": ("mobilephone", "phone"),
        **_OF_ALL,
    },
    "deals": {
        "dealname": ("title", "string"),
        "pipeline": ("pipeline_id", "enumeration"),
        "dealstage": ("stage_id", "enumeration"),
        **_OF_DEALS,
    },
    "tickets": {
        "subject": ("title", "string"),
        "hs_pipeline": ("pipeline_id", "enumeration"),
        "hs_pipeline_stage": ("stage_id", "enumeration"),
        **_OF_DEALS,
    },
}
_REQUIRED = ("dealname", "subject")
# The types of custom fields that can be written.
_CUSTOM: Mapping[str, PropertyType] = {
    "varchar": "string",
    "varchar_auto": "string",
    "text": "text",
    "address": "string",
    "phone": "phone",
    "double": "number",
    "user": "number",
    "org": "number",
    "people": "number",
    "monetary": "currency",
    "date": "date",
    "enum": "enumeration",
    "set": "multi_enumeration",
}
_TEXT_TYPES = ("varchar", "text")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of Pipedrive: its definition under the hub's name, and its name in Pipedrive.

    `custom` is Pipedrive's type of a custom field; "" for one of Pipedrive's own fields.
    """

    described: Described
    key: str
    custom: str = ""

    def read(self, record: Record) -> Any:
        """Return the field's value in a record, as Pipedrive's JSON; None if it has none."""
        fields = record.get("custom_fields") if self.custom else record
        return fields.get(self.key) if isinstance(fields, dict) else None

    def text(self, record: Record) -> str:
        """Return the field's value in a record, in the form of its type; "" if it has none."""
        if self.described.name in LISTED:
            return value(record, self.described.name)
        stored = self.read(record)
        text = to_text(stored.get("value") if isinstance(stored, dict) else stored)
        return "" if self.key == "name" and text == stand_in(record) else text

    def json(self, text: str, currency: str) -> Any:
        """Return a text in the form of the field's type as Pipedrive's JSON; None for "".

        Options are numbers, amounts of custom fields have a currency.
        """
        kind = self.described.type
        if not text:
            return None
        if kind in ("enumeration", "multi_enumeration"):
            ids = [int(part) if part.isdecimal() else part for part in text.split(";")]
            return ids if kind == "multi_enumeration" else ids[0]
        converted = to_json(kind, text)
        if self.custom == "monetary":
            return {"value": converted, "currency": currency}
        return {"value": converted} if self.custom == "address" else converted


class Fields:
    """The fields, pipelines and users of a Pipedrive company: what `Fitting` converts by.

    They are loaded once an hour. All processes share the fields and pipelines.
    """

    stale_s = 60.0
    hidden = (MissingScope,)

    def __init__(self, api: Api, context: Context) -> None:
        self._api = api
        self._mark_field = context.settings["mark_field"].casefold()
        self._fields = {
            kind: Remembered(
                partial(self._load, kind), context, name=f"fields {kind}", types=(Field,)
            )
            for kind in _OWN
        }
        self._pipelines = Pipelines(api, context)
        self._owners = Remembered(self._load_owners, context)
        self._currency = Remembered(self._load_currency, context, name="currency")

    def of(self, kind: Written, *, newer_than: float = HOUR) -> Mapping[str, Field]:
        """Return the fields of a kind of record by the hub's names, at most so many seconds old."""
        return self._fields[kind].get(newer_than=newer_than)

    def properties(
        self, kind: Kind, names: Iterable[str], *, newer_than: float = HOUR
    ) -> Mapping[str, Described]:
        """Return the definitions of the properties `names` by name; leave out unknown names."""
        if kind == "companies":
            return {}
        fields = self.of(kind, newer_than=newer_than)
        return {name: fields[name].described for name in names if name in fields}

    def pipelines(self, kind: Linked, *, newer_than: float = HOUR) -> list[Pipeline]:
        """Return the pipelines for deals or for tickets; raises the errors of `Pipelines.of`."""
        return self._pipelines.of(kind, newer_than=newer_than)

    def owners(self, *, newer_than: float = HOUR) -> list[Owner]:
        """Return the active users of the company."""
        return self._owners.get(newer_than=newer_than)

    def mark(self, kind: Written, *, newer_than: float = HOUR) -> Field | None:
        """Return the field for the hub's marks; None if there is none.

        It is the custom text field that the setting `mark_field` names, or else the source channel
        ID of a deal, which Pipedrive takes though its API file does not name it.
        """
        fields = self.of(kind, newer_than=newer_than)
        for field in fields.values():
            names = (field.key.casefold(), field.described.label.casefold())
            if field.custom in _TEXT_TYPES and self._mark_field in names:
                return field
        return fields.get(CHANNEL)

    def body(
        self, kind: Written, values: Mapping[str, str], record: Record | None, *, newer_than: float
    ) -> dict[str, Any]:
        """Return the JSON that writes fitted values to a record; None is a new record.

        Raises Rejected for a line that is too long, and for a person without any name.
        """
        fields = self.of(kind, newer_than=newer_than)
        long = [
            Problem(name, f"is longer than {_LONGEST_LINE} characters")
            for name, text in values.items()
            if fields[name].described.type == "string" and len(text) > _LONGEST_LINE
        ]
        if long:
            raise Rejected(long)
        body: dict[str, Any] = {}
        custom: dict[str, Any] = {}
        for name, text in values.items():
            if name not in LISTED:
                field = fields[name]
                currency = (
                    self._currency_of(field, record or {}) if field.custom == "monetary" else ""
                )
                (custom if field.custom else body)[field.key] = field.json(text, currency)
        if kind == "contacts":
            body |= written(record or {}, values)
            if record is None or "name" in body or record.get("name") == stand_in(record):
                body["name"] = values.get("name") or stand_in({**(record or {}), **body})
                if not body["name"]:
                    raise Rejected([Problem("name", "a person needs a name, an email or a phone")])
        if record is None:
            body, custom = ({n: v for n, v in of.items() if v} for of in (body, custom))
        return {**body, "custom_fields": custom} if custom else body

    def renamed(self, kind: Written, refused: Rejected) -> Rejected:
        """Return Pipedrive's refusal with the hub's names of the refused properties."""
        names = {field.key: name for name, field in self.of(kind).items()}
        refused.rename(lambda key: names.get(key, key))
        return refused

    def _currency_of(self, field: Field, record: Record) -> str:
        stored = field.read(record)
        return (isinstance(stored, dict) and stored.get("currency")) or self._currency.get()

    def _load_currency(self) -> str:
        _, user = self._api.record("GET", "users", "me", version="v1", cost=ME)
        return str(user.get("default_currency") or "")

    def _load_owners(self) -> list[Owner]:
        users = self._api.listed("users", params={}, version="v1", cost=USERS)
        return [
            Owner(answer.id(user), text_of(user.get("email")), text_of(user.get("name")))
            for answer, user in users
            if user.get("active_flag", True) and not user.get("is_deleted")
        ]

    def _load(self, kind: Written) -> dict[str, Field]:
        path = "personFields" if kind == "contacts" else "dealFields"
        listed = self._api.listed(path, params={"limit": "500"})
        told = {text_of(item.get("field_code")): item for _, item in listed}
        fields = {
            name: Field(_described(name, type, told.pop(key, {}), read_only=False), key)
            for name, (key, type) in _OWN[kind].items()
        }
        for key, item in told.items():
            # Further fields of Pipedrive's own: a record shows some only on demand.
            if key not in fields and not item.get("is_optional_response_field"):
                custom = text_of(item.get("field_type")) if item.get("is_custom_field") else ""
                type = _CUSTOM.get(custom)
                described = _described(key, type or "string", item, read_only=type is None)
                fields[key] = Field(described, key, custom)
        return fields


def _described(name: str, type: PropertyType, item: Record, *, read_only: bool) -> Described:
    listed = item.get("options") if type in ("enumeration", "multi_enumeration") else None
    options = tuple(
        Choice(text_of(option.get("id")), text_of(option.get("label")))
        for option in objects_in(listed)
    )
    label = text_of(item.get("field_name")) or name
    return Described(name, label, type, options, read_only, required=name in _REQUIRED)
