"""The deliveries of a subscription: list them, and replay those that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import sqlalchemy as sa

from crmhub.database.connection import Connection
from crmhub.database.rows import find_row
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.database.tables import event, event_delivery
from crmhub.errors import NotFound
from crmhub.events.claiming import IS_OF_SUBSCRIPTION
from crmhub.events.schedule import LONGEST_MS

State = Literal["queued", "delivered", "failed"]
STATES: tuple[State, ...] = get_args(State)

_d, _e = event_delivery.c, event.c
_LIST = (
    sa.select(
        _d.event_id,
        _e.type,
        _d.subject,
        _d.state,
        _d.attempts,
        _d.status,
        _d.reason,
        _d.created_at,
        sa.case((one_of(_d.state, "queued"), _d.run_at)).label("next_attempt_at"),
        _d.finished_at,
        _e.data,
    )
    .select_from(event_delivery)
    .join(event, sa.and_(_e.account_id == param("account_id"), _e.id == _d.event_id))
    .where(IS_OF_SUBSCRIPTION)
    .order_by(_d.created_at.desc(), _d.event_id.desc())
)
_BEFORE = sa.tuple_(_d.created_at, _d.event_id) < sa.tuple_(param("before_at"), param("before_id"))
_ENDED = one_of(_d.state, "delivered", "failed")


def _replay(*where: sa.ColumnElement[bool]) -> Statement:
    return Statement(
        sa.update(event_delivery)
        .where(IS_OF_SUBSCRIPTION, _ENDED, *where)
        .values(
            state=sa.literal_column("'queued'"),
            run_at=param("now"),
            lease=sa.null(),
            attempts=sa.literal_column("0"),
            give_up_at=param("give_up_at"),
            reason=sa.literal_column("''"),
            finished_at=sa.null(),
        )
    )


_REPLAY_TIME = _replay(_d.created_at >= param("since"), _d.created_at < param("until"))
_REPLAY_EVENTS = _replay(in_list(_d.event_id, "event_ids"))


def listed(
    db: Connection,
    account_id: int,
    subscription_id: str,
    *,
    state: State | None = None,
    before: tuple[int, str] | None = None,
    limit: int = 50,
) -> list[Any]:
    """Return the newest deliveries; `before`: `created_at` and `event_id` of the last one shown.

    Times are in ms since 1970. `status`: the last answer's HTTP status, None without an answer.
    `next_attempt_at` is None unless the state is "queued". `data` is JSON text.
    """
    query = _LIST
    values: dict[str, object] = {"account_id": account_id, "subscription_id": subscription_id}
    if state is not None:
        query = query.where(one_of(_d.state, state))
    if before is not None:
        query = query.where(_BEFORE)
        values |= {"before_at": before[0], "before_id": before[1]}
    return db.rows(Statement(query.limit(param("limit"))), values | {"limit": limit})


def replay(
    tx: Connection,
    account_id: int,
    subscription_id: str,
    *,
    event_ids: Sequence[str] = (),
    since: int = 0,
    until: int = 0,
) -> int:
    """Queue again the ended deliveries of these events, or those from `since` to before `until`.

    Return their number; a delivery that is queued already stays as it is. Times are in ms since
    1970. Raises NotFound for an unknown event.
    """
    key = {"account_id": account_id, "subscription_id": subscription_id}
    for id in event_ids:
        if find_row(tx, event_delivery, key | {"event_id": id[:100]}) is None:
            raise NotFound(f"The subscription has no event {id[:60]!r}; events are kept 7 days,"
                           " failed ones 30.")  # fmt: skip
    now = tx.now_ms()
    chosen = {"event_ids": list(event_ids)} if event_ids else {"since": since, "until": until}
    statement = _REPLAY_EVENTS if event_ids else _REPLAY_TIME
    count = tx.run(statement, {**key, **chosen, "now": now, "give_up_at": now + LONGEST_MS})
    if count:
        tx.notify_workers()
    return count
