"""The calls a CRM allows, shared by every process that calls it.

A budget is a row that says when the next call is due (`tat`, the theoretical arrival time of the
generic cell rate algorithm). A call reserves its turn in one statement and sleeps until then
outside of it. A tenth of the limit may be called at once and the rest trickles through the window:

    burst = calls / 10    step = seconds / (calls - burst)

so that no window of that length, wherever it begins, holds more calls than the limit; a bucket
as large as the limit would let twice as many through. All times are those of the database or of
Redis, so the clocks of the hosts do not matter.

Interactive calls may reserve a turn ahead. Queued ones never do, and leave a quarter of the
burst alone: whoever waits for an answer finds the way free.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakValueDictionary

import sqlalchemy as sa

from crmhub.accounts.limits import Breaker, redis_pool
from crmhub.adapter import Throttled
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import budget
from crmhub.errors import Unavailable

# Nobody waits longer for a turn, and no pause is longer; what lies further ahead was written
# before the clock was set back.
_LONGEST_WAIT_MS = 60_000.0
_LONGEST_PAUSE_MS = 86_400_000.0
# After so long a sleep a call looks whether the CRM has asked for a pause meanwhile.
_LOOK_AGAIN_MS = 50.0
_COME_BACK = 1.0
# The share of the burst that queued calls may use.
_QUEUED, _ALL = 0.75, 1.0
_KEPT_MS = 7 * 86_400_000
# Some CRMs say that there is no limit with the largest number they have; the column ends here.
_LARGEST_BURST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Limit:
    """A CRM's limit: `burst` calls at once, then one call each `step` ms."""

    burst: int
    step: float

    @classmethod
    def of(cls, calls: int, seconds: float) -> _Limit:
        if calls < 1 or not 0 < seconds < math.inf:
            raise ValueError(f"{calls} calls in {seconds} s is no limit; both must be above 0")
        burst = min(max(1, calls // 10), _LARGEST_BURST)
        return cls(burst, seconds * 1000.0 / max(1, calls - burst))


@dataclass(frozen=True, slots=True)
class _Key:
    """The connection and lane whose calls are counted, and the limit to start with."""

    account: int
    connection: int
    lane: str
    start: _Limit

    @property
    def params(self) -> dict[str, Any]:
        return {
            "account_id": self.account,
            "connection_id": self.connection,
            "lane": self.lane,
        }


@dataclass(frozen=True, slots=True)
class _Turn:
    """When a call is due: `wait` ms from now, under `limit`; nothing is reserved unless `mine`."""

    mine: bool
    wait: float
    limit: _Limit


class _Shelf(Protocol):
    """A store of budgets."""

    def reserve(self, key: _Key, patience: float, share: float) -> _Turn:
        """Reserve the next turn if it comes within `patience` ms, using `share` of the burst."""

    def paused(self, key: _Key) -> float:
        """Return for how many more ms no call is allowed."""

    def follow(self, key: _Key, limit: _Limit) -> None:
        """Store another limit."""

    def pause(self, key: _Key, ms: float) -> None:
        """Allow no call for so many ms, and start afterwards without a burst."""


class Budgets:
    """The budgets of all connections; one object serves all threads of a process.

    They are stored in Redis if it is configured, and in the database while Redis is unavailable.
    """

    def __init__(self, database: Database, redis_url: str | None = None) -> None:
        rows = _Rows(database)
        self._redis = _RedisFirst(redis_url, rows) if redis_url else None
        self._shelf: _Shelf = self._redis or rows
        self._lanes: WeakValueDictionary[_Key, _Lane] = WeakValueDictionary()
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
    ) -> LaneBudget:
        """Return the budget of a connection's lane, which starts with `calls` in any `seconds`.

        Another limit to start with is another budget: an operator's change counts at once.
        `patience` says how many seconds the present caller may still wait, `queued` whether
        nobody waits for its answer. Raises ValueError for a limit below one call.
        """
        start = _Limit.of(calls, seconds)
        key = _Key(account_id, connection_id, f"{lane} {calls}/{seconds:g}", start)
        with self._lock:
            shared = self._lanes.get(key)
            if shared is None:
                shared = self._lanes[key] = _Lane(lane)
        return LaneBudget(self._shelf, key, shared, patience, queued)

    def close(self) -> None:
        """Close the connections to Redis."""
        if self._redis is not None:
            self._redis.close()


class _Lane:
    """A budget's state that the threads of this process share."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue = threading.Lock()
        self.limit: _Limit | None = None


class LaneBudget:
    """A lane of a connection's budget, as an adapter uses it."""

    def __init__(
        self,
        shelf: _Shelf,
        key: _Key,
        lane: _Lane,
        patience: Callable[[], float],
        queued: Callable[[], bool],
    ) -> None:
        self._shelf = shelf
        self._key = key
        self._lane = lane
        self._patience = patience
        self._queued = queued

    def take(self) -> None:
        """Wait for the turn of one call.

        Raises Throttled if it would come later than the caller may wait, and Unavailable without a
        database.
        """
        until = time.monotonic() + min(self._patience(), _LONGEST_WAIT_MS / 1000)
        if not self._queued():
            self._take_ahead(until)
            return
        # One thread of each process is enough to watch for the next free turn.
        if not self._lane.queue.acquire(timeout=max(0.0, until - time.monotonic())):
            raise self._throttled(_COME_BACK)
        try:
            self._take_free(until)
        finally:
            self._lane.queue.release()

    def follow(self, calls: int, seconds: float) -> None:
        """Store the limit that the CRM reports: so many calls in any so many seconds.

        Writes only a changed limit, and ignores numbers that are no limit.
        """
        if calls < 1 or not 0 < seconds < math.inf:
            return
        limit = _Limit.of(calls, seconds)
        if limit != self._lane.limit:
            # Whoever tells of it has an answer in hand, which counts more; the next tells it again.
            with suppress(Unavailable):
                self._shelf.follow(self._key, limit)
                self._lane.limit = limit

    def pause(self, seconds: float) -> None:
        """Allow no call for so many seconds (a day at most): the CRM refused a call."""
        if seconds > 0:
            self._shelf.pause(self._key, min(seconds * 1000.0, _LONGEST_PAUSE_MS))

    def _take_ahead(self, until: float) -> None:
        while True:
            turn = self._reserve(max(0.0, until - time.monotonic()) * 1000, _ALL)
            if not turn.mine:
                raise self._throttled(turn.wait / 1000)
            if turn.wait <= 0:
                return
            time.sleep(turn.wait / 1000)
            if turn.wait < _LOOK_AGAIN_MS:
                return
            rest = self._shelf.paused(self._key)
            if rest < _LOOK_AGAIN_MS:
                # No new pause: SQLite's clock is rounded, and this one may seem to last a moment.
                time.sleep(max(0.0, rest) / 1000)
                return

    def _take_free(self, until: float) -> None:
        while not (turn := self._reserve(0.0, _QUEUED)).mine:
            # Processes that wait for the same moment take turns by chance.
            wait = (turn.wait + random.uniform(0.1, 0.2) * min(turn.limit.step, 10.0)) / 1000
            if time.monotonic() + wait > until:
                raise self._throttled(turn.wait / 1000)
            time.sleep(wait)

    def _reserve(self, patience: float, share: float) -> _Turn:
        turn = self._shelf.reserve(self._key, patience, share)
        self._lane.limit = turn.limit
        return turn

    def _throttled(self, seconds: float) -> Throttled:
        return Throttled(
            f"The calls this CRM allows ({self._lane.name}) are used up for now;"
            f" the next is free in {seconds:.1f} s.",
            retry_after=seconds,
            scope=self._lane.name,
        )


# --- In the database --------------------------------------------------------------------------

_b = budget.c
_HERE = sa.and_(
    _b.account_id == param("account_id"),
    _b.connection_id == param("connection_id"),
    _b.lane == param("lane"),
)
_NOW = param("now")
_BURST_USED = param("share") * _b.burst
# How far the theoretical arrival time may lie ahead while a call is due at once.
_SLACK = sa.case((_BURST_USED > 1, _BURST_USED - 1), else_=0) * _b.step
_EMPTY = (_b.burst - 1) * _b.step
_RESERVE = Statement(
    sa.update(budget)
    .where(_HERE, _b.tat - _SLACK <= _NOW + param("patience"))
    .values(tat=sa.case((_b.tat > _NOW, _b.tat), else_=_NOW) + _b.step)
    .returning((_b.tat - _b.burst * _b.step - _NOW).label("wait"), _b.burst, _b.step)
)
_LOOK = Statement(
    sa.select(
        (_b.tat - _SLACK - _NOW).label("wait"),
        _b.burst,
        _b.step,
        (_b.tat - _NOW).label("ahead"),
        (_b.paused_until - _NOW).label("paused"),
    ).where(_HERE)
)
_PAUSED_UNTIL = Statement(sa.select(_b.paused_until).where(_HERE))
_FOLLOW = Statement(sa.update(budget).where(_HERE).values(params("burst", "step")))
_PAUSE_ENDS = _NOW + param("ms")
_TAT_AFTER_PAUSE = _PAUSE_ENDS + _EMPTY
_PAUSE = Statement(
    sa.update(budget)
    .where(_HERE)
    .values(
        paused_until=sa.case((_b.paused_until > _PAUSE_ENDS, _b.paused_until), else_=_PAUSE_ENDS),
        tat=sa.case((_b.tat > _TAT_AFTER_PAUSE, _b.tat), else_=_TAT_AFTER_PAUSE),
    )
)
_START_AFRESH = Statement(
    sa.update(budget).where(_HERE).values(tat=_NOW + _EMPTY, paused_until=sa.literal_column("0"))
)
_OPEN = Statement(
    lambda insert: (
        insert(budget)
        .values(
            **params("account_id", "connection_id", "lane", "tat", "burst", "step"),
            paused_until=sa.literal_column("0"),
        )
        .on_conflict_do_nothing(index_elements=["account_id", "connection_id", "lane"])
    )
)


class _Rows:
    """Budgets as rows of the table `budget`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # SQLite lets one write and has the others ask again in ever longer intervals.
        one_writer = database.dialect == "sqlite"
        self._writing: AbstractContextManager[object] = (
            threading.Lock() if one_writer else nullcontext()
        )

    def reserve(self, key: _Key, patience: float, share: float) -> _Turn:
        params = key.params | {"patience": patience, "share": share}
        with self._writing, self._database.reading() as connection:
            while True:
                params["now"] = connection.now_ms()
                row = connection.row(_RESERVE, params)
                turn = _turn(row) if row else self._refused(connection, key, params)
                if turn is not None:
                    return turn

    def _refused(self, connection: Connection, key: _Key, params: dict[str, Any]) -> _Turn | None:
        """Return when a call would be due, or None when it may try again."""
        row = connection.row(_LOOK, params)
        if row is None:
            _open(connection, key, params["now"])
            return None
        if row.wait <= params["patience"]:
            # Opened, or given another limit, since the reservation found nothing to update.
            return None
        limit = _Limit(row.burst, row.step)
        if _beyond(limit, ahead=row.ahead, paused=row.paused):
            connection.run(_START_AFRESH, params)
            return None
        return _Turn(mine=False, wait=max(0.0, row.wait), limit=limit)

    def paused(self, key: _Key) -> float:
        with self._database.reading() as connection:
            end = connection.scalar(_PAUSED_UNTIL, key.params)
            return end - connection.now_ms() if end else 0.0

    def follow(self, key: _Key, limit: _Limit) -> None:
        params = key.params | {"burst": limit.burst, "step": limit.step}
        self._change(key, _FOLLOW, params)

    def pause(self, key: _Key, ms: float) -> None:
        self._change(key, _PAUSE, key.params | {"ms": ms})

    def _change(self, key: _Key, statement: Statement, params: dict[str, Any]) -> None:
        with self._database.reading() as connection:
            params["now"] = connection.now_ms()
            if not connection.run(statement, params):
                _open(connection, key, params["now"])
                connection.run(statement, params)


def _open(connection: Connection, key: _Key, now: int) -> None:
    connection.run(
        _OPEN, key.params | {"burst": key.start.burst, "step": key.start.step, "tat": now}
    )


def _turn(row: Any) -> _Turn:
    return _Turn(mine=True, wait=max(0.0, row.wait), limit=_Limit(row.burst, row.step))


def _beyond(limit: _Limit, *, ahead: float, paused: float) -> bool:
    """Return whether a row's time lies further ahead than any process can have written it."""
    allowed = max(0.0, paused) + (limit.burst + 1) * limit.step + _LONGEST_WAIT_MS
    return paused > _LONGEST_PAUSE_MS or ahead > allowed


# --- In Redis ---------------------------------------------------------------------------------

_LUA = """
local now = redis.call('TIME')
now = now[1] * 1000 + now[2] / 1000
local row = redis.call('HMGET', KEYS[1], 'tat', 'burst', 'step', 'paused')
local burst = tonumber(row[2] or ARGV[2])
local step = tonumber(row[3] or ARGV[3])
local paused = tonumber(row[4] or '0')
local tat = tonumber(row[1] or now)
if paused - now > tonumber(ARGV[6]) then paused = 0 end
if tat > math.max(now, paused) + (burst + 1) * step + tonumber(ARGV[7]) then
  tat = now + (burst - 1) * step
end
local mine = 0
local wait = 0
if ARGV[1] == 'reserve' then
  local slack = math.max(0, tonumber(ARGV[5]) * burst - 1) * step
  wait = math.max(0, tat - slack - now)
  if wait <= tonumber(ARGV[4]) then
    mine = 1
    wait = math.max(0, math.max(tat, now) - (burst - 1) * step - now)
    tat = math.max(tat, now) + step
  end
elseif ARGV[1] == 'pause' then
  paused = math.max(paused, now + tonumber(ARGV[4]))
  tat = math.max(tat, paused + (burst - 1) * step)
elseif ARGV[1] == 'follow' then
  burst = tonumber(ARGV[2])
  step = tonumber(ARGV[3])
end
if mine == 1 or ARGV[1] == 'pause' or ARGV[1] == 'follow' then
  redis.call('HSET', KEYS[1], 'tat', string.format('%.3f', tat), 'burst', burst,
    'step', string.format('%.17g', step), 'paused', string.format('%.3f', paused))
  redis.call('PEXPIRE', KEYS[1], ARGV[8])
end
return {mine, string.format('%.3f', wait), burst, string.format('%.17g', step),
  string.format('%.3f', paused - now)}
"""


class _RedisFirst:
    """Budgets in Redis, by the same rules; in the database while Redis is unavailable."""

    def __init__(self, url: str, rows: _Rows) -> None:
        import redis

        self._rows = rows
        self._pool = redis_pool(url)
        self._script = redis.Redis(connection_pool=self._pool).register_script(_LUA)
        self._breaker = Breaker(
            "budgets of calls to CRMs are kept in the database",
            "budgets of calls to CRMs are shared through it again",
        )

    def reserve(self, key: _Key, patience: float, share: float) -> _Turn:
        answer = self._run("reserve", key, key.start, patience, share)
        if answer is None:
            return self._rows.reserve(key, patience, share)
        mine, wait, burst, step, _ = answer
        return _Turn(mine=bool(mine), wait=float(wait), limit=_Limit(int(burst), float(step)))

    def paused(self, key: _Key) -> float:
        answer = self._run("look", key, key.start)
        return float(answer[4]) if answer else self._rows.paused(key)

    def follow(self, key: _Key, limit: _Limit) -> None:
        if self._run("follow", key, limit) is None:
            self._rows.follow(key, limit)

    def pause(self, key: _Key, ms: float) -> None:
        if self._run("pause", key, key.start, ms) is None:
            self._rows.pause(key, ms)

    def close(self) -> None:
        self._pool.disconnect()

    def _run(
        self, what: str, key: _Key, limit: _Limit, ms: float = 0.0, share: float = _ALL
    ) -> Any:
        args: list[str | float] = [what, limit.burst, limit.step, ms, share]
        args += [_LONGEST_PAUSE_MS, _LONGEST_WAIT_MS, _KEPT_MS]
        name = f"crmhub:budget:{key.account}/{key.connection}/{key.lane}"
        return self._breaker.attempt(lambda: self._script(keys=[name], args=args))
