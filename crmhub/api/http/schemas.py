"""The marshmallow schemas of the public API's bodies, queries and answers.

Those of answers with records only describe them; `api/http/answers.py` makes these answers.
"""

from __future__ import annotations

from typing import Any, ClassVar

import marshmallow as ma
from marshmallow import fields, validate

from crmhub.api.http.field_types import (
    Between,
    Choice,
    Flag,
    Inner,
    Items,
    Joined,
    Number,
    Properties,
    Scalar,
    Strict,
    Text,
    Words,
    ZonedTime,
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
LIST_SORTS = {**SORTS, "archivedAt": "archived_at"}
ORDERS = {"desc": True, "asc": False}
SINCE = {"updated_since": "updated_at", "created_since": "created_at"}

LIMIT = "Records per page, 1 to 100; 20 unless the cursor says otherwise."
CURSOR = "`cursor.next` of the page before; it brings limit, sort and order along."


ID = {"minimum": 1, "maximum": HIGHEST_ID}


class AssociationsInput(Strict):
    class Meta(Strict.Meta):
        include: ClassVar = {
            kind: Items(Number(metadata=ID), metadata={"description": f"Ids of {kind}."})
            for kind in KINDS
        }


class RecordInput(Strict):
    properties = Properties(required=True)
    associations = Inner(AssociationsInput)


class RecordChange(Strict):
    # With the required ones of a derived schema, one of these fields.
    least_fields = 1

    properties = Properties(
        metadata={
            "description": 'Property name to value; null or "" clears it. May be left out beside'
            " `associations`."
        }
    )
    associations = Inner(AssociationsInput, metadata={"description": "Links to add."})

    @ma.validates_schema
    def _changes_something(self, data: dict[str, Any], **_: Any) -> None:
        if not data.keys() & {"properties", "associations"}:
            raise ma.ValidationError(
                self.fields["properties"].error_messages["required"], "properties"
            )


class MergeInput(Strict):
    document_name = "RecordMerge"

    keep = Number(required=True, metadata={**ID, "description": "The record that stays."})
    merge = Number(
        required=True, metadata={**ID, "description": "The record whose values and links move."}
    )
    properties = Properties(
        metadata={"description": "Values that the kept record gets, as in an update."}
    )


def _batch_of(item: type[ma.Schema], name: str, **more: fields.Field[Any]) -> type[ma.Schema]:
    bounds = {"minItems": 1, "maxItems": MAX_BATCH_INPUTS}
    inputs = Items(Inner(item), required=True, validate=_not_empty, metadata=bounds)
    return Strict.from_dict({"inputs": inputs, **more}, name=name)


def _not_empty(given: list[Any]) -> None:
    if not given:
        raise ma.ValidationError(f"is empty; send 1 to {MAX_BATCH_INPUTS}")


class ReadItem(Strict):
    id = fields.Raw(
        required=True,
        metadata={"type": ["integer", "string"]},
        error_messages=dict.fromkeys(("required", "null"), "is missing; send the id of a record"),
    )


class UpdateItem(RecordChange):
    least_fields = 2

    id = Number(required=True, metadata=ID)


class UpsertItem(RecordChange):
    """Schema of a record to change, found by the value `id` of `idProperty`, or to create."""

    least_fields = 3

    id_property = Text(data_key="idProperty", required=True)
    id = Scalar(required=True)


class ArchiveItem(Strict):
    id = Number(required=True, metadata=ID)


BatchRead = _batch_of(
    ReadItem, "RecordBatchRead", id_property=Text(data_key="idProperty"), properties=Words()
)
BatchCreate = _batch_of(RecordInput, "RecordBatchCreate")
BatchUpdate = _batch_of(UpdateItem, "RecordBatchUpdate")
BatchUpsert = _batch_of(UpsertItem, "RecordBatchUpsert")
BatchArchive = _batch_of(ArchiveItem, "RecordBatchArchive")


class FilterInput(Strict):
    document_name = "Filter"

    property_name = Text(
        data_key="propertyName", required=True, metadata={"description": "Property to test."}
    )
    operator = Text(required=True, metadata={"enum": list(OPERATORS)})
    value = fields.Raw(
        allow_none=True,
        metadata={
            "type": "string",
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
    limit = Between(1, 100, in_query=True, metadata={"description": LIMIT})
    cursor = Text(metadata={"description": CURSOR})


_NAMES = {"description": "Show these properties only."}
_INCLUDE = {"description": "Show these fields as well."}
INCLUDED = ("associations", "createdAt", "updatedAt")


class Sorting(Strict):
    sort = Choice(SORTS, metadata={"description": "What to sort by; date_modified by default."})
    order = Choice(ORDERS, metadata={"description": "Direction; desc by default."})
    updated_since = ZonedTime(
        data_key="updatedSince",
        metadata={
            "description": "Only records with this `updatedAt` or a later one, to the millisecond."
        },
    )
    created_since = ZonedTime(
        data_key="createdSince",
        metadata={
            "description": "Only records with this `createdAt` or a later one, to the millisecond."
        },
    )


class ListQuery(LinkQuery, Sorting):
    properties = Joined(metadata=_NAMES)
    include = Joined(INCLUDED, metadata=_INCLUDE)


class RecordListQuery(ListQuery):
    sort = Choice(
        LIST_SORTS,
        metadata={
            "description": "What to sort by; date_modified by default. archivedAt: only with"
            " `archived=true`."
        },
    )
    archived = Flag(
        in_query=True,
        metadata={
            "description": "The archived records of the last 90 days, with `archivedAt`, instead of"
            " the others.",
        },
    )


class SearchInput(Sorting):
    """Schema of a search's body; all but the filters may also be given in the query string."""

    document_name = "RecordSearch"

    cursor = Text(metadata={"description": CURSOR})
    limit = Between(1, 100, metadata={"description": LIMIT})
    properties = Words(metadata=_NAMES)
    include = Words(INCLUDED, metadata=_INCLUDE)
    filters = Items(
        Inner(FilterInput),
        required=True,
        metadata={"description": "All must hold; none: all records.", "maxItems": MAX_FILTERS},
    )


class GetQuery(Strict):
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
    """Field for a time in an answer, printed from ms since 1970; None and 0 become null."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(metadata={**MOMENT, **kwargs.pop("metadata", {})}, **kwargs)

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> str | None:
        return iso(value) if value else None


class Shown(ma.Schema):
    """Base schema of answers to which later versions may add fields."""

    class Meta:
        unknown = ma.EXCLUDE


class Exactly(ma.Schema):
    """Base schema of answers whose fields are fixed: later versions add no fields."""

    class Meta:
        unknown = ma.RAISE


class ErrorSchema(Exactly):
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
    """Schema of the linked ids; contacts and tickets may be left out if there are none."""

    deals = fields.List(fields.Integer(metadata=ID), required=True)
    companies = fields.List(fields.Integer(metadata=ID), required=True)
    contacts = fields.List(fields.Integer(metadata=ID))
    tickets = fields.List(fields.Integer(metadata=ID))


class RecordShown(Shown):
    id = fields.Integer(required=True, metadata=ID)
    properties = _values()
    associations = fields.Nested(Associations, required=True)
    created_at = fields.String(data_key="createdAt", required=True, metadata=MOMENT)
    updated_at = fields.String(data_key="updatedAt", required=True, metadata=MOMENT)


class UpsertedShown(RecordShown):
    document_name = "UpsertedRecord"

    new = fields.Boolean(required=True)


class ListedShown(Exactly):
    """Schema of a record on a page; the optional fields are there if the request includes them,
    and `archivedAt` for archived records."""

    document_name = "ListedRecord"

    id = fields.Integer(required=True, metadata=ID)
    properties = _values()
    associations = fields.Nested(Associations)
    created_at = fields.String(data_key="createdAt", metadata=MOMENT)
    updated_at = fields.String(data_key="updatedAt", metadata=MOMENT)
    archived_at = fields.String(data_key="archivedAt", metadata=MOMENT)


class CursorShown(Exactly):
    """Schema of the cursor for the next page; both fields are "" on the last page."""

    next = fields.String(required=True)
    next_link = fields.String(data_key="nextLink", required=True)


class PageOf(Exactly):
    """Base schema of a page, without the total number of items, since counting may be slow."""

    cursor = fields.Nested(CursorShown, required=True)
    has_more = fields.Boolean(data_key="hasMore", required=True)


class CountedPage(PageOf):
    total = fields.Integer(required=True, metadata={"minimum": 0})


class PageShown(CountedPage):
    document_name = "RecordPage"

    results = fields.List(fields.Nested(ListedShown), required=True)


class LinkPageShown(CountedPage):
    document_name = "AssociationPage"

    results = fields.List(fields.Integer(metadata=ID), required=True)
