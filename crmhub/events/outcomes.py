"""Record the outcomes of the attempts of deliveries, and what follows for their subscriptions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, one_of, param, unindexed
from crmhub.database.tables import event_delivery, event_subscription
from crmhub.events.claiming import IS_OF_SUBSCRIPTION, IS_QUEUED, IS_SUBSCRIPTION, Claimed
from crmhub.events.schedule import DELAYS_S, JITTER, SWITCH_OFF_MS, pause_ms
from crmhub.events.sending import Attempt

_d, _s = event_delivery.c, event_subscription.c
_IS_HELD = sa.and_(
    IS_OF_SUBSCRIPTION, _d.event_id == param("event_id"), _d.lease == param("lease"), IS_QUEUED
)
_END = Statement(
    sa.update(event_delivery)
    .where(_IS_HELD)
    .values(
        state=param("new_state"),
        lease=sa.null(),
        attempts=_d.attempts + 1,
        status=param("status"),
        reason=param("reason"),
        finished_at=param("now"),
    )
)
_AGAIN = Statement(
    sa.update(event_delivery)
    .where(_IS_HELD)
    .values(
        lease=sa.null(),
        attempts=_d.attempts + 1,
        status=param("status"),
        reason=param("reason"),
        run_at=param("run_at"),
    )
)
_RELEASE = Statement(
    sa.update(event_delivery).where(_IS_HELD).values(lease=sa.null(), run_at=param("run_at"))
)
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
_LOCK_FAILURES = Statement(
    sa.select(_s.failures, _s.failing_since, _s.paused_until)
    .where(IS_SUBSCRIPTION, one_of(_s.state, "active"))
    .with_for_update()
)
_NOTE_FAILURE = Statement(
    sa.update(event_subscription)
    .where(IS_SUBSCRIPTION)
    .values(
        failures=param("failures"),
        failing_since=param("failing_since"),
        paused_until=param("paused_until"),
        reason=param("reason"),
    )
)


def release(database: Database, claimed: Claimed) -> None:
    database.transact(lambda tx: tx.run(_RELEASE, claimed.key | {"run_at": tx.now_ms()}))


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


def _note_success(tx: Connection, claimed: Claimed, attempt: Attempt, now: int) -> None:
    outcome = {"new_state": "delivered", "status": attempt.status, "reason": "", "now": now}
    if not tx.run(_END, claimed.key | outcome):
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
    outcome = {"status": attempt.status, "reason": attempt.reason, "now": now}
    run_at = _next_at(claimed, attempt, now)
    if run_at is None:
        held = tx.run(_END, claimed.key | outcome | {"new_state": "failed"})
        following = {"subject": claimed.subject, "now": now}
        statement = _QUEUE_FOLLOWING
    else:
        held = tx.run(_AGAIN, claimed.key | outcome | {"run_at": run_at})
        following = {"subject": claimed.subject, "run_at": run_at}
        statement = _POSTPONE_FOLLOWING
    if not held:
        return False
    tx.run(statement, of | following)
    row = tx.row(_LOCK_FAILURES, of)
    if row is None:
        return False
    failing_since = row.failing_since or now
    failures, paused_until = row.failures, row.paused_until
    # Calls that fail together count as one failure once the subscription is paused.
    if claimed.is_probe or paused_until <= now:
        failures += 1
        paused_until = now + pause_ms(failures) if pause_ms(failures) else 0
    if attempt.retry_after_s is not None:
        paused_until = max(paused_until, now + round(attempt.retry_after_s * 1000))
    tx.run(
        _NOTE_FAILURE,
        of
        | {
            "failures": failures,
            "failing_since": failing_since,
            "paused_until": paused_until,
            "reason": attempt.reason,
        },
    )
    return now - failing_since >= SWITCH_OFF_MS


def _next_at(claimed: Claimed, attempt: Attempt, now: int) -> int | None:
    """Return when a failed delivery is attempted again, None if it is given up."""
    if claimed.attempts >= len(DELAYS_S) or now >= claimed.give_up_at or attempt.gone:
        return None
    if attempt.retry_after_s is not None:
        return now + round(attempt.retry_after_s * 1000)
    wait_s = DELAYS_S[claimed.attempts] * random.uniform(1 - JITTER, 1 + JITTER)
    return now + round(wait_s * 1000)


def _of(claimed: Claimed) -> dict[str, Any]:
    return {"account_id": claimed.account_id, "subscription_id": claimed.subscription_id}
