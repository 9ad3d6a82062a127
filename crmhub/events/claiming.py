"""Claim due deliveries with a lease.

Of each subject and subscription only the first queued delivery can be claimed. So events of one
record arrive in order, and a failed one holds back only those of the same record. A lease is a
token, with its end in `run_at`: the delivery of a process that died becomes due again by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from crmhub.database.claims import DELIVERIES, build_claim, new_lease
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import set_where
from crmhub.database.several_accounts import AvailableRows, Only
from crmhub.database.statements import Statement, equals, in_list, one_of, param
from crmhub.database.tables import account, api_key, event, event_delivery, event_subscription
from crmhub.events.schedule import FAILURES_TO_PAUSE, LEASE_MS

INSTALLATION = 0
"""The account id of alerts, which go to the operator's webhook (CRMHUB_ALERT_URL)."""
ALERTS = "alerts"
"""The subscription id of the operator's webhook, which no row of a subscription has."""
ALERTS_TO_PEOPLE = {"chat": "alerts:chat", "email": "alerts:email"}
"""The same of the alerts for people, by the way on which they are sent."""

_d, _s = event_delivery.c, event_subscription.c
# Conditions of statements on deliveries and subscriptions.
IS_QUEUED = one_of(_d.state, "queued")
IS_OF_SUBSCRIPTION = sa.and_(*equals(event_delivery, "account_id", "subscription_id"))
IS_SUBSCRIPTION = sa.and_(_s.account_id == param("account_id"), _s.id == param("subscription_id"))


def _due_of_all_accounts(only: Only) -> sa.Select[Any]:
    # A scalar subquery per subscription reads the index once, however many deliveries wait.
    of_subscription = sa.and_(
        _d.account_id == _s.account_id, _d.subscription_id == _s.id, one_of(_d.state, "queued")
    )
    first = sa.select(sa.func.min(_d.run_at)).where(of_subscription, only(event_delivery))
    return (
        sa.select(
            _s.account_id,
            _s.id,
            _s.failures,
            _s.paused_until,
            _s.key_id,
            api_key.c.revoked_at,
            api_key.c.expires_at,
            first.scalar_subquery().label("first"),
        )
        .select_from(event_subscription)
        .join(account, account.c.id == _s.account_id)
        .outerjoin(
            api_key, sa.and_(api_key.c.account_id == _s.account_id, api_key.c.id == _s.key_id)
        )
        .where(
            one_of(_s.state, "active"), account.c.disabled_at.is_(None), only(event_subscription)
        )
    )


_DUE = AvailableRows(_due_of_all_accounts)
_DUE_ALERTS = AvailableRows(
    lambda only: (
        sa.select(_d.run_at)
        .where(IS_OF_SUBSCRIPTION, IS_QUEUED, only(event_delivery))
        .order_by(_d.run_at)
        .limit(1)
    )
)
_SUBSCRIPTION = Statement(
    sa.select(event_subscription, account.c.client_id)
    .join(account, account.c.id == _s.account_id)
    .where(IS_SUBSCRIPTION, one_of(_s.state, "active"), _s.paused_until <= param("now"))
)
_CLAIM = build_claim(DELIVERIES, "subscription_id", returning=[_d.event_id])
_CLAIMED = Statement(
    sa.select(
        _d.account_id,
        _d.subscription_id,
        _d.event_id,
        _d.subject,
        _d.attempts,
        _d.give_up_at,
        _d.lease,
        event.c.type,
        event.c.data,
        event.c.created_at,
    )
    .join(event, sa.and_(event.c.account_id == param("account_id"), event.c.id == _d.event_id))
    .where(IS_OF_SUBSCRIPTION, in_list(_d.event_id, "ids"))
)


@dataclass(frozen=True, slots=True)
class DueSubscription:
    """A subscription with due deliveries; `is_failing` if its last calls have failed.

    `key_end`: the id of its ended API key and how it ended; after that nothing is delivered.
    """

    account_id: int
    id: str
    is_failing: bool = False
    key_end: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery on which this process has a lease, with its event; `data` is JSON text."""

    account_id: int
    subscription_id: str
    event_id: str
    subject: str
    attempts: int
    give_up_at: int
    lease: str
    type: str
    data: str = field(repr=False)
    created_at: int
    is_probe: bool = field(default=False, kw_only=True)

    @property
    def is_alert(self) -> bool:
        return self.account_id == INSTALLATION

    @property
    def held(self) -> dict[str, Any]:
        """The delivery's key and its lease."""
        return {
            "account_id": self.account_id,
            "subscription_id": self.subscription_id,
            "event_id": self.event_id,
            "lease": self.lease,
        }


def find_due(
    database: Database, *, with_alerts: bool = False
) -> tuple[list[DueSubscription], int | None]:
    """Return the due subscriptions, and in how many ms the next others are due, None for never.

    The longest waiting comes first. Subscriptions whose API key has ended are among them.
    `with_alerts`: the operator's webhook, too.
    """
    of_alerts = {"account_id": INSTALLATION, "subscription_id": ALERTS}
    rows = _DUE.read(database, {})
    alerts = _DUE_ALERTS.read(database, of_alerts) if with_alerts else []
    alerts_at = alerts[0].run_at if alerts else None
    with database.reading() as db:
        now = db.now_ms() if rows or alerts else 0
    due, later = [], []
    if alerts_at is not None and alerts_at <= now:
        due.append((alerts_at, DueSubscription(INSTALLATION, ALERTS)))
    elif alerts_at is not None:
        later.append(alerts_at - now)
    for row in rows:
        if row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= now):
            how = "has expired" if row.revoked_at is None else "was revoked"
            end = (row.key_id, how)
            due.append((0, DueSubscription(row.account_id, row.id, key_end=end)))
            continue
        if row.first is None:
            continue
        at = max(row.first, row.paused_until)
        if at > now:
            later.append(at - now)
        else:
            failing = row.failures >= FAILURES_TO_PAUSE
            due.append((row.first, DueSubscription(row.account_id, row.id, failing)))
    due.sort(key=lambda one: one[0])
    return [one for _, one in due], min(later, default=None)


def has_due_alerts(database: Database, subscription_id: str) -> bool:
    of = {"account_id": INSTALLATION, "subscription_id": subscription_id}
    rows = _DUE_ALERTS.read(database, of)
    with database.reading() as db:
        return bool(rows) and min(row.run_at for row in rows) <= db.now_ms()


def claim(
    database: Database, due: DueSubscription, *, most: int
) -> tuple[Any, list[Claimed]] | None:
    """Claim up to `most` due deliveries of a subscription; return them with its database row.

    A failing one gets a single probe. None if it is paused or not active any more. The operator's
    webhook has no row.
    """

    def claim_due(tx: Connection) -> tuple[Any, list[Claimed]] | None:
        now = tx.now_ms()
        of = {"account_id": due.account_id, "subscription_id": due.id}
        key = {"account_id": due.account_id, "id": due.id}
        row = tx.row(_SUBSCRIPTION, of | {"now": now})
        if row is None and due.account_id != INSTALLATION:
            return None
        probe = row is not None and row.failures >= FAILURES_TO_PAUSE
        if probe:
            unpaused = key | {"paused_until": row.paused_until}
            if not set_where(tx, event_subscription, unpaused, paused_until=now + LEASE_MS):
                return None
        times = {"now": now, "until": now + LEASE_MS}
        limit = {"limit": 1 if probe else most, "lease": new_lease()}
        ids = [row.event_id for row in tx.rows(_CLAIM, of | times | limit)]
        if probe and not ids:
            set_where(tx, event_subscription, key, paused_until=row.paused_until)
        claimed = tx.rows(_CLAIMED, of | {"ids": ids}) if ids else []
        return row, [Claimed(*each, is_probe=probe) for each in claimed]

    return database.transact(claim_due)
