"""The shapes on the wire: what is taken in, and what OpenAPI says of the answers.

Every input goes through a schema; answers are written as bytes (api/answers.py) and documented
here. Types are strict: a string is no number, a boolean no integer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import marshmallow as ma
from marshmallow import fields, validate

from crmhub.bounds import (
    MAX_BATCH_INPUTS,
    MAX_FILTER_VALUE_LENGTH,
    MAX_FILTER_VALUES,
    MAX_FILTERS,
    MAX_PART_LENGTH,
    MAX_PROPERTIES,
    MAX_TEXT_LENGTH,
)
from crmhub.properties.kinds import KINDS
from crmhub.properties.values import NotScalar, from_json
from crmhub.records.search.filters import OPERATORS

HIGHEST_ID = 2**53 - 1
SORTS = {
    "date_modified": "updated_at",
    "updatedAt": "updated_at",
    "date_added": "created_at",
    "createdAt": "created_at",
}
ORDERS = {"desc": True, "asc": False}


# As marshmallow types them.
Messages = dict[str, str | list[Any] | dict[Any, Any]]


class Strict(ma.Schema):
    """An object that refuses keys it does not know."""

    error_messages: dict[str, str] = {"type": "must be a JSON object"}

    class Meta:
        unknown = ma.RAISE

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        names = ", ".join(field.data_key or name for name, field in self.load_fields.items())
        self.error_messages["unknown"] = f"is not known here; known are {names}"


class Text(fields.String):
    """A JSON string, nothing that could be read as one."""

    default_error_messages: Messages = {
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

    default_error_messages: Messages = {
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

    default_error_messages: Messages = {
        "invalid": "must be true or false",
        "null": "must be true or false, not null",
    }

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid")
        return value


# More faults than are told in words; an array of half a million would take long to look through.
_MOST_FAULTS = 25


class Items(fields.List[Any]):
    """A JSON array of at most as many items as `maxItems` among its metadata says."""

    default_error_messages: Messages = {
        "invalid": "must be an array",
        "required": "is missing; send an array",
        "null": "must be an array, not null",
        "long": "{length} {items}; send {bounds}",
    }

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.make_error("invalid")
        least, most = self.metadata.get("minItems"), self.metadata.get("maxItems")
        if most is not None and len(value) > most:
            bounds = f"{least} to {most}" if least else f"at most {most}"
            raise self.make_error("long", length=len(value), items=attr, bounds=bounds)
        items = []
        faults: dict[int, Any] = {}
        for i, each in enumerate(value):
            try:
                items.append(self.inner.deserialize(each, **kwargs))
            except ma.ValidationError as exc:
                faults[i] = exc.messages
                if len(faults) == _MOST_FAULTS:
                    break
        if faults:
            raise ma.ValidationError(faults)
        return items


class Inner(fields.Nested):
    """A JSON object inside another."""

    default_error_messages: Messages = {
        "type": "must be an object",
        "required": "is missing",
        "null": "must be an object, not null",
    }


SCALARS = ["string", "number", "boolean"]


class Scalar(fields.Field[str]):
    """A JSON string, number, boolean or null, read as text; null is "".

    A `type` among the metadata that names no boolean refuses them.
    """

    default_error_messages: Messages = {
        "required": "is missing",
        "boolean": "must be a string or a number",
    }

    def __init__(self, **kwargs: Any) -> None:
        metadata = {"type": SCALARS, **kwargs.pop("metadata", {})}
        super().__init__(allow_none=True, metadata=metadata, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        if isinstance(value, bool) and "boolean" not in self.metadata["type"]:
            raise self.make_error("boolean")
        return scalar(value)

    def deserialize(self, value: Any, attr: Any = None, data: Any = None, **kwargs: Any) -> Any:
        return "" if value is None else super().deserialize(value, attr, data, **kwargs)


def scalar(value: Any) -> str:
    """Return a JSON scalar as text, or raise ValidationError."""
    try:
        return from_json(value)
    except NotScalar as exc:
        raise ma.ValidationError(f"is {exc}") from None


class Properties(fields.Field[dict[str, str]]):
    """A map of property name to value."""

    def __init__(self, **kwargs: Any) -> None:
        shape = {
            "type": "object",
            "additionalProperties": {"type": [*SCALARS, "null"], "maxLength": MAX_TEXT_LENGTH},
            "maxProperties": MAX_PROPERTIES,
            "description": "Property name to value.",
        }
        super().__init__(metadata={**shape, **kwargs.pop("metadata", {})}, **kwargs)

    default_error_messages: Messages = {
        "invalid": "must be an object of property names and values",
        "required": "is missing; send an object of property names and values",
        "null": "must be an object of property names and values, not null",
    }

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            raise self.make_error("invalid")
        if len(value) > MAX_PROPERTIES:
            raise ma.ValidationError(f"has {len(value)} properties; send at most {MAX_PROPERTIES}")
        problems: dict[str, Any] = {}
        texts = {}
        for name, each in value.items():
            try:
                text = texts[name] = each if type(each) is str else scalar(each)
                if len(text) > MAX_TEXT_LENGTH:
                    problems[name] = [
                        f"{len(text)} characters long; send at most {MAX_TEXT_LENGTH}"
                    ]
            except ma.ValidationError as exc:
                problems[name] = exc.messages
        if problems:
            raise ma.ValidationError(problems)
        return texts


class Between(Number):
    """A JSON integer within bounds, both included; in a query string its ASCII digits."""

    def __init__(self, lowest: int, highest: int, *, in_query: bool = False, **kwargs: Any) -> None:
        super().__init__(validate=validate.Range(lowest, highest), **kwargs)
        self._bounds = (lowest, highest)
        self._in_query = in_query

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> int:
        if self._in_query and value.isascii() and value.isdigit() and len(value) <= 16:
            value = int(value)
        lowest, highest = self._bounds
        if type(value) is int and lowest <= value <= highest:
            return value
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


class Words(fields.List[Any]):
    """A JSON array of strings, each kept once; of `words` only, when there are any."""

    _SHAPE = "must be an array of strings"
    default_error_messages: Messages = {"null": f"{_SHAPE}, not null"}

    def __init__(self, words: tuple[str, ...] = (), **kwargs: Any) -> None:
        inner = fields.String(validate=validate.OneOf(words)) if words else fields.String()
        super().__init__(inner, **kwargs)
        self._words = words

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ma.ValidationError(self._SHAPE)
        wrong = [each for each in value if self._words and each not in self._words]
        if wrong:
            raise ma.ValidationError(
                f"does not know {wrong[0][:60]!r}; known are {', '.join(self._words)}"
            )
        return tuple(dict.fromkeys(value))


class Joined(Words):
    """Words of a query string, joined by commas."""

    _SHAPE = "must be names joined by commas"

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        words = value.split(",") if value.strip() else []
        return super()._deserialize([each.strip() for each in words], attr, data, **kwargs)


# --- inputs ----------------------------------------------------------------------------------

LIMIT = "Records per page."
CURSOR = "`cursor.next` of the page before; it brings limit, sort and order along."


ID = {"minimum": 1, "maximum": HIGHEST_ID}


class AssociationsInput(Strict):
    """The ids to link a new record with, by kind."""

    class Meta(Strict.Meta):
        include: ClassVar = {
            kind: Items(Number(metadata=ID), metadata={"description": f"Ids of {kind}."})
            for kind in KINDS
        }


class RecordInput(Strict):
    """A record to create."""

    properties = Properties(required=True)
    associations = Inner(AssociationsInput)


class RecordChange(Strict):
    """Properties to change."""

    properties = Properties(
        required=True, metadata={"description": 'Property name to value; null or "" clears it.'}
    )


def _batch(item: Any) -> Items:
    bounds = {"minItems": 1, "maxItems": MAX_BATCH_INPUTS}
    return Items(item, required=True, validate=_not_empty, metadata=bounds)


def _not_empty(given: list[Any]) -> None:
    if not given:
        raise ma.ValidationError(f"is empty; send 1 to {MAX_BATCH_INPUTS}")


class BatchCreate(Strict):
    """Records to create, all or none."""

    inputs = _batch(Inner(RecordInput))


class ReadItem(Strict):
    """The record to read: its number, or the value of `idProperty`."""

    id = fields.Raw(
        required=True,
        metadata={"type": ["integer", "string"]},
        error_messages=dict.fromkeys(("required", "null"), "is missing; send the id of a record"),
    )


class BatchRead(Strict):
    """Records to read; what is not found is left out."""

    inputs = _batch(Inner(ReadItem))
    id_property = Text(data_key="idProperty")
    properties = Words()


class UpdateItem(RecordChange):
    """A record to change."""

    id = Number(required=True, metadata=ID)


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

    id = Number(required=True, metadata=ID)


class BatchArchive(Strict):
    """Records to archive, all or none."""

    inputs = _batch(Inner(ArchiveItem))


class FilterInput(Strict):
    """One condition; all conditions of a search must hold."""

    property_name = Text(
        data_key="propertyName", required=True, metadata={"description": "Property to test."}
    )
    operator = Text(required=True, metadata={"enum": list(OPERATORS)})
    value = fields.Raw(
        allow_none=True,
        metadata={
            "type": SCALARS,
            "minLength": 1,
            "maxLength": MAX_FILTER_VALUE_LENGTH,
            "description": "For operators of one value; at most"
            f" {MAX_PART_LENGTH} characters for CONTAINS_TOKEN and NOT_CONTAINS_TOKEN.",
        },
    )
    values = Items(
        Scalar(metadata={"minLength": 1, "maxLength": MAX_FILTER_VALUE_LENGTH}),
        allow_none=True,
        metadata={
            "description": "For IN and NOT_IN.",
            "minItems": 1,
            "maxItems": MAX_FILTER_VALUES,
        },
    )

    @ma.validates("value")
    def _one_value(self, value: Any, data_key: str) -> None:
        scalar(value)


class LinkQuery(Strict):
    """Paging of a list of ids."""

    limit = Between(1, 100, in_query=True, metadata={"description": LIMIT, "default": 20})
    cursor = Text(metadata={"description": CURSOR})


_NAMES = {"description": "Show these properties only."}
_INCLUDE = {"description": "Show these fields as well."}
_FIELDS = ("associations", "createdAt", "updatedAt")


class Sorting(Strict):
    """What to sort by and in which direction."""

    sort = Choice(SORTS, metadata={"description": "What to sort by.", "default": "date_modified"})
    order = Choice(ORDERS, metadata={"description": "Direction.", "default": "desc"})


class ListQuery(LinkQuery, Sorting):
    """Paging, sorting, and what to show."""

    properties = Joined(metadata=_NAMES)
    include = Joined(_FIELDS, metadata=_INCLUDE)


class SearchInput(Sorting):
    """A search; paging and sorting may stand here or in the query string."""

    cursor = Text(metadata={"description": CURSOR})
    limit = Between(1, 100, metadata={"description": LIMIT, "default": 20})
    properties = Words(metadata=_NAMES)
    include = Words(_FIELDS, metadata=_INCLUDE)
    filters = Items(
        Inner(FilterInput),
        required=True,
        metadata={"description": "All must hold; none: all records.", "maxItems": MAX_FILTERS},
    )


class GetQuery(Strict):
    """What to show of one record, and by what to find it."""

    id_property = Text(
        data_key="idProperty",
        metadata={"description": "A unique property; the path's id is a value of it."},
    )
    properties = Joined(metadata=_NAMES)
    associations = Joined(
        tuple(KINDS), metadata={"description": "Show these kinds of links even when empty."}
    )


# --- answers ---------------------------------------------------------------------------------

MOMENT = {
    "format": "date-time",
    "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$",
    "description": "ISO 8601, UTC, milliseconds.",
}


class Shown(ma.Schema):
    """The base of what is documented and never loaded; a later version may show more."""

    class Meta:
        unknown = ma.EXCLUDE


class Exactly(ma.Schema):
    """The base of what the specification lists to the last key."""

    class Meta:
        unknown = ma.RAISE


class ErrorSchema(Exactly):
    """Every answer outside 2xx."""

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
    """A whole record."""

    id = fields.Integer(required=True, metadata=ID)
    properties = _values()
    associations = fields.Nested(Associations, required=True)
    created_at = fields.String(data_key="createdAt", required=True, metadata=MOMENT)
    updated_at = fields.String(data_key="updatedAt", required=True, metadata=MOMENT)


class UpsertedShown(RecordShown):
    """A whole record, and whether the upsert created it."""

    new = fields.Boolean(required=True)


class ListedShown(Exactly):
    """A record of a page; the last three only when asked for."""

    id = fields.Integer(required=True, metadata=ID)
    properties = _values()
    associations = fields.Nested(Associations)
    created_at = fields.String(data_key="createdAt", metadata=MOMENT)
    updated_at = fields.String(data_key="updatedAt", metadata=MOMENT)


class CursorShown(Exactly):
    """Where the next page begins; both are "" on the last page."""

    next = fields.String(required=True)
    next_link = fields.String(data_key="nextLink", required=True)


class PageShown(Exactly):
    """A page of records."""

    total = fields.Integer(required=True, metadata={"minimum": 0})
    results = fields.List(fields.Nested(ListedShown), required=True)
    cursor = fields.Nested(CursorShown, required=True)
    has_more = fields.Boolean(data_key="hasMore", required=True)


class LinkPageShown(Exactly):
    """A page of ids."""

    total = fields.Integer(required=True, metadata={"minimum": 0})
    results = fields.List(fields.Integer(metadata=ID), required=True)
    cursor = fields.Nested(CursorShown, required=True)
    has_more = fields.Boolean(data_key="hasMore", required=True)
