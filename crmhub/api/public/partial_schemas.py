"""The marshmallow schemas of partial batches."""

from __future__ import annotations

from typing import Any

from marshmallow import fields, validate

from crmhub.api.http.field_types import Flag, Strict
from crmhub.api.http.schemas import ID, RecordShown, Shown, UpsertedShown
from crmhub.bounds import MAX_BATCH_INPUTS


class BatchQuery(Strict):
    is_partial = Flag(
        in_query=True,
        data_key="partial",
        metadata={
            "description": "Store the valid inputs, and answer an error for each of the others.",
            "default": False,
        },
    )


_CATEGORIES = (
    "BadRequestError",
    "LimitExceededError",
    "NotFoundError",
    "ConflictError",
    "SemanticError",
)


class RefusedInput(Shown):
    index = fields.Integer(
        required=True,
        metadata={
            "minimum": 0,
            "maximum": MAX_BATCH_INPUTS - 1,
            "description": "The position of the input in `inputs`, from 0.",
        },
    )
    category = fields.String(required=True, validate=validate.OneOf(_CATEGORIES))
    message = fields.String(
        required=True, metadata={"description": "What is wrong, where, and what would be right."}
    )
    existing_id = fields.Integer(
        data_key="existingId",
        metadata={**ID, "description": "The record that has the input's unique value."},
    )


class PartialBatchShown(Shown):
    """Schema of the answer to a partial batch: records and errors, both in input order."""

    results = fields.List(
        fields.Nested(RecordShown),
        required=True,
        metadata={
            "description": "The stored records, in input order: the n-th is that of the n-th input"
            " whose position is not in `errors`."
        },
    )
    errors = fields.List(fields.Nested(RefusedInput), required=True)


class PartialUpsertShown(PartialBatchShown):
    results = fields.List(fields.Nested(UpsertedShown), required=True)


def either(*shapes: Any) -> dict[str, Any]:
    return {"oneOf": list(shapes)}
