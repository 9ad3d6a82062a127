"""Why actions fail: the failed, blocked and retried actions, grouped by their cause."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter.places import PLACES
from crmhub.database.connection import Connection, Database
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, equals, in_list, one_of, param
from crmhub.database.tables import account as account_table
from crmhub.database.tables import action
from crmhub.errors import NotFound
from crmhub.queue.causes import Cause
from crmhub.translatable import translatable

MOST = 100
"""The most groups that are listed, those with the most actions first."""
_NAMED_ACCOUNTS = 3
_a = action.c
_ENDED = sa.func.coalesce(_a.finished_at, _a.created_at)


def _sum_of(*states: str) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.case((one_of(_a.state, *states), 1), else_=0))


_NUMBERS = (
    _sum_of("dead").label("failed"),
    _sum_of("parked").label("blocked"),
    _sum_of("queued", "running").label("retrying"),
    sa.func.min(_ENDED).label("since"),
    sa.func.max(_ENDED).label("last"),
    # A blocked action has the cause of another one, which is the better example.
    sa.func.max(sa.case((_a.state != sa.literal_column("'parked'"), _a.id))).label("own"),
    sa.func.max(_a.id).label("newest"),
)
_ALL = (
    sa.select(
        _a.cause,
        *_NUMBERS,
        sa.func.count(_a.account_id.distinct()).label("accounts"),
        sa.func.count().over().label("groups"),
    )
    .where(_a.cause.is_not(None))
    .group_by(_a.cause)
    .order_by(sa.func.count().desc(), _a.cause)
    .limit(MOST)
)
_ONE = sa.select(_a.account_id, *_NUMBERS).where(_a.cause == param("cause")).group_by(_a.account_id)
_FILTERS = {
    "account_ids": in_list(_a.account_id, "account_ids"),
    "ended_from": param("ended_from") <= _ENDED,
    "ended_until": param("ended_until") > _ENDED,
}
_EXAMPLES = Statement(
    sa.select(_a.account_id, _a.id, _a.cause, _a.cause_text, account_table.c.client_id)
    .join_from(action, account_table, account_table.c.id == _a.account_id)
    .where(in_list(_a.id, "ids"))
)
_CLIENT_IDS = Statement(
    sa.select(account_table.c.id, account_table.c.client_id).where(
        in_list(account_table.c.id, "ids")
    )
)
PAGE = Statement(
    sa.select(_a.id, _a.kind, _a.state, _a.connection_id, _a.request)
    .where(
        *equals(action, "account_id", "cause"),
        one_of(_a.state, "dead", "queued"),
        _a.id > param("after"),
        _a.id <= param("until"),
    )
    .order_by(_a.id)
    .limit(param("limit"))
)
"""The failed and retried actions of a group in one account, the oldest first."""
_SAID: Mapping[str, str] = {
    "unknown": translatable("the CRM has no such property"),
    "read_only": translatable("the CRM does not let it be written"),
    "option": translatable("the CRM has no such option"),
    "pipeline": translatable("the CRM has no such pipeline"),
    "stage": translatable("the CRM has no such stage"),
    "missing": translatable("a value is missing"),
    "long": translatable("the value is too long"),
    "format": translatable("the value has the wrong form"),
    "taken": translatable("another record has this value"),
}
_PIPELINES = frozenset(pipeline for pipeline, _ in PLACES.values())
_STAGES = frozenset(stage for _, stage in PLACES.values())
_CONNECTION = ("Denied", "LacksRight", "BadConfig")
_AWAY = ("Unavailable", "Unreachable", "Uncertain")
_COUNTED = ("failed", "blocked", "retrying")


@dataclass(frozen=True, slots=True)
class Group:
    """Actions that failed for one cause.

    `counts`: numbers of `failed`, `blocked` and `retrying` actions. `since` and `last`: when the
    first and the last of them failed (ms since 1970). `example`: the account id and the id of the
    newest action. `account_count`: of all its accounts; `client_ids`: of those with the most
    actions, in a list of the example's. `accounts`: the numbers of failed and retried actions by
    account id, of a single group.
    """

    key: str
    cause: Cause
    counts: Mapping[str, int]
    since: int
    last: int
    example: tuple[int, str]
    account_count: int
    client_ids: tuple[str, ...]
    accounts: Mapping[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def open(self) -> int:
        """The number of actions that a retry takes; blocked ones go with those that block them."""
        return self.failed + self.counts.get("retrying", 0)

    @property
    def failed(self) -> int:
        return self.counts.get("failed", 0)

    @property
    def said(self) -> str:
        """What is wrong, in a sentence without values."""
        return said(self.cause)

    @property
    def advice(self) -> str:
        return advice(self.cause)

    def largest_accounts(self, most: int) -> list[int]:
        return _largest(self.accounts, most)


def said(cause: Cause) -> str:
    if not cause.fault:
        return f"{cause.name}: {cause.pattern}" if cause.name else cause.pattern
    fault = cause.fault
    if fault == "option":
        in_stages = "stage" if cause.name in _STAGES else fault
        fault = "pipeline" if cause.name in _PIPELINES else in_stages
    return f"{cause.name}: {_SAID[fault]}"


def advice(cause: Cause) -> str:
    """What would fix it, by the class of the error."""
    if cause.word in _CONNECTION:
        return translatable("Correct the connection to the CRM, then retry.")
    if cause.word in _AWAY:
        return translatable("The CRM did not answer. Retry once it does.")
    if cause.fault in ("unknown", "read_only"):
        return translatable(
            "Map the property to one that the CRM has, or add it there; then retry."
        )
    if cause.fault == "taken":
        return translatable("Correct the value, or discard what is in the CRM already.")
    if cause.name:
        return translatable("Correct the value, or allow it in the CRM and retry.")
    if cause.word == "LimitExceeded":
        return translatable("Raise the account's plan, or wait; then retry.")
    return translatable("Fix the cause in the CRM and retry, or discard.")


def groups(
    database: Database,
    *,
    account: Account | None = None,
    account_ids: Collection[int] | None = None,
    ended: tuple[int, int] = (0, 0),
) -> tuple[list[Group], int]:
    """Return at most `MOST` groups, those with the most actions first, and the number of all.

    `account_ids`: None for all accounts. `ended`: the time of failure, as in `action_filters`.
    """
    wanted: dict[str, Any] = {}
    if account is not None:
        wanted["account_ids"] = [account.id]
    elif account_ids is not None:
        wanted["account_ids"] = sorted(account_ids)
    wanted |= {n: at for n, at in zip(("ended_from", "ended_until"), ended, strict=True) if at}
    statement = _ALL.where(*(_FILTERS[name] for name in wanted))
    with database.reading() as db:
        rows = rows_of_several(db, Statement(statement), wanted)
        examples = _examples(db, [row.own or row.newest for row in rows])
    found = []
    for row in rows:
        # Otherwise it has just gone.
        if example := examples.get(row.cause):
            counts = {name: getattr(row, name) for name in _COUNTED}
            of = (row.since, row.last, row.accounts, (example.client_id,))
            found.append(_group_of(example, counts, *of))
    return found, int(rows[0].groups) if rows else 0


def group(database: Database, key: str, *, account_ids: Collection[int] | None = None) -> Group:
    """Raises NotFound if no action has failed for this cause, or none that is seen."""
    wanted: dict[str, Any] = {"cause": key}
    statement = _ONE
    if account_ids is not None:
        wanted["account_ids"] = sorted(account_ids)
        statement = _ONE.where(_FILTERS["account_ids"])
    with database.reading() as db:
        rows = rows_of_several(db, Statement(statement), wanted)
        accounts = {row.account_id: int(row.failed + row.retrying) for row in rows}
        largest = _largest(accounts, _NAMED_ACCOUNTS)
        newest = max((row.own or row.newest for row in rows), default="")
        examples = _examples(db, [newest])
        names = {row.id: row.client_id for row in db.rows(_CLIENT_IDS, {"ids": largest})}
    if key not in examples:
        raise NotFound(
            "No failed action has the cause %(key)s. They were stored, corrected or discarded.",
            key=key[:20],
        )
    counts = {name: sum(getattr(row, name) for row in rows) for name in _COUNTED}
    since, last = min(row.since for row in rows), max(row.last for row in rows)
    client_ids = tuple(names[id] for id in largest)
    one = _group_of(examples[key], counts, since, last, len(rows), client_ids)
    return replace(one, accounts=accounts)


def _examples(db: Connection, ids: Sequence[str]) -> dict[str, Any]:
    """Return the rows of actions by their causes."""
    found = rows_of_several(db, _EXAMPLES, {"ids": ids}) if ids else []
    return {row.cause: row for row in found if row.cause}


def _largest(accounts: Mapping[int, int], most: int) -> list[int]:
    return sorted(accounts, key=lambda id: (-accounts[id], id))[:most]


def _group_of(
    example: Any,
    counts: Mapping[str, Any],
    since: Any,
    last: Any,
    accounts: Any,
    client_ids: tuple[str, ...],
) -> Group:
    """PostgreSQL adds numbers up to decimals."""
    return Group(
        key=example.cause,
        cause=Cause.from_text(example.cause_text),
        counts={name: int(count) for name, count in counts.items() if count},
        since=int(since),
        last=int(last),
        example=(example.account_id, example.id),
        account_count=int(accounts),
        client_ids=client_ids,
    )
