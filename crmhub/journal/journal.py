"""The journal: every action that a helper accepted, committed before any CRM is called.

A row is `running` while a process works on it, `queued` while it waits for its next try, and ends
as `done`, `refused` (the caller was told why), `dead` (nobody waited any more, or no try helped),
`parked` while the lead that would create its contact is dead, or `discarded` by an operator.
Whoever works on a row holds its lease, a token that `finish` must bring back; `run_at` is then when
the lease ends, so that the row of a process that died falls due by itself.

An action waits for every earlier unfinished one of the same person, so that older values never
overwrite newer ones. A dead action holds back only what needs it: each action finds out by itself,
in its turn, whether its contact is missing (`leads_of`), and the first lead that creates the
contact queues them all again. A connection whose CRM is away waits as a whole (`outages`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection, Database
from crmhub.database.expired import find_expired
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.database.tables import action
from crmhub.journal import accepting, claiming, outcomes, turns
from crmhub.journal.models import Accepted, Due, Entry, New, Outcome, State, as_result, earliest_id
from crmhub.journal.outages import Outage
from crmhub.records import marks

Tried = tuple[Entry, Outcome, Callable[[Connection], None]]
"""An action, its attempt's outcome, and what else is written with it."""

_RESULT = Statement(
    sa.select(action.c.result).where(
        action.c.account_id == param("account_id"),
        action.c.id == param("id"),
        one_of(action.c.state, "done"),
    )
)
_HAS_ENDED = one_of(action.c.state, "done", "refused", "discarded")
_ENDED = Statement(
    sa.select(action.c.account_id, action.c.id)
    .where(
        action.c.account_id == param("account_id"),
        in_list(action.c.id, "ids"),
        action.c.finished_at < param("before"),
        _HAS_ENDED,
    )
    .order_by(action.c.id)
    .with_for_update(skip_locked=True)
)


class Journal:
    """The journal of all accounts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def accept(
        self,
        account: Account,
        prepare: Callable[[Connection], New],
        *,
        lease_s: float,
        now: bool,
        wait_s: float = 0.0,
        key: str = "",
    ) -> Accepted:
        """Store an action, in one transaction with what `prepare` writes.

        With `now`, and if nothing blocks the action, it is returned as an entry whose lease lasts
        `lease_s` seconds; else it is queued for at least `wait_s` seconds. `key` is the caller's
        Idempotency-Key. Raises what `prepare` raises, and Semantic for a key of another action.
        """
        return accepting.accept(
            self._database, account, prepare, lease_s=lease_s, now=now, wait_s=wait_s, key=key
        )

    def release(self, entries: Sequence[Entry]) -> None:
        """Queue claimed actions again that were not attempted."""
        claiming.release(self._database, entries)

    def finish(
        self, entry: Entry, outcome: Outcome, extra_writes: Callable[[Connection], None]
    ) -> bool:
        """Record an attempt's outcome and run `extra_writes` in the same transaction.

        Returns False and writes nothing if the lease is gone: another process has taken the action
        over.
        """
        return self._database.transact(
            lambda tx: outcomes.finish(
                tx, self._database, tx.now_ms(), entry, outcome, extra_writes
            )
        )

    def finish_all(self, tries: Sequence[Tried]) -> None:
        """Record the outcomes of several attempts in one transaction; see `finish`."""

        def record(tx: Connection) -> None:
            moment = tx.now_ms()
            for tried in tries:
                outcomes.finish(tx, self._database, moment, *tried)

        self._database.transact(record)

    def open_circuit(self, account: Account, reason: str, word: str = "") -> None:
        """Open the circuit of an account's connection after a failed read: the error `word`."""
        outcome = Outcome("queued", word, away=reason)

        def work(tx: Connection) -> None:
            outage = Outage(tx, account.id, account.connection.id)
            outage.note(outcome, tx.now_ms(), probing=False)

        self._database.transact(work)

    def outage_reason(self, account: Account) -> str:
        """Return why the account's circuit is open, "" if it is closed."""
        with self._database.reading() as connection:
            return Outage(connection, account.id, account.connection.id).reason()

    def claim(
        self,
        account_id: int,
        connection_id: int,
        *,
        most: int,
        lease_s: float,
        kinds: tuple[str, bool] | None = None,
        only: str = "",
    ) -> list[Entry]:
        """Claim up to `most` due actions of one connection, the longest waiting first.

        None of them has an earlier unfinished action of the same person. While the circuit is open,
        at most one is returned, as a probe. `kinds` is a kind, and whether to claim it or all
        others; `only` is the id of the one action that a caller waits for.
        """
        return claiming.claim(
            self._database,
            account_id,
            connection_id,
            most=most,
            lease_s=lease_s,
            kinds=kinds,
            only=only,
        )

    def take_turn(self, account: Account, entry: Entry, crm_id: str) -> Mapping[str, int]:
        """Reserve a contact for an action; return when the contact's values were accepted.

        Only the CRM may show which contact an action is for. From then on all actions for the
        contact belong to one person and keep their order. Returns ms by property name, for the
        values that the hub wrote. Raises NotYet while another action for the contact is in progress
        or must go first.
        """
        return turns.take_turn(self._database, account, entry, crm_id)

    def due(self) -> Due:
        """Return the connections with actions to attempt, and when more fall due."""
        return claiming.due(self._database)

    def spare(self) -> None:
        """Extend all leases for a moment, after the database took no writes for a while.

        The processes that hold the leases record their outcomes first.
        """
        claiming.spare(self._database)

    def result(self, account_id: int, action_id: str) -> Mapping[str, Any] | None:
        """Return an action's result, None until it is done."""
        with self._database.reading() as connection:
            return as_result(
                connection.scalar(_RESULT, {"account_id": account_id, "id": action_id})
            )

    def leads_of(self, account: Account, person: str, entry: Entry) -> dict[str, State]:
        """Return the contact's leads, accepted before an action, that are not in the CRM.

        They are returned with their states, the newest first. `person` is the present person of the
        contact. Later leads wait for the action.
        """
        return turns.leads_of(self._database, account, person, entry)

    def records_of_others(self, entry: Entry) -> frozenset[str]:
        """Return the ids of records that the person's other actions of this kind have created."""
        return turns.records_of_others(self._database, entry)

    def forget(self, *, before: int, most: int = 1000) -> int:
        """Delete up to `most` actions that ended before this moment (ms); return how many.

        Failed and blocked actions stay until an operator decides, with the records they created.
        """

        found = find_expired(
            self._database, action.c.finished_at, before=before - 1, most=most, where=_HAS_ENDED
        )
        ids: dict[int, list[str]] = {}
        for account_id, action_id, _ in found:
            ids.setdefault(account_id, []).append(action_id)

        def work(tx: Connection) -> int:
            # An action that an operator retries at this moment is left out.
            rows = [
                row
                for account_id, own in sorted(ids.items())
                for row in tx.rows(_ENDED, {"account_id": account_id, "ids": own, "before": before})
            ]
            marks.forget(tx, rows, closed_before=earliest_id(before))
            tx.delete("action_try", {"account_id": "integer", "action_id": "text"}, rows)
            return tx.delete("action", {"account_id": "integer", "id": "text"}, rows)

        return self._database.transact(work)
