"""The schemas of the helpers' answers, and other parts of their OpenAPI description."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import marshmallow as ma
from marshmallow import fields

from crmhub.api.http.authentication import HEADER as API_KEY
from crmhub.api.http.authentication import SECRET
from crmhub.api.http.document_components import IDEMPOTENCY_KEY
from crmhub.api.http.document_schemas import name_enum
from crmhub.api.http.schemas import Shown

CHANNELS = MappingProxyType(
    {"messenger": "", "instagram": "instagram", "whatsapp": "whatsapp", "telegram": "telegram"}
)
"""The `type` of a Manychat answer by the query parameter `channel`; "" for no type."""
STATUSES = ("created", "updated", "unchanged", "queued", "ok", "error")


class Answer(Shown):
    class Meta:
        # Requested properties are further keys, and later versions may add keys.
        unknown = ma.INCLUDE

    status = fields.String(required=True, metadata={"enum": list(STATUSES)})
    message = fields.String(required=True, metadata={"description": "What was refused, and why."})
    actionId = fields.String(
        required=True,
        metadata={"description": "Of a helper that writes: the action, for support. Else blank."},
    )
    stale = fields.String(
        required=True, metadata={"description": '"true" when the values are the last known ones.'}
    )
    refused = fields.String(
        required=True, metadata={"description": "Names of properties that were not taken."}
    )
    category = fields.String(metadata={"description": "Of an error, where errors are soft."})


class ChatfuelAnswer(ma.Schema):
    class Meta:
        unknown = ma.RAISE

    set_attributes = fields.Dict(
        keys=fields.String(),
        values=fields.Raw(metadata={"type": ["string", "integer"]}),
        required=True,
    )


class ManychatAction(ma.Schema):
    """Schema of an action of Manychat: a field gets the value, or loses the one that it had."""

    action = fields.String(
        required=True, metadata={"enum": ["set_field_value", "unset_field_value"]}
    )
    field_name = fields.String(required=True)
    value = fields.Raw(metadata={"type": ["string", "integer"]})


class ManychatContent(ma.Schema):
    type = fields.String(
        metadata={
            "enum": [type for type in CHANNELS.values() if type],
            "description": "The channel, as `channel` in the query names it; none for Messenger.",
        }
    )
    messages = fields.List(fields.Dict(), required=True)
    actions = fields.List(fields.Nested(ManychatAction), required=True)
    quick_replies = fields.List(fields.Dict())


class ManychatAnswer(ma.Schema):
    """Schema of a helper's answer with `format=manychat`: a dynamic block that stores its keys."""

    version = fields.String(required=True, metadata={"enum": ["v2"]})
    content = fields.Nested(ManychatContent, required=True)


SHAPES: Mapping[str, type[ma.Schema]] = MappingProxyType(
    {"chatfuel": ChatfuelAnswer, "manychat": ManychatAnswer}
)
"""The schema of each form but `flat`, which has a schema for each helper."""
name_enum("AnswerFormat", ["flat", *SHAPES])
name_enum("AnswerStatus", STATUSES)
FORMAT = {
    "in": "query",
    "name": "format",
    "description": "The form of the answer: flat by default; others for the builders of that name.",
    "required": False,
    "schema": {"type": "string", "enum": ["flat", *SHAPES]},
    "example": "flat",
}
CREDENTIALS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        name: {
            "in": "header",
            "name": name,
            "description": description,
            "required": False,
            "schema": {"type": "string"},
        }
        for name, description in (
            (SECRET, "The account's webhook secret; needed where the account demands it."),
            (API_KEY, "An API key of the account, in place of an id in the path."),
        )
    }
)
KEY_OF_CALL = IDEMPOTENCY_KEY | {
    "description": "Names the call for 24 hours: sent again, it is not carried out again but"
    " answered as the first time, or `queued` while that is under way. Another call: 422."
}
ERRORS = (400, 413, 415, 422, 429, 500, 503)
