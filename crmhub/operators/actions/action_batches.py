"""What retry and discard share: counts and batches of selected actions, and the audit entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from crmhub import audit
from crmhub.audit import Author
from crmhub.database import tables
from crmhub.database.connection import Connection, Database
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.errors import Conflict, HubError
from crmhub.operators.actions.action_filters import (
    ACTION,
    STOPPED,
    Conditions,
    Wanted,
    conditions_of,
    of_states,
)
from crmhub.operators.actions.action_queries import shown

# Keeps the transactions of large changes short.
AT_ONCE = 1_000
_a = ACTION.c
_blocked = tables.action.alias("e")
_e = _blocked.c
BLOCKED_BEHIND = sa.and_(
    in_list(tables.action.c.behind, "ids"), one_of(tables.action.c.state, "parked")
)
"""The condition that one of the actions `ids` blocks an action."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """How many selected actions a retry or discard would change, and those that they block."""

    states: Mapping[str, int]
    blocked: int

    @property
    def total(self) -> int:
        return sum(self.states.values()) + self.blocked


def chosen(database: Database, wanted: Wanted, states: Sequence[str], *, most: int) -> Chosen:
    """Count the selected actions in one of `states`, and those that they block, up to `most`."""
    with database.reading() as connection:
        conditions, values = conditions_of(connection, failed_by_default(wanted))
        conditions.append(of_states(states))
        values["most"] = most
        taken = sa.select(_a.state).where(*conditions).limit(param("most")).subquery("f")
        by_state = sa.select(taken.c.state, sa.func.count().label("count")).group_by(taken.c.state)
        rows = rows_of_several(connection, Statement(by_state), values)
        [blocked] = rows_of_several(connection, Statement(_count_blocked(conditions)), values)
    return Chosen({row.state: int(row.count) for row in rows}, int(blocked[0]))


def _count_blocked(conditions: Conditions) -> sa.Select[Any]:
    """Count the actions that selected actions block, unless they are selected themselves."""
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


def wrong_state(database: Database, action_id: str, states: Sequence[str], done: str) -> HubError:
    """Return the error for an action that cannot be `done`; raises NotFound."""
    state = shown(database, action_id).summary.state
    if state == "running":
        return Conflict("The action is in progress; look again in a moment.")
    right = f"{', '.join(states[:-1])} and {states[-1]}"
    return Conflict(
        "The action is %(state)s; only %(right)s actions can be %(done)s.",
        state=state,
        right=right,
        done=done,
    )


Part = tuple[int, int, str]
"""The result of one batch: numbers of changed and of read actions, and the last action's id."""


def in_parts(database: Database, wanted: Wanted, step: Callable[[Wanted, Connection], Part]) -> int:
    """Call `step` for one batch of the selected actions after the other; count the changes.

    Each call has a transaction of its own, and gets the selection without earlier batches.
    """
    changed, found = 0, AT_ONCE
    while found == AT_ONCE:
        count, found, last = database.transact(partial(step, wanted))
        changed += count
        wanted = replace(wanted, after=last)
    return changed


def failed_by_default(wanted: Wanted) -> Wanted:
    return wanted if wanted.ids or wanted.states else replace(wanted, states=("dead",))


def newest(tx: Connection, wanted: Wanted, states: Sequence[str]) -> dict[str, int]:
    """Return up to `AT_ONCE` newest selected actions: the account id by action id."""
    conditions, values = conditions_of(tx, wanted)
    statement = (
        sa.select(_a.id, _a.account_id)
        .where(*conditions, of_states(states))
        .order_by(_a.id.desc())
        .limit(param("limit"))
    )
    rows = rows_of_several(tx, Statement(statement), values | {"limit": AT_ONCE})
    return {row.id: row.account_id for row in rows}


def by_account(found: Mapping[str, int]) -> list[tuple[int, list[str]]]:
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
    """`found` is as by `newest`."""
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
