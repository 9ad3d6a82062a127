"""A small CRM over HTTP, strict and a little strange, for the tests of the conformance tests.

Ids are numbers, deals are linked by a second call and tickets by the first, the search finds parts
of values, gives pages and lags behind, times are those of a clock two hours ahead of UTC, and
access tokens are renewed by refresh tokens that work once. A feed tells what changed, page by page,
and webhooks are signed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from crmhub.adapter import Conflict, Kind, Linked, WebhookRequest
from crmhub.adapter.types import from_html

TEXTS = ("email", "phone", "firstname", "lastname", "city")
TIMES = ("met", "created")
ZONE, TIME_FORM = timezone(timedelta(hours=2)), "%Y-%m-%d %H:%M:%S"
NAMES = {
    "contacts": {*TEXTS, "status", *TIMES},
    "deals": {"dealname", "pipeline", "dealstage", "hubspot_owner_id"},
    "tickets": {"subject", "hs_pipeline", "hs_pipeline_stage"},
}
PIPELINES = {"sales": ("open", "won"), "renewals": ("due", "renewed")}
PLACES = {"deals": ("pipeline", "dealstage"), "tickets": ("hs_pipeline", "hs_pipeline_stage")}
TITLES = {"deals": "dealname", "tickets": "subject"}
STATUSES = ("lead", "customer")
KEY = "the-key-of-the-small-crm"
HOOK_KEY = "the-key-of-the-webhooks"
TASKS = {"title": "subject", "text": "notes", "due": "due"}
_ID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_TIME = re.compile(r"\d{4}(-\d\d){2} \d\d(:\d\d){2}", re.ASCII)
Record = dict[str, Any]


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, **body: Any) -> None:
        self.status, self.body = status, body


class SmallCrm:
    """The CRM; use it as a context manager, it listens meanwhile."""

    def __init__(self) -> None:
        self.records: dict[str, dict[int, Record]] = {
            kind: {} for kind in (*NAMES, "notes", "tasks")
        }
        # What the feed tells, oldest first: the kind, the id, and "gone" or who it was merged into.
        self.feed: list[tuple[str, int, str]] = []
        self.search_lag = 0.0
        self.refresh_token = "refresh-0-of-the-small-crm"
        self.access_tokens: set[str] = {KEY}
        # How a wrong key or refresh token is refused, beside a code.
        self.refusal = 401
        self.unique_titles = False
        # By pipeline, "" for stages without one; empty if there are no stages either.
        self.pipelines: Mapping[str, tuple[str, ...]] = PIPELINES
        self.renewals = 0
        self._ids = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.crm = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> SmallCrm:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # Seen from behind.

    def add_contact(self, properties: Mapping[str, str]) -> str:
        with self._lock:
            if self._holder(properties.get("email", "")):
                raise Conflict("this email is taken")
            return str(self._insert("contacts", dict(properties), ""))

    def contacts(self) -> dict[str, dict[str, str]]:
        with self._lock:
            found = self.records["contacts"].items()
            return {str(id): _seen(one["properties"]) for id, one in found}

    def delete_contact(self, contact_id: str) -> None:
        with self._lock:
            self._delete("contacts", int(contact_id))

    def merge_contacts(self, gone_id: str, kept_id: str) -> None:
        with self._lock:
            self._merge(int(gone_id), int(kept_id))

    def notes(self, kind: str, record_id: str) -> dict[str, str]:
        return {id: from_html(one["text"]) for id, one in self._added("notes", kind, record_id)}

    def tasks(self, contact_id: str) -> dict[str, dict[str, str]]:
        found = self._added("tasks", "contacts", contact_id)
        tasks = {id: {TASKS[n]: text for n, text in one.items() if n in TASKS} for id, one in found}
        return {
            id: {**one, "due": to_utc(one["due"])} if "due" in one else one
            for id, one in tasks.items()
        }

    def _added(self, what: str, kind: str, record_id: str) -> list[tuple[str, Record]]:
        of = (kind, record_id)
        return [(str(id), one) for id, one in self.records[what].items() if one["of"] == of]

    def webhook(self, kind: Kind, record_id: str) -> WebhookRequest:
        body = json.dumps({"changed": [kind, int(record_id)]}).encode()
        return WebhookRequest("POST", "https://hub.test/", {"x-signature": signed(body)}, body)

    def linked(self, kind: Linked, contact_id: str) -> dict[str, dict[str, str]]:
        with self._lock:
            return {
                str(id): {**one["properties"], "mark": one["mark"]}
                for id, one in self.records[kind].items()
                if one["contact"] == int(contact_id)
            }

    def count(self, kind: Kind) -> int:
        with self._lock:
            return len(self.records[kind])

    # What it does.

    def answer(self, method: str, target: str, token: str, body: bytes) -> tuple[int, Any]:
        """Return status and body of the answer to a request."""
        parts = urlsplit(target)
        path = [unquote(part) for part in parts.path.split("/")[2:]]
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        with self._lock:
            if (method, path) == ("POST", ["token"]):
                return 200, self._renew(parse_qs(body.decode()))
            if token not in self.access_tokens:
                said = f"the token {token} is not valid"
                raise Refused(self.refusal, code="WRONG_KEY", message=said)
            sent = json.loads(body) if body else {}
            match method, path:
                case "GET", ["me"]:
                    return 200, {"name": "The small CRM"}
                case "GET", ["pipelines"]:
                    return 200, {"results": self.pipelines}
                case "GET", ["changed", kind] if kind in NAMES:
                    return 200, self._changed(kind, **query)
                case "GET", ["records", kind] if kind in NAMES:
                    found = [self._feed_entry(kind, int(id)) for id in query["ids"].split(",")]
                    return 200, {"results": [one for one in found if not one.get("gone")]}
                case "POST", ["contacts", id, "merge"]:
                    kept, other = self._get(id)["id"], self._get(str(sent["other"]))["id"]
                    self._merge(other, kept)
                    return 200, {"id": kept}
                case "POST", [kind, id, ("notes" | "tasks") as what]:
                    self._get(id, kind)
                    return 201, {"id": self._add(what, (kind, id), sent)}
                case "GET", ["statuses"]:
                    return 200, {"results": STATUSES}
                case "GET", ["contacts"]:
                    return 200, self._search(**query)
                case "GET", ["by-email", email]:
                    return 200, self._shown(self._of_email(email))
                case "GET", ["marked", kind, mark]:
                    return 200, {"results": self._marked(kind, mark)}
                case "GET", ["contacts", id]:
                    return 200, self._shown(self._get(id))
                case "GET", ["contacts", id, ("deals" | "tickets") as kind]:
                    self._get(id)
                    found = self.records[kind].values()
                    return 200, {"results": [one for one in found if str(one["contact"]) == id]}
                case "POST", [kind] if kind in NAMES:
                    return 201, {"id": self._create(kind, sent)}
                case "POST", ["contacts", id, "tickets"]:
                    self._get(id)
                    return 201, {"id": self._create("tickets", sent, contact=int(id))}
                case "PATCH", [kind, id] if kind in NAMES:
                    return 200, self._update(kind, self._get(id, kind), sent["properties"])
                case (
                    ("PUT" | "DELETE"),
                    [("deals" | "tickets") as kind, id, "contact", contact_id],
                ):
                    other = self._get(contact_id)["id"]
                    self._link(kind, self._get(id, kind), other, remove=method == "DELETE")
                    return 200, {"linked": method == "PUT"}
                case "DELETE", [kind, id] if kind in NAMES:
                    self._delete(kind, self._get(id, kind)["id"])
                    return 200, {"deleted": True}
        raise Refused(404, message="no such address")

    def _renew(self, form: Mapping[str, list[str]]) -> Record:
        if form["refresh_token"] != [self.refresh_token]:
            raise Refused(self.refusal, error="invalid_grant")
        self.renewals += 1
        self.refresh_token = f"refresh-{self.renewals}-of-the-small-crm"
        token = f"access-{self.renewals}-of-the-small-crm"
        self.access_tokens.add(token)
        return {"access_token": token, "expires_in": 1800, "refresh_token": self.refresh_token}

    def _changed(self, kind: str, since: str, limit: str) -> Record:
        told = [(i, id, how) for i, (of, id, how) in enumerate(self.feed, 1) if of == kind]
        rest = [one for one in told if one[0] > int(since)]
        page = rest[: int(limit)]
        results = [
            {"id": id, "gone": how} if how else self._feed_entry(kind, id) for _, id, how in page
        ]
        following = page[-1][0] if page else int(since)
        return {"results": results, "next": following, "more": len(rest) > len(page)}

    def _feed_entry(self, kind: str, id: int) -> Record:
        record = self.records[kind].get(id)
        if record is None:
            return {"id": id, "gone": "gone"}
        shown = {name: record["properties"].get(name) for name in NAMES[kind]}
        at = datetime.fromtimestamp(record["changed"], ZONE).strftime(TIME_FORM)
        return {"id": id, "properties": shown, "changed": at, "contact": record["contact"] or None}

    def _delete(self, kind: str, id: int, into: str = "gone") -> None:
        del self.records[kind][id]
        self.feed.append((kind, id, into))

    def _merge(self, gone: int, kept: int) -> None:
        if gone == kept:
            raise Refused(422, errors=[{"field": "other", "reason": "is the same contact"}])
        held, other = (self.records["contacts"][id]["properties"] for id in (kept, gone))
        self.records["contacts"][kept]["properties"] = {**other, **held}
        for kind in TITLES:
            for record in self.records[kind].values():
                record["contact"] = kept if record["contact"] == gone else record["contact"]
        self._delete("contacts", gone, str(kept))
        self.feed.append(("contacts", kept, ""))

    def _add(self, what: str, of: tuple[str, str], sent: Record) -> int:
        allowed = {"text", "at"} if what == "notes" else {*TASKS}
        if errors := sent["values"].keys() - allowed:
            raise Refused(422, errors=[{"field": one, "reason": "unknown"} for one in errors])
        for id, one in self.records[what].items():
            if sent["mark"] and one["mark"] == sent["mark"]:
                return id
        self._ids += 1
        self.records[what][self._ids] = {**sent["values"], "of": of, "mark": sent["mark"]}
        return self._ids

    def _link(self, kind: str, record: Record, contact: int, *, remove: bool) -> None:
        held = record["contact"]
        if not remove and held not in (0, contact):
            named = f"The {kind[:-1]} is linked to contact {held}"
            raise Refused(409, message=named, linked=held)
        if (held == contact) == remove:
            record["contact"] = 0 if remove else contact
            self.feed.append((kind, record["id"], ""))

    def _search(self, limit: str, page: str, q: str = "", phones: str = "") -> Record:
        shown = time.time() - self.search_lag
        found = [
            self._shown(one)
            for one in self.records["contacts"].values()
            if one["changed"] <= shown
            and (
                one["properties"].get("phone") in phones.split("|")
                if phones
                else any(q in value for value in one["properties"].values())
            )
        ]
        start, end = int(limit) * int(page), int(limit) * (int(page) + 1)
        return {"results": found[start:end], "more": end < len(found)}

    def _marked(self, kind: str, mark: str) -> list[Record]:
        found = self.records[kind].values()
        return [
            {"id": one["id"], "contact": one["contact"]} for one in found if one["mark"] == mark
        ]

    def _shown(self, record: Record) -> Record:
        empty = dict.fromkeys(NAMES["contacts"])
        return {"id": record["id"], "properties": {**empty, **record["properties"]}}

    def _get(self, id: str, kind: str = "contacts") -> Record:
        found = self.records[kind].get(int(id)) if _ID.fullmatch(id) else None
        if found is None:
            raise Refused(404, message=f"there is no {kind} with this id")
        return found

    def _holder(self, email: str) -> Record | None:
        wanted = email.lower()
        for one in self.records["contacts"].values():
            if wanted and one["properties"].get("email", "").lower() == wanted:
                return one
        return None

    def _of_email(self, email: str) -> Record:
        found = self._holder(email)
        if found is None:
            raise Refused(404, message="nobody has this email")
        return found

    def _check(self, kind: str, properties: Mapping[str, Any], own: int = 0) -> None:
        pipeline, stage = PLACES.get(kind, ("", ""))
        errors = [
            {"field": name, "reason": "unknown or not yours to write"}
            for name, value in properties.items()
            if name not in NAMES[kind] or name == "created" or not isinstance(value, str)
        ]
        if properties.get("status") and properties["status"] not in STATUSES:
            errors.append({"field": "status", "reason": "no such option"})
        if properties.get("met") and not _TIME.fullmatch(properties["met"]):
            errors.append({"field": "met", "reason": "no time"})
        place = properties.get(pipeline, next(iter(self.pipelines), ""))
        if pipeline in properties and (not place or place not in self.pipelines):
            errors.append({"field": pipeline, "reason": "no such pipeline"})
        elif stage in properties and properties[stage] not in self.pipelines.get(place, ()):
            errors.append({"field": stage, "reason": "no such stage"})
        if errors:
            raise Refused(422, errors=errors)
        holder = self._holder(properties.get("email", "")) if kind == "contacts" else None
        if holder is not None and holder["id"] != own:
            raise Refused(409, message="this email is taken", id=holder["id"])

    def _create(self, kind: str, sent: Record, contact: int = 0) -> int:
        self._check(kind, sent["properties"])
        title = TITLES.get(kind, "")
        for one in self.records[kind].values() if self.unique_titles and title else ():
            if one["properties"].get(title) == sent["properties"].get(title):
                raise Refused(409, message="this title is taken", id=one["id"], field=title)
        return self._insert(kind, sent["properties"], sent.get("mark", ""), contact)

    def _insert(self, kind: str, properties: Record, mark: str, contact: int = 0) -> int:
        self._ids += 1
        now = time.time()
        if kind == "contacts":
            properties = {**properties, "created": datetime.now(ZONE).strftime(TIME_FORM)}
        self.records[kind][self._ids] = {
            "id": self._ids,
            "properties": {name: value for name, value in properties.items() if value},
            "mark": mark,
            "contact": contact,
            "created": now,
            "changed": now,
        }
        self.feed.append((kind, self._ids, ""))
        return self._ids

    def _update(self, kind: str, record: Record, properties: Record) -> Record:
        self._check(kind, properties, record["id"])
        merged = {**record["properties"], **properties}
        record["properties"] = {name: value for name, value in merged.items() if value}
        record["changed"] = time.time()
        self.feed.append((kind, record["id"], ""))
        return self._shown(record)


def _seen(properties: Mapping[str, str]) -> dict[str, str]:
    times = {name: to_utc(properties[name]) for name in TIMES if name in properties}
    return {**properties, **times}


def signed(body: bytes, key: str = HOOK_KEY) -> str:
    return hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def to_utc(local: str) -> str:
    at = datetime.strptime(local, TIME_FORM).replace(tzinfo=ZONE).astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.000Z"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    crm: SmallCrm


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            status, said = self.server.crm.answer(self.command, self.path, token, body)
        except Refused as exc:
            status, said = exc.status, exc.body
        answer = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve

    def log_message(self, format: str, *args: object) -> None:
        pass
