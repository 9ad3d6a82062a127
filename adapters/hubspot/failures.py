"""HubSpot's error responses. Any field of their bodies may be missing (its error guide)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crmhub import adapter as hub
from crmhub.adapter import AdapterError, Problem, Rejected, Throttled
from crmhub.adapter.answers import Answer, objects_in, text_of, usual_failure

# Words of a limit, its scope and the usual wait, which Retry-After replaces; the first that fits.
_LIMITS = (("DAILY", "daily", 900.0), ("TEN_SECONDLY", "burst", 10.0), ("SECONDLY", "search", 1.0))
_LOCKED_S = 2.0
_SHOWN = 300
_EXISTING_ID = re.compile(r"Existing ID:\s*([0-9]+)|(?<![0-9])([0-9]+) already has that value")
_STATUSES = {"CONFLICT": 409, "OBJECT_NOT_FOUND": 404, "VALIDATION_ERROR": 400}


class MissingScopes(hub.LacksRight):
    """The access token lacks a right (scope), as HubSpot itself says, and no proxy on the way."""


class TooLong(Rejected):
    """HubSpot refuses a request because its URL is too long (status 414)."""


def failure(answer: Answer) -> AdapterError | None:
    if 200 <= answer.status < 300:
        return None
    body = answer.body if isinstance(answer.body, dict) else {}
    error = _own_failure(answer, body) or usual_failure(answer)
    error.correlation_id = text_of(body.get("correlationId"))
    return error


def item_failure(answer: Answer, failed: Mapping[str, Any]) -> AdapterError:
    category = _word(failed, "category")
    status = _STATUSES.get(category, 200)
    message = f"HubSpot could not write this one of a batch ({category or 'no word'})."
    error = failure(replace(answer, status=status, body=failed)) or hub.Uncertain(message)
    error.correlation_id = answer.correlation_id
    return error


def _own_failure(answer: Answer, body: Mapping[str, Any]) -> AdapterError | None:
    match answer.status:
        case 401:
            why = _word(body, "category") or 401
            return hub.Denied(f"HubSpot refuses the access token ({why}).")
        case 403 if body:
            return _missing_scopes(body)
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
            return hub.Unavailable(message, retry_after=answer.seconds())
    return None


def _throttled(answer: Answer, body: Mapping[str, Any]) -> Throttled:
    message = f"{text_of(body.get('policyName'))} {text_of(body.get('message'))}".upper()
    found = [(scope, usual) for word, scope, usual in _LIMITS if word in message]
    scope, usual = (*found, ("burst", 10.0))[0]
    wait = answer.seconds()
    return Throttled(
        f"HubSpot's limit of calls is reached ({_word(body, 'policyName') or scope}).",
        retry_after=usual if wait is None else wait,
        scope=scope,
    )


def _missing_scopes(body: Mapping[str, Any]) -> AdapterError | None:
    named = [text for error in _errors(body) for text in _texts(error, "scope")]
    if not named and body.get("category") != "MISSING_SCOPES":
        return None
    scopes = f": it needs one of {', '.join(dict.fromkeys(named))}" if named else ""
    return MissingScopes(f"The access token lacks a right in HubSpot{scopes[:_SHOWN]}.")


def _refused(answer: Answer, body: Mapping[str, Any]) -> AdapterError | None:
    # Only the link from a deal or ticket to its contact refers to another object.
    if any("INVALID_OBJECT_IDS" in _lists(error) for error in _errors(body)):
        return hub.NotFound("HubSpot has no such contact")
    message, faults = text_of(body.get("message")), _faults(body)
    clashing = [name for name, (code, _) in faults.items() if "UNIQUE" in code.upper()]
    if answer.status == 409 or clashing:
        existing = _EXISTING_ID.search(message)
        existing_id = (existing[1] or existing[2]) if existing else ""
        name = next(iter([*clashing, *faults]), "email" if "contact" in message.lower() else "")
        message = f"HubSpot has another record{f', {existing_id},' if existing_id else ''}"
        what = f"this {name}" if name else "such a value"
        return hub.Conflict(f"{message} with {what}", existing_id=existing_id, name=name)
    problems = [Problem(name, reason[:_SHOWN]) for name, (_, reason) in faults.items()]
    return Rejected(problems) if problems else None


def _faults(body: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return (error code, reason) by property name: from `errors`, the message or the top level."""
    faults: dict[str, tuple[str, str]] = {}
    own, *listed = _errors(body)
    for error in (*listed, *_listed_in(text_of(body.get("message"))), own):
        named = _texts(error, "propert")
        if error is not own:
            named = named or [text_of(error.get("in") or error.get("name"))]
        code = text_of(error.get("code") or error.get("error") or error.get("subCategory"))
        reason = text_of(error.get("message")) or code or "HubSpot refuses it"
        for name in filter(None, named):
            faults.setdefault(name, (code, reason))
    return faults


def _errors(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [body, *objects_in(body.get("errors"))]


def _lists(error: Mapping[str, Any]) -> dict[str, list[Any]]:
    context = error.get("context")
    pairs = context.items() if isinstance(context, dict) else ()
    return {key: values for key, values in pairs if isinstance(values, list)}


def _texts(error: Mapping[str, Any], key_part: str) -> list[str]:
    lists = _lists(error).items()
    return [text_of(one) for key, values in lists if key_part in key.lower() for one in values]


def _listed_in(message: str) -> list[Mapping[str, Any]]:
    _, bracket, rest = message.partition("[")
    try:
        return objects_in(json.JSONDecoder().raw_decode(bracket + rest)[0]) if bracket else []
    except (ValueError, RecursionError):
        return []


def _word(body: Mapping[str, Any], name: str) -> str:
    text = text_of(body.get(name))
    return text if re.fullmatch(r"[A-Z_]{1,60}", text) else ""
