"""Record the outcome of an attempt; then queue or block other actions of the same contact."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from crmhub import metrics
from crmhub.accounts.accounts import Account
from crmhub.adapter.calls import to_stored
from crmhub.database.claims import next_attempt
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import find_row, set_where
from crmhub.database.statements import Statement, equals, one_of, param, params
from crmhub.database.tables import action, action_try, binding
from crmhub.identity.bindings import IS_BINDING, same_contact
from crmhub.queue import action_events
from crmhub.queue.causes import cause_of
from crmhub.queue.models import (
    UNFINISHED,
    Entry,
    Outcome,
    State,
    as_json,
    as_result,
    dump_result,
    shown,
)
from crmhub.queue.outages import Outage
from crmhub.queue.schedule import DELAYS_S, LONGEST_MS

Attempt = tuple[Entry, Outcome, Callable[[Connection], None]]
"""An action, the outcome of its attempt, and further writes for the same transaction."""

# Outcomes of attempts that did not call the CRM.
_UNASKED = ("Behind", "NotYet", "LimitExceeded", "TooManyRequests")

_a, _b = action.c, binding.c
_GIVEN = (
    "account_id",
    "action_id",
    "began_at",
    "ms",
    "outcome",
    "message",
    "correlation_id",
    "calls",
)
# INSERT FROM SELECT, since a database that distributes the table rejects a subquery in VALUES.
_RECORD_ATTEMPT = Statement(
    sa.insert(action_try).from_select(
        [*_GIVEN, "number"],
        sa.select(*map(param, _GIVEN), sa.func.count() + sa.literal_column("1"))
        .select_from(action_try)
        .where(*equals(action_try, "account_id", "action_id")),
    )
)
_UNBLOCK = Statement(
    sa.update(action)
    .where(
        *equals(action, "account_id", "connection_id"),
        one_of(_a.state, "parked"),
        # The lead may have merged two persons, so read the person now.
        _a.person == sa.select(_b.person).where(IS_BINDING).scalar_subquery(),
        same_contact(action),
    )
    .values(
        **params("run_at", "give_up_at"),
        queued_at=param("run_at"),
        state=sa.literal_column("'queued'"),
        tries=sa.literal_column("0"),
        finished_at=sa.null(),
        behind=sa.null(),
        reason=sa.literal_column("''"),
        cause=sa.null(),
        cause_text=sa.null(),
    )
)


def finish(
    database: Database,
    attempts: Sequence[Attempt],
    account: Account | None = None,
) -> list[bool]:
    """Record the outcomes of attempts and run their further writes, in one transaction.

    `account`: for the events of its subscriptions; None stores none. Return for each attempt
    whether its outcome was recorded: not if its lease had expired and another process has the
    action.
    """

    def record(tx: Connection) -> list[bool]:
        moment = tx.now_ms()
        return [_finish_one(tx, database, moment, *each, account) for each in attempts]

    return database.transact(record)


def _finish_one(
    tx: Connection,
    database: Database,
    moment: int,
    entry: Entry,
    outcome: Outcome,
    extra_writes: Callable[[Connection], None],
    account: Account | None,
) -> bool:
    causes = _causes(entry, outcome, account)
    if outcome.state == "parked":
        lead = _find_blocker(tx, entry, outcome.behind)
        if lead is None:
            # The lead was retried or discarded meanwhile: nothing would queue this action again.
            outcome = replace(outcome, state="queued", behind="", wait_s=DELAYS_S[0])
        else:
            causes = {"cause": lead.cause, "cause_text": lead.cause_text}
    state, run_at, tries = _next(entry, outcome, moment)
    if not _record(tx, entry, outcome, moment, state, run_at, tries, causes):
        return False
    if state not in (*UNFINISHED, "parked"):
        database.after_commit(partial(metrics.ended, entry.kind, state))
    extra_writes(tx)
    if state == "done" and entry.kind == "createLead" and unblock(tx, entry, moment):
        tx.notify_workers()
    if account is not None:
        action_events.note_finished(tx, account, entry, outcome, state, moment)
    _note_outage(tx, account, entry, outcome, moment)
    return True


def _causes(entry: Entry, outcome: Outcome, account: Account | None) -> dict[str, str | None]:
    """Return the columns that say why the action failed; null for one that has ended otherwise."""
    cause = None
    if outcome.state not in ("done", "refused", "discarded"):
        adapter = account.connection.adapter if account else ""
        message = shown(outcome.message)
        cause = cause_of(adapter, entry.kind, outcome.word, message, entry.request)
    if cause is None:
        return {"cause": None, "cause_text": None}
    return {"cause": cause.key, "cause_text": cause.to_text()}


def _record(
    tx: Connection,
    entry: Entry,
    outcome: Outcome,
    moment: int,
    state: State,
    run_at: int,
    tries: int,
    causes: Mapping[str, str | None],
) -> bool:
    """Store an action's new state and its attempt; return False if another process has it."""
    ended = moment
    if outcome.ended:
        ended -= round((time.monotonic() - outcome.ended) * 1000)
    began = ended - outcome.ms
    values = {
        "state": state,
        "run_at": run_at,
        "lease": None,
        "tries": tries,
        "written_at": ended if outcome.doubt else entry.written_at or None,
        "reason": shown(outcome.message),
        "result": None if outcome.result is None else dump_result(outcome.result),
        "finished_at": None if state in UNFINISHED else moment,
        "behind": outcome.behind or None,
        **causes,
    }
    # The doubt of an earlier attempt stays, since it may have been corrected in the meantime.
    if not entry.doubt_since:
        values["doubt_since"] = began if outcome.doubt else None
    if outcome.mapped is not None:
        values["mapped"] = as_json(outcome.mapped)
    if not set_where(tx, action, entry.held, **values):
        return False
    tx.run(
        _RECORD_ATTEMPT,
        {
            "account_id": entry.account_id,
            "action_id": entry.id,
            "began_at": began,
            "ms": outcome.ms,
            "outcome": outcome.word,
            "message": shown(outcome.message),
            "correlation_id": shown(outcome.correlation_id),
            "calls": json.dumps(to_stored(outcome.calls)) if outcome.calls else None,
        },
    )
    return True


def _note_outage(
    tx: Connection, account: Account | None, entry: Entry, outcome: Outcome, moment: int
) -> None:
    """Open, extend or close the circuit breaker of the action's connection, by the outcome."""
    outage = Outage(tx, entry.account_id, entry.connection_id)
    if outcome.away or outcome.throttled:
        if outage.note(outcome, moment, probing=entry.probing) and account is not None:
            action_events.note_failing(tx, account, entry.connection_id, outcome, moment)
    elif entry.probing and (outcome.is_local or outcome.word in _UNASKED):
        outage.probe_again(moment)
    elif entry.probing:
        outage.end()
        if account is not None:
            action_events.note_recovered(tx, account, entry.connection_id, moment)
        tx.notify_workers()


def _next(entry: Entry, outcome: Outcome, moment: int) -> tuple[State, int, int]:
    """Return an action's new state, due time, and attempts that count for the retry schedule."""
    if outcome.state != "queued":
        return outcome.state, moment, entry.tries + 1
    # Attempts while the CRM is unavailable do not count.
    tries = entry.tries + (1 if outcome.counts and not entry.probing else 0)
    run_at = next_attempt(
        DELAYS_S,
        tries,
        now=moment,
        give_up_at=entry.give_up_at,
        wait_s=None if outcome.counts and not outcome.wait_s else outcome.wait_s,
    )
    return ("dead", moment, tries) if run_at is None else ("queued", run_at, tries)


def _find_blocker(tx: Connection, entry: Entry, lead_id: str) -> Any:
    """Return the lead if it still blocks the action, else None; lock the lead's row.

    While the row is locked, other processes cannot retry or discard the lead, nor create its
    contact. So they will find the blocked action afterwards.
    """
    of = {"account_id": entry.account_id}
    # The same order of locks as everywhere, to avoid deadlocks.
    find_row(tx, action, of | {"id": entry.id}, lock=True)
    lead = find_row(tx, action, of | {"id": lead_id}, lock=True)
    if lead is None or lead.state not in ("dead", "parked"):
        return None
    contact = of | {"connection_id": entry.connection_id, "hub_id": entry.hub_id}
    found = find_row(tx, binding, contact, lock=True)
    return lead if found is None or found.crm_id is None else None


def unblock(tx: Connection, entry: Entry, moment: int) -> int:
    """Queue the blocked actions of a contact, since the CRM has it now; return their number."""
    return tx.run(
        _UNBLOCK,
        {
            "account_id": entry.account_id,
            "connection_id": entry.connection_id,
            "hub_id": entry.hub_id,
            "run_at": moment,
            "give_up_at": moment + LONGEST_MS,
        },
    )


def open_circuit(database: Database, account: Account, outcome: Outcome) -> None:
    """Open the account's circuit breaker, because a read with this outcome failed."""

    def note(tx: Connection) -> None:
        outage, moment = Outage(tx, account.id, account.connection.id), tx.now_ms()
        if outage.note(outcome, moment, probing=False):
            action_events.note_failing(tx, account, account.connection.id, outcome, moment)

    database.transact(note)


def take_refusal(database: Database, account_id: int, action_id: str) -> Mapping[str, Any] | None:
    """Return the error of an action that failed or was ended, None if it did not.

    Its caller gets the error now, so no operator has to decide on it.
    """
    of = {"account_id": account_id, "id": action_id}

    def take(tx: Connection) -> Mapping[str, Any] | None:
        row = find_row(tx, action, of, lock=True)
        if row is None or row.state not in ("dead", "refused", "discarded"):
            return None
        result = as_result(row.result)
        if row.state == "dead" and result is not None:
            set_where(tx, action, of, state="refused", cause=None, cause_text=None)
        return result or {"error": "Semantic", "message": row.reason or "It was ended."}

    return database.transact(take)


def result_of(database: Database, account_id: int, action_id: str) -> Mapping[str, Any] | None:
    """Return the result of an action; None unless the action's state is `done`."""
    with database.reading() as db:
        row = find_row(db, action, {"account_id": account_id, "id": action_id})
    return as_result(row.result) if row is not None and row.state == "done" else None
