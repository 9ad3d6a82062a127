"""What operators see of the journal, and how they bring back what died."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.actions.entries import earliest_id, is_id
from crmhub.actions.journal import LONGEST_MS
from crmhub.actions.phones import forms, readings
from crmhub.audit import Author
from crmhub.db import Connection, Database, containing, now_ms
from crmhub.errors import BadRequest, Conflict, NotFound
from crmhub.rows import Row

STATES = ("running", "queued", "done", "refused", "dead", "parked")
KINDS = ("createLead", "setProperties", "createDeal", "createTicket")
MOST = 500
RETRIED = ("dead", "refused", "parked", "queued")
# So many at once come back, so that a transaction is short whatever is chosen.
_AT_ONCE = 1_000
# As the indexes of the schema say it: only what says the same lets a database choose them.
_STOPPED = ("refused", "dead", "parked")
_OF_STOPPED = "a.state in ('refused', 'dead', 'parked')"
_OF_UNFINISHED = "a.state in ('running', 'queued')"
# What waits with its whole connection is not tried before that.
_NEXT_TRY = (
    "coalesce((select o.until from outage o where o.account_id = a.account_id"
    " and o.connection_id = a.connection_id and o.until > a.run_at and a.state = 'queued'),"
    " a.run_at)"
)
_COLUMNS = (
    "a.account_id, c.client_id, a.id, a.connection_id, a.kind, a.hub_id, a.state, a.tries,"
    f" {_NEXT_TRY}, a.reason, a.created_at, a.finished_at, a.behind"
)
_WHOLE = (
    "(select k.adapter from connection k where k.account_id = a.account_id"
    " and k.id = a.connection_id), a.request, a.mapped, a.result"
)
_TABLES = "action a join account c on c.id = a.account_id"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which actions are meant; what is empty does not narrow.

    `contact` is an id of the hub's or of a CRM's, `phone` may be in any notation, `reason` is a
    part of it in any case; `older_than_ms` is the least age, `newer_than_ms` the greatest. `after`
    is the id of the last action of the page before.
    """

    account: Account | None = None
    states: Sequence[str] = ()
    kinds: Sequence[str] = ()
    contact_token: str = ""
    contact: str = ""
    phone: str = ""
    reason: str = ""
    older_than_ms: int = 0
    newer_than_ms: int = 0
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

    `adapter` is the CRM that it was accepted for. `mapped` is what its last try sent there, in its
    names; None before the first.
    """

    summary: Summary
    adapter: str
    request: Mapping[str, Any] = field(repr=False)
    mapped: Mapping[str, str] | None = field(repr=False)
    result: Mapping[str, Any] | None
    tries: tuple[Try, ...]


def listed(database: Database, wanted: Wanted, *, limit: int = 50) -> list[Summary]:
    """Return the newest actions that are meant, up to `limit` (at most 500)."""
    with database.reading() as connection:
        rows = _newest(connection, wanted, _COLUMNS, limit)
    return [_summary(row) for row in rows]


def listed_whole(database: Database, wanted: Wanted, *, limit: int = 50) -> list[Full]:
    """Return the newest actions that are meant, with all that is known of them."""
    with database.reading() as connection:
        rows = _newest(connection, wanted, f"{_COLUMNS}, {_WHOLE}", limit)
        return _whole(connection, rows)


def shown(database: Database, action_id: str, account: Account | None = None) -> Full:
    """Return an action with its tries; raises NotFound."""
    found = listed_whole(database, Wanted(account=account, ids=(action_id,)), limit=1)
    if not found:
        raise NotFound(f"There is no action {action_id[:60]}.")
    return found[0]


def _newest(connection: Connection, wanted: Wanted, columns: str, limit: int) -> list[Row]:
    # Of one person there are few: sorted by a value that no index has, they are not looked for in
    # a walk through all there are, as SQLite would.
    of_one = wanted.contact_token or wanted.contact or wanted.phone
    where, params = _condition(connection, wanted)
    return connection.rows(
        f"select {columns} from {_TABLES} where {where}"
        f" order by {'lower(a.id)' if of_one else 'a.id'} desc limit :limit",
        params | {"limit": min(limit, MOST)},
    )


def _whole(connection: Connection, rows: Sequence[Row]) -> list[Full]:
    accounts, ids = sorted({row[0] for row in rows}), [row[2] for row in rows]
    tries: dict[str, list[Try]] = {id: [] for id in ids}
    if rows:
        of_accounts, params = connection.among("account_id", "accounts", accounts)
        of_actions, more = connection.among("action_id", "ids", ids)
        for id, *one in connection.rows(
            "select action_id, number, began_at, ms, outcome, message, correlation_id"
            f" from action_try where {of_accounts} and {of_actions} order by number",
            params | more,
        ):
            tries[id].append(Try(*one))
    return [
        Full(
            _summary(row[:-4]),
            row[-4],
            json.loads(row[-3]),
            json.loads(row[-2]) if row[-2] else None,
            json.loads(row[-1]) if row[-1] else None,
            tuple(tries[row[2]]),
        )
        for row in rows
    ]


def retriable(database: Database, wanted: Wanted, *, most: int) -> dict[str, int]:
    """Return how many `retry` would bring back, by their state; of the newest `most` only.

    What is parked behind them comes back, too, and is not counted here.
    """
    with database.reading() as connection:
        where, params = _condition(connection, _to_retry(wanted))
        rows = connection.rows(
            "select f.state, count(*) from (select a.state from action a"
            f" where {where} and a.state in {_literal(RETRIED)} limit :most) f group by f.state",
            params | {"most": most},
        )
    return {state: int(count) for state, count in rows}


def retry_one(database: Database, action_id: str, *, by: Author) -> int:
    """Let the worker try an action again, as `retry` does; return how many come back with it.

    Raises NotFound, and Conflict when there is nothing to try again.
    """
    count = retry(database, Wanted(ids=(action_id,)), by=by)
    if not count:
        state = shown(database, action_id).summary.state
        raise Conflict(
            f"The action is {state}; what can be tried again is {', '.join(RETRIED)}."
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
    wanted = _to_retry(wanted)
    brought_back, found = 0, _AT_ONCE
    while found == _AT_ONCE:
        count, found, last = database.transact(partial(_retry, wanted=wanted, by=by))
        brought_back += count
        wanted = replace(wanted, after=last)
    return brought_back


def _to_retry(wanted: Wanted) -> Wanted:
    return wanted if wanted.ids or wanted.states else replace(wanted, states=("dead",))


def _retry(tx: Connection, wanted: Wanted, by: Author) -> tuple[int, int, str]:
    """Bring some back; return how many came, how many were looked at, and the last of those."""
    where, params = _condition(tx, wanted)
    rows = tx.rows(
        f"select a.id from action a where {where} and a.state in {_literal(RETRIED)}"
        " order by a.id desc limit :limit",
        params | {"limit": _AT_ONCE},
    )
    if not rows:
        return 0, 0, ""
    ids = [id for (id,) in rows]
    moment, count = tx.now_ms(), 0
    # Of all accounts at once: no two have an id in common.
    for column, states in (
        ("a.id", f"a.state in {_literal(RETRIED)}"),
        ("a.behind", f"a.state = 'parked' and {_OF_STOPPED}"),
    ):
        of, given = tx.among(column, "ids", ids)
        count += tx.run(
            "update action as a set state = 'queued', run_at = :now, give_up_at = :give_up,"
            " tries = 0, finished_at = null, behind = null, result = null"
            f" where {of} and {states}",
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

    def add(condition: str, given: Mapping[str, Any] | None = None, **more: Any) -> None:
        conditions.append(condition)
        params.update(given or more)

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
            add(*connection.among(column, name, some))
    region = wanted.account.switches.region if wanted.account is not None else ""
    numbers = readings(wanted.phone, region) if wanted.phone else []
    phones = sorted({form for number in numbers for form in forms(number, region)})
    tokens = [wanted.contact_token] if wanted.contact_token else []
    for column, some in (("contact_token", tokens), ("phone", phones)):
        if some:
            people = (
                "a.person in (select b.person from binding b where b.account_id = :account"
                if wanted.account is not None
                # Of each by itself, since that is how the indexes begin.
                else "(a.account_id, a.person) in (select b.account_id, b.person from binding b"
                " where b.account_id in (select id from account)"
            )
            of, given = connection.among(f"b.{column}", column, some)
            add(f"{people} and {of})", given)
    if wanted.contact:
        add(*_of_contact(connection, wanted))
    if wanted.reason:
        part = containing(wanted.reason.lower())
        add("a.reason <> '' and lower(a.reason) like :reason escape '!'", reason=part)
    if wanted.older_than_ms:
        latest = max(0, now_ms() - wanted.older_than_ms)
        add("a.id < :before", before=earliest_id(latest + 1))
    if wanted.newer_than_ms:
        add("a.id >= :since", since=earliest_id(max(0, now_ms() - wanted.newer_than_ms)))
    if wanted.after:
        # Any other text sorts before or behind every id.
        if not is_id(wanted.after):
            raise BadRequest(f"after: {wanted.after[:60]!r} is not the id of an action.")
        add("a.id < :after", after=wanted.after)
    return " and ".join(conditions), params


def _of_contact(connection: Connection, wanted: Wanted) -> tuple[str, dict[str, Any]]:
    """Return the condition that an action is for who has the id `contact`."""
    params: dict[str, Any] = {"contact": wanted.contact}
    narrowed = ""
    if wanted.account is not None:
        narrowed, params["account"] = " where c.account_id = :account", wanted.account.id
    rows = connection.rows(
        " union all ".join(
            "select b.person from connection c join binding b on b.account_id = c.account_id"
            f" and b.connection_id = c.id and b.{column} = :contact{narrowed}"
            for column in ("hub_id", "crm_id")
        ),
        params,
    )
    # Whom the hub has not met goes by the id that the CRM knows them by.
    people = {wanted.contact, *(person for (person,) in rows)}
    condition, given = connection.among("a.person", "people", sorted(people))
    if wanted.account is None:
        condition += " and a.account_id in (select id from account)"
    return condition, given


def _literal(states: Sequence[str]) -> str:
    """Return states as SQL; as parameters they would tell a planner nothing."""
    if unknown := set(states) - set(STATES):
        raise ValueError(f"{', '.join(sorted(unknown))}: no state of an action")
    return "(" + ", ".join(f"'{state}'" for state in states) + ")"


def _summary(row: Sequence[Any]) -> Summary:
    values: list[Any] = [*row[:11], row[11] or 0, row[12] or ""]
    return Summary(*values)
