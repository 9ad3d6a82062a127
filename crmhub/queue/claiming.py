"""Claim due actions with a lease, and find the connections that have due actions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from crmhub import metrics
from crmhub.database.claims import ACTIONS, build_claim, new_lease
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import set_where
from crmhub.database.several_accounts import AvailableRows, Only
from crmhub.database.statements import Statement, one_of, param, params
from crmhub.database.tables import action, connection, outage
from crmhub.queue.models import Due, Entry
from crmhub.queue.outages import Outage
from crmhub.queue.schedule import GRACE_MS

_a = action.c
_OF_ACCOUNT = _a.account_id == param("account_id")


# The columns that are fields of Entry as they are.
_SAME = ("id", "kind", "person", "hub_id", "tries", "created_at", "give_up_at")
_NARROWED: Mapping[str, Callable[[sa.FromClause], sa.ColumnElement[bool]]] = {
    "": lambda _: sa.true(),
    "of_kind": lambda rows: rows.c.kind == param("kind"),
    "of_other_kinds": lambda rows: rows.c.kind != param("kind"),
    # Not `running`: only the worker takes over expired leases.
    "only": lambda rows: sa.and_(rows.c.id == param("id"), one_of(rows.c.state, "queued")),
}
_CLAIM = {
    narrowed: build_claim(
        ACTIONS,
        "connection_id",
        only=only,
        doubt_since=sa.func.coalesce(_a.doubt_since, param("now")),
        # A process that died may have written to the CRM until its lease expired.
        written_at=sa.case((one_of(_a.state, "running"), _a.run_at), else_=_a.written_at),
        returning=[
            *(_a[name] for name in _SAME),
            _a.request,
            _a.doubt_since,
            _a.corrected,
            _a.written_at,
        ],
    )
    for narrowed, only in _NARROWED.items()
}
_DROP = Statement(
    sa.update(action)
    .where(
        _OF_ACCOUNT,
        _a.id == param("id"),
        sa.or_(
            _a.lease == param("lease"),
            sa.and_(one_of(_a.state, "queued"), _a.doubt_since.is_(None)),
        ),
    )
    .values(
        state=sa.literal_column("'refused'"),
        lease=sa.null(),
        doubt_since=sa.null(),
        finished_at=param("now"),
        reason=sa.literal_column("'The CRM could not take it in time; nothing was written.'"),
        cause=sa.null(),
        cause_text=sa.null(),
    )
    .returning(_a.kind)
)
# The first is the condition of an index, which SQLite does not conclude from the next one.
_HAS_EXPIRED = (
    one_of(_a.state, "running", "queued"),
    one_of(_a.state, "running"),
    _a.run_at <= param("now"),
)
_EXPIRED = AvailableRows(
    lambda only: sa.select(_a.account_id).distinct().where(*_HAS_EXPIRED, only(action))
)
_SPARE = Statement(sa.update(action).where(_OF_ACCOUNT, *_HAS_EXPIRED).values(params("run_at")))


def _due_of_all_accounts(only: Only) -> sa.Select[Any]:
    """Return the query that finds, for each connection, when its next action is due.

    It reads an index once per connection, so its cost does not grow with the queued actions. A
    recursive statement over the busy accounts alone would cost less where most of 10,000 accounts
    are idle (5 instead of 8 to 20 ms), but a database that distributes the tables rejects it.
    """
    of_connection = sa.and_(
        _a.account_id == connection.c.account_id,
        _a.connection_id == connection.c.id,
        one_of(_a.state, "running", "queued"),
    )
    first = sa.select(sa.func.min(_a.run_at)).where(of_connection, only(action))
    of_connections = sa.select(
        connection.c.account_id,
        connection.c.id,
        first.scalar_subquery().label("first"),
        first.where(_a.run_at > param("now")).scalar_subquery().label("following"),
    )
    waiting = of_connections.where(only(connection)).subquery("waiting")
    here = sa.and_(
        outage.c.account_id == waiting.c.account_id,
        outage.c.connection_id == waiting.c.id,
        only(outage),
    )
    return (
        sa.select(
            waiting.c.account_id,
            waiting.c.id,
            waiting.c.first,
            waiting.c.following,
            sa.func.coalesce(outage.c.until, sa.literal_column("0")).label("until"),
        )
        .select_from(waiting.outerjoin(outage, here))
        .where(waiting.c.first.is_not(None))
    )


_DUE = AvailableRows(_due_of_all_accounts)


def claim(
    database: Database,
    account_id: int,
    connection_id: int,
    *,
    most: int,
    lease_s: float,
    kinds: tuple[str, bool] | None = None,
    only: str = "",
) -> list[Entry]:
    """Claim up to `most` due actions of a connection, the oldest first, for `lease_s` seconds.

    While the circuit breaker is open, at most one action is claimed, to probe the CRM. `kinds`: a
    kind of action, with True to claim only this kind or False for only other kinds. `only`: the id
    of the only action that may be claimed, "" for any.
    """
    kind, is_kind = kinds or ("", False)
    narrowed = "only" if only else ""
    if kinds:
        narrowed = "of_kind" if is_kind else "of_other_kinds"

    def lease_due(tx: Connection) -> list[Entry]:
        moment = tx.now_ms()
        outage = Outage(tx, account_id, connection_id)
        free, probing = outage.may_call(moment, probe=not only)
        if not free:
            return []
        lease = new_lease()
        rows = tx.rows(
            _CLAIM[narrowed],
            {
                "account_id": account_id,
                "connection_id": connection_id,
                "now": moment,
                "until": moment + int(lease_s * 1000),
                "lease": lease,
                "limit": 1 if probing else most,
                "kind": kind,
                "id": only,
            },
        )
        if probing and not rows:
            # No action could be claimed, so no probe takes place: allow the next one at once.
            outage.probe_again(moment)
        return [_entry(account_id, connection_id, row, lease, moment, probing) for row in rows]

    return sorted(database.transact(lease_due), key=lambda one: one.created_at)


def _entry(
    account_id: int, connection_id: int, row: Any, lease: str, moment: int, probing: bool
) -> Entry:
    # This claim itself set a doubt of this moment; there was none before.
    none_before = row.doubt_since == moment and row.written_at is None
    same = {name: getattr(row, name) for name in _SAME}
    return Entry(
        **same,
        account_id=account_id,
        connection_id=connection_id,
        request=json.loads(row.request),
        lease=lease,
        doubt_since=0 if none_before else row.doubt_since,
        probing=probing,
        corrected=json.loads(row.corrected or "{}"),
        # A time in the future (from a restored backup) means: a write may have been sent until now.
        written_at=min(row.written_at or 0, moment),
    )


def release(database: Database, entries: Sequence[Entry]) -> None:
    """Put claimed actions that were not attempted back into the queue, and release their leases."""

    def queue(tx: Connection) -> None:
        moment = tx.now_ms()
        for entry in entries:
            # The doubt of an earlier attempt stays.
            doubt_since = entry.doubt_since or None
            values = {"state": "queued", "run_at": moment, "lease": None}
            set_where(tx, action, entry.held, **values, doubt_since=doubt_since)

    database.transact(queue)
    database.notify_workers()


def drop(database: Database, account_id: int, action_id: str, lease: str = "") -> bool:
    """End an action that nobody has attempted; return False if another process has or does.

    `lease`: this process's own, "" while the action is queued.
    """
    of = {"account_id": account_id, "id": action_id, "lease": lease}

    def end(tx: Connection) -> bool:
        rows = tx.rows(_DROP, of | {"now": tx.now_ms()})
        for row in rows:
            database.after_commit(partial(metrics.ended, row.kind, "refused"))
        return bool(rows)

    return database.transact(end)


def spare(database: Database) -> None:
    """Extend all expired leases of actions by 2 s, since the database took no writes for long."""

    with database.reading() as reading:
        moment = reading.now_ms()
    for row in _EXPIRED.read(database, {"now": moment}):
        times = {"account_id": row.account_id, "now": moment, "run_at": moment + GRACE_MS}
        database.transact(lambda tx, times=times: tx.run(_SPARE, times))  # type: ignore[misc]


def due(database: Database) -> Due:
    """Return the connections that have due actions, the one that has waited longest first."""
    with database.reading() as reading:
        moment = reading.now_ms()
    rows = _DUE.read(database, {"now": moment})
    now, later = [], []
    for account_id, connection_id, first, following, until in rows:
        if first > moment or until > moment:
            later.append(max(first, until))
            continue
        now.append((first, account_id, connection_id))
        if following is not None:
            later.append(following)
    # The connection whose action has waited longest comes first.
    soonest = min(later, default=None)
    return Due([(one[1], one[2]) for one in sorted(now)], soonest and max(0, soonest - moment))
