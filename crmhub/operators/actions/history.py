"""Statistics over time: the numbers of accepted and ended actions, and the durations of actions.

Finished actions are deleted after 30 days, so the statistics go back no further.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Database, now_ms
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.database.tables import action

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class Span:
    """A period that ends now, in intervals of `part_ms`, which begin at multiples of it."""

    part_ms: int
    parts: int


SPANS = {
    "24h": Span(_HOUR_MS, 24),
    "7d": Span(6 * _HOUR_MS, 28),
    "30d": Span(_DAY_MS, 30),
}


@dataclass(slots=True)
class Part:
    """The statistics of actions in one interval of time.

    `dead`: failed or blocked. A discarded action is counted only as accepted. `p50` and `p95`:
    percentiles of the time from acceptance to success in ms, with two significant digits. `oldest`:
    the age in ms of the oldest unfinished action, or 0. `waiting`: the unfinished actions at the
    end.
    """

    begins_at: int
    accepted: int = 0
    done: int = 0
    refused: int = 0
    dead: int = 0
    p50: int | None = None
    p95: int | None = None
    oldest: int = 0
    waiting: int = 0
    _lasted: dict[int, int] = field(default_factory=dict, repr=False)

    @property
    def ended(self) -> int:
        return self.done + self.refused + self.dead

    @property
    def success(self) -> float | None:
        return self.done / self.ended if self.ended else None


def history(
    database: Database,
    span: Span,
    account: Account | None = None,
    *,
    account_ids: Collection[int] | None = None,
    offset_ms: int = 0,
) -> list[Part]:
    """Return the statistics of each interval, the oldest first; the last one ends in the future.

    `offset_ms`: of a time zone from UTC; days begin at its midnight.
    """
    moment = now_ms()
    last = (moment + offset_ms) // span.part_ms
    first = last - span.parts + 1
    parts = [Part(number * span.part_ms - offset_ms) for number in range(first, last + 1)]
    # Actions accepted before the period have the interval `first - 1`. Unfinished actions have the
    # state `queued`, and their interval of end means nothing.
    values: dict[str, Any] = {
        "part": span.part_ms,
        "offset": offset_ms,
        "begin": parts[0].begins_at,
        "before": first - 1,
        "now": moment,
    }
    conditions = []
    if account is not None:
        account_ids = [account.id]
    if account_ids is not None:
        conditions.append(in_list(action.c.account_id, "account_ids"))
        values["account_ids"] = sorted(account_ids)
    with database.reading() as db:
        rows = rows_of_several(db, Statement(_build_count(*conditions)), values)
    for row in rows:
        # If another host's clock is ahead, an action may seem to be accepted in the future.
        begun = min(row.accepted_in - first, span.parts - 1)
        over = span.parts if row.state == "queued" else min(row.ended_in - first, span.parts - 1)
        if begun >= 0:
            parts[begun].accepted += row.count
        # An action that ended in a later part was unfinished at the end of all parts before.
        for part in parts[max(begun, 0) : over]:
            until = min(part.begins_at + span.part_ms, moment)
            part.oldest = max(part.oldest, until - row.earliest)
            part.waiting += row.count
        if over < span.parts:
            _end(parts[over], row.state, row.took, row.count, row.longest)
    for part in parts:
        part.p50, part.p95 = _percentile(part, 50), _percentile(part, 95)
    return parts


def _end(part: Part, state: str, took: int, count: int, longest: int) -> None:
    part.oldest = max(part.oldest, longest)
    if state == "done":
        part.done += count
        part._lasted[took] = part._lasted.get(took, 0) + count
    elif state == "refused":
        part.refused += count
    elif state in ("dead", "parked"):
        part.dead += count


def _percentile(part: Part, share: int) -> int | None:
    wanted = -(-part.done * share // 100)
    for took in sorted(part._lasted):
        wanted -= part._lasted[took]
        if wanted <= 0:
            return took
    return None


def _build_count(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Count by intervals of acceptance and end, state, and duration in two digits."""
    columns = action.c
    accepted_in = sa.case(
        (columns.created_at < param("begin"), param("before")),
        else_=(columns.created_at + param("offset")) // param("part"),
    ).label("accepted_in")
    ended = sa.select(
        accepted_in,
        ((columns.finished_at + param("offset")) // param("part")).label("ended_in"),
        columns.state,
        (columns.finished_at - columns.created_at).label("lasted"),
        columns.created_at,
    ).where(columns.finished_at >= param("begin"), *conditions)
    unfinished = sa.select(
        accepted_in,
        param("before"),
        sa.literal_column("'queued'"),
        param("now") - columns.created_at,
        columns.created_at,
    ).where(one_of(columns.state, "running", "queued"), *conditions)
    each = sa.union_all(ended, unfinished).subquery("f")
    done = one_of(each.c.state, "done")
    took = sa.case((sa.not_(done), 0), *_two_digits(each.c.lasted)).label("took")
    timed = sa.select(each, took).subquery("g")
    groups = (timed.c.accepted_in, timed.c.ended_in, timed.c.state, timed.c.took)
    return sa.select(
        *groups,
        sa.func.count().label("count"),
        sa.func.min(timed.c.created_at).label("earliest"),
        sa.func.max(timed.c.lasted).label("longest"),
    ).group_by(*groups)


def _two_digits(value: Any) -> list[tuple[Any, Any]]:
    """Return the cases of an SQL expression that rounds down to two significant digits."""
    cuts = [(value < 10 ** (power + 2), value // 10**power * 10**power) for power in range(1, 8)]
    rest = (sa.true(), value // 10**8 * 10**8)
    return [(value < 0, 0), (value < 100, value), *cuts, rest]
