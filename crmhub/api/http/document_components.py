"""The parts of the OpenAPI document that all operations share: errors, headers, path parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apispec import APISpec

from crmhub.api.http.authentication import HEADER
from crmhub.api.http.idempotency_key import HEADER as IDEMPOTENCY
from crmhub.api.http.idempotency_key import KEY, REPLAYED
from crmhub.api.http.schemas import HIGHEST_ID, ErrorSchema
from crmhub.properties.kinds import KINDS

Shape = Mapping[str, Any]

# The name and the description of the response of each status.
ERRORS = {
    400: ("BadRequest", "Malformed request or invalid parameters"),
    401: ("Unauthorized", "Invalid or missing credentials"),
    402: ("LimitExceeded", "Plan limit reached"),
    403: ("Forbidden", "No permission for the resource"),
    404: ("NotFound", "Resource not found"),
    409: ("Conflict", "Conflict with the current state"),
    413: ("TooLarge", "Body larger than 1 MiB"),
    415: ("NotJson", "Body that does not say it is JSON, or is compressed"),
    422: ("Semantic", "Well-formed request with semantic errors"),
    429: ("TooManyRequests", "Rate limit exceeded"),
    500: ("Internal", "Internal server error"),
    503: ("Unavailable", "The hub, its database or the CRM is unavailable"),
}
# The category and an example message of the error of each status.
_EXAMPLES = {
    400: ("BadRequestError", "limit: must be a whole number from 1 to 100"),
    401: ("UnauthorizedError", "Send the account's API key in the header service-apikey."),
    402: (
        "LimitExceededError",
        "The plan allows 1000 contacts; 1000 are stored and 1 more were sent. Nothing was written.",
    ),
    403: ("ForbiddenError", "This key lacks the scope contacts:write; create one that has it."),
    404: ("NotFoundError", "There is no contact 481516234219."),
    409: (
        "ConflictError",
        "properties.email: another contact, 481516234211, has this value."
        " Existing ID: 481516234211",
    ),
    413: ("BadRequestError", "The body is larger than 1 MiB; send less at a time."),
    415: (
        "BadRequestError",
        "Content-Type: send the body as JSON, with the header Content-Type: application/json.",
    ),
    422: ("SemanticError", "properties.emial: contacts have no such property; did you mean email?"),
    429: ("ManyRequestError", "More than 100 requests in the window of the account's plan."),
    500: (
        "InternalError",
        "The hub failed unexpectedly; the operator finds it under this X-Request-Id.",
    ),
    503: ("InternalError", "The database is unavailable; try again in 5 s."),
}
# Errors that are stored under an Idempotency-Key.
_STORED = (400, 402, 404, 409, 415, 422)

_SECONDS = {"type": "integer", "minimum": 0}
_HEADERS: dict[str, Shape] = {
    "X-Request-Id": {
        "description": "Names the request in the hub's logs; yours, when you sent a good one.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
    },
    "RateLimit-Limit": {
        "description": "Requests that the window allows (under /api/v1).",
        "schema": {"type": "integer", "minimum": 1},
    },
    "RateLimit-Remaining": {
        "description": "Requests left in the window (under /api/v1).",
        "schema": {"type": "integer", "minimum": 0},
    },
    "RateLimit-Reset": {
        "description": "Seconds until the window gives something back (under /api/v1).",
        "schema": _SECONDS,
    },
    "Retry-After": {
        "description": "Seconds after which to try again.",
        "schema": {**_SECONDS, "minimum": 1},
    },
    "Location": {
        "description": "The path of the record that has the unique value already.",
        "schema": {"type": "string"},
    },
    "ETag": {
        "description": "The version of the record's properties, for If-Match and If-None-Match.",
        "schema": {"type": "string", "pattern": '^"[0-9]+"$'},
    },
    "X-Record-Source": {
        "description": "hub: these are the hub's own records, not those of the account's CRM."
        " copy: they are from the hub's copy of the CRM's records.",
        "schema": {"type": "string", "enum": ["hub", "copy"]},
    },
    "X-CRM-Synced-At": {
        "description": "Of a copy: up to when it has the CRM's changes.",
        "schema": {"type": "string", "format": "date-time"},
    },
    REPLAYED: {
        "description": f"This is the first answer to the request with this {IDEMPOTENCY}, again.",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
ALWAYS = ("X-Request-Id",)
UNDER_API = ("X-Request-Id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")

_TAG = '(W/)?"[0-9]{1,9}(--?[a-z]{2,10})?"'
IF_MATCH = {
    "in": "header",
    "name": "If-Match",
    "description": "Only when the record's ETag is one of these, weak or strong; else 409.",
    "required": False,
    "schema": {"type": "string", "pattern": rf"^(\*|{_TAG}( *, *{_TAG})*)$"},
    "example": "*",
}

PREFER = {
    "in": "header",
    "name": "Prefer",
    "description": "For an account with a copy of its CRM: with `respond-async`, a worker finishes"
    " what the CRM cannot take now (202).",
    "required": False,
    "schema": {"type": "string"},
    "example": "respond-async",
}

IF_NONE_MATCH = {
    "in": "header",
    "name": "If-None-Match",
    "description": "304 without a body when the record's ETag is one of these, weak or strong, or"
    " `*`. Links do not change the ETag. Ignored with `idProperty`, and where it holds no ETag.",
    "required": False,
    "schema": {"type": "string"},
    "example": '"0"',
}

IDEMPOTENCY_KEY = {
    "in": "header",
    "name": IDEMPOTENCY,
    "description": "Names the request for 24 hours: sent again, it is not carried out again but"
    " answered as the first time, unless that was 429 or 5xx. Another request: 422. While the"
    " first one still runs: 409.",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": f"^{KEY}$"},
}

ID_OR_VALUE = {
    "in": "path",
    "name": "id",
    "description": "The record's id; with idProperty a value of that property, but for one that"
    ' holds a slash, or is "search" or "merge": that is read by batch/read.',
    "required": True,
    "schema": {"type": "string", "minLength": 1},
    "example": "481516234211",
}

_ID = {"type": "integer", "minimum": 1, "maximum": HIGHEST_ID}
_ISSUED = {"type": "string", "minLength": 1, "maxLength": 64}
PATH_PARAMETERS: dict[str, Shape] = {
    "client_id": {
        "description": "The account; in the public API the one that the key belongs to.",
        "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$"},
        "example": "demo",
    },
    "id": {"description": "The record's id.", "schema": _ID, "example": 481516234211},
    "to": {
        "description": "The kind of the records at the other end.",
        "schema": {"type": "string", "enum": list(KINDS)},
        "example": "companies",
    },
    "to_id": {
        "description": "The id of the record at the other end.",
        "schema": _ID,
        "example": 481516234213,
    },
    "note_id": {"description": "The note's id.", "schema": _ID, "example": 481516234217},
    "resource": {"description": "The kind of records."},
    "name": {"description": "The property's name.", "example": "level"},
    "pipeline_id": {"description": "The pipeline's id.", "example": "orders"},
    "workflow_id": {"description": "The workflow's id, any text.", "example": "welcome"},
    "contact_id": {
        "description": "The contact's id in the account's CRM.",
        "example": "481516234211",
    },
    "other_id": {
        "description": "The other contact's id in the account's CRM.",
        "example": "481516234219",
    },
    "key_id": {"description": "The key's id, which is no secret.", "example": "key_7x0c2m4q"},
    "adapter_name": {"description": "The adapter's name.", "example": "local"},
    "action_id": {
        "description": "The action's id, as a helper answered it.",
        "example": "act-0mwvlbwdp03a4x8qmqdb8w4u",
    },
    "cause": {"description": "The key of the cause.", "example": "1eb266b177c3"},
    "test": {
        "description": "The test's id.",
        "example": "evt_0mwvlbwdp03a4x8qmqdb8w4u",
    },
    "fix": {
        "description": "The id of the correction, retry or discard.",
        "example": "fix-fjufi22araquj71zmiuv",
    },
    "subscription_id": {
        "description": "The subscription's id.",
        "example": "sub_3kq0b1w9z5t7x2m8c4d6",
    },
    "team": {"description": "The team's name.", "example": "Sales"},
    "owner": {
        "description": "The owner's id in the account's CRM; of a new member also the email.",
        "example": "ana@example.com",
    },
    "generated_id": {
        "description": "The generated id issued for the account.",
        "schema": _ISSUED,
        "example": "s37cq478zh06sakm00ge21z1q7",
    },
    "portal_id": {
        "description": "The portal id issued for the account.",
        "schema": _ISSUED,
        "example": "ztt33x0dmo31arx31ph4vvd2yi",
    },
}


def add_components(spec: APISpec) -> None:
    components = spec.components
    components.security_scheme(
        "ApiKey",
        {
            "type": "apiKey",
            "in": "header",
            "name": HEADER,
            "description": "An API key of the account in the path.",
        },
    )
    components.security_scheme(
        "AdminToken",
        {
            "type": "http",
            "scheme": "bearer",
            "description": "A token that `crmhub admin token create` makes.",
        },
    )
    for name, shape in _HEADERS.items():
        components.header(name, dict(shape))
    for status, (name, words) in ERRORS.items():
        components.response(name, _error(status, words))


def _error(status: int, words: str) -> dict[str, Any]:
    carried = [*UNDER_API]
    carried += ["Retry-After"] if status in (409, 429, 503) else []
    carried += ["Location"] if status == 409 else []
    carried += [REPLAYED] if status in _STORED else []
    category, message = _EXAMPLES[status]
    example = {
        "category": category,
        "message": message,
        "timestamp": "2026-11-21T09:51:10.417Z",
        "status": "error",
    }
    return {
        "description": words,
        "headers": header_references(carried),
        "content": {"application/json": {"schema": ErrorSchema, "example": example}},
    }


def header_references(names: Iterable[str]) -> dict[str, Shape]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
