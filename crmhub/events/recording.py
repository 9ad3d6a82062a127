"""Store events in the transaction of their change, with a delivery for each route; erase them.

The routes are at hand (`accounts.event_routes`), so an account without subscriptions needs no
statement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.event_routes import EventRoutes, is_wanted, wanted_types
from crmhub.database import tables
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import event_delivery
from crmhub.events.claiming import ALERTS, INSTALLATION, IS_OF_SUBSCRIPTION, IS_QUEUED
from crmhub.events.messages import dump_data, new_id
from crmhub.events.schedule import LONGEST_MS, SKEW_MS

# Events of one change of a subject: their positions keep the order in which they are given.
_EVENTS_OF_CHANGE = 16
_e, _d = tables.event.c, event_delivery.c
_OF_SUBJECTS = Statement(
    sa.select(_e.id).where(_e.account_id == param("account_id"), in_list(_e.subject, "subjects"))
)
_REPLACE = Statement(
    sa.delete(event_delivery).where(
        IS_OF_SUBSCRIPTION, IS_QUEUED, _d.lease.is_(None), _d.subject == param("subject")
    )
)
_EVENT = {
    "account_id": "int",
    "id": "text",
    "type": "text",
    "subject": "text",
    "data": "text",
    "created_at": "bigint",
}
_DELIVERY = {
    "account_id": "int",
    "event_id": "text",
    "subscription_id": "text",
    "subject": "text",
    "position": "bigint",
    "state": "text",
    "run_at": "bigint",
    "attempts": "int",
    "give_up_at": "bigint",
    "reason": "text",
    "created_at": "bigint",
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a subject, such as the record "contacts:17".

    `at` (ms since 1970) must grow from change to change of the subject: it orders the deliveries.
    """

    type: str
    subject: str
    at: int
    data: Mapping[str, Any] = field(repr=False)


def wants(routes: EventRoutes, *types: str) -> bool:
    if not routes:
        return False
    wanted = wanted_types(routes)
    return any(is_wanted(wanted, type) for type in types)


def record_events(
    tx: Connection, account_id: int, routes: EventRoutes, events: Iterable[Event]
) -> None:
    """Store those of the events that a subscription gets, in the order in which they happened."""
    wanted = wanted_types(routes)
    now = now_ms()
    rows: list[tuple[Any, ...]] = []
    deliveries: list[tuple[Any, ...]] = []
    numbers: dict[tuple[str, int], int] = {}
    for event in events:
        number = numbers.get((event.subject, event.at), 0)
        numbers[event.subject, event.at] = number + 1
        if not is_wanted(wanted, event.type):
            continue
        id = new_id(now)
        rows.append((account_id, id, event.type, event.subject, dump_data(event.data), now))
        position = event.at * _EVENTS_OF_CHANGE + min(number, _EVENTS_OF_CHANGE - 1)
        # Due at once, even if the clock of this machine is a little ahead of the database's.
        times = (now - SKEW_MS, 0, now + LONGEST_MS, "", now)
        deliveries += [
            (account_id, id, route.subscription_id, event.subject, position, "queued", *times)
            for route in routes
            if is_wanted(route.types, event.type)
        ]
    if rows:
        tx.insert("event", _EVENT, rows)
        tx.insert("event_delivery", _DELIVERY, deliveries)
        tx.notify_workers()


def record_alert(
    tx: Connection,
    type: str,
    subject: str,
    data: Mapping[str, Any],
    due: Mapping[str, int],
    *,
    longest_ms: int = LONGEST_MS,
) -> str:
    """Store an alert, and return its id; `due` has the time of its delivery by subscription id.

    To the operator's webhook, those of one subject are sent in order. Of what waits for people, the
    new alert replaces the older one of its subject. It is given up after `longest_ms`.
    """
    now = now_ms()
    id = new_id(now)
    event = (INSTALLATION, id, type, subject, dump_data(data), now)
    tx.insert("event", _EVENT, [event])
    rows = []
    for subscription_id, run_at in due.items():
        if subscription_id != ALERTS:
            key = {"account_id": INSTALLATION, "subscription_id": subscription_id}
            tx.run(_REPLACE, key | {"subject": subject})
        times = (run_at, 0, now + longest_ms, "", now)
        position = now * _EVENTS_OF_CHANGE
        rows.append((INSTALLATION, id, subscription_id, subject, position, "queued", *times))
    tx.insert("event_delivery", _DELIVERY, rows)
    tx.notify_workers()
    return id


def erase(tx: Connection, account_id: int, subjects: Collection[str]) -> int:
    """Delete all events of these subjects, delivered or not; return the number of events."""
    if not subjects:
        return 0
    rows = tx.rows(_OF_SUBJECTS, {"account_id": account_id, "subjects": sorted(subjects)})
    ids = [(account_id, row.id) for row in rows]
    tx.delete("event_delivery", {"account_id": "int", "event_id": "text"}, ids)
    return tx.delete("event", {"account_id": "int", "id": "text"}, ids)
