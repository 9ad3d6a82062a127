"""What operators see of the journal, and how they retry what failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.database.bulk import Row
from crmhub.database.connection import (
    Connection,
    Database,
    containing,
    now_ms,
)
from crmhub.errors import BadRequest, Conflict, NotFound
from crmhub.identity.phones import forms, readings
from crmhub.journal.models import earliest_id, is_id
from crmhub.journal.schedule import LONGEST_MS

STATES = ("running", "queued", "done", "refused", "dead", "parked", "discarded")
KINDS = ("createLead", "setProperties", "createDeal", "createTicket")
MOST = 500
RETRIED = ("dead", "refused", "parked", "queued")
# So many at once come back, so that a transaction is short whatever is chosen.
AT_ONCE = 1_000
# As the indexes of the schema say it: only what says the same lets a database choose them.
_STOPPED = ("refused", "dead", "parked", "discarded")
_OF_STOPPED = "a.state in ('refused', 'dead', 'parked', 'discarded')"
_OF_UNFINISHED = "a.state in ('running', 'queued')"
# What waits with its whole connection is not tried before that.
_NEXT_TRY = (
    "coalesce((select o.until from outage o where o.account_id = a.account_id"
    " and o.connection_id = a.connection_id and o.until > a.run_at and a.state = 'queued'),"
    " a.run_at)"
)
_COLUMNS = (
    "a.account_id, c.client_id, a.id, a.connection_id, a.kind, a.hub_id, a.state,"
    f" {_NEXT_TRY}, a.reason, a.created_at, a.finished_at, a.behind"
)
_WHOLE = (
    "(select k.adapter from connection k where k.account_id = a.account_id"
    " and k.id = a.connection_id), a.request, a.mapped, a.result, a.versions, a.corrected"
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
    """An action as a list shows it; times in ms since 1970, 0 for none.

    `attempts` is how many were made; `behind` is the dead lead that blocks it, "" for none.
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


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt of an action; `ms` is how long it took."""

    number: int
    began_at: int
    ms: int
    outcome: str
    message: str
    correlation_id: str


@dataclass(frozen=True, slots=True)
class Version:
    """A request that a correction has replaced: when (ms), and by whom."""

    at: int
    by: str
    request: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Full:
    """An action with all that is known of it: what was sent, each attempt, what came of it.

    `adapter` is the CRM that it was accepted for. `mapped` is what its last attempt sent there, in
    its names; None before the first. `versions` are the requests before each correction, the oldest
    first, `corrected` when each value was corrected last (ms). `blocked` are the ids of the first
    500 actions that are blocked behind it.
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
    """Return the newest actions that are meant, up to `limit` (at most 500)."""
    with database.reading() as connection:
        rows = _newest(connection, wanted, _COLUMNS, limit)
        attempts: dict[str, int] = dict(
            _of_shown(
                connection,
                rows,
                "select t.action_id, max(t.number) from action_try t",
                "t.action_id",
                " group by t.account_id, t.action_id",
            )
        )
    return [_summary(row, attempts.get(row[2], 0)) for row in rows]


def listed_whole(database: Database, wanted: Wanted, *, limit: int = 50) -> list[Full]:
    """Return the newest actions that are meant, with all that is known of them."""
    with database.reading() as connection:
        rows = _newest(connection, wanted, f"{_COLUMNS}, {_WHOLE}", limit)
        return _whole(connection, rows)


def shown(database: Database, action_id: str, account: Account | None = None) -> Full:
    """Return an action with its attempts; raises NotFound."""
    found = listed_whole(database, Wanted(account=account, ids=(action_id,)), limit=1)
    if not found:
        raise NotFound(f"There is no action {action_id[:60]}.")
    return found[0]


def _newest(connection: Connection, wanted: Wanted, columns: str, limit: int) -> list[Row]:
    # Of one person there are few: sorted by a value that no index has, they are not looked for in
    # a walk through all there are, as SQLite would.
    of_one = wanted.contact_token or wanted.contact or wanted.phone
    where, params = condition(connection, wanted)
    return connection.rows(
        f"select {columns} from {_TABLES} where {where}"
        f" order by {'lower(a.id)' if of_one else 'a.id'} desc limit :limit",
        params | {"limit": min(limit, MOST)},
    )


def _whole(connection: Connection, rows: Sequence[Row]) -> list[Full]:
    tries: dict[str, list[Try]] = {row[2]: [] for row in rows}
    for id, *one in _of_shown(
        connection,
        rows,
        "select t.action_id, t.number, t.began_at, t.ms, t.outcome, t.message, t.correlation_id"
        " from action_try t",
        "t.action_id",
        " order by t.number",
    ):
        tries[id].append(Try(*one))
    blocked: dict[str, list[str]] = {row[2]: [] for row in rows}
    for id, behind in _of_shown(
        connection,
        rows,
        "select t.id, e.id from action t join action e on e.account_id = t.account_id"
        " and e.behind = t.id and e.state = 'parked'",
        "t.id",
        f" order by e.id limit {MOST}",
    ):
        blocked[id].append(behind)
    return [
        Full(
            _summary(row[:-6], len(tries[row[2]])),
            row[-6],
            json.loads(row[-5]),
            json.loads(row[-4]) if row[-4] else None,
            json.loads(row[-3]) if row[-3] else None,
            tuple(Version(**one) for one in json.loads(row[-2] or "[]")),
            json.loads(row[-1] or "{}"),
            tuple(tries[row[2]]),
            tuple(blocked[row[2]]),
        )
        for row in rows
    ]


def _of_shown(
    connection: Connection, rows: Sequence[Row], select: str, id: str, rest: str
) -> list[Row]:
    """Return what a query of `t` finds of the actions in these rows, whose column `id` names."""
    if not rows:
        return []
    accounts, ids = sorted({row[0] for row in rows}), [row[2] for row in rows]
    of_accounts, params = connection.among("t.account_id", "accounts", accounts)
    of_actions, more = connection.among(id, "ids", ids)
    return connection.rows(f"{select} where {of_accounts} and {of_actions}{rest}", params | more)


@dataclass(frozen=True, slots=True)
class Chosen:
    """How many actions a retry or a discard takes, by their state.

    `blocked` is how many more come along since they are blocked behind those.
    """

    states: Mapping[str, int]
    blocked: int

    @property
    def total(self) -> int:
        """How many are taken in all."""
        return sum(self.states.values()) + self.blocked


def chosen(database: Database, wanted: Wanted, states: Sequence[str], *, most: int) -> Chosen:
    """Return how many actions in these states are meant; of the newest `most` only.

    Where neither states nor ids are named, that is what has failed.
    """
    with database.reading() as connection:
        where, params = condition(connection, failed_by_default(wanted))
        where = f"{where} and a.state in {literal(states)}"
        rows = connection.rows(
            f"select f.state, count(*) from (select a.state from action a where {where}"
            " limit :most) f group by f.state",
            params | {"most": most},
        )
        blocked = connection.scalar(
            "select count(*) from (select 1 from action e where e.state = 'parked'"
            f" and {_OF_STOPPED.replace('a.', 'e.')} and exists (select 1 from action a"
            f" where a.account_id = e.account_id and a.id = e.behind and {where})"
            " and not exists (select 1 from action a"
            f" where a.account_id = e.account_id and a.id = e.id and {where}) limit :most) f",
            params | {"most": most},
        )
    return Chosen({state: int(count) for state, count in rows}, int(blocked))


def retriable(database: Database, wanted: Wanted, *, most: int) -> Chosen:
    """Return how many actions `retry` would queue; see `chosen`."""
    return chosen(database, wanted, RETRIED, most=most)


def retry_one(database: Database, action_id: str, *, by: Author) -> int:
    """Retry an action, as `retry` does; return how many are queued with it.

    Raises NotFound, and Conflict when there is nothing to retry.
    """
    count = retry(database, Wanted(ids=(action_id,)), by=by)
    if not count:
        state = shown(database, action_id).summary.state
        raise wrong_state(state, f"only {listing(RETRIED)} actions can be retried")
    return count


def wrong_state(state: str, rule: str) -> Conflict:
    """Return the error for an action whose state forbids what is asked."""
    if state == "running":
        return Conflict("The action is in progress; look again in a moment.")
    return Conflict(f"The action is {state}; {rule}.")


def listing(words: Sequence[str]) -> str:
    """Return words as a sentence names them: `dead, parked and queued`."""
    return f"{', '.join(words[:-1])} and {words[-1]}"


def retry(database: Database, wanted: Wanted, *, by: Author) -> int:
    """Let the worker retry what is meant and dead, refused or waiting; return how many.

    Where neither states nor ids are named, that is what is dead. What is blocked behind a dead
    action is queued with it, and counts. Everything keeps its identity, its place among the
    actions of its person, and the doubt whether it was written before.
    """
    return in_parts(database, failed_by_default(wanted), partial(_retry, by=by))


Part = tuple[int, int, str]
"""How many actions a step has changed, how many it looked at, and the last one of those."""


def in_parts(database: Database, wanted: Wanted, step: Callable[[Wanted, Connection], Part]) -> int:
    """Run `step` on some of the actions after the others, each in a transaction of its own.

    Returns how many it has changed.
    """
    changed, found = 0, AT_ONCE
    while found == AT_ONCE:
        count, found, last = database.transact(partial(step, wanted))
        changed += count
        wanted = replace(wanted, after=last)
    return changed


def failed_by_default(wanted: Wanted) -> Wanted:
    """Return what is meant where neither ids nor states are named: what has failed."""
    return wanted if wanted.ids or wanted.states else replace(wanted, states=("dead",))


def newest(tx: Connection, wanted: Wanted, states: Sequence[str]) -> dict[str, int]:
    """Return the ids of the newest actions in these states that are meant, up to `AT_ONCE`.

    With each comes its account's.
    """
    where, params = condition(tx, wanted)
    rows: list[Row] = tx.rows(
        f"select a.id, a.account_id from action a where {where} and a.state in {literal(states)}"
        " order by a.id desc limit :limit",
        params | {"limit": AT_ONCE},
    )
    return dict(rows)


def _retry(wanted: Wanted, tx: Connection, *, by: Author) -> Part:
    found = newest(tx, wanted, RETRIED)
    if not found:
        return 0, 0, ""
    ids = list(found)
    of, params = tx.among("a.id", "ids", ids)
    count = _queue(tx, f"{of} and a.state in {literal(RETRIED)}", params)
    count += queue_blocked(tx, ids)
    if count:
        wake(tx)
        note(tx, by, "retry", found, {"retried": count})
    return count, len(ids), ids[-1]


def queue_blocked(tx: Connection, ids: Sequence[str]) -> int:
    """Queue what is blocked behind these actions; return how many."""
    return _queue(tx, *blocked_behind(tx, ids))


def blocked_behind(tx: Connection, ids: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the condition that an action `a` is blocked behind one of these."""
    of, params = tx.among("a.behind", "ids", ids)
    return f"{of} and a.state = 'parked'", params


def _queue(tx: Connection, where: str, params: Mapping[str, Any]) -> int:
    moment = tx.now_ms()
    # Of all accounts at once: no two have an id in common.
    return tx.run(
        "update action as a set state = 'queued', run_at = :now, give_up_at = :give_up,"
        f" tries = 0, finished_at = null, behind = null, result = null where {where}",
        {**params, "now": moment, "give_up": moment + LONGEST_MS},
    )


def wake(tx: Connection) -> None:
    """Let workers hear of what is queued; those on SQLite look for themselves."""
    if tx.dialect == "postgresql":
        tx.run("notify crmhub_journal")


def note(
    tx: Connection,
    by: Author,
    verb: audit.Verb,
    found: Mapping[str, int],
    counts: Mapping[str, int],
) -> None:
    """Write into the audit log what was done to actions, given with their accounts' ids."""
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


def condition(connection: Connection, wanted: Wanted) -> tuple[str, dict[str, Any]]:
    """Return the condition that an action `a` is meant."""
    conditions = ["1 = 1"]
    params: dict[str, Any] = {}

    def add(condition: str, given: Mapping[str, Any] | None = None, **more: Any) -> None:
        conditions.append(condition)
        params.update(given or more)

    if wanted.account is not None:
        add("a.account_id = :account", account=wanted.account.id)
    if wanted.states:
        add(f"a.state in {literal(wanted.states)}")
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


def literal(states: Sequence[str]) -> str:
    """Return states as SQL; as parameters they would tell a planner nothing."""
    if unknown := set(states) - set(STATES):
        raise ValueError(f"{', '.join(sorted(unknown))}: no state of an action")
    return "(" + ", ".join(f"'{state}'" for state in states) + ")"


def _summary(row: Sequence[Any], attempts: int) -> Summary:
    values: list[Any] = [*row[:10], row[10] or 0, row[11] or "", attempts]
    return Summary(*values)
