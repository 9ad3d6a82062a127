"""Queries of the journal's actions for operators."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter.calls import from_stored
from crmhub.database import tables
from crmhub.database.connection import Connection, Database
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, count_of, equals, in_list, one_of, param
from crmhub.errors import NotFound
from crmhub.identity import contact_names
from crmhub.identity.contact_names import ContactName
from crmhub.operators.actions.action_filters import ACTION, conditions_of
from crmhub.operators.actions.action_filters import KINDS as KINDS
from crmhub.operators.actions.action_filters import STATE_WORDS as STATE_WORDS
from crmhub.operators.actions.action_filters import STATES as STATES
from crmhub.operators.actions.action_filters import Wanted as Wanted
from crmhub.queue.models import as_result

MOST = 500
_a = ACTION.c
_blocked = tables.action.alias("e")
_e = _blocked.c
_try = tables.action_try.c
_outage = tables.outage.c
_crm = tables.connection.c
# A queued action is not attempted before the outage of its connection ends.
_OUTAGE_ENDS = (
    sa.select(_outage.until)
    .where(
        _outage.account_id == _a.account_id,
        _outage.connection_id == _a.connection_id,
        _outage.until > _a.run_at,
        one_of(_a.state, "queued"),
    )
    .scalar_subquery()
)
_COLUMNS = (
    _a.account_id,
    tables.account.c.client_id,
    _a.id,
    _a.connection_id,
    _a.kind,
    _a.hub_id,
    _a.state,
    sa.func.coalesce(_OUTAGE_ENDS, _a.run_at).label("run_at"),
    _a.reason,
    sa.func.coalesce(_a.cause, "").label("cause"),
    _a.created_at,
    sa.func.coalesce(_a.finished_at, 0).label("finished_at"),
    sa.func.coalesce(_a.behind, "").label("behind"),
    sa.func.coalesce(_a.author, "").label("author"),
    sa.select(sa.func.coalesce(sa.func.max(_try.number), 0))
    .where(_try.account_id == _a.account_id, _try.action_id == _a.id)
    .scalar_subquery()
    .label("attempts"),
)
_WHOLE = (
    sa.select(_crm.adapter)
    .where(_crm.account_id == _a.account_id, _crm.id == _a.connection_id)
    .scalar_subquery()
    .label("adapter"),
    _a.request,
    _a.mapped,
    _a.result,
    _a.versions,
    _a.corrected,
)
_TRIES = Statement(
    sa.select(tables.action_try)
    .where(in_list(_try.account_id, "account_ids"), in_list(_try.action_id, "ids"))
    .order_by(_try.number)
)
_IS_BLOCKED = sa.and_(_e.account_id == _a.account_id, _e.behind == _a.id)
_BLOCKED = Statement(
    sa.select(_a.id.label("behind"), _e.id)
    .join_from(ACTION, _blocked, sa.and_(_IS_BLOCKED, one_of(_e.state, "parked")))
    .where(in_list(_a.account_id, "account_ids"), in_list(_a.id, "ids"))
    .order_by(_e.id)
    .limit(MOST)
)


_PER_STATE = sa.select(_a.state, sa.func.count().label("n"))

Summary = Any
"""The row of an action as lists show it; times are in ms since 1970.

`finished_at`: 0 for an unfinished action. `behind`: the id of the failed lead that blocks it, or
"". `attempts`: their number. `author`: the id of an agent's API key, "" for a bot's call.
"""
Try = Any
"""The row of an attempt; `began_at` in ms since 1970, `calls` are its last HTTP calls in order."""


@dataclass(frozen=True, slots=True)
class Version:
    """The request before a correction `by` an operator; `at` in ms since 1970."""

    at: int
    by: str
    request: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Full:
    """An action with its request, its attempts and its result.

    `mapped`: the values that the last attempt sent, by the CRM's names. `versions`: the oldest
    first. `corrected`: when each value was last corrected (ms since 1970). `blocked`: at most 500
    ids of the actions that this failed action blocks.
    """

    summary: Summary
    adapter: str
    request: Mapping[str, Any] = field(repr=False)
    mapped: Mapping[str, str] | None = field(repr=False)
    result: Mapping[str, Any] | None
    versions: tuple[Version, ...]
    corrected: Mapping[str, int]
    tries: tuple[Try, ...]
    blocked: tuple[str, ...]


def listed(database: Database, wanted: Wanted, *, limit: int = 50) -> list[Summary]:
    """The newest first, at most `limit`, which is at most 500."""
    with database.reading() as connection:
        return _newest(connection, wanted, _COLUMNS, limit)


def listed_whole(database: Database, wanted: Wanted, *, limit: int = 50) -> list[Full]:
    """As `listed`, in full."""
    with database.reading() as connection:
        rows = _newest(connection, wanted, (*_COLUMNS, *_WHOLE), limit)
        return _whole(connection, rows)


def count_by_state(database: Database, wanted: Wanted) -> dict[str, int]:
    """Return the number of the selected actions in each state that has any."""
    with database.reading() as db:
        conditions, values = conditions_of(db, wanted)
        statement = Statement(_PER_STATE.where(*conditions).group_by(_a.state))
        return {row.state: row.n for row in db.rows(statement, values)}


def names_of(database: Database, actions: Iterable[Summary]) -> dict[str, ContactName]:
    """Return the known names of the contacts of actions, by action id."""
    keys = {one.id: (one.account_id, one.connection_id, one.hub_id) for one in actions}
    with database.reading() as db:
        found = contact_names.names_of(db, keys.values())
    return {id: found[key] for id, key in keys.items() if key in found}


def shown(database: Database, action_id: str, account: Account | None = None) -> Full:
    """Raises NotFound if there is none (of `account`, if given)."""
    found = listed_whole(database, Wanted(account=account, ids=(action_id,)), limit=1)
    if not found:
        raise NotFound("There is no action %(action_id)s.", action_id=action_id[:60])
    return found[0]


def _newest(
    connection: Connection, wanted: Wanted, columns: Sequence[sa.ColumnElement[Any]], limit: int
) -> list[Any]:
    # Sorting by an expression without an index keeps SQLite from scanning all actions in the order
    # of their ids to find few.
    conditions, values = conditions_of(connection, wanted)
    statement = (
        sa.select(*columns)
        .join_from(ACTION, tables.account, tables.account.c.id == _a.account_id)
        .where(*conditions)
        .order_by((sa.func.lower(_a.id) if wanted.is_of_few else _a.id).desc())
        .limit(param("limit"))
    )
    return rows_of_several(connection, Statement(statement), values | {"limit": min(limit, MOST)})


def _whole(connection: Connection, rows: Sequence[Any]) -> list[Full]:
    tries: dict[str, list[Try]] = {row.id: [] for row in rows}
    for row in _of_shown(connection, _TRIES, rows):
        calls = from_stored(json.loads(row.calls or "[]"))
        tries[row.action_id].append(row._replace(calls=calls))
    blocked: dict[str, list[str]] = {row.id: [] for row in rows}
    for row in _of_shown(connection, _BLOCKED, rows):
        blocked[row.behind].append(row.id)
    return [
        Full(
            summary=row,
            adapter=row.adapter,
            request=json.loads(row.request),
            mapped=json.loads(row.mapped) if row.mapped else None,
            result=as_result(row.result),
            versions=tuple(Version(**one) for one in json.loads(row.versions or "[]")),
            corrected=json.loads(row.corrected or "{}"),
            tries=tuple(tries[row.id]),
            blocked=tuple(blocked[row.id]),
        )
        for row in rows
    ]


def _of_shown(connection: Connection, statement: Statement, rows: Sequence[Any]) -> list[Any]:
    if not rows:
        return []
    accounts = sorted({row.account_id for row in rows})
    ids = [row.id for row in rows]
    return rows_of_several(connection, statement, {"account_ids": accounts, "ids": ids})


class ActionFollower:
    """Compares the newest 500 selected actions with those of the previous call of `changes`."""

    def __init__(self, database: Database, wanted: Wanted) -> None:
        self._database = database
        self._wanted = wanted
        self._seen: dict[str, tuple[str, int, str]] | None = None
        # Actions with smaller ids are older than those of the previous call.
        self._oldest = ""

    def changes(self, *, first: int = 0) -> list[Summary]:
        """The oldest first; on the first call the newest `first`."""
        newest = listed(self._database, self._wanted, limit=MOST)
        seen = {action.id: (action.state, action.attempts, action.reason) for action in newest}
        if self._seen is None:
            changed = newest[:first]
        else:
            changed = [action for action in newest if self._has_changed(action.id, seen[action.id])]
        self._seen = seen
        self._oldest = newest[-1].id if len(newest) == MOST else ""
        return changed[::-1]

    def _has_changed(self, action_id: str, now: tuple[str, int, str]) -> bool:
        assert self._seen is not None
        before = self._seen.get(action_id)
        return action_id > self._oldest if before is None else before != now


# --- why an action waits -------------------------------------------------------------------------

_own = tables.action.alias("own")
_CONNECTION = Statement(
    sa.select(
        (_crm.id != tables.account.c.connection_id).label("left"), _outage.reason, _outage.until
    )
    .join_from(tables.connection, tables.account, tables.account.c.id == _crm.account_id)
    .outerjoin(
        tables.outage,
        sa.and_(_outage.account_id == _crm.account_id, _outage.connection_id == _crm.id),
    )
    .where(_crm.account_id == param("account_id"), _crm.id == param("connection_id"))
)
_TURN = Statement(
    sa.select(_a.id)
    .join_from(
        _own,
        ACTION,
        sa.and_(
            _a.account_id == _own.c.account_id,
            _a.person == _own.c.person,
            one_of(_a.state, "running", "queued"),
            _a.id < _own.c.id,
        ),
    )
    .where(*equals(_own, "account_id", "id"), one_of(_own.c.state, "running", "queued"))
    .order_by(_a.id)
    .limit(1)
)
_COUNT_BLOCKED = count_of(
    ACTION,
    _a.account_id == param("account_id"),
    _a.behind == param("id"),
    one_of(_a.state, "parked"),
)


@dataclass(frozen=True, slots=True)
class Standing:
    """`left`: the account has switched to another CRM.

    `turn`: the earlier action that must end first, or "". `away`: why the whole connection waits
    until `until` (ms since 1970), or "". `blocked`: the number of actions that wait for it.
    """

    left: bool
    turn: str
    away: str
    until: int
    blocked: int


def standing(database: Database, action: Summary) -> Standing:
    of = {name: getattr(action, name) for name in ("account_id", "id", "connection_id")}
    with database.reading() as db:
        here = db.row(_CONNECTION, of)
        turn = db.scalar(_TURN, of)
        blocked = db.scalar(_COUNT_BLOCKED, of)
    return Standing(bool(here.left), turn or "", here.reason or "", here.until or 0, int(blocked))
