"""A change of CRM: what becomes of what was accepted for the former one.

What is queued for it is finished there, dropped, or moved to the new one. Moved is only what the
former CRM was never told of, and whole people with it, so that nobody is in two CRMs by this: who
is known there, or may be, or has an action under way, stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import sqlalchemy as sa

from crmhub import metrics
from crmhub.accounts.accounts import Account
from crmhub.database import tables
from crmhub.database.advisory_locks import hold_all
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, in_list, one_of, param, params
from crmhub.database.tables import action, binding
from crmhub.errors import Conflict
from crmhub.identity.bindings import HUB_ID

Decision = Literal["finish", "move", "drop"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)

_AT_ONCE = 100
"""People moved in one transaction, each with a few locks."""

_OF_ACCOUNT = action.c.account_id == param("account_id")
# The words of a partial index.
_UNFINISHED = one_of(action.c.state, "running", "queued")
_is_queued = one_of(action.c.state, "queued")
_HERE = sa.and_(_OF_ACCOUNT, action.c.connection_id == param("connection_id"))
_QUEUED_HERE = sa.and_(_HERE, _UNFINISHED, _is_queued)
_BINDING_HERE = sa.and_(
    binding.c.account_id == param("account_id"),
    binding.c.connection_id == param("connection_id"),
)


def _count_if(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[Any]:
    return sa.func.sum(sa.case((condition, 1), else_=0))


_former = tables.connection.c
_FORMER = Statement(
    sa.select(
        _former.id,
        _former.adapter,
        _count_if(_is_queued).label("queued"),
        _count_if(one_of(action.c.state, "running")).label("running"),
    )
    .join_from(
        action,
        tables.connection,
        sa.and_(_former.account_id == action.c.account_id, _former.id == action.c.connection_id),
    )
    .where(_OF_ACCOUNT, action.c.connection_id != param("connection_id"), _UNFINISHED)
    .group_by(_former.id, _former.adapter)
    .order_by(_former.id)
)
_COUNT_QUEUED = Statement(sa.select(sa.func.count()).select_from(action).where(_QUEUED_HERE))
_DROP = Statement(
    sa.update(action)
    .where(_QUEUED_HERE)
    .values(state="refused", **params("reason", "finished_at"))
    .returning(action.c.kind)
)
_NEXT_PEOPLE = Statement(
    sa.select(action.c.person)
    .distinct()
    .where(_QUEUED_HERE, action.c.doubt_since.is_(None), action.c.person > param("last"))
    .order_by(action.c.person)
    .limit(param("most"))
)
_MOVE_BINDINGS = Statement(
    sa.update(binding)
    .where(_BINDING_HERE, in_list(binding.c.person, "people"))
    .values(connection_id=param("new_id"))
)
_MOVE_ACTIONS = Statement(
    sa.update(action)
    .where(_HERE, in_list(action.c.person, "people"), _is_queued)
    .values(connection_id=param("new_id"), run_at=param("now"))
)
# What a person says to be known by, by the kind of a lock.
_SAYS = {
    "token": binding.c.contact_token,
    "email": binding.c.email,
    "phone": binding.c.phone,
}
_SAID = Statement(
    sa.select(binding.c.person, *_SAYS.values()).where(
        _BINDING_HERE, in_list(binding.c.person, "people")
    )
)
_IN_CRM = Statement(
    sa.select(binding.c.person).where(
        _BINDING_HERE, in_list(binding.c.person, "people"), binding.c.crm_id.is_not(None)
    )
)
# Locked: a worker that would claim one of them passes it over.
_LOCK_TRIED = Statement(
    sa.select(action.c.person, action.c.state, action.c.doubt_since, action.c.hub_id)
    .where(
        _HERE,
        in_list(action.c.person, "people"),
        # Of a discarded one, too, the CRM may know only where that is in doubt.
        sa.or_(action.c.state != "discarded", action.c.doubt_since.is_not(None)),
        action.c.state != "refused",
    )
    .with_for_update()
)
_SAID_HERE = {
    kind: Statement(sa.select(column.label("value")).where(_BINDING_HERE, in_list(column, "said")))
    for kind, column in _SAYS.items()
}


@dataclass(frozen=True, slots=True)
class Former:
    """A connection that the account has left, with actions that are to be finished there."""

    id: int
    adapter: str
    queued: int
    running: int


def former(db: Connection, account: Account) -> list[Former]:
    """Return the connections the account has left where something is unfinished."""
    rows = db.rows(_FORMER, _of(account))
    return [Former(row.id, row.adapter, int(row.queued), int(row.running)) for row in rows]


def queued(db: Connection, account: Account) -> int:
    """Return how many actions are queued for the account's present CRM."""
    count: int = db.scalar(_COUNT_QUEUED, _of(account))
    return count


def demand(account: Account, count: int, decision: Decision | None) -> None:
    """Raise Conflict when so many are queued for a CRM that is to be left, and nothing is said."""
    if count and decision is None:
        raise Conflict(
            f"queued: {_actions(count)} for {account.connection.adapter}; say finish (there), move"
            " (to the new CRM, where the former one was not told of the person yet) or drop."
        )


def drop(tx: Connection, database: Database, before: Account, after: Account) -> int:
    """Give up what is queued for the former CRM, so that it can be retried; return how many."""
    rows = tx.rows(
        _DROP,
        {
            **_of(before),
            "finished_at": tx.now_ms(),
            "reason": f"Dropped by an operator, who changed the CRM from"
            f" {before.connection.adapter} to {after.connection.adapter}.",
        },
    )
    for row in rows:
        database.after_commit(partial(metrics.ended, row.kind, "refused"))
    return len(rows)


def move(database: Database, before: Account, after: Account) -> int:
    """Queue for the new CRM what the former one was never told of; return how many actions.

    Some people at a time, so that what is cut short leaves the others to be finished there.
    """
    moved, last = 0, ""
    while people := _some(database, before, last):
        moved += database.transact(partial(_move, before=before, after=after, people=people))
        last = people[-1]
    return moved


def _some(database: Database, account: Account, last: str) -> list[str]:
    with database.reading() as db:
        rows = db.rows(_NEXT_PEOPLE, _of(account) | {"last": last, "most": _AT_ONCE})
    return [row.person for row in rows]


def _move(tx: Connection, before: Account, after: Account, people: Sequence[str]) -> int:
    said = _hold(tx, before, after, people)
    stay = _known(tx, before, people) | _met(tx, after, said)
    going = [person for person in people if person in said and person not in stay]
    if not going:
        return 0
    move = _of(before) | {"people": going, "new_id": after.connection.id}
    moment = tx.now_ms()
    tx.run(_MOVE_BINDINGS, move)
    moved = tx.run(_MOVE_ACTIONS, move | {"now": moment})
    if tx.dialect == "postgresql":
        tx.run("notify crmhub_journal")
    return moved


def _hold(
    tx: Connection, before: Account, after: Account, people: Sequence[str]
) -> dict[str, set[tuple[str, str]]]:
    """Wait for helpers that are about these people, let others wait; return what they said.

    In the order in which helpers take their locks.
    """
    said = _said(tx, before, people)
    names = sorted({one for each in said.values() for one in each}, key=_in_order)
    ids = (before.connection.id, after.connection.id)
    locks: list[tuple[object, ...]] = [(before.id, id, *one) for one in names for id in ids]
    locks += [(before.id, "person", person) for person in people]
    hold_all(tx, locks)
    return _said(tx, before, people)


_KINDS = tuple(_SAYS)


def _in_order(one: tuple[str, str]) -> tuple[int, str]:
    return _KINDS.index(one[0]), one[1]


def _said(tx: Connection, account: Account, people: Sequence[str]) -> dict[str, set[Any]]:
    """Return the tokens, emails and phones of each person whom the hub has named."""
    said: dict[str, set[Any]] = {}
    for person, *values in tx.rows(_SAID, _of(account) | {"people": people}):
        said.setdefault(person, set()).update(
            (kind, value) for kind, value in zip(_KINDS, values, strict=True) if value
        )
    return said


def _known(tx: Connection, account: Account, people: Sequence[str]) -> set[str]:
    """Return whom the CRM knows, or may know, or who are named by an id of its own."""
    of = _of(account) | {"people": people}
    known = {row.person for row in tx.rows(_IN_CRM, of)}
    return known | {
        row.person
        for row in tx.rows(_LOCK_TRIED, of)
        if row.state != "queued" or row.doubt_since is not None or not row.hub_id.startswith(HUB_ID)
    }


def _met(tx: Connection, account: Account, said: dict[str, set[Any]]) -> set[str]:
    """Return who has already said something to the new CRM."""
    met: set[str] = set()
    for kind, statement in _SAID_HERE.items():
        values = sorted({value for each in said.values() for of, value in each if of == kind})
        if not values:
            continue
        found = {row.value for row in tx.rows(statement, _of(account) | {"said": values})}
        met |= {
            person
            for person, each in said.items()
            if any(of == kind and value in found for of, value in each)
        }
    return met


def _actions(count: int) -> str:
    return f"{count} action{' is' if count == 1 else 's are'} queued"


def _of(account: Account) -> dict[str, Any]:
    return {"account_id": account.id, "connection_id": account.connection.id}
