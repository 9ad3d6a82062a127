"""An in-memory fake of Acme, called over real HTTP and as strict as the CRM.

The public methods of `FakeAcme` up to `count` are for the tests, and use the adapter's property
names. The code below them is the CRM's API.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from crmhub.adapter import Conflict, Kind, Linked

TOKEN = "the-token-of-the-tests"
# The type of each field; those with options are enumerations.
PLACES = {"pipeline": "string", "stage": "string", "reference": "string", "contact_id": "id"}
FIELDS = {
    "contacts": {
        "email": "email",
        "phone": "phone",
        "first_name": "string",
        "last_name": "string",
        "status": "enumeration",
        "created_at": "datetime",
        "reference": "string",
    },
    "deals": {"title": "string", "amount": "currency", **PLACES},
    "tickets": {"title": "string", "text": "text", "priority": "enumeration", **PLACES},
}
OPTIONS = {
    "status": ["lead", "customer"],
    "pipeline": ["main"],
    "stage": ["open", "won", "lost"],
    "priority": ["low", "high"],
}
READ_ONLY = {"created_at"}
TYPES = {"currency": int | float, "id": int}
THEIRS = {"firstname": "first_name", "lastname": "last_name"}
OURS = {
    "contacts": {"first_name": "firstname", "last_name": "lastname"},
    "deals": {"title": "dealname", "stage": "dealstage"},
    "tickets": {
        "title": "subject",
        "text": "content",
        "pipeline": "hs_pipeline",
        "stage": "hs_pipeline_stage",
        "priority": "hs_ticket_priority",
    },
}
Record = dict[str, Any]


class Refused(Exception):
    """A refused request, with the status and the JSON body of the error answer."""

    def __init__(self, status: int, **body: Any) -> None:
        self.status, self.body = status, body


class FakeAcme:
    """The fake CRM; as a context manager, it starts and stops an HTTP server at `url`."""

    def __init__(self) -> None:
        self._records: dict[str, dict[int, Record]] = {kind: {} for kind in FIELDS}
        self._newest = 100
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.crm = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> FakeAcme:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # For the tests.

    def add_contact(self, properties: Mapping[str, str]) -> str:
        fields = {THEIRS.get(name, name): value for name, value in properties.items()}
        with self._lock:
            if self._holder(fields.get("email", "")):
                raise Conflict("this email is taken")
            return str(self._insert("contacts", fields)["id"])

    def contacts(self) -> dict[str, dict[str, str]]:
        return self._seen("contacts")

    def delete_contact(self, contact_id: str) -> None:
        with self._lock:
            del self._records["contacts"][int(contact_id)]

    def linked(self, kind: Linked, contact_id: str) -> dict[str, dict[str, str]]:
        return self._seen(kind, contact_id=int(contact_id))

    def count(self, kind: Kind) -> int:
        return len(self._seen(kind))

    def _seen(self, kind: str, **wanted: int) -> dict[str, dict[str, str]]:
        with self._lock:
            return {
                str(id): {OURS[kind].get(name, name): str(v) for name, v in record.items() if v}
                for id, record in self._records.get(kind, {}).items()
                if all(record.get(name) == value for name, value in wanted.items())
            }

    # The CRM's API.

    def answer(self, method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
        """Return the status and the JSON value that answer one request.

        `target` is the path with the query, `token` the API token, and `content` the request body.
        Raises Refused for a request that the CRM would refuse.
        """
        parts = urlsplit(target)
        path = [unquote(part) for part in parts.path.split("/")[2:]]
        query = parse_qs(parts.query)
        if token != TOKEN:
            raise Refused(401, message="unknown token")
        body = json.loads(content) if content else {}
        with self._lock:
            match method, path:
                case "GET", ["me"]:
                    return 200, {"id": 1}
                case "GET", ["fields", kind] if kind in FIELDS:
                    return 200, {"results": [_field(*one) for one in FIELDS[kind].items()]}
                case "GET", ["pipelines", kind] if kind in FIELDS:
                    stages = [{"id": one, "name": one.title()} for one in OPTIONS["stage"]]
                    return 200, {"results": [{"id": "main", "name": "Main", "stages": stages}]}
                case "GET", [kind] if kind in FIELDS:
                    return 200, {"results": self._list(kind, **query)}
                case "GET", ["contacts", id]:
                    return 200, self._shown("contacts", self._get(id))
                case "POST", [kind] if kind in FIELDS:
                    self._check(kind, body)
                    if kind != "contacts":
                        self._get(str(body["contact_id"]))
                    return 201, {"id": self._insert(kind, body)["id"]}
                case "PATCH", ["contacts", id]:
                    record = self._get(id)
                    self._check("contacts", body, own=record["id"])
                    record |= body
                    return 200, self._shown("contacts", record)
        raise Refused(404, message="no such address")

    def _list(self, kind: str, **filters: list[str]) -> list[Record]:
        [(name, values)] = filters.items()
        wanted = {value.lower() for value in values}
        return [
            self._shown(kind, record)
            for record in self._records[kind].values()
            if str(record.get(name) or "").lower() in wanted
        ]

    def _shown(self, kind: str, record: Record) -> Record:
        return {"id": record["id"]} | {name: record.get(name) or None for name in FIELDS[kind]}

    def _get(self, id: str) -> Record:
        record = self._records["contacts"].get(int(id)) if id.isdecimal() else None
        if record is None:
            raise Refused(404, message="no such contact")
        return record

    def _holder(self, email: str) -> Record | None:
        for record in self._records["contacts"].values():
            if email and (record.get("email") or "").lower() == email.lower():
                return record
        return None

    def _check(self, kind: str, fields: Mapping[str, Any], own: int = 0) -> None:
        errors: dict[str, str] = {}
        for name, value in fields.items():
            if name not in FIELDS[kind] or name in READ_ONLY:
                errors[name] = "no such field, or not yours to write"
            elif value is not None and not isinstance(value, TYPES.get(FIELDS[kind][name], str)):
                errors[name] = "not a value of its type"
            elif value and name in OPTIONS and value not in OPTIONS[name]:
                errors[name] = f"not one of {', '.join(sorted(OPTIONS[name]))}"
        if errors:
            raise Refused(422, errors=errors)
        holder = self._holder(fields.get("email") or "") if kind == "contacts" else None
        if holder is not None and holder["id"] != own:
            raise Refused(409, message="this email is taken", id=holder["id"])

    def _insert(self, kind: str, body: Record) -> Record:
        self._newest += 1
        record = self._records[kind][self._newest] = {**body, "id": self._newest}
        if kind == "contacts":
            record["created_at"] = datetime.now(UTC).isoformat()
        return record


def _field(name: str, type_: str) -> Record:
    field = {"name": name, "label": name.replace("_", " ").title(), "type": type_}
    return field | {"options": OPTIONS.get(name, []), "read_only": name in READ_ONLY}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    crm: FakeAcme


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Send each response in one piece.
    wbufsize = -1
    server: _Server

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            status, body = self.server.crm.answer(self.command, self.path, token, content)
        except Refused as exc:
            status, body = exc.status, exc.body
        answer = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PATCH = _serve

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, since the tests need no access log."""
