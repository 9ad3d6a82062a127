"""Convert HubSpot's error responses into the errors of the adapter contract."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crmhub.adapter import (
    AdapterError,
    Conflict,
    Denied,
    LacksRight,
    NotFound,
    Problem,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)
from crmhub.adapter.answers import Answer, objects_in, text_of, usual_failure

# Default waits. The daily limit resets at midnight in the account's time zone.
_BURST_S, _SEARCH_S, _DAILY_S, _LOCKED_S = 10.0, 1.0, 900.0, 2.0
_SHOWN = 300
_EXISTING_ID = re.compile(r"Existing ID:\s*([0-9]+)|(?<![0-9])([0-9]+) already has that value")


class MissingScopes(LacksRight):
    """The access token lacks a right (scope), as HubSpot itself says, and no proxy on the way."""


class TooLong(Rejected):
    """HubSpot refuses a request because its URL is too long (status 414)."""


def word(body: Mapping[str, Any], name: str) -> str:
    """Return the code in a field of a response body, such as its category; "" without a code."""
    text = text_of(body.get(name))
    return text if re.fullmatch(r"[A-Z_]{1,60}", text) else ""


def failure(answer: Answer) -> AdapterError | None:
    """Return the error of the adapter contract for a response; None for any status of 2xx."""
    if 200 <= answer.status < 300:
        return None
    # Any field of HubSpot's error body may be missing.
    body = answer.body if isinstance(answer.body, dict) else {}
    error = _own_failure(answer, body) or usual_failure(answer)
    error.correlation_id = text_of(body.get("correlationId"))
    return error


def item_failure(answer: Answer, failed: Mapping[str, Any]) -> AdapterError:
    """Return the error for `failed`, an entry in the list `errors` of the response to a batch."""
    category = word(failed, "category")
    status = {"CONFLICT": 409, "OBJECT_NOT_FOUND": 404, "VALIDATION_ERROR": 400}.get(category, 200)
    message = f"HubSpot could not write this one of a batch ({category or 'no word'})."
    error = failure(replace(answer, status=status, body=failed)) or Uncertain(message)
    error.correlation_id = answer.correlation_id
    return error


def _own_failure(answer: Answer, body: Mapping[str, Any]) -> AdapterError | None:
    match answer.status:
        case 401:
            return Denied(f"HubSpot refuses the access token ({word(body, 'category') or 401}).")
        case 403 if body:
            return _missing_scopes(body)
        case 404 if body:
            return NotFound("HubSpot has no such record")
        case 400 | 409 if body:
            return _refused(answer, body)
        case 414:
            return TooLong([], "HubSpot takes no address as long as this call's.")
        case 423:
            wait = max(answer.seconds() or 0.0, _LOCKED_S)
            return Throttled("HubSpot has locked the records for a bulk change.", retry_after=wait)
        case 429:
            return _throttled(answer, body)
        case 477:
            message = "HubSpot is moving this account between its data centres."
            return Unavailable(message, retry_after=answer.seconds())
    return None


def _throttled(answer: Answer, body: Mapping[str, Any]) -> Throttled:
    message = f"{text_of(body.get('policyName'))} {text_of(body.get('message'))}".upper()
    scope, usual = "burst", _BURST_S
    if "DAILY" in message:
        scope, usual = "daily", _DAILY_S
    elif "SECONDLY" in message and "TEN_SECONDLY" not in message:
        scope, usual = "search", _SEARCH_S
    wait = answer.seconds()
    return Throttled(
        f"HubSpot's limit of calls is reached ({word(body, 'policyName') or scope}).",
        retry_after=usual if wait is None else wait,
        scope=scope,
    )


def _missing_scopes(body: Mapping[str, Any]) -> AdapterError | None:
    """Return MissingScopes with the scopes that a 403 response names; None for another reason."""
    named = [
        text_of(value)
        for error in (body, *objects_in(body.get("errors")))
        for key, values in _context(error)
        if "scope" in key.lower()
        for value in values
    ]
    if not named and body.get("category") != "MISSING_SCOPES":
        return None
    scopes = f": it needs one of {', '.join(dict.fromkeys(named))}" if named else ""
    return MissingScopes(f"The access token lacks a right in HubSpot{scopes[:_SHOWN]}.")


def _refused(answer: Answer, body: Mapping[str, Any]) -> AdapterError | None:
    """Return the error for a 400 or 409 response that refuses values or links; None for another."""
    message, faults = text_of(body.get("message")), _faults(body)
    errors = (body, *objects_in(body.get("errors")))
    # Only the link from a deal or ticket to its contact refers to another object.
    if any(key == "INVALID_OBJECT_IDS" for error in errors for key, _ in _context(error)):
        return NotFound("HubSpot has no such contact")
    clashing = [name for name, (code, _) in faults.items() if "UNIQUE" in code.upper()]
    if answer.status == 409 or clashing:
        existing = _EXISTING_ID.search(message)
        existing_id = (existing[1] or existing[2]) if existing else ""
        name = next(iter([*clashing, *faults]), "email" if "contact" in message.lower() else "")
        what = f"this {name}" if name else "such a value"
        message = f"HubSpot has another record{f', {existing_id},' if existing_id else ''}"
        return Conflict(f"{message} with {what}", existing_id=existing_id, name=name)
    if not faults:
        return None
    return Rejected([Problem(name, reason[:_SHOWN]) for name, (_, reason) in faults.items()])


def _faults(body: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return why HubSpot refuses properties: (error code, reason) by property name.

    HubSpot lists refused properties in `errors`, or as JSON inside the message. If required values
    are missing, it lists them at the top level of the body.
    """
    faults: dict[str, tuple[str, str]] = {}
    message = text_of(body.get("message"))
    for error in (*objects_in(body.get("errors")), *_listed_in(message), body):
        named = [text_of(v) for key, vs in _context(error) if "propert" in key.lower() for v in vs]
        if error is not body:
            named = named or [text_of(error.get("in") or error.get("name"))]
        code = text_of(error.get("code") or error.get("error") or error.get("subCategory"))
        reason = text_of(error.get("message")) or code or "HubSpot refuses it"
        for name in filter(None, named):
            faults.setdefault(name, (code, reason))
    return faults


def _context(error: Mapping[str, Any]) -> list[tuple[str, list[Any]]]:
    context = error.get("context")
    pairs = context.items() if isinstance(context, dict) else ()
    return [(key, values) for key, values in pairs if isinstance(values, list)]


def _listed_in(message: str) -> list[Mapping[str, Any]]:
    _, bracket, rest = message.partition("[")
    try:
        return objects_in(json.JSONDecoder().raw_decode(bracket + rest)[0]) if bracket else []
    except (ValueError, RecursionError):
        return []
