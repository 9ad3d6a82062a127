"""Convert Zoho's error responses into the errors of the adapter contract.

An error is an object with `code`, `message` and `details`. A write answers with a list `data` of
such objects, one for each row; a success among them has the id of its record. Notifications have
such a list, `watch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crmhub import adapter as hub
from crmhub.adapter import AdapterError, Problem, Rejected
from crmhub.adapter.answers import Answer, objects_in, text_of, value_at
from crmhub.adapter.http import QUOTA

# Zoho blocks a refresh token for the rest of 10 minutes; credits come back within 24 hours.
_TOKENS_S, _CREDITS_S, _BUSY_S, _LOCKED_S = 600.0, 900.0, 5.0, 600.0
_SHOWN = 300
_WRITTEN = ("", "Contacts", "Deals", "Cases")
_LIMITS = {"maximum_length": "at most", "expected_data_type": "expected:"}


class Refused(Rejected):
    """Zoho refused some rows of a call: `outcomes` has the id or the error of each, in order."""

    def __init__(self, outcomes: Sequence[str | AdapterError]) -> None:
        super().__init__([], "Zoho refuses some of the records")
        self.outcomes = outcomes


def failure(answer: Answer) -> AdapterError | None:
    """None leaves it to the status; Refused if some of several written rows failed."""
    if answer.status in (404, 410):
        # A record that does not exist is a 204 or a 400.
        return hub.BadConfig("Zoho has no such address; the data centre may be wrong.")
    if answer.status == 429 and answer.headers.get("X-API-CREDITS-REMAINING", "").strip() == "0":
        words, wait = "The account has used up its API credits in Zoho.", answer.seconds()
        wait = _CREDITS_S if wait is None else wait
        return hub.Throttled(words, retry_after=wait, scope=QUOTA)
    if answer.status == 429 or answer.status >= 500:
        return None
    watched = value_at(answer.body, "watch")
    listed = watched if isinstance(watched, list) else value_at(answer.body, "data")
    rows = listed if isinstance(listed, list) else [answer.body]
    if not any(map(_is_error, rows)):
        return None
    outcomes = [_outcome(answer, row) for row in rows]
    return Refused(outcomes) if len(rows) > 1 else _error(answer, rows[0])


def token_failure(answer: Answer) -> AdapterError | None:
    """Zoho answers refused credentials with status 200, and too many requests with 400."""
    error, described = (value_at(answer.body, n) for n in ("error", "error_description"))
    if not isinstance(error, str):
        return None
    if "too many requests" in str(described).lower():
        words = f"Zoho gives no more tokens now: {described}"
        return hub.Throttled(words, retry_after=_TOKENS_S)
    if error in ("server_error", "general_error", "temporarily_unavailable"):
        return hub.Unavailable(f"Zoho's login server answered {error}.")
    if answer.status >= 500 or answer.status == 429:
        return None
    reason = f" ({error[:_SHOWN]})"
    if error == "invalid_client":
        return hub.Denied(
            f"Zoho does not know the client id in this data centre{reason}. Correct the data"
            " centre, the client id or the client secret."
        )
    return hub.Denied(
        f"Zoho refuses the refresh token{reason}. It was revoked, or belongs to another data"
        " centre; connect the account again."
    )


def _is_error(row: Any) -> bool:
    # A record that was read may have a field of its own named `status`.
    return _has_code(row) and row.get("status") == "error"


def _has_code(row: Any) -> bool:
    return isinstance(row, dict) and isinstance(row.get("code"), str) and "message" in row


def _outcome(answer: Answer, row: Any) -> str | AdapterError:
    if _is_error(row):
        return _error(answer, row)
    record_id = value_at(row, "details", "id")
    return record_id if isinstance(record_id, str) and record_id else _doubt(answer, "no id came")


def _error(answer: Answer, row: Mapping[str, Any]) -> AdapterError:
    code, message = row["code"], str(row["message"])[:_SHOWN].rstrip(".")
    details = row["details"] if isinstance(row.get("details"), dict) else {}
    words, names = f"Zoho: {message} ({code[:_SHOWN]})", _names(details)
    match code:
        case "MULTIPLE_OR_MULTI_ERRORS":
            return _several(answer, words, details.get("errors", row.get("errors")))
        case "DUPLICATE_DATA":
            return _duplicate(words, names, details)
        case "INVALID_TOKEN" | "AUTHENTICATION_FAILURE":
            return hub.Denied(f"Zoho refuses the access token: {message} ({code}).")
        case "OAUTH_SCOPE_MISMATCH":
            return hub.LacksRight(
                "The refresh token lacks a scope in Zoho for this call. Connect the account again"
                " with all scopes."
            )
        case "NO_PERMISSION" | "AUTHORIZATION_FAILED":
            rights = details.get("permissions")
            right = f": {', '.join(map(str, rights))}" if isinstance(rights, list) else ""
            lacks = f"The user of the connection lacks a right in Zoho{right}. {words}."
            return hub.LacksRight(lacks)
        case "INVALID_MODULE" | "INVALID_URL_PATTERN" | "INVALID_REQUEST_METHOD":
            return hub.BadConfig(f"{words}.")
        case "RATE_LIMIT_EXCEEDED" | "TOO_MANY_REQUESTS":
            return hub.Throttled(f"{words}.", retry_after=answer.seconds() or _BUSY_S)
        case "RECORD_LOCKED" | "NOT_APPROVED":
            locked = f"{words}. It is locked, or waits for approval."
            return hub.NotYet(locked, retry_after=_LOCKED_S)
        case "INTERNAL_ERROR" | "DEPENDENT_SERVICE_ERROR" | "SERVICE_UNAVAILABLE":
            return _doubt(answer, words)
        case "INVALID_DATA" if "id" in names or "resource_path_index" in details:
            return hub.NotFound("Zoho has no such record")
    if answer.status == 401:
        return hub.Denied(f"{words}.")
    given = {text: details.get(name) for name, text in _LIMITS.items()}
    limits = [f"{text} {value}" for text, value in given.items() if isinstance(value, str | int)]
    reason = f"{message} ({', '.join(limits)})" if limits else message
    values = details.get("supported_values")
    options = tuple(map(str, values[:20])) if isinstance(values, list) else ()
    return Rejected([Problem(name, reason, options) for name in names], words)


def _doubt(answer: Answer, why: str) -> AdapterError:
    if answer.reads:
        return hub.Unavailable(f"Zoho is unavailable: {why}.")
    return hub.Uncertain(f"Zoho is unavailable: {why}; it may have stored this all the same.")


def _several(answer: Answer, words: str, listed: Any) -> AdapterError:
    errors = [_error(answer, row) for row in objects_in(listed) if _has_code(row)]
    problems = [p for error in errors if isinstance(error, Rejected) for p in error.problems]
    others = [error for error in errors if not isinstance(error, Rejected)]
    # Other errors go before a conflict.
    others.sort(key=lambda error: isinstance(error, hub.Conflict))
    return others[0] if others else Rejected(problems, "" if problems else words)


def _duplicate(words: str, names: Sequence[str], details: Mapping[str, Any]) -> hub.Conflict:
    holder = details.get("duplicate_record")
    holder = holder if isinstance(holder, dict) else details
    existing_id, module = holder.get("id"), text_of(value_at(holder, "module", "api_name"))
    if module not in _WRITTEN:
        # The id of another kind of record, such as a lead, would name a wrong contact.
        existing_id, words = "", f"{words}. The other record is in {module}; convert it there."
    existing_id = existing_id if isinstance(existing_id, str) else ""
    return hub.Conflict(words, existing_id=existing_id, name=next(iter(names), ""))


def _names(details: Mapping[str, Any]) -> list[str]:
    """`id` means that the record does not exist, unless the path names a field that links it."""
    names = []
    for entry in [details, *objects_in(details.get("expected_fields"))]:
        name = entry.get("api_name")
        if isinstance(name, str) and name:
            path = str(entry.get("json_path", "")).split(".")
            names.append(path[-2] if name == "id" and len(path) > 3 else name)
    return list(dict.fromkeys(names))
