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
from crmhub.database.statements import Statement, one_of, param
from crmhub.database.tables import action
from crmhub.journal import accepting, claiming, outcomes, turns
from crmhub.journal.models import Accepted, Due, Entry, New, Outcome, State, as_result, earliest_id
from crmhub.journal.outages import Outage
from crmhub.records import marks

_RESULT = Statement(
    sa.select(action.c.result).where(
        action.c.account_id == param("account_id"),
        action.c.id == param("id"),
        one_of(action.c.state, "done"),
    )
)
# What an operator brings back at this moment is passed over, and what another worker deletes; in
# this order, or a planner whose statistics are old reads the whole table.
_ENDED_OF_ALL_ACCOUNTS = Statement(
    sa.select(action.c.account_id, action.c.id)
    .where(
        action.c.finished_at < param("finished_at"),
        one_of(action.c.state, "done", "refused", "discarded"),
    )
    .order_by(action.c.finished_at)
    .limit(param("limit"))
    .with_for_update(skip_locked=True)
)


class Journal:
    """The journal of every account."""

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
        """Write an action down, in one transaction with what `prepare` writes.

        With `now`, and when nothing stands in its way, it comes back as an entry whose lease lasts
        `lease_s` seconds; otherwise it is queued, for `wait_s` seconds at least. `key` is the
        caller's Idempotency-Key. Raises what `prepare` raises, and Semantic when the key was used
        for another action.
        """
        return accepting.accept(
            self._database, account, prepare, lease_s=lease_s, now=now, wait_s=wait_s, key=key
        )

    def release(self, entries: Sequence[Entry]) -> None:
        """Queue actions that nobody has tried after all."""
        claiming.release(self._database, entries)

    def finish(
        self, entry: Entry, outcome: Outcome, extra_writes: Callable[[Connection], None]
    ) -> bool:
        """Write down what a try came to, in one transaction with `extra_writes`.

        Returns False, and writes nothing, when the lease is gone: another process has taken the
        action over and decides.
        """
        return self.finish_all([(entry, outcome, extra_writes)])[0]

    def finish_all(self, tries: Sequence[outcomes.Tried]) -> list[bool]:
        """Write down what several tries of one connection came to; see `finish`."""
        return outcomes.finish_all(self._database, tries)

    def open_circuit(self, account: Account, reason: str, word: str = "") -> None:
        """Note that a connection's CRM is away, as a read has found that ended with `word`."""
        outcome = Outcome("queued", word, away=reason)

        def work(tx: Connection) -> None:
            outage = Outage(tx, account.id, account.connection.id)
            outage.note(outcome, tx.now_ms(), probing=False)

        self._database.transact(work)

    def outage_reason(self, account: Account) -> str:
        """Return why the account's CRM is thought to be away, "" when it is not."""
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
        """Take up to `most` actions of one connection that are due, the longest waiting first.

        None of them has an earlier unfinished one of the same person. While the connection is
        away one comes at most, to find out whether it still is. `kinds` names a kind, and whether
        it or all others are wanted; `only` is the id of the one action that a caller waits for.
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
        """Let no other action of a contact be in progress; return when its values were accepted.

        Which contact an action is for may be known only once the CRM has told. From then on all
        actions for that contact are of one person and keep their order. Returns milliseconds by
        property name, of the values that the hub wrote. Raises NotYet when another action for this
        contact is in progress or must go first.
        """
        return turns.take_turn(self._database, account, entry, crm_id)

    def due(self) -> Due:
        """Return the connections with something to do now, and when there will be more."""
        return claiming.due(self._database)

    def spare(self) -> None:
        """Let nobody take over for a moment what seems to be left behind.

        The database could not be written for a while: whoever works on it writes the outcome first.
        """
        claiming.spare(self._database)

    def result(self, account_id: int, action_id: str) -> Mapping[str, Any] | None:
        """Return what an action came to, None as long as it is not done."""
        with self._database.reading() as connection:
            return as_result(
                connection.scalar(_RESULT, {"account_id": account_id, "id": action_id})
            )

    def leads_of(self, account: Account, person: str, entry: Entry) -> dict[str, State]:
        """Return the leads of an action's contact, accepted before it, that are not in the CRM.

        They come with their states, the newest first; `person` is whose contact it is now. Later
        leads wait for the action themselves.
        """
        return turns.leads_of(self._database, account, person, entry)

    def records_of_others(self, entry: Entry) -> frozenset[str]:
        """Return the ids of what other actions of this kind have made for the same person."""
        return turns.records_of_others(self._database, entry)

    def forget(self, *, before: int, most: int = 1000) -> int:
        """Delete actions that ended before this moment (ms), so many at once; return how many.

        What is dead or parked stays until somebody decides on it, and so does what it has made.
        """

        def work(tx: Connection) -> int:
            rows = tx.rows(_ENDED_OF_ALL_ACCOUNTS, {"finished_at": before, "limit": most})
            marks.forget(tx, rows, closed_before=earliest_id(before))
            tx.delete("action_try", {"account_id": "integer", "action_id": "text"}, rows)
            return tx.delete("action", {"account_id": "integer", "id": "text"}, rows)

        return self._database.transact(work)
