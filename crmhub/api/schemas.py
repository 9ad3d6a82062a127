"""The shapes on the wire: what is taken in, and what OpenAPI says of the answers.

Every input goes through a schema; answers are written as bytes (api/answers.py) and documented
here. Types are strict: a string is no number, a boolean no integer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import marshmallow as ma
from marshmallow import fields, validate

from crmhub.records.filters import LONGEST_VALUE, MOST_FILTERS, MOST_VALUES, OPERATORS
from crmhub.records.kinds import KINDS
from crmhub.records.values import NotScalar, from_json

HIGHEST_ID = 2**53 - 1
MOST_INPUTS = 100
SORTS = {
    "date_modified": "updated_at",
    "updatedAt": "updated_at",
    "date_added": "created_at",
    "createdAt": "created_at",
}
ORDERS = {"desc": True, "asc": False}


class Strict(ma.Schema):
    """An object that refuses keys it does not know."""

    error_messages: ClassVar[dict[str, str]] = {"type": "must be a JSON object"}

    class Meta:
        unknown = ma.RAISE

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        names = ", ".join(field.data_key or name for name, field in self.load_fields.items())
        self.error_messages["unknown"] = f"is not known here; known are {names}"


class Text(fields.String):
    """A JSON string, nothing that could be read as one."""

    default_error_messages: ClassVar[dict[str, str]] = {
        "invalid": "must be a string",
        "required": "is missing",
        "null": "must be a string, not null",
    }

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str):
            raise self.make_error("invalid")
        return value


class Number(fields.Integer):
    """A JSON integer; `1.0`, `"1"` and `true` are none."""

    default_error_messages: ClassVar[dict[str, str]] = {
        "invalid": "must be an integer",
        "required": "is missing",
        "null": "must be an integer, not null",
    }

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.make_error("invalid")
        return value


class Flag(fields.Boolean):
    """A JSON boolean."""

    default_error_messages: ClassVar[dict[str, str]] = {
        "invalid": "must be true or false",
        "null": "must be true or false, not null",
    }

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid")
        return value


class Items(fields.List):
    """A JSON array."""

    default_error_messages: ClassVar[dict[str, str]] = {
        "invalid": "must be an array",
        "required": "is missing; send an array",
        "null": "must be an array, not null",
    }


class Inner(fields.Nested):
    """A JSON object inside another."""

    default_error_messages: ClassVar[dict[str, str]] = {
        "type": "must be an object",
        "required": "is missing",
        "null": "must be an object, not null",
    }


class Scalar(fields.Field):
    """A JSON string, number, boolean or null, read as text; null is ""."""

    default_error_messages: ClassVar[dict[str, str]] = {"required": "is missing"}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_none=True, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        return scalar(value)

    def deserialize(self, value: Any, attr: Any = None, data: Any = None, **kwargs: Any) -> Any:
        return "" if value is None else super().deserialize(value, attr, data, **kwargs)


def scalar(value: Any) -> str:
    """Return a JSON scalar as text, or raise ValidationError."""
    try:
        return from_json(value)
    except NotScalar as exc:
        raise ma.ValidationError(f"is {exc}") from None


class Properties(fields.Field):
    """A map of property name to value."""

    default_error_messages: ClassVar[dict[str, str]] = {
        "invalid": "must be an object of property names and values",
        "required": "is missing; send an object of property names and values",
        "null": "must be an object of property names and values, not null",
    }

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            raise self.make_error("invalid")
        problems: dict[str, Any] = {}
        texts = {}
        for name, each in value.items():
            try:
                texts[name] = each if type(each) is str else scalar(each)
            except ma.ValidationError as exc:
                problems[name] = exc.messages
        if problems:
            raise ma.ValidationError(problems)  # type: ignore[arg-type]
        return texts


class Digits(fields.Integer):
    """A whole number of a query string, in plain ASCII digits; also a JSON integer."""

    def __init__(self, lowest: int, highest: int, **kwargs: Any) -> None:
        super().__init__(validate=validate.Range(lowest, highest), **kwargs)
        self._bounds = (lowest, highest)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> int:
        lowest, highest = self._bounds
        text = str(value) if type(value) is int else value
        if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 16:
            number = int(text)
            if lowest <= number <= highest:
                return number
        raise ma.ValidationError(f"must be a whole number from {lowest} to {highest}")


class Choice(Text):
    """One of a few words."""

    def __init__(self, words: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(validate=validate.OneOf(list(words)), **kwargs)
        self._words = words

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, str) or value not in self._words:
            raise ma.ValidationError(f"must be one of {', '.join(self._words)}")
        return value


class Words(fields.List):
    """Comma-joined words of a query string, or a JSON array of strings."""

    def __init__(self, words: tuple[str, ...] = (), **kwargs: Any) -> None:
        inner = fields.String(validate=validate.OneOf(words)) if words else fields.String()
        metadata = {"style": "form", "explode": False, **kwargs.pop("metadata", {})}
        super().__init__(inner, metadata=metadata, **kwargs)
        self._words = words

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list) or not all(isinstance(each, str) for each in parts):
            raise ma.ValidationError("must be names joined by commas")
        names = [each.strip() for each in parts if each.strip()]
        wrong = [each for each in names if self._words and each not in self._words]
        if wrong:
            raise ma.ValidationError(
                f"does not know {wrong[0][:60]!r}; known are {', '.join(self._words)}"
            )
        return tuple(dict.fromkeys(names))


# --- inputs ----------------------------------------------------------------------------------

LIMIT = "Records per page."
CURSOR = "`cursor.next` of the page before; it brings limit, sort and order along."


class AssociationsInput(Strict):
    """The ids to link a new record with, by kind."""


for _name in KINDS:
    AssociationsInput._declared_fields[_name] = Items(
        Number(), metadata={"description": f"Ids of {_name}."}
    )


class RecordInput(Strict):
    """A record to create."""

    properties = Properties(
        required=True, metadata={"description": "Property name to value.", "type": "object"}
    )
    associations = Inner(AssociationsInput)


class RecordChange(Strict):
    """Properties to change; null or "" clears one."""

    properties = Properties(required=True, metadata={"type": "object"})


def _batch(item: Any) -> Items:
    return Items(item, required=True, validate=_inputs)


def _inputs(given: list[Any]) -> None:
    if not 1 <= len(given) <= MOST_INPUTS:
        raise ma.ValidationError(f"{len(given)} inputs; send 1 to {MOST_INPUTS}")


class BatchCreate(Strict):
    """Records to create, all or none."""

    inputs = _batch(Inner(RecordInput))


class ReadItem(Strict):
    """The record to read: its number, or the value of `idProperty`."""

    id = fields.Raw(required=True, metadata={"type": ["integer", "string"]})


class BatchRead(Strict):
    """Records to read; what is not found is left out."""

    inputs = _batch(Inner(ReadItem))
    id_property = Text(data_key="idProperty")
    properties = Words()


class UpdateItem(RecordChange):
    """A record to change."""

    id = Number(required=True)


class BatchUpdate(Strict):
    """Records to change, all or none."""

    inputs = _batch(Inner(UpdateItem))


class UpsertItem(RecordChange):
    """A record to change, or to create when no record has this value yet."""

    id_property = Text(data_key="idProperty", required=True)
    id = Scalar(required=True)


class BatchUpsert(Strict):
    """Records to change or create, all or none."""

    inputs = _batch(Inner(UpsertItem))


class ArchiveItem(Strict):
    """A record to archive."""

    id = Number(required=True)


class BatchArchive(Strict):
    """Records to archive, all or none."""

    inputs = _batch(Inner(ArchiveItem))


class FilterInput(Strict):
    """One condition; all conditions of a search must hold (SPEC 4.4)."""

    property_name = Text(
        data_key="propertyName", required=True, metadata={"description": "Property to test."}
    )
    operator = Text(required=True, metadata={"enum": list(OPERATORS)})
    value = fields.Raw(
        allow_none=True,
        metadata={
            "type": ["string", "number", "boolean", "null"],
            "maxLength": LONGEST_VALUE,
            "description": "For operators of one value.",
        },
    )
    values = Items(
        Scalar(),
        allow_none=True,
        metadata={"description": "For IN and NOT_IN.", "maxItems": MOST_VALUES},
    )

    @ma.validates("value")
    def _one_value(self, value: Any, data_key: str) -> None:
        scalar(value)


class LinkQuery(Strict):
    """Paging of a list of ids."""

    limit = Digits(1, 100, metadata={"description": LIMIT, "default": 20})
    cursor = Text(metadata={"description": CURSOR})


class ListQuery(LinkQuery):
    """Paging, sorting, and what to show (SPEC 4.2, 4.3)."""

    sort = Choice(SORTS, metadata={"description": "What to sort by.", "default": "date_modified"})
    order = Choice(ORDERS, metadata={"description": "Direction.", "default": "desc"})
    properties = Words(metadata={"description": "Show these properties only."})
    include = Words(
        ("associations", "createdAt", "updatedAt"),
        metadata={"description": "Show these fields as well."},
    )


class SearchInput(ListQuery):
    """A search; paging and sorting may stand here or in the query string."""

    filters = Items(
        Inner(FilterInput),
        required=True,
        metadata={"description": "All must hold; none: all records.", "maxItems": MOST_FILTERS},
    )


class GetQuery(Strict):
    """What to show of one record, and by what to find it."""

    id_property = Text(
        data_key="idProperty",
        metadata={"description": "A unique property; the path's id is a value of it."},
    )
    properties = Words(metadata={"description": "Show these properties only."})
    associations = Words(
        tuple(KINDS), metadata={"description": "Show these kinds of links even when empty."}
    )


# --- answers ---------------------------------------------------------------------------------

ID = {"type": "integer", "minimum": 1, "maximum": HIGHEST_ID}
MOMENT = {"format": "date-time", "description": "ISO 8601, UTC, milliseconds."}


class Shown(ma.Schema):
    """The base of what is documented and never loaded."""


class ErrorSchema(Shown):
    """Every answer outside 2xx (SPEC 2.3)."""

    category = fields.String(
        required=True,
        validate=validate.OneOf(
            [
                "BadRequestError",
                "UnauthorizedError",
                "LimitExceededError",
                "ForbiddenError",
                "NotFoundError",
                "ConflictError",
                "SemanticError",
                "ManyRequestError",
                "InternalError",
            ]
        ),
    )
    message = fields.String(
        required=True, metadata={"description": "What is wrong, where, and what would be right."}
    )
    timestamp = fields.String(required=True, metadata=MOMENT)
    status = fields.String(required=True, validate=validate.Equal("error"))


def _values(**kwargs: Any) -> fields.Dict:
    return fields.Dict(keys=fields.String(), values=fields.String(), required=True, **kwargs)


class Associations(Shown):
    """Ids of linked records; contacts and tickets only when there are any or they are asked for."""

    deals = fields.List(fields.Integer(metadata=ID), required=True)
    companies = fields.List(fields.Integer(metadata=ID), required=True)
    contacts = fields.List(fields.Integer(metadata=ID))
    tickets = fields.List(fields.Integer(metadata=ID))


class RecordShown(Shown):
    """A whole record (SPEC 2.1)."""

    id = fields.Integer(required=True, metadata=ID)
    properties = _values()
    associations = fields.Nested(Associations, required=True)
    created_at = fields.String(data_key="createdAt", required=True, metadata=MOMENT)
    updated_at = fields.String(data_key="updatedAt", required=True, metadata=MOMENT)


class UpsertedShown(RecordShown):
    """A whole record, and whether the upsert created it."""

    new = fields.Boolean(required=True)


class ListedShown(Shown):
    """A record of a page; the last three only when asked for."""

    id = fields.Integer(required=True, metadata=ID)
    properties = _values()
    associations = fields.Nested(Associations)
    created_at = fields.String(data_key="createdAt", metadata=MOMENT)
    updated_at = fields.String(data_key="updatedAt", metadata=MOMENT)


class CursorShown(Shown):
    """Where the next page begins; both are "" on the last page."""

    next = fields.String(required=True)
    next_link = fields.String(data_key="nextLink", required=True)


class PageShown(Shown):
    """A page of records (SPEC 2.2)."""

    total = fields.Integer(required=True, metadata={"minimum": 0})
    results = fields.List(fields.Nested(ListedShown), required=True)
    cursor = fields.Nested(CursorShown, required=True)
    has_more = fields.Boolean(data_key="hasMore", required=True)


class LinkPageShown(Shown):
    """A page of ids."""

    total = fields.Integer(required=True, metadata={"minimum": 0})
    results = fields.List(fields.Integer(metadata=ID), required=True)
    cursor = fields.Nested(CursorShown, required=True)
    has_more = fields.Boolean(data_key="hasMore", required=True)
