from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crmhub.bounds import MAX_ASKED_PROPERTIES
from crmhub.properties.kinds import KINDS

Shape = dict[str, Any]

RESOURCES = tuple(KINDS)
LONGEST_KEY = 200


def text(description: str, example: str = "", **more: Any) -> Shape:
    examples = {"examples": [example]} if example else {}
    return {"type": "string", "description": description, **examples, **more}


def record_id(description: str, example: str = "481516234211") -> Shape:
    return {"type": ["string", "integer"], "description": description, "examples": [example]}


def resource(kinds: Sequence[str] = RESOURCES, **more: Any) -> Shape:
    return {"type": "string", "enum": list(kinds), "description": "The kind of record.", **more}


def takes(required: Sequence[str] = (), /, **properties: Shape) -> Shape:
    """Other arguments are refused."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


PROPERTIES: Shape = {
    "type": "object",
    "description": "Property names and values, as list_properties names them.",
    "examples": [{"jobtitle": "Engineer"}],
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    "maxProperties": MAX_ASKED_PROPERTIES,
}
NAMES: Shape = {
    "type": "array",
    "description": "Only these properties are shown; without it all that have a value.",
    "items": {"type": "string", "minLength": 1, "maxLength": 100},
    "minItems": 1,
    "maxItems": MAX_ASKED_PROPERTIES,
    "examples": [["email", "lifecyclestage"]],
}
CURSOR = text(
    "The previous answer's cursor; send the other arguments unchanged.",
    maxLength=8000,
)
LIMIT: Shape = {
    "type": "integer",
    "minimum": 1,
    "maximum": 100,
    "default": 10,
    "description": "An answer may hold fewer, and then has a cursor.",
}
DRY_RUN: Shape = {
    "type": "boolean",
    "default": False,
    "description": "true: check, say what would happen, and write nothing.",
}
KEY = text(
    "Names this call: sent again within 24 hours, it is answered with the first result.",
    "order-4711",
    minLength=1,
    maxLength=LONGEST_KEY,
    pattern=r"^[!-~]([ -~]*[!-~])?$",
)

# Short, since it stands in the list of tools once for each.
ERROR: Shape = {"type": "object", "required": ["category", "message", "timestamp", "status"]}
_VALUES: Shape = {"type": "object", "additionalProperties": {"type": "string"}}
_STRING: Shape = {"type": "string"}
_REFUSED: Shape = {
    "type": "array",
    "description": "Properties that were not stored, with the reasons.",
    "items": {"type": "object", "required": ["name", "reason"]},
}
RECORD: Mapping[str, Shape] = {
    "id": {"type": "string"},
    "properties": _VALUES,
    "associations": {"type": "object", "additionalProperties": {"type": "array"}},
    "createdAt": _STRING,
    "updatedAt": _STRING,
    "url": {"type": "string", "description": "The record's page in the CRM."},
    "omitted": {
        "type": "object",
        "description": "Long values, with their lengths: get_record reads them.",
        "additionalProperties": {"type": "integer"},
    },
    "omittedCount": {"type": "integer"},
}
_PAGE: Mapping[str, Shape] = {
    "cursor": {"type": "string", "description": 'For the next call; "" at the end.'},
    "hasMore": {"type": "boolean"},
}
SOURCE: Shape = {
    "type": "string",
    "description": "Where this was read: hub, its own records, or the name of the account's CRM.",
}


def answer(required: Sequence[str], /, **properties: Shape) -> Shape:
    """The success, or the API's error body."""
    success: Shape = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "object", "anyOf": [success, ERROR]}


def page(item: Mapping[str, Shape], required: Sequence[str] = (), **more: Shape) -> Shape:
    items: Shape = {"type": "object", "properties": dict(item), "required": list(required)}
    shape: dict[str, Shape] = {"results": {"type": "array", "items": items}, **_PAGE, **more}
    return answer(["results", *_PAGE], **shape)


def written(**own: Shape) -> Shape:
    return answer(
        ["status", "message"],
        status={
            "type": "string",
            "enum": ["created", "updated", "unchanged", "queued", "ok", "dryRun"],
        },
        message=_STRING,
        actionId={"type": "string", "description": "For get_action."},
        refused=_REFUSED,
        url=_STRING,
        wouldBe={"type": "string", "description": "What a dry run would have done."},
        properties=_VALUES,
        **own,
    )
