"""The answer of a CRM to an HTTP request, and the error for each HTTP status."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from crmhub.adapter.errors import (
    AdapterError,
    BadConfig,
    Conflict,
    Denied,
    LacksRight,
    NotFound,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)
from crmhub.translatable import translatable

_THROTTLED_SECONDS = 10.0
_LONGEST_WAIT = 86_400.0
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """`reads`: the request could write nothing. `is_json`: False for another format, as HTML."""

    crm: str
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: Any = field(repr=False)
    reads: bool = True
    correlation_id: str = ""
    is_json: bool = True

    def object(self) -> Mapping[str, Any]:
        return self.mapping(self.body)

    def mapping(self, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.broken("an object was expected")
        return value

    def items(self, name: str = "results") -> list[Mapping[str, Any]]:
        listed = self.object().get(name)
        if not isinstance(listed, list):
            raise self.broken(f"{name} is not a list")
        return [self.mapping(item) for item in listed]

    def id(self, value: Mapping[str, Any] | None = None) -> str:
        record_id = (self.object() if value is None else value).get("id")
        if isinstance(record_id, bool) or not isinstance(record_id, str | int) or record_id == "":
            raise self.broken("it names no id")
        return str(record_id)

    def broken(self, why: str) -> AdapterError:
        """Return the error for a wrong format: Unavailable for a read, otherwise Uncertain."""
        message = f"{self.crm} answered {self.status} with something unexpected: {why}."
        error = Unavailable(message) if self.reads else Uncertain(message)
        error.correlation_id = self.correlation_id
        return error

    def seconds(self, header: str = "Retry-After") -> float | None:
        """The header has seconds or a date (RFC 9110, 10.2.3); at most a day, None if invalid."""
        return parse_wait(self.headers.get(header, ""))


def text_of(value: Any) -> str:
    """Return a JSON value as text; return "" for null."""
    return "" if value is None else str(value)


def value_at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def objects_in(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def parse_time(value: Any) -> float:
    """Return an ISO 8601 time in seconds since 1970; return 0 for any other JSON value."""
    try:
        return datetime.fromisoformat(text_of(value)).timestamp()
    except ValueError:
        return 0.0


def usual_failure(answer: Answer) -> AdapterError:
    """By status, Retry-After, and whether the request was a read, but not by the CRM's codes."""
    crm, status, reason = answer.crm, answer.status, _reason_in(answer)
    if 300 <= status < 500 and status not in (303, 304, 408, 499):
        return _refusal(answer, reason)
    if status >= 500 or status in (408, 499):
        if answer.reads:
            return Unavailable(
                translatable("%(crm)s answered %(status)s.", crm=crm, status=status),
                retry_after=answer.seconds(),
            )
        return Uncertain(
            translatable(
                "%(crm)s answered %(status)s; it may have stored this all the same.",
                crm=crm,
                status=status,
            )
        )
    # A 303 after a POST may mean success; 304 is unexpected without a conditional request.
    return answer.broken("no such status was to be expected")


def _refusal(answer: Answer, reason: str) -> AdapterError:
    crm, status, wait = answer.crm, answer.status, answer.seconds()
    if status < 400:
        return BadConfig(
            translatable(
                "%(crm)s answered with a redirect (%(status)s); correct its address.",
                crm=crm,
                status=status,
            )
        )
    # The CRM's own reason stays in its language.
    said = {"crm": crm, "status": status, "reason": reason}
    if status == 401:
        return Denied(translatable("%(crm)s refuses the credentials%(reason)s.", **said))
    if status in (423, 425, 429) or wait is not None:
        return Throttled(
            translatable("%(crm)s wants fewer calls%(reason)s.", **said),
            retry_after=_THROTTLED_SECONDS if wait is None else wait,
        )
    if status in (403, 404, 409, 410) and not answer.is_json:
        return _page_error(answer)
    if status in (402, 403, 451):
        return LacksRight(
            translatable("The credentials lack a right in %(crm)s (%(status)s)%(reason)s.", **said)
        )
    if status in (404, 410):
        return NotFound(translatable("%(crm)s has no such record%(reason)s", **said))
    if status == 409:
        return Conflict(
            translatable("%(crm)s has another record with such a value%(reason)s", **said)
        )
    if status in (400, 413, 414, 422):
        return Rejected([], translatable("%(crm)s does not take these values%(reason)s", **said))
    if status == 421:
        return Unavailable(
            translatable("%(crm)s is not served by the machine that answered (421).", crm=crm)
        )
    return BadConfig(
        translatable("%(crm)s does not understand the request (%(status)s)%(reason)s.", **said)
    )


def _page_error(answer: Answer) -> AdapterError:
    """Return the error for an HTML page instead of JSON: blame the proxy or URL, not the record."""
    if answer.status == 403:
        return Denied(
            translatable(
                "A page with status 403 came instead of %(crm)s's own answer: the credentials lack"
                " a right, or a firewall on the way refuses this machine.",
                crm=answer.crm,
            )
        )
    return Unavailable(
        translatable(
            "A page with status %(status)s came instead of %(crm)s's own answer: its address is"
            " wrong, or something on the way cannot reach it.",
            status=answer.status,
            crm=answer.crm,
        )
    )


def _reason_in(answer: Answer) -> str:
    body = answer.body[0] if isinstance(answer.body, list) and answer.body else answer.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    for name in ("message", "error_description", "detail", "error"):
        text_value = body.get(name) if isinstance(body, dict) else None
        if isinstance(text_value, str) and text_value.strip():
            text = "".join(c if c.isprintable() else " " for c in text_value[: 2 * _SHOWN])
            return f": {' '.join(text.split())[:_SHOWN].rstrip('.')}"
    return ""


def parse_wait(text: str) -> float | None:
    text = text.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), _LONGEST_WAIT)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, moment.timestamp() - time.time()), _LONGEST_WAIT)
