"""The refusals of the fake HubSpot, and error bodies in HubSpot's format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

from adapters.fakes import answers
from adapters.fakes.faults import Fault
from adapters.fakes.limits import retry_header

_MESSAGES = {
    423: "The account's records are locked by a bulk load; wait at least two seconds.",
    429: "You have reached your ten_secondly_rolling limit.",
    477: "This account is being moved to another data centre.",
    500: "internal error",
    503: "Service temporarily unavailable",
}
_CATEGORIES = {
    400: "VALIDATION_ERROR",
    401: "INVALID_AUTHENTICATION",
    403: "MISSING_SCOPES",
    404: "OBJECT_NOT_FOUND",
}


class Refused(answers.Refused):
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
        body = {
            "status": "error",
            "message": message,
            **({"category": category} if category else {}),
            **({"context": dict(context)} if context else {}),
            **({"errors": [dict(error) for error in errors]} if errors else {}),
            **(extra or {}),
        }
        super().__init__(status, body, headers=headers)

    def answer(self) -> answers.Answer:
        """Return this refusal as an HTTP response with a new correlation id."""
        correlation_id = str(uuid4())
        answer = super().answer()
        answer.body = {**self.body, "correlationId": correlation_id}
        answer.headers["x-hubspot-correlation-id"] = correlation_id
        return answer


class WrongValue(NamedTuple):
    """A property value that HubSpot refuses: the property's name, an error code and a reason."""

    name: str
    code: str
    message: str

    @property
    def error(self) -> dict[str, Any]:
        """This value in the list `errors` of a response."""
        context = {"propertyName": [self.name]}
        return {"message": self.message, "code": self.code, "context": context}


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
    message = f"Property values were not valid: {json.dumps(listed)}"
    return Refused(400, message, errors=[wrong.error for wrong in found])


def missing(names: Iterable[str], singular: str, *, conditional: bool = False) -> Refused:
    """Return HubSpot's 400 response to a record that lacks required properties."""
    code = f"MISSING_{'CONDITIONAL_' if conditional else ''}REQUIRED_PROPERTY"
    lacking = [WrongValue(n, code, f'Required property "{n}" is missing') for n in sorted(names)]
    return Refused(
        400,
        f"Error creating {singular.upper()}. Some required properties were not set.",
        context={"properties": [one.name for one in lacking]},
        errors=[one.error for one in lacking],
    )


def not_found(message: str = "resource not found", *, category: str | None = None) -> Refused:
    """Return HubSpot's 404 response; by default that to an unknown numeric record id."""
    return Refused(404, message, category=category)


def item_error(category: str, message: str, context: Mapping[str, Any], errors: Any = ()) -> Any:
    """Return an error in the list of a batch's errors."""
    return {
        "status": "error",
        "category": category,
        "message": message,
        "context": context,
        "errors": list(errors),
        "links": {},
    }


def iso(at_ms: int) -> str:
    """Return a time, in ms since 1970, in HubSpot's format: ISO 8601 with milliseconds and Z."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"


def failure(status: int, fault: Fault) -> answers.Answer:
    """Return the response that HubSpot sends with an error status, for an injected fault."""
    if status == 207:
        at = "2026-01-01T00:00:00.000Z"
        error = item_error("VALIDATION_ERROR", "This input could not be processed.", {})
        body = {"status": "COMPLETE", "results": [], "numErrors": 1, "errors": [error]}
        return answers.Answer(207, body | {"startedAt": at, "completedAt": at})
    if status == 409:
        message = f"Contact already exists. Existing ID: {fault.existing_id}"
        return Refused(409, message, category="CONFLICT").answer()
    extra = {"errorType": "RATE_LIMIT", "policyName": "TEN_SECONDLY_ROLLING"}
    moved = status == 477 and fault.retry_after is None
    return Refused(
        status,
        _MESSAGES.get(status, "There was a problem with the request."),
        category=_CATEGORIES.get(status),
        headers=retry_header(fault.retry_seconds, "seconds") if moved else None,
        extra=extra if status == 429 else None,
    ).answer()
