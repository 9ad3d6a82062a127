"""What every refusal looks like, checked in one place."""

from __future__ import annotations

import re
from collections.abc import Iterable

from werkzeug.test import TestResponse

# HTTP's other statuses (405, 413, 415 …) are BadRequestError, or InternalError from 500 on.
CATEGORIES = {
    400: "BadRequestError",
    401: "UnauthorizedError",
    402: "LimitExceededError",
    403: "ForbiddenError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "SemanticError",
    429: "ManyRequestError",
}
PUBLIC_API = re.compile(r"/[^/]+/api/v1(/|$)")
# A message is read by people, whatever was sent.
LONGEST_MESSAGE = 20_000
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_RATE_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


def faults(answer: TestResponse, *statuses: int) -> list[str]:
    """Return what is wrong with a refusal that should have one of `statuses`."""
    if answer.status_code not in statuses:
        return [f"{answer.status_code} {answer.text[:200]}"]
    return [*_faults_of_headers(answer), *_faults_of_body(answer)]


def refused(answer: TestResponse, *statuses: int) -> str:
    """Assert that this is a refusal with one of `statuses`; return its message."""
    found = faults(answer, *statuses)
    assert not found, found
    message: str = answer.json["message"]  # type: ignore[index]
    return message


def assert_no_faults(problems: Iterable[tuple[object, list[str]]]) -> None:
    """Fail naming each `(where, faults)` that has any; there must be something to look at."""
    looked_at = list(problems)
    assert looked_at
    lines = [f"{where}: {'; '.join(found)}" for where, found in looked_at if found]
    assert not lines, "\n".join([f"{len(lines)} of {len(looked_at)}", *lines[:40]])


def _faults_of_headers(answer: TestResponse) -> list[str]:
    found = []
    if answer.mimetype != "application/json":
        found.append(f"Content-Type {answer.content_type}")
    found += header_faults(answer)
    if answer.status_code in (429, 503) and not _at_least_one(answer.headers.get("Retry-After")):
        found.append(f"Retry-After {answer.headers.get('Retry-After')}")
    if answer.status_code == 405 and not answer.headers.get("Allow"):
        found.append("no Allow")
    return found


def header_faults(answer: TestResponse) -> list[str]:
    """Return what is wrong with the headers that every answer carries, whatever its status."""
    found = []
    if not _REQUEST_ID.fullmatch(answer.headers.get("X-Request-Id", "")):
        found.append(f"X-Request-Id {answer.headers.get('X-Request-Id')}")
    if answer.headers.getlist("X-Content-Type-Options") != ["nosniff"]:
        found.append("no X-Content-Type-Options")
    if PUBLIC_API.match(answer.request.path):
        for name in _RATE_HEADERS:
            given = answer.headers.getlist(name)
            if len(given) != 1 or not given[0].isdigit():
                found.append(f"{name} {given}")
    return found


def _at_least_one(seconds: str | None) -> bool:
    return seconds is not None and seconds.isdigit() and int(seconds) >= 1


def _faults_of_body(answer: TestResponse) -> list[str]:
    if answer.request.method == "HEAD":
        return []
    body = answer.get_json(silent=True)
    if not isinstance(body, dict) or set(body) != {"category", "message", "timestamp", "status"}:
        return [f"body {answer.text[:200]}"]
    found = []
    usual = "InternalError" if answer.status_code >= 500 else "BadRequestError"
    if body["category"] != CATEGORIES.get(answer.status_code, usual):
        found.append(f"category {body['category']}")
    if body["status"] != "error":
        found.append(f"status {body['status']}")
    if not _TIMESTAMP.fullmatch(body["timestamp"]):
        found.append(f"timestamp {body['timestamp']}")
    if not body["message"] or len(body["message"]) > LONGEST_MESSAGE:
        found.append(f"message of {len(body['message'])} characters")
    return found
