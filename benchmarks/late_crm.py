"""A CRM that carries a write out long after its caller has given up, and the adapter for it.

The CRM has neither marks nor unique emails, so only a lookup shows whether a record exists.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from crmhub.adapter import (
    Adapter,
    Conflict,
    Contact,
    Context,
    Linked,
    Saved,
    Setting,
    Unsupported,
    Written,
)
from crmhub.adapter.http import Answer, Http, Limit

UNDER_WAY = "LATE_UNDER_WAY_S"
"""The environment variable with the seconds for which the adapter takes a write to be under way."""
_LEASE_S = 30.0
# Longer than a bot's deadline, shorter than a worker's call.
_HANGS_S = (4.0, 8.0)
_LATENCY_S = 0.03
Record = dict[str, Any]


# --- The adapter ------------------------------------------------------------------------------


class LateAdapter(Adapter):
    """An adapter that recognises its contacts by email, and its deals by values and time."""

    title = "Late"
    settings = (Setting("base_url", "API address", "url", required=True),)
    under_way_s: ClassVar[float] = float(os.environ.get(UNDER_WAY, "60"))

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._http = Http(
            context,
            context.settings["base_url"],
            crm=self.title,
            authorize=dict,
            limits=[Limit(100_000, 10.0)],
        )

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        params = {"email": email} if email else {"phone": phone}
        answer = self._http.send("GET", "contacts", params=params)
        found = [_contact(answer, one, names) for one in answer.items()]
        return min(found, key=lambda one: int(one.id), default=None)

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        answer = self._http.send("GET", "contacts", contact_id)
        return _contact(answer, answer.object(), names)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        email = properties.get("email", "")
        with self.context.lease(f"email {email}", _LEASE_S):
            if email and (holder := self.find_contact(email=email)):
                raise Conflict("This email is taken.", existing_id=holder.id, name="email")
            answer = self._http.send("POST", "contacts", body={"properties": dict(properties)})
        return Saved(answer.id(), "created")

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        body = {"properties": dict(properties)}
        answer = self._http.send("PATCH", "contacts", contact_id, body=body)
        return Saved(answer.id(), "updated")

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        if kind != "deals":
            raise Unsupported(f"{self.title} has no {kind}.")
        body = {"properties": dict(properties)}
        answer = self._http.send("POST", "contacts", contact_id, kind, body=body)
        return Saved(answer.id(), "created")

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        if kind == "contacts":
            email = sent.get("email", "")
            found = self.find_contact(email=email) if email else None
            return Saved(found.id, "created") if found else None
        return self.find_apart("deals", contact_id, mark, sent=sent, since_ms=since_ms, others=())

    def find_apart(
        self,
        kind: Linked,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        answer = self._http.send("GET", "contacts", contact_id, kind)
        for one in answer.items():
            alike = answer.mapping(one["properties"]).items() >= sent.items()
            if alike and one["created"] >= since_ms and answer.id(one) not in others:
                return Saved(answer.id(one), "created")
        return None


def _contact(answer: Answer, record: Mapping[str, Any], names: Sequence[str]) -> Contact:
    held = answer.mapping(record.get("properties"))
    return Contact(answer.id(record), {name: held.get(name, "") for name in names})


# --- The CRM ----------------------------------------------------------------------------------


class LateCrm:
    """The CRM; as a context manager, it listens at `url`.

    `loses` is the share of writes that get no answer: the connection ends at once, or hangs until
    the caller gives up. Most of these writes are carried out up to `late_s` seconds later, some
    before that, and some never.
    """

    def __init__(self, *, late_s: float) -> None:
        self.loses = 0.0
        self.lost = self.landed_late = 0
        self._late_s = late_s
        self._held = 0
        self._records: dict[str, list[Record]] = {"contacts": [], "deals": []}
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.crm = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> LateCrm:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def records(self, kind: str) -> list[Record]:
        """Return all records of a kind."""
        with self._lock:
            return [dict(one) for one in self._records[kind]]

    def until_landed(self) -> None:
        """Wait until no write is held back any more."""
        while self._held:
            time.sleep(0.1)

    def read(self, parts: Sequence[str], query: Mapping[str, str]) -> Any:
        """Return the data that a GET requests, None if it does not exist."""
        with self._lock:
            match parts:
                case ["contacts"]:
                    [(name, value)] = query.items()
                    held = self._records["contacts"]
                    return {
                        "results": [one for one in held if one["properties"].get(name) == value]
                    }
                case ["contacts", id]:
                    return self._get(id)
                case ["contacts", id, "deals"] if self._get(id):
                    held = self._records["deals"]
                    return {"results": [one for one in held if one["contact"] == id]}
        return None

    def write(self, parts: Sequence[str], sent: Mapping[str, str]) -> Record | None:
        """Carry a write out; return None if its contact does not exist."""
        with self._lock:
            match parts:
                case ["contacts"]:
                    return self._insert("contacts", sent)
                case ["contacts", id] if contact := self._get(id):
                    contact["properties"] |= sent
                    return contact
                case ["contacts", id, "deals"] if self._get(id):
                    return self._insert("deals", sent, contact=id)
        return None

    def _get(self, id: str) -> Record | None:
        number = int(id) if id.isdecimal() else 0
        held = self._records["contacts"]
        return held[number - 1] if 0 < number <= len(held) else None

    def _insert(self, kind: str, sent: Mapping[str, str], **more: str) -> Record:
        held = self._records[kind]
        now_ms = int(time.time() * 1000)
        record = {"id": len(held) + 1, "properties": dict(sent), "created": now_ms, **more}
        held.append(record)
        return record

    def loses_answer(self) -> bool:
        """Return whether the present write gets no answer."""
        return random.random() < self.loses

    @contextmanager
    def losing(self, parts: Sequence[str], sent: Mapping[str, str]) -> Iterator[None]:
        """Carry out a write whose answer is lost when the block ends, or some time after that."""
        fate = random.random()
        with self._lock:
            self.lost += 1
            self._held += 1
        if fate < 0.15:
            self.write(parts, sent)
        yield
        never = fate < 0.15 or fate > 0.85
        timer = threading.Timer(
            random.uniform(0, self._late_s), self._land, args=(parts, None if never else sent)
        )
        timer.daemon = True
        timer.start()

    def _land(self, parts: Sequence[str], sent: Mapping[str, str] | None) -> None:
        if sent is not None:
            self.write(parts, sent)
        with self._lock:
            self._held -= 1
            self.landed_late += sent is not None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    crm: LateCrm

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing, because callers that are killed or give up cause errors all the time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.path)
        parts, crm = address.path.strip("/").split("/"), self.server.crm
        time.sleep(_LATENCY_S)
        if self.command == "GET":
            self._answer(crm.read(parts, dict(parse_qsl(address.query))))
            return
        sent = json.loads(content)["properties"]
        if crm.loses_answer():
            with crm.losing(parts, sent):
                if random.random() < 0.5:
                    self._wait_for_the_caller_to_go()
                self._reset()
            return
        self._answer(crm.write(parts, sent))

    def _answer(self, found: Any) -> None:
        answer = json.dumps(found or {"message": "There is no such record"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _wait_for_the_caller_to_go(self) -> None:
        select.select([self.connection], [], [], random.uniform(*_HANGS_S))

    def _reset(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_PATCH = _serve

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
