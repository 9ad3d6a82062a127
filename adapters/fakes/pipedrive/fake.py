"""The fake Pipedrive: one company with its credentials, limits, records and searches."""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal
from uuid import uuid4

from adapters.fakes import answers, control, fake
from adapters.fakes.answers import Answer
from adapters.fakes.authorizing import Authorizations
from adapters.fakes.faults import Fault
from adapters.fakes.limits import AtOnce, Window, parse, retry_header
from adapters.fakes.pipedrive.catalogue import ADDED, OWN, check_of, custom, definitions
from adapters.fakes.records import Record, now_ms
from adapters.fakes.server import Received
from adapters.fakes.tokens import BadGrant, Tokens

SCOPES = frozenset({"base", "contacts:full", "deals:full", "users:read", "activities:full"})
_DAY_S = 86_400.0
# Calls that an API token may send after a refusal before Cloudflare refuses them, and for how long.
_IGNORED, _BLOCKED_S = 20, 10.0
_BLOCK = b"<!DOCTYPE html><html><head><title>Access denied</title></head></html>"
# The cost of a call in tokens, and the scopes of which it needs one.
_ROUTES: Mapping[tuple[str, str], tuple[int, tuple[str, ...]]] = {
    ("GET", "v2/persons"): (10, ("contacts:read", "contacts:full")),
    ("POST", "v2/persons"): (5, ("contacts:full",)),
    ("GET", "v2/persons/search"): (20, ("contacts:read", "contacts:full", "search:read")),
    ("GET", "v2/persons/#"): (1, ("contacts:read", "contacts:full")),
    ("PATCH", "v2/persons/#"): (5, ("contacts:full",)),
    ("DELETE", "v2/persons/#"): (3, ("contacts:full",)),
    ("PUT", "v1/persons/#/merge"): (40, ("contacts:full",)),
    ("PUT", "v1/organizations/#/merge"): (40, ("contacts:full",)),
    ("GET", "v2/personFields"): (10, ("contacts:read", "contacts:full")),
    ("GET", "v2/organizations"): (10, ("contacts:read", "contacts:full")),
    ("POST", "v2/organizations"): (5, ("contacts:full",)),
    ("GET", "v2/organizations/#"): (1, ("contacts:read", "contacts:full")),
    ("PATCH", "v2/organizations/#"): (5, ("contacts:full",)),
    ("DELETE", "v2/organizations/#"): (3, ("contacts:full",)),
    ("GET", "v2/organizationFields"): (10, ("contacts:read", "contacts:full")),
    ("GET", "v2/deals"): (10, ("deals:read", "deals:full")),
    ("POST", "v2/deals"): (5, ("deals:full",)),
    ("GET", "v2/deals/#"): (1, ("deals:read", "deals:full")),
    ("PATCH", "v2/deals/#"): (5, ("deals:full",)),
    ("DELETE", "v2/deals/#"): (3, ("deals:full",)),
    ("GET", "v2/dealFields"): (10, ("deals:read", "deals:full")),
    ("GET", "v2/pipelines"): (5, ("deals:read", "deals:full")),
    ("GET", "v2/stages"): (5, ("deals:read", "deals:full")),
    ("GET", "v2/activities"): (10, ("activities:read", "activities:full")),
    ("POST", "v2/activities"): (5, ("activities:full",)),
    ("GET", "v1/notes"): (20, ("deals:read", "deals:full", "contacts:read", "contacts:full")),
    ("POST", "v1/notes"): (10, ("deals:full", "contacts:full")),
    ("GET", "v1/users"): (20, ("users:read",)),
    ("GET", "v1/users/me"): (2, ("base",)),
}
_USUAL_PAGE, _MOST_PAGE, _MOST_IDS, _MOST_KEYS = 100, 500, 100, 15
_WHOLE_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_NO_DIGIT = re.compile(r"[^0-9]+", re.ASCII)
_SINGULAR = {"persons": "Person", "organizations": "Organization", "deals": "Deal"}
_FILTERS = {
    "persons": ("owner_id", "org_id"),
    "organizations": ("owner_id",),
    "deals": ("owner_id", "person_id", "org_id", "pipeline_id", "stage_id"),
}
_PAGING = ("limit", "cursor")
_OF_LISTS = (*_PAGING, "ids", "updated_since", "sort_by", "sort_direction", "custom_fields")
_STATES = ("open", "won", "lost", "deleted")
_SEARCHED = {"email": "emails", "phone": "phones"}
# Fields of people that exist with contact sync only, which this company does not have.
_SYNCED = {"im", "postal_address", "notes", "birthday", "job_title"}
_OWNER = 7301
# The first pipeline of the list is not the first one for people, who see them by order_nr.
_PIPELINES = {
    "Sales": (2, ("Qualified", "Contact made", "Negotiation")),
    "Partners": (1, ("New", "Signed")),
    "Support": (3, ("Open", "Waiting", "Done")),
}
_USUAL: Mapping[str, Mapping[str, Any]] = {
    "persons": {"emails": [], "phones": [], "org_id": None},
    "organizations": dict.fromkeys(
        ("address", "website", "industry", "annual_revenue", "employee_count")
    ),
    "deals": {
        "org_id": None,
        "value": 0,
        "currency": "EUR",
        "status": "open",
        "person_id": None,
        "channel_id": None,
        "expected_close_date": None,
        "origin": "API",
        "is_archived": False,
    },
}
PhoneSearch = Literal["digits", "text"]


@dataclass(kw_only=True)
class Options(fake.Options):
    """The options of the fake Pipedrive.

    `limit` is the burst limit of the API token; an app may send four times as many calls.
    `daily_tokens` is the company's budget of a day. If `daily_headers` is False, answers do not
    tell it, as it happens. If `closed` is True, the company has not paid. `most_deals` is the
    plan's limit of open deals. If `marks` is True, people and deals have the custom text field
    "crmhub mark".

    Where Pipedrive's documents leave something open: `phone_search` says how the search compares
    phones, by their digits, or by the text as it stands. `keeps_channel` says whether a deal keeps
    the value of `channel_id`. `deleted` says what a read by id answers for a deleted record: the
    record with `is_deleted`, or 404. `names_field` says whether the refusal of a custom field names
    it in `field_code`.
    """

    token: str = "0123456789abcdef0123456789abcdef01234567"
    limit: str = "20/2s"
    search_limit: str = "10/2s"
    daily_tokens: int = 30_000
    daily_headers: bool = True
    closed: bool = False
    most_deals: int = 10_000
    marks: bool = False
    phone_search: PhoneSearch = "digits"
    keeps_channel: bool = True
    deleted: Literal["flagged", "gone"] = "flagged"
    names_field: bool = False
    expires_in: float = 3_600.0
    client_id: str = "fake-client-id"
    client_secret: str = "fake-client-secret"
    refresh_token: str = "fake-refresh-token"


class Refused(answers.Refused):
    """Pipedrive refuses a request; of an error's body only `success` and `error` are documented.

    `extra` holds further fields of the body.
    """

    def __init__(
        self, status: int, error: str, *, headers: Mapping[str, str] | None = None, **extra: Any
    ) -> None:
        body = {
            "success": False,
            "error": error,
            "error_info": "Please check developers.pipedrive.com for more information.",
            "data": None,
            "additional_data": None,
            **extra,
        }
        super().__init__(status, body, headers=headers)


def invalid(where: str, why: str, **extra: Any) -> Refused:
    """Return the refusal of a parameter or a value; `where` names it."""
    code = "ERR_SCHEMA_VALIDATION_FAILED"
    return Refused(400, f"Validation failed: {where}: {why}", code=code, **extra)


class FakePipedrive(fake.Fake):
    """One company in Pipedrive, with its tokens and limits.

    `catalogue` holds the definitions of fields by kind and code.
    """

    kinds: ClassVar = {"contacts": "persons", "companies": "organizations", "deals": "deals"}
    fields = OWN
    names: ClassVar = {
        "deals": {
            "title": "dealname",
            "value": "amount",
            "stage_id": "dealstage",
            "pipeline_id": "pipeline",
            "owner_id": "hubspot_owner_id",
            "expected_close_date": "closedate",
        }
    }
    token_paths = ("/oauth/token", "/oauth/token/")
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
            self.catalogue = {kind: definitions(kind) for kind in OWN}
            for kind in ("contacts", "deals") if options.marks else ():
                self.define(kind, "crmhub mark")
            self.pipelines = list(_pipelines())
            self.stages = list(_stages())
            self.added: dict[str, list[dict[str, Any]]] = {what: [] for what in ADDED}
            self.users = [_user(0, "Me"), _user(1, "Eve", active=False), _user(2, "Tom")]
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

    def define(self, kind: str, name: str, type_: str = "varchar", *labels: str) -> str:
        """Add a custom field to contacts, companies or deals; return its key."""
        with self.lock:
            own = self.own_kind(kind)
            made = custom(own, name, type_, *labels)
            self.catalogue[own][made["field_code"]] = made
            return str(made["field_code"])

    # Credentials and limits.

    def costs(self, received: Received) -> list[tuple[Window, int]]:
        cost, _ = _ROUTES.get((received.method, _route(received.path)), (0, ()))
        if not cost:
            return []
        window = "app_limit" if received.headers.get("Authorization") else "limit"
        if received.path.endswith("/search"):
            window = "search_limit"
        return [(self.windows[window], 1), (self.windows["daily_tokens"], cost)]

    def over(self, limit: Window | AtOnce, wait: float) -> answers.Refused:
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
        if time.monotonic() < self._blocked_until and not received.headers.get("Authorization"):
            headers = {"Server": "cloudflare", "CF-RAY": "8f00fake"}
            page = "text/html; charset=UTF-8"
            raise answers.Refused(403, _BLOCK, headers=headers, content_type=page)
        cost, scopes = _ROUTES.get((received.method, _route(received.path)), (0, ()))
        if not cost:
            raise _unknown_path()
        scheme, _, bearer = received.headers.get("Authorization", "").partition(" ")
        token = received.headers.get("x-api-token", "")
        known = scheme == "Bearer" and bearer in self.tokens.issued
        if not known and token != self.tokens.static:
            raise _unauthorized()
        if self.tokens.state(bearer if known else token) != "valid":
            raise _unauthorized()
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
        if status == 401:
            return _unauthorized().answer()
        code = {500: "ERR_UNKNOWN"}.get(status, f"ERR_{status}")
        return Refused(status, "Internal Server Error", code=code).answer()

    def grant(self, received: Received) -> Answer:
        if received.method != "POST":
            raise Refused(405, "Method Not Allowed", headers={"Allow": "POST"})
        form = dict(received.form)
        if {"client_id", "client_secret"} & form.keys():
            raise _bad_grant("invalid_request", "The client authenticates by HTTP Basic")
        form["client_id"], form["client_secret"] = _client(received)
        try:
            token = self.new_token(form)
        except BadGrant as exc:
            status = 401 if exc.error == "invalid_client" else 400
            raise _bad_grant(exc.error, f"Invalid {exc.field}", status) from None
        body = {
            "access_token": token,
            "token_type": "Bearer",
            "refresh_token": self.tokens.refresh_token,
            "scope": ",".join(sorted(self.tokens.scopes)),
            "expires_in": round(self.tokens.expires_in),
            "api_domain": self.url,
        }
        return Answer(200, body, {"Cache-Control": "no-store"})

    # Endpoints.

    def handle(self, received: Received) -> Answer:
        query = received.parameters
        match received.method, received.parts[1:]:
            case "GET", ["v1", "users", "me"]:
                me = {"company_id": 62515, "company_name": "Acme", "company_domain": "acme"}
                return _data({**self.users[0], **me})
            case "GET", ["v1", "users"]:
                return _data(self.users)
            case "GET", ["v1", "notes"]:
                return self._notes(query)
            case "POST", ["v1", "notes"]:
                return _data(self._add("notes", _json(received)))
            case "GET", ["v2", "activities"]:
                return self._activities(query)
            case "POST", ["v2", "activities"]:
                return _data(self._add("activities", _json(received)))
            case "GET", ["v2", "persons", "search"]:
                return Answer(200, self._search(query))
            case "GET", ["v2", "pipelines"]:
                return _listed(self.pipelines, query)
            case "GET", ["v2", "stages"]:
                return _listed(self.stages, query, "pipeline_id", "order_nr")
            case "GET", ["v2", ("personFields" | "organizationFields" | "dealFields") as fields]:
                listed = self.catalogue[f"{fields.removesuffix('Fields')}s"]
                return Answer(200, _paged([*listed.values()], query))
            case "GET", ["v2", kind]:
                return Answer(200, self._list(kind, query))
            case "POST", ["v2", kind]:
                return _data(_shown(self.create(kind, _json(received))))
            case "GET", ["v2", kind, id_]:
                return _data(_shown(self._read(kind, id_)))
            case "PATCH", ["v2", kind, id_]:
                record = self.load(kind, id_)
                self.update(record, _json(received))
                return _data(_shown(record))
            case "PUT", ["v1", kind, id_, "merge"]:
                kept_id = _json(received).get("merge_with_id")
                return _data(_shown(self._merge(self.load(kind, id_), str(kept_id))))
            case "DELETE", ["v2", kind, id_]:
                if not (record := self._read(kind, id_)).properties["is_deleted"]:
                    self._remove(record)
                return _data({"id": int(id_)})
        raise _unknown_path()

    # Notes and activities, which have no search and no deletion here.

    def _add(self, what: str, body: Any) -> dict[str, Any]:
        """Create a note (v1) or an activity (v2); return it."""
        fields = ADDED[what]
        if not isinstance(body, dict):
            raise invalid("body", "must be an object")
        for name, value in body.items():
            if name not in fields:
                raise invalid(name, "is not allowed")
            if why := fields[name].check(value):
                raise invalid(name, why)
        people = [one["person_id"] for one in body.get("participants", ())]
        values = {**body, **({"person_id": people[0]} if people else {})}
        links = {"person_id": "persons", "deal_id": "deals", "org_id": "organizations"}
        linked = {name: values[name] for name in links if name in values}
        for name, id_ in linked.items():
            self.load(links[name], str(id_))
        if what == "notes" and not (linked and values.get("content")):
            raise Refused(400, "Note needs content and one of deal_id, person_id and org_id")
        now = moment(now_ms())
        usual: dict[str, Any] = {"add_time": now, "update_time": now, "owner_id": _OWNER}
        usual |= {"done": False, "is_deleted": False, "note": None, "subject": "Call"}
        usual |= dict.fromkeys(("due_date", "due_time"))
        if what == "notes":
            now = now.replace("T", " ").rstrip("Z")
            usual = {"add_time": now, "update_time": now, "user_id": _OWNER, "active_flag": True}
        made = {"id": int(self.store.new_id(what)), **usual, **values}
        self.added[what].append(made)
        return made

    def _notes(self, query: Mapping[str, str]) -> Answer:
        _check_names(query, "person_id", "deal_id", "org_id", "start", "limit", "sort")
        found = list(reversed(self.added["notes"]))
        for name in ("person_id", "deal_id", "org_id"):
            if name in query:
                found = [one for one in found if one.get(name) == _whole(query, name)]
        if query.get("sort", "id DESC") != "id DESC":
            raise Refused(400, "This fake sorts by id DESC")
        start = _whole(query, "start") if "start" in query else 0
        end = start + (_whole(query, "limit") if "limit" in query else _USUAL_PAGE)
        more = {"start": start, "limit": end - start, "more_items_in_collection": end < len(found)}
        body = {"success": True, "data": found[start:end], "additional_data": {"pagination": more}}
        return Answer(200, body)

    def _activities(self, query: Mapping[str, str]) -> Answer:
        _check_names(query, *_PAGING, "person_id", "deal_id", "done", "updated_since")
        found = list(self.added["activities"])
        for name in ("person_id", "deal_id"):
            if name in query:
                found = [one for one in found if one.get(name) == _whole(query, name)]
        if "done" in query:
            if query["done"] not in ("true", "false"):
                raise invalid("done", "must be a boolean")
            found = [one for one in found if one["done"] == (query["done"] == "true")]
        if since := query.get("updated_since"):
            if not _WHOLE_SECONDS.fullmatch(since):
                raise invalid("updated_since", "must be a time in RFC 3339, in whole seconds")
            found = [one for one in found if one["update_time"] >= since]
        return Answer(200, _after({("", one["id"]): one for one in found}, query, "id", "asc"))

    def _read(self, kind: str, id_: str) -> Record:
        flagged = self.store.deleted[kind] if self.options.deleted == "flagged" else {}
        return flagged.get(id_) or self.load(kind, id_)

    def absent(self, kind: str, id_: str) -> answers.Refused:
        return Refused(404, f"{_SINGULAR[kind]} not found")

    def _list(self, kind: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a page of records, as the query says; deleted ones are deals alone, on demand."""
        _check_names(query, *_OF_LISTS, *_FILTERS[kind], *(("status",) if kind == "deals" else ()))
        if len(query.get("custom_fields", "").split(",")) > _MOST_KEYS:
            raise invalid("custom_fields", f"at most {_MOST_KEYS} keys")
        records = list(self.store.records[kind].values())
        if "status" in query:
            if not {*query["status"].split(",")} <= {*_STATES}:
                raise invalid("status", f"must be some of {', '.join(_STATES)}")
            states = query["status"].split(",")
            records = [one for one in records if one.properties["status"] in states]
            records += self.store.deleted[kind].values() if "deleted" in states else ()
        if "ids" in query:
            ids = query["ids"].split(",")
            if len(ids) > _MOST_IDS or not all(map(_NUMBER.fullmatch, ids)):
                raise invalid("ids", f"at most {_MOST_IDS} ids")
            records = [record for record in records if record.id in ids]
        for name in _FILTERS[kind]:
            if name in query:
                wanted = _whole(query, name)
                records = [one for one in records if one.properties.get(name) == wanted]
        if since := query.get("updated_since"):
            if not _WHOLE_SECONDS.fullmatch(since):
                raise invalid("updated_since", "must be a time in RFC 3339, in whole seconds")
            records = [one for one in records if one.properties["update_time"] >= since]
        by, direction = query.get("sort_by", "id"), query.get("sort_direction", "asc")
        if by not in ("id", "update_time", "add_time") or direction not in ("asc", "desc"):
            raise invalid("sort_by", "is not allowed")
        places = {
            (one.properties[by] if by != "id" else "", int(one.id)): _shown(one) for one in records
        }
        return _after(places, query, by, direction)

    def _search(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a page of the people whom the search index finds, also of former ones."""
        _check_names(query, *_PAGING, "term", "fields", "exact_match", "organization_id")
        exact = query.get("exact_match", "false")
        if exact not in ("true", "false"):
            raise invalid("exact_match", "must be a boolean")
        term = query.get("term", "").casefold()
        if len(term) < (1 if exact == "true" else 2):
            raise invalid("term", "is too short")
        names = query.get("fields", ",".join(_SEARCHED)).split(",")
        if not {*names} <= {*_SEARCHED}:
            raise invalid("fields", f"this fake searches {', '.join(_SEARCHED)}")
        items = []
        for record in (self.store.records["persons"] | self.store.deleted["persons"]).values():
            held = record.searchable(self.search_lag)
            if held and not held["is_deleted"] and self.hits(held, names, term, exact == "true"):
                items.append({"result_score": 0.5, "item": _found(record, held)})
        page = _paged(items, query)
        return page | {"data": {"items": page["data"]}}

    def hits(self, held: Mapping[str, Any], names: list[str], term: str, exact: bool) -> bool:
        """Return whether a search for a term finds a person in one of these fields."""
        for name in names:
            for entry in held[_SEARCHED[name]]:
                text, wanted = entry["value"].casefold(), term
                if name == "phone" and self.options.phone_search == "digits":
                    text, wanted = (_NO_DIGIT.sub("", one) for one in (text, wanted))
                if text == wanted or (not exact and wanted and wanted in text):
                    return True
        return False

    # Writes.

    def create(self, kind: str, values: Mapping[str, Any]) -> Record:
        self.check(kind, values)
        name = "title" if kind == "deals" else "name"
        if not values.get(name):
            raise Refused(400, f"{_SINGULAR[kind]} {name} must be given.")
        deals = self.store.records["deals"].values()
        opened = sum(deal.properties["status"] == "open" for deal in deals)
        if kind == "deals" and opened >= self.options.most_deals:
            words = "Couldn't add the deal. Open deals limit reached."
            raise Refused(403, words, code="feature_capping_deals_limit")
        usual = {
            "owner_id": _OWNER,
            "visible_to": 3,
            "label_ids": [],
            "is_deleted": False,
            "custom_fields": {},
            "add_time": moment(now_ms()),
            **_USUAL[kind],
        }
        return self.store.insert(kind, self._complete(kind, usual, values))

    def update(self, record: Record, values: Mapping[str, Any]) -> None:
        """Change a record: the named fields only, but lists as a whole."""
        self.check(record.kind, values, own=record)
        if "name" in values and not values["name"]:
            raise Refused(400, f"{_SINGULAR[record.kind]} name must be given.")
        self.store.update(record, self._complete(record.kind, record.properties, values))

    def delete(self, kind: str, id_: str) -> None:
        with self.lock:
            self._remove(self.load(self.own_kind(kind), id_))

    def _merge(self, record: Record, kept_id: str) -> Record:
        """Merge a record into the kept one, which keeps its values; return the kept one."""
        kept = self.load(record.kind, kept_id)
        if kept is record:
            raise Refused(400, f"{_SINGULAR[record.kind]} cannot be merged with itself")
        empty: tuple[Any, ...] = (None, "", [])
        values = {n: v for n, v in record.properties.items() if v not in empty}
        for name, value in kept.properties.items():
            if name in ("emails", "phones"):
                values[name] = _with_primary([*value, *values.get(name, ())])
            elif value not in empty:
                values[name] = value
        link = "person_id" if record.kind == "persons" else "org_id"
        for kind in ("deals", "persons"):
            for other in self.store.records[kind].values():
                if other.properties.get(link) == int(record.id):
                    self.store.update(other, {link: int(kept_id)})
        self.store.update(kept, {**values, "update_time": moment(now_ms())})
        self._remove(record)
        return kept

    def _remove(self, record: Record) -> None:
        self.store.update(record, {"is_deleted": True})
        self.store.delete(record)

    def check(self, kind: str, values: Mapping[str, Any], *, own: Record | None = None) -> None:
        if not isinstance(values, dict):
            raise invalid("body", "must be an object")
        if kind == "persons" and (synced := values.keys() & _SYNCED):
            raise Refused(403, f"{sorted(synced)[0]} exists with contact sync only")
        given = {name: value for name, value in values.items() if name != "custom_fields"}
        for name, why in self.store.faults(kind, given, own=own).items():
            raise invalid(name, why)
        for name in ("name", "title", "emails", "phones"):
            if given.get(name, "") is None:
                raise invalid(name, "must not be null")
        if not isinstance(customs := values.get("custom_fields", {}), dict):
            raise Refused(500, "Internal Server Error", code="ERR_UNKNOWN")
        for key, value in customs.items():
            field = self.catalogue[kind].get(key)
            named = {"field_code": key} if self.options.names_field else {}
            if field is None or not field["is_custom_field"]:
                raise invalid(f"custom_fields.{key}", "is not allowed", **named)
            if value is not None and (why := check_of(field)(value)):
                raise invalid(f"custom_fields.{key}", why, **named)

    def _complete(
        self, kind: str, held: Mapping[str, Any], body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the properties of a record that has those of `held`, after a write of `body`."""
        given = {name: value for name, value in body.items() if name != "custom_fields"}
        if not self.options.keeps_channel:
            given.pop("channel_id", None)
        values = {**held, **given, "update_time": moment(now_ms())}
        customs = {**held["custom_fields"], **body.get("custom_fields", {})}
        values["custom_fields"] = {key: one for key, one in customs.items() if one is not None}
        if kind == "persons":
            first, _, last = values["name"].partition(" ")
            values |= {"first_name": first, "last_name": last or None}
            values |= {name: _with_primary(values[name]) for name in ("emails", "phones")}
        elif kind == "deals":
            values |= self._place(values, given)
            if values.get("lost_reason") and values["status"] != "lost":
                raise invalid("lost_reason", "can only be set if the status is lost")
        return values

    def _place(self, values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, int]:
        """Return the pipeline and the stage of a deal; by default the first for people."""
        pipeline, stage = given.get("pipeline_id"), given.get("stage_id")
        if pipeline is None and stage is None and values.get("stage_id"):
            return {}
        pipelines = sorted(self.pipelines, key=lambda one: one["order_nr"])
        found = next((one for one in self.stages if one["id"] == stage), None)
        if stage is not None and found is None:
            raise invalid("stage_id", "there is no such stage")
        pipeline = pipeline or (found or {}).get("pipeline_id") or pipelines[0]["id"]
        if pipeline not in [one["id"] for one in pipelines]:
            raise invalid("pipeline_id", "there is no such pipeline")
        found = found or next(one for one in self.stages if one["pipeline_id"] == pipeline)
        if found["pipeline_id"] != pipeline:
            raise invalid("stage_id", "the stage is not in the pipeline")
        return {"pipeline_id": pipeline, "stage_id": found["id"]}

    def link(self, id_: str) -> int:
        return int(id_)

    def hub_names(self, kind: str, record: Record) -> Mapping[str, Any]:
        values = dict(super().hub_names(kind, record))
        for one, several in _SEARCHED.items() if kind == "contacts" else ():
            values[one] = next((e["value"] for e in values.pop(several) if e["primary"]), "")
        return {**values, **values.pop("custom_fields")}

    def own_names(self, kind: str, properties: Mapping[str, str]) -> Mapping[str, Any]:
        customs = {name: text for name, text in properties.items() if text}
        values: dict[str, Any] = {"name": customs.pop("name", "")}
        for one, several in _SEARCHED.items():
            values[several] = [{"value": customs.pop(one)}] if one in customs else []
        return values | {"custom_fields": customs}

    def readable(self, kind: str, record: Record) -> Mapping[str, Any]:
        """Return a record's properties, its custom fields under their names instead of keys."""
        fields = self.catalogue[record.kind]
        customs = record.properties["custom_fields"].items()
        named = {fields[key]["field_name"]: value for key, value in customs}
        return {**record.properties, "custom_fields": None, **named}


def moment(at_ms: int) -> str:
    """Return a time, in ms since 1970, in the format of v2: RFC 3339 in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms // 1000))


def _pipelines() -> Iterator[dict[str, Any]]:
    for id_, (name, (order, _)) in enumerate(_PIPELINES.items(), 1):
        yield {"id": id_, "name": name, "order_nr": order, "is_deleted": False}


def _stages() -> Iterator[dict[str, Any]]:
    id_ = 0
    for pipeline_id, (_, names) in enumerate(_PIPELINES.values(), 1):
        for order, name in enumerate(names, 1):
            id_ += 1
            stage = {"id": id_, "name": name, "order_nr": order, "pipeline_id": pipeline_id}
            yield stage | {"is_deleted": False, "deal_probability": 100}


def _user(number: int, name: str, *, active: bool = True) -> dict[str, Any]:
    return {
        "id": _OWNER + number,
        "name": name,
        "email": f"{name.lower()}@acme.example",
        "active_flag": active,
        "default_currency": "EUR",
        "is_deleted": False,
        "is_you": not number,
    }


def _unauthorized() -> Refused:
    """Return Pipedrive's 401 response, which is the same for an expired and an unknown token."""
    return Refused(401, "unauthorized access", errorCode=401, headers={"x-401-by-gw": "true"})


def _unknown_path() -> Refused:
    return Refused(404, "Unknown method .", errorCode=404)


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


def _json(received: Received) -> Any:
    if not received.headers.get("Content-Type", "").startswith("application/json"):
        raise Refused(415, "Unsupported Media Type")
    try:
        return received.json
    except ValueError:
        raise Refused(400, "Bad request") from None


def _data(data: Any) -> Answer:
    return Answer(200, {"success": True, "data": data})


def _shown(record: Record) -> dict[str, Any]:
    return {"id": int(record.id), **record.properties}


def _found(record: Record, held: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": int(record.id),
        "type": "person",
        "name": held["name"],
        "phones": [entry["value"] for entry in held["phones"]],
        "emails": [entry["value"] for entry in held["emails"]],
        "visible_to": held["visible_to"],
        "owner": {"id": held["owner_id"]},
        "organization": None,
        "custom_fields": [],
        "notes": [],
    }


def _with_primary(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    chosen = next((i for i, one in enumerate(entries) if one.get("primary")), 0)
    return [
        {"value": one["value"], "primary": i == chosen, "label": one.get("label") or "work"}
        for i, one in enumerate(entries)
    ]


def _listed(items: list[dict[str, Any]], query: Mapping[str, str], *names: str) -> Answer:
    """Return pipelines or stages; `names` are a filter and a further order that they have."""
    _check_names(query, *_PAGING, "sort_by", "sort_direction", *names[:1])
    by = query.get("sort_by", "id")
    if by not in ("id", *names[1:]):
        raise invalid("sort_by", "is not allowed")
    if "pipeline_id" in query:
        items = [one for one in items if str(one["pipeline_id"]) == query["pipeline_id"]]
    return Answer(200, _paged(sorted(items, key=lambda one: one[by]), query))


def _paged(items: list[Any], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the page of a list that `limit` and `cursor` ask for, with the next cursor."""
    limit = _whole(query, "limit") if "limit" in query else _USUAL_PAGE
    if not 1 <= limit <= _MOST_PAGE:
        raise invalid("limit", f"must be from 1 to {_MOST_PAGE}")
    start = _start(query["cursor"]) if "cursor" in query else 0
    end = start + limit
    cursor = _cursor(end) if end < len(items) else None
    more = {"next_cursor": cursor}
    return {"success": True, "data": items[start:end], "additional_data": more}


def _after(
    places: Mapping[tuple[str, int], Any], query: Mapping[str, str], by: str, direction: str
) -> dict[str, Any]:
    """Return a page of a list in order of its places (value, id); cursors name the last one."""
    order = sorted(places, reverse=direction == "desc")
    if "cursor" in query:
        try:
            field, sorting, *last = json.loads(base64.b64decode(query["cursor"], validate=True))
            after = (str(last[0]), int(last[1]))
        except (ValueError, TypeError, IndexError):
            raise invalid("cursor", "is invalid") from None
        if (field, sorting) != (by, direction):
            raise invalid("cursor", "is of another sorting")
        order = [one for one in order if (one < after if direction == "desc" else one > after)]
    page = _paged([places[one] for one in order], {**query, "cursor": _cursor(0)})
    if page["additional_data"]["next_cursor"]:
        value, id_ = order[len(page["data"]) - 1]
        page["additional_data"] = {"next_cursor": _cursor([by, direction, value, id_])}
    return page


def _cursor(of: Any) -> str:
    text = json.dumps(of) if isinstance(of, list) else f"from {of}"
    return base64.b64encode(text.encode()).decode()


def _start(cursor: str) -> int:
    try:
        return int(base64.b64decode(cursor, validate=True).decode().removeprefix("from "))
    except (ValueError, binascii.Error):
        raise invalid("cursor", "is invalid") from None


def _whole(query: Mapping[str, str], name: str) -> int:
    if not _NUMBER.fullmatch(query[name]):
        raise invalid(name, "must be an integer")
    return int(query[name])


def _check_names(query: Mapping[str, str], *names: str) -> None:
    if unknown := sorted(query.keys() - {*names}):
        raise invalid(unknown[0], "is not allowed")
