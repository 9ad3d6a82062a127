"""Record the outcomes of the attempts of deliveries, and what follows for their subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from crmhub.database.claims import next_attempt, pause_ms
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import find_row, set_where
from crmhub.database.statements import Statement, param, unindexed
from crmhub.database.tables import event_delivery, event_subscription
from crmhub.events.claiming import IS_OF_SUBSCRIPTION, IS_QUEUED, IS_SUBSCRIPTION, Claimed
from crmhub.events.schedule import ALERT_DELAYS_S, DELAYS_S, FAILURES_TO_PAUSE, SWITCH_OFF_MS
from crmhub.events.sending import Attempt

_d, _s = event_delivery.c, event_subscription.c
_WAITING = sa.and_(IS_OF_SUBSCRIPTION, IS_QUEUED, _d.lease.is_(None))
_FOLLOWING = sa.and_(_WAITING, _d.subject == param("subject"))
_POSTPONE_FOLLOWING = Statement(
    sa.update(event_delivery)
    .where(_FOLLOWING, unindexed(_d.run_at) < param("run_at"))
    .values(run_at=param("run_at"))
)
_QUEUE_FOLLOWING = Statement(
    sa.update(event_delivery)
    .where(_FOLLOWING, unindexed(_d.run_at) > param("now"))
    .values(run_at=param("now"))
)
_QUEUE_ALL = Statement(
    sa.update(event_delivery).where(_WAITING, _d.run_at > param("now")).values(run_at=param("now"))
)
# What an alert for people has kept waiting after a failure; quiet hours hold back the others.
_QUEUE_FAILED = Statement(
    sa.update(event_delivery)
    .where(_WAITING, _d.run_at > param("now"), _d.attempts > 0)
    .values(run_at=param("now"))
)
_NOTE_SUCCESS = Statement(
    sa.update(event_subscription)
    .where(IS_SUBSCRIPTION, _s.failures > 0)
    .values(
        failures=sa.literal_column("0"),
        failing_since=sa.null(),
        paused_until=sa.literal_column("0"),
        reason=sa.literal_column("''"),
    )
)


def release(database: Database, claimed: Claimed) -> None:
    database.transact(
        lambda tx: set_where(tx, event_delivery, claimed.held, lease=None, run_at=tx.now_ms())
    )


def finish(database: Database, attempts: Sequence[tuple[Claimed, Attempt]]) -> list[bool]:
    """Record the outcomes of attempts in one transaction; return which subscriptions to switch off.

    Nothing is recorded of a delivery that another process has taken over.
    """

    def record(tx: Connection) -> list[bool]:
        now = tx.now_ms()
        switch_off = [False] * len(attempts)
        # In one order, so that two processes do not wait for each other's subscriptions.
        for i in sorted(range(len(attempts)), key=lambda i: attempts[i][0].subscription_id):
            claimed, attempt = attempts[i]
            if attempt.succeeded:
                _note_success(tx, claimed, attempt, now)
            else:
                switch_off[i] = _note_failure(tx, claimed, attempt, now)
        return switch_off

    return database.transact(record)


def finish_together(database: Database, claimed: Sequence[Claimed], attempt: Attempt) -> int | None:
    """Record the outcome of one message with several alerts, which stay together until the next.

    Return the time of the next attempt, or None.
    """

    def record(tx: Connection) -> int | None:
        now = tx.now_ms()
        run_at = None
        if not attempt.succeeded:
            failures = 1 + min(one.attempts for one in claimed)
            latest = max(one.give_up_at for one in claimed)
            run_at = next_attempt(
                ALERT_DELAYS_S, failures, now=now, give_up_at=latest, wait_s=attempt.retry_after_s
            )
        for one in claimed:
            given_up = run_at is None or now > one.give_up_at
            values: dict[str, Any] = {"lease": None, "state": "queued", "run_at": run_at}
            if attempt.succeeded or given_up:
                state = "delivered" if attempt.succeeded else "failed"
                values = {"lease": None, "state": state, "finished_at": now}
            set_where(tx, event_delivery, one.held, **values, **_attempted(one, attempt))
        if attempt.succeeded:
            tx.run(_QUEUE_FAILED, _of(claimed[0]) | {"now": now})
        return run_at

    return database.transact(record)


def _note_success(tx: Connection, claimed: Claimed, attempt: Attempt, now: int) -> None:
    ended = {"state": "delivered", "lease": None, "finished_at": now}
    if not set_where(tx, event_delivery, claimed.held, **ended, **_attempted(claimed, attempt)):
        return
    of = _of(claimed)
    recovered = tx.run(_NOTE_SUCCESS, of) and claimed.is_probe
    if recovered:
        # What has waited for hours because of the outage goes at once.
        tx.run(_QUEUE_ALL, of | {"now": now})
    elif claimed.attempts:
        # Only a failed attempt has postponed them.
        tx.run(_QUEUE_FOLLOWING, of | {"subject": claimed.subject, "now": now})


def _note_failure(tx: Connection, claimed: Claimed, attempt: Attempt, now: int) -> bool:
    of = _of(claimed)
    failures = claimed.attempts + 1
    # An alert's few attempts last for a day; of a subscription, a pause of its own bounds them.
    delays_s = ALERT_DELAYS_S if claimed.is_alert else DELAYS_S
    wait_s = None if claimed.is_alert else attempt.retry_after_s
    run_at = next_attempt(delays_s, failures, now=now, give_up_at=claimed.give_up_at, wait_s=wait_s)
    if run_at is None or (attempt.gone and not claimed.is_alert):
        values = {"state": "failed", "lease": None, "finished_at": now}
        statement, following = _QUEUE_FOLLOWING, {"now": now}
    else:
        values = {"lease": None, "run_at": run_at}
        statement, following = _POSTPONE_FOLLOWING, {"run_at": run_at}
    if not set_where(tx, event_delivery, claimed.held, **values, **_attempted(claimed, attempt)):
        return False
    tx.run(statement, of | {"subject": claimed.subject} | following)
    key = {"account_id": claimed.account_id, "id": claimed.subscription_id}
    row = find_row(tx, event_subscription, key, lock=True)
    if row is None or row.state != "active":
        return False
    failing_since = row.failing_since or now
    failures, paused_until = row.failures, row.paused_until
    # Calls that fail together count as one failure once the subscription is paused.
    if claimed.is_probe or paused_until <= now:
        failures += 1
        over = failures - FAILURES_TO_PAUSE
        paused_until = now + pause_ms(over + 1) if over >= 0 else 0
    if attempt.retry_after_s is not None:
        paused_until = max(paused_until, now + round(attempt.retry_after_s * 1000))
    set_where(
        tx,
        event_subscription,
        key,
        failures=failures,
        failing_since=failing_since,
        paused_until=paused_until,
        reason=attempt.reason,
    )
    return now - failing_since >= SWITCH_OFF_MS


def _attempted(claimed: Claimed, attempt: Attempt) -> dict[str, Any]:
    return {
        "attempts": claimed.attempts + 1,
        "status": attempt.status,
        "reason": attempt.reason or attempt.note,
    }


def _of(claimed: Claimed) -> dict[str, Any]:
    return {"account_id": claimed.account_id, "subscription_id": claimed.subscription_id}
