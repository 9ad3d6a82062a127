"""Why actions fail: the failed, blocked and retried actions, grouped by their cause."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter.places import PLACES
from crmhub.database.connection import Connection, Database
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.database.tables import account as account_table
from crmhub.database.tables import action
from crmhub.errors import NotFound
from crmhub.queue.causes import Cause

MOST = 100
"""The most groups that are listed, those with the most actions first."""
_MOST_VALUES_READ = 1_000
_NAMED_ACCOUNTS = 3
_a = action.c
_ENDED = sa.func.coalesce(_a.finished_at, _a.created_at)
_GROUPED = (
    sa.select(
        _a.account_id,
        _a.cause,
        _a.state,
        sa.func.count().label("count"),
        sa.func.min(_ENDED).label("since"),
        sa.func.max(_ENDED).label("last"),
        sa.func.max(_a.id).label("newest"),
    )
    .where(_a.cause.is_not(None))
    .group_by(_a.account_id, _a.cause, _a.state)
)
_FILTERS = {
    "account_ids": in_list(_a.account_id, "account_ids"),
    "cause": _a.cause == param("cause"),
    "ended_from": param("ended_from") <= _ENDED,
    "ended_until": param("ended_until") > _ENDED,
}
_TEXTS = Statement(
    sa.select(_a.account_id, _a.id, _a.cause, _a.cause_text).where(
        in_list(_a.account_id, "account_ids"), in_list(_a.id, "ids")
    )
)
_CLIENT_IDS = Statement(
    sa.select(account_table.c.id, account_table.c.client_id).where(
        in_list(account_table.c.id, "ids")
    )
)
PAGE = Statement(
    sa.select(_a.id, _a.kind, _a.state, _a.connection_id, _a.request)
    .where(
        _a.account_id == param("account_id"),
        _a.cause == param("cause"),
        one_of(_a.state, "dead", "queued"),
        _a.id > param("after"),
        _a.id <= param("until"),
    )
    .order_by(_a.id)
    .limit(param("limit"))
)
"""The failed and retried actions of a group in one account, the oldest first."""
_SAID: Mapping[str, str] = {
    "unknown": "the CRM has no such property",
    "read_only": "the CRM does not let it be written",
    "option": "the CRM has no such option",
    "missing": "a value is missing",
    "long": "the value is too long",
    "format": "the value has the wrong form",
    "taken": "another record has this value",
}
_PIPELINES = frozenset(pipeline for pipeline, _ in PLACES.values())
_STAGES = frozenset(stage for _, stage in PLACES.values())
_CONNECTION = ("Denied", "LacksRight", "BadConfig")
_AWAY = ("Unavailable", "Unreachable", "Uncertain")
_COUNTED = {"dead": "failed", "parked": "blocked", "queued": "retrying", "running": "retrying"}
_NO_CAUSE = Cause("", "", "", "", "", "")


@dataclass(slots=True)
class Group:
    """Actions that failed for one cause.

    `counts`: numbers of `failed`, `blocked` and `retrying` actions. `accounts`: the number of
    failed and retried ones by account id. `since` and `last`: ms since 1970. `example`: the
    account id and the id of the newest action. `client_ids`: of its accounts with the most actions.
    """

    key: str
    counts: dict[str, int] = field(default_factory=dict)
    accounts: dict[int, int] = field(default_factory=dict)
    since: int = 0
    last: int = 0
    example: tuple[int, str] = (0, "")
    cause: Cause = _NO_CAUSE
    client_ids: tuple[str, ...] = ()
    _is_own: bool = False

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def open(self) -> int:
        """The number of actions that a retry takes; blocked ones go with those that block them."""
        return self.counts.get("failed", 0) + self.counts.get("retrying", 0)

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
        return sorted(self.accounts, key=lambda id: (-self.accounts[id], id))[:most]

    def add(self, row: Any) -> None:
        word, count = _COUNTED[row.state], int(row.count)
        self.counts[word] = self.counts.get(word, 0) + count
        if word != "blocked":
            self.accounts[row.account_id] = self.accounts.get(row.account_id, 0) + count
        # A blocked action has the cause of another one, which is the better example.
        if (word != "blocked", row.newest) > (self._is_own, self.example[1]):
            self._is_own, self.example = word != "blocked", (row.account_id, row.newest)
        self.since = min(self.since or row.since, row.since)
        self.last = max(self.last, row.last)


def said(cause: Cause) -> str:
    if not cause.fault:
        return f"{cause.name}: {cause.pattern}" if cause.name else cause.pattern
    text = _SAID[cause.fault]
    if cause.fault == "option":
        place = "pipeline" if cause.name in _PIPELINES else "stage" if cause.name in _STAGES else ""
        text = text.replace("option", place or "option")
    return f"{cause.name}: {text}"


def advice(cause: Cause) -> str:
    """What would fix it, by the class of the error."""
    if cause.word in _CONNECTION:
        return "Correct the connection to the CRM, then retry."
    if cause.word in _AWAY:
        return "The CRM did not answer. Retry once it does."
    if cause.fault in ("unknown", "read_only"):
        return "Map the property to one that the CRM has, or add it there; then retry."
    if cause.fault == "taken":
        return "Correct the value, or discard what is in the CRM already."
    if cause.name:
        return "Correct the value, or allow it in the CRM and retry."
    if cause.word == "LimitExceeded":
        return "Raise the account's plan, or wait; then retry."
    return "Fix the cause in the CRM and retry, or discard."


def is_correctable(cause: Cause) -> bool:
    """Return whether a correction of one value may fix it."""
    return bool(cause.name) and cause.fault not in ("unknown", "read_only")


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
    with database.reading() as db:
        found = _grouped(db, wanted)
        found.sort(key=lambda group: (-group.total, group.key))
        return _described(db, found[:MOST]), len(found)


def group(database: Database, key: str, *, account_ids: Collection[int] | None = None) -> Group:
    """Raises NotFound if no action has failed for this cause, or none that is seen."""
    wanted: dict[str, Any] = {"cause": key}
    if account_ids is not None:
        wanted["account_ids"] = sorted(account_ids)
    with database.reading() as db:
        found = _described(db, _grouped(db, wanted))
    if not found:
        raise NotFound(
            f"No failed action has the cause {key[:20]}. They were stored, corrected or discarded."
        )
    return found[0]


def _grouped(db: Connection, wanted: Mapping[str, Any]) -> list[Group]:
    statement = _GROUPED.where(*(_FILTERS[name] for name in wanted))
    if "account_ids" not in wanted:
        statement = statement.where(_a.account_id.in_(sa.select(account_table.c.id)))
    found: dict[str, Group] = {}
    for row in rows_of_several(db, Statement(statement), wanted):
        found.setdefault(row.cause, Group(row.cause)).add(row)
    return [*found.values()]


def _described(db: Connection, found: Sequence[Group]) -> list[Group]:
    """Add the causes, and the client ids of some accounts; leave out what has just gone."""
    if not found:
        return []
    examples = [one.example for one in found]
    keys = {"account_ids": sorted({id for id, _ in examples}), "ids": [id for _, id in examples]}
    texts = {row.cause: row.cause_text for row in rows_of_several(db, _TEXTS, keys)}
    shown = {one.key: one.largest_accounts(_NAMED_ACCOUNTS) for one in found}
    ids = sorted({id for several in shown.values() for id in several})
    names = {row.id: row.client_id for row in db.rows(_CLIENT_IDS, {"ids": ids})}
    described = [one for one in found if texts.get(one.key)]
    for one in described:
        one.cause = Cause.from_text(texts[one.key])
        one.client_ids = tuple(names[id] for id in shown[one.key] if id in names)
    return described
