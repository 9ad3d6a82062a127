"""A hand-made schema with the same contacts, and the queries of the comparison.

The table `floor` has a typed column for each property, and indexes made for exactly these queries.
It does not contain the document of a contact, which the hub stores as well. Each query is given
twice: as filters of the hub, and as a hand-written condition.

For queries with several filters there are two floors. The first has an index for exactly this
combination of filters. It is the fastest possible schema if the queries are known beforehand. The
second floor, `by_columns`, has only indexes of single columns. It is the usual schema if callers
may combine any filters, as those of the hub may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from crmhub.database.connection import Connection
from crmhub.properties.kinds import CONTACTS
from crmhub.records.search.filters import Filter

_TEXTS = (
    "email",
    "lastname",
    "city",
    "state",
    "lifecyclestage",
    "hs_lead_status",
    "jobtitle",
    "twitterhandle",
)
_NUMBERS = ("hubspotscore", "total_revenue")
_DATES = ("closedate", "notes_last_contacted")
COLUMNS = ("id", "created_at", "updated_at", *_TEXTS, *_NUMBERS, *_DATES)

# Behind each stand the columns of either sort, so that a page is read in order from the index.
_SORTED = (
    "account_id",
    "account_id, city",
    "account_id, state",
    "account_id, lastname",
    "account_id, lifecyclestage",
    "account_id, hs_lead_status",
)
_INDEXES = (
    "account_id, jobtitle",
    "account_id, twitterhandle",
    "account_id, hubspotscore",
    "account_id, closedate",
)
SORTS = ("created_at", "updated_at")
_COMBINED = (
    *(f"account_id, city, state, {sort}, id" for sort in SORTS),
    *(f"account_id, city, lifecyclestage, {sort}, id" for sort in SORTS),
    "account_id, city, lifecyclestage, hubspotscore",
    "account_id, lastname, city, lifecyclestage",
)


def make(connection: Connection) -> None:
    """Create the table and its indexes from the hub's own records."""
    columns = [f"(properties ->> '{name}') collate \"C\" as {name}" for name in _TEXTS]
    columns += [f"cast(properties ->> '{name}' as float8) as {name}" for name in _NUMBERS]
    columns += [f"cast(left(properties ->> '{name}', 10) as date) as {name}" for name in _DATES]
    connection.run(
        f"create table floor as select account_id, id, created_at, updated_at, {', '.join(columns)}"
        f" from records where kind = {CONTACTS.code}"
    )
    connection.run("alter table floor add primary key (account_id, id)")
    connection.run("create unique index on floor (account_id, email)")
    for sort in SORTS:
        for columns_before in _SORTED:
            connection.run(f"create index on floor ({columns_before}, {sort}, id)")
        connection.run(
            f"create index on floor (account_id, {sort}, id) where twitterhandle is not null"
        )
    for each in _INDEXES:
        connection.run(f"create index on floor ({each})")
    for number, each in enumerate(_COMBINED):
        connection.run(f"create index floor_combined_{number} on floor ({each})")


@contextmanager
def by_columns(connection: Connection) -> Iterator[None]:
    """Until the block ends, keep only indexes of single columns, in their sort orders."""
    connection.run("begin")
    try:
        for number, _ in enumerate(_COMBINED):
            connection.run(f"drop index floor_combined_{number}")
        yield
    finally:
        connection.run("rollback")


@dataclass(frozen=True, slots=True)
class Case:
    """A query: filters of the hub, and the same query written by hand.

    `total` and `page` are the aims: how many times the floor's time the hub may take, 0 without an
    aim. In a `ranged` query, the index that finds the contacts does not sort them, and the best way
    to read a page depends on their positions in the sort order.
    """

    name: str
    filters: tuple[Filter, ...]
    where: str
    params: Mapping[str, Any] = field(default_factory=dict)
    total: float = 0
    page: float = 0
    ranged: bool = False


def _of(name: str, operator: str, value: str | None = None) -> Filter:
    return Filter(name, operator, value)


def cases() -> list[Case]:
    """Return the queries.

    City, last name, score and job are independent of the order of creation. Stage, status and close
    date depend on it: an evangelist is among the oldest contacts, a subscriber among the newest 2
    %.
    """
    berlin = _of("city", "EQ", "Berlin")
    score = _of("hubspotscore", "GTE", "5000")
    lead = _of("lifecyclestage", "EQ", "lead")
    three = "city = 'Berlin' and lifecyclestage = 'lead' and hubspotscore >= 5000"
    return [
        Case("everything", (), "true", total=1, page=2),
        _equal("city, 1 in 2", "city", "Berlin", page=2),
        _equal("city, 1 in 50", "city", "Bremen", page=2),
        _equal("last name, 1 in 5,000", "lastname", "Last7"),
        _equal("email, unique", "email", "person77@company77.example.com", page=2),
        Case("score, half", (score,), "hubspotscore >= 5000", total=3.5),
        Case(
            "score, 1 in 1,000",
            (_of("hubspotscore", "GTE", "9990"),),
            "hubspotscore >= 9990",
            total=2,
            ranged=True,
        ),
        Case(
            "job contains 'manag'",
            (_of("jobtitle", "CONTAINS_TOKEN", "manag"),),
            "jobtitle ilike '%manag%'",
            total=2,
        ),
        Case("has Twitter", (_has("HAS_PROPERTY"),), "twitterhandle is not null", total=2),
        Case("has no Twitter", (_has("NOT_HAS_PROPERTY"),), "twitterhandle is null", total=1),
        Case("city, not 1 in 2", (_of("city", "NEQ", "Berlin"),), "city <> 'Berlin'", total=1),
        Case("city, not 1 in 50", (_of("city", "NEQ", "Bremen"),), "city <> 'Bremen'", total=1),
        Case("three, common", (berlin, lead, score), three, total=2),
        Case(
            "three, one of them rare",
            (_of("lastname", "EQ", "Last7"), berlin, lead),
            "lastname = 'Last7' and city = 'Berlin' and lifecyclestage = 'lead'",
            total=2,
        ),
        Case(
            "two that go together",
            (berlin, _of("state", "EQ", "Brandenburg")),
            "city = 'Berlin' and state = 'Brandenburg'",
            total=2,
        ),
        Case(
            "two that exclude each other",
            (berlin, _of("state", "EQ", "Bavaria")),
            "city = 'Berlin' and state = 'Bavaria'",
            total=2,
        ),
        Case(
            "one, and not another",
            (berlin, _of("lifecyclestage", "NEQ", "lead")),
            "city = 'Berlin' and lifecyclestage <> 'lead'",
            total=2,
        ),
        Case(
            "neither of two",
            (_of("city", "NEQ", "Berlin"), _of("hs_lead_status", "NEQ", "NEW")),
            "city <> 'Berlin' and hs_lead_status <> 'NEW'",
            total=1,
        ),
        _equal("the oldest 2 %", "lifecyclestage", "evangelist"),
        _equal("the newest 2 %", "lifecyclestage", "subscriber"),
        _equal("the older half", "hs_lead_status", "UNQUALIFIED"),
        _equal("the newer half", "hs_lead_status", "NEW"),
        Case(
            "all but the newer half",
            (_of("hs_lead_status", "NEQ", "NEW"),),
            "hs_lead_status <> 'NEW'",
            total=1,
        ),
        Case(
            "a city in the older half",
            (berlin, _of("hs_lead_status", "EQ", "UNQUALIFIED")),
            "city = 'Berlin' and hs_lead_status = 'UNQUALIFIED'",
            total=2,
        ),
        _closed("closed early, 1 in 20", ("LT", "2023-03-13"), total=2),
        _closed("closed late, 1 in 20", ("GT", "2025-07-15"), total=2),
        _closed("closed in the later half", ("GTE", "2024-05-15"), total=3.5),
        _closed("closed in a month", ("GTE", "2024-05-15"), ("LT", "2024-06-15"), total=2),
        _timed("created in a month", "created", ("GTE", "2024-05-15"), ("LT", "2024-06-15")),
        _timed("created in the first half", "created", ("LT", "2024-11-14")),
        _timed("changed in the later half", "updated", ("GTE", "2024-11-14")),
    ]


def _equal(name: str, column: str, value: str, *, page: float = 0) -> Case:
    return Case(name, (_of(column, "EQ", value),), f"{column} = :value", {"value": value}, 2, page)


def _has(operator: str) -> Filter:
    return _of("twitterhandle", operator)


_SYMBOLS = {"LT": "<", "GT": ">", "GTE": ">="}


def _closed(name: str, *bounds: tuple[str, str], total: float) -> Case:
    wheres = [
        f"closedate {_SYMBOLS[each]} cast(:day{n} as date)" for n, (each, _) in enumerate(bounds)
    ]
    days = {f"day{n}": day for n, (_, day) in enumerate(bounds)}
    filters = tuple(_of("closedate", operator, day) for operator, day in bounds)
    return Case(name, filters, " and ".join(wheres), days, total, ranged=True)


def _timed(name: str, done: str, *bounds: tuple[str, str]) -> Case:
    """Return the query for contacts that were `created` or `updated` between these days."""
    moments = [int(datetime.fromisoformat(f"{day}T00:00Z").timestamp()) * 1000 for _, day in bounds]
    wheres = [f"{done}_at {_SYMBOLS[each]} :at{n}" for n, (each, _) in enumerate(bounds)]
    params = {f"at{n}": moment for n, moment in enumerate(moments)}
    filters = tuple(_of(f"{done}At", operator, day) for operator, day in bounds)
    total = 2 if len(bounds) > 1 else 3.5
    return Case(name, filters, " and ".join(wheres), params, total, ranged=True)
