"""The errors that Pipedrive reports, as errors of the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adapters.pipedrive.connecting import SCOPES
from crmhub.adapter import AdapterError, Denied, LacksRight, Problem, Rejected, Throttled
from crmhub.adapter.http import QUOTA, Answer

# Waits where Pipedrive names none: the day ends at midnight in a time zone that it does not tell.
_DAILY_WAIT_S, _BLOCK_WAIT_S, _LOGIN_WAIT_S = 900.0, 60.0, 60.0
_SHORTEST_RESET_S, _LONGEST_RESET_S = 2.0, 10.0
_SHOWN = 300


class MissingScope(LacksRight):
    """The app lacks a scope in Pipedrive; no proxy on the way has refused the call."""


def failure(answer: Answer) -> AdapterError | None:
    """None leaves it to the status; an error's body has only `success` and `error` for sure."""
    body = answer.body if isinstance(answer.body, dict) else {}
    if 200 <= answer.status < 300:
        return None if body.get("success") is True else answer.broken("it reports no success")
    code, words = (str(body.get(name) or "")[:_SHOWN] for name in ("code", "error"))
    server, is_page = answer.headers.get("Server", "").lower(), not answer.is_json
    match answer.status:
        case 400 | 422 if faults := [*_faults(body, words)]:
            return Rejected(faults, f"Pipedrive does not take these values: {words}")
        case 402:
            return Denied(f"The company's account is closed, or its trial is over: {words}")
        case 403 if is_page and ("cf-ray" in answer.headers or "cloudflare" in server):
            # So Pipedrive answers an API token whose user has ignored rate limits.
            wait = answer.seconds() or _BLOCK_WAIT_S
            return Throttled("Pipedrive blocks this machine for a while.", retry_after=wait)
        case 403 if "limit" in code or "capping" in code:
            return Rejected([], f"Pipedrive's plan allows no more of these: {words}")
        case 403 if "scope" in words.lower():
            needed = ", ".join(SCOPES)
            return MissingScope(f"The app lacks a scope in Pipedrive ({words}); it needs {needed}.")
        case 429:
            return _throttled(answer, f"{code} {words}".lower())
    return None


def token_failure(answer: Answer) -> AdapterError | None:
    """A token's answer has no `success`. Logins have no documented limit, so the wait is long."""
    error = failure(answer) if answer.status >= 300 else None
    if isinstance(error, Throttled) and answer.seconds() is None:
        error.retry_after = _LOGIN_WAIT_S
    return error


def _throttled(answer: Answer, words: str) -> Throttled:
    wait = answer.seconds()
    if answer.headers.get("x-daily-ratelimit-token-remaining") == "0" or "daily" in words:
        # A Retry-After that comes along means the burst limit.
        wait = max(wait or 0.0, _DAILY_WAIT_S)
        message = "The API tokens of Pipedrive for this day are used up."
        return Throttled(message, retry_after=wait, scope=QUOTA)
    if wait is None:
        reset = answer.seconds("x-ratelimit-reset") or 0.0
        wait = min(max(reset, _SHORTEST_RESET_S), _LONGEST_RESET_S)
    return Throttled("Pipedrive's limit of calls is reached.", retry_after=wait, scope="burst")


def _faults(value: Any, reason: str) -> Iterator[Problem]:
    """Yield a problem for each custom field that an error names, at any depth."""
    if isinstance(value, dict):
        texts = (value.get(name) for name in ("message", "error"))
        reason = next((text[:_SHOWN] for text in texts if isinstance(text, str) and text), reason)
        code = value.get("field_code")
        if isinstance(code, str) and code:
            yield Problem(code, reason or "Pipedrive refuses the value")
        value = [*value.values()]
    for part in value if isinstance(value, list) else ():
        yield from _faults(part, reason)
