"""Pipedrive's API: calls and lists, credentials, rate limits, and errors."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from adapters.pipedrive.connecting import SCOPES
from crmhub.adapter import (
    OAUTH_SECRETS,
    AdapterError,
    Context,
    Denied,
    LacksRight,
    NotFound,
    Problem,
    Rejected,
    Throttled,
    Unavailable,
)
from crmhub.adapter.http import GENERAL, QUOTA, Answer, Http
from crmhub.adapter.oauth import Grant

SEARCH = "search"
# How many tokens each call costs, as Pipedrive's API files say.
READ, WRITE, LIST, SEARCHING, PIPELINES, USERS, ME = 1, 5, 10, 20, 5, 20, 2
# Calls in a rolling window until an answer names the limit: of a token, of an app, and searches.
_WINDOW_S, _CALLS, _CALLS_OF_APP, _SEARCHES = 2.0, 20, 80, 10
_DAY_S = 86_400.0
# Pipedrive takes 500; people with many custom fields must fit into the largest answer.
_PAGE = "200"
_DAILY_LIMIT, _DAILY_LEFT = "x-daily-ratelimit-token-limit", "x-daily-ratelimit-token-remaining"
# Waits where Pipedrive names none: the day ends at midnight in a time zone that it does not tell.
_DAILY_WAIT_S, _BLOCK_WAIT_S, _LOGIN_WAIT_S, _LONGEST_RESET_S = 900.0, 60.0, 60.0, 10.0
_COUNT = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_SHOWN = 300

Record = Mapping[str, Any]
Found = tuple[Answer, Record]
"""A record, with the answer that contains it."""


class MissingScope(LacksRight):
    """The app lacks a scope in Pipedrive; no proxy on the way has refused the call."""


class Api:
    def __init__(self, context: Context, title: str) -> None:
        keeps = ("api_domain", "scope")
        self._context = context
        self._grant = Grant(context, title, self._exchange, keeps=keeps, token="api_token")
        tokens = int(context.settings["daily_tokens"]) or 1
        calls = _CALLS if context.credentials["api_token"] else _CALLS_OF_APP
        self._budgets = {
            GENERAL: context.budget(GENERAL, calls=calls, seconds=_WINDOW_S),
            SEARCH: context.budget(SEARCH, calls=_SEARCHES, seconds=_WINDOW_S),
            QUOTA: context.budget(QUOTA, calls=tokens, seconds=_DAY_S),
        }
        http = partial(Http, context, crm=title, secrets=self._grant.secrets)
        self._http = http(
            self.site,
            authorize=self._authorization,
            renew=self._grant.renew,
            failure=failure,
            budgets=self._budgets,
            on_response=self._follow,
            correlation_header="x-correlation-id",
        )
        logins = {GENERAL: context.budget("oauth", calls=_CALLS, seconds=_WINDOW_S)}
        login_url = context.settings["oauth_url"]
        self._login = http(
            login_url,
            authorize=self._authorization_of_app,
            failure=_login_failure,
            budgets=logins,
        )

    def site(self) -> str:
        return (self._grant.kept("api_domain") or self._context.settings["base_url"]).rstrip("/")

    def missing_scopes(self) -> list[str]:
        granted = re.split(r"[ ,]+", self._grant.kept("scope"))
        return [scope for scope in SCOPES if scope not in granted] if any(granted) else []

    def record(self, method: str, *path: str, version: str = "v2", **options: Any) -> Found:
        """`path`: the segments after the version; `options`: those of `Http.send`."""
        answer = self._http.send(method, "api", version, *path, **options)
        return answer, answer.mapping(answer.object().get("data"))

    def listed(
        self,
        *path: str,
        params: Mapping[str, str],
        cost: int = LIST,
        lane: str = GENERAL,
        version: str = "v2",
    ) -> Iterator[Found]:
        """Raises Unavailable if there is no such list; `path`: the segments after the version."""
        if version == "v2":
            params = {"limit": _PAGE, **params}
        while True:
            try:
                answer = self._http.send(
                    "GET", "api", version, *path, params=params or None, cost=cost, lane=lane
                )
            except NotFound:
                raise Unavailable(
                    "Pipedrive has no such list; the company address may be wrong."
                ) from None
            data, more = (answer.object().get(name) for name in ("data", "additional_data"))
            items = data.get("items") if isinstance(data, dict) else data
            if not isinstance(items, list):
                raise answer.broken("a list was expected")
            yield from ((answer, answer.mapping(item)) for item in items)
            cursor = more.get("next_cursor") if isinstance(more, dict) else None
            if not cursor or cursor == params.get("cursor"):
                return
            params = {**params, "cursor": str(cursor)}

    def moment(self, seconds: float) -> str:
        """Return seconds since 1970 as Pipedrive's time, in RFC 3339 without fractions."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds + self._http.clock_ahead))

    def _exchange(self, credentials: Mapping[str, str]) -> Answer:
        form = {"grant_type": "refresh_token", "refresh_token": credentials["refresh_token"]}
        return self._login.send("POST", "oauth", "token", form=form, reads=True)

    def _authorization_of_app(self) -> dict[str, str]:
        pair = ":".join(self._context.credentials[name] for name in OAUTH_SECRETS[:2])
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    def _authorization(self) -> dict[str, str]:
        if self._context.credentials["api_token"]:
            return {"x-api-token": self._grant.token()}
        return {"Authorization": f"Bearer {self._grant.token()}"}

    def _follow(self, lane: str, answer: Answer) -> None:
        announced = ((lane, "x-ratelimit-limit", _WINDOW_S), (QUOTA, _DAILY_LIMIT, _DAY_S))
        for name, header, seconds in announced:
            limit = answer.headers.get(header, "")
            if _COUNT.fullmatch(limit):
                self._budgets[name].follow(int(limit), seconds)


def failure(answer: Answer) -> AdapterError | None:
    """None leaves it to the status; an error's body has only `success` and `error` for sure."""
    body = answer.body if isinstance(answer.body, dict) else {}
    if 200 <= answer.status < 300:
        return None if body.get("success") is True else answer.broken("it reports no success")
    code, words = (str(body.get(name) or "")[:_SHOWN] for name in ("code", "error"))
    match answer.status:
        case 400 | 422 if faults := [*_faults(body, words)]:
            return Rejected(faults, f"Pipedrive does not take these values: {words}")
        case 402:
            return Denied(f"The company's account is closed, or its trial is over: {words}")
        case 403 if not answer.is_json and _is_cloudflare(answer):
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


def _login_failure(answer: Answer) -> AdapterError | None:
    """A token's answer has no `success`. Logins have no documented limit, so the wait is long."""
    error = failure(answer) if answer.status >= 300 else None
    if isinstance(error, Throttled) and answer.seconds() is None:
        error.retry_after = _LOGIN_WAIT_S
    return error


def _throttled(answer: Answer, words: str) -> Throttled:
    wait, reset = answer.seconds(), answer.seconds("x-ratelimit-reset")
    if answer.headers.get(_DAILY_LEFT) == "0" or "daily" in words:
        # A Retry-After that comes along means the burst limit.
        wait = max(wait or 0.0, _DAILY_WAIT_S)
        message = "The API tokens of Pipedrive for this day are used up."
        return Throttled(message, retry_after=wait, scope=QUOTA)
    if wait is None:
        wait = min(max(reset or 0.0, _WINDOW_S), _LONGEST_RESET_S)
    return Throttled("Pipedrive's limit of calls is reached.", retry_after=wait, scope="burst")


def _is_cloudflare(answer: Answer) -> bool:
    headers = answer.headers
    return "cf-ray" in headers or "cloudflare" in headers.get("Server", "").lower()


def _faults(value: Any, reason: str) -> Iterator[Problem]:
    """Yield a problem for each custom field that an error names, at any depth."""
    if isinstance(value, dict):
        told = [value.get(name) for name in ("message", "error")]
        reason = next((text[:_SHOWN] for text in told if isinstance(text, str) and text), reason)
        code = value.get("field_code")
        if isinstance(code, str) and code:
            yield Problem(code, reason or "Pipedrive refuses the value")
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _faults(part, reason)
