"""An in-memory substitute for the hub's connection: leases, budgets, stored credentials."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, cast

from crmhub.adapter import (
    Adapter,
    Context,
    Response,
    Store,
    Throttled,
    Unavailable,
    configured,
)
from crmhub.adapter.masking import parts_of_address
from crmhub.egress import Egress

PATIENCE = 10.0
"""The seconds that a call may take, unless a test sets another limit."""


class Connection:
    """One connection to a CRM, shared by simulated processes of the hub.

    Each call of `adapter()` simulates another process: the adapter starts with the stored
    credentials and shares leases and budgets with the others. `saved` lists the credentials stored
    by `save_credentials`, oldest first; `slept` is the number of seconds of simulated sleep.
    """

    def __init__(
        self,
        adapter_class: type[Adapter],
        settings: Mapping[str, str],
        credentials: Mapping[str, str],
        *,
        store: Store | None = None,
    ) -> None:
        self.adapter_class = adapter_class
        self.settings, self.credentials = configured(adapter_class, settings, credentials)
        self.store = store
        self.saved: list[dict[str, str]] = []
        self.budgets: dict[str, CountingBudget] = {}
        self.leases = Leases(self.remaining)
        self.outgoing = Outgoing()
        self.slept = 0.0
        self._patience: float | None = None
        self._ends = 0.0
        self._lock = threading.Lock()

    def adapter(self) -> Adapter:
        """Return a new adapter of this connection, with the currently stored credentials."""
        return self.adapter_class(self.context())

    def context(self) -> Context:
        """Return the context that the hub passes to an adapter."""
        return Context(
            client_id="conformance",
            region="",
            settings=dict(self.settings),
            credentials=dict(self.credentials),
            store=cast(Store, self.store),
            session=self.outgoing,
            budget=self._budget,
            lease=self.leases.hold,
            remaining=self.remaining,
            load_credentials=lambda: dict(self.credentials),
            save_credentials=self._save,
        )

    def remaining(self) -> float:
        """Return the seconds left for the current call."""
        if self._patience is None:
            return PATIENCE
        return max(0.0, self._ends - time.monotonic() - self.slept)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit all calls inside this block to a total time in seconds."""
        self._patience, self.slept = seconds, 0.0
        self._ends = time.monotonic() + seconds
        try:
            yield
        finally:
            self._patience = None

    def sleep(self, seconds: float) -> None:
        """Simulate a sleep of this many seconds; returns at once."""
        with self._lock:
            self.slept += seconds

    def secrets(self) -> set[str]:
        """Return all secret texts: stored and former credentials, and parts of secret URLs."""
        texts = [*self.credentials.values(), *(v for text in self.saved for v in text.values())]
        # A stored grant also contains an expiry time; a secret address has its parts.
        words = {word for text in texts for word in (text, *text.split(), *parts_of_address(text))}
        return {word for word in words if len(word) >= 8 and not word.isdigit()}

    def _budget(self, lane: str, *, calls: int, seconds: float) -> CountingBudget:
        with self._lock:
            return self.budgets.setdefault(lane, CountingBudget(lane))

    def _save(self, credentials: Mapping[str, str]) -> None:
        with self._lock:
            self.credentials = dict(credentials)
            self.saved.append(dict(credentials))


class CountingBudget:
    """A rate limit that counts calls and never waits; while `refusing` is set it refuses them."""

    def __init__(self, lane: str) -> None:
        self.lane = lane
        self.taken = 0
        self.paused: list[float] = []
        self.refusing: float | None = None
        self._lock = threading.Lock()

    def take(self) -> None:
        """Count one call; raise Throttled while `refusing` is set."""
        if self.refusing is not None:
            raise Throttled("The budget is used up.", retry_after=self.refusing, scope=self.lane)
        with self._lock:
            self.taken += 1

    def follow(self, calls: int, seconds: float) -> None:
        """Record the rate limit that the CRM announced."""
        assert calls > 0, "a budget of no calls at all"
        assert seconds > 0, "a budget for no time at all"

    def pause(self, seconds: float) -> None:
        """Record that the CRM's rate limit refused a call."""
        self.paused.append(seconds)


class _HasRemaining(Protocol):
    def __call__(self) -> float: ...


class Leases:
    """Locks by name, shared by all adapters of a connection; `granted` counts acquired locks."""

    def __init__(self, remaining: _HasRemaining) -> None:
        self.granted: Counter[str] = Counter()
        self._remaining = remaining
        self._held: dict[str, tuple[object, float]] = {}
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, key: str, seconds: float) -> Iterator[None]:
        """Hold the lock of this name during the block; raises Unavailable after too long a wait."""
        holder = object()
        ends = time.monotonic() + self._remaining()
        with self._changed:
            while key in self._held and self._held[key][1] > time.monotonic():
                wait = min(ends, self._held[key][1]) - time.monotonic()
                if ends <= time.monotonic():
                    raise Unavailable("Somebody else has the lease.", retry_after=1.0)
                self._changed.wait(max(0.0, wait))
            self._held[key] = (holder, time.monotonic() + seconds)
            self.granted[key] += 1
        try:
            yield
        finally:
            with self._changed:
                if self._held.get(key, (None, 0.0))[0] is holder:
                    del self._held[key]
                self._changed.notify_all()


class Outgoing:
    """The hub's egress session, allowed to reach loopback addresses.

    `calls` counts the requests sent, and `timeouts` holds the timeout of each.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.timeouts: list[float] = []
        self._session = Egress(allow=(), development=True)

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        data: bytes | None,
        timeout: float,
    ) -> Response:
        """Send one request and return its complete answer."""
        self.calls += 1
        self.timeouts.append(timeout)
        return self._session.request(method, url, headers=headers, data=data, timeout=timeout)

    def close(self) -> None:
        """Close all open connections."""
        self._session.close()
