"""The journal: all actions that helpers accepted, stored in the database before the CRM is called.

An action is `running` while a process attempts it, and `queued` while it waits for its next
attempt. An action ends as `done`, as `refused` (the caller got the error), or as `discarded` by an
operator. An action is `dead` if it has failed and its caller is gone or no retry helped, and
`parked` while it is blocked by the failed lead that would create its contact. A process that
attempts an action has a lease on it. The lease is a token that `finish` checks; `run_at` is the
time when it expires. So the action of a process that died becomes due again.

An action waits for every earlier unfinished action of the same person (the group of bindings that
the hub takes for one human being), so that older values never overwrite newer ones. A failed action
blocks only actions that need its contact. Each of these checks, before its attempt, whether the
contact is missing (`leads_of`). The first lead that creates the contact queues all blocked actions
again. All actions of a connection wait while its CRM is unavailable (`outages`).
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
from crmhub.queue import accepting, claiming, outcomes, turns
from crmhub.queue.models import Accepted, Due, Entry, New, Outcome, State, as_result, earliest_id
from crmhub.queue.outages import Outage
from crmhub.queue.schedule import KEY_MS
from crmhub.records import marks

Tried = tuple[Entry, Outcome, Callable[[Connection], None]]
"""An action, the outcome of its attempt, and further writes for the same transaction."""

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
    """The journal of the actions of all accounts."""

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
        key_ms: int = KEY_MS,
    ) -> Accepted:
        """Call `prepare` and store the action that it returns, in one transaction with its writes.

        `now`: whether to attempt the action at once. If so, and if nothing blocks the action, the
        result has an `entry` with a lease of `lease_s` seconds. Otherwise the action is queued and
        due in `wait_s` seconds. `key`: the caller's Idempotency-Key.

        A repeated call stores nothing and returns the earlier action. A call with a key is repeated
        if an action was accepted with this key in the last 24 hours. With another `key_ms`, the key
        is valid for so many ms, and an action that was refused does not count. A call without a key
        is repeated if an equal action is unfinished or succeeded in the last minute. Raises the
        errors of `prepare`, the `fault` of an action that would have to wait, and Semantic if `key`
        belongs to a different action.
        """
        return accepting.accept(
            self._database,
            account,
            prepare,
            lease_s=lease_s,
            now=now,
            wait_s=wait_s,
            key=key,
            key_ms=key_ms,
        )

    def release(self, entries: Sequence[Entry]) -> None:
        """Queue claimed actions again that were not attempted, and release their leases."""
        claiming.release(self._database, entries)

    def finish(
        self,
        entry: Entry,
        outcome: Outcome,
        extra_writes: Callable[[Connection], None],
        account: Account | None = None,
    ) -> bool:
        """Record the outcome of an attempt, and run `extra_writes` in the same transaction.

        `account`: the action's account, for the events of its subscriptions. Return True, or False
        without any write if another process has taken over the action, because its lease had
        expired.
        """
        return self._database.transact(
            lambda tx: outcomes.finish(
                tx, self._database, tx.now_ms(), entry, outcome, extra_writes, account
            )
        )

    def finish_all(self, tries: Sequence[Tried], account: Account | None = None) -> None:
        """Record the outcomes of several attempts in one transaction.

        `account`: the account of all actions, for the events of its subscriptions. The outcome of
        an action is skipped if another process has taken over the action.
        """

        def record(tx: Connection) -> None:
            moment = tx.now_ms()
            for tried in tries:
                outcomes.finish(tx, self._database, moment, *tried, account)

        self._database.transact(record)

    def open_circuit(self, account: Account, reason: str, word: str = "") -> None:
        """Open the circuit breaker of the account's connection, because a read from its CRM failed.

        `reason`: the message that operators see. `word`: the name of the error's class.
        """
        outcome = Outcome("queued", word, away=reason)

        def work(tx: Connection) -> None:
            outage, moment = Outage(tx, account.id, account.connection.id), tx.now_ms()
            if outage.note(outcome, moment, probing=False):
                outcomes.note_failing(tx, account, account.connection.id, outcome, moment)

        self._database.transact(work)

    def outage_reason(self, account: Account) -> str:
        """Return why the circuit breaker of the account's connection is open; "" if it is not."""
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
        """Claim up to `most` due actions of a connection with leases of `lease_s` seconds.

        The oldest actions come first. An action is left out while an earlier action of the same
        person (the group of bindings taken for one human being) is unfinished. While the circuit
        breaker is open, at most one action is claimed, to probe the CRM. `kinds`: a kind of action,
        with True to claim only this kind or False to claim only other kinds; None for all kinds.
        `only`: the id of the only action that may be claimed, "" for any.
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
        """Make sure that an action may write to the contact `crm_id`, which the CRM has named.

        From now on all actions of the contact have the same person, so that they run in the order
        of acceptance. Return the time in ms since 1970 at which each value that the hub wrote to
        the contact was accepted, by property name. Raises NotYet while another action of the
        contact is in progress or must run first.
        """
        return turns.take_turn(self._database, account, entry, crm_id)

    def due(self) -> Due:
        """Return the connections that have due actions, and when the next further action is due."""
        return claiming.due(self._database)

    def spare(self) -> None:
        """Extend expired leases of actions by 2 s after the database took no writes for a while.

        Thus the processes that hold the leases can record their outcomes first.
        """
        claiming.spare(self._database)

    def result(self, account_id: int, action_id: str) -> Mapping[str, Any] | None:
        """Return the result of an action; None unless the action's state is `done`."""
        with self._database.reading() as connection:
            return as_result(
                connection.scalar(_RESULT, {"account_id": account_id, "id": action_id})
            )

    def leads_of(self, account: Account, person: str, entry: Entry) -> dict[str, State]:
        """Return the states, by action id, of a contact's leads that have not reached the CRM.

        Only unfinished and failed leads that were accepted before the action `entry` are returned,
        the newest first. `person`: the contact's present person, the id under which its actions run
        in order.
        """
        return turns.leads_of(self._database, account, person, entry)

    def records_of_others(self, entry: Entry) -> frozenset[str]:
        """Return the CRM's ids of the records that other actions like `entry` have created.

        These are actions of the same kind and the same person (the group of bindings that the hub
        takes for one human being).
        """
        return turns.records_of_others(self._database, entry)

    def forget(self, *, before: int, most: int = 1000) -> int:
        """Delete up to `most` actions that ended before `before` (ms since 1970).

        Return the number of deleted actions. Failed and blocked actions are never deleted here,
        since an operator must decide on them.
        """

        found = find_expired(
            self._database, action.c.finished_at, before=before - 1, most=most, where=_HAS_ENDED
        )
        ids: dict[int, list[str]] = {}
        for account_id, action_id, _ in found:
            ids.setdefault(account_id, []).append(action_id)

        def work(tx: Connection) -> int:
            # Leaves out actions that an operator is retrying at this moment.
            rows = [
                row
                for account_id, own in sorted(ids.items())
                for row in tx.rows(_ENDED, {"account_id": account_id, "ids": own, "before": before})
            ]
            marks.forget(tx, rows, closed_before=earliest_id(before))
            tx.delete("action_try", {"account_id": "integer", "action_id": "text"}, rows)
            return tx.delete("action", {"account_id": "integer", "id": "text"}, rows)

        return self._database.transact(work)
