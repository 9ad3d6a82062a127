"""SQLite and PostgreSQL answer the same: records, order, values and refusals.

The same contacts are written to an account on each. Their ids differ, so a contact is known by
its `firstname`; ids rise with the order of creation on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest

from crmhub.actions.hub import Hub
from crmhub.app import create_app
from crmhub.records import search
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings
from tests.clients import Client, open_client
from tests.properties import define
from tests.records.made_up import (
    BARE,
    DAYS,
    LISTS,
    MIDNIGHT,
    MOMENTS,
    NUMBERS,
    OPERATORS,
    OPTIONS,
    TRICKY,
    TYPES,
    WORDS,
)
from tests.records.oracle import PHONES, SORTS
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

Pair = tuple[Client, Client]


@pytest.fixture(scope="module")
def both(
    sqlite_url: str, postgresql_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """A caller on each database, whose contacts are the same."""
    shared = Settings(
        root=tmp_path_factory.mktemp("both"),
        database_url=sqlite_url,
        secret_key="the same on both databases",
        encryption_keys=(EncryptionKey("k1", b"k" * 32),),
    )
    apps = [create_app(replace(shared, database_url=url)) for url in (sqlite_url, postgresql_url)]
    clients = [open_client(app) for app in apps]
    for app, client in zip(apps, clients, strict=True):
        fill(app.extensions["crmhub"], client)
    yield clients[0], clients[1]
    for app in apps:
        app.extensions["crmhub"].close()


def fill(hub: Hub, client: Client) -> None:
    """Create contacts that hold every value, the n-th one of each type in the n-th contact."""
    for name, type in TYPES.items():
        define(client, "contacts", name, type, options=OPTIONS if "choice" in name else ())
    longest = max(len(values) for values in VALUES.values())
    for start in range(0, longest, 40):
        inputs = [{"properties": sent(n)} for n in range(start, min(start + 40, longest))]
        answer = client.post("/contacts/batch/create", {"inputs": inputs})
        assert answer.status_code == 201, answer.text
        ids = [each["id"] for each in answer.get_json()]
        moments = [(MIDNIGHT + n % 7 * _DAY // 3, MIDNIGHT - n % 5 * _DAY) for n in range(len(ids))]
        set_times(hub, client, "contacts", ids, moments)


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
            yield from ({**each, "value": value} for value in asked)


@pytest.mark.parametrize("name", [*TYPES, *FIELDS])
def test_every_operator_finds_the_same(
    both: Pair, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # The walk tests documents in Python: only the index tables can differ.
    monkeypatch.setattr(search, "_LONGEST_WALK", -1)
    asked = FIELDS[name] if name in FIELDS else ASKED[TYPES[name]]
    found = 0
    for n, filter in enumerate(filters_on(name, asked)):
        order = {"sort": [*SORTS][n % 4], "order": ("asc", "desc")[n // 4 % 2]}
        ours, theirs = (answers(each, {"filters": [filter]}, **order) for each in both)
        assert ours == theirs, filter
        found += ours[0] if isinstance(ours[2], list) else 0
    assert found


def test_several_filters_find_the_same(both: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_LONGEST_WALK", -1)
    some = [
        {"propertyName": "p_string", "operator": "NOT_CONTAINS_TOKEN", "value": "ss"},
        {"propertyName": "p_number", "operator": "GT", "value": "0.1"},
        {"propertyName": "p_date", "operator": "NOT_IN", "values": ["2026-01-31"]},
        {"propertyName": "p_phone", "operator": "NOT_HAS_PROPERTY"},
        {"propertyName": "p_text", "operator": "LTE", "value": "ß"},
        {"propertyName": "createdAt", "operator": "LT", "value": "2026-02-02"},
    ]
    for one, two, three in product(some, repeat=3):
        body = {"filters": [one, two, three]}
        ours, theirs = (answers(each, body) for each in both)
        assert ours == theirs, body


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_lists_have_the_same_order_and_values(both: Pair, sort: str, order: str) -> None:
    ours, theirs = (answers(each, {"filters": []}, sort=sort, order=order) for each in both)
    assert ours == theirs
    assert len(ours[2]) == ours[0] > 50


@pytest.mark.parametrize("type", TYPES.values())
def test_values_are_refused_in_the_same_words(both: Pair, type: str) -> None:
    [name] = [name for name, of in TYPES.items() if of == type]
    for value in ("\x7f?", "1e31", "12345678901234567", "2026-02-30", "@", ";", " "):
        body = {"properties": {"firstname": "x", name: value}}
        ours, theirs = (_said(each, body) for each in both)
        assert ours == theirs, value


def _said(client: Client, body: Any) -> Any:
    """Create a contact, take it away again, and return what was answered."""
    answer = client.post("/contacts", body)
    said = answer.get_json()
    if answer.status_code != 201:
        return answer.status_code, said["message"]
    client.delete(f"/contacts/{said['id']}")
    return said["properties"]
