"""After a jump of the database's clock, the times that wait are set anew.

A process cannot tell a clock that was set from time that passed, except by its own monotonic clock:
the worker compares the two at each look. Several workers may do this for the same jump; the second
one changes nothing that matters.
"""

from __future__ import annotations

from crmhub.database.connection import Connection, Database
from crmhub.journal.schedule import IDENTITY_MS, LONGEST_LEASE_MS

# Of these times none lies ahead of now unless the clock was set back.
_NEWEST = (
    "select max(moment) from ("
    "select max(created_at) as moment from action where state in ('running', 'queued')"
    " union all select max(since) from outage"
    " union all select max(expires_at) - :lease from lease) as stored"
)
_RESTART = (
    # Whoever works on an action keeps it for one more lease; after that the dead lose theirs.
    "update action set run_at = :lease_end where state = 'running'",
    "update lease set expires_at = :lease_end",
    # A wait of seconds must not last as long as the clock was ahead.
    "update action set run_at = :now where state = 'queued' and run_at > :now",
    "update outage set until = :now where until > :now",
    "update budget set paused_until = :now where paused_until > :now",
    "update outbox set run_at = :now where run_at > :now",
    # A write that may still land is waited for again, and looked for early enough.
    "update action set written_at = :now"
    " where state in ('running', 'queued') and written_at is not null",
    "update action set doubt_since = doubt_since - :back"
    " where state in ('running', 'queued') and doubt_since is not null",
    # What was done within the last minute still answers for the same action.
    "update action set finished_at = finished_at + :jump where state = 'done'"
    " and identity is not null and finished_at between :minute_ago - :jump and :now - :jump",
)


def set_back_ms(database: Database) -> int:
    """Return by how much (ms) the clock was set back at least, as the stored times show."""
    with database.reading() as connection:
        newest = connection.scalar(_NEWEST, {"lease": LONGEST_LEASE_MS})
        return max(0, int(newest or 0) - connection.now_ms())


def restart_waits(database: Database, jump_ms: int) -> None:
    """Make what waits due now, and let each lease begin anew; the clock was set by `jump_ms`."""

    def restart(tx: Connection) -> None:
        now = tx.now_ms()
        times = {
            "now": now,
            "minute_ago": now - IDENTITY_MS,
            "lease_end": now + LONGEST_LEASE_MS,
            "jump": jump_ms,
            "back": max(0, -jump_ms),
        }
        for statement in _RESTART:
            tx.run(statement, times)

    database.transact(restart)
