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

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from crmhub import metrics
from crmhub.accounts.accounts import Account
from crmhub.adapter import NotYet
from crmhub.database.advisory_locks import hold
from crmhub.database.connection import (
    Connection,
    Database,
)
from crmhub.errors import Semantic
from crmhub.identity import bindings
from crmhub.identity.bindings import SAME_CONTACT
from crmhub.journal.models import (
    UNFINISHED,
    Accepted,
    Due,
    Entry,
    New,
    Outcome,
    State,
    earliest_id,
    new_id,
    shown,
)
from crmhub.journal.outages import Outage
from crmhub.records import marks
from crmhub.secrets import BASE36
from crmhub.secrets import token as random_token

# How long after which failed try the next one follows.
DELAYS_S = (5, 30, 120, 600, 3_600, 10_800, 21_600, 43_200)
_JITTER = 0.2
LONGEST_MS = 7 * 86_400_000
LONGEST_LEASE_MS = 60_000
IDENTITY_MS = 60_000
KEY_MS = 24 * 3_600_000
# What a process needs beyond the call itself, to write down what came of it.
GRACE_MS = 2_000
# More than anybody makes for one person while a single write of theirs is in doubt.
_OTHERS = 1_000
# An action whose contact has another one in progress is retried after this.
_TURN_S = 1.0
# What a call is told under the Idempotency-Key of one that an operator has discarded.
_DISCARDED = {
    "error": "Conflict",
    "message": "The operator discarded this call; use a new Idempotency-Key to send it again",
}
# What a try ends with that has not asked the CRM anything.
_UNASKED = ("Behind", "NotYet", "LimitExceeded", "TooManyRequests")


class _Replayed(Exception):
    """Ends the transaction of an action that stands in the journal under its key already."""

    def __init__(self, accepted: Accepted) -> None:
        super().__init__()
        self.accepted = accepted


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

        def work(tx: Connection) -> Accepted:
            moment = tx.now_ms()
            new = prepare(tx)
            request = _json(new.request)
            if earlier := self._earlier(tx, account, new, request, key, moment):
                if earlier.replayed:
                    # What `prepare` wrote was written then; others have spoken since.
                    raise _Replayed(earlier)
                return earlier
            last, waits_until, said = self._before(tx, account, new)
            if last is not None:
                # What stands before it may have come while this one waited for the person's lock.
                moment = tx.now_ms()
            outage = Outage(tx, account.id, account.connection.id)
            free, behind = now and last is None, False
            if free:
                # A caller does not wait to find out whether a CRM is back: the worker does.
                free, _ = outage.may_call(moment, probe=False)
            elif now and (waits_until or 0) <= moment:
                behind = not outage.lasts()
            # In the order in which they came, also where the clock was set back in between.
            created_at = max(moment, said + 1)
            row: dict[str, Any] = {
                "account": account.id,
                "id": new_id(created_at),
                "connection": account.connection.id,
                "kind": new.kind,
                "person": new.person,
                "hub_id": new.hub_id,
                "state": "running" if free else "queued",
                "request": request,
                "run_at": moment + int((lease_s if free else wait_s) * 1000),
                "give_up": moment + LONGEST_MS,
                "lease": random_token(96, BASE36) if free else None,
                # Before any claim, which takes a doubt of its own moment for none.
                "doubt": moment - 1 if free else None,
                "identity": new.identity or None,
                "key": key or None,
                "now": created_at,
            }
            tx.run(_INSERT, row)
            self._database.after_commit(partial(metrics.accepted, new.kind))
            if not free:
                if not wait_s:
                    self._wake(tx)
                return Accepted(row["id"], new.hub_id, behind=behind)
            return Accepted(row["id"], new.hub_id, _entry_of_new(row, new))

        try:
            return self._database.transact(work)
        except _Replayed as again:
            return again.accepted

    def _before(
        self, tx: Connection, account: Account, new: New
    ) -> tuple[int | None, int | None, int]:
        """Return the last of a person's unfinished actions, and until when any of them waits.

        With them comes when any action of the person was accepted last, 0 for never.
        """
        if new.first:
            return None, None, 0
        # Two of one person at once would each see nothing before them.
        hold(tx, account.id, "person", new.person)
        ((last, waits_until, said),) = tx.rows(
            "select max(created_at), max(case when state = 'queued' then run_at end),"
            " (select max(created_at) from action"
            " where account_id = :account and person = :person) from action"
            " where account_id = :account and person = :person"
            " and state in ('running', 'queued')",
            {"account": account.id, "person": new.person},
        )
        return last, waits_until, said or 0

    def _earlier(
        self, tx: Connection, account: Account, new: New, request: str, key: str, moment: int
    ) -> Accepted | None:
        """Return the same action as it was accepted before, by the caller's key or its identity."""
        if key:
            hold(tx, account.id, "idempotency key", key)
            row = tx.row(
                "select id, hub_id, kind, request, state, result, created_at, versions from action"
                " where account_id = :account and idempotency_key = :key",
                {"account": account.id, "key": key},
            )
            # One that was dropped when the account got another CRM was never answered.
            dropped = row is not None and row[4] == "refused" and row[5] is None
            if row is not None and (dropped or row[6] < moment - KEY_MS):
                tx.run(
                    "update action set idempotency_key = null"
                    " where account_id = :account and id = :id",
                    {"account": account.id, "id": row[0]},
                )
                row = None
            if row is not None:
                id, hub_id, kind, kept, state, result, _, versions = row
                if (kind, _said(_as_accepted(kept, versions))) != (new.kind, _said(new.request)):
                    raise Semantic(
                        "Idempotency-Key: it was used for another call; use a new key for each"
                    )
                return Accepted(
                    id,
                    hub_id,
                    earlier=_DISCARDED if state == "discarded" else _result(result),
                    refused=state in ("refused", "discarded"),
                    replayed=True,
                    stopped=state in ("dead", "parked"),
                )
            # A different key always makes a second one.
            return None
        if not new.identity:
            return None
        hold(tx, account.id, "identity", new.person, new.identity)
        row = tx.row(
            "select a.id, a.hub_id, a.result from action a"
            " where a.account_id = :account and a.connection_id = :connection"
            " and a.identity = :identity and a.person = :person and a.idempotency_key is null"
            " and (a.state in ('running', 'queued')"
            # What seems to have ended later than that did so before the clock was set back.
            " or (a.state = 'done' and a.finished_at between :since and :until))"
            f" and {SAME_CONTACT}"
            " order by a.created_at desc limit 1",
            {
                "account": account.id,
                "connection": account.connection.id,
                "identity": new.identity,
                "person": new.person,
                "hub_id": new.hub_id,
                "since": moment - IDENTITY_MS,
                "until": moment + IDENTITY_MS,
            },
        )
        if row is None:
            return None
        earlier = _result(row[2])
        unchanged = {**earlier, "status": "unchanged"} if earlier is not None else None
        return Accepted(row[0], row[1], earlier=unchanged)

    def release(self, entries: Sequence[Entry]) -> None:
        """Queue actions that nobody has tried after all."""

        def work(tx: Connection) -> None:
            moment = tx.now_ms()
            for entry in entries:
                tx.run(
                    "update action set state = 'queued', run_at = :now, lease = null,"
                    f" doubt_since = {'doubt_since' if entry.doubt_since else 'null'}"
                    " where account_id = :account and id = :id and lease = :lease",
                    {
                        "account": entry.account_id,
                        "id": entry.id,
                        "lease": entry.lease,
                        "now": moment,
                    },
                )
            self._wake(tx)

        self._database.transact(work)

    def finish(
        self, entry: Entry, outcome: Outcome, extra_writes: Callable[[Connection], None]
    ) -> bool:
        """Write down what a try came to, in one transaction with `extra_writes`.

        Returns False, and writes nothing, when the lease is gone: another process has taken the
        action over and decides.
        """
        return self.finish_all([(entry, outcome, extra_writes)])[0]

    def finish_all(
        self, tries: Sequence[tuple[Entry, Outcome, Callable[[Connection], None]]]
    ) -> list[bool]:
        """Write down what several tries of one connection came to; see `finish`."""

        def work(tx: Connection) -> list[bool]:
            moment = tx.now_ms()
            return [self._finish(tx, *one, moment) for one in tries]

        return self._database.transact(work)

    def _finish(
        self,
        tx: Connection,
        entry: Entry,
        outcome: Outcome,
        extra_writes: Callable[[Connection], None],
        moment: int,
    ) -> bool:
        if outcome.state == "parked" and not _is_blocked(tx, entry, outcome.behind):
            # No longer, since this attempt looked: nothing would queue this action again.
            outcome = replace(outcome, state="queued", behind="", wait_s=DELAYS_S[0])
        state, run_at, tries = _next(entry, outcome, moment)
        # A doubt lasts until the action is done: a try that could not look has not settled it.
        ended = moment
        if outcome.ended:
            ended -= round((time.monotonic() - outcome.ended) * 1000)
        began = ended - outcome.ms
        written = ended if outcome.doubt else entry.written_at or None
        of = {"account": entry.account_id, "id": entry.id, "connection": entry.connection_id}
        held = tx.run(
            "update action set state = :state, run_at = :run_at, tries = :tries, lease = null,"
            # Of an earlier attempt as it stands there: it may have been dated anew.
            f" doubt_since = {'doubt_since' if entry.doubt_since else ':doubt'},"
            " written_at = :written, reason = :reason, result = :result,"
            " finished_at = :finished,"
            " behind = :behind, mapped = coalesce(:mapped, mapped)"
            " where account_id = :account and id = :id and lease = :lease",
            of
            | {
                "state": state,
                "run_at": run_at,
                "tries": tries,
                "doubt": began if outcome.doubt else None,
                "written": written,
                "reason": shown(outcome.message),
                "result": None if outcome.result is None else json.dumps(outcome.result),
                "finished": None if state in UNFINISHED else moment,
                "behind": outcome.behind or None,
                "mapped": None if outcome.mapped is None else _json(outcome.mapped),
                "lease": entry.lease,
            },
        )
        if not held:
            return False
        tx.run(
            "insert into action_try (account_id, action_id, number, began_at, ms, outcome,"
            " message, correlation_id) values (:account, :id,"
            " (select count(*) + 1 from action_try where account_id = :account"
            " and action_id = :id), :began, :ms, :word, :message, :correlation)",
            of
            | {
                "began": began,
                "ms": outcome.ms,
                "word": outcome.word,
                "message": shown(outcome.message),
                "correlation": shown(outcome.correlation_id),
            },
        )
        if state not in (*UNFINISHED, "parked"):
            self._database.after_commit(partial(metrics.ended, entry.kind, state))
        extra_writes(tx)
        if state == "done" and entry.kind == "createLead" and _unblock(tx, entry, moment):
            self._wake(tx)
        outage = Outage(tx, entry.account_id, entry.connection_id)
        if outcome.away or outcome.throttled:
            outage.note(outcome, moment, probing=entry.probing)
        elif entry.probing and outcome.word in _UNASKED:
            outage.probe_again(moment)
        elif entry.probing:
            outage.end()
            self._wake(tx)
        return True

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
        kind, wanted = kinds or ("", False)
        narrowed = f" and a.kind {'=' if wanted else '<>'} :kind" if kinds else ""
        # A lease that has ended is the worker's to take over: it knows when the clock has jumped.
        narrowed += " and a.id = :only and a.state = 'queued'" if only else ""

        def work(tx: Connection) -> list[Entry]:
            moment = tx.now_ms()
            outage = Outage(tx, account_id, connection_id)
            free, probing = outage.may_call(moment, probe=not only)
            if not free:
                return []
            token = random_token(96, BASE36)
            skip = " for update skip locked" if tx.dialect == "postgresql" else ""
            rows = tx.rows(
                # Not a subquery of the update: PostgreSQL might run it, and lock, again and again.
                "with due as (select a.id from action a where a.account_id = :account"
                " and a.connection_id = :connection and a.state in ('running', 'queued')"
                # The first of its person. Asked for each row: as a join it would go through all
                # that is due for each, where the planner has not yet heard how much that is.
                f" and a.run_at <= :now{narrowed} and a.id = (select e.id from action e"
                " where e.account_id = a.account_id and e.person = a.person"
                " and e.state in ('running', 'queued') order by e.id limit 1)"
                # A retried action may stand before one that is in progress.
                " and not exists (select 1 from action r where r.account_id = a.account_id"
                " and r.person = a.person and r.state = 'running' and r.run_at > :now)"
                f" order by a.run_at limit :most{skip})"
                " update action set state = 'running', lease = :token, run_at = :until,"
                " doubt_since = coalesce(doubt_since, :now),"
                # A process that died may have sent a write until its lease ended.
                " written_at = case when state = 'running' then run_at else written_at end"
                " where account_id = :account and id in (select id from due)"
                f" returning {_ENTRY}",
                {
                    "account": account_id,
                    "connection": connection_id,
                    "now": moment,
                    "until": moment + int(lease_s * 1000),
                    "token": token,
                    "most": 1 if probing else most,
                    "kind": kind,
                    "only": only,
                },
            )
            if probing and not rows:
                # Nobody finds out now: the next one may, and must not wait for it.
                outage.probe_again(moment)
            return [_entry(account_id, connection_id, row, token, moment, probing) for row in rows]

        return sorted(self._database.transact(work), key=lambda one: one.created_at)

    def take_turn(self, account: Account, entry: Entry, crm_id: str) -> Mapping[str, int]:
        """Let no other action of a contact be in progress; return when its values were accepted.

        Which contact an action is for may be known only once the CRM has told. From then on all
        actions for that contact are of one person and keep their order. Returns milliseconds by
        property name, of the values that the hub wrote. Raises NotYet when another action for this
        contact is in progress or must go first.
        """
        with self._database.reading() as connection:
            known = bindings.of_crm_id(connection, account, crm_id)
        if entry.hub_id in known.hub_ids and known.persons == (entry.person,):
            return known.accepted

        def unite(tx: Connection) -> bool:
            hold(tx, account.id, account.connection.id, "contact", crm_id)
            of = {"account": account.id, "id": entry.id}
            mine = tx.scalar(
                "select person from action where account_id = :account and id = :id", of
            )
            person, *others = bindings.of_crm_id(tx, account, crm_id).persons or (mine,)
            found = bindings.set_crm_id(tx, account, entry.hub_id, crm_id)
            bindings.unite(tx, account, {mine, *others} - {person}, person)
            hold(tx, account.id, "person", person)
            moment = tx.now_ms()
            other = tx.row(
                "select 1 from action where account_id = :account and person = :person"
                " and id <> :id and state in ('running', 'queued') and (id < :id"
                " or (state = 'running' and run_at > :now)) limit 1",
                of | {"person": person, "now": moment},
            )
            # What waited for a lead to create the contact goes on behind this one: it exists.
            if found and _unblock(tx, entry, moment):
                self._wake(tx)
            return other is not None

        if self._database.transact(unite):
            raise NotYet("Another action of this contact goes first.", retry_after=_TURN_S)
        with self._database.reading() as connection:
            return bindings.of_crm_id(connection, account, crm_id).accepted

    def due(self) -> Due:
        """Return the connections with something to do now, and when there will be more."""
        with self._database.reading() as connection:
            moment = connection.now_ms()
            rows = connection.rows(_DUE, {"now": moment})
        now, later = [], []
        for account_id, connection_id, first, following, until in rows:
            if first > moment or until > moment:
                later.append(max(first, until))
                continue
            now.append((first, account_id, connection_id))
            if following is not None:
                later.append(following)
        # What has waited longest comes first.
        soonest = min(later, default=None)
        return Due(
            [(one[1], one[2]) for one in sorted(now)], soonest and max(0, soonest - moment), moment
        )

    def spare(self) -> None:
        """Let nobody take over for a moment what seems to be left behind.

        The database could not be written for a while: whoever works on it writes the outcome first.
        """

        def work(tx: Connection) -> None:
            moment = tx.now_ms()
            tx.run(
                "update action set run_at = :until where state = 'running' and run_at <= :now",
                {"now": moment, "until": moment + GRACE_MS},
            )

        self._database.transact(work)

    def result(self, account_id: int, action_id: str) -> Mapping[str, Any] | None:
        """Return what an action came to, None as long as it is not done."""
        with self._database.reading() as connection:
            row = connection.row(
                "select result from action"
                " where account_id = :account and id = :id and state = 'done'",
                {"account": account_id, "id": action_id},
            )
        return _result(row[0]) if row else None

    def leads_of(self, account: Account, person: str, entry: Entry) -> dict[str, State]:
        """Return the leads of an action's contact, accepted before it, that are not in the CRM.

        They come with their states, the newest first; `person` is whose contact it is now. Later
        leads wait for the action themselves.
        """
        with self._database.reading() as connection:
            rows = connection.rows(
                # Only a former version parks a lead: in its place comes what it is parked behind.
                "select coalesce(a.behind, a.id), a.state from action a"
                " where a.account_id = :account and a.person = :person"
                " and a.connection_id = :connection and a.kind = 'createLead'"
                " and a.state in ('running', 'queued', 'dead', 'parked') and a.id < :id"
                f" and {SAME_CONTACT} order by a.id desc limit 50",
                {
                    "account": account.id,
                    "connection": account.connection.id,
                    "person": person,
                    "hub_id": entry.hub_id,
                    "id": entry.id,
                },
            )
        return {row[0]: row[1] for row in rows}

    def records_of_others(self, entry: Entry) -> frozenset[str]:
        """Return the ids of what other actions of this kind have made for the same person."""
        with self._database.reading() as connection:
            rows = connection.rows(
                "select result from action where account_id = :account and person = :person"
                " and connection_id = :connection and kind = :kind and id <> :id"
                " and state = 'done' order by created_at desc limit :most",
                {
                    "account": entry.account_id,
                    "person": entry.person,
                    "connection": entry.connection_id,
                    "kind": entry.kind,
                    "id": entry.id,
                    "most": _OTHERS,
                },
            )
        return frozenset(result["record_id"] for (text,) in rows if (result := _result(text)))

    def forget(self, *, before: int, most: int = 1000) -> int:
        """Delete actions that ended before this moment (ms), so many at once; return how many.

        What is dead or parked stays until somebody decides on it, and so does what it has made.
        """

        def work(tx: Connection) -> int:
            # What an operator brings back at this moment is passed over, and what another worker
            # deletes; in this order, or a planner whose statistics are old reads the whole table.
            skip = " for update skip locked" if tx.dialect == "postgresql" else ""
            rows = tx.rows(
                "select account_id, id from action where finished_at < :before"
                " and state in ('done', 'refused', 'discarded')"
                f" order by finished_at limit :most{skip}",
                {"before": before, "most": most},
            )
            marks.forget(tx, rows, closed_before=earliest_id(before))
            tx.delete("action_try", {"account_id": "integer", "action_id": "text"}, rows)
            return tx.delete("action", {"account_id": "integer", "id": "text"}, rows)

        return self._database.transact(work)

    def _wake(self, tx: Connection) -> None:
        # Heard by the workers when the transaction commits; PostgreSQL tells each of them once.
        if tx.dialect == "postgresql":
            tx.run("notify crmhub_journal")


_INSERT = (
    "insert into action (account_id, id, connection_id, kind, person, hub_id, state, request,"
    " tries, run_at, give_up_at, lease, doubt_since, identity, idempotency_key, reason, created_at)"
    " values (:account, :id, :connection, :kind, :person, :hub_id, :state, :request, 0, :run_at,"
    " :give_up, :lease, :doubt, :identity, :key, '', :now)"
)
# From one account to the next through the index: what it costs grows with the accounts that
# have something to do, not with how much that is.
_FIRST = (
    "(select min(a.run_at) from action a where a.account_id = c.account_id"
    " and a.connection_id = c.id and a.state in ('running', 'queued')"
)
_DUE = (
    "with recursive busy (account_id) as ("
    " select min(account_id) from action where state in ('running', 'queued')"
    " union all select (select min(a.account_id) from action a"
    " where a.state in ('running', 'queued') and a.account_id > busy.account_id)"
    " from busy where busy.account_id is not null),"
    f" waiting as (select c.account_id, c.id, {_FIRST}) as first,"
    f" {_FIRST} and a.run_at > :now) as following"
    " from busy join connection c on c.account_id = busy.account_id)"
    " select w.account_id, w.id, w.first, w.following, coalesce(o.until, 0) from waiting w"
    " left join outage o on o.account_id = w.account_id and o.connection_id = w.id"
    " where w.first is not null"
)
_ENTRY = (
    "id, kind, person, hub_id, request, tries, doubt_since, created_at, give_up_at, corrected,"
    " written_at"
)


def _entry(
    account_id: int, connection_id: int, row: Any, token: str, moment: int, probing: bool
) -> Entry:
    id, kind, person, hub_id, request, tries, doubt, *times, corrected, written_at = row
    created_at, give_up_at = times
    if doubt == moment and written_at is None:
        # Set by this claim itself when there was none.
        doubt = 0
    return Entry(
        account_id,
        id,
        connection_id,
        kind,
        person,
        hub_id,
        json.loads(request),
        tries,
        token,
        doubt,
        created_at,
        give_up_at,
        probing,
        json.loads(corrected or "{}"),
        # A version before this column has left only the doubt.
        written_at or doubt,
    )


def _entry_of_new(row: Mapping[str, Any], new: New) -> Entry:
    return Entry(
        row["account"],
        row["id"],
        row["connection"],
        new.kind,
        new.person,
        new.hub_id,
        new.request,
        0,
        row["lease"],
        0,
        row["now"],
        row["give_up"],
    )


def _next(entry: Entry, outcome: Outcome, moment: int) -> tuple[State, int, int]:
    """Return the state after a try, when it is due again, and how many tries have counted."""
    if outcome.state != "queued":
        return outcome.state, moment, entry.tries + 1
    # While its CRM is away, an action uses up none of its tries.
    tries = entry.tries + (1 if outcome.counts and not entry.probing else 0)
    if tries > len(DELAYS_S) or moment > entry.give_up_at:
        return "dead", moment, tries
    wait = outcome.wait_s
    if outcome.counts and not wait:
        jitter = random.uniform(1 - _JITTER, 1 + _JITTER)
        wait = DELAYS_S[max(tries, 1) - 1] * jitter
    return "queued", moment + int(wait * 1000), tries


def _is_blocked(tx: Connection, entry: Entry, lead_id: str) -> bool:
    """Return whether an action waits for this dead lead; until the transaction ends it does then.

    Whoever retries or discards the lead, or creates the contact by another one, waits for the
    transaction, and finds the action parked.
    """
    of = {
        "account": entry.account_id,
        "connection": entry.connection_id,
        "id": entry.id,
        "lead": lead_id,
        "hub_id": entry.hub_id,
    }
    lock = tx.for_update
    # In the order in which others lock these rows.
    tx.row(f"select 1 from action where account_id = :account and id = :id{lock}", of)
    state = tx.scalar(
        f"select state from action where account_id = :account and id = :lead{lock}", of
    )
    if state not in ("dead", "parked"):
        return False
    crm_id = tx.scalar(
        "select crm_id from binding where account_id = :account"
        f" and connection_id = :connection and hub_id = :hub_id{lock}",
        of,
    )
    return crm_id is None


def _unblock(tx: Connection, entry: Entry, moment: int) -> int:
    """Queue what was parked of a lead's contact, which the CRM has now; return how many."""
    return tx.run(
        "update action as a set state = 'queued', run_at = :now, give_up_at = :give_up, tries = 0,"
        " finished_at = null, behind = null, reason = ''"
        " where a.account_id = :account and a.connection_id = :connection and a.state = 'parked'"
        # The lead may have shown that two persons are one.
        " and a.person = (select b.person from binding b where b.account_id = :account"
        " and b.connection_id = :connection and b.hub_id = :hub_id)"
        f" and {SAME_CONTACT}",
        {
            "account": entry.account_id,
            "connection": entry.connection_id,
            "hub_id": entry.hub_id,
            "now": moment,
            "give_up": moment + LONGEST_MS,
        },
    )


def _said(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the caller said, without what the hub added."""
    return {name: value for name, value in request.items() if name != "before"}


def _as_accepted(request: str, versions: str | None) -> Mapping[str, Any]:
    """Return the request as it was accepted, before any correction."""
    kept: Mapping[str, Any] = (
        json.loads(versions)[0]["request"] if versions else json.loads(request)
    )
    return kept


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _result(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    found: Mapping[str, Any] = json.loads(text)
    return found
