"""A connection whose CRM is away, or has asked for a pause, waits as a whole (table `outage`).

Callers do not try to find out whether it is back, the worker does: one action at a time, after
ever longer waits.
"""

from __future__ import annotations

from crmhub.database.connection import Connection
from crmhub.journal.models import Outcome, shown

_FIRST_MS, _LONGEST_MS = 2_000, 60_000
_PROBE_MS = 5_000
# What a try ends with where the operator must mend the account's connection.
_CREDENTIALS = ("BadConfig", "Denied", "LacksRight")
_HERE = "account_id = :account and connection_id = :connection"


class Outage:
    """The outage of one connection, within a transaction."""

    def __init__(self, tx: Connection, account_id: int, connection_id: int) -> None:
        self._tx = tx
        self._of = {"account": account_id, "connection": connection_id}

    def may_call(self, moment: int, *, probe: bool) -> tuple[bool, bool]:
        """Return whether the CRM may be called, and whether that finds out if it is back.

        One that was away may be called to find that out with `probe` only.
        """
        row = self._tx.row(f"select until, failures from outage where {_HERE}", self._of)
        if row is None:
            return True, False
        until, failures = row
        if until > moment:
            return False, False
        if not failures:
            self._tx.run(
                f"delete from outage where {_HERE} and until <= :now", self._of | {"now": moment}
            )
            return True, False
        if not probe:
            return False, False
        # Who sets the next time may try; the others wait for what it finds.
        mine = self._tx.run(
            f"update outage set until = :later where {_HERE} and until = :until",
            self._of | {"later": moment + _PROBE_MS, "until": until},
        )
        return bool(mine), True

    def probe_again(self, moment: int) -> None:
        """Let the next one find out now, since this one has not asked."""
        self._tx.run(f"update outage set until = :now where {_HERE}", self._of | {"now": moment})

    def lasts(self) -> bool:
        """Return whether the connection waits as a whole."""
        return self._tx.scalar(f"select 1 from outage where {_HERE}", self._of) is not None

    def reason(self) -> str:
        """Return why the CRM is thought to be away, "" when it is not."""
        row = self._tx.row(
            f"select reason, until from outage where {_HERE} and failures > 0", self._of
        )
        return row[0] if row and row[1] > self._tx.now_ms() else ""

    def note(self, outcome: Outcome, moment: int, *, probing: bool) -> None:
        """Let the connection wait: for what its CRM asked for, or ever longer while it is away.

        `probing` says that the try was to find out whether it is back.
        """
        row = self._tx.row(
            f"select failures, until from outage where {_HERE}{self._tx.for_update}", self._of
        )
        failures, until = row or (0, 0)
        # Several that fail together are one failure.
        if outcome.away and (probing or not failures or until <= moment):
            failures += 1
            until = moment + min(_FIRST_MS * 2 ** min(failures - 1, 10), _LONGEST_MS)
        self._tx.run(
            "insert into outage (account_id, connection_id, since, until, failures, reason, cause)"
            " values (:account, :connection, :now, :until, :failures, :reason, :cause)"
            " on conflict (account_id, connection_id) do update set until = excluded.until,"
            " failures = excluded.failures, reason = excluded.reason, cause = excluded.cause",
            self._of
            | {
                "now": moment,
                "until": max(until, moment + int(outcome.wait_s * 1000)),
                "failures": failures,
                "reason": shown(outcome.away or outcome.message),
                "cause": "credentials" if outcome.word in _CREDENTIALS else "away",
            },
        )

    def end(self) -> None:
        """Note that the CRM is back."""
        self._tx.run(f"delete from outage where {_HERE}", self._of)
