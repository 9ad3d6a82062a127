"""The schemas of the public API's inputs and answers.

Schemas check every input. The answers with records are printed by `api/http/answers.py`; their
schemas here only describe them for OpenAPI.
"""

from __future__ import annotations

from typing import Any, ClassVar

import marshmallow as ma
from marshmallow import fields, validate

from crmhub.api.field_types import (
    SCALARS,
    Between,
    Choice,
    Inner,
    Items,
    Joined,
    Number,
    Properties,
    Scalar,
    Strict,
    Text,
    Words,
    scalar,
)
from crmhub.bounds import (
    MAX_BATCH_INPUTS,
    MAX_FILTER_VALUE_LENGTH,
    MAX_FILTER_VALUES,
    MAX_FILTERS,
    MAX_PART_LENGTH,
)
from crmhub.properties.kinds import KINDS
from crmhub.records.search.filters import OPERATORS, iso

HIGHEST_ID = 2**53 - 1
SORTS = {
    "date_modified": "updated_at",
    "updatedAt": "updated_at",
    "date_added": "created_at",
    "createdAt": "created_at",
}
ORDERS = {"desc": True, "asc": False}

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
    """A record to read, by its id or by a value of `idProperty`."""

    id = fields.Raw(
        required=True,
        metadata={"type": ["integer", "string"]},
        error_messages=dict.fromkeys(("required", "null"), "is missing; send the id of a record"),
    )


class BatchRead(Strict):
    """Records to read; missing records are left out of the answer."""

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
    """The paging of a list of ids."""

    limit = Between(1, 100, in_query=True, metadata={"description": LIMIT, "default": 20})
    cursor = Text(metadata={"description": CURSOR})


_NAMES = {"description": "Show these properties only."}
_INCLUDE = {"description": "Show these fields as well."}
_FIELDS = ("associations", "createdAt", "updatedAt")


class Sorting(Strict):
    """The sort order of a list."""

    sort = Choice(SORTS, metadata={"description": "What to sort by.", "default": "date_modified"})
    order = Choice(ORDERS, metadata={"description": "Direction.", "default": "desc"})


class ListQuery(LinkQuery, Sorting):
    """The paging and sort order of a list, and the fields to show."""

    properties = Joined(metadata=_NAMES)
    include = Joined(_FIELDS, metadata=_INCLUDE)


class SearchInput(Sorting):
    """A search; its paging and sort order may also be given in the query string."""

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
    """The fields of a record to show, and the property whose value finds it."""

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


class Moment(fields.String):
    """A time, printed from milliseconds since 1970; null for None and 0."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(metadata={**MOMENT, **kwargs.pop("metadata", {})}, **kwargs)

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> str | None:
        return iso(value) if value else None


class Shown(ma.Schema):
    """The base of answers to which later versions may add fields."""

    class Meta:
        unknown = ma.EXCLUDE


class Exactly(ma.Schema):
    """The base of answers whose fields never change."""

    class Meta:
        unknown = ma.RAISE


class ErrorSchema(Exactly):
    """The body of every answer outside 2xx."""

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
    """The ids of linked records; contacts and tickets only if there are any or if requested."""

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
    """A record of a page; the last three fields only if they were requested."""

    id = fields.Integer(required=True, metadata=ID)
    properties = _values()
    associations = fields.Nested(Associations)
    created_at = fields.String(data_key="createdAt", metadata=MOMENT)
    updated_at = fields.String(data_key="updatedAt", metadata=MOMENT)


class CursorShown(Exactly):
    """The cursor of the next page; both fields are "" on the last page."""

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
