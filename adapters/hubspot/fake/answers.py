"""HTTP responses of the fake HubSpot, and error bodies in HubSpot's format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson

JSON = "application/json;charset=utf-8"


@dataclass(slots=True)
class Answer:
    """An HTTP response: status, body, headers and content type.

    A body that is not bytes is sent as JSON; None means no body.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = JSON

    def encoded(self) -> bytes:
        """Return the body as bytes; return empty bytes if there is no body."""
        if self.body is None:
            return b""
        return self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)


class Refused(Exception):
    """HubSpot refuses a request with this status and error body.

    `extra` holds further fields of the error body. HubSpot itself requires only the field `message`
    (HubSpot's guide to errors).
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        category: str | None = "VALIDATION_ERROR",
        errors: Sequence[Mapping[str, Any]] = (),
        context: Mapping[str, Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.body: dict[str, Any] = {
            "status": "error",
            "message": message,
            **({"category": category} if category else {}),
            **({"context": dict(context)} if context else {}),
            **({"errors": [dict(error) for error in errors]} if errors else {}),
            **(extra or {}),
        }

    def answer(self) -> Answer:
        """Return this refusal as an HTTP response with a new correlation id."""
        correlation_id = str(uuid4())
        return Answer(
            self.status,
            {**self.body, "correlationId": correlation_id},
            {**self.headers, "x-hubspot-correlation-id": correlation_id},
        )


@dataclass(frozen=True, slots=True)
class WrongValue:
    """A property value that HubSpot refuses: the property's name, an error code and a reason."""

    name: str
    code: str
    message: str


def wrong_values(found: Sequence[WrongValue], portal_id: int) -> Refused:
    """Return HubSpot's 400 response to a request with the wrong property values `found`.

    The response names each property twice, as HubSpot does: as JSON inside the message, and in
    `errors`.
    """
    listed = [
        {
            "isValid": False,
            "message": wrong.message,
            "error": wrong.code,
            "name": wrong.name,
            "localizedErrorMessage": wrong.message,
            "portalId": portal_id,
        }
        for wrong in found
    ]
    return Refused(
        400,
        f"Property values were not valid: {json.dumps(listed)}",
        errors=[
            {
                "message": wrong.message,
                "code": wrong.code,
                "context": {"propertyName": [wrong.name]},
            }
            for wrong in found
        ],
    )


def missing(names: Iterable[str], kind: str, *, code: str) -> Refused:
    """Return HubSpot's 400 response to a record that lacks the required properties `names`.

    `kind` is the singular name of the kind of record, and `code` is HubSpot's error code.
    """
    lacking = sorted(names)
    return Refused(
        400,
        f"Error creating {kind.upper()}. Some required properties were not set.",
        context={"properties": lacking},
        errors=[
            {
                "message": f'Required property "{name}" is missing',
                "code": code,
                "context": {"propertyName": [name]},
            }
            for name in lacking
        ],
    )


def not_found(message: str = "resource not found", *, category: str | None = None) -> Refused:
    """Return HubSpot's 404 response with the error text `message`.

    The default values give the response for an unknown numeric record id, whose body has no error
    category.
    """
    return Refused(404, message, category=category)


def iso(at_ms: int) -> str:
    """Return a time, in ms since 1970, in HubSpot's format: ISO 8601 with milliseconds and Z."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"
