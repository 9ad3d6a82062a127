"""The fake Pipedrive: credentials, scopes, limits, and the paths of its API."""

from __future__ import annotations

import base64
import binascii
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal
from uuid import uuid4

import orjson

from adapters.fakes import answers, control, fake
from adapters.fakes.answers import Answer
from adapters.fakes.authorizing import Authorizations
from adapters.fakes.faults import Fault
from adapters.fakes.limits import AtOnce, Window, parse, retry_header
from adapters.fakes.pipedrive.answers import Refused, invalid
from adapters.fakes.pipedrive.company import Company, PhoneSearch, paged, shown
from adapters.fakes.records import Record
from adapters.fakes.server import Received
from adapters.fakes.tokens import BadGrant, Tokens

SCOPES = frozenset({"base", "contacts:full", "deals:full", "users:read"})
_KINDS = {"contacts": "persons", "deals": "deals"}
_TOKEN_PATHS = ("/oauth/token", "/oauth/token/")
_DAY_S = 86_400.0
# Calls that an API token may send after a refusal before Cloudflare refuses them, and for how long.
_IGNORED, _BLOCKED_S = 20, 10.0
_BLOCK = b"<!DOCTYPE html><html><head><title>Access denied</title></head></html>"
_ROUTES: Mapping[tuple[str, str], tuple[int, tuple[str, ...]]] = {
    ("GET", "v2/persons"): (10, ("contacts:read", "contacts:full")),
    ("POST", "v2/persons"): (5, ("contacts:full",)),
    ("GET", "v2/persons/search"): (20, ("contacts:read", "contacts:full", "search:read")),
    ("GET", "v2/persons/#"): (1, ("contacts:read", "contacts:full")),
    ("PATCH", "v2/persons/#"): (5, ("contacts:full",)),
    ("DELETE", "v2/persons/#"): (3, ("contacts:full",)),
    ("GET", "v2/personFields"): (10, ("contacts:read", "contacts:full")),
    ("GET", "v2/deals"): (10, ("deals:read", "deals:full")),
    ("POST", "v2/deals"): (5, ("deals:full",)),
    ("GET", "v2/deals/#"): (1, ("deals:read", "deals:full")),
    ("DELETE", "v2/deals/#"): (3, ("deals:full",)),
    ("GET", "v2/dealFields"): (10, ("deals:read", "deals:full")),
    ("GET", "v2/pipelines"): (5, ("deals:read", "deals:full")),
    ("GET", "v2/stages"): (5, ("deals:read", "deals:full")),
    ("GET", "v1/users"): (20, ("users:read",)),
    ("GET", "v1/users/me"): (2, ("base",)),
}


@dataclass(kw_only=True)
class Options(fake.Options):
    """The options of the fake Pipedrive; `company.Company` explains those that it has, too.

    `limit` is the burst limit of the API token; an app may send four times as many calls.
    `daily_tokens` is the company's budget of a day. If `daily_headers` is False, answers do not
    tell it, as it happens. If `closed` is True, the company has not paid. If `marks` is True,
    people and deals have the custom text field "crmhub mark".
    """

    token: str = "0123456789abcdef0123456789abcdef01234567"
    limit: str = "20/2s"
    search_limit: str = "10/2s"
    daily_tokens: int = 30_000
    daily_headers: bool = True
    closed: bool = False
    marks: bool = False
    phone_search: PhoneSearch = "digits"
    keeps_channel: bool = True
    deleted: Literal["flagged", "gone"] = "flagged"
    names_field: bool = False
    expires_in: float = 3_600.0
    client_id: str = "fake-client-id"
    client_secret: str = "fake-client-secret"
    refresh_token: str = "fake-refresh-token"


class FakePipedrive(fake.Fake):
    """One company in Pipedrive, with its tokens and limits."""

    kinds = ("contacts", "deals")
    settings: ClassVar = (
        control.SETTINGS
        | control.TOKEN_SETTINGS
        | {
            "closed": control.attribute(control.check_flag, "closed"),
            "daily_headers": control.attribute(control.check_flag, "daily_headers"),
        }
    )
    options: Options
    tokens: Tokens

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options or Options())

    def reset(self) -> None:
        """Discard the whole state, and start again with the original options."""
        options = self.options
        with self.lock:
            super().reset()
            self.closed, self.daily_headers = options.closed, options.daily_headers
            self.company = Company(
                phone_search=options.phone_search,
                keeps_channel=options.keeps_channel,
                deleted=options.deleted,
                names_field=options.names_field,
            )
            if options.marks:
                self.define("contacts", "crmhub mark")
                self.define("deals", "crmhub mark")
            self.tokens = Tokens(
                static=options.token,
                client_id=options.client_id,
                client_secret=options.client_secret,
                refresh_token=options.refresh_token,
                expires_in=options.expires_in,
                prefix="v1u:",
                known_scopes=SCOPES,
                scopes=SCOPES,
            )
            # The scopes are those of the app, whatever the request names.
            self.authorizations = Authorizations("Pipedrive", options.client_id)
            most, seconds = parse(options.limit, usual=2.0)
            self.windows = {
                "limit": Window("burst", most, seconds),
                "app_limit": Window("app", most and 4 * most, seconds),
                "search_limit": Window("search", *parse(options.search_limit, usual=2.0)),
                "daily_tokens": Window("daily", options.daily_tokens, _DAY_S),
            }
            self._ignored: deque[float] = deque(maxlen=_IGNORED)
            self._blocked_until = 0.0

    # Records, as the company's users make them.

    def define(self, kind: str, name: str, type_: str = "varchar", *labels: str) -> str:
        """Add a custom field to contacts or deals; return its key."""
        with self.lock:
            return self.company.define(_KINDS[kind], name, type_, *labels)

    def stored(self, kind: str) -> Mapping[str, Record]:
        """Return the people or deals that are not deleted, by id."""
        if kind not in _KINDS:
            raise Refused(404, f"there are no {kind}")
        return self.company.stored(_KINDS[kind])

    def add(self, kind: str, properties: Mapping[str, Any], *, contacts: Iterable[str] = ()) -> str:
        """Create a person or a deal that searches find at once; return its id.

        `properties` is Pipedrive's JSON. A deal is linked to the first one of `contacts`.
        """
        with self.lock:
            link = [("person_id", int(id_)) for id_ in contacts][:1]
            record = self.company.create(_KINDS[kind], {**properties, **dict(link)})
            record.index()
            return record.id

    def delete(self, kind: str, id_: str) -> None:
        """Delete a person or a deal, as a user does: it is marked as deleted."""
        with self.lock:
            self.company.delete(_KINDS[kind], int(id_))

    def linked(self, kind: str, id_: str, to: str) -> list[str]:
        """Return the ids of the deals of a person, or of the person of a deal."""
        with self.lock:
            deals = self.stored("deals")
            if kind == "deals":
                person = deals[id_].properties["person_id"]
                return [str(person)] if person and to == "contacts" else []
            return [
                one for one, deal in deals.items() if deal.properties["person_id"] == int(id_)
            ] * (to == "deals")

    def readable(self, kind: str, record: Record) -> Mapping[str, Any]:
        """Return a record's properties, its custom fields under their names instead of keys."""
        properties = dict(record.properties)
        fields = self.company.fields[_KINDS[kind]]
        custom = properties.pop("custom_fields")
        return properties | {fields[key]["field_name"]: value for key, value in custom.items()}

    # Credentials and limits.

    def costs(self, received: Received) -> list[tuple[Window, int]]:
        """Return the burst limit and the daily budget under which a call counts."""
        cost, _ = _ROUTES.get((received.method, _route(received.path)), (0, ()))
        if not cost:
            return []
        window = "app_limit" if received.headers.get("Authorization") else "limit"
        if _route(received.path).endswith("/search"):
            window = "search_limit"
        return [(self.windows[window], 1), (self.windows["daily_tokens"], cost)]

    def over(self, limit: Window | AtOnce, wait: float) -> Refused:
        """Return the 429 response to a call that exceeds a limit; its body is undocumented."""
        if limit.name == "daily":
            # A wait of seconds comes along although it takes until midnight.
            headers = {"Retry-After": "3"}
            if self.daily_headers:
                headers["x-daily-ratelimit-token-remaining"] = "0"
            return Refused(429, "Too many requests", headers=headers)
        now = time.monotonic()
        if len(self._ignored) == _IGNORED and now - self._ignored[0] < _BLOCKED_S:
            self._blocked_until = now + _BLOCKED_S
        self._ignored.append(now)
        headers = retry_header(wait, self.retry_after)
        return Refused(429, "Request over limit", errorCode=429, headers=headers)

    def admit(self, received: Received) -> None:
        """Raise Refused for a blocked client, an unknown path, a wrong token or a missing scope."""
        if received.path in (*_TOKEN_PATHS, self.authorizations.path):
            return
        if time.monotonic() < self._blocked_until and not received.headers.get("Authorization"):
            headers = {"Server": "cloudflare", "CF-RAY": "8f00fake"}
            page = "text/html; charset=UTF-8"
            raise answers.Refused(403, _BLOCK, headers=headers, content_type=page)
        cost, scopes = _ROUTES.get((received.method, _route(received.path)), (0, ()))
        if not cost:
            raise Refused(404, "Unknown method .", errorCode=404)
        scheme, _, bearer = received.headers.get("Authorization", "").partition(" ")
        token = received.headers.get("x-api-token", "")
        known = scheme == "Bearer" and bearer in self.tokens.issued
        if not known and token != self.tokens.static:
            raise unauthorized()
        if self.tokens.state(bearer if known else token) != "valid":
            raise unauthorized()
        if self.closed:
            raise Refused(402, "Company account is not open", errorCode=402)
        if known and not self.tokens.scopes & {*scopes}:
            raise Refused(403, "Scope and URL mismatch", errorCode=403)

    def decorate(self, received: Received, answer: Answer) -> None:
        """Add a correlation id, and the limits with what is left of them."""
        answer.headers.setdefault("x-correlation-id", str(uuid4()))
        for window, _ in self.costs(received) if answer.status not in (401, 404) else ():
            if window.name == "daily" and self.daily_headers:
                answer.headers["x-daily-ratelimit-token-limit"] = str(window.most)
                left = str(window.remaining())
                answer.headers.setdefault("x-daily-ratelimit-token-remaining", left)
            elif window.name != "daily" and window.most is not None:
                answer.headers |= {
                    "x-ratelimit-limit": str(window.most),
                    "x-ratelimit-remaining": str(window.remaining()),
                    "x-ratelimit-reset": str(round(window.resets_in() + 0.5)),
                }

    def error(self, status: int, fault: Fault) -> Answer:
        """Return Pipedrive's own response with an error status."""
        if status == 401:
            return unauthorized().answer()
        code = {500: "ERR_UNKNOWN"}.get(status, f"ERR_{status}")
        return Refused(status, "Internal Server Error", code=code).answer()

    # Endpoints.

    def handle(self, received: Received) -> Answer:
        """Execute a call of the API, of the token endpoint, or of the OAuth page."""
        if received.path in _TOKEN_PATHS:
            return self._token(received)
        if received.path == self.authorizations.path:
            form = received.form if received.body else received.parameters
            return self.authorizations.answer(received.method, form)
        match received.method, received.path.removeprefix("/api/").split("/"):
            case "GET", ["v1", "users", "me"]:
                me = {"company_id": 62515, "company_name": "Acme", "company_domain": "acme"}
                return _data({**self.company.users[0], **me})
            case "GET", ["v1", "users"]:
                return Answer(200, {"success": True, "data": self.company.users})
            case "GET", ["v2", "persons", "search"]:
                return Answer(200, self.company.search(received.parameters, self.search_lag))
            case "GET", ["v2", "pipelines"]:
                return self._definitions(self.company.pipelines, received)
            case "GET", ["v2", "stages"]:
                return self._definitions(self.company.stages, received, "pipeline_id", "order_nr")
            case "GET", ["v2", "personFields" | "dealFields" as named]:
                kind = "persons" if named == "personFields" else "deals"
                fields = list(self.company.fields[kind].values())
                return Answer(200, paged(fields, received.parameters))
            case "GET", ["v2", kind]:
                return Answer(200, self.company.listed(kind, received.parameters))
            case "POST", ["v2", kind]:
                return _data(shown(self.company.create(kind, _json(received))))
            case "GET", ["v2", kind, id_]:
                return _data(self.company.read(kind, int(id_)))
            case "PATCH", ["v2", kind, id_]:
                return _data(shown(self.company.update(kind, int(id_), _json(received))))
            case "DELETE", ["v2", kind, id_]:
                self.company.delete(kind, int(id_))
                return _data({"id": int(id_)})
        raise Refused(404, "Unknown method .", errorCode=404)

    def _definitions(self, items: list[dict[str, Any]], received: Received, *names: str) -> Answer:
        """Return pipelines or stages; `names` are a filter and a further order that they have."""
        query = received.parameters
        if unknown := query.keys() - {"limit", "cursor", "sort_by", "sort_direction", *names[:1]}:
            raise invalid(sorted(unknown)[0], "is not allowed")
        by = query.get("sort_by", "id")
        if by not in ("id", *names[1:]):
            raise invalid("sort_by", "is not allowed")
        if "pipeline_id" in query:
            items = [one for one in items if str(one["pipeline_id"]) == query["pipeline_id"]]
        return Answer(200, paged(sorted(items, key=lambda one: one[by]), query))

    def _token(self, received: Received) -> Answer:
        if received.method != "POST":
            raise Refused(405, "Method Not Allowed", headers={"Allow": "POST"})
        form = dict(received.form)
        if {"client_id", "client_secret"} & form.keys():
            raise _bad_grant("invalid_request", "The client authenticates by HTTP Basic")
        form["client_id"], form["client_secret"] = _client(received)
        try:
            token = self.tokens.grant(form, self.authorizations)
        except BadGrant as exc:
            status = 401 if exc.error == "invalid_client" else 400
            raise _bad_grant(exc.error, f"Invalid {exc.field}", status) from None
        self.faults.refreshed()
        body = {
            "access_token": token,
            "token_type": "Bearer",
            "refresh_token": self.tokens.refresh_token,
            "scope": ",".join(sorted(self.tokens.scopes)),
            "expires_in": round(self.tokens.expires_in),
            "api_domain": self.url,
        }
        return Answer(200, body, {"Cache-Control": "no-store"})


def unauthorized() -> Refused:
    """Return Pipedrive's 401 response, which is the same for an expired and an unknown token."""
    return Refused(401, "unauthorized access", errorCode=401, headers={"x-401-by-gw": "true"})


def _bad_grant(error: str, message: str, status: int = 400) -> answers.Refused:
    return answers.Refused(status, {"success": False, "error": error, "message": message})


def _client(received: Received) -> tuple[str, str]:
    scheme, _, pair = received.headers.get("Authorization", "").partition(" ")
    try:
        decoded = base64.b64decode(pair, validate=True).decode() if scheme == "Basic" else ""
    except (ValueError, binascii.Error):
        decoded = ""
    client_id, _, client_secret = decoded.partition(":")
    return client_id, client_secret


def _route(path: str) -> str:
    """Return the path below /api with `#` for an id."""
    parts = path.removeprefix("/api/").split("/") if path.startswith("/api/") else []
    return "/".join("#" if part.isascii() and part.isdigit() else part for part in parts)


def _data(data: Any) -> Answer:
    return Answer(200, {"success": True, "data": data})


def _json(received: Received) -> Any:
    if not received.headers.get("Content-Type", "").startswith("application/json"):
        raise Refused(415, "Unsupported Media Type")
    try:
        return orjson.loads(received.body)
    except orjson.JSONDecodeError:
        raise Refused(400, "Bad request") from None
