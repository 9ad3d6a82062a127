"""Keep the rate limits of CRMs: how many calls a CRM allows in a time, over all processes.

A call reserves its time in the budget of its connection (`budget_stores`) and sleeps until then.
Calls with a waiting caller may reserve a time in the future. Calls from the queue are made only if
they are due now, and leave a quarter of the burst (the calls allowed at once) to the others. Calls
for a copy of the CRM leave two thirds of it; a load or a comparison of all records also has a
budget of its own, of a third of the calls.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal
from weakref import WeakValueDictionary

from crmhub.adapter import Throttled
from crmhub.database.connection import Database
from crmhub.errors import Unavailable
from crmhub.queue.budget_stores import (
    LARGEST_COST,
    LONGEST_PAUSE_MS,
    LONGEST_WAIT_MS,
    DatabaseBudgets,
    Key,
    Limit,
    RedisBudgets,
    Turn,
)

# After a sleep of at least this many ms, a call checks whether the CRM asked for a pause.
_LOOK_AGAIN_MS = 50.0
_COME_BACK = 1.0
# The share of the burst that queued calls may use, calls for a copy, and other calls.
_QUEUED, _COPYING, _ALL = 0.75, 1 / 3, 1.0
# A load has as many calls in this many times the seconds.
_COPY_SLOWER = 3

Copying = Literal["", "changes", "all"]


class Budgets:
    """The call budgets of all connections; a process has one object for all its threads."""

    def __init__(self, database: Database, redis_url: str | None = None) -> None:
        self._store = RedisBudgets(database, redis_url) if redis_url else DatabaseBudgets(database)
        self._lanes: WeakValueDictionary[Key, _Lane] = WeakValueDictionary()
        self._lock = threading.Lock()

    def of(
        self,
        account_id: int,
        connection_id: int,
        lane: str,
        *,
        calls: int,
        seconds: float,
        patience: Callable[[], float],
        queued: Callable[[], bool],
        copying: Callable[[], Copying],
    ) -> LaneBudget:
        """Return the budget of one lane: `calls` in any `seconds`, until the CRM reports others.

        `patience` returns how many seconds the current call may wait until it is due, `queued`
        whether it comes from the queue, and `copying` whether it is for a copy of the CRM: for
        changes, or for all records. Raises ValueError for less than one call.
        """
        start = Limit.of(calls, seconds)
        key = Key(account_id, connection_id, f"{lane} {calls}/{seconds:g}", start)
        slower = Limit.of(calls, seconds * _COPY_SLOWER)
        copy_key = Key(account_id, connection_id, f"{key.lane} copy", slower)
        with self._lock:
            shared = self._lanes.get(key)
            if shared is None:
                shared = self._lanes[key] = _Lane(lane)
        return LaneBudget(self._store, key, copy_key, shared, patience, queued, copying)

    def calls_per_minute(self, account_id: int, connection_id: int, lane: str) -> float | None:
        """Return the rate limit of a lane; None if no adapter of this process has it."""
        with self._lock:
            known = [
                shared.limit or key.start
                for key, shared in self._lanes.items()
                if (key.account, key.connection, shared.name) == (account_id, connection_id, lane)
            ]
        return min((60_000 / limit.step for limit in known), default=None)

    def close(self) -> None:
        self._store.close()


class _Lane:
    """The state of one lane (a rate limit of a CRM) that the threads of this process share."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue = threading.Lock()
        self.copying = threading.Lock()
        self.limit: Limit | None = None


class LaneBudget:
    def __init__(
        self,
        store: DatabaseBudgets,
        key: Key,
        copy_key: Key,
        lane: _Lane,
        patience: Callable[[], float],
        queued: Callable[[], bool],
        copying: Callable[[], Copying],
    ) -> None:
        self._store = store
        self._key = key
        self._copy_key = copy_key
        self._lane = lane
        self._patience = patience
        self._queued = queued
        self._copying = copying

    def take(self, cost: int = 1) -> None:
        """Reserve one call to the CRM, and wait until it is due.

        `cost`: the tokens or credits that the call takes, from 1 to 100. Raises Throttled if the
        call would be due too late, Unavailable if the database is unavailable, and ValueError for
        another cost.
        """
        if not 1 <= cost <= LARGEST_COST:
            raise ValueError(f"a call costs 1 to {LARGEST_COST}, and not {cost}")
        until = time.monotonic() + min(self._patience(), LONGEST_WAIT_MS / 1000)
        copying = self._copying()
        if not copying and not self._queued():
            self._take_ahead(until, cost)
            return
        # One thread per process polls for the next free turn; the others wait for it.
        queue = self._lane.copying if copying else self._lane.queue
        if not queue.acquire(timeout=max(0.0, until - time.monotonic())):
            raise self._throttled(_COME_BACK)
        try:
            if copying == "all":
                self._take_free(self._copy_key, until, cost, _ALL)
            self._take_free(self._key, until, cost, _COPYING if copying else _QUEUED)
        finally:
            queue.release()

    def follow(self, calls: int, seconds: float) -> None:
        """Store the rate limit that the CRM reported; an impossible one is ignored."""
        if calls < 1 or not 0 < seconds < math.inf:
            return
        limit = Limit.of(calls, seconds)
        if limit != self._lane.limit:
            # The CRM has answered the call, so this write may fail; the next answer repeats it.
            with suppress(Unavailable):
                slower = Limit.of(calls, seconds * _COPY_SLOWER)
                self._store.set_limit(self._copy_key, slower)
                self._store.set_limit(self._key, limit)
                self._lane.limit = limit

    def pause(self, seconds: float) -> None:
        """Allow no call for `seconds` seconds, at most for a day, since the CRM refused a call."""
        if seconds > 0:
            self._store.pause(self._key, min(seconds * 1000.0, LONGEST_PAUSE_MS))

    def _take_ahead(self, until: float, cost: int) -> None:
        while True:
            patience = max(0.0, until - time.monotonic()) * 1000
            turn = self._reserve(self._key, patience, _ALL, cost)
            if not turn.granted:
                raise self._throttled(turn.wait / 1000)
            if turn.wait <= 0:
                return
            time.sleep(turn.wait / 1000)
            if turn.wait < _LOOK_AGAIN_MS:
                return
            rest = self._store.paused(self._key)
            if rest < _LOOK_AGAIN_MS:
                # Not a new pause: SQLite rounds its clock, so the old pause may seem to last
                # longer.
                time.sleep(max(0.0, rest) / 1000)
                return

    def _take_free(self, key: Key, until: float, cost: int, share: float) -> None:
        while not (turn := self._reserve(key, 0.0, share, cost)).granted:
            # The random part lets processes that wait for the same moment take turns.
            wait = (turn.wait + random.uniform(0.1, 0.2) * min(turn.limit.step, 10.0)) / 1000
            if time.monotonic() + wait > until:
                raise self._throttled(turn.wait / 1000)
            time.sleep(wait)

    def _reserve(self, key: Key, patience: float, share: float, cost: int) -> Turn:
        turn = self._store.reserve(key, patience, share, cost)
        if key is self._key:
            self._lane.limit = turn.limit
        return turn

    def _throttled(self, seconds: float) -> Throttled:
        return Throttled(
            f"The calls this CRM allows ({self._lane.name}) are used up for now;"
            f" the next is free in {seconds:.1f} s.",
            retry_after=seconds,
            scope=self._lane.name,
        )
