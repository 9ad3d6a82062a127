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

from crmhub import metrics
from crmhub.accounts.accounts import Account
from crmhub.database.advisory_locks import hold_all
from crmhub.database.connection import Connection, Database
from crmhub.errors import Conflict
from crmhub.identity.bindings import HUB_ID

Decision = Literal["finish", "move", "drop"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)

_AT_ONCE = 100
"""People moved in one transaction, each with a few locks."""


@dataclass(frozen=True, slots=True)
class Former:
    """A connection that the account has left, with actions that are to be finished there."""

    id: int
    adapter: str
    queued: int
    running: int


def former(db: Connection, account: Account) -> list[Former]:
    """Return the connections the account has left where something is unfinished."""
    rows = db.rows(
        "select c.id, c.adapter, sum(case when a.state = 'queued' then 1 else 0 end),"
        " sum(case when a.state = 'running' then 1 else 0 end) from action a"
        " join connection c on c.account_id = a.account_id and c.id = a.connection_id"
        " where a.account_id = :account and a.connection_id <> :connection"
        " and a.state in ('running', 'queued') group by c.id, c.adapter order by c.id",
        _of(account),
    )
    return [Former(id, adapter, int(queued), int(running)) for id, adapter, queued, running in rows]


def queued(db: Connection, account: Account) -> int:
    """Return how many actions are queued for the account's present CRM."""
    count: int = db.scalar(
        "select count(*) from action where account_id = :account and connection_id = :connection"
        " and state in ('running', 'queued') and state = 'queued'",
        _of(account),
    )
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
        "update action set state = 'refused', reason = :reason, finished_at = :now"
        " where account_id = :account and connection_id = :connection"
        " and state in ('running', 'queued') and state = 'queued' returning kind",
        {
            **_of(before),
            "now": tx.now_ms(),
            "reason": f"Dropped by an operator, who changed the CRM from"
            f" {before.connection.adapter} to {after.connection.adapter}.",
        },
    )
    for (kind,) in rows:
        database.after_commit(partial(metrics.ended, kind, "refused"))
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
        rows = db.rows(
            "select distinct person from action where account_id = :account"
            " and connection_id = :connection and state in ('running', 'queued')"
            " and state = 'queued' and doubt_since is null and person > :last"
            " order by person limit :limit",
            {**_of(account), "last": last, "limit": _AT_ONCE},
        )
    return [person for (person,) in rows]


def _move(tx: Connection, before: Account, after: Account, people: Sequence[str]) -> int:
    said = _hold(tx, before, after, people)
    stay = _known(tx, before, people) | _met(tx, after, said)
    going = [person for person in people if person in said and person not in stay]
    if not going:
        return 0
    among, params = tx.among("person", "people", going)
    of = {**_of(before), **params, "new": after.connection.id, "now": tx.now_ms()}
    where = f"where account_id = :account and connection_id = :connection and {among}"
    tx.run(f"update binding set connection_id = :new {where}", of)
    moved = tx.run(
        f"update action set connection_id = :new, run_at = :now {where} and state = 'queued'", of
    )
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


_KINDS = ("token", "email", "phone")


def _in_order(one: tuple[str, str]) -> tuple[int, str]:
    return _KINDS.index(one[0]), one[1]


def _said(tx: Connection, account: Account, people: Sequence[str]) -> dict[str, set[Any]]:
    """Return the tokens, emails and phones of each person whom the hub has named."""
    among, params = tx.among("person", "people", people)
    said: dict[str, set[Any]] = {}
    for person, *values in tx.rows(
        "select person, contact_token, email, phone from binding where account_id = :account"
        f" and connection_id = :connection and {among}",
        {**_of(account), **params},
    ):
        said.setdefault(person, set()).update(
            (kind, value) for kind, value in zip(_KINDS, values, strict=True) if value
        )
    return said


def _known(tx: Connection, account: Account, people: Sequence[str]) -> set[str]:
    """Return whom the CRM knows, or may know, or who are named by an id of its own."""
    among, params = tx.among("person", "people", people)
    of = {**_of(account), **params}
    here = f"where account_id = :account and connection_id = :connection and {among}"
    told = tx.rows(f"select person from binding {here} and crm_id is not null", of)
    # Locked: a worker that would claim one of them passes it over.
    tried = tx.rows(
        f"select person, state, doubt_since, hub_id from action {here}"
        # Of a discarded one, too, the CRM may know only where that is in doubt.
        " and (state <> 'discarded' or doubt_since is not null)"
        f" and state <> 'refused'{tx.for_update}",
        of,
    )
    return {person for (person,) in told} | {
        person
        for person, state, doubt, hub_id in tried
        if state != "queued" or doubt is not None or not hub_id.startswith(HUB_ID)
    }


def _met(tx: Connection, account: Account, said: dict[str, set[Any]]) -> set[str]:
    """Return who has already said something to the new CRM."""
    met: set[str] = set()
    for kind, column in zip(_KINDS, ("contact_token", "email", "phone"), strict=True):
        values = sorted({value for each in said.values() for of, value in each if of == kind})
        if not values:
            continue
        among, params = tx.among(column, "said", values)
        found = {
            value
            for (value,) in tx.rows(
                f"select {column} from binding where account_id = :account"
                f" and connection_id = :connection and {among}",
                {**_of(account), **params},
            )
        }
        met |= {
            person
            for person, each in said.items()
            if any(of == kind and value in found for of, value in each)
        }
    return met


def _actions(count: int) -> str:
    return f"{count} action{' is' if count == 1 else 's are'} queued"


def _of(account: Account) -> dict[str, Any]:
    return {"account": account.id, "connection": account.connection.id}
