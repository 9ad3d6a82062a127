"""Discard: an operator gives up actions for good and states a reason.

Actions that are blocked by a discarded action are discarded with it, since they could never be
sent. They are deleted after the same time as other finished actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import sqlalchemy as sa

from crmhub import metrics
from crmhub.audit import Author
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, in_list, one_of, param, params
from crmhub.database.tables import action
from crmhub.errors import Semantic
from crmhub.operators.actions import action_batches
from crmhub.operators.actions.action_batches import Chosen, Part
from crmhub.operators.actions.action_queries import Wanted
from crmhub.records import marks

DISCARDED = ("dead", "parked", "queued")
LONGEST_REASON = 500


def _close_where(*conditions: sa.ColumnElement[bool]) -> Statement:
    return Statement(
        sa.update(action)
        .where(action.c.account_id == param("account_id"), *conditions)
        .values(
            **params("reason", "finished_at"),
            state=sa.literal_column("'discarded'"),
            behind=sa.null(),
            cause=sa.null(),
            cause_text=sa.null(),
        )
        .returning(action.c.id, action.c.kind, action.c.doubt_since)
    )


_CLOSE_BLOCKED = _close_where(action_batches.BLOCKED_BEHIND)


@cache
def _close_in(states: tuple[str, ...]) -> Statement:
    return _close_where(in_list(action.c.id, "ids"), one_of(action.c.state, *states))


def narrowed(wanted: Wanted) -> Wanted:
    """Limit the selection to states that can be discarded, by default to failed actions."""
    wanted = action_batches.failed_by_default(wanted)
    return replace(wanted, states=[one for one in DISCARDED if one in (wanted.states or DISCARDED)])


def discardable(database: Database, wanted: Wanted, *, most: int) -> Chosen:
    return action_batches.chosen(database, wanted, DISCARDED, most=most)


def discard_one(database: Database, action_id: str, *, reason: str, by: Author) -> int:
    """Discard one action, as `discard` does; raises NotFound, and Conflict for its state."""
    count = discard(database, Wanted(ids=(action_id,)), reason=reason, by=by)
    if not count:
        raise action_batches.wrong_state(database, action_id, DISCARDED, "discarded")
    return count


def discard(database: Database, wanted: Wanted, *, reason: str, by: Author) -> int:
    """Return their number, with those that they block. Raises Semantic for an invalid reason."""
    why = checked_reason(reason)
    wanted = narrowed(wanted)
    if not wanted.states:
        return 0
    return action_batches.in_parts(
        database, wanted, partial(discard_part, database, reason=why, by=by)
    )


def checked_reason(reason: str) -> str:
    why = reason.strip()
    if not why or len(why) > LONGEST_REASON or not why.isprintable():
        raise Semantic(
            f"reason: say why in 1 to {LONGEST_REASON} printable characters, without line breaks"
        )
    return why


def discard_part(
    database: Database, wanted: Wanted, tx: Connection, *, reason: str, by: Author
) -> Part:
    """Discard up to `action_batches.AT_ONCE` of the selected actions, and those they block."""
    found = action_batches.newest(tx, wanted, wanted.states)
    closed: list[Any] = []
    for account_id, ids in action_batches.by_account(found):
        actions = _close(tx, _close_in(tuple(wanted.states)), account_id, ids, reason)
        if actions:
            ids = [one.id for one in actions]
            actions += _close(tx, _CLOSE_BLOCKED, account_id, ids, reason)
            # A process may still attempt an action whose lease has expired: the hub's own CRM
            # refuses new records with the ids of these actions as marks from now on.
            if doubted := [one.id for one in actions if one.doubt_since is not None]:
                marks.close(tx, account_id, doubted)
        closed += actions
    if closed:
        for one in closed:
            database.after_commit(partial(metrics.ended, one.kind, "discarded"))
        tx.notify_workers()
        action_batches.note(tx, by, "discard", found, {"discarded": len(closed)})
    return len(closed), len(found), next(reversed(found), "")


def _close(
    tx: Connection, statement: Statement, account_id: int, ids: Sequence[str], reason: str
) -> list[Any]:
    values = {"account_id": account_id, "ids": ids, "reason": reason, "finished_at": tx.now_ms()}
    return tx.rows(statement, values)
