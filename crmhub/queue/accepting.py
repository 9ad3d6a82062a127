"""Accept an action: store it, or return the result of an equal action that was accepted earlier."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from crmhub import metrics
from crmhub.accounts.accounts import Account
from crmhub.database.advisory_locks import hold
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import find_row, insert_row, set_where
from crmhub.database.statements import Statement, equals, one_of, param
from crmhub.database.tables import action
from crmhub.errors import HubError, Semantic, Unavailable
from crmhub.identity.bindings import same_contact
from crmhub.queue import action_events
from crmhub.queue.models import Accepted, Entry, New, as_json, as_result, new_id
from crmhub.queue.outages import Outage
from crmhub.queue.schedule import IDENTITY_MS, KEY_MS, LONGEST_MS
from crmhub.secrets import BASE36
from crmhub.secrets import token as random_token
from crmhub.translatable import translatable

# The answer to a repeated call whose action an operator has discarded.
_DISCARDED = {
    "error": "Conflict",
    "message": "The operator discarded this call; use a new Idempotency-Key to send it again",
}

_OTHER_CALL = translatable("Idempotency-Key: it was used for another call; use a new key for each")

# The fields of an entry that are stored as they are.
_SAME = ["account_id", "id", "connection_id", "kind", "person", "hub_id", "tries"]
_SAME += ["created_at", "give_up_at"]
_a = action.c
_any = action.alias("any_state").c
_OF_ACCOUNT = _a.account_id == param("account_id")
_UNFINISHED = one_of(_a.state, "running", "queued")
_BEFORE = Statement(
    sa.select(
        sa.func.max(_a.created_at).label("last"),
        sa.func.max(sa.case((one_of(_a.state, "queued"), _a.run_at))).label("waits_until"),
        sa.select(sa.func.max(_any.created_at))
        .where(_any.account_id == param("account_id"), _any.person == param("person"))
        .scalar_subquery()
        .label("said"),
    ).where(_OF_ACCOUNT, _a.person == param("person"), _UNFINISHED)
)
_WITH_IDENTITY = Statement(
    sa.select(_a.id, _a.hub_id, _a.result)
    .where(
        _OF_ACCOUNT,
        *equals(action, "connection_id", "identity", "person"),
        _a.idempotency_key.is_(None),
        sa.or_(
            _UNFINISHED,
            # An action that ended after this time ended before the clock was set back.
            sa.and_(
                one_of(_a.state, "done"), _a.finished_at.between(param("since"), param("until"))
            ),
        ),
        same_contact(action),
    )
    .order_by(_a.created_at.desc())
    .limit(1)
)


FollowUp = Callable[[Connection, str], New]
"""Prepares an action that runs behind another one, whose contact has this id in the hub."""


class _Replayed(Exception):
    """Raised to roll back a transaction: its Idempotency-Key belongs to an earlier action."""

    def __init__(self, accepted: Accepted) -> None:
        super().__init__()
        self.accepted = accepted


def accept(
    database: Database,
    account: Account,
    prepare: Callable[[Connection], New],
    *,
    lease_s: float,
    now: bool,
    wait_s: float = 0.0,
    key: str = "",
    key_ms: int = KEY_MS,
    author: str = "",
    fault: Exception | None = None,
    may_wait: bool = True,
    then: Sequence[FollowUp] = (),
) -> Accepted:
    """Call `prepare` and store the action that it returns, in one transaction with its writes.

    `now`: attempt the action at once, if nothing blocks it: the result then has an `entry` with a
    lease of `lease_s` seconds. Otherwise the action is due in `wait_s` seconds. `key`: the caller's
    Idempotency-Key. `author`: the id of an agent's API key, "" for a bot's call. `fault`: the error
    for an action that no CRM would store; it is raised if the action would have to wait. Without
    `may_wait`, Unavailable is raised instead of storing an action that cannot be attempted now.

    A repeated call stores nothing and returns the earlier action. A call with a key is repeated if
    an action was accepted with this key in the last `key_ms` ms; unless these are the usual 24
    hours, a refused action does not count. A call without a key is repeated if an equal action is
    unfinished or succeeded in the last minute. `then`: actions that run behind it; the error
    of one is in the result. Raises the errors of `prepare`, and Semantic if `key` belongs to a
    different action.
    """

    def accept_all(tx: Connection) -> Accepted:
        moment = tx.now_ms()
        new = prepare(tx)
        if (earlier := _earlier(tx, account, new, key, key_ms, moment)) is not None:
            return earlier
        last, waits_until, said = _before(tx, account, new)
        if last is not None:
            # An earlier action may have been accepted while this call waited for the lock.
            moment = tx.now_ms()
        outage = Outage(tx, account.id, account.connection.id)
        free, probing, behind = now and last is None, False, False
        if free:
            # A write that may not wait is not queued, so no worker could probe the CRM with it.
            free, probing = outage.may_call(moment, probe=not may_wait)
        elif now and (waits_until or 0) <= moment:
            behind = not outage.lasts()
        if fault is not None and not free:
            raise fault
        if not (may_wait or free or behind):
            raise Unavailable("The account's CRM cannot be called now; nothing was written.")
        # Keeps the order of acceptance even if the clock was set back in between.
        created_at = max(moment, said + 1)
        run_at = moment + int((lease_s if free else wait_s) * 1000)
        leased_at = moment if free else None
        entry = store(tx, new, created_at, run_at, key, leased_at=leased_at, probing=probing)
        if not free and not wait_s:
            tx.notify_workers()
        behind_it = accept_behind(tx, new.hub_id, created_at, is_new=True)
        return Accepted(
            entry.id, new.hub_id, entry if free else None, behind=behind, then=behind_it
        )

    def store(
        tx: Connection,
        new: New,
        created_at: int,
        run_at: int,
        key: str,
        *,
        leased_at: int | None = None,
        probing: bool = False,
    ) -> Entry:
        entry = Entry(
            account_id=account.id,
            id=new_id(created_at),
            connection_id=account.connection.id,
            kind=new.kind,
            person=new.person,
            hub_id=new.hub_id,
            request=new.request,
            tries=0,
            lease="" if leased_at is None else random_token(96, BASE36),
            doubt_since=0,
            created_at=created_at,
            give_up_at=created_at + LONGEST_MS,
            probing=probing,
        )
        row = {name: getattr(entry, name) for name in _SAME} | {
            "state": "running" if entry.lease else "queued",
            "request": as_json(new.request),
            "run_at": run_at,
            "lease": entry.lease or None,
            # A claim treats a `doubt_since` of its own moment as no doubt.
            "doubt_since": None if leased_at is None else leased_at - 1,
            "identity": new.identity or None,
            "idempotency_key": key or None,
            "author": author or None,
            "reason": "",
        }
        insert_row(tx, action, row)
        action_events.note_accepted(tx, account, new, entry.id, created_at)
        database.after_commit(partial(metrics.accepted, new.kind))
        return entry

    def accept_behind(
        tx: Connection, hub_id: str, created_at: int, *, is_new: bool
    ) -> tuple[Accepted | HubError, ...]:
        found: list[Accepted | HubError] = []
        for n, prepare_next in enumerate(then, 1):
            own_key, moment = f"{key}\n{n}" if key else "", tx.now_ms()
            try:
                new = prepare_next(tx, hub_id)
                accepted = _earlier(tx, account, new, own_key, key_ms, moment)
            except _Replayed as again:
                accepted = again.accepted
            # Its fault must not lose the action before it, unless the account is strict.
            except HubError as exc:
                if account.switches.strict or not is_new:
                    raise
                found.append(exc)
                continue
            if accepted is None and not is_new:
                raise Semantic(_OTHER_CALL)
            if accepted is None:
                entry = store(tx, new, created_at + n, moment, own_key)
                accepted = Accepted(entry.id, new.hub_id, behind=True)
            found.append(accepted)
        return tuple(found)

    try:
        return database.transact(accept_all)
    except _Replayed as again:
        earlier = again.accepted
    if not then or earlier.refused:
        # The actions behind a refused one have ended with it.
        return earlier
    return database.transact(
        lambda tx: replace(earlier, then=accept_behind(tx, earlier.hub_id, 0, is_new=False))
    )


def _earlier(
    tx: Connection, account: Account, new: New, key: str, key_ms: int, moment: int
) -> Accepted | None:
    """Return the earlier action that a call repeats; None for a new call.

    Raises _Replayed for a repeated Idempotency-Key: repeating the writes of `prepare` could undo
    later ones.
    """
    if key:
        # A call with a new key is a new action, even if it equals an earlier one.
        earlier = _with_key(
            tx, account, new, key, since=moment - key_ms, keep_refusals=key_ms == KEY_MS
        )
        if earlier is not None:
            raise _Replayed(earlier)
    return _with_identity(tx, account, new, moment) if new.identity and not key else None


def _before(tx: Connection, account: Account, new: New) -> tuple[int | None, int | None, int]:
    """Return three times of the earlier actions of a new action's person.

    When the latest unfinished one was accepted, when the last queued one is due, and when the
    latest in any state was accepted; None, None and 0 without such an action.
    """
    if new.first:
        return None, None, 0
    # Without this lock, two actions of one person at once would not see each other.
    hold(tx, account.id, "person", new.person)
    row = tx.row(_BEFORE, {"account_id": account.id, "person": new.person})
    return row.last, row.waits_until, row.said or 0


def _with_key(
    tx: Connection, account: Account, new: New, key: str, *, since: int, keep_refusals: bool
) -> Accepted | None:
    """Return the action accepted with this key since a time, or None.

    Without `keep_refusals`, an action that was refused is not returned. Raises Semantic if the
    action differs from `new`.
    """
    hold(tx, account.id, "idempotency key", key)
    row = find_row(tx, action, {"account_id": account.id, "idempotency_key": key})
    if row is None:
        return None
    # An action dropped by a change of the CRM has no answer to repeat.
    dropped = row.state == "refused" and (row.result is None or not keep_refusals)
    if dropped or row.created_at < since:
        set_where(tx, action, {"account_id": account.id, "id": row.id}, idempotency_key=None)
        return None
    accepted = (row.kind, _said(_as_accepted(row.request, row.versions)))
    if accepted != (new.kind, _said(new.request)):
        raise Semantic(_OTHER_CALL)
    return Accepted(
        row.id,
        row.hub_id,
        earlier=_DISCARDED
        if row.state == "discarded"
        else as_result(None if row.state == "dead" else row.result),
        refused=row.state in ("refused", "discarded"),
        replayed=True,
        stopped=row.state in ("dead", "parked"),
    )


def _with_identity(tx: Connection, account: Account, new: New, moment: int) -> Accepted | None:
    """Return an equal action that still holds, unfinished or done in the last minute, or None."""
    hold(tx, account.id, "identity", new.person, new.identity)
    row = tx.row(
        _WITH_IDENTITY,
        {
            **account.connection_key,
            "identity": new.identity,
            "person": new.person,
            "hub_id": new.hub_id,
            "since": moment - IDENTITY_MS,
            "until": moment + IDENTITY_MS,
        },
    )
    if row is None or not (new.stands is None or new.stands(row.id)):
        return None
    earlier = as_result(row.result)
    unchanged = {**earlier, "status": "unchanged"} if earlier is not None else None
    return Accepted(row.id, row.hub_id, earlier=unchanged)


def _said(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the caller sent of an action's request, without the hub's additions."""
    return {name: value for name, value in request.items() if name != "before"}


def _as_accepted(request: str, versions: str | None) -> Mapping[str, Any]:
    """Return an action's request before any correction; `versions` are the requests before each."""
    kept: Mapping[str, Any] = (
        json.loads(versions)[0]["request"] if versions else json.loads(request)
    )
    return kept
