"""What `crmhub db distribute` distributes, and what it refuses."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from crmhub.database import distribution, several_accounts, tables
from crmhub.database.bulk import Increment, Params, Rows
from crmhub.database.connection import Connection, Database
from crmhub.database.distribution import COORDINATOR, DISTRIBUTED, REFERENCE, Distribution
from crmhub.database.drivers import NodeAway, translate_psycopg
from crmhub.database.several_accounts import AvailableRows
from crmhub.database.statements import Statement, param
from crmhub.database.tables import metadata
from crmhub.errors import BadRequest

DONE = dict.fromkeys(REFERENCE, "reference") | dict.fromkeys(DISTRIBUTED, "distributed")


def test_each_table_has_one_place() -> None:
    assert sorted([*REFERENCE, *COORDINATOR, *DISTRIBUTED]) == sorted(metadata.tables)


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_every_key_of_a_distributed_table_begins_with_the_account(name: str) -> None:
    table = metadata.tables[name]
    keys = [table.primary_key, *(i for i in table.indexes if i.unique)]
    keys += [one for one in table.constraints if type(one).__name__ == "UniqueConstraint"]
    assert {next(iter(key.columns)).name for key in keys} == {"account_id"}


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_a_distributed_table_refers_to_tables_of_every_node_alone(name: str) -> None:
    referred = {key.column.table.name for key in metadata.tables[name].foreign_keys}
    assert referred <= {*REFERENCE}


def test_a_database_without_the_extension_is_refused(database_url: str) -> None:
    with closing(Database(database_url)) as database:
        assert distribution.read_distribution(database) is None
        with pytest.raises(BadRequest, match="CREATE EXTENSION citus"):
            distribution.distribute(database)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (Distribution(False, 2, {}), "leads to a worker node"),
        (Distribution(True, 0, {}), "no node that takes shards"),
    ],
)
def test_a_cluster_that_is_not_ready_is_refused(
    database_url: str, found: Distribution, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "read_distribution", lambda _: found)
    with closing(Database(database_url)) as database, pytest.raises(BadRequest, match=reason):
        distribution.distribute(database)


@pytest.mark.databases("postgresql")
def test_unlogged_tables_become_logged(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"unlogged_{uuid.uuid4().hex}"
    with closing(Database(database_url)) as database:
        monkeypatch.setattr(
            distribution, "read_distribution", lambda _: Distribution(True, 2, DONE, [name])
        )
        database.transact(lambda tx: tx.run(f"create unlogged table {name} (id int)"))
        try:
            assert distribution.distribute(database) == []
            with database.reading() as db:
                unlogged = db.rows(distribution._UNLOGGED)
        finally:
            database.transact(lambda tx: tx.run(f"drop table {name}"))
    assert (name,) not in unlogged


def test_what_is_not_distributed_yet_is_missing() -> None:
    assert Distribution(True, 2, DONE).missing == []
    assert Distribution(True, 2, DONE | {"records": "local"}).missing == ["records"]
    assert set(Distribution(True, 2, {}).missing) == {*DONE}


@pytest.mark.databases("postgresql")
def test_bulk_statements_write_the_same_without_several_tables_in_one(database_url: str) -> None:
    types = {"account_id": "int", "kind": "int", "next_id": "bigint"}
    rows = [(0, number, number) for number in range(1, 402)]

    def write(tx: Connection, account_id: int) -> tuple[object, ...]:
        own = [(account_id, *row[1:]) for row in rows]
        keys = {"account_id": account_id, "kind": 1, "shard": 0}
        inserted = tx.insert("id_block", types, own[1:], or_skip=True)
        skipped = tx.insert("id_block", types, own, or_skip=True)
        key, value = {"account_id": "int", "kind": "int"}, {"next_id": "bigint"}
        tx.upsert("id_block", key, value, [(account_id, 1, 5), (account_id, 900, 6)])
        marks = {"account_id": "int", "mark": "text", "kind": "int", "record_id": "bigint"}
        mark = Rows("mark", marks | {"created_at": "bigint"}, [(account_id, "ä'", 1, 2, 3)], True)
        added = [tx.insert_all(mark, added=Increment("record_count", "n", keys, 2)) for _ in "ab"]
        [total] = tx.rows(
            "select count(*), sum(next_id) from id_block where account_id = :id", {"id": account_id}
        )
        return inserted, skipped, added, total

    results = []
    for is_distributed in (False, True):
        with closing(Database(database_url)) as database:
            if is_distributed:
                mark = lambda _, record: record.info.update(distributed=True)  # noqa: E731
                sa.event.listen(database._engine, "connect", mark)
            account_id = uuid.uuid4().int % 2**30
            results.append(database.transact(lambda tx, id=account_id: write(tx, id)))  # type: ignore[misc]
    assert results[0] == results[1]
    assert results[0][:3] == (400, 1, [(1, 2), (0, 4)])


@pytest.mark.parametrize(
    "words",
    [
        "server closed the connection unexpectedly",
        "failure on connection marked as essential: 10.0.0.6:5432",
        "could not connect to any active placements",
        'connection to server at "10.0.0.6", port 5432 failed: Connection refused',
        "could not receive data from server: Connection reset by peer",
    ],
)
def test_an_unavailable_node_is_an_unavailable_database(words: str) -> None:
    error = psycopg.errors.InternalError_(words)
    assert isinstance(translate_psycopg(error), NodeAway)


def test_another_internal_error_of_a_node_is_a_bug() -> None:
    assert translate_psycopg(psycopg.errors.InternalError_("cache lookup failed")) is None


Nodes = tuple[Database, set[int]]


@pytest.fixture
def nodes(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Database, set[int]]]:
    """A database as on two nodes, 1 with account 11 and 2 with account 12, and its failed nodes."""
    failed = set[int]()
    rows_of = Connection.rows

    def rows(db: Connection, sql: str | Statement, params: Params | None = None) -> list[Any]:
        accounts = (params or {}).get("accounts", [11, 12])
        if isinstance(sql, Statement) and any(id - 10 in failed for id in accounts):
            raise NodeAway("The node does not answer.")
        return rows_of(db, sql, params)

    monkeypatch.setattr(Connection, "rows", rows)
    monkeypatch.setattr(several_accounts, "accounts_by_node", lambda _: {1: [11], 2: [12]})
    with closing(Database(database_url)) as database:
        mark = lambda _, record: record.info.update(distributed=True)  # noqa: E731
        sa.event.listen(database._engine, "connect", mark)
        database.transact(
            lambda tx: (
                [tx.delete("mark", _MARK, [(id, "here")]) for id in (11, 12)]
                and tx.insert("mark", _MARK | _OF_MARK, [(id, "here", 1, 1, 1) for id in (11, 12)])
            )
        )
        yield database, failed


_MARK = {"account_id": "int", "mark": "text"}
_OF_MARK = {"kind": "int", "record_id": "bigint", "created_at": "bigint"}
_MARKS = AvailableRows(
    lambda only: (
        sa.select(tables.mark.c.account_id)
        .where(tables.mark.c.mark == param("mark"), only(tables.mark))
        .order_by(tables.mark.c.account_id)
    )
)


def read_marks(database: Database) -> list[int]:
    return sorted(row.account_id for row in _MARKS.read(database, {"mark": "here"}))


@pytest.mark.databases("postgresql")
def test_rows_of_available_nodes_are_read(nodes: Nodes) -> None:
    database, failed = nodes
    assert read_marks(database) == [11, 12]
    failed |= {2}
    assert read_marks(database) == [11]
    assert database.paused_nodes == {2}
    failed.clear()
    # The node is not asked again at once.
    assert read_marks(database) == [11]
    database.all_nodes_at = 0
    assert read_marks(database) == [11, 12]
    assert database.paused_nodes == frozenset()


@pytest.mark.databases("postgresql")
def test_no_available_node_is_an_unavailable_database(nodes: Nodes) -> None:
    database, failed = nodes
    failed |= {1, 2}
    with pytest.raises(NodeAway):
        read_marks(database)
