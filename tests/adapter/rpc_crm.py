"""Roster, an in-memory CRM with JSON-RPC, for the RPC example of docs/adapters.md.

Logins and calls have a host each, whose paths end with a slash. A login answers with a session and
the address of the calls. Errors come with status 200, a missing right with 401, and too many logins
with 400. A contact has one name; emails are not unique; numbers and truths are no texts. The search
for phones is late. Calls cost credits, and only some are served at the same time.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from crmhub.adapter import Kind, Linked
from crmhub.adapter.translated import join, split
from crmhub.adapter.types import to_json, to_text

USER, PASSWORD = "hub", "sesame"
INDEX_S = 0.03
AT_ONCE = 4
SEARCH_COST = 5
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "status": ("lead", "customer"),
    "interests": ("news", "offers"),
    "pipeline": ("main",),
    "stage": ("open", "won"),
    "priority": ("low", "high"),
}
TYPES: Mapping[str, Mapping[str, Any]] = {
    "contacts": {
        "name": "string",
        "email": "email",
        "phone": "phone",
        "status": "enumeration",
        "score": "number",
        "birthday": "date",
        "newsletter": "bool",
        "interests": "multi_enumeration",
        "created": "datetime",
    },
    "deals": dict.fromkeys(("title", "pipeline", "stage"), "string") | {"amount": "number"},
    "tickets": dict.fromkeys(("title", "text", "pipeline", "stage", "priority"), "string"),
}
OURS = {
    "deals": {"title": "dealname", "stage": "dealstage"},
    "tickets": {
        "title": "subject",
        "text": "content",
        "pipeline": "hs_pipeline",
        "stage": "hs_pipeline_stage",
        "priority": "hs_ticket_priority",
    },
}
JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "number": (int, float),
    "bool": (bool,),
    "multi_enumeration": (list,),
}
Record = dict[str, Any]


class Fault(Exception):
    """An error answer, with the code, the message and the fields at fault."""

    def __init__(self, code: str, message: str, **fields: str) -> None:
        self.body = {"error": {"code": code, "message": message, "fields": fields}}


class Roster:
    """The CRM; as a context manager it listens at `url` and, for logins, at `urls["login"]`."""

    def __init__(self) -> None:
        self.records: dict[str, dict[int, Record]] = {kind: {} for kind in TYPES}
        self.sessions: set[str] = set()
        self.logins = 0
        self.search_lag = 0.0
        self.spent = 0
        self._newest = 0
        self._serving = 0
        self._lock = threading.RLock()
        self._servers = [_Server(self, path) for path in ("/v2/rpc/", "/auth/session/")]
        self.url = f"{self._servers[0].origin}/v2"
        self.urls = {"login": f"{self._servers[1].origin}/auth"}

    def __enter__(self) -> Roster:
        for server in self._servers:
            server.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()
            server.thread.join()

    # For the tests, under the names that the adapter's callers use.

    def add_contact(self, properties: Mapping[str, str]) -> str:
        values = {name: value for name, value in properties.items() if name in TYPES["contacts"]}
        name = join(properties.get("firstname", ""), properties.get("lastname", ""))
        types = TYPES["contacts"]
        typed = {key: to_json(types[key], value) for key, value in values.items()}
        return str(self._insert("contacts", {**typed, "name": name}, "", 0))

    def contacts(self) -> dict[str, dict[str, str]]:
        with self._lock:
            return {
                str(id): self._shown("contacts", record)
                | dict(
                    zip(
                        ("firstname", "lastname"),
                        split(record["values"].get("name") or ""),
                        strict=True,
                    )
                )
                for id, record in self.records["contacts"].items()
            }

    def delete_contact(self, contact_id: str) -> None:
        with self._lock:
            del self.records["contacts"][int(contact_id)]

    def linked(self, kind: Linked, contact_id: str) -> dict[str, dict[str, str]]:
        with self._lock:
            return {
                str(id): self._shown(kind, record) | {"mark": record["mark"]}
                for id, record in self.records[kind].items()
                if record["contact"] == int(contact_id)
            }

    def count(self, kind: Kind) -> int:
        with self._lock:
            return len(self.records[kind])

    def _shown(self, kind: str, record: Record) -> dict[str, str]:
        names = OURS.get(kind, {})
        values = record["values"].items()
        return {names.get(name, name): to_text(value) for name, value in values}

    # The CRM's API.

    def login(self, body: Mapping[str, Any], _: str) -> Record:
        """Answer the login of a user."""
        if (body.get("user"), body.get("password")) != (USER, PASSWORD):
            raise Fault("AccessDenied", "wrong user or password")
        with self._lock:
            self.logins += 1
            session = f"session-{self.logins}-of-roster"
            self.sessions.add(session)
        return {"session": session, "lifetime": 600, "url": self.url}

    def call(self, body: Mapping[str, Any], session: str) -> Record:
        """Answer a call in a session."""
        method, params = body["method"], body["params"]
        with self._lock:
            self._serving += 1
            busy = self._serving > AT_ONCE
            self.spent += SEARCH_COST if method == "contact.search" else 1
        try:
            if busy:
                raise Fault("Busy", "too many calls at the same time")
            if session not in self.sessions:
                raise Fault("SessionExpired", f"there is no session {session}")
            with self._lock:
                return {"jsonrpc": "2.0", "id": body["id"], "result": self._result(method, params)}
        finally:
            with self._lock:
                self._serving -= 1

    def _result(self, method: str, params: Mapping[str, Any]) -> Any:
        match method, params:
            case "user.me", _:
                return {"name": USER}
            case "record.fields", {"kind": kind}:
                return [
                    {"name": name, "type": of, "options": list(OPTIONS.get(name, ()))}
                    for name, of in TYPES[kind].items()
                ]
            case "contact.list", {"email": email}:
                return self._where(lambda values: (values.get("email") or "").lower() == email)
            case "contact.search", {"phones": phones}:
                latest = time.time() - INDEX_S - self.search_lag
                return self._where(lambda values: values.get("phone") in phones, latest=latest)
            case "contact.read", {"id": id}:
                return self._read(self._get(id))
            case "contact.create", {"values": values, "mark": mark}:
                self._check("contacts", values)
                return {"id": self._insert("contacts", values, mark, 0)}
            case "contact.write", {"id": id, "values": values}:
                self._check("contacts", values)
                record = self._get(id)
                record["values"] |= values
                record["changed"] = time.time()
                return {"id": id}
            case "record.create", {"kind": kind, "contact": id, "values": values, "mark": mark}:
                self._get(id)
                self._check(kind, values)
                return {"id": self._insert(kind, values, mark, id)}
            case "record.marked", {"kind": kind, "mark": mark}:
                records = self.records[kind].values()
                return [{"id": one["id"]} for one in records if mark and one["mark"] == mark]
        raise Fault("NoSuchMethod", f"there is no {method}")

    def _where(self, matches: Any, latest: float = float("inf")) -> list[Record]:
        records = self.records["contacts"].values()
        return [
            self._read(one)
            for one in records
            if one["changed"] <= latest and matches(one["values"])
        ]

    def _read(self, record: Record) -> Record:
        return {"id": record["id"], **dict.fromkeys(TYPES["contacts"]), **record["values"]}

    def _get(self, id: Any) -> Record:
        record = self.records["contacts"].get(id)
        if record is None:
            raise Fault("NotFound", "there is no such contact")
        return record

    def _check(self, kind: str, values: Mapping[str, Any]) -> None:
        faults: dict[str, str] = {}
        for name, value in values.items():
            kind_of_value = TYPES[kind].get(name)
            if kind_of_value is None or name == "created":
                faults[name] = "unknown, or not yours to write"
            elif value is None:
                continue
            elif not isinstance(value, JSON_TYPES.get(kind_of_value, (str,))):
                faults[name] = f"this is no {kind_of_value}"
            elif name in OPTIONS and not {*OPTIONS[name]} >= {
                *(value if isinstance(value, list) else [value])
            }:
                faults[name] = "no such option"
        if faults:
            raise Fault("Invalid", "values are refused", **faults)

    def _insert(self, kind: str, values: Mapping[str, Any], mark: str, contact: int) -> int:
        with self._lock:
            self._newest += 1
            if kind == "contacts":
                values = {**values, "created": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}.000Z"}
            self.records[kind][self._newest] = {
                "id": self._newest,
                "values": dict(values),
                "mark": mark,
                "contact": contact,
                "changed": time.time(),
            }
            return self._newest


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, crm: Roster, path: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.path = path
        self.serve = crm.call if path.endswith("/rpc/") else crm.login
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Send each response in one piece.
    wbufsize = -1
    server: _Server

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, body = 200, {}
        if self.path != self.server.path:
            status = 404
        else:
            try:
                body = self.server.serve(json.loads(content), self.headers.get("X-Session", ""))
            except Fault as exc:
                body = exc.body
        answer = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass
