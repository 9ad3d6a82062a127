"""The definitions of a Pipedrive company under the hub's names, and the values of its fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from adapters.pipedrive.api import ME, PIPELINES, USERS, Api, MissingScope, Record
from adapters.pipedrive.entries import LISTED, stand_in, value, written
from crmhub.adapter import (
    BadConfig,
    Choice,
    Context,
    Kind,
    Linked,
    Owner,
    Pipeline,
    Problem,
    PropertyType,
    Rejected,
    Unsupported,
    Written,
    fields,
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
_OWN: Mapping[Kind, _Own] = {
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
class Field(fields.Field):
    """A field of Pipedrive; `their_type` is "" for one of Pipedrive's own fields."""

    def read(self, record: Record) -> Any:
        held = record.get("custom_fields") if self.their_type else record
        return held.get(self.theirs) if isinstance(held, dict) else None

    def text(self, record: Record) -> str:
        if self.name in LISTED:
            return value(record, self.name)
        stored = self.read(record)
        text = to_text(stored.get("value") if isinstance(stored, dict) else stored)
        return "" if self.theirs == "name" and text == stand_in(record) else text

    def json(self, text: str, currency: str) -> Any:
        """Options are numbers, amounts of custom fields have a currency; "" is None."""
        if not text:
            return None
        if self.type in ("enumeration", "multi_enumeration"):
            ids = [int(part) if part.isdecimal() else part for part in text.split(";")]
            return ids if self.type == "multi_enumeration" else ids[0]
        converted = to_json(self.type, text)
        if self.their_type == "monetary":
            return {"value": converted, "currency": currency}
        return {"value": converted} if self.their_type == "address" else converted


class Definitions(fields.Fields[Field]):
    stale_s = 60.0
    hidden = (MissingScope,)
    types = (Field,)

    def __init__(self, api: Api, context: Context) -> None:
        super().__init__(context, _OWN)
        self._api = api
        self._mark_field = context.settings["mark_field"].casefold()
        self._support = context.settings["support_pipeline"].casefold()
        self._currency = Remembered(self._load_currency, context, name="currency")

    def mark_field(self, kind: Written, *, newer_than: float = HOUR) -> Field | None:
        """Return the text field of the setting `mark_field`, or a deal's source channel ID, or
        None.

        Pipedrive takes that ID though its API file omits it.
        """
        fields = self.fields(kind, newer_than=newer_than)
        for field in fields.values():
            names = (field.theirs.casefold(), field.label.casefold())
            if field.their_type in _TEXT_TYPES and self._mark_field in names:
                return field
        return fields.get(CHANNEL)

    def pipelines(self, kind: Linked, *, newer_than: float = HOUR) -> list[Pipeline]:
        """Raises Unsupported for tickets without `support_pipeline`, BadConfig if unknown."""
        if kind == "tickets" and not self._support:
            raise Unsupported(
                "Pipedrive has no tickets; the setting support_pipeline names a pipeline for them."
            )
        # One list has the pipelines of both kinds.
        pipelines = super().pipelines("deals", newer_than=newer_than)
        named = [one for one in pipelines if self._support in (one.id, one.label.casefold())]
        if kind == "deals":
            return [one for one in pipelines if one not in named]
        if len(named) != 1:
            reason = "Pipedrive has not exactly one pipeline with this name or id"
            problem = Problem("support_pipeline", reason)
            raise BadConfig(f"support_pipeline: {reason}.", problems=[problem])
        return named

    def body(
        self, kind: Written, values: Mapping[str, str], record: Record | None
    ) -> dict[str, Any]:
        """Raises Rejected for a person without any name; `record` is None for a new one."""
        fields, old = self.fields(kind), record or {}
        body: dict[str, Any] = {}
        custom: dict[str, Any] = {}
        for name, text in values.items():
            if name not in LISTED:
                field = fields[name]
                currency = self._currency_of(field, old) if field.their_type == "monetary" else ""
                (custom if field.their_type else body)[field.theirs] = field.json(text, currency)
        if kind == "contacts":
            body |= written(old, values)
            if record is None or "name" in body or old.get("name") == stand_in(old):
                body["name"] = values.get("name") or stand_in({**old, **body})
                if not body["name"]:
                    raise Rejected([Problem("name", "a person needs a name, an email or a phone")])
        if record is None:
            body, custom = ({n: v for n, v in of.items() if v} for of in (body, custom))
        return {**body, "custom_fields": custom} if custom else body

    def _currency_of(self, field: Field, record: Record) -> str:
        stored = field.read(record)
        return (isinstance(stored, dict) and stored.get("currency")) or self._currency.get()

    def _load_currency(self) -> str:
        _, user = self._api.record("GET", "users", "me", version="v1", cost=ME)
        return str(user.get("default_currency") or "")

    def load_owners(self) -> list[Owner]:
        users = self._api.listed("users", params={}, version="v1", cost=USERS)
        return [
            Owner(answer.id(user), text_of(user.get("email")), text_of(user.get("name")))
            for answer, user in users
            if user.get("active_flag", True) and not user.get("is_deleted")
        ]

    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        stages: dict[str, list[Choice]] = {}
        params = {"sort_by": "order_nr"}
        for answer, stage in self._api.listed("stages", params=params, cost=PIPELINES):
            if not stage.get("is_deleted"):
                choice = Choice(answer.id(stage), str(stage.get("name")))
                stages.setdefault(str(stage.get("pipeline_id")), []).append(choice)
        # The list of pipelines cannot be sorted by their order.
        pipelines = sorted(
            (str(one.get("order_nr")).zfill(9), answer.id(one), str(one.get("name")))
            for answer, one in self._api.listed("pipelines", params={}, cost=PIPELINES)
            if not one.get("is_deleted")
        )
        return [Pipeline(id, name, tuple(stages.get(id, ()))) for _, id, name in pipelines]

    def load_fields(self, kind: Kind) -> Iterator[Field]:
        path = "personFields" if kind == "contacts" else "dealFields"
        listed = self._api.listed(path, params={"limit": "500"})
        told = {text_of(item.get("field_code")): item for _, item in listed}
        for name, (key, type) in _OWN[kind].items():
            yield _field(name, key, type, told.pop(key, {}))
        for key, item in told.items():
            # Further fields of Pipedrive's own: a record shows some only on demand.
            if key not in _OWN[kind] and not item.get("is_optional_response_field"):
                custom = text_of(item.get("field_type")) if item.get("is_custom_field") else ""
                yield _field(key, key, _CUSTOM.get(custom), item, custom)


def _field(name: str, key: str, type: PropertyType | None, item: Record, custom: str = "") -> Field:
    listed = item.get("options") if type in ("enumeration", "multi_enumeration") else None
    return Field(
        name,
        text_of(item.get("field_name")) or name,
        type or "string",
        tuple(
            Choice(text_of(option.get("id")), text_of(option.get("label")))
            for option in objects_in(listed)
        ),
        read_only=type is None,
        required=name in _REQUIRED,
        theirs=key,
        their_type=custom,
        longest=_LONGEST_LINE if type == "string" else 0,
    )
