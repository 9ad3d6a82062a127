"""Receivers of events in tests: an HTTP server that notes what it gets and answers as told."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from crmhub.database.statements import Statement, param
from crmhub.database.tables import event, event_delivery
from crmhub.hub import Hub
from crmhub.operations import event_subscriptions
from crmhub.operations.event_subscriptions import NewSubscription
from tests.clients import TESTS, Client

HOOK = "http://127.0.0.1:9/secret-path/"
"""An address at which nobody listens."""
_EVENTS = Statement(
    sa.select(event, event_delivery.c.position)
    .join(
        event_delivery,
        sa.and_(
            event_delivery.c.account_id == event.c.account_id,
            event_delivery.c.event_id == event.c.id,
        ),
    )
    .where(event.c.account_id == param("account_id"))
    .order_by(event_delivery.c.position, event.c.id)
)


def subscribe(hub: Hub, client: Client, *types: str, url: str = HOOK) -> NewSubscription:
    """Subscribe the client's account to these types of events."""
    return event_subscriptions.add(hub, client.account.client_id, url=url, types=types, by=TESTS)


def events_of(hub: Hub, client: Client) -> list[Any]:
    """Return the events of the client's account, in the order in which they are delivered."""
    with hub.database.across_accounts(), hub.database.reading() as db:
        return db.rows(_EVENTS, {"account_id": client.account.id})
