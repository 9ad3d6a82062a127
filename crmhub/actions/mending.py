"""What operators see of the journal, and how they bring back what died."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.actions.journal import LONGEST_MS, earliest_id
from crmhub.audit import Author
from crmhub.db import Connection, Database, containing, now_ms
from crmhub.errors import Conflict, NotFound
from crmhub.records import values

STATES = ("running", "queued", "done", "refused", "dead", "parked")
KINDS = ("createLead", "setProperties", "createDeal", "createTicket")
MOST = 500
_RETRIED = ("dead", "refused", "parked", "queued")
# So many at once come back, so that a transaction is short whatever is chosen.
_AT_ONCE = 1_000
# As the indexes of the schema say it: only what says the same lets a database choose them.
_STOPPED = ("refused", "dead", "parked")
_OF_STOPPED = "a.state in ('refused', 'dead', 'parked')"
_OF_UNFINISHED = "a.state in ('running', 'queued')"
_COLUMNS = (
    "a.account_id, c.client_id, a.id, a.connection_id, a.kind, a.hub_id, a.state, a.tries,"
    " a.run_at, a.reason, a.created_at, a.finished_at, a.behind"
)
_TABLES = "action a join account c on c.id = a.account_id"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which actions are meant; what is empty does not narrow.

    `phone` may be in any notation, `reason` is a part of it in any case, `older_than_ms` the least
    age. `after` is the id of the last action of the page before.
    """

    account: Account | None = None
    states: Sequence[str] = ()
    kinds: Sequence[str] = ()
    contact_token: str = ""
    phone: str = ""
    reason: str = ""
    older_than_ms: int = 0
    ids: Sequence[str] = ()
    after: str = ""

    @property
    def narrows(self) -> bool:
        """Whether anything is left out."""
        return self != Wanted()


@dataclass(frozen=True, slots=True)
class Summary:
    """An action as a list shows it; times in ms since 1970, 0 for none."""

    account_id: int
    client_id: str
    id: str
    connection_id: int
    kind: str
    hub_id: str
    state: str
    tries: int
    run_at: int
    reason: str
    created_at: int
    finished_at: int
    behind: str


@dataclass(frozen=True, slots=True)
class Try:
    """One try of an action; `ms` is how long it took."""

    number: int
    began_at: int
    ms: int
    outcome: str
    message: str
    correlation_id: str


@dataclass(frozen=True, slots=True)
class Full:
    """An action with all that is known of it: what was sent, each try, what came of it.

    `mapped` is what its last try sent to the CRM, in its names; None before the first.
    """

    summary: Summary
    request: Mapping[str, Any] = field(repr=False)
    mapped: Mapping[str, str] | None = field(repr=False)
    result: Mapping[str, Any] | None
    tries: tuple[Try, ...]


def listed(database: Database, wanted: Wanted, *, limit: int = 50) -> list[Summary]:
    """Return the newest actions that are meant, up to `limit` (at most 500)."""
    # Of one person there are few: sorted by a value that no index has, they are not looked for in
    # a walk through all there are, as SQLite would.
    order = "lower(a.id)" if wanted.contact_token or wanted.phone else "a.id"
    with database.reading() as connection:
        where, params = _condition(connection, wanted)
        rows = connection.rows(
            f"select {_COLUMNS} from {_TABLES} where {where} order by {order} desc limit :limit",
            params | {"limit": min(limit, MOST)},
        )
    return [_summary(row) for row in rows]


def shown(database: Database, action_id: str, account: Account | None = None) -> Full:
    """Return an action with its tries; raises NotFound."""
    with database.reading() as connection:
        where, params = _condition(connection, Wanted(account=account, ids=(action_id,)))
        row = connection.row(
            f"select {_COLUMNS}, a.request, a.mapped, a.result from {_TABLES} where {where}", params
        )
        if row is None:
            raise NotFound(f"There is no action {action_id[:60]}.")
        tries = connection.rows(
            "select number, began_at, ms, outcome, message, correlation_id from action_try"
            " where account_id = :account and action_id = :id order by number",
            {"account": row[0], "id": action_id},
        )
    return Full(
        _summary(row[:-3]),
        json.loads(row[-3]),
        json.loads(row[-2]) if row[-2] else None,
        json.loads(row[-1]) if row[-1] else None,
        tuple(Try(*one) for one in tries),
    )


def retry_one(database: Database, action_id: str, *, by: Author) -> int:
    """Let the worker try an action again, as `retry` does; return how many come back with it.

    Raises NotFound, and Conflict when there is nothing to try again.
    """
    count = retry(database, Wanted(ids=(action_id,)), by=by)
    if not count:
        state = shown(database, action_id).summary.state
        raise Conflict(
            f"The action is {state}; what can be tried again is {', '.join(_RETRIED)}."
            if state != "running"
            else "The action is being tried right now; look again in a moment."
        )
    return count


def retry(database: Database, wanted: Wanted, *, by: Author) -> int:
    """Let the worker try again what is meant and dead, refused or waiting; return how many.

    Where neither states nor ids are named, that is what is dead. What was parked behind a dead
    action comes back with it, and counts. Everything keeps its identity, its place among the
    actions of its person, and the doubt whether it was written before.
    """
    if not wanted.ids and not wanted.states:
        wanted = replace(wanted, states=("dead",))
    brought_back, found = 0, _AT_ONCE
    while found == _AT_ONCE:
        count, found, last = database.transact(partial(_retry, wanted=wanted, by=by))
        brought_back += count
        wanted = replace(wanted, after=last)
    return brought_back


def _retry(tx: Connection, wanted: Wanted, by: Author) -> tuple[int, int, str]:
    """Bring some back; return how many came, how many were looked at, and the last of those."""
    where, params = _condition(tx, wanted)
    rows = tx.rows(
        f"select a.id from action a where {where} and a.state in {_literal(_RETRIED)}"
        " order by a.id desc limit :limit",
        params | {"limit": _AT_ONCE},
    )
    if not rows:
        return 0, 0, ""
    ids = [id for (id,) in rows]
    moment, count = now_ms(), 0
    # Of all accounts at once: no two have an id in common.
    for column, states in (
        ("a.id", f"a.state in {_literal(_RETRIED)}"),
        ("a.behind", f"a.state = 'parked' and {_OF_STOPPED}"),
    ):
        of, given = tx.among(column, "ids", ids)
        count += tx.run(
            "update action as a set state = 'queued', run_at = :now, give_up_at = :give_up,"
            f" tries = 0, finished_at = null, behind = null where {of} and {states}",
            given | {"now": moment, "give_up": moment + LONGEST_MS},
        )
    if tx.dialect == "postgresql":
        tx.run("notify crmhub_journal")
    audit.note(
        tx,
        by,
        "retry",
        "actions",
        ids[0] if len(ids) == 1 else "",
        account_id=wanted.account.id if wanted.account else None,
        after={"retried": count, "newest": ids[0], "oldest": ids[-1]},
    )
    return count, len(ids), ids[-1]


def _condition(connection: Connection, wanted: Wanted) -> tuple[str, dict[str, Any]]:
    conditions = ["1 = 1"]
    params: dict[str, Any] = {}

    def add(condition: str, **more: Any) -> None:
        conditions.append(condition)
        params.update(more)

    if wanted.account is not None:
        add("a.account_id = :account", account=wanted.account.id)
    if wanted.states:
        add(f"a.state in {_literal(wanted.states)}")
        if set(wanted.states) <= set(_STOPPED):
            add(_OF_STOPPED)
        elif not set(wanted.states) & {"done", *_STOPPED}:
            add(_OF_UNFINISHED)
    for column, name, some in (("a.kind", "kinds", wanted.kinds), ("a.id", "ids", wanted.ids)):
        if some:
            condition, given = connection.among(column, name, some)
            add(condition, **given)
    region = wanted.account.switches.region if wanted.account is not None else ""
    phone = wanted.phone and values.for_search("phone", wanted.phone, region=region or None)
    for column, value in (("contact_token", wanted.contact_token), ("phone", phone)):
        if value:
            people = (
                "a.person in (select b.person from binding b where b.account_id = :account"
                if wanted.account is not None
                # Of each by itself, since that is how the indexes begin.
                else "(a.account_id, a.person) in (select b.account_id, b.person from binding b"
                " where b.account_id in (select id from account)"
            )
            add(f"{people} and b.{column} = :{column})", **{column: value})
    if wanted.reason:
        part = containing(wanted.reason.lower())
        add("a.reason <> '' and lower(a.reason) like :reason escape '!'", reason=part)
    if wanted.older_than_ms:
        latest = max(0, now_ms() - wanted.older_than_ms)
        add("a.id < :before", before=earliest_id(latest + 1))
    if wanted.after:
        add("a.id < :after", after=wanted.after)
    return " and ".join(conditions), params


def _literal(states: Sequence[str]) -> str:
    """Return states as SQL; as parameters they would tell a planner nothing."""
    if unknown := set(states) - set(STATES):
        raise ValueError(f"{', '.join(sorted(unknown))}: no state of an action")
    return "(" + ", ".join(f"'{state}'" for state in states) + ")"


def _summary(row: Sequence[Any]) -> Summary:
    values: list[Any] = [*row[:11], row[11] or 0, row[12] or ""]
    return Summary(*values)
