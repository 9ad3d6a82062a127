"""Schemas and functions that make the JSON of possible duplicates.

The admin API answers with this JSON, and `crmhub duplicates --json` prints it.
"""

from __future__ import annotations

from typing import Any

from marshmallow import fields, validate

from crmhub.api.http.schemas import Moment, Shown
from crmhub.identity.possible_duplicates import STATES
from crmhub.operators.duplicates.compare_contacts import Preview

_NEVER = {"description": "null: not, or not any more."}


class DuplicateShown(Shown):
    """Schema of a pair: two contacts that may be the same person."""

    contact_ids = fields.List(
        fields.String(), attribute="ids", data_key="contactIds", required=True
    )
    shares = fields.List(
        fields.String(), required=True, metadata={"description": "phone, name or both."}
    )
    state = fields.String(required=True, validate=validate.OneOf(STATES))
    found_at = Moment(data_key="foundAt", required=True)
    decided_at = Moment(data_key="decidedAt", required=True, allow_none=True, metadata=_NEVER)
    decided_by = fields.String(
        data_key="decidedBy",
        required=True,
        metadata={"description": 'Who merged or dismissed it; "" for the CRM itself.'},
    )
    kept_id = fields.String(data_key="keptId", required=True)
    unmerge_until = Moment(data_key="unmergeUntil", required=True, allow_none=True, metadata=_NEVER)


class ContactComparedShown(Shown):
    contact_id = fields.String(attribute="id", data_key="contactId", required=True)
    exists = fields.Boolean(required=True)
    created_at = Moment(data_key="createdAt", required=True, allow_none=True, metadata=_NEVER)
    url = fields.String(required=True, metadata={"description": "Its page in the CRM."})
    error = fields.String(
        required=True, metadata={"description": "Why the CRM could not show the contact."}
    )
    properties = fields.Dict(keys=fields.String(), values=fields.String(), required=True)


def preview_shown(found: Preview) -> dict[str, Any]:
    return {
        **DuplicateShown().dump(found.pair),
        "contacts": ContactComparedShown(many=True).dump(found.sides),
        "obstacle": found.obstacle,
        "version": found.version,
        "properties": [
            {
                "name": value.name,
                "label": value.label,
                "from": value.winner,
                "value": value.of[value.winner],
            }
            for value in found.values
        ],
        "moves": dict(found.moves),
    }
