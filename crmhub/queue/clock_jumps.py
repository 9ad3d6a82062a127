"""Correct stored times after the clock of the database's host was set forward or back.

The worker detects a jump by comparing the database's clock with its own monotonic clock each time
it looks for due actions. Correcting the times twice for one jump does no harm.
"""

from __future__ import annotations

from functools import partial

import sqlalchemy as sa

from crmhub.accounts.accounts import account_ids
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, one_of, param
from crmhub.database.tables import (
    action,
    budget,
    event_delivery,
    event_subscription,
    lease,
    outage,
    outbox,
)
from crmhub.events.schedule import LEASE_MS as EVENT_LEASE_MS
from crmhub.queue.schedule import IDENTITY_MS, LONGEST_LEASE_MS

_a, _d = action.c, event_delivery.c
_UNFINISHED = one_of(_a.state, "running", "queued")
# None of these times is in the future unless the clock was set back.
_TIMES = sa.union_all(
    sa.select(sa.func.max(_a.created_at).label("moment")).where(_UNFINISHED),
    sa.select(sa.func.max(outage.c.since)),
    sa.select(sa.func.max(lease.c.expires_at) - param("lease_ms")),
).subquery("stored")
_NEWEST_OF_ALL_ACCOUNTS = Statement(sa.select(sa.func.max(_TIMES.c.moment)))
_RESTART_MESSAGES = Statement(
    sa.update(outbox).where(outbox.c.run_at > param("now")).values(run_at=param("now"))
)


def _update(table: sa.Table) -> sa.Update:
    return sa.update(table).where(table.c.account_id == param("account_id"))


_RESTART = tuple(
    map(
        Statement,
        (
            # Attempts in progress keep their leases for one more period; leases of dead processes
            # then expire.
            _update(action).where(one_of(_a.state, "running")).values(run_at=param("lease_end")),
            _update(lease).values(expires_at=param("lease_end")),
            # Without this, a short wait would last as long as the clock was ahead.
            _update(action)
            .where(one_of(_a.state, "queued"), _a.run_at > param("now"))
            .values(run_at=param("now")),
            _update(outage).where(outage.c.until > param("now")).values(until=param("now")),
            _update(budget)
            .where(budget.c.paused_until > param("now"))
            .values(paused_until=param("now")),
            # Wait again for writes that may still arrive, and search for them from an early enough
            # time.
            _update(action)
            .where(_UNFINISHED, _a.written_at.is_not(None))
            .values(written_at=param("now")),
            _update(action)
            .where(_UNFINISHED, _a.doubt_since.is_not(None))
            .values(doubt_since=_a.doubt_since - param("back")),
            # Actions done within the last minute still answer equal calls.
            _update(action)
            .where(
                one_of(_a.state, "done"),
                _a.identity.is_not(None),
                _a.finished_at.between(param("done_from"), param("done_until")),
            )
            .values(finished_at=_a.finished_at + param("jump")),
            # Events: leases in progress last for one more period, all waits end.
            _update(event_delivery)
            .where(one_of(_d.state, "queued"), _d.lease.is_not(None))
            .values(run_at=param("event_lease_end")),
            _update(event_delivery)
            .where(one_of(_d.state, "queued"), _d.lease.is_(None), _d.run_at > param("now"))
            .values(run_at=param("now")),
            # A jump is no time of failures.
            _update(event_subscription).values(
                paused_until=sa.literal_column("0"),
                failing_since=event_subscription.c.failing_since + param("jump"),
            ),
        ),
    )
)


def set_back_ms(database: Database) -> int:
    """Return by how many ms at least the database's clock was set back, 0 if it was not."""
    with database.reading() as connection:
        newest = connection.scalar(_NEWEST_OF_ALL_ACCOUNTS, {"lease_ms": LONGEST_LEASE_MS})
        return max(0, int(newest or 0) - connection.now_ms())


def restart_waits(database: Database, jump_ms: int) -> None:
    """Make all waiting actions due now, end all pauses of connections, and renew all leases.

    `jump_ms`: by how many ms the database's clock was set forward; negative for back.
    """

    with database.reading() as db:
        ids = account_ids(db)
    for account_id in ids:
        database.transact(partial(_restart, account_id=account_id, jump_ms=jump_ms))
    database.transact(lambda tx: tx.run(_RESTART_MESSAGES, {"now": tx.now_ms()}))


def _restart(tx: Connection, *, account_id: int, jump_ms: int) -> None:
    now = tx.now_ms()
    times = {
        "account_id": account_id,
        "now": now,
        "done_from": now - IDENTITY_MS - jump_ms,
        "done_until": now - jump_ms,
        "lease_end": now + LONGEST_LEASE_MS,
        "event_lease_end": now + EVENT_LEASE_MS,
        "jump": jump_ms,
        "back": max(0, -jump_ms),
    }
    for statement in _RESTART:
        tx.run(statement, times)
