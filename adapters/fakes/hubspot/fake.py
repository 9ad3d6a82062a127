"""The fake HubSpot: one account with its tokens, rate limits and endpoints."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar
from urllib.parse import unquote
from uuid import uuid4

from adapters.fakes import answers, control, fake
from adapters.fakes.answers import Answer
from adapters.fakes.authorizing import Authorizations
from adapters.fakes.faults import Fault
from adapters.fakes.hubspot import shapes
from adapters.fakes.hubspot.answers import Refused, failure, iso, item_error, not_found
from adapters.fakes.hubspot.definitions import KINDS, LINK_TYPES, SINGULAR
from adapters.fakes.hubspot.portal import NEEDED, Portal, Rules
from adapters.fakes.hubspot.searching import MAX_BODY, search
from adapters.fakes.limits import AtOnce, Window, parse, retry_header
from adapters.fakes.records import Record, now_ms
from adapters.fakes.server import Received
from adapters.fakes.tokens import BadGrant, Tokens

SCOPES = frozenset(
    {
        "oauth",
        "tickets",
        "crm.objects.owners.read",
        *(
            f"crm.{of}.{kind}.{how}"
            for of in ("objects", "schemas")
            for kind in ("contacts", "deals", "companies")
            for how in ("read", "write")
        ),
        *(f"crm.{of}.tickets.{how}" for of in ("objects", "schemas") for how in ("read", "write")),
    }
)
_LEVELS = ("sensitive", "highly_sensitive")
SENSITIVE_SCOPES = frozenset(
    {
        *(f"tickets.{level}.v2" for level in _LEVELS),
        *(
            f"crm.objects.{kind}.{level}.{how}.v2"
            for kind in ("contacts", "deals")
            for level in _LEVELS
            for how in ("read", "write")
        ),
    }
)
"""The scopes for sensitive properties; tokens have them only if a setting grants them."""
_ABOUT_SCOPES = "https://developers.hubspot.com/scopes"
_ABOUT_TOKENS = "https://developers.hubspot.com/docs/methods/auth/oauth-overview"
_BAD_GRANTS = {
    "grant_type": ("BAD_GRANT_TYPE", "missing or unknown grant type"),
    "client_id": ("BAD_CLIENT_ID", "missing or unknown client ID"),
    "client_secret": ("BAD_CLIENT_SECRET", "missing or invalid client secret"),
    "code": ("BAD_AUTH_CODE", "missing or unknown auth code"),
    "refresh_token": ("BAD_REFRESH_TOKEN", "missing or invalid refresh token"),
}
_POLICIES = {"general": "TEN_SECONDLY_ROLLING", "search": "SECONDLY", "daily": "DAILY"}
# HubSpot documents no limit for URLs; most servers accept at least 8,000 bytes.
_LONGEST_TARGET = 8_000
_NOT_FOUND_PAGE = b"<html><head><title>Error 404 Not Found</title></head></html>"
_MAX_INPUTS, _MAX_PAGE, _MAX_LINKS, _MAX_LINK_INPUTS = 100, 100, 500, 1_000

# A dated version follows the area in a path (/crm/objects/2026-09/contacts); v3 precedes it
# (/crm/v3/objects/contacts). In v3, associations have the version v4.
_DATED = "2026-09|2026-03"
# The area, the path below area and version, and the methods with the functions that execute them.
_ROUTES: Sequence[tuple[str, str, Mapping[str, str]]] = (
    ("objects", "{kind}", {"GET": "_list", "POST": "_create"}),
    ("objects", "{kind}/search", {"POST": "_search"}),
    ("objects", "{kind}/merge", {"POST": "_merge"}),
    ("objects", "{kind}/batch/read", {"POST": "_batch_read"}),
    ("objects", "{kind}/batch/create", {"POST": "_batch_create"}),
    ("objects", "{kind}/batch/update", {"POST": "_batch_update"}),
    ("objects", "{kind}/{id}", {"GET": "_read", "PATCH": "_update", "DELETE": "_archive"}),
    ("links", "{kind}/{id}/associations/{to}", {"GET": "_list_links"}),
    ("links", "{kind}/{id}/associations/{to}/{to_id}", {"DELETE": "_unlink"}),
    ("links", "{kind}/{id}/associations/default/{to}/{to_id}", {"PUT": "_link"}),
    ("associations", "{kind}/{to}/batch/read", {"POST": "_batch_links"}),
    ("properties", "{kind}", {"GET": "_list_properties"}),
    ("properties", "{kind}/batch/read", {"POST": "_read_properties"}),
    ("properties", "{kind}/{name}", {"GET": "_read_property"}),
    ("pipelines", "{kind}", {"GET": "_list_pipelines"}),
    ("owners", "", {"GET": "_list_owners"}),
    ("crm-object-schemas", "schemas/{kind}", {"GET": "_read_schema"}),
    ("account-info", "details", {"GET": "_details"}),
)
_READS = ("_search", "_batch_read", "_batch_links", "_read_properties")
_SHOWN = {"properties", "propertiesWithHistory", "associations", "archived"}
_PARAMETERS: Mapping[str, set[str]] = {
    "_list": {"limit", "after", *_SHOWN},
    "_read": {"idProperty", *_SHOWN},
    "_update": {"idProperty"},
    "_batch_read": {"archived"},
    "_list_links": {"limit", "after"},
    "_list_properties": {"archived", "dataSensitivity", "properties"},
    "_read_property": {"archived", "dataSensitivity", "properties"},
    "_list_owners": {"email", "limit", "after", "archived"},
}
"""The parameters that an endpoint may have; the fake refuses others, which HubSpot ignores."""


@dataclass(frozen=True, slots=True)
class _Route:
    """The endpoint of a URL path; `at` contains the parameters in the path, by name."""

    area: str
    version: str
    methods: Mapping[str, str]
    at: Mapping[str, str]

    @property
    def is_search(self) -> bool:
        return "_search" in self.methods.values()

    def scopes(self, kind: str, method: str) -> set[str]:
        """Return scopes of which a call needs one, by HubSpot's list; none if it needs none."""
        objects = {f"crm.objects.{kind}.read", f"crm.objects.{kind}.write"}
        match self.area:
            case "owners":
                return {"crm.objects.owners.read"}
            case _ if not kind:
                return set()
            case _ if kind == "tickets":
                return {"tickets"}
            # Notes and tasks have the scopes of contacts.
            case _ if kind in ("notes", "tasks"):
                return self.scopes("contacts", method)
            case "crm-object-schemas":
                return {f"crm.schemas.{kind}.read"}
            case "properties":
                return {f"crm.schemas.{kind}.read", *objects}
        return objects if self.reads(method) else {f"crm.objects.{kind}.write"}

    def reads(self, method: str) -> bool:
        return method == "GET" or self.methods.get(method) in _READS


_OF_LINKS = ("links", "associations")


def _compiled(area: str, path: str) -> re.Pattern[str]:
    own = "objects" if area == "links" else area
    version, word = f"(?P<version>{_DATED})", re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
    if area in ("crm-object-schemas", "account-info"):
        start = f"/{area}/(?P<version>{_DATED}|v3)"
    else:
        start = f"/crm/(?:{own}/{version}|(?P<old>{'v4' if area in _OF_LINKS else 'v3'})/{own})"
    return re.compile(f"{start}/{word}/?" if word else f"{start}/?")


_PATTERNS = [(area, _compiled(area, path), methods) for area, path, methods in _ROUTES]


@lru_cache(maxsize=4_096)
def _route(path: str) -> _Route | None:
    """Return the endpoint of a URL path, or None if HubSpot has no such path."""
    for area, pattern, methods in _PATTERNS:
        if found := pattern.fullmatch(path):
            at = {name: unquote(text) for name, text in found.groupdict().items() if text}
            version = at.pop("version", "") or at.pop("old")
            return _Route(area, version, methods, at)
    return None


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


class FakeHubSpot(fake.Fake):
    """One HubSpot account, `portal`, with its tokens and rate limits.

    `general`, `searches`, `token_calls` and `daily` are the rate limits of all other calls, of
    searches, of the token endpoint, and of a day.
    """

    kinds: ClassVar = {kind: kind for kind in KINDS}
    token_paths = tuple(f"/oauth/{one}/token" for one in ("2026-09", "2026-03", "v3", "v1"))
    settings: ClassVar = control.SETTINGS | control.TOKEN_SETTINGS
    options: Options
    tokens: Tokens
    authorizations: Authorizations

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options or Options())

    def reset(self) -> None:
        """Discard the whole state, and start again with the original options."""
        options = self.options
        with self.lock:
            super().reset()
            self.portal = Portal(portal_id=options.portal_id, marks=options.marks)
            self.store = self.portal
            self.tokens = Tokens(
                static=options.token,
                client_id=options.client_id,
                client_secret=options.client_secret,
                refresh_token=options.refresh_token,
                rotates=options.rotates,
                expires_in=options.expires_in,
                prefix="CMfake",
                known_scopes=SCOPES | SENSITIVE_SCOPES,
                scopes=SCOPES,
            )
            known = self.tokens.known_scopes
            self.authorizations = Authorizations("HubSpot", options.client_id, known_scopes=known)
            self.searches = Window("search", *parse(options.search_limit, usual=1.0))
            self.token_calls = Window("token", *parse(options.token_limit))
            self.daily = Window("daily", options.daily_limit, 86_400)
            self.windows |= {
                "search_limit": self.searches,
                "token_limit": self.token_calls,
                "daily_limit": self.daily,
            }

    # Records, as the account's users read and change them.

    @property
    def token(self) -> str:
        """The static access token, which is valid until `expire_tokens` is called."""
        return self.tokens.static

    @property
    def contacts(self) -> dict[str, dict[str, str]]:
        """The properties of all contacts, by contact id."""
        return self.records("contacts")

    @property
    def deals(self) -> dict[str, dict[str, str]]:
        """The properties of all deals, by deal id."""
        return self.records("deals")

    @property
    def tickets(self) -> dict[str, dict[str, str]]:
        """The properties of all tickets, by ticket id."""
        return self.records("tickets")

    def add_contact(self, **properties: str) -> str:
        """Create a contact that searches find at once, without lag; return its id."""
        return self.add("contacts", properties)

    def add(self, kind: str, properties: Mapping[str, Any], *, contacts: Iterable[str] = ()) -> str:
        ids = {ends: type_id for type_id, ends in LINK_TYPES.items()}
        with self.lock:
            type_id = ids[self.own_kind(kind), "contacts"]
            spec = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": type_id}
            links = [{"to": {"id": contact_id}, "types": [spec]} for contact_id in contacts]
            record = self.portal.create(kind, properties, links)
            record.index()
            return record.id

    def update(self, record: Record, values: Mapping[str, Any]) -> None:
        self.portal.change(record, values)

    def load(self, kind: str, id_: str) -> Record:
        return self.portal.load(kind, id_)

    def define(self, kind: str, name: str, type_: str = "string", **more: Any) -> None:
        """Define a custom property; `more` are further arguments of `definitions.definition`."""
        with self.lock:
            self.portal.define(kind, name, type_, **more)

    def require(self, kind: str, *names: str) -> None:
        """Make the properties `names` required in every record of a kind."""
        with self.lock:
            self.portal.rules[kind] = Rules(required=names)

    def merge(self, kind: str, primary_id: str, id_: str) -> str:
        """Merge two records; return the id of the new one."""
        with self.lock:
            return self.portal.merge(*(self.load(kind, one) for one in (primary_id, id_))).id

    def webhook_headers(self, url: str, body: bytes, *, at_ms: int | None = None) -> dict[str, str]:
        """Return the headers with which HubSpot sends a webhook to `url`, signed by version 3."""
        at = str(now_ms() if at_ms is None else at_ms)
        signed = b"".join((b"POST", url.encode(), body, at.encode()))
        digest = hmac.new(self.options.client_secret.encode(), signed, hashlib.sha256).digest()
        return {
            "Content-Type": "application/json",
            "X-HubSpot-Signature-v3": base64.b64encode(digest).decode(),
            "X-HubSpot-Request-Timestamp": at,
        }

    # Rate limits and tokens.

    def costs(self, received: Received) -> list[tuple[Window, int]]:
        if received.path in self.token_paths:
            return [(self.token_calls, 1)]
        route = _route(received.path)
        own = self.searches if route and route.is_search else self.general
        return [(own, 1), (self.daily, 1)]

    def over(self, limit: Window | AtOnce, wait: float) -> answers.Refused:
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
        route = _route(received.path)
        if route is None or answer.status in (401, 414) or self.general.most is None:
            return
        if route.is_search or route.area in _OF_LINKS:
            return
        answer.headers |= {
            "X-HubSpot-RateLimit-Max": str(self.general.most),
            "X-HubSpot-RateLimit-Remaining": str(self.general.remaining()),
            "X-HubSpot-RateLimit-Interval-Milliseconds": str(round(self.general.seconds * 1000)),
        }
        if received.headers.get("Authorization", "").endswith(self.tokens.static):
            answer.headers["X-HubSpot-RateLimit-Daily"] = str(self.daily.most)
            left = max(0, (self.daily.most or 0) - self.daily.calls)
            answer.headers["X-HubSpot-RateLimit-Daily-Remaining"] = str(left)

    def admit(self, received: Received) -> None:
        """Raise Refused for an overlong URL, an unknown path, and an invalid access token."""
        if len(received.target) > _LONGEST_TARGET:
            raise Refused(414, "URI Too Long", category=None)
        if _route(received.path) is None:
            page = "text/html;charset=iso-8859-1"
            raise answers.Refused(404, _NOT_FOUND_PAGE, content_type=page)
        scheme, _, token = received.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _unauthenticated(
                "Authentication credentials not found. This API supports OAuth "
                f"2.0 authentication and you can find more details at {_ABOUT_TOKENS}"
            )
        state = self.tokens.state(token)
        if state == "expired":
            raise _expired()
        if state == "unknown":
            raise _unauthenticated(f"Authentication credentials not found. See {_ABOUT_TOKENS}")

    def error(self, status: int, fault: Fault) -> Answer:
        return _expired().answer() if fault.kind == "expired" else failure(status, fault)

    def grant(self, received: Received) -> Answer:
        if received.method != "POST":
            raise Refused(405, "Method Not Allowed", category=None, headers={"Allow": "POST"})
        form_type = "application/x-www-form-urlencoded"
        if not received.headers.get("Content-Type", "").lower().startswith(form_type):
            raise Refused(415, "Unsupported Media Type", category=None)
        if {"client_secret", "refresh_token"} & received.parameters.keys():
            raise Refused(400, "Credentials belong in the body, not in the query", category=None)
        try:
            access_token = self.new_token(received.form)
        except BadGrant as exc:
            status, message = _BAD_GRANTS[exc.field]
            extra = {"status": status, "error": exc.error, "error_description": message}
            raise Refused(400, message, category=None, extra=extra) from None
        body = {
            "token_type": "bearer",
            "access_token": access_token,
            "refresh_token": self.tokens.refresh_token,
            "expires_in": round(self.tokens.expires_in),
            "hub_id": self.portal.portal_id,
            "scopes": sorted(self.tokens.scopes),
            "token_use": "access_token",
            "user_id": 9586504,
        }
        return Answer(200, body, {"Cache-Control": "no-store"})

    # Endpoints.

    def handle(self, received: Received) -> Answer:
        route = _route(received.path)
        assert route is not None
        if received.method not in route.methods:
            headers = {"Allow": ", ".join(sorted(route.methods))}
            raise Refused(405, "Method Not Allowed", category=None, headers=headers)
        kind = self.portal.kind(route.at["kind"]) if "kind" in route.at else ""
        call = _Call(received, route, kind)
        unknown = received.parameters.keys() - _PARAMETERS.get(
            route.methods[received.method], set()
        )
        if unknown:
            raise Refused(400, f"unknown parameter {min(unknown)}")
        self._allow(route.scopes(kind, received.method))
        for level in sorted(self._sensitivities(call)) if route.area == "objects" else ():
            how = "read" if route.reads(received.method) else "write"
            needed = f"crm.objects.{kind}.{level}.{how}.v2"
            self._allow({f"tickets.{level}.v2" if kind == "tickets" else needed})
        answer: Answer = getattr(self, route.methods[received.method])(call)
        return answer

    def _allow(self, scopes: set[str]) -> None:
        """Raise Refused with status 403 unless the tokens have one of these scopes, if any."""
        if not scopes or scopes & self.tokens.scopes:
            return
        error = {
            "message": "One or more of the following scopes are required.",
            "context": {"requiredGranularScopes": sorted(scopes)},
        }
        raise Refused(
            403,
            "This app hasn't been granted all required scopes to make this call. "
            f"Read more about required scopes here: {_ABOUT_SCOPES}.",
            category="MISSING_SCOPES",
            errors=[error],
            extra={"links": {"scopes": _ABOUT_SCOPES}},
        )

    def _sensitivities(self, call: _Call) -> set[str]:
        """Return the sensitivity levels of all sensitive properties that a call names."""
        definitions = self.portal.definitions[call.kind]
        named = {name for name in call.named() if name in definitions}
        return {definitions[name]["dataSensitivity"] for name in named} - {"non_sensitive"}

    def _list(self, call: _Call) -> Answer:
        """Respond with a page of the records of a kind, by id; the cursor is the last one's id."""
        limit, after = call.integer("limit", 10, most=_MAX_PAGE), call.cursor()
        is_archived = call.flag("archived")
        records = self.portal.deleted[call.kind] if is_archived else self.stored(call.kind)
        ids = sorted(id_ for id_ in map(int, records) if id_ > after)
        found = [records[str(id_)] for id_ in ids[: limit + 1]]
        body: dict[str, Any] = {"results": [self._shown(call, one) for one in found[:limit]]}
        if len(found) > limit:
            last = found[limit - 1].id
            link = f"https://api.hubapi.com{call.received.path}?limit={limit}&after={last}"
            link += f"&archived={str(is_archived).lower()}"
            body["paging"] = {"next": {"after": last, "link": link}}
        return Answer(200, body)

    def _create(self, call: _Call) -> Answer:
        given = call.json(shapes.CREATE)
        record = self.portal.create(call.kind, given["properties"], given["associations"])
        location = {"Location": f"{call.received.path}/{record.id}"}
        return Answer(201, self._shown(call, record, record.properties), location)

    def _read(self, call: _Call) -> Answer:
        return Answer(200, self._shown(call, self._loaded(call)))

    def _update(self, call: _Call) -> Answer:
        given, record = call.json(shapes.UPDATE)["properties"], self._loaded(call)
        self.portal.change(record, given)
        return Answer(200, self._shown(call, record, given))

    def _archive(self, call: _Call) -> Answer:
        """Archive a record; the status is 204 even if it does not exist."""
        if record := self.portal.find_record(call.kind, call.at["id"]):
            self.portal.delete(record)
        return Answer(204)

    def _search(self, call: _Call) -> Answer:
        if len(call.received.body.decode(errors="replace")) > MAX_BODY:
            raise Refused(400, f"The request body is longer than {MAX_BODY} characters")
        asked = call.json(shapes.SEARCH)
        return Answer(200, search(self.portal, call.kind, asked, self.search_lag))

    def _merge(self, call: _Call) -> Answer:
        """Merge two records, and respond with the resulting record, which has a new id."""
        given = call.json(shapes.MERGE)
        names = ("primaryObjectId", "objectIdToMerge")
        merged = self.portal.merge(*(self.portal.load(call.kind, given[name]) for name in names))
        return Answer(200, self._shown(call, merged))

    def _loaded(self, call: _Call) -> Record:
        return self.portal.load(call.kind, call.at["id"], call.given("idProperty"))

    def _shown(
        self, call: _Call, record: Record, names: Iterable[str] | None = None
    ) -> dict[str, Any]:
        asked = call.names("properties") if names is None else names
        associations = [self.portal.kind(one) for one in call.names("associations") or ()]
        for kind in associations:
            self._allow(call.route.scopes(kind, "GET"))
        # The URL of a record has been observed only in responses of the dated versions.
        with_url = call.route.version != "v3"
        return self.portal.shown(record, names=asked, with_url=with_url, associations=associations)

    def _list_links(self, call: _Call) -> Answer:
        """Respond with a page of the links from a record to the records of one kind."""
        source, to = self.portal.load(call.kind, call.at["id"]), self.portal.kind(call.at["to"])
        limit = call.integer("limit", _MAX_LINKS, most=_MAX_LINKS)
        return Answer(200, self._links(call, source.id, to, call.cursor(), limit))

    def _link(self, call: _Call) -> Answer:
        """Link two records without a label; a link that exists already stays."""
        record, to = self.portal.load(call.kind, call.at["id"]), self.portal.kind(call.at["to"])
        other = self.portal.target(to, call.at["to_id"])
        self.portal.link(record, other)
        ends = ((record, other, call.kind, to), (other, record, to, call.kind))
        return _outcome(
            [
                {
                    "from": {"id": here.id},
                    "to": {"id": there.id},
                    "associationSpec": {
                        "associationCategory": "HUBSPOT_DEFINED",
                        "associationTypeId": _type_id(of, kind),
                    },
                }
                for here, there, of, kind in ends
            ],
            [],
        )

    def _unlink(self, call: _Call) -> Answer:
        """Remove the links of two records; the status is 204 even if there are none."""
        to = self.portal.kind(call.at["to"])
        self.portal.unlink((call.kind, call.at["id"]), (to, call.at["to_id"]))
        return Answer(204)

    def _links(self, call: _Call, id_: str, to: str, after: int, limit: int) -> dict[str, Any]:
        type_id = _type_id(call.kind, to)
        type_ = {"category": "HUBSPOT_DEFINED", "typeId": type_id, "label": None}
        ids = [one for one in self.portal.linked(call.kind, id_, to) if int(one) > after]
        # In v4, an id is a number.
        shown = int if call.route.version == "v4" else str
        links = [{"toObjectId": shown(one), "associationTypes": [type_]} for one in ids[:limit]]
        more = {"paging": {"next": {"after": ids[limit - 1]}}} if len(ids) > limit else {}
        return {"results": links, **more}

    def _batch_links(self, call: _Call) -> Answer:
        """Respond with the links of several records to the records of one kind.

        Records without any are listed as errors.
        """
        to = self.portal.kind(call.at["to"])
        self._allow(call.route.scopes(to, "GET"))
        inputs = call.json(shapes.LINKS_BATCH_READ)["inputs"]
        if len(inputs) > _MAX_LINK_INPUTS:
            raise Refused(400, f"Batch input size exceeds the limit of {_MAX_LINK_INPUTS}")
        results, errors = [], []
        for item in inputs:
            body = self._links(call, item["id"], to, int(item.get("after") or 0), _MAX_LINKS)
            if body["results"]:
                more = {"paging": body["paging"]} if "paging" in body else {}
                results.append({"from": {"id": item["id"]}, "to": body["results"], **more})
            else:
                named = [SINGULAR[call.kind], SINGULAR[to]]
                message = f"No {named[1]} is associated with {named[0]} {item['id']}."
                context = {"fromObjectId": [item["id"]]}
                error = item_error("OBJECT_NOT_FOUND", message, context)
                errors.append(error | {"subCategory": "crm.associations.NO_ASSOCIATIONS_FOUND"})
        return _outcome(results, errors)

    # Batches. If all items have different trace ids, a failure concerns only its own item.
    # Otherwise the first failure undoes the whole batch.

    def _batch_read(self, call: _Call) -> Answer:
        """Respond with several records; if some do not exist, with status 207 and their ids."""
        asked = call.json(shapes.BATCH_READ)
        _check_count(asked["inputs"])
        ids = list(dict.fromkeys(item["id"] for item in asked["inputs"]))
        by = asked.get("idProperty")
        found = {id_: self.portal.find_record(call.kind, id_, by) for id_ in ids}
        records = {record.id: record for record in found.values() if record}
        names = asked["properties"] or None
        results = [self.portal.shown(record, names=names) for record in records.values()]
        absent = [id_ for id_, record in found.items() if record is None]
        return _outcome(results, [_not_there(SINGULAR[call.kind], absent)] if absent else [])

    def _batch_create(self, call: _Call) -> Answer:
        inputs = call.json(shapes.BATCH_CREATE)["inputs"]
        _check_count(inputs)
        created: list[Record] = []

        def create(item: Mapping[str, Any]) -> Record:
            made = self.portal.create(call.kind, item["properties"], item["associations"])
            created.append(made)
            return made

        def undo() -> None:
            for record in created:
                self.portal.delete(record)

        return self._written(inputs, create, undo, done=201)

    def _batch_update(self, call: _Call) -> Answer:
        """Update several records, named by id or by a unique property."""
        inputs = call.json(shapes.BATCH_UPDATE)["inputs"]
        _check_count(inputs)
        if any(item.get("idProperty") == "hs_object_id" for item in inputs):
            raise Refused(400, "idProperty hs_object_id is not a unique property")
        if len({item["id"].lower() for item in inputs}) < len(inputs):
            raise Refused(400, "Duplicate IDs found in batch input")
        found = {
            item["id"]: self.portal.find_record(call.kind, item["id"], item.get("idProperty"))
            for item in inputs
        }
        records = {id_: record for id_, record in found.items() if record}
        former: list[tuple[Record, Mapping[str, Any]]] = []

        def update(item: Mapping[str, Any]) -> Record:
            record = records[item["id"]]
            former.append((record, record.properties))
            self.portal.change(record, item["properties"])
            return record

        def undo() -> None:
            for record, properties in reversed(former):
                self.portal.store(record, properties)

        absent = [id_ for id_, record in found.items() if record is None]
        errors = [_not_there("object", absent)] if absent else []
        return self._written([i for i in inputs if i["id"] in records], update, undo, errors=errors)

    def _written(
        self, inputs: Sequence[Any], write: Any, undo: Any, *, done: int = 200, errors: Any = ()
    ) -> Answer:
        """Respond to a batch after calling `write` with each item; `done` is the usual status."""
        traces = [item.get("objectWriteTraceId") for item in inputs]
        traced = None not in traces and len(set(traces)) == len(traces)
        results, failed = [], []
        for item, trace in zip(inputs, traces, strict=True):
            try:
                record = write(item)
            except Refused as exc:
                if not traced:
                    undo()
                    raise
                failed.append(_failed(exc, trace))
            else:
                named = {"objectWriteTraceId": trace} if trace else {}
                results.append(self.portal.shown(record, names=record.properties) | named)
        return _outcome(results, [*failed, *errors], done=done)

    # Definitions and the account.

    def _list_properties(self, call: _Call) -> Answer:
        """Respond with all property definitions of one level of sensitivity."""
        level = call.given("dataSensitivity") or "non_sensitive"
        return Answer(200, {"results": self._definitions(call, level)})

    def _read_property(self, call: _Call) -> Answer:
        level = call.given("dataSensitivity") or "non_sensitive"
        for definition in self._definitions(call, level):
            if definition["name"] == call.at["name"]:
                return Answer(200, definition)
        message = f"Property {call.at['name']} does not exist"
        raise not_found(message, category="OBJECT_NOT_FOUND")

    def _read_properties(self, call: _Call) -> Answer:
        """Respond with several definitions; if some are missing, with 207 and their names."""
        given = call.json(shapes.PROPERTY_BATCH_READ)
        _check_count(given["inputs"])
        found = {one["name"]: one for one in self._definitions(call, given["dataSensitivity"])}
        names = [item["name"] for item in given["inputs"]]
        errors = [
            item_error("OBJECT_NOT_FOUND", f"Property {name} does not exist", {"name": [name]})
            for name in names
            if name not in found
        ]
        return _outcome([found[name] for name in names if name in found], errors)

    def _definitions(self, call: _Call, level: str) -> list[dict[str, Any]]:
        definitions = self.portal.definitions[call.kind].values()
        return [one for one in definitions if one["dataSensitivity"] == level]

    def _read_schema(self, call: _Call) -> Answer:
        """Respond with the schema of a kind of record, without the definitions of properties."""
        required = [*NEEDED.get(call.kind, ()), *self.portal.rules[call.kind].required]
        return Answer(200, {"name": call.kind, "requiredProperties": required, "properties": []})

    def _list_pipelines(self, call: _Call) -> Answer:
        return Answer(200, {"results": list(self.portal.pipelines[call.kind].values())})

    def _list_owners(self, call: _Call) -> Answer:
        """Respond with a page of the owners who have not left, or of those with an email."""
        limit, start = call.integer("limit", 100, most=500), call.cursor()
        email = (call.given("email") or "").lower()
        active = [one for one in self.portal.owners if not one["archived"]]
        owners = [one for one in active if email in ("", one["email"])]
        more = {"paging": {"next": {"after": str(start + limit)}}}
        body = {"results": owners[start : start + limit]}
        return Answer(200, body | (more if start + limit < len(owners) else {}))

    def _details(self, call: _Call) -> Answer:
        body = {
            "portalId": self.portal.portal_id,
            "accountType": "DEVELOPER_TEST",
            "timeZone": "US/Eastern",
            "companyCurrency": "USD",
            "additionalCurrencies": ["EUR"],
            "utcOffset": "-05:00",
            "utcOffsetMilliseconds": -18_000_000,
            "uiDomain": "app.hubspot.com",
            "dataHostingLocation": "na1",
        }
        return Answer(200, body)


@dataclass(slots=True)
class _Call:
    """An API call with its route, and the kind of record in its path, "" if it has none."""

    received: Received
    route: _Route
    kind: str

    @property
    def at(self) -> Mapping[str, str]:
        return self.route.at

    def json(self, form: Any) -> Any:
        """Return the body as JSON; raise Refused if it does not have the form."""
        content_type = self.received.headers.get("Content-Type", "")
        if content_type.partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "Unsupported Media Type", category=None)
        try:
            value = self.received.json
        except ValueError as exc:
            raise Refused(400, f"Invalid input JSON: {exc}") from None
        shapes.check(value, form)
        return value

    def given(self, name: str) -> str | None:
        return self.received.parameters.get(name)

    def names(self, name: str) -> list[str] | None:
        """Return the items of a parameter that is comma-separated or repeated; None without it."""
        if (values := self.received.parameter_lists.get(name)) is None:
            return None
        return [one.strip() for one in ",".join(values).split(",") if one.strip()]

    def named(self) -> set[str]:
        """Return the names of properties in the query and in the body."""
        try:
            body = self.received.json
        except ValueError:
            body = None
        body = body if isinstance(body, dict) else {}
        items = [body, *(item for item in body.get("inputs") or () if isinstance(item, dict))]
        lists = [self.names("properties"), *(item.get("properties") for item in items)]
        named = (names for names in lists if isinstance(names, dict | list))
        return {name for names in named for name in names if isinstance(name, str)}

    def cursor(self) -> int:
        """Return the cursor of the requested page; 0 for the first page. Raises Refused."""
        value = self.given("after") or "0"
        if not re.fullmatch(r"[0-9]{1,19}", value):
            raise Refused(400, f"after must be a cursor of this list, and not {value[:40]}")
        return int(value)

    def flag(self, name: str) -> bool:
        """Return a parameter that is true or false, false by default; raise Refused for others."""
        value = self.given(name) or "false"
        if value not in ("true", "false"):
            raise Refused(400, f"{name} must be true or false, and not {value[:40]}")
        return value == "true"

    def integer(self, name: str, default: int, *, most: int) -> int:
        """Return an integer parameter; raise Refused if it is not from 1 to `most`."""
        value = self.given(name) or str(default)
        if not (re.fullmatch(r"[0-9]{1,9}", value) and 1 <= int(value) <= most):
            raise Refused(400, f"{name} must be an integer from 1 to {most}, and not {value[:40]}")
        return int(value)


def _type_id(kind: str, to: str) -> int:
    return next(id_ for id_, ends in LINK_TYPES.items() if ends == (kind, to))


def _check_count(inputs: Sequence[Any]) -> None:
    if len(inputs) > _MAX_INPUTS:
        message = f"Batch input size {len(inputs)} exceeds the limit of {_MAX_INPUTS}"
        raise Refused(400, message)


def _failed(refused: Refused, trace: str) -> Any:
    body = refused.body
    context = {**body.get("context", {}), "objectWriteTraceId": [trace]}
    category = body.get("category", "OBJECT_NOT_FOUND")
    return item_error(category, body["message"], context, body.get("errors", ()))


def _not_there(singular: str, ids: Sequence[str]) -> Any:
    message = (
        f"Could not get some {singular.upper()} objects, they may be deleted or not exist. "
        "Check that ids are valid."
    )
    return item_error("OBJECT_NOT_FOUND", message, {"ids": list(ids)})


def _outcome(results: Sequence[Any], errors: Sequence[Any], *, done: int = 200) -> Answer:
    at = iso(now_ms())
    body = {"status": "COMPLETE", "results": results, "startedAt": at, "completedAt": at}
    failed = {"numErrors": len(errors), "errors": errors} if errors else {}
    return Answer(207 if errors else done, {**body, **failed})


def _unauthenticated(message: str, category: str = "INVALID_AUTHENTICATION") -> Refused:
    return Refused(401, message, category=category)


def _expired() -> Refused:
    message = "The OAuth token used to make this call expired 1 second(s) ago."
    return _unauthenticated(message, category="EXPIRED_AUTHENTICATION")
