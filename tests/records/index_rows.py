"""What the index tables must hold, made anew from the documents alone."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import date
from typing import Any

from crmhub.database.connection import Connection
from crmhub.hub import Hub
from tests.clients import Client
from tests.records.search import oracle

Rows = dict[str, Counter[tuple[Any, ...]]]

_NUMBERS, _DATES = ("number", "currency"), ("date", "datetime")
_STORED = {
    "ix_text": "prop_id, value, record_id, updated_at, full_value, folded",
    "ix_num": "prop_id, value, record_id, updated_at",
    "ix_date": "prop_id, value, record_id, updated_at",
    "unique_value": "prop_id, value, record_id",
}


def stored(hub: Hub, client: Client) -> Rows:
    """Return the rows of the account in each index table, and its counters."""
    with hub.database.reading() as connection:
        rows = {table: _rows(connection, client, table, names) for table, names in _STORED.items()}
        # A counter may be spread over several rows.
        counted: Counter[int] = Counter()
        for kind, n in _rows(connection, client, "record_count", "kind, n").elements():
            counted[kind] += n
    rows["record_count"] = Counter(dict.fromkeys(counted.items(), 1))
    return rows


def recomputed(hub: Hub, client: Client) -> Rows:
    """Return what `stored` must be, by the documents and the definitions of the account."""
    rows: Rows = {table: Counter() for table in [*_STORED, "record_count"]}
    of = {"account": client.account.id}
    with hub.database.reading() as connection:
        definitions = {
            (kind, name): (prop_id, type, bool(unique))
            for kind, name, prop_id, type, unique in connection.rows(
                "select kind, name, prop_id, type, is_unique from property_def"
                " where account_id = :account",
                of,
            )
        }
        documents = connection.rows(
            "select kind, id, updated_at, cast(properties as text) from records"
            " where account_id = :account",
            of,
        )
    for kind, id, updated_at, text in documents:
        for name, value in json.loads(text).items():
            prop_id, type, unique = definitions[kind, name]
            table, row = _index_row(type, value)
            rows[table][(prop_id, row[0], id, updated_at, *row[1:])] += 1
            if unique:
                digest = f"sha256:{hashlib.sha256(value.encode()).hexdigest()}"
                rows["unique_value"][prop_id, value if len(value) <= 255 else digest, id] += 1
    live = Counter(kind for kind, *_ in documents)
    rows["record_count"] = Counter({(kind, live[kind]): 1 for kind in (1, 2, 3, 4)})
    return rows


def assert_links_are_whole(hub: Hub, client: Client) -> None:
    """Every link has its other end, and both of its records live."""
    of = {"account": client.account.id}
    with hub.database.reading() as connection:
        links = set(
            connection.rows(
                "select from_kind, from_id, to_kind, to_id from association"
                " where account_id = :account",
                of,
            )
        )
        live = set(connection.rows("select kind, id from records where account_id = :account", of))
    assert {(c, d, a, b) for a, b, c, d in links} == links
    assert {(a, b) for a, b, _, _ in links} <= live


def _index_row(type: str, value: str) -> tuple[str, tuple[Any, ...]]:
    if type in _NUMBERS:
        return "ix_num", (float(value),)
    if type in _DATES:
        return "ix_date", (date.fromisoformat(value[:10]).toordinal(),)
    start, folded = value[:255], oracle.folded(value)
    return "ix_text", (
        start,
        value if value != start else None,
        folded if folded != start else None,
    )


def _rows(
    connection: Connection, client: Client, table: str, names: str
) -> Counter[tuple[Any, ...]]:
    found = connection.rows(
        f"select {names} from {table} where account_id = :account",
        {"account": client.account.id},
    )
    return Counter(tuple(row) for row in found)
