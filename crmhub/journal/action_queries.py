"""Queries of the journal's actions for operators, and batches for changing many actions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.adapter.calls import Call, from_stored
from crmhub.audit import Author
from crmhub.database import tables
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.errors import Conflict, NotFound
from crmhub.journal.action_filters import ACTION, STOPPED, Conditions, conditions_of, of_states
from crmhub.journal.action_filters import KINDS as KINDS
from crmhub.journal.action_filters import STATES as STATES
from crmhub.journal.action_filters import Wanted as Wanted

MOST = 500
# Actions per batch: keeps the transactions of large changes short.
AT_ONCE = 1_000
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
    _a.created_at,
    _a.finished_at,
    _a.behind,
    _a.author,
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
_OF_TRIES = sa.and_(in_list(_try.account_id, "account_ids"), in_list(_try.action_id, "ids"))
_ATTEMPTS = Statement(
    sa.select(_try.action_id, sa.func.max(_try.number).label("attempts"))
    .where(_OF_TRIES)
    .group_by(_try.account_id, _try.action_id)
)
_TRIES = Statement(
    sa.select(
        _try.action_id,
        _try.number,
        _try.began_at,
        _try.ms,
        _try.outcome,
        _try.message,
        _try.correlation_id,
        _try.calls,
    )
    .where(_OF_TRIES)
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


BLOCKED_BEHIND = sa.and_(
    in_list(tables.action.c.behind, "ids"), one_of(tables.action.c.state, "parked")
)
"""The condition that one of the actions `ids` blocks an action."""


@dataclass(frozen=True, slots=True)
class Summary:
    """An action as lists show it, without its request and without the details of its attempts.

    Times are in ms since 1970; `finished_at` is 0 for an unfinished action. `attempts`: the number
    of attempts so far. `behind`: the id of the failed lead that blocks the action, or "". `author`:
    the id of the API key with which an agent made the call, "" for a bot's call.
    """

    account_id: int
    client_id: str
    id: str
    connection_id: int
    kind: str
    hub_id: str
    state: str
    run_at: int
    reason: str
    created_at: int
    finished_at: int
    behind: str
    attempts: int
    author: str = ""


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt of an action; `began_at` in ms since 1970, `ms` is the attempt's duration.

    `calls`: the last HTTP calls of the attempt, the first of them first.
    """

    number: int
    began_at: int
    ms: int
    outcome: str
    message: str
    correlation_id: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Version:
    """The request of an action before an operator corrected it.

    `at`: the time of the correction (ms since 1970). `by`: the operator.
    """

    at: int
    by: str
    request: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Full:
    """An action with its request, its attempts and its result.

    `adapter`: the adapter of the CRM that the action is for. `mapped`: the values that the last
    attempt sent, by the CRM's property names; None before the first attempt. `versions`: the
    requests before each correction by an operator, the oldest first. `corrected`: when each value
    was last corrected (ms since 1970), by name. `blocked`: the ids of the actions that cannot run
    because this action has failed, at most 500.
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
    """Return summaries of the selected actions, the newest first, up to `limit` (at most 500)."""
    with database.reading() as connection:
        rows = _newest(connection, wanted, _COLUMNS, limit)
        found = _of_shown(connection, _ATTEMPTS, rows)
    attempts = {row.action_id: row.attempts for row in found}
    return [_summary(row, attempts.get(row.id, 0)) for row in rows]


def listed_whole(database: Database, wanted: Wanted, *, limit: int = 50) -> list[Full]:
    """Return the selected actions with their requests, attempts and results, the newest first.

    `limit`: the greatest number of returned actions; at most 500 are returned.
    """
    with database.reading() as connection:
        rows = _newest(connection, wanted, (*_COLUMNS, *_WHOLE), limit)
        return _whole(connection, rows)


def shown(database: Database, action_id: str, account: Account | None = None) -> Full:
    """Return an action with its request, its attempts and its result.

    `account`: the account that the action must belong to; None for any account. Raises NotFound if
    there is no such action.
    """
    found = listed_whole(database, Wanted(account=account, ids=(action_id,)), limit=1)
    if not found:
        raise NotFound(f"There is no action {action_id[:60]}.")
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
    return _rows(connection, Statement(statement), values | {"limit": min(limit, MOST)})


def _whole(connection: Connection, rows: Sequence[Any]) -> list[Full]:
    tries: dict[str, list[Try]] = {row.id: [] for row in rows}
    for row in _of_shown(connection, _TRIES, rows):
        values = row._asdict()
        calls = from_stored(json.loads(values.pop("calls") or "[]"))
        tries[values.pop("action_id")].append(Try(**values, calls=calls))
    blocked: dict[str, list[str]] = {row.id: [] for row in rows}
    for row in _of_shown(connection, _BLOCKED, rows):
        blocked[row.behind].append(row.id)
    return [
        Full(
            summary=_summary(row, len(tries[row.id])),
            adapter=row.adapter,
            request=json.loads(row.request),
            mapped=json.loads(row.mapped) if row.mapped else None,
            result=json.loads(row.result) if row.result else None,
            versions=tuple(Version(**one) for one in json.loads(row.versions or "[]")),
            corrected=json.loads(row.corrected or "{}"),
            tries=tuple(tries[row.id]),
            blocked=tuple(blocked[row.id]),
        )
        for row in rows
    ]


def _of_shown(connection: Connection, statement: Statement, rows: Sequence[Any]) -> list[Any]:
    """Run a statement for the actions that are listed in `rows`; return the statement's rows."""
    if not rows:
        return []
    accounts = sorted({row.account_id for row in rows})
    ids = [row.id for row in rows]
    return _rows(connection, statement, {"account_ids": accounts, "ids": ids})


def _rows(connection: Connection, statement: Statement, values: Mapping[str, Any]) -> list[Any]:
    """Run a query on the actions of one account or of several accounts; return its rows."""
    return connection.rows(statement, values)


@dataclass(frozen=True, slots=True)
class Chosen:
    """How many actions a retry or discard would change: the numbers of selected actions by state.

    `blocked`: the number of further actions that would change, because selected actions block them.
    """

    states: Mapping[str, int]
    blocked: int

    @property
    def total(self) -> int:
        """The number of actions that would change, including blocked ones."""
        return sum(self.states.values()) + self.blocked


def chosen(database: Database, wanted: Wanted, states: Sequence[str], *, most: int) -> Chosen:
    """Count the selected actions that are in one of `states`, and the actions that they block.

    Each count stops at `most`. If `wanted` names neither states nor ids, only failed actions are
    selected.
    """
    with database.reading() as connection:
        conditions, values = conditions_of(connection, failed_by_default(wanted))
        conditions.append(of_states(states))
        values["most"] = most
        rows = _rows(connection, Statement(_count_by_state(conditions)), values)
        [blocked] = _rows(connection, Statement(_count_blocked(conditions)), values)
    return Chosen({row.state: int(row.count) for row in rows}, int(blocked[0]))


def _count_by_state(conditions: Conditions) -> sa.Select[Any]:
    taken = sa.select(_a.state).where(*conditions).limit(param("most")).subquery("f")
    return sa.select(taken.c.state, sa.func.count().label("count")).group_by(taken.c.state)


def _count_blocked(conditions: Conditions) -> sa.Select[Any]:
    """Return the query that counts the actions that selected actions block.

    Blocked actions that are selected themselves are not counted.
    """
    one: sa.Select[Any] = sa.select(sa.literal_column("1"))
    taken = one.select_from(ACTION).where(_a.account_id == _e.account_id, *conditions)
    blocked = (
        one.select_from(_blocked)
        .where(
            one_of(_e.state, "parked"),
            one_of(_e.state, *STOPPED),
            sa.exists(taken.where(_a.id == _e.behind).correlate(_blocked)),
            sa.not_(sa.exists(taken.where(_a.id == _e.id).correlate(_blocked))),
        )
        .limit(param("most"))
    )
    return sa.select(sa.func.count()).select_from(blocked.subquery("f"))


def wrong_state(state: str, rule: str) -> Conflict:
    """Return the error for an operation on an action in the wrong `state`.

    `rule`: the part of the message that says which states allow the operation.
    """
    if state == "running":
        return Conflict("The action is in progress; look again in a moment.")
    return Conflict(f"The action is {state}; {rule}.")


def listing(words: Sequence[str]) -> str:
    """Join words for a sentence, such as `dead, parked and queued`."""
    return f"{', '.join(words[:-1])} and {words[-1]}"


Part = tuple[int, int, str]
"""The result of one batch: numbers of changed and of read actions, and the last action's id."""


def in_parts(database: Database, wanted: Wanted, step: Callable[[Wanted, Connection], Part]) -> int:
    """Call `step` for one batch of the selected actions after the other.

    Each call runs in a transaction of its own. `step` gets the selection without the actions of
    earlier batches, and the transaction. `step` returns the number of actions changed, the size of
    its batch, and the id of the batch's last action. Return the number of all changed actions.
    """
    changed, found = 0, AT_ONCE
    while found == AT_ONCE:
        count, found, last = database.transact(partial(step, wanted))
        changed += count
        wanted = replace(wanted, after=last)
    return changed


def failed_by_default(wanted: Wanted) -> Wanted:
    """Return the selection `wanted`; without ids and states, limit it to failed actions."""
    return wanted if wanted.ids or wanted.states else replace(wanted, states=("dead",))


def newest(tx: Connection, wanted: Wanted, states: Sequence[str]) -> dict[str, int]:
    """Return the newest selected actions that are in one of `states`, at most 1,000 (`AT_ONCE`).

    The result has the id of each action's account by the action's id.
    """
    conditions, values = conditions_of(tx, wanted)
    statement = (
        sa.select(_a.id, _a.account_id)
        .where(*conditions, of_states(states))
        .order_by(_a.id.desc())
        .limit(param("limit"))
    )
    rows = _rows(tx, Statement(statement), values | {"limit": AT_ONCE})
    return {row.id: row.account_id for row in rows}


def by_account(found: Mapping[str, int]) -> list[tuple[int, list[str]]]:
    """Group action ids by account; return pairs of an account id and the list of its action ids.

    `found`: the account id of each action, by action id.
    """
    ids: dict[int, list[str]] = {}
    for action_id, account_id in found.items():
        ids.setdefault(account_id, []).append(action_id)
    return sorted(ids.items())


def note(
    tx: Connection,
    by: Author,
    verb: audit.Verb,
    found: Mapping[str, int],
    counts: Mapping[str, int],
) -> None:
    """Write to the audit log that an operator changed actions.

    `by`: the operator. `verb`: the kind of change. `found`: the account id of each changed action,
    by action id. `counts`: the numbers of changed actions, by the names that the entry shows.
    """
    ids, accounts = list(found), set(found.values())
    audit.note(
        tx,
        by,
        verb,
        "actions",
        ids[0] if len(ids) == 1 else "",
        account_id=accounts.pop() if len(accounts) == 1 else None,
        after={**counts, "newest": ids[0], "oldest": ids[-1]},
    )


def _summary(row: Any, attempts: int) -> Summary:
    return Summary(
        account_id=row.account_id,
        client_id=row.client_id,
        id=row.id,
        connection_id=row.connection_id,
        kind=row.kind,
        hub_id=row.hub_id,
        state=row.state,
        run_at=row.run_at,
        reason=row.reason,
        created_at=row.created_at,
        finished_at=row.finished_at or 0,
        behind=row.behind or "",
        attempts=attempts,
        author=row.author or "",
    )
