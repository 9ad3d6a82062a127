"""Actions that have ended: their results, and their deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection, Database
from crmhub.database.expired import find_expired
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.database.tables import action
from crmhub.queue.models import as_result, earliest_id
from crmhub.records import marks

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


def result(database: Database, account_id: int, action_id: str) -> Mapping[str, Any] | None:
    """Return the result of an action; None unless the action's state is `done`."""
    with database.reading() as connection:
        return as_result(connection.scalar(_RESULT, {"account_id": account_id, "id": action_id}))


def forget(database: Database, *, before: int, most: int = 1000) -> int:
    """Delete up to `most` actions that ended before `before`; return their number.

    Failed and blocked actions stay, since an operator must decide on them.
    """
    ids: dict[int, list[str]] = {}
    for account_id, action_id, _ in find_expired(
        database, action.c.finished_at, before=before - 1, most=most, where=_HAS_ENDED
    ):
        ids.setdefault(account_id, []).append(action_id)

    def delete(tx: Connection) -> int:
        # Leaves out actions that an operator is retrying at this moment.
        rows = [
            row
            for account_id, own in sorted(ids.items())
            for row in tx.rows(_ENDED, {"account_id": account_id, "ids": own, "before": before})
        ]
        marks.forget(tx, rows, closed_before=earliest_id(before))
        tx.delete("action_try", {"account_id": "integer", "action_id": "text"}, rows)
        return tx.delete("action", {"account_id": "integer", "id": "text"}, rows)

    return database.transact(delete)
