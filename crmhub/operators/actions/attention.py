"""Count the actions that need an operator, in the same way for pages, commands, alerts and metrics.

Actions that a failed action blocks are counted separately: the decision on the failed action
decides on them, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.database.connection import Connection
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, in_list, one_of
from crmhub.database.tables import action

_a = action.c
WAITING_SINCE = sa.func.min(sa.func.coalesce(_a.queued_at, _a.created_at))
"""The time in ms since 1970 since which the oldest of several queued actions waits."""
_FAILED = one_of(_a.state, "dead")
# The condition equals that of the partial index, which has only these states.
_COUNTED = (
    sa.select(
        _a.account_id,
        _a.connection_id,
        sa.func.sum(sa.case((_FAILED, 1), else_=0)).label("failed"),
        sa.func.sum(sa.case((one_of(_a.state, "parked"), 1), else_=0)).label("blocked"),
        sa.func.min(sa.case((_FAILED, _a.finished_at))).label("since"),
        sa.func.max(sa.case((_FAILED, _a.finished_at))).label("newest"),
    )
    .where(one_of(_a.state, "dead", "parked"))
    .group_by(_a.account_id, _a.connection_id)
)
_OF_ACCOUNTS = Statement(_COUNTED.where(in_list(_a.account_id, "account_ids")))
_OF_ALL_ACCOUNTS = Statement(
    sa.select(_a.state, sa.func.count().label("count"))
    .where(one_of(_a.state, "dead", "parked"))
    .group_by(_a.state)
)
BY_CONNECTION = Statement(_COUNTED).text("sqlite")
"""SQL text: the numbers of failed and blocked actions by account and connection.

`since` and `newest` are when the first and the last of them failed (ms). The text has no parameters
and runs on SQLite and PostgreSQL.
"""


@dataclass(frozen=True, slots=True)
class Attention:
    failed: int = 0
    blocked: int = 0

    def __bool__(self) -> bool:
        return bool(self.failed or self.blocked)

    def __add__(self, other: Attention) -> Attention:
        return Attention(self.failed + other.failed, self.blocked + other.blocked)

    def __str__(self) -> str:
        counts = {"failed": self.failed, "blocked": self.blocked}
        return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)


def of_connections(db: Connection, account_ids: Sequence[int]) -> dict[tuple[int, int], Attention]:
    """Return the counts by account id and connection id, without zeros."""
    return {
        (row.account_id, row.connection_id): Attention(int(row.failed), int(row.blocked))
        for row in rows_of_several(db, _OF_ACCOUNTS, {"account_ids": account_ids})
    }


def of_accounts(db: Connection, account_ids: Sequence[int]) -> Mapping[int, Attention]:
    found = dict.fromkeys(account_ids, Attention())
    for (account_id, _), more in of_connections(db, account_ids).items():
        found[account_id] += more
    return found


def of_all(db: Connection, account_ids: Collection[int] | None = None) -> Attention:
    """Return the counts of several accounts together; None for all accounts."""
    if account_ids is not None:
        return sum(of_accounts(db, sorted(account_ids)).values(), Attention())
    counts = {row.state: row.count for row in rows_of_several(db, _OF_ALL_ACCOUNTS)}
    return Attention(int(counts.get("dead", 0)), int(counts.get("parked", 0)))
