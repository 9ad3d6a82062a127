"""An in-memory substitute for the hub's connection: leases, rate limits, stored credentials."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from crmhub.adapter import (
    Adapter,
    Context,
    NotYet,
    Response,
    Store,
    Throttled,
    configured,
    open_adapter,
)
from crmhub.adapter.masking import parts_of_address
from crmhub.egress import Egress

CALL_S = 10.0
"""How many seconds a call of the adapter may take, unless a test sets another limit."""


class Connection:
    """A connection that several simulated processes share, each made by `adapter()`.

    `saved`: what adapters stored with `save_credentials`, oldest first; `slept`: simulated seconds.
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
        self.shared = SharedTexts()
        self.outgoing = Outgoing()
        self.slept = 0.0
        self._patience: float | None = None
        self._ends = 0.0
        self._lock = threading.Lock()

    def adapter(self) -> Adapter:
        return open_adapter(self.adapter_class, self.context())

    def context(self) -> Context:
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
            shared=self.shared,
        )

    def remaining(self) -> float:
        """Always `CALL_S` outside of `within`; simulated sleep reduces the time, too."""
        if self._patience is None:
            return CALL_S
        return max(0.0, self._ends - time.monotonic() - self.slept)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        self._patience, self.slept = seconds, 0.0
        self._ends = time.monotonic() + seconds
        try:
            yield
        finally:
            self._patience = None

    def sleep(self, seconds: float) -> None:
        """Return at once, but reduce the time left for the current call by `seconds`."""
        with self._lock:
            self.slept += seconds

    def secrets(self) -> set[str]:
        """Leave out credentials below 4 characters and parts below 8, maybe ordinary words."""
        texts = {*self.credentials.values(), *(v for text in self.saved for v in text.values())}
        # A stored access token comes with an expiry time; parts of a secret URL are secret, too.
        words = {word for text in texts for word in (*text.split(), *parts_of_address(text))}
        parts = {word for word in words if len(word) >= 8 and not word.isdigit()}
        return {text for text in texts if len(text) >= 4} | parts

    def secrets_of_the_crm(self) -> set[str]:
        """Return the secrets that the CRM knows: present credentials, and the access token."""
        kept = {setting.name for setting in self.adapter_class.settings if setting.kept}
        given = {text for name, text in self.credentials.items() if name not in kept}
        # A token is kept with its expiry time, and with what came with it as JSON.
        words = {w for name in kept for w in self.credentials[name].partition(" {")[0].split()}
        return {text for text in given if text} | {word for word in words if not word.isdigit()}

    def _budget(self, lane: str, *, calls: int, seconds: float) -> CountingBudget:
        with self._lock:
            return self.budgets.setdefault(lane, CountingBudget(lane))

    def _save(self, credentials: Mapping[str, str]) -> None:
        declared = {setting.name for setting in self.adapter_class.settings if setting.secret}
        undeclared = credentials.keys() - declared
        assert not undeclared, f"it saves {sorted(undeclared)}, which the class does not declare"
        with self._lock:
            self.credentials = dict(credentials)
            self.saved.append(dict(credentials))


class SharedTexts:
    def __init__(self) -> None:
        self._saved: dict[str, tuple[float, str]] = {}

    def load(self, name: str) -> tuple[float, str] | None:
        if name not in self._saved:
            return None
        at, text = self._saved[name]
        return time.monotonic() - at, text

    def save(self, name: str, text: str) -> None:
        self._saved[name] = (time.monotonic(), text)


class CountingBudget:
    """A rate limit that never waits; `refusing`: the `retry_after` of Throttled, if set."""

    def __init__(self, lane: str) -> None:
        self.lane = lane
        self.taken = 0
        self.paused: list[float] = []
        self.refusing: float | None = None
        self._lock = threading.Lock()

    def take(self, cost: int = 1) -> None:
        if self.refusing is not None:
            raise Throttled("The budget is used up.", retry_after=self.refusing, scope=self.lane)
        with self._lock:
            self.taken += cost

    def follow(self, calls: int, seconds: float) -> None:
        assert calls > 0, "a budget of no calls at all"
        assert seconds > 0, "a budget for no time at all"

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)


class Leases:
    """`granted` counts by name how often a lock was acquired."""

    def __init__(self, remaining: Callable[[], float]) -> None:
        self.granted: Counter[str] = Counter()
        self._remaining = remaining
        self._held: dict[str, tuple[object, float]] = {}
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, key: str, seconds: float, *, patience: float | None = None) -> Iterator[None]:
        """Raises NotYet after `patience`, or after the time left for the current call."""
        holder = object()
        wait = self._remaining()
        ends = time.monotonic() + (wait if patience is None else min(patience, wait))
        with self._changed:
            while key in self._held and self._held[key][1] > time.monotonic():
                wait = min(ends, self._held[key][1]) - time.monotonic()
                if ends <= time.monotonic():
                    raise NotYet("Somebody else has the lease.", retry_after=1.0)
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
    """The hub's HTTP session, allowed to reach loopback addresses; counts its `calls`."""

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
        self.calls += 1
        self.timeouts.append(timeout)
        return self._session.request(method, url, headers=headers, data=data, timeout=timeout)

    def close(self) -> None:
        self._session.close()
