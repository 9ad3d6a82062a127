"""The base of a fake CRM: start, stop, inspect, inject faults, and process calls."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Self

from adapters.fakes import control, records_page
from adapters.fakes.answers import Answer, Refused
from adapters.fakes.authorizing import Authorizations
from adapters.fakes.faults import Fault, Faults
from adapters.fakes.fields import Field
from adapters.fakes.limits import AtOnce, RetryAfter, Window, parse, retry_header
from adapters.fakes.records import Record
from adapters.fakes.server import Received, Sent, Server
from adapters.fakes.store import Store
from adapters.fakes.tokens import Tokens

_MOST_REMEMBERED = 5_000
_LONGEST_REMEMBERED = 16_384


@dataclass(kw_only=True)
class Options:
    """The options that all fakes share; times are in seconds.

    `latency` is the time that each answer takes, and `search_lag` the time until searches see a
    change. `limit` is the CRM's general rate limit, written `100/10s` or `none`. `retry_after` says
    whether a refusal over a limit has the header Retry-After, and in which form.
    """

    host: str = "127.0.0.1"
    port: int = 0
    latency: float = 0.0
    search_lag: float = 0.0
    limit: str = "none"
    retry_after: RetryAfter = "none"


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


class Fake(ABC):
    """A fake CRM on its own port; `with …Fake() as fake:` starts and stops it.

    The records survive a stop: after another `start()` they are served on the same port. `lock`
    protects the whole state; it is held while a call is executed, and released during pauses.

    A subclass says what its CRM does: `fields`, `handle`, and what differs from the defaults here.
    `kinds` are the CRM's own names of the kinds of records by the hub's, `fields` their fields by
    the own kind, and `names` the hub's names of these by the hub's kind. `first_id` and `id_of` say
    how ids look. `settings` are the settings of `/_control` (adapters.fakes.control). `windows`
    holds the rate limits by the names of the settings that change them, `at_once` the limit of
    calls at the same time. `tokens` is None for a CRM without access tokens, `authorizations` for
    one without the page of OAuth; `token_paths` are the paths of the token endpoint.
    """

    kinds: ClassVar[Mapping[str, str]] = {one: one for one in ("contacts", "deals", "tickets")}
    fields: ClassVar[Mapping[str, Mapping[str, Field]]] = {}
    names: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    first_id: ClassVar[int] = 1
    token_paths: ClassVar[tuple[str, ...]] = ()
    settings: ClassVar[Mapping[str, control.Setting]] = control.SETTINGS

    def __init__(self, options: Options) -> None:
        self.options = options
        self.lock = threading.RLock()
        self._port = options.port
        self._server: Server | None = None
        self.reset()

    def reset(self) -> None:
        """Discard the whole state, and start again with the original options.

        A subclass extends this with its limits and tokens, and with records that it begins with.
        """
        with self.lock:
            self.latency = self.options.latency
            self.search_lag = self.options.search_lag
            self.retry_after = self.options.retry_after
            self.store = Store(self.fields, first=self.first_id, id_of=self.id_of)
            self.general = Window("general", *parse(self.options.limit))
            self.windows: dict[str, Window] = {"limit": self.general}
            self.at_once = AtOnce()
            self.tokens: Tokens | None = None
            self.authorizations: Authorizations | None = None
            self.faults = Faults()
            self._seen: deque[Seen] = deque(maxlen=_MOST_REMEMBERED)

    # What a subclass says about its CRM. All of it is called with the lock held.

    @abstractmethod
    def handle(self, received: Received) -> Answer:
        """Execute a call that was admitted and is within the limits; return its response.

        Raises Refused if the CRM refuses the call.
        """

    def admit(self, received: Received) -> None:  # noqa: B027
        """Raise Refused if the CRM refuses a call before it looks at its rate limits.

        Usual reasons are an unknown path and a missing or invalid access token.
        """

    def grant(self, received: Received) -> Answer:
        """Execute a call of the token endpoint, by `new_token`."""
        raise NotImplementedError

    def new_token(self, form: Mapping[str, str]) -> str:
        """Return a new access token for the fields of a request to the token endpoint.

        Raises BadGrant if one of the fields is invalid.
        """
        assert self.tokens
        token = self.tokens.grant(form, self.authorizations)
        self.faults.refreshed()
        return token

    def costs(self, received: Received) -> Sequence[tuple[Window, int]]:
        """Return the rate limits under which a call counts, each with the call's cost."""
        return [(self.general, 1)]

    def over(self, limit: Window | AtOnce, wait: float) -> Refused:
        """Return the CRM's refusal of a call that exceeds a limit.

        `wait` is the time in seconds until such a call is accepted; 0 for the limit `at_once`.
        """
        body = {"message": f"over the limit {limit.name}"}
        return Refused(429, body, headers=retry_header(wait, self.retry_after))

    def decorate(self, received: Received, answer: Answer) -> None:  # noqa: B027
        """Add headers to a response in place, such as the calls that are left."""

    def error(self, status: int, fault: Fault) -> Answer:
        """Return the response that the CRM itself sends with an error status.

        An injected fault without a body of its own is sent so. For a fault of the kind "expired",
        `status` is 401, and the response is that to an expired access token.
        """
        return Answer(status, {"message": f"status {status}"})

    def invalid(self, faults: Mapping[str, str]) -> Refused:
        """Return the CRM's refusal of values; `faults` holds the reasons by field."""
        return Refused(422, {"errors": dict(faults)})

    def taken(self, name: str, holder: Record) -> Refused:
        """Return the CRM's refusal of the value of a unique field that another record holds."""
        return Refused(409, {"message": f"this {name} is taken", "id": holder.id})

    def absent(self, kind: str, id_: str) -> Refused:
        """Return the CRM's refusal of a call for a record that does not exist."""
        return Refused(404, {"message": f"there is no {id_} in {kind}"})

    # Records, by the CRM's own kind. Subclasses extend these.

    def id_of(self, kind: str, number: int) -> str:
        """Return the id of a new record; `number` counts from `first_id` on."""
        return str(number)

    def create(self, kind: str, values: Mapping[str, Any]) -> Record:
        """Create a record as a call does. Raises Refused if the CRM would refuse it."""
        self.check(kind, values)
        return self.store.insert(kind, values)

    def update(self, record: Record, values: Mapping[str, Any]) -> None:
        """Change values of a record as a call does. Raises Refused if the CRM would refuse it."""
        self.check(record.kind, values, own=record)
        self.store.update(record, values)

    def check(self, kind: str, values: Mapping[str, Any], *, own: Record | None = None) -> None:
        """Raise Refused for values that the CRM does not take; `own` is the record to change."""
        if faults := self.store.faults(kind, values, own=own):
            raise self.invalid(faults)
        for to, id_ in self.store.links(kind, values):
            self.load(to, id_)
        for name, holder in self.store.holders(kind, values, own=own).items():
            raise self.taken(name, holder)

    def load(self, kind: str, id_: str) -> Record:
        """Return a record by its id; raise Refused if there is none."""
        if record := self.store.records[kind].get(id_):
            return record
        raise self.absent(kind, id_)

    def link(self, id_: str) -> Any:
        """Return the value with which a field links to the record with this id."""
        return id_

    # Records, by the hub's kind, as people in the CRM read and change them.

    def stored(self, kind: str) -> Mapping[str, Record]:
        """Return the records of a kind that are not deleted, by id.

        Raises Refused for an unknown kind.
        """
        return self.store.records[self.own_kind(kind)]

    def own_kind(self, kind: str) -> str:
        """Return the CRM's own name of a kind of records; raise Refused for an unknown kind."""
        if kind not in self.kinds:
            raise Refused(400, {"message": f"there are {', '.join(self.kinds)}"})
        return self.kinds[kind]

    def add(self, kind: str, properties: Mapping[str, Any], *, contacts: Iterable[str] = ()) -> str:
        """Create a record that searches find at once, without lag; return its id.

        `contacts` are the ids of contacts to link the record to. Raises Refused if the CRM would
        refuse the record.
        """
        with self.lock:
            own, people = self.own_kind(kind), self.own_kind("contacts")
            fields = (name for name, one in self.store.fields[own].items() if one.to == people)
            links = {next(fields): self.link(id_) for id_ in list(contacts)[:1]}
            record = self.create(own, {**properties, **links})
            record.index()
            return record.id

    def set(self, kind: str, id_: str, **values: Any) -> None:
        """Change values of a record."""
        with self.lock:
            self.update(self.load(self.own_kind(kind), id_), values)

    def delete(self, kind: str, id_: str) -> None:
        """Delete a record."""
        with self.lock:
            self.store.delete(self.load(self.own_kind(kind), id_))

    def linked(self, kind: str, id_: str, to: str) -> list[str]:
        """Return the ids of the records of the kind `to` that are linked to a given record."""
        with self.lock:
            return self.store.linked(self.own_kind(kind), id_, self.own_kind(to))

    def readable(self, kind: str, record: Record) -> Mapping[str, Any]:
        """Return a record's properties under names that a person can read, for the page at `/`."""
        return record.properties

    def hub_names(self, kind: str, record: Record) -> Mapping[str, Any]:
        """Return a record's properties under the hub's names, for the conformance tests."""
        names = self.names.get(kind, {})
        return {names.get(name, name): value for name, value in record.properties.items()}

    def own_names(self, kind: str, properties: Mapping[str, str]) -> Mapping[str, Any]:
        """Return values for a new record from properties under the hub's names."""
        own = {name: theirs for theirs, name in self.names.get(kind, {}).items()}
        return {own.get(name, name): value for name, value in properties.items() if value}

    def records(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return the properties of all records of a kind that are not deleted, by record id."""
        with self.lock:
            return {id_: dict(record.properties) for id_, record in self.stored(kind).items()}

    def index(self) -> None:
        """Put the present values of all records into the search index at once, without lag."""
        with self.lock:
            for kind in self.kinds:
                for record in self.stored(kind).values():
                    record.index()

    # Start and stop.

    def start(self) -> Self:
        """Start the server in a thread and return this object.

        Raises OSError if the port is in use.
        """
        server = Server(self.options.host, self._port, self._responded)
        self._server, self._port = server, server.server_address[1]
        # The server checks the stop flag at this interval, so a long one would delay each stop.
        serve = server.serve_forever
        threading.Thread(target=serve, args=(0.02,), name="fake-crm", daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop the server and close all connections; the records are kept."""
        if self._server:
            self._server.stop()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The base URL of the server, without a slash at its end."""
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return f"http://{host}:{self._port}"

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
            if self.tokens:
                self.tokens.expire()

    # Recorded calls.

    @property
    def requests(self) -> list[Seen]:
        """The recorded API calls, at most the last 5,000, the oldest first."""
        with self.lock:
            return list(self._seen)

    def take_requests(self) -> list[Seen]:
        """Return the recorded API calls, the oldest first, and forget them."""
        with self.lock:
            seen = list(self._seen)
            self._seen.clear()
            return seen

    def count(self, method: str = "*", path: str = "*") -> int:
        """Return the number of recorded API calls whose method and path match shell patterns."""
        return sum(
            fnmatchcase(request.method, method) and fnmatchcase(request.path, path)
            for request in self.requests
        )

    # The processing of a call.

    def _responded(self, server: Server, received: Received) -> Sent:
        if received.path.startswith(control.PREFIX):
            return Sent(control.answer(self, received.method, received.path, received.body))
        if received.path == records_page.PATH and received.method in ("GET", "HEAD"):
            return Sent(records_page.answer(self))
        came = time.monotonic()
        sent = self._sent(server, received)
        nothing = sent.fault is not None and sent.fault.kind in ("reset", "close")
        seen = Seen(
            came,
            received.method,
            received.path,
            received.query,
            received.body[:_LONGEST_REMEMBERED],
            0 if nothing else sent.answer.status,
            sent.fault.kind if sent.fault else None,
        )
        with self.lock:
            self._seen.append(seen)
        return sent

    def _sent(self, server: Server, received: Received) -> Sent:
        with self.lock:
            fault = self.faults.strike(received.method, received.path)
            over = self._charge(received)
            entered = self.at_once.enter()
            if not entered:
                over = self.over(self.at_once, 0)
        try:
            return self._executed(server, received, fault, over)
        finally:
            if entered:
                with self.lock:
                    self.at_once.leave()

    def _executed(
        self, server: Server, received: Received, fault: Fault | None, over: Refused | None
    ) -> Sent:
        if fault and not fault.needs_answer:
            server.pause(fault.seconds)
            return Sent(fault.answer(None, self._usual), fault)
        server.pause(self.latency)
        if fault and not fault.written:
            server.pause(fault.seconds)
        with self.lock:
            true = self._answered(received, over)
        if fault is None:
            return Sent(true)
        if fault.written:
            server.pause(fault.seconds)
        return Sent(fault.answer(true, self._usual), fault)

    def _charge(self, received: Received) -> Refused | None:
        """Count a call under all its limits; return the refusal by the first exceeded one."""
        refused = None
        if self.authorizations and received.path == self.authorizations.path:
            return None
        for window, cost in self.costs(received):
            wait = window.take(cost)
            if wait is not None and refused is None:
                refused = self.over(window, wait)
        return refused

    def _answered(self, received: Received, over: Refused | None) -> Answer:
        try:
            page = self.authorizations
            if page and received.path == page.path:
                form = received.form if received.body else received.parameters
                answer = page.answer(received.method, form)
            elif received.path in self.token_paths:
                if over:
                    raise over
                answer = self.grant(received)
            else:
                self.admit(received)
                if over:
                    raise over
                answer = self.handle(received)
        except Refused as exc:
            answer = exc.answer()
        self.decorate(received, answer)
        # Encode under the lock, since the records in the body may change afterwards.
        answer.body = None if answer.status == 204 else answer.encoded()
        return answer

    def _usual(self, fault: Fault) -> Answer:
        return self.error(401 if fault.kind == "expired" else fault.status or 500, fault)
