"""Delete old events: delivered ones after 7 days, failed ones after 30, and those of a person."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.expired import find_expired
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.database.tables import event, event_delivery
from crmhub.events.schedule import KEPT_DELIVERED_MS, KEPT_FAILED_MS

_e, _d = event.c, event_delivery.c
_KEY = {"account_id": "int", "event_id": "text", "subscription_id": "text"}
_DELETE_UNUSED = Statement(
    sa.delete(event).where(
        _e.account_id == param("account_id"),
        in_list(_e.id, "ids"),
        sa.not_(
            sa.exists(
                sa.select(sa.literal_column("1")).where(
                    _d.account_id == param("account_id"), _d.event_id == _e.id
                )
            )
        ),
    )
)
_OF_SUBJECTS = Statement(
    sa.select(_e.id).where(_e.account_id == param("account_id"), in_list(_e.subject, "subjects"))
)
_DELETE_EVENTS = Statement(
    sa.delete(event).where(_e.account_id == param("account_id"), in_list(_e.id, "ids"))
)
_DELETE_DELIVERIES = Statement(
    sa.delete(event_delivery).where(
        _d.account_id == param("account_id"), in_list(_d.event_id, "ids")
    )
)


def delete_expired(database: Database, *, most: int = 1000) -> int:
    """Delete expired deliveries with their events, up to `most` delivered and `most` failed ones.

    Returns their number, at most `most`, which means that there may be more. An event whose
    subscription was deleted goes after the longest time.
    """
    now = now_ms()
    finished = _d.finished_at
    delivered = one_of(_d.state, "delivered")
    old = find_expired(
        database, finished, before=now - KEPT_DELIVERED_MS, most=most, where=delivered
    )
    failed = sa.not_(delivered)
    old += find_expired(database, finished, before=now - KEPT_FAILED_MS, most=most, where=failed)
    ids: dict[int, list[str]] = {}
    for account_id, event_id, *_ in old:
        ids.setdefault(account_id, []).append(event_id)

    def delete(tx: Connection) -> None:
        # A delivery that was queued again meanwhile has no such time any more.
        tx.delete("event_delivery", {**_KEY, "finished_at": "bigint"}, old)
        for account_id, own in sorted(ids.items()):
            tx.run(_DELETE_UNUSED, {"account_id": account_id, "ids": own})

    if old:
        database.transact(delete)
    _delete_orphans(database, now - 2 * KEPT_FAILED_MS, most)
    return min(len(old), most)


def _delete_orphans(database: Database, before: int, most: int) -> None:
    """Delete old events that no delivery needs, and deliveries without a subscription."""
    old = find_expired(database, _e.created_at, before=before, most=most)
    if not old:
        return

    def delete(tx: Connection) -> None:
        keys = [row[:2] for row in old]
        tx.delete("event_delivery", {"account_id": "int", "event_id": "text"}, keys)
        tx.delete("event", {"account_id": "int", "id": "text"}, keys)

    database.transact(delete)


def erase(tx: Connection, account_id: int, subjects: Collection[str]) -> int:
    """Delete all events of these subjects, delivered or not; return the number of events."""
    if not subjects:
        return 0
    rows = tx.rows(_OF_SUBJECTS, {"account_id": account_id, "subjects": sorted(subjects)})
    ids = [row.id for row in rows]
    if ids:
        tx.run(_DELETE_DELIVERIES, {"account_id": account_id, "ids": ids})
        tx.run(_DELETE_EVENTS, {"account_id": account_id, "ids": ids})
    return len(ids)
