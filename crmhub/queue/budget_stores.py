"""Storage of call budgets: how many calls to a CRM its rate limit still allows, and when.

A budget stores when the next call is due (`tat`, the theoretical arrival time of the generic cell
rate algorithm), in a row of the database or, while Redis is available, there. A call reserves its
time in one statement. A tenth of the allowed calls may be made at once (the burst), the others in
equal steps:

    burst = calls / 10    step = seconds / (calls - burst)

so that no period of `seconds`, wherever it begins, has more calls than allowed; a burst of all
allowed calls would let twice as many through. A call that costs several tokens or credits reserves
as many steps; one that costs more than the burst waits until the budget has been left alone for the
rest. All times come from the clock of the database or of Redis.
"""

from __future__ import annotations

import math
import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.limits import Breaker, redis_pool
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import find_row, insert_row, set_where, upsert_row
from crmhub.database.statements import Statement, equals, param
from crmhub.database.tables import budget

# Longest wait of a call, and longest pause. Times further ahead were written before the clock was
# set back.
LONGEST_WAIT_MS = 60_000.0
LONGEST_PAUSE_MS = 86_400_000.0
LARGEST_COST = 100
"""The most tokens or credits that one call may cost."""
_KEPT_MS = 7 * 86_400_000
# Some CRMs report a huge number for no limit; this is the largest value of the column.
_LARGEST_BURST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate limit of a CRM: `burst` calls at once, then one further call every `step` ms."""

    burst: int
    step: float

    @classmethod
    def of(cls, calls: int, seconds: float) -> Limit:
        """Return the limit under which no period of `seconds` seconds has more than `calls` calls.

        Raises ValueError for less than one call or an invalid time.
        """
        if calls < 1 or not 0 < seconds < math.inf:
            raise ValueError(f"{calls} calls in {seconds} s is no limit; both must be above 0")
        burst = min(max(1, calls // 10), _LARGEST_BURST)
        return cls(burst, seconds * 1000.0 / max(1, calls - burst))


@dataclass(frozen=True, slots=True)
class Key:
    """The name of a budget; it is created with the limit `start`."""

    account: int
    connection: int
    lane: str
    start: Limit

    @property
    def params(self) -> dict[str, Any]:
        return {
            "account_id": self.account,
            "connection_id": self.connection,
            "lane": self.lane,
        }


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether a call was reserved, in how many ms it is due, and the budget's present limit."""

    granted: bool
    wait: float
    limit: Limit


_b = budget.c
_HERE = sa.and_(*equals(budget, "account_id", "connection_id", "lane"))
_NOW = param("now")
_COST = param("cost")
_BURST_USED = param("share") * _b.burst
# The lead of the theoretical arrival time up to which a call is due at once. Negative for a call
# that costs more than the burst.
_SLACK = (sa.case((_BURST_USED > 1, _BURST_USED), else_=1) - _COST) * _b.step
_RESERVE = Statement(
    sa.update(budget)
    .where(_HERE, _b.tat - _SLACK <= _NOW + param("patience"))
    .values(tat=sa.case((_b.tat > _NOW, _b.tat), else_=_NOW) + _COST * _b.step)
    .returning((_b.tat - _b.burst * _b.step - _NOW).label("wait"), _b.burst, _b.step)
)
_PAUSE_ENDS = _NOW + param("ms")
_TAT_AFTER_PAUSE = _PAUSE_ENDS + (_b.burst - 1) * _b.step
_PAUSE = Statement(
    sa.update(budget)
    .where(_HERE)
    .values(
        paused_until=sa.case((_b.paused_until > _PAUSE_ENDS, _b.paused_until), else_=_PAUSE_ENDS),
        tat=sa.case((_b.tat > _TAT_AFTER_PAUSE, _b.tat), else_=_TAT_AFTER_PAUSE),
    )
)


class DatabaseBudgets:
    """The budgets of calls to CRMs, stored as rows of the table `budget`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # SQLite admits one writer, and the others poll at growing intervals; a lock is faster.
        one_writer = database.dialect == "sqlite"
        self._writing: AbstractContextManager[object] = (
            threading.Lock() if one_writer else nullcontext()
        )

    def reserve(self, key: Key, patience: float, share: float, cost: int = 1) -> Turn:
        """Reserve the next call of a budget if it is due within `patience` ms, without sleeping.

        `share`: the part of the burst that this call may use, from 0 to 1. `cost`: how many of the
        allowed calls, tokens or credits the call takes.
        """
        params = key.params | {"patience": patience, "share": share, "cost": cost}
        with self._writing, self._database.reading() as connection:
            while True:
                params["now"] = connection.now_ms()
                row = connection.row(_RESERVE, params)
                if row is not None:
                    return Turn(True, max(0.0, row.wait), Limit(row.burst, row.step))
                if turn := self._refused(connection, key, params):
                    return turn

    def _refused(self, connection: Connection, key: Key, params: dict[str, Any]) -> Turn | None:
        """Return the answer to a call that is not due in time; None if the budget has changed."""
        row, now = find_row(connection, budget, key.params), params["now"]
        if row is None:
            self._open(connection, key, now)
            return None
        limit = Limit(row.burst, row.step)
        slack = (max(1, params["share"] * limit.burst) - params["cost"]) * limit.step
        wait = row.tat - slack - now
        if wait <= params["patience"]:
            # The budget was created, or got another limit, after the reservation failed.
            return None
        # Times further ahead were written before the clock was set back.
        paused = row.paused_until - now
        most = limit.burst + LARGEST_COST
        farthest = max(0.0, paused) + most * limit.step + LONGEST_WAIT_MS
        if paused > LONGEST_PAUSE_MS or row.tat - now > farthest:
            start = now + (limit.burst - 1) * limit.step
            set_where(connection, budget, key.params, tat=start, paused_until=0)
            return None
        return Turn(False, max(0.0, wait), limit)

    def paused(self, key: Key) -> float:
        """Return how many ms a pause that the CRM asked for still lasts; 0 or less without one."""
        with self._database.reading() as connection:
            row = find_row(connection, budget, key.params)
            return row.paused_until - connection.now_ms() if row and row.paused_until else 0.0

    def set_limit(self, key: Key, limit: Limit) -> None:
        """Replace the rate limit of a budget; create the budget if it is missing."""
        with self._database.reading() as connection:
            values = {"burst": limit.burst, "step": limit.step}
            first = {"tat": connection.now_ms(), "paused_until": 0}
            upsert_row(connection, budget, key.params, values, first)

    def pause(self, key: Key, ms: float) -> None:
        """Allow no call of a budget for `ms` milliseconds, and after that no burst at first."""
        with self._database.reading() as connection:
            now = connection.now_ms()
            while not connection.run(_PAUSE, key.params | {"ms": ms, "now": now}):
                self._open(connection, key, now)

    def _open(self, connection: Connection, key: Key, now: int) -> None:
        start = {"burst": key.start.burst, "step": key.start.step, "tat": now, "paused_until": 0}
        insert_row(connection, budget, key.params | start, or_skip=True)

    def close(self) -> None:
        """Do nothing: budgets in the database have no connections of their own."""


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
local cost = tonumber(ARGV[9])
if tat > math.max(now, paused) + (burst + tonumber(ARGV[10])) * step + tonumber(ARGV[7]) then
  tat = now + (burst - 1) * step
end
local mine = 0
local wait = 0
if ARGV[1] == 'reserve' then
  local slack = (math.max(1, tonumber(ARGV[5]) * burst) - cost) * step
  wait = math.max(0, tat - slack - now)
  if wait <= tonumber(ARGV[4]) then
    mine = 1
    wait = math.max(0, math.max(tat, now) + (cost - burst) * step - now)
    tat = math.max(tat, now) + cost * step
  end
elseif ARGV[1] == 'pause' then
  paused = math.max(paused, now + tonumber(ARGV[4]))
  tat = math.max(tat, paused + (burst - 1) * step)
elseif ARGV[1] == 'follow' then
  burst = tonumber(ARGV[2])
  step = tonumber(ARGV[3])
end
-- A new budget is stored even by a refused call, which waits from now on.
if mine == 1 or ARGV[1] == 'pause' or ARGV[1] == 'follow'
    or (ARGV[1] == 'reserve' and not row[1]) then
  redis.call('HSET', KEYS[1], 'tat', string.format('%.3f', tat), 'burst', burst,
    'step', string.format('%.17g', step), 'paused', string.format('%.3f', paused))
  redis.call('PEXPIRE', KEYS[1], ARGV[8])
end
return {mine, string.format('%.3f', wait), burst, string.format('%.17g', step),
  string.format('%.3f', paused - now)}
"""


class RedisBudgets(DatabaseBudgets):
    """The budgets of calls to CRMs in Redis; in the database while Redis is unavailable."""

    def __init__(self, database: Database, url: str) -> None:
        import redis

        super().__init__(database)
        self._pool = redis_pool(url)
        self._script = redis.Redis(connection_pool=self._pool).register_script(_LUA)
        self._breaker = Breaker(
            "budgets of calls to CRMs are kept in the database",
            "budgets of calls to CRMs are shared through it again",
        )

    def reserve(self, key: Key, patience: float, share: float, cost: int = 1) -> Turn:
        answer = self._run("reserve", key, key.start, patience, share, cost)
        if answer is None:
            return super().reserve(key, patience, share, cost)
        granted, wait, burst, step, _ = answer
        return Turn(bool(granted), float(wait), Limit(int(burst), float(step)))

    def paused(self, key: Key) -> float:
        answer = self._run("look", key, key.start)
        return float(answer[4]) if answer else super().paused(key)

    def set_limit(self, key: Key, limit: Limit) -> None:
        if self._run("follow", key, limit) is None:
            super().set_limit(key, limit)

    def pause(self, key: Key, ms: float) -> None:
        if self._run("pause", key, key.start, ms) is None:
            super().pause(key, ms)

    def close(self) -> None:
        self._pool.disconnect()

    def _run(
        self,
        what: str,
        key: Key,
        limit: Limit,
        ms: float = 0.0,
        share: float = 1.0,
        cost: int = 1,
    ) -> Any:
        args: list[str | float] = [what, limit.burst, limit.step, ms, share]
        args += [LONGEST_PAUSE_MS, LONGEST_WAIT_MS, _KEPT_MS, cost, LARGEST_COST]
        name = f"crmhub:budget:{key.account}/{key.connection}/{key.lane}"
        return self._breaker.attempt(lambda: self._script(keys=[name], args=args))
