"""Durable queues: tables whose rows processes claim, attempt and finish.

A process claims due rows with a lease: a random token, and a time at which another process may
claim them, since the first one may have died. The outcome is stored only where the token is still
the row's. So a row is attempted by one process at a time, however many there are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.database import tables
from crmhub.database.statements import Statement, one_of, param, unindexed
from crmhub.secrets import BASE36, token

_JITTER = 0.2
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 2_000, 60_000


@dataclass(frozen=True, slots=True)
class Queue:
    """A table of rows that are due at `due`, a column that also holds the end of a lease.

    `states`: the states of unfinished rows. `claimed`: what a claim sets beside the lease. Of the
    rows with equal values of `group` the first by `order` is claimed alone, once none of them is
    being attempted.
    """

    table: sa.Table
    states: tuple[str, ...]
    due: str
    claimed: tuple[tuple[str, str], ...] = ()
    group: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    def is_unfinished(self, rows: sa.FromClause) -> sa.ColumnElement[bool]:
        return one_of(rows.c.state, *self.states)


ACTIONS = Queue(
    tables.action,
    ("running", "queued"),
    "run_at",
    claimed=(("state", "running"),),
    group=("person",),
    order=("id",),
)
DELIVERIES = Queue(
    tables.event_delivery,
    ("queued",),
    "run_at",
    group=("subscription_id", "subject"),
    order=("position", "event_id"),
)
IMPORTS = Queue(
    tables.import_job, ("queued", "running"), "lease_until", claimed=(("state", "running"),)
)
FIXES = Queue(
    tables.group_fix, ("queued", "running"), "lease_until", claimed=(("state", "running"),)
)


def build_claim(
    queue: Queue,
    *scope: str,
    returning: Sequence[sa.ColumnElement[Any]],
    only: Callable[[sa.FromClause], sa.ColumnElement[bool]] = lambda _: sa.true(),
    **values: Any,
) -> Statement:
    """Return a statement that claims up to `:limit` rows due at `:now` until `:until`.

    The rows have the given values of the columns `scope`, and fulfil `only`. `values` are set, too.
    """
    table, key = queue.table, [column.name for column in queue.table.primary_key]
    due, first, other = (table.alias(name) for name in ("d", "f", "o"))
    conditions = [due.c[column] == param(column) for column in ("account_id", *scope)]
    conditions += [queue.is_unfinished(due), due.c[queue.due] <= param("now"), only(due)]

    def of_group(rows: sa.FromClause) -> sa.ColumnElement[bool]:
        equal = [rows.c[column] == due.c[column] for column in queue.group]
        return sa.and_(rows.c.account_id == param("account_id"), *equal, queue.is_unfinished(rows))

    if queue.group:
        # A subquery per row: as a join, it could read all due rows for each row while the planner
        # has no statistics.
        first_of_group = (
            sa.select(first.c[queue.order[-1]])
            .where(of_group(first))
            .order_by(*(first.c[column] for column in queue.order))
            .limit(1)
            .scalar_subquery()
        )
        # A retried row may be older than one that is being attempted.
        attempted: sa.Select[Any] = sa.select(sa.literal_column("1")).where(
            of_group(other),
            other.c.lease.is_not(None),
            unindexed(other.c[queue.due]) > param("now"),
        )
        conditions += [due.c[queue.order[-1]] == first_of_group, sa.not_(sa.exists(attempted))]
    # A CTE, since PostgreSQL might run a subquery of the update, with its locks, repeatedly.
    taken = (
        sa.select(*(due.c[column] for column in key))
        .where(*conditions)
        .order_by(due.c[queue.due])
        .limit(param("limit"))
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    [row_key] = [column for column in key if column not in ("account_id", *scope)]
    set_: dict[str, Any] = {name: sa.literal_column(f"'{value}'") for name, value in queue.claimed}
    return Statement(
        sa.update(table)
        .where(
            *(table.c[column] == param(column) for column in ("account_id", *scope)),
            table.c[row_key].in_(sa.select(taken.c[row_key])),
        )
        .values({**set_, "lease": param("lease"), queue.due: param("until"), **values})
        .returning(*returning)
    )


def new_lease() -> str:
    return token(96, BASE36)


def next_attempt(
    delays_s: Sequence[int], failures: int, *, now: int, give_up_at: int, wait_s: float | None
) -> int | None:
    """Return when a row is attempted again after so many failures, None if it is given up.

    `wait_s`: a wait that replaces the delay of the schedule. Times are in ms since 1970.
    """
    if failures > len(delays_s) or now > give_up_at:
        return None
    if wait_s is None:
        wait_s = delays_s[max(failures, 1) - 1] * random.uniform(1 - _JITTER, 1 + _JITTER)
    return now + round(wait_s * 1000)


def pause_ms(failures: int) -> int:
    """Return how long all rows of an unavailable receiver wait after so many failures in a row."""
    doubled: int = _FIRST_PAUSE_MS << min(failures - 1, 10)
    return min(doubled, _LONGEST_PAUSE_MS)
