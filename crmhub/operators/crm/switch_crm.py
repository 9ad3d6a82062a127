"""The actions queued for the CRM that an account leaves: finish, drop or move them.

A person is the group of conversations that the hub takes for one human being. Only persons whom the
old CRM does not have are moved, with all their queued actions, so that the switch puts no person
into both CRMs. A person is not moved if the old CRM has or may have the person, or if one of the
person's actions is in progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, get_args

import sqlalchemy as sa

from crmhub import metrics
from crmhub.accounts.accounts import Account
from crmhub.database import tables
from crmhub.database.advisory_locks import hold_all
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, count_of, in_list, one_of, param, params
from crmhub.database.tables import action, binding
from crmhub.errors import Conflict
from crmhub.helpers.actions import CALLS
from crmhub.identity.bindings import HUB_ID

Decision = Literal["finish", "move", "drop"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)

_BATCH = 100
"""The number of persons moved in one transaction; each of them needs a few locks."""

_OF_ACCOUNT = action.c.account_id == param("account_id")
# As in the condition of a partial index.
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
_other = action.alias("other")
# Writes of single records name them by the ids of the former CRM, so their people stay there.
_IS_MOVABLE = sa.not_(
    sa.exists(
        sa.select(sa.literal_column("1")).where(
            _other.c.account_id == param("account_id"),
            _other.c.connection_id == param("connection_id"),
            _other.c.person == action.c.person,
            one_of(_other.c.state, "queued"),
            *(_other.c.kind != sa.literal_column(f"'{helper}'") for helper in CALLS),
        )
    )
)
_COUNT_QUEUED = count_of(action, _QUEUED_HERE)
_DROP = Statement(
    sa.update(action)
    .where(_QUEUED_HERE)
    .values(
        state="refused", cause=sa.null(), cause_text=sa.null(), **params("reason", "finished_at")
    )
    .returning(action.c.kind)
)
_NEXT_PEOPLE = Statement(
    sa.select(action.c.person)
    .distinct()
    .where(
        _QUEUED_HERE, _IS_MOVABLE, action.c.doubt_since.is_(None), action.c.person > param("last")
    )
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
# The columns that identify a person, by the kind of their locks.
_IDENTIFIERS = {
    "token": binding.c.contact_token,
    "email": binding.c.email,
    "phone": binding.c.phone,
}
_IDENTIFIERS_OF_PEOPLE = Statement(
    sa.select(binding.c.person, *_IDENTIFIERS.values()).where(
        _BINDING_HERE, in_list(binding.c.person, "people")
    )
)
_IN_CRM = Statement(
    sa.select(binding.c.person).where(
        _BINDING_HERE, in_list(binding.c.person, "people"), binding.c.crm_id.is_not(None)
    )
)
# While they are locked, no worker claims one of them.
_LOCK_ACTIONS = Statement(
    sa.select(action.c.person, action.c.state, action.c.doubt_since, action.c.hub_id)
    .where(
        _HERE,
        in_list(action.c.person, "people"),
        # The CRM may have a person of a discarded action only if its outcome is in doubt.
        sa.or_(action.c.state != "discarded", action.c.doubt_since.is_not(None)),
        action.c.state != "refused",
    )
    .with_for_update()
)
_IN_USE = {
    kind: Statement(
        sa.select(column.label("value")).where(_BINDING_HERE, in_list(column, "values"))
    )
    for kind, column in _IDENTIFIERS.items()
}


def former_crms(db: Connection, account: Account) -> list[Any]:
    """Return `id`, `adapter`, `queued` and `running` of former CRMs with unfinished actions."""
    return db.rows(_FORMER, account.connection_key)


def count_queued(db: Connection, account: Account) -> int:
    """Of the account's present CRM."""
    count: int = db.scalar(_COUNT_QUEUED, account.connection_key)
    return count


def require_decision(account: Account, count: int, decision: Decision | None) -> None:
    """Raise Conflict if actions are queued for the CRM that the account leaves, undecided."""
    if count and decision is None:
        actions = f"{count} action{' is' if count == 1 else 's are'} queued"
        raise Conflict(
            "queued: %(actions)s for %(adapter)s; say finish (there), move (to the new"
            " CRM, where the former one does not have the contact yet) or drop.",
            actions=actions,
            adapter=account.connection.adapter,
        )


def drop(tx: Connection, database: Database, before: Account, after: Account) -> None:
    """They become refused; operators can retry them."""
    rows = tx.rows(
        _DROP,
        {
            **before.connection_key,
            "finished_at": tx.now_ms(),
            "reason": f"Dropped by an operator, who changed the CRM from"
            f" {before.connection.adapter} to {after.connection.adapter}.",
        },
    )
    for row in rows:
        database.after_commit(partial(metrics.ended, row.kind, "refused"))


def move(database: Database, before: Account, after: Account) -> int:
    """In batches; return their number. After an interruption, the others stay with the old CRM."""
    moved, last = 0, ""
    while True:
        with database.reading() as db:
            rows = db.rows(_NEXT_PEOPLE, before.connection_key | {"last": last, "most": _BATCH})
        if not (people := [row.person for row in rows]):
            return moved
        moved += database.transact(partial(_move, before=before, after=after, people=people))
        last = people[-1]


def _move(tx: Connection, before: Account, after: Account, people: Sequence[str]) -> int:
    identifiers = _lock_people(tx, before, after, people)
    stay = _in_old_crm(tx, before, people) | _in_new_crm(tx, after, identifiers)
    going = [person for person in people if person in identifiers and person not in stay]
    if not going:
        return 0
    move = before.connection_key | {"people": going, "new_id": after.connection.id}
    moment = tx.now_ms()
    tx.run(_MOVE_BINDINGS, move)
    moved = tx.run(_MOVE_ACTIONS, move | {"now": moment})
    tx.notify_workers()
    return moved


_Identifiers = dict[str, set[tuple[str, str]]]
"""(kind, value) of the contactTokens, emails and phones of persons, by person key."""
_KINDS = tuple(_IDENTIFIERS)


def _lock_people(
    tx: Connection, before: Account, after: Account, people: Sequence[str]
) -> _Identifiers:
    """Lock persons in both CRMs, in the order of helper calls; return their identifiers."""
    identifiers = _identifiers(tx, before, people)
    names = sorted(
        {name for of_person in identifiers.values() for name in of_person},
        key=lambda name: (_KINDS.index(name[0]), name[1]),
    )
    ids = (before.connection.id, after.connection.id)
    locks: list[tuple[object, ...]] = [(before.id, id, *name) for name in names for id in ids]
    locks += [(before.id, "person", person) for person in people]
    hold_all(tx, locks)
    return _identifiers(tx, before, people)


def _identifiers(tx: Connection, account: Account, people: Sequence[str]) -> _Identifiers:
    """(kind, value) by person key; none without a binding."""
    identifiers: _Identifiers = {}
    for person, *values in tx.rows(
        _IDENTIFIERS_OF_PEOPLE, account.connection_key | {"people": people}
    ):
        identifiers.setdefault(person, set()).update(
            (kind, value) for kind, value in zip(_KINDS, values, strict=True) if value
        )
    return identifiers


def _in_old_crm(tx: Connection, account: Account, people: Sequence[str]) -> set[str]:
    """Return the persons whom the old CRM has, or may have by an unconfirmed write."""
    params = account.connection_key | {"people": people}
    return {row.person for row in tx.rows(_IN_CRM, params)} | {
        row.person
        for row in tx.rows(_LOCK_ACTIONS, params)
        # An id that is not the hub's own is a contact of the CRM.
        if row.state != "queued" or row.doubt_since is not None or not row.hub_id.startswith(HUB_ID)
    }


def _in_new_crm(tx: Connection, account: Account, identifiers: _Identifiers) -> set[str]:
    """Return the keys of the persons with an identifier that a binding of the new CRM has."""
    in_use: set[tuple[str, str]] = set()
    for kind, statement in _IN_USE.items():
        names = {name for of_person in identifiers.values() for name in of_person}
        values = sorted(value for name_kind, value in names if name_kind == kind)
        if values:
            rows = tx.rows(statement, account.connection_key | {"values": values})
            in_use |= {(kind, row.value) for row in rows}
    return {person for person, of_person in identifiers.items() if of_person & in_use}
