"""How many leads were accepted in each of the last hours, of all accounts or of several."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import action
from crmhub.queue.models import earliest_id

HOURS = 24
_HOUR_MS = 3_600_000
_a = action.c
_IS_LEAD = _a.kind == sa.literal_column("'createLead'")
# A count for each hour: an index on id and kind answers it without reading a row of the table.
_OF_ALL_ACCOUNTS = Statement(
    sa.union_all(
        *(
            sa.select(sa.literal_column(str(hour)).label("hour"), sa.func.count().label("n")).where(
                _a.id >= param(f"from_{hour}"), _a.id < param(f"from_{hour + 1}"), _IS_LEAD
            )
            for hour in range(HOURS)
        )
    )
)
_hour = (_a.created_at // param("hour_ms")).label("hour")
_OF_ACCOUNTS = Statement(
    sa.select(_a.account_id, _hour, sa.func.count().label("n"))
    .where(in_list(_a.account_id, "account_ids"), _a.id >= param("since"), _IS_LEAD)
    .group_by(_a.account_id, _hour)
)


def of_all(db: Connection, account_ids: Collection[int] | None = None) -> list[int]:
    """Return the numbers of leads in each of the last 24 full hours (UTC), the oldest first."""
    if account_ids is not None:
        several = of_accounts(db, sorted(account_ids)).values()
        return [sum(hour) for hour in zip(*several, strict=True)] or [0] * HOURS
    first = _first_hour()
    bounds = {f"from_{i}": earliest_id((first + i) * _HOUR_MS) for i in range(HOURS + 1)}
    counts = [0] * HOURS
    for row in rows_of_several(db, _OF_ALL_ACCOUNTS, bounds):
        counts[row.hour] = row.n
    return counts


def of_accounts(db: Connection, account_ids: Sequence[int]) -> dict[int, list[int]]:
    counts = {id: [0] * HOURS for id in account_ids}
    if not counts:
        return counts
    first = _first_hour()
    values = {
        "account_ids": account_ids,
        "since": earliest_id(first * _HOUR_MS),
        "hour_ms": _HOUR_MS,
    }
    for row in rows_of_several(db, _OF_ACCOUNTS, values):
        # If another host's clock is ahead, a lead may seem to be accepted in the future.
        counts[row.account_id][min(row.hour - first, HOURS - 1)] += row.n
    return counts


def _first_hour() -> int:
    return now_ms() // _HOUR_MS - HOURS + 1
