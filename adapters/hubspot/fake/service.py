"""The processing of API calls by the fake HubSpot.

Each call passes the injected faults, the rate limits and the authorization before its endpoint.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, parse_qsl, urlsplit
from uuid import uuid4

from adapters.fakes import authorizing
from adapters.fakes.faults import Faults
from adapters.fakes.limits import RetryAfter, Window, parse, retry_header, too_many
from adapters.fakes.server import Received, Sent
from adapters.hubspot.fake import routes
from adapters.hubspot.fake.answers import Answer, Refused
from adapters.hubspot.fake.calls import Call
from adapters.hubspot.fake.portal import Portal
from adapters.hubspot.fake.tokens import SCOPES, SENSITIVE_SCOPES, Tokens

_TOKEN_PATHS = tuple(f"/oauth/{version}/token" for version in (*routes.DATED, "v3", "v1"))
# HubSpot documents no limit for URLs; most servers accept at least 8,000 bytes.
_LONGEST_TARGET = 8_000
_MOST_REMEMBERED = 5_000
_LONGEST_REMEMBERED = 16_384
_NOT_FOUND_PAGE = b"<html><head><title>Error 404 Not Found</title></head></html>"


@dataclass(kw_only=True)
class Options:
    """The options of the fake HubSpot.

    Rate limits are written `100/10s` or `none`; times are in seconds. If `marks` is True, the
    account has the unique property crmhub_mark. If `rotates` is True, each token refresh replaces
    the refresh token, too.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token: str = "pat-na1-fake-0123456789"
    portal_id: int = 62515
    search_lag: float = 0.0
    latency: float = 0.0
    limit: str = "100/10s"
    search_limit: str = "5/1s"
    token_limit: str = "none"
    daily_limit: int = 250_000
    retry_after: RetryAfter = "none"
    marks: bool = False
    rotates: bool = False
    expires_in: float = 1_800.0
    client_id: str = "fake-client-id"
    client_secret: str = "fake-client-secret"
    refresh_token: str = "fake-refresh-token"


@dataclass(frozen=True, slots=True)
class Seen:
    """An API call that the fake has recorded.

    `at` is its time by time.monotonic(). `body` is cut after 16 KiB. `status` is the status of the
    response, or 0 if no response was sent. `fault` is the kind of the fault that was applied, or
    None.
    """

    at: float
    method: str
    path: str
    query: str
    body: bytes
    status: int
    fault: str | None = None


Pause = Callable[[float], None]


class Service:
    """The fake HubSpot without a socket: one account with tokens, rate limits and faults.

    `lock` protects the whole state, and is released during pauses.
    """

    portal: Portal
    tokens: Tokens
    faults: Faults
    latency: float
    retry_after: RetryAfter
    general: Window
    searches: Window
    token_calls: Window

    def __init__(self, options: Options) -> None:
        self.options = options
        self.lock = threading.RLock()
        self.reset()

    def reset(self) -> None:
        """Discard the whole state, and start again with the original options."""
        options = self.options
        with self.lock:
            self.portal = Portal(portal_id=options.portal_id, marks=options.marks)
            self.portal.search_lag = options.search_lag
            self.portal.daily_limit = options.daily_limit
            self.tokens = Tokens(
                options.token,
                client_id=options.client_id,
                client_secret=options.client_secret,
                refresh_token=options.refresh_token,
                rotates=options.rotates,
                expires_in=options.expires_in,
            )
            self.faults = Faults()
            self.latency = options.latency
            self.retry_after = options.retry_after
            self.general = Window("general", *parse(options.limit))
            self.searches = Window("search", *parse(options.search_limit, usual=1.0))
            self.token_calls = Window("token", *parse(options.token_limit))
            self._seen: deque[Seen] = deque(maxlen=_MOST_REMEMBERED)

    def respond(self, received: Received, pause: Pause) -> Sent:
        """Process an API call and record it; return the response to send.

        `pause` is a function that waits for a number of seconds.
        """
        came = time.monotonic()
        split = urlsplit(received.target)
        sent = self._sent(received, split.path, split.query, pause)
        nothing = sent.fault is not None and sent.fault.kind in ("reset", "close")
        seen = Seen(
            came,
            received.method,
            split.path,
            split.query,
            received.body[:_LONGEST_REMEMBERED],
            0 if nothing else sent.answer.status,
            sent.fault.kind if sent.fault else None,
        )
        with self.lock:
            self._seen.append(seen)
        return sent

    def _sent(self, received: Received, path: str, query: str, pause: Pause) -> Sent:
        with self.lock:
            fault = self.faults.strike(received.method, path)
            route = routes.find(path)
            over = self._over(route, path)
        if fault and not fault.needs_answer:
            pause(fault.seconds)
            return Sent(fault.answer(None), fault)
        pause(self.latency)
        if fault and fault.pauses and not fault.written:
            pause(fault.seconds)
        true = self._answered(received, path, query, route, over)
        true.headers.setdefault("x-hubspot-correlation-id", str(uuid4()))
        if fault is None:
            return Sent(true)
        if fault.pauses and fault.written:
            pause(fault.seconds)
        return Sent(fault.answer(true), fault)

    def _over(self, route: routes.Route | None, path: str) -> Refused | None:
        """Count a call under the rate limit of its path.

        Return HubSpot's 429 response if the call exceeds this limit or the daily limit; otherwise
        return None.
        """
        if path in _TOKEN_PATHS:
            wait = self.token_calls.take()
            headers = retry_header(wait or 0, "seconds")
            return (
                Refused(429, "Too many requests", category="RATE_LIMITS", headers=headers)
                if wait is not None
                else None
            )
        if path == authorizing.PATH:
            return None
        window = self.searches if route and route.is_search else self.general
        wait = window.take()
        self.portal.called_today += 1
        if wait is not None:
            return too_many(window, wait, self.retry_after)
        if self.portal.called_today > self.portal.daily_limit:
            return too_many(Window("daily", 0, 86_400), 86_400, self.retry_after)
        return None

    def _answered(
        self,
        received: Received,
        path: str,
        query: str,
        route: routes.Route | None,
        over: Refused | None,
    ) -> Answer:
        try:
            if len(received.target) > _LONGEST_TARGET:
                raise Refused(414, "URI Too Long", category=None)
            if path in _TOKEN_PATHS:
                return self._token(received, query, over)
            if path == authorizing.PATH:
                given = received.body.decode("utf-8", "replace") if received.body else query
                with self.lock:
                    return self.tokens.authorizations.answer(
                        received.method, dict(parse_qsl(given)), SCOPES | SENSITIVE_SCOPES
                    )
            if route is None:
                return Answer(404, _NOT_FOUND_PAGE, content_type="text/html;charset=iso-8859-1")
            with self.lock:
                token = self.tokens.check(received.headers.get("Authorization"))
                try:
                    if over:
                        raise over
                    answer = self._called(received, path, query, route)
                except Refused as exc:
                    answer = exc.answer()
                answer.headers |= self._limit_headers(route, token)
                # Encode under the lock, since the records in the body may change afterwards.
                answer.body = None if answer.status == 204 else answer.encoded()
                return answer
        except Refused as exc:
            return exc.answer()

    def _called(self, received: Received, path: str, query: str, route: routes.Route) -> Answer:
        endpoint = route.endpoint(received.method)
        call = Call(
            portal=self.portal,
            path=path,
            version=route.version,
            query=parse_qs(query, keep_blank_values=True),
            body=received.body,
            content_type=received.headers.get("Content-Type", ""),
            at=route.at,
        )
        if "kind" in route.at:
            call.kind = self.portal.kind(route.at["kind"])
        self.tokens.allow(route.scopes(call.kind, received.method))
        if route.area == "objects":
            for level in sorted(call.sensitivities()):
                self.tokens.allow(route.sensitive_scopes(call.kind, received.method, level))
        return endpoint(call)

    def _limit_headers(self, route: routes.Route, token: str) -> dict[str, str]:
        """Return the headers with the rate limit and the remaining calls.

        Integrators have observed no such headers in responses to searches and associations, and no
        headers about the daily limit under OAuth.
        """
        if route.is_search or route.area in ("links", "associations") or self.general.most is None:
            return {}
        headers = {
            "X-HubSpot-RateLimit-Max": str(self.general.most),
            "X-HubSpot-RateLimit-Remaining": str(self.general.remaining()),
            "X-HubSpot-RateLimit-Interval-Milliseconds": str(round(self.general.seconds * 1000)),
        }
        if token == self.tokens.static:
            left = max(0, self.portal.daily_limit - self.portal.called_today)
            headers["X-HubSpot-RateLimit-Daily"] = str(self.portal.daily_limit)
            headers["X-HubSpot-RateLimit-Daily-Remaining"] = str(left)
        return headers

    def _token(self, received: Received, query: str, over: Refused | None) -> Answer:
        if over:
            raise over
        if received.method != "POST":
            raise Refused(405, "Method Not Allowed", category=None, headers={"Allow": "POST"})
        form_type = "application/x-www-form-urlencoded"
        if not received.headers.get("Content-Type", "").lower().startswith(form_type):
            raise Refused(415, "Unsupported Media Type", category=None)
        if {"client_secret", "refresh_token"} & dict(parse_qsl(query)).keys():
            raise Refused(400, "Credentials belong in the body, not in the query", category=None)
        form = dict(parse_qsl(received.body.decode("utf-8", "replace")))
        with self.lock:
            answer = self.tokens.refresh(form, self.portal.portal_id)
            self.faults.refreshed()
        return answer
