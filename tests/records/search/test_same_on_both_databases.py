"""SQLite and PostgreSQL answer the same, and what the oracle says.

The same contacts, which hold every value there is, are written to an account on each, and every
operator is tried with every value. Ids differ, so a contact is known by its `firstname`; they
rise with the order of creation on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import pytest

from crmhub.app import create_app
from crmhub.bounds import MAX_FILTER_VALUE_LENGTH, MAX_PART_LENGTH
from crmhub.hub import Hub
from crmhub.records.search import costs
from tests.catalogue_properties import define
from tests.clients import Client, open_client
from tests.databases import new_settings
from tests.records.search.made_up import (
    BARE,
    DAYS,
    LISTS,
    MIDNIGHT,
    MOMENTS,
    NUMBERS,
    OPERATORS,
    OPTIONS,
    PARTS,
    TRICKY,
    TYPES,
    WORDS,
)
from tests.records.search.oracle import PHONES, SORTS, Oracle, Stored
from tests.records.times import set_times

_LONG = [start * 255 + end for start in ("x", "ß", "😀") for end in ("", "a", "B", "b", "ß", "😀")]
TEXTS = [*TRICKY, *WORDS, *_LONG, "x" * 254, "y" * 65_536, " ", "  blank  ", "Ünïcödé", "é"]
VALUES: dict[str, list[str]] = {
    "string": TEXTS,
    "text": TEXTS[::-1],
    "number": NUMBERS,
    "currency": [*NUMBERS[::-1], "123456789012345e-20", "-999999999999999e15"],
    "date": DAYS + MOMENTS,
    "datetime": MOMENTS + DAYS,
    "bool": ["true", "false", "TRUE", " False "],
    "enumeration": list(OPTIONS),
    "multi_enumeration": ["red", "red;Red", "Red; red", "blau%;g_een", "weiß", *OPTIONS],
    "email": ["a@example.com", "B_c@Example.com", "b%c@example.com", "JÜRGEN@example.com"],
    "phone": list(PHONES),
    "url": ["https://example.com/a_b", "https://example.com/A%20b", "example.com/ß"],
}
ASKED: dict[str, list[str]] = {
    **VALUES,
    "string": [each for each in TEXTS if len(each) <= 4000] + ["straße", "SS", "i̇", "x" * 256],
    "number": [*NUMBERS, "1e4", "-1e4", "0.30000000000001", "abc", " 7 ", "1,5"],
    "date": [*DAYS, "2026-01-31 23:59", "2026-02-01 00:00", "2026-02-30", "31.1.2026"],
    "bool": ["true", "FALSE", "t", "yes"],
    "enumeration": [*OPTIONS, "RED", "e", "%"],
    "email": [*VALUES["email"], "A@EXAMPLE.COM", "example", "no address", "jürgen@example.com"],
}
ASKED |= {"text": ASKED["string"], "currency": ASKED["number"], "datetime": ASKED["date"]}
FIELDS = {
    "createdAt": [*ASKED["date"], "T00:00", "2026-02"],
    "updatedAt": [*ASKED["date"], "23:59:59.999z"],
    # Ids are given out at random, so none of these may be a part of one.
    "hs_object_id": ["-0", "1e29", "-1", "abc", "999999999999999"],
}
_DAY = 86_400_000

ORACLE = Oracle({**TYPES, "firstname": "string"})


@dataclass(frozen=True)
class Pair:
    """A caller on each database, and what the contacts of both are."""

    sqlite: Client
    postgresql: Client
    contacts: list[Stored]

    def answers(self, body: Any, **query: Any) -> Any:
        """Return what a search on both databases says, which must be the same."""
        ours, theirs = (answers(each, body, **query) for each in (self.sqlite, self.postgresql))
        assert ours == theirs, body
        return ours

    def expected(self, filters: Any, **order: str) -> Any:
        """Return what the oracle says of a search."""
        found = ORACLE.search(self.contacts, filters, **order)
        return len(found), len(found) > 100, [ORACLE.shown(each) for each in found[:100]]


@pytest.fixture(scope="module")
def both(
    sqlite_url: str, postgresql_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """The same contacts on each database."""
    shared = new_settings(sqlite_url, tmp_path_factory.mktemp("both"))
    apps = [create_app(replace(shared, database_url=url)) for url in (sqlite_url, postgresql_url)]
    clients = [open_client(app) for app in apps]
    contacts = [
        fill(app.extensions["crmhub"], client) for app, client in zip(apps, clients, strict=True)
    ]
    yield Pair(clients[0], clients[1], contacts[0])
    for app in apps:
        app.extensions["crmhub"].close()


@pytest.fixture
def indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every search answered from the index tables."""
    monkeypatch.setattr(costs, "WALK_PER_MATCH", 0)
    monkeypatch.setattr(costs, "SMALL_RESULT", 0)


def fill(hub: Hub, client: Client) -> list[Stored]:
    """Create contacts that hold every value, the n-th one of each type in the n-th contact."""
    for name, type in TYPES.items():
        define(client, "contacts", name, type, options=OPTIONS if "choice" in name else ())
    contacts = []
    longest = max(len(values) for values in VALUES.values())
    for start in range(0, longest, 40):
        some = [sent(n) for n in range(start, min(start + 40, longest))]
        inputs = [{"properties": each} for each in some]
        answer = client.post("/contacts/batch/create", {"inputs": inputs})
        assert answer.status_code == 201, answer.text
        ids = [each["id"] for each in answer.get_json()]
        moments = [(MIDNIGHT - n % 5 * _DAY, MIDNIGHT + n % 7 * _DAY // 3) for n in range(len(ids))]
        set_times(hub, client, "contacts", ids, moments)
        contacts += [
            Stored(id, *moment, each) for id, moment, each in zip(ids, moments, some, strict=True)
        ]
    return contacts


def sent(n: int) -> dict[str, str]:
    """Return the properties of the n-th contact."""
    values = {name: VALUES[type][n] for name, type in TYPES.items() if n < len(VALUES[type])}
    return {"firstname": f"c{n}", **values}


def answers(client: Client, body: Any, **query: Any) -> Any:
    """Return what a search says, without what differs between two installations."""
    answer = client.post("/contacts/search", body, query_string={"limit": 100, **query})
    said = answer.get_json()
    if answer.status_code != 200:
        return answer.status_code, said["category"], said["message"]
    return said["total"], said["hasMore"], [each["properties"] for each in said["results"]]


def filters_on(name: str, asked: list[str]) -> Iterator[dict[str, Any]]:
    """Give a filter for each operator and value."""
    for operator in OPERATORS:
        each = {"propertyName": name, "operator": operator}
        if operator in BARE:
            yield each
        elif operator in LISTS:
            yield from ({**each, "values": [*some]} for some in pairwise(asked))
            yield {**each, "values": asked}
        else:
            longest = MAX_PART_LENGTH if operator in PARTS else MAX_FILTER_VALUE_LENGTH
            yield from ({**each, "value": value[-longest:]} for value in asked)


@pytest.mark.parametrize("name", [*TYPES, *FIELDS])
@pytest.mark.usefixtures("indexes")
def test_every_operator_finds_what_it_should(both: Pair, name: str) -> None:
    asked = FIELDS[name] if name in FIELDS else ASKED[TYPES[name]]
    found = 0
    for n, filter in enumerate(filters_on(name, asked)):
        order = {"sort": [*SORTS][n % 4], "order": ("asc", "desc")[n // 4 % 2]}
        answer = both.answers({"filters": [filter]}, **order)
        if answer[0] != 422:
            assert answer == both.expected([filter], **order), filter
            found += 1
    assert found > len(OPERATORS)


@pytest.mark.parametrize("name", [*TYPES, *FIELDS])
@pytest.mark.usefixtures("indexes")
def test_two_filters_on_one_name_find_what_meets_both(both: Pair, name: str) -> None:
    asked = FIELDS[name] if name in FIELDS else ASKED[TYPES[name]]
    filters = list(filters_on(name, asked))
    few = 9 if len(filters) > 300 else 4
    found = 0
    for n, pair in enumerate(zip(filters, filters[5:] + filters[:5], strict=True)):
        # Every filter stands alone above; here one pair and one triple of each few, and what
        # has no value, of which there is one for each operator.
        turn, place = divmod(n, few)
        if place > 1 and pair[0]["operator"] not in BARE:
            continue
        some = (*pair, filters[n * 7 % len(filters)]) if place else pair
        order = {"sort": [*SORTS][turn % 4], "order": ("asc", "desc")[turn // 4 % 2]}
        answer = both.answers({"filters": some}, **order)
        if answer[0] != 422:
            assert answer == both.expected(some, **order), some
            found += 1
    assert found > len(OPERATORS)


@pytest.mark.usefixtures("indexes")
def test_several_filters_find_what_they_should(both: Pair) -> None:
    some = [
        {"propertyName": "p_string", "operator": "NOT_CONTAINS_TOKEN", "value": "ss"},
        {"propertyName": "p_number", "operator": "GT", "value": "0.1"},
        {"propertyName": "p_date", "operator": "NOT_IN", "values": ["2026-01-31"]},
        {"propertyName": "p_phone", "operator": "NOT_HAS_PROPERTY"},
        {"propertyName": "p_text", "operator": "LTE", "value": "ß"},
        {"propertyName": "createdAt", "operator": "LT", "value": "2026-02-02"},
    ]
    for filters in product(some, repeat=3):
        assert both.answers({"filters": filters}) == both.expected(filters), filters


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_lists_have_the_same_order_and_values(both: Pair, sort: str, order: str) -> None:
    answer = both.answers({"filters": []}, sort=sort, order=order)
    assert answer == both.expected([], sort=sort, order=order)
    assert len(answer[2]) == answer[0] > 50


@pytest.mark.parametrize("type", TYPES.values())
def test_values_are_refused_in_the_same_words(both: Pair, type: str) -> None:
    [name] = [name for name, of in TYPES.items() if of == type]
    for value in ("\x7f?", "1e31", "12345678901234567", "2026-02-30", "@", ";", " "):
        body = {"properties": {"firstname": "x", name: value}}
        ours, theirs = (_said(each, body) for each in (both.sqlite, both.postgresql))
        assert ours == theirs, value


def _said(client: Client, body: Any) -> Any:
    """Create a contact, take it away again, and return what was answered."""
    answer = client.post("/contacts", body)
    said = answer.get_json()
    if answer.status_code != 201:
        return answer.status_code, said["message"]
    client.delete(f"/contacts/{said['id']}")
    return said["properties"]
