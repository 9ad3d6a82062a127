"""Retry: an operator queues failed, refused, blocked or waiting actions again.

A retried action keeps its id, its place in the order of its person's actions, and the note that an
earlier attempt may have written to the CRM.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import sqlalchemy as sa

from crmhub.audit import Author
from crmhub.database import tables
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, in_list, one_of, param, params
from crmhub.operators.actions import action_batches
from crmhub.operators.actions.action_batches import Chosen, Part
from crmhub.operators.actions.action_queries import Wanted
from crmhub.queue.schedule import LONGEST_MS

RETRIED = ("dead", "refused", "parked", "queued")


def _queue_where(*conditions: sa.ColumnElement[bool]) -> Statement:
    return Statement(
        sa.update(tables.action)
        .where(tables.action.c.account_id == param("account_id"), *conditions)
        .values(
            **params("run_at", "give_up_at"),
            state=sa.literal_column("'queued'"),
            queued_at=param("run_at"),
            tries=sa.literal_column("0"),
            finished_at=sa.null(),
            behind=sa.null(),
            result=sa.null(),
        )
    )


_QUEUE = _queue_where(in_list(tables.action.c.id, "ids"), one_of(tables.action.c.state, *RETRIED))
_QUEUE_BLOCKED = _queue_where(action_batches.BLOCKED_BEHIND)


def retriable(database: Database, wanted: Wanted, *, most: int) -> Chosen:
    return action_batches.chosen(database, wanted, RETRIED, most=most)


def retry_one(database: Database, action_id: str, *, by: Author) -> int:
    """Queue an action, as `retry` does; raises NotFound, and Conflict for its state."""
    count = retry(database, Wanted(ids=(action_id,)), by=by)
    if not count:
        raise action_batches.wrong_state(database, action_id, RETRIED, "retried")
    return count


def retry(database: Database, wanted: Wanted, *, by: Author) -> int:
    """Queue the selected actions, by default failed ones, and those that they block."""
    return action_batches.in_parts(
        database, action_batches.failed_by_default(wanted), partial(retry_part, by=by)
    )


def retry_part(wanted: Wanted, tx: Connection, *, by: Author) -> Part:
    """Queue up to `action_batches.AT_ONCE` of the selected actions, and those that they block."""
    found = action_batches.newest(tx, wanted, RETRIED)
    count = 0
    for account_id, ids in action_batches.by_account(found):
        count += _queue(tx, _QUEUE, account_id, ids) + queue_blocked(tx, account_id, ids)
    if count:
        tx.notify_workers()
        action_batches.note(tx, by, "retry", found, {"retried": count})
    return count, len(found), next(reversed(found), "")


def queue_blocked(tx: Connection, account_id: int, ids: Sequence[str]) -> int:
    """Queue the account's actions that the failed leads `ids` block; return their number."""
    return _queue(tx, _QUEUE_BLOCKED, account_id, ids)


def _queue(tx: Connection, statement: Statement, account_id: int, ids: Sequence[str]) -> int:
    now = tx.now_ms()
    values = {"account_id": account_id, "ids": ids, "run_at": now, "give_up_at": now + LONGEST_MS}
    return tx.run(statement, values)
