"""The Python interface of the fake HubSpot: start, stop, inspect, and inject faults."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from adapters.fakes.faults import Fault
from adapters.fakes.server import Received, Sent, Server
from adapters.hubspot.fake import control
from adapters.hubspot.fake.definitions import definition
from adapters.hubspot.fake.linking import default_type, linked
from adapters.hubspot.fake.portal import Rules
from adapters.hubspot.fake.service import Options, Seen, Service
from adapters.hubspot.fake.writing import create, update


class FakeHubSpot(Service):
    """A fake HubSpot on its own port; `with FakeHubSpot() as fake:` starts and stops it.

    The records survive a stop: after another `start()` they are served on the same port.
    """

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options or Options())
        self._port = self.options.port
        self._server: Server | None = None

    def start(self) -> FakeHubSpot:
        """Start the server in a thread and return this object.

        Raises OSError if the port is in use.
        """
        server = Server(self.options.host, self._port, self._responded)
        self._server, self._port = server, server.server_address[1]
        # The server checks the stop flag at this interval, so a long one would delay each stop.
        serve = server.serve_forever
        threading.Thread(target=serve, args=(0.02,), name="fake-hubspot", daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop the server and close all connections; the records are kept."""
        if self._server:
            self._server.stop()
            self._server = None

    def _responded(self, server: Server, received: Received) -> Sent:
        path = urlsplit(received.target).path
        if path.startswith(control.PREFIX):
            return Sent(control.answer(self, received.method, path, received.body))
        return self.respond(received, server.pause)

    def __enter__(self) -> FakeHubSpot:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The base URL of the server, without a slash at its end."""
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return f"http://{host}:{self._port}"

    @property
    def token(self) -> str:
        """The static access token, which is valid until `expire_tokens` is called."""
        return self.tokens.static

    # Records.

    @property
    def contacts(self) -> dict[str, dict[str, str]]:
        """The properties of all contacts that are not archived, by contact id."""
        return self.records("contacts")

    @property
    def deals(self) -> dict[str, dict[str, str]]:
        """The properties of all deals that are not archived, by deal id."""
        return self.records("deals")

    @property
    def tickets(self) -> dict[str, dict[str, str]]:
        """The properties of all tickets that are not archived, by ticket id."""
        return self.records("tickets")

    def records(self, kind: str) -> dict[str, dict[str, str]]:
        """Return the properties of all records of a kind that are not archived, by record id."""
        with self.lock:
            return {
                id_: dict(record.properties) for id_, record in self.portal.records[kind].items()
            }

    def linked(self, kind: str, id_: str, to: str) -> list[str]:
        """Return the ids of the records of the kind `to` that are linked to a given record."""
        with self.lock:
            return sorted(linked(self.portal, self.portal.load(kind, id_), to))

    def add(self, kind: str, properties: Mapping[str, str], *, contacts: Iterable[str] = ()) -> str:
        """Create a record that searches find at once, without lag; return its id.

        `contacts` are the ids of contacts to link the record to. Raises Refused if HubSpot would
        refuse the record.
        """
        with self.lock:
            type_id = default_type(kind, "contacts").id
            spec = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": type_id}
            links = [{"to": {"id": contact_id}, "types": [spec]} for contact_id in contacts]
            record = create(self.portal, kind, dict(properties), links)
            record.index()
            return record.id

    def add_contact(self, **properties: str) -> str:
        """Create a contact that searches find at once, without lag; return its id."""
        return self.add("contacts", properties)

    def set(self, kind: str, id_: str, **properties: str) -> None:
        """Change properties of a record, as a HubSpot user would in the web app."""
        with self.lock:
            update(self.portal, self.portal.load(kind, id_), properties)

    def archive(self, kind: str, id_: str) -> None:
        """Archive a record, as a HubSpot user would in the web app."""
        with self.lock:
            self.portal.remove(self.portal.load(kind, id_))

    def define(self, kind: str, name: str, type_: str = "string", **more: Any) -> None:
        """Define a custom property of the type `type_` for a kind of record.

        `more` are further arguments of the function `definitions.definition`.
        """
        with self.lock:
            group = next(iter(self.portal.groups[kind]))
            made = definition(name, name, type_, group=group, own=False, **more)
            self.portal.definitions[kind][name] = made

    def require(self, kind: str, *names: str) -> None:
        """Make the properties `names` required in every record of a kind."""
        with self.lock:
            self.portal.rules[kind] = Rules(required=names)

    def index(self) -> None:
        """Put the present values of all records into the search index at once, without lag."""
        with self.lock:
            for records in self.portal.records.values():
                for record in records.values():
                    record.index()

    # Faults.

    def fail(self, status: int | None = None, **fault: Any) -> Fault:
        """Inject a fault and return it.

        `status` is the HTTP status with which a fault of the kind "status" answers. `fault` are
        further attributes of `faults.Fault`, such as `path` and `times`.
        """
        made = Fault(status=status, **fault)
        with self.lock:
            self.faults.add(made)
        return made

    def expire_tokens(self) -> None:
        """Make all access tokens invalid.

        Only a refresh with the refresh token gives a new valid access token.
        """
        with self.lock:
            self.tokens.expire()

    # Recorded calls.

    @property
    def requests(self) -> list[Seen]:
        """The recorded API calls, at most the last 5,000, the oldest first."""
        with self.lock:
            return list(self._seen)

    def count(self, method: str = "*", path: str = "*") -> int:
        """Return the number of recorded API calls whose method and path match shell patterns."""
        return sum(
            fnmatchcase(request.method, method) and fnmatchcase(request.path, path)
            for request in self.requests
        )
