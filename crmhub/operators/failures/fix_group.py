"""Correct, retry or discard a whole group of failed actions.

A fix has a row in each account of the group. A process works on a row under a lease, a part in one
transaction together with the row's numbers; after a crash a worker continues when the lease has
expired. Each action is changed in the way of single decisions.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import sqlalchemy as sa

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.database.claims import FIXES, build_claim, new_lease
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.rows import insert_row, set_where
from crmhub.database.several_accounts import AvailableRows, rows_of_several
from crmhub.database.statements import Statement, in_list, param, params
from crmhub.database.tables import account as account_table
from crmhub.database.tables import action, group_fix
from crmhub.errors import Conflict, HubError, NotFound, Semantic, Unavailable
from crmhub.hub import Hub
from crmhub.operators.actions import correct_action, discard_action, retry_action
from crmhub.operators.actions.action_filters import Wanted
from crmhub.operators.failures.forecast import NewValues, check_name
from crmhub.operators.failures.groups import PAGE, Group, said
from crmhub.queue.causes import Cause, cause_of
from crmhub.queue.models import earliest_id
from crmhub.secrets import BASE36, token
from crmhub.translatable import translatable

Verb = Literal["correct", "retry", "discard"]
VERBS = ("correct", "retry", "discard")
STATES = ("queued", "running", "done", "stopped")

_ID_BITS = 100
_LEASE_MS = 60_000
_SLICE_S = 20.0
_PART = 100
_MOST_REASONS = 20
_OTHERS = translatable("Other reasons")
_ENDS = {"choice": "{}", "lease": None, "lease_until": 0}
_fix, _a = group_fix.c, action.c
_ACTIVE = FIXES.is_unfinished(group_fix)
_DUE = AvailableRows(
    lambda only: (
        sa.select(_fix.account_id, _fix.id)
        .where(_ACTIVE, _fix.lease_until <= param("now"), only(group_fix))
        .order_by(_fix.lease_until)
        .limit(10)
    )
)
_CLAIM = build_claim(FIXES, only=lambda rows: rows.c.id == param("id"), returning=list(_fix))
_MARK = Statement(
    sa.update(action)
    .where(_a.account_id == param("account_id"), in_list(_a.id, "ids"))
    .values(fix=param("fix"))
)
_STOPS = (
    sa.update(group_fix)
    .where(_fix.account_id == param("account_id"), _ACTIVE)
    .values(state="stopped", choice="{}", lease=sa.null(), lease_until=0)
)
_STOP_ALL = Statement(_STOPS)
_STOP = Statement(_STOPS.where(_fix.id == param("id")).values(params("changed_at")))
_OF_ALL = _fix.account_id.in_(sa.select(account_table.c.id))
_OF_SEEN = in_list(_fix.account_id, "account_ids")
_ROWS = sa.select(group_fix).where(_fix.id == param("id"))
_BY_STATE = Statement(
    sa.select(_a.account_id, _a.state, sa.func.count().label("count"))
    .where(in_list(_a.account_id, "account_ids"), _a.fix == param("fix"))
    .group_by(_a.account_id, _a.state)
)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a fix is, in all accounts that the reader sees; times are ms since 1970.

    `changed`: actions that were corrected, retried or discarded, without those that they blocked.
    `skipped`: those that could not be, by the reason. `states`: what has become of the changed
    ones since, by their state.
    """

    id: str
    verb: Verb
    cause: Cause
    state: str
    total: int
    changed: int
    skipped: Mapping[str, int]
    states: Mapping[str, int]
    author: str
    created_at: int
    accounts: int

    @property
    def is_active(self) -> bool:
        return self.state in ("queued", "running")

    @property
    def waiting(self) -> int:
        return self.states.get("queued", 0) + self.states.get("running", 0)

    @property
    def failed(self) -> int:
        return self.states.get("dead", 0) + self.states.get("parked", 0)

    @property
    def done(self) -> int:
        return self.states.get("done", 0)

    @property
    def said(self) -> str:
        return said(self.cause)


def start(
    hub: Hub,
    group: Group,
    verb: Verb,
    *,
    by: Author,
    values: NewValues | None = None,
    reason: str = "",
) -> str:
    """Store a fix of all actions that the group has now; return its id.

    Raises Semantic for values or a reason that no action can have, NotFound for a group without a
    property that could be corrected, and Conflict if the group has no action for the verb.
    """
    choice: dict[str, Any] = {}
    if verb == "correct":
        name = check_name(group)
        if values is None or values.name != name or not (values.by_value or values.other):
            raise Semantic("%(name)s: choose a new value.", field="other", name=name)
        choice = asdict(values)
    elif verb == "discard":
        choice = {"reason": discard_action.checked_reason(reason)}
    count = group.failed if verb == "correct" else group.open
    if not count or not group.accounts:
        raise Conflict("No failed action of this group is left.")
    id, now = f"fix-{token(_ID_BITS, BASE36)}", now_ms()
    row = {
        "id": id,
        "verb": verb,
        "cause": group.key,
        "cause_text": group.cause.to_text(),
        "choice": json.dumps(choice, ensure_ascii=False),
        "state": "queued",
        **dict.fromkeys(("changed", "skipped", "lease_until"), 0),
        "reasons": "{}",
        "after": "",
        "until": earliest_id(now + 1),
        "author_kind": by.kind,
        "author": by.name,
        "author_id": by.id,
        "created_at": now,
        "changed_at": now,
    }

    def store(tx: Connection) -> None:
        for account_id, total in sorted(group.accounts.items()):
            insert_row(tx, group_fix, row | {"account_id": account_id, "total": total})

    hub.database.transact(store)
    return id


def progress(database: Database, fix: str, account_ids: Collection[int] | None = None) -> Progress:
    """`account_ids`: None for all accounts. Raises NotFound."""
    seen = _OF_ALL if account_ids is None else _OF_SEEN
    wanted = {"id": fix, "account_ids": sorted(account_ids or ())}
    with database.reading() as db:
        found = rows_of_several(db, Statement(_ROWS.where(seen)), wanted)
        if not found:
            raise NotFound("There is no such correction; they are deleted after 7 days.")
        of = {"account_ids": [row.account_id for row in found], "fix": fix}
        states, skipped = Counter[str](), Counter[str]()
        for row in rows_of_several(db, _BY_STATE, of):
            states[row.state] += int(row.count)
    for row in found:
        skipped.update(json.loads(row.reasons))
    first, words = found[0], {row.state for row in found}
    return Progress(
        id=fix,
        verb=first.verb,
        cause=Cause.from_text(first.cause_text),
        state=next(word for word in ("running", "queued", "stopped", "done") if word in words),
        total=sum(row.total for row in found),
        changed=sum(row.changed for row in found),
        skipped=skipped,
        states=states,
        author=first.author,
        created_at=first.created_at,
        accounts=len(found),
    )


def stop(database: Database, id: str, account_ids: Collection[int] | None = None) -> None:
    """What was changed stays; a fix that has ended stays as it is. Raises NotFound."""
    progress(database, id, account_ids)
    seen = _OF_ALL if account_ids is None else _OF_SEEN
    wanted = {"id": id, "account_ids": sorted(account_ids or ())}

    def end(tx: Connection) -> None:
        for row in rows_of_several(tx, Statement(_ROWS.where(seen, _ACTIVE)), wanted):
            # By no state that was read: a worker may have begun or released it meanwhile.
            tx.run(_STOP, {"account_id": row.account_id, "id": id, "changed_at": now_ms()})

    database.transact(end)


def erase(tx: Connection, account_id: int) -> None:
    """Stop the account's fixes in progress, whose choices may contain values of a person."""
    tx.run(_STOP_ALL, {"account_id": account_id})


# --- the work ------------------------------------------------------------------------------------


class Lost(Exception):
    """The fix was stopped, or another process has it."""


@dataclass(slots=True)
class _Work:
    """A row under a lease; the numbers are those that are stored."""

    row: Any
    account: Account
    by: Author
    changed: int
    reasons: Counter[str]

    def store(self, tx: Connection, after: str, ids: Sequence[str] = (), count: int = 0) -> None:
        """Store how far the work is, and that it has changed `count` actions, `ids`; raises Lost.

        `after`: the last action that was looked at.
        """
        held = {"account_id": self.row.account_id, "id": self.row.id, "state": "running"}
        now = now_ms()
        if not set_where(
            tx,
            group_fix,
            held | {"lease": self.row.lease},
            after=after,
            changed=self.changed + count,
            skipped=self.reasons.total(),
            reasons=json.dumps(self.reasons, ensure_ascii=False),
            lease_until=now + _LEASE_MS,
            changed_at=now,
        ):
            raise Lost
        if ids:
            tx.run(_MARK, {"account_id": self.row.account_id, "ids": ids, "fix": self.row.id})


def run(hub: Hub, id: str, *, seconds: float) -> None:
    """Work on a fix in all accounts, at most about `seconds`; a worker does the rest."""
    ends_at = time.monotonic() + seconds
    with hub.database.reading() as db:
        found = rows_of_several(db, Statement(_ROWS.where(_OF_ALL, _ACTIVE)), {"id": id})
    for row in found:
        if time.monotonic() >= ends_at or not _run_row(hub, row.account_id, id, ends_at):
            return


def run_due(hub: Hub, stopping: threading.Event) -> bool:
    """Work on due fixes, one at a time, for a slice of time each; return whether any was due."""
    with hub.database.across_accounts():
        found = due(hub.database)
    for account_id, id in found:
        with hub.database.for_account(account_id):
            _run_row(hub, account_id, id, time.monotonic() + _SLICE_S, stopping)
    return bool(found)


def due(database: Database) -> list[tuple[int, str]]:
    return [(row.account_id, row.id) for row in _DUE.read(database, {"now": now_ms()})]


def _run_row(
    hub: Hub, account_id: int, id: str, ends_at: float, stopping: threading.Event | None = None
) -> bool:
    """Return False if there is more to do, for which the time was too short."""
    now = now_ms()
    claim = {"account_id": account_id, "id": id, "now": now, "until": now + _LEASE_MS, "limit": 1}
    row = hub.database.transact(lambda tx: tx.row(_CLAIM, claim | {"lease": new_lease()}))
    if row is None:
        return True
    with hub.database.reading() as db:
        account = accounts.load_by_id(db, account_id, hub.plans)
    by, reasons = Author(row.author_kind, row.author, row.author_id), json.loads(row.reasons)
    work = _Work(row, account, by, row.changed, Counter(reasons))
    page = {"account_id": account_id, "cause": row.cause, "until": row.until, "limit": _PART}
    after, state = row.after, "done"
    try:
        while found := _read_page(hub.database, page, after):
            after = found[-1].id
            if row.verb == "correct":
                _correct_part(hub, work, [one for one in found if one.state == "dead"])
            else:
                part = _retry_part if row.verb == "retry" else _discard_part
                ids = [one.id for one in found]
                work.changed += hub.database.transact(partial(part, hub.database, work, ids))
            if time.monotonic() >= ends_at or (stopping and stopping.is_set()):
                state = "queued"
                break
        hub.database.transact(partial(_leave, work, after, state))
    except Lost:
        return True
    return state == "done"


def _read_page(database: Database, page: Mapping[str, Any], after: str) -> list[Any]:
    with database.reading() as db:
        return db.rows(PAGE, {**page, "after": after})


def _leave(work: _Work, after: str, state: str, tx: Connection) -> None:
    work.store(tx, after)
    ends = _ENDS if state == "done" else {"lease": None, "lease_until": 0}
    key = {"account_id": work.row.account_id, "id": work.row.id}
    set_where(tx, group_fix, key, **ends, state=state)


def _correct_part(hub: Hub, work: _Work, found: Sequence[Any]) -> None:
    choice = NewValues(**json.loads(work.row.choice))
    for one in found:
        request = correct_action.request_of(one)
        try:
            values = choice.of(one.kind, request)
            if not values:
                raise Semantic("It has another value, which was to stay.")
            correction = correct_action.prepare(hub, one.id, values)
            hub.database.transact(partial(_apply, work, correction, one.id))
            work.changed += 1
        except Unavailable:
            raise
        except HubError as exc:
            work.reasons[_reason_of(work, one.kind, exc, request)] += 1
            hub.database.transact(partial(work.store, after=one.id))


def _apply(
    work: _Work, correction: correct_action.Correction, action_id: str, tx: Connection
) -> None:
    work.store(tx, action_id, [action_id], 1)
    correction.apply(tx, work.by)


def _reason_of(work: _Work, kind: str, exc: HubError, request: Mapping[str, Any]) -> str:
    """Return why an action was skipped, without values."""
    adapter = work.account.connection.adapter
    cause = cause_of(adapter, kind, type(exc).__name__, exc.message, request)
    text = said(cause) if cause else exc.message
    return text if text in work.reasons or len(work.reasons) < _MOST_REASONS else _OTHERS


def _retry_part(database: Database, work: _Work, ids: Sequence[str], tx: Connection) -> int:
    wanted = Wanted(account=work.account, ids=ids)
    _, count, _ = retry_action.retry_part(wanted, tx, by=work.by)
    work.store(tx, ids[-1], ids, count)
    return count


def _discard_part(database: Database, work: _Work, ids: Sequence[str], tx: Connection) -> int:
    wanted = Wanted(account=work.account, ids=ids, states=discard_action.DISCARDED)
    reason = json.loads(work.row.choice)["reason"]
    _, count, _ = discard_action.discard_part(database, wanted, tx, reason=reason, by=work.by)
    work.store(tx, ids[-1], ids, count)
    return count
