"""Bots that call the helpers of one account, and checks of the journal and the CRM afterwards."""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.places import Place
from crmhub.accounts.accounts import load
from crmhub.accounts.changes import IssuedIds
from crmhub.database.connection import Database
from crmhub.errors import Unavailable
from crmhub.helpers.create_lead import CreateLead
from crmhub.queue import accepting

_PATIENCE_S = 600.0
_LOOK_S = 0.25


@dataclass(frozen=True, slots=True)
class Told:
    """The answer to a call; the status is 0 if the connection broke.

    Names of headers are in lower case. `began` is time.time(), `seconds` how long it took.
    """

    helper: str
    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    began: float
    seconds: float

    @property
    def accepted(self) -> bool:
        """Whether the hub accepted the call."""
        return 200 <= self.status < 300

    @property
    def contact_id(self) -> str:
        """The contactId of a createLead that was accepted."""
        return str(self.body["contactId"])


@dataclass
class Bots:
    """Calls an account's helpers as builders do: once, each on a connection of its own."""

    address: tuple[str, int]
    ids: IssuedIds
    timeout: float = 30.0
    told: list[Told] = field(default_factory=list)
    """Every call, in the order of the answers."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def create_lead(self, token: str, *, name: str, email: str, phone: str = "") -> Told:
        """Call createLead."""
        body = {"contactToken": token, "name": name, "email": email, "phone": phone}
        return self._call("createLead", f"/chatbot/createLead/{self.ids.generated_id}", body)

    def set_properties(self, token: str, **properties: str) -> Told:
        """Call setProperties."""
        body = {"contactToken": token, "props": properties}
        return self._call("setProperties", f"/chatbot/setProperties/{self.ids.generated_id}", body)

    def get_properties(self, token: str, *names: str) -> Told:
        """Call getProperties."""
        body = {"contactToken": token, "props": names}
        return self._call("getProperties", f"/chatbot/getProperties/{self.ids.generated_id}", body)

    def create_deal(self, contact_id: str, **properties: str) -> Told:
        """Call createDeal."""
        body = {"contactId": contact_id, "properties": properties}
        return self._call("createDeal", f"/crm-api-interface/createDeal/{self.ids.portal_id}", body)

    def create_ticket(self, contact_id: str, **properties: str) -> Told:
        """Call createTicket."""
        body = {"contactId": contact_id, "properties": properties}
        path = f"/crm-api-interface/createTicket/{self.ids.portal_id}"
        return self._call("createTicket", path, body)

    def assign_owner(self, contact_id: str, **options: Any) -> Told:
        """Call assignOwner."""
        path = f"/crm-api-interface/assignOwner/{self.ids.portal_id}"
        return self._call("assignOwner", path, {"contactId": contact_id, **options})

    def add_note(self, token: str, text: str) -> Told:
        """Call addNote for a conversation."""
        path = f"/chatbot/addNote/{self.ids.generated_id}"
        return self._call("addNote", path, {"contactToken": token, "text": text})

    def create_task(self, contact_id: str, **properties: str) -> Told:
        """Call createTask."""
        body = {"contactId": contact_id, "properties": properties}
        return self._call("createTask", f"/crm-api-interface/createTask/{self.ids.portal_id}", body)

    def statuses(self) -> dict[int, int]:
        """Return how often each status was answered."""
        return dict(sorted(Counter(one.status for one in self.told).items()))

    def _call(self, helper: str, path: str, body: Mapping[str, Any]) -> Told:
        began, start = time.time(), time.perf_counter()
        status, answered, headers = 0, b"{}", {}
        connection = http.client.HTTPConnection(*self.address, timeout=self.timeout)
        try:
            sent = json.dumps(body)
            connection.request("POST", path, sent, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answered = response.read()
            headers = {name.lower(): value for name, value in response.headers.items()}
            status = response.status
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        seconds = time.perf_counter() - start
        told = Told(helper, status, json.loads(answered), headers, began, seconds)
        with self._lock:
            self.told.append(told)
        return told


class Queue:
    """Accepts leads of an account like createLead, but without a first attempt."""

    def __init__(self, here: Place, client_id: str = "benchmark") -> None:
        self._hub = here.hub()
        with self._hub.database.reading() as connection:
            self._account = load(connection, client_id, self._hub.plans)

    def lead(self, token: str, *, email: str, phone: str = "") -> str:
        """Accept a lead and return its action's id."""
        lead = CreateLead(token, "Ann Lee", email, phone)
        return accepting.accept(
            self._hub.database,
            self._account,
            lambda tx: lead.enter(tx, self._account, lead.mapped(self._account)),
            lease_s=0,
            now=False,
        ).action_id

    def close(self) -> None:
        """Close the connections to the database."""
        self._hub.close()


def until_empty(
    url: str, *, patience: float = _PATIENCE_S, hurry: bool = False, longer_than: float = 0.0
) -> float:
    """Wait until the journal has no unfinished action; return how many seconds that took.

    With `hurry`, actions whose next attempt is more than `longer_than` seconds away are due at
    once. Raises SystemExit if actions are left after `patience` seconds.
    """
    began, database = time.perf_counter(), Database(url, pool_size=1)
    left = None
    try:
        while (waited := time.perf_counter() - began) < patience:
            try:
                left = _unfinished(database, longer_than if hurry else None)
            except Unavailable:
                # The database may be one of the things that break in a run.
                left = None
            if left == 0:
                return waited
            time.sleep(_LOOK_S)
    finally:
        database.close()
    if left is None:
        raise SystemExit(f"the journal cannot be read after {patience:.0f} s")
    raise SystemExit(f"{left} actions are unfinished after {patience:.0f} s")


def _unfinished(database: Database, longer_than: float | None) -> int:
    with database.reading() as connection:
        if longer_than is not None:
            until = connection.now_ms() + int(longer_than * 1000)
            connection.run(
                "update action set run_at = 0 where state = 'queued' and run_at > :until",
                {"until": until},
            )
        left: int = connection.scalar(
            "select count(*) from action where state in ('running', 'queued')"
        )
    return left


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions of a journal by id."""

    database: Database

    @classmethod
    @contextmanager
    def of(cls, url: str) -> Iterator[Actions]:
        """Open the actions of the journal in a database, until the block ends."""
        database = Database(url, pool_size=4)
        try:
            yield cls(database)
        finally:
            database.close()

    def wait_for(self, action_id: str) -> str:
        """Return an action's final state; raise SystemExit if it does not end in time."""
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            with self.database.reading() as connection:
                state: str = connection.scalar(
                    "select state from action where id = :id", {"id": action_id}
                )
            if state not in ("running", "queued"):
                return state
            time.sleep(_LOOK_S)
        raise SystemExit(f"the action {action_id} is unfinished after {_PATIENCE_S:.0f} s")


def states(url: str) -> dict[str, int]:
    """Return how many actions of the journal are in each state."""
    database = Database(url, pool_size=1)
    try:
        with database.reading() as connection:
            return dict(connection.rows("select state, count(*) from action group by state"))
    finally:
        database.close()


def change_rows(url: str, statement: str) -> int:
    """Run a statement that changes rows of the hub's database; return their number."""
    database = Database(url, pool_size=1)
    try:
        return database.transact(lambda tx: tx.run(statement))
    finally:
        database.close()


class Holds(Protocol):
    """A CRM whose records can be listed."""

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Return all records of a kind, each with `properties`."""


def lost_and_twice(
    crm: Holds, kind: str, key: str, wanted: Iterable[str], *, maybe: Iterable[str] = ()
) -> dict[str, int]:
    """Return how many `wanted` records are missing, exist twice, or were not requested.

    Records are identified by the property `key`. Records in `maybe` may exist or be missing.
    """
    held = Counter(one["properties"].get(key, "") for one in crm.records(kind))
    wanted = set(wanted)
    return {
        f"{kind} lost": sum(not held[one] for one in wanted),
        f"{kind} twice": sum(count > 1 for count in held.values()),
        f"{kind} of nobody": len(held.keys() - wanted - set(maybe)),
    }


def judged(faults: Mapping[str, int]) -> bool:
    """Print the count of each kind of fault; return whether all counts are 0."""
    for name, count in faults.items():
        print(f"  {name:<40}{count:>8}{'' if not count else '   BROKEN'}")
    return not any(faults.values())


def kept(promise: str, figure: float, most: float, unit: str) -> bool:
    """Print a figure with its maximum; return whether the figure is within it."""
    fine = figure <= most
    told = "" if fine else "   BROKEN"
    print(f"  {promise:<40}{figure:>8.2f} {unit} (at most {most:g} {unit}){told}")
    return fine


def p(hundredth: int, values: Sequence[float]) -> float:
    """Return a percentile (1 to 99) of the values, of which there must be one."""
    return statistics.quantiles(values, n=100)[hundredth - 1] if len(values) > 1 else values[0]
