"""Outages (table `outage`): all actions of a connection wait while its CRM is unavailable.

They also wait during a pause that the CRM asked for. Only the worker probes whether the CRM is
available again: one action at a time, after ever longer waits.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.claims import pause_ms
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import delete_where, find_row, set_where, upsert_row
from crmhub.database.statements import Statement, param
from crmhub.database.tables import outage
from crmhub.queue.models import Outcome, shown

_FAILURES = 3
# Of many parallel calls, some may fail in a row by chance, so failures must last this long.
_LASTING_S = 1.0
_PROBE_MS = 5_000
# Outcomes that require the operator to fix the account's connection.
_CREDENTIALS = ("BadConfig", "Denied", "LacksRight")

_o = outage.c
_HERE = sa.and_(_o.account_id == param("account_id"), _o.connection_id == param("connection_id"))
_DELETE_ENDED = Statement(sa.delete(outage).where(_HERE, _o.until <= param("now")))


def cause_of(outcome: Outcome) -> str:
    """Return the cause of an outage: "credentials" if the operator must fix them, else "away"."""
    return "credentials" if outcome.word in _CREDENTIALS else "away"


class Outage:
    """The outage or pause of one connection to a CRM, read and changed in one transaction."""

    def __init__(self, tx: Connection, account_id: int, connection_id: int) -> None:
        self._tx = tx
        self._of = {"account_id": account_id, "connection_id": connection_id}

    def may_call(self, moment: int, *, probe: bool) -> tuple[bool, bool]:
        """Return whether the CRM may be called now, and whether this call is a probe of the CRM.

        `probe`: whether the caller may make a probe; only one at a time gets it, and the others
        wait until it has succeeded.
        """
        row = find_row(self._tx, outage, self._of)
        if row is None:
            return True, False
        if row.until > moment:
            return False, False
        if not row.failures:
            self._tx.run(_DELETE_ENDED, self._of | {"now": moment})
            return True, False
        if not probe:
            return False, False
        # The process that sets the next time may probe; the others wait for its result.
        due = self._of | {"until": row.until}
        mine = set_where(self._tx, outage, due, until=moment + _PROBE_MS)
        return bool(mine), True

    def probe_again(self, moment: int) -> None:
        """Allow the next probe at `moment`, since the last one could not reach the CRM at all."""
        set_where(self._tx, outage, self._of, until=moment)

    def lasts(self) -> bool:
        """Return whether the connection has an outage or pause that was not ended yet."""
        return find_row(self._tx, outage, self._of) is not None

    def note(self, outcome: Outcome, moment: int, *, probing: bool) -> bool:
        """Store that the connection must wait, because the attempt with this outcome failed.

        The wait is the time that the CRM asked for, for an unavailable CRM at least a time that
        doubles with each failure, from 2 to 60 s. Returns whether this has opened the circuit
        breaker.
        """
        row = find_row(self._tx, outage, self._of, lock=True)
        failures, until = (row.failures, row.until) if row else (0, 0)
        # Parallel calls that fail together count as one failure.
        if outcome.away and (probing or not failures or until <= moment):
            failures += 1
            until = moment + pause_ms(failures)
        values = {
            "until": max(until, moment + int(outcome.wait_s * 1000)),
            "failures": failures,
            "reason": shown(outcome.away or outcome.message),
            "cause": cause_of(outcome),
        }
        upsert_row(self._tx, outage, self._of, values, {"since": moment})
        return failures > 0 and not (row and row.failures)

    def end(self) -> None:
        delete_where(self._tx, outage, self._of)


def outage_reason(database: Database, account: Account) -> str:
    """Return why the circuit breaker of the account's connection is open; "" if it is not."""
    with database.reading() as connection:
        row = find_row(connection, outage, account.connection_key)
        open_now = row is not None and row.failures and row.until > connection.now_ms()
    return str(row.reason) if open_now else ""


@dataclass(slots=True)
class _Failing:
    since: float
    count: int = 0


class Health:
    """The number of failed calls in a row of each connection; 0 again once the CRM answers."""

    def __init__(self) -> None:
        self._failing: dict[tuple[int, int], _Failing] = {}
        self._lock = threading.Lock()

    def answered(self, account_id: int, connection_id: int) -> None:
        """Set a connection's failed calls to 0; an error that the CRM answered counts, too."""
        # Reading without the lock keeps calls to a healthy CRM fast.
        if (account_id, connection_id) in self._failing:
            with self._lock:
                self._failing.pop((account_id, connection_id), None)

    def failed(self, account_id: int, connection_id: int, *, after: float) -> bool:
        """Count a failed call that took `after` seconds; return whether the circuit breaker opens.

        It opens after 3 failures in a row, from the start of the first to the end of the last at
        least 1 s.
        """
        now = time.monotonic()
        with self._lock:
            failing = self._failing.setdefault(
                (account_id, connection_id), _Failing(since=now - after)
            )
            failing.count += 1
            failing.since = min(failing.since, now - after)
            return failing.count >= _FAILURES and now - failing.since >= _LASTING_S
