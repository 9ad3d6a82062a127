"""The processing of API calls by the fake HubSpot: its rate limits, authorization and endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import parse_qs
from uuid import uuid4

from adapters.fakes import answers, control, fake
from adapters.fakes.answers import Answer
from adapters.fakes.authorizing import Authorizations
from adapters.fakes.faults import Fault
from adapters.fakes.hubspot import routes, rules
from adapters.fakes.hubspot.answers import Refused, failure
from adapters.fakes.hubspot.calls import Call
from adapters.fakes.hubspot.definitions import KINDS
from adapters.fakes.hubspot.linking import default_type, linked
from adapters.fakes.hubspot.portal import Portal, Record
from adapters.fakes.hubspot.tokens import SCOPES, SENSITIVE_SCOPES, Tokens, expired
from adapters.fakes.hubspot.writing import create
from adapters.fakes.limits import AtOnce, Window, parse, retry_header
from adapters.fakes.server import Received

_TOKEN_PATHS = tuple(f"/oauth/{version}/token" for version in (*routes.DATED, "v3", "v1"))
_POLICIES = {"general": "TEN_SECONDLY_ROLLING", "search": "SECONDLY", "daily": "DAILY"}
# HubSpot documents no limit for URLs; most servers accept at least 8,000 bytes.
_LONGEST_TARGET = 8_000
_NOT_FOUND_PAGE = b"<html><head><title>Error 404 Not Found</title></head></html>"


@dataclass(kw_only=True)
class Options(fake.Options):
    """The options of the fake HubSpot.

    If `marks` is True, the account has the unique property crmhub_mark. If `rotates` is True, each
    token refresh replaces the refresh token, too.
    """

    token: str = "pat-na1-fake-0123456789"
    portal_id: int = 62515
    limit: str = "100/10s"
    search_limit: str = "5/1s"
    token_limit: str = "none"
    daily_limit: int = 250_000
    marks: bool = False
    rotates: bool = False
    expires_in: float = 1_800.0
    client_id: str = "fake-client-id"
    client_secret: str = "fake-client-secret"
    refresh_token: str = "fake-refresh-token"


def _set_daily_limit(service: Service, value: float) -> None:
    service.portal.daily.change(int(value), service.portal.daily.seconds)


class Service(fake.Fake):
    """One HubSpot account with its tokens and rate limits.

    `general`, `searches` and `token_calls` are the rate limits of all other calls, of searches and
    of the token endpoint.
    """

    kinds: ClassVar = {kind: kind for kind in KINDS}
    settings: ClassVar = (
        control.SETTINGS
        | control.TOKEN_SETTINGS
        | {"daily_limit": control.Setting(control.check_number, _set_daily_limit)}
    )
    orders: ClassVar = rules.ORDERS
    options: Options
    tokens: Tokens
    authorizations: Authorizations

    def reset(self) -> None:
        """Discard the whole state, and start again with the original options."""
        options = self.options
        with self.lock:
            super().reset()
            self.portal = Portal(portal_id=options.portal_id, marks=options.marks)
            self.portal.daily.most = options.daily_limit
            self.tokens = Tokens(
                static=options.token,
                client_id=options.client_id,
                client_secret=options.client_secret,
                refresh_token=options.refresh_token,
                rotates=options.rotates,
                expires_in=options.expires_in,
            )
            known = SCOPES | SENSITIVE_SCOPES
            self.authorizations = Authorizations("HubSpot", options.client_id, known_scopes=known)
            self.general = Window("general", *parse(options.limit))
            self.searches = Window("search", *parse(options.search_limit, usual=1.0))
            self.token_calls = Window("token", *parse(options.token_limit))
            self.windows = {
                "limit": self.general,
                "search_limit": self.searches,
                "token_limit": self.token_calls,
            }

    # Rate limits.

    def costs(self, received: Received) -> list[tuple[Window, int]]:
        """Return the rate limits under which a call counts."""
        if received.path in _TOKEN_PATHS:
            return [(self.token_calls, 1)]
        if received.path == self.authorizations.path:
            return []
        route = routes.find(received.path)
        return [
            (self.searches if route and route.is_search else self.general, 1),
            (self.portal.daily, 1),
        ]

    def over(self, limit: Window | AtOnce, wait: float) -> Refused:
        """Return HubSpot's 429 response to a call that exceeds a rate limit."""
        if limit is self.token_calls:
            headers = retry_header(wait, "seconds")
            return Refused(429, "Too many requests", category="RATE_LIMITS", headers=headers)
        policy = _POLICIES[limit.name]
        return Refused(
            429,
            f"You have reached your {policy.lower()} limit.",
            category=None,
            headers=retry_header(wait, self.retry_after),
            extra={"errorType": "RATE_LIMIT", "policyName": policy, "groupName": "publicapi:fake"},
        )

    def decorate(self, received: Received, answer: Answer) -> None:
        """Add a correlation id, and the rate limit with the remaining calls.

        Integrators have observed no such limits in responses to searches and associations, and no
        daily limit under OAuth.
        """
        answer.headers.setdefault("x-hubspot-correlation-id", str(uuid4()))
        route = routes.find(received.path)
        if route is None or answer.status in (401, 414) or self.general.most is None:
            return
        if route.is_search or route.area in ("links", "associations"):
            return
        daily = self.portal.daily
        answer.headers |= {
            "X-HubSpot-RateLimit-Max": str(self.general.most),
            "X-HubSpot-RateLimit-Remaining": str(self.general.remaining()),
            "X-HubSpot-RateLimit-Interval-Milliseconds": str(round(self.general.seconds * 1000)),
        }
        if received.headers.get("Authorization", "").endswith(self.tokens.static):
            answer.headers["X-HubSpot-RateLimit-Daily"] = str(daily.most)
            left = max(0, (daily.most or 0) - daily.calls)
            answer.headers["X-HubSpot-RateLimit-Daily-Remaining"] = str(left)

    # Endpoints.

    def admit(self, received: Received) -> None:
        """Raise Refused for an overlong URL, an unknown path, and an invalid access token."""
        if len(received.target) > _LONGEST_TARGET:
            raise Refused(414, "URI Too Long", category=None)
        if received.path in (*_TOKEN_PATHS, self.authorizations.path):
            return
        if routes.find(received.path) is None:
            page = "text/html;charset=iso-8859-1"
            raise answers.Refused(404, _NOT_FOUND_PAGE, content_type=page)
        self.tokens.check(received.headers.get("Authorization"))

    def handle(self, received: Received) -> Answer:
        """Execute a call of the API, of the token endpoint, or of the OAuth page."""
        if received.path in _TOKEN_PATHS:
            return self._token(received)
        if received.path == self.authorizations.path:
            form = received.form if received.body else received.parameters
            return self.authorizations.answer(received.method, form)
        route = routes.find(received.path)
        assert route is not None
        endpoint = route.endpoint(received.method)
        call = Call(
            portal=self.portal,
            search_lag=self.search_lag,
            path=received.path,
            version=route.version,
            query=parse_qs(received.query, keep_blank_values=True),
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

    def _token(self, received: Received) -> Answer:
        if received.method != "POST":
            raise Refused(405, "Method Not Allowed", category=None, headers={"Allow": "POST"})
        form_type = "application/x-www-form-urlencoded"
        if not received.headers.get("Content-Type", "").lower().startswith(form_type):
            raise Refused(415, "Unsupported Media Type", category=None)
        if {"client_secret", "refresh_token"} & received.parameters.keys():
            raise Refused(400, "Credentials belong in the body, not in the query", category=None)
        body = self.tokens.answer(received.form, self.authorizations, self.portal.portal_id)
        self.faults.refreshed()
        return Answer(200, body, {"Cache-Control": "no-store"})

    def error(self, status: int, fault: Fault) -> Answer:
        """Return HubSpot's own response with an error status."""
        return expired().answer() if fault.kind == "expired" else failure(status, fault)

    # Records.

    def stored(self, kind: str) -> Mapping[str, Record]:
        """Return the records of a kind that are not archived, by id."""
        return self.portal.records[self.portal.kind(kind)]

    def add(self, kind: str, properties: Mapping[str, str], *, contacts: Iterable[str] = ()) -> str:
        """Create a record that searches find at once, without lag; return its id."""
        with self.lock:
            type_id = default_type(kind, "contacts").id
            spec = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": type_id}
            links = [{"to": {"id": contact_id}, "types": [spec]} for contact_id in contacts]
            record = create(self.portal, kind, dict(properties), links)
            record.index()
            return record.id

    def linked(self, kind: str, id_: str, to: str) -> list[str]:
        """Return the ids of the records of the kind `to` that are linked to a given record."""
        with self.lock:
            return sorted(linked(self.portal, self.portal.load(kind, id_), to))
