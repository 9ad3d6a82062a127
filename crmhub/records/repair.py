"""Compares record counters and index rows with the records, and corrects them.

Every comparison holds the account's exclusive lock, so no write changes a record in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
import sqlalchemy as sa

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, equals, in_list, param
from crmhub.database.tables import index_behind, metadata, record_count
from crmhub.database.tables import records as records_table
from crmhub.properties.catalogue import Catalogue, Catalogues
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import KINDS, Kind
from crmhub.records.index import KEY_COLUMNS, KEYS, NO_DOCUMENT, TABLES, whole

_KEYS = {table: dict([*columns.items()][:KEY_COLUMNS]) for table, columns in TABLES.items()}

_record = records_table.c
_IS_OF_KIND = sa.and_(_record.account_id == param("account_id"), _record.kind == param("kind"))
# One statement sees one moment: a write and its count together, or neither.
_COUNT = Statement(
    sa.select(
        sa.select(sa.func.sum(record_count.c.n))
        .where(*equals(record_count, "account_id", "kind"))
        .scalar_subquery()
        .label("stored"),
        sa.select(sa.func.count())
        .select_from(records_table)
        .where(_IS_OF_KIND)
        .scalar_subquery()
        .label("actual"),
    )
)

_BATCH = 1000

_IDS_AFTER = Statement(
    sa.select(_record.id)
    .where(_IS_OF_KIND, _record.id > param("last"))
    .order_by(_record.id)
    .limit(_BATCH)
)
_DOCUMENTS = Statement(
    sa.select(
        _record.id, _record.updated_at, sa.cast(_record.properties, sa.Text).label("properties")
    ).where(_IS_OF_KIND, in_list(_record.id, "ids"))
)
_BEHIND = Statement(
    sa.select(index_behind.c.id).where(
        *equals(index_behind, "account_id", "kind"), in_list(index_behind.c.id, "ids")
    )
)


def _rows_after_statement(name: str) -> Statement:
    table = metadata.tables[name]
    key = table.c.value, table.c.record_id
    return Statement(
        sa.select(*(table.c[column] for column in TABLES[name]))
        .where(
            *equals(table, "account_id", "prop_id"),
            sa.tuple_(*key) > sa.tuple_(param("value"), param("record_id")),
        )
        .order_by(*key)
        .limit(_BATCH)
    )


_ROWS_AFTER = {name: _rows_after_statement(name) for name in TABLES}
# Less than any value of an index row.
_LOWEST = {"ix_text": "", "ix_num": float("-inf"), "ix_date": -(2**31), "unique_value": ""}


@dataclass(frozen=True, slots=True)
class Miscount:
    kind: Kind
    stored: int
    actual: int


@dataclass(slots=True)
class Examined:
    """`twins`: (property, id, other id) of records with the same unique value, which only their
    owner can resolve. Index rows of `unreadable` records are not changed."""

    looked_at: int = 0
    wrong: set[int] = field(default_factory=set)
    twins: set[tuple[str, int, int]] = field(default_factory=set)
    unreadable: set[int] = field(default_factory=set)


def recount(database: Database, account_id: int, *, repair: bool) -> list[Miscount]:
    """Return the wrong counters. Writers of the account wait meanwhile."""

    def compare(tx: Connection) -> list[Miscount]:
        tx.hold(account_id, exclusive=True)
        wrong = _miscounts(tx, account_id)
        if repair and wrong:
            of = {"account_id": "int", "kind": "int"}
            columns = {**of, "shard": "int", "n": "bigint"}
            tx.delete("record_count", of, [(account_id, each.kind.code) for each in wrong])
            rows = [(account_id, each.kind.code, 0, each.actual) for each in wrong]
            tx.insert("record_count", columns, rows)
        return wrong

    return database.transact(compare)


def _miscounts(connection: Connection, account_id: int) -> list[Miscount]:
    found = []
    for kind in KINDS.values():
        n = connection.row(_COUNT, {"account_id": account_id, "kind": kind.code})
        if n.stored != n.actual:
            found.append(Miscount(kind, int(n.stored or 0), n.actual))
    return found


def examine(catalogues: Catalogues, account_id: int, kind: Kind, *, repair: bool) -> Examined:
    """Writers of the account wait while a batch of 1,000 records or rows is compared."""
    examined = Examined()
    check = partial(_check_records, last=0, examined=examined, repair=repair)
    while ids := catalogues.edit(account_id, kind, check):
        examined.looked_at += len(ids)
        check = partial(check, last=ids[-1])
    for known in catalogues.reload(account_id, kind):
        for table in _tables_of(known):
            check_rows = partial(
                _check_rows, known=known, table=table, last=None, examined=examined, repair=repair
            )
            while rows := catalogues.edit(account_id, kind, check_rows):
                check_rows = partial(check_rows, last=rows[-1])
    return examined


def _check_records(
    tx: Connection, catalogue: Catalogue, *, last: int, examined: Examined, repair: bool
) -> list[int]:
    ids = _ids_after(tx, catalogue, last)
    wanted, unreadable = _wanted_rows(tx, catalogue, ids)
    wrong = set[int]()
    for table, columns in TABLES.items():
        rows = tx.matching(table, columns, _KEYS[table], [*wanted[table]])
        stored = set(_as_searched(tx, catalogue, table, rows, wanted[table]))
        wrong.update(map(_row_id, wanted[table] ^ stored))
        if table == "unique_value":
            examined.twins |= _other_holders(tx, catalogue, wanted[table] - stored)[0]
    if repair and wrong:
        examined.twins |= _add_missing(tx, catalogue, wrong)
    examined.wrong |= wrong
    examined.unreadable |= unreadable
    return ids


def _check_rows(
    tx: Connection,
    catalogue: Catalogue,
    *,
    known: Property,
    table: str,
    last: Row | None,
    examined: Examined,
    repair: bool,
) -> list[Row]:
    rows = _rows_after(tx, table, known, catalogue, last)
    ids = set(map(_row_id, rows))
    wanted, unreadable = _wanted_rows(tx, catalogue, ids)
    searched = _as_searched(tx, catalogue, table, rows, wanted[table])
    wrong = [
        row
        for row, as_searched in zip(rows, searched, strict=True)
        if _row_id(row) not in unreadable and as_searched not in wanted[table]
    ]
    examined.wrong.update(map(_row_id, wrong))
    if repair and wrong:
        tx.delete(table, _KEYS[table], sorted(map(_row_key, wrong)))
        _add_missing(tx, catalogue, set(map(_row_id, wrong)))
    return rows


def _as_searched(
    connection: Connection, catalogue: Catalogue, table: str, rows: list[Row], wanted: set[Row]
) -> list[Row]:
    """A search takes the date of some rows from the record: they get the date of `wanted`."""
    if table not in KEYS:
        return rows
    ids = {"ids": sorted(set(map(_row_id, rows)))}
    behind = {row.id for row in connection.rows(_BEHIND, _key_of(catalogue) | ids)}
    dated = {row[:-1]: row for row in wanted}
    return [
        dated.get(row[:-1], row) if row[-1] == 0 or _row_id(row) in behind else row for row in rows
    ]


def _add_missing(
    tx: Connection, catalogue: Catalogue, ids: Iterable[int]
) -> set[tuple[str, int, int]]:
    wanted, _ = _wanted_rows(tx, catalogue, ids)
    _, stray = _other_holders(tx, catalogue, wanted["unique_value"])
    tx.delete("unique_value", _KEYS["unique_value"], stray)
    for table, columns in TABLES.items():
        tx.insert(table, columns, sorted(wanted[table], key=_row_key), or_skip=True)
    # Of two records that lacked the same unique value one has it now.
    twins, _ = _other_holders(tx, catalogue, wanted["unique_value"])
    return twins


def _other_holders(
    connection: Connection, catalogue: Catalogue, rows: Collection[Row]
) -> tuple[set[tuple[str, int, int]], list[Row]]:
    """Return `twins`, and the stored rows whose record does not have that value."""
    columns = TABLES["unique_value"]
    of_value = dict([*columns.items()][: KEY_COLUMNS - 1])
    by_value: dict[Row, list[int]] = {}
    for row in rows:
        by_value.setdefault(row[: len(of_value)], []).append(_row_id(row))
    holders = set(connection.matching("unique_value", columns, of_value, [*by_value]))
    wanted, unreadable = _wanted_rows(connection, catalogue, set(map(_row_id, holders)))
    names = {known.prop_id: known.name for known in catalogue}
    twins = {
        (names[holder[1]], id, _row_id(holder))
        for holder in holders & wanted["unique_value"]
        for id in by_value[holder[: len(of_value)]]
        if id != _row_id(holder)
    }
    stray = holders - wanted["unique_value"]
    return twins, sorted(row for row in stray if _row_id(row) not in unreadable)


def _key_of(catalogue: Catalogue) -> dict[str, Any]:
    return {"account_id": catalogue.account_id, "kind": catalogue.kind.code}


def _row_key(row: Row) -> Row:
    return row[:KEY_COLUMNS]


def _row_id(row: Row) -> int:
    id: int = row[3]
    return id


def _tables_of(known: Property) -> list[str]:
    return [known.index, "unique_value"] if known.unique else [known.index]


def _ids_after(connection: Connection, catalogue: Catalogue, last: int) -> list[int]:
    """Up to 1,000 ids after `last`, ascending."""
    rows = connection.rows(_IDS_AFTER, _key_of(catalogue) | {"last": last})
    return [row.id for row in rows]


def _rows_after(
    connection: Connection, table: str, known: Property, catalogue: Catalogue, last: Row | None
) -> list[Row]:
    """Up to 1,000 rows after `last` (None: from the first), in the order of the key."""
    value, record_id = last[2:KEY_COLUMNS] if last else (_LOWEST[table], -(2**63))
    of = {"account_id": catalogue.account_id, "prop_id": known.prop_id}
    return connection.rows(_ROWS_AFTER[table], of | {"value": value, "record_id": record_id})


def _wanted_rows(
    connection: Connection, catalogue: Catalogue, ids: Iterable[int]
) -> tuple[dict[str, set[Row]], set[int]]:
    """Return the rows by index table, and the ids of records with unreadable properties."""
    found = connection.rows(_DOCUMENTS, _key_of(catalogue) | {"ids": sorted(ids)})
    try:
        return whole(catalogue, map(_parsed, found)), set()
    except NO_DOCUMENT:
        readable = [row for row in found if _readable(catalogue, row)]
    unreadable = {row.id for row in found} - {row.id for row in readable}
    return whole(catalogue, map(_parsed, readable)), unreadable


def _parsed(row: Any) -> tuple[int, int, Any]:
    return row.id, row.updated_at, orjson.loads(row.properties)


def _readable(catalogue: Catalogue, row: Any) -> bool:
    try:
        whole(catalogue, [_parsed(row)])
    except NO_DOCUMENT:
        return False
    return True
