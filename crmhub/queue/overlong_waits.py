"""End waits, pauses and leases that last impossibly long, because a clock was set back."""

from __future__ import annotations

from functools import partial

import sqlalchemy as sa

from crmhub.database.connection import Connection, Database
from crmhub.database.several_accounts import AvailableRows
from crmhub.database.statements import Statement, one_of, param
from crmhub.database.tables import action, event_delivery, event_subscription, lease, outage
from crmhub.queue.schedule import LONGEST_WAIT_MS

_TOO_LATE = param("now") + LONGEST_WAIT_MS
_TIMES = {
    action.c.run_at: one_of(action.c.state, "running", "queued"),
    event_delivery.c.run_at: one_of(event_delivery.c.state, "queued"),
    event_subscription.c.paused_until: sa.true(),
    outage.c.until: sa.true(),
    lease.c.expires_at: sa.true(),
}
_FIND_ACCOUNTS = AvailableRows(
    lambda only: sa.union(
        *(
            sa.select(time.table.c.account_id).where(condition, time > _TOO_LATE, only(time.table))
            for time, condition in _TIMES.items()
        )
    )
)
_END = [
    Statement(
        sa.update(time.table)
        .where(time.table.c.account_id == param("account_id"), condition, time > _TOO_LATE)
        .values({time.name: param("now")})
    )
    for time, condition in _TIMES.items()
]


def end_overlong_waits(database: Database) -> None:
    """Make everything due whose due time is further ahead than the longest wait."""
    for account_id in _find_accounts(database):
        database.transact(partial(_end_waits, account_id=account_id))


def _find_accounts(database: Database) -> list[int]:
    with database.reading() as db:
        now = db.now_ms()
    return [row.account_id for row in _FIND_ACCOUNTS.read(database, {"now": now})]


def _end_waits(tx: Connection, *, account_id: int) -> None:
    for statement in _END:
        tx.run(statement, {"account_id": account_id, "now": tx.now_ms()})
