"""Reads the records of a kind and their index rows, a batch at a time, for a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import sqlalchemy as sa

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import metadata
from crmhub.database.tables import records as records_table
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.definitions import Property
from crmhub.records.index import KEY_COLUMNS, NO_DOCUMENT, TABLES, whole

_BATCH = 1000

Range = tuple[str, int]
"""The index rows of one property: the name of their table, and the property's id."""

_record = records_table.c
IS_OF_KIND = sa.and_(_record.account_id == param("account_id"), _record.kind == param("kind"))
_FIRST_AND_LAST_ID = Statement(
    sa.select(
        sa.select(sa.func.min(_record.id)).where(IS_OF_KIND).scalar_subquery().label("first"),
        sa.select(sa.func.max(_record.id)).where(IS_OF_KIND).scalar_subquery().label("last"),
    )
)
_IDS_FROM = Statement(
    sa.select(_record.id)
    .where(IS_OF_KIND, _record.id >= param("first"))
    .order_by(_record.id)
    .limit(param("n"))
)
_DOCUMENTS = Statement(
    sa.select(_record.id, sa.cast(_record.properties, sa.Text).label("properties")).where(
        IS_OF_KIND, in_list(_record.id, "ids")
    )
)


_TABLES = {name: metadata.tables[name] for name in TABLES}
_COUNT_ROWS = {
    name: Statement(
        sa.select(table.c.prop_id, sa.func.count().label("n"))
        .where(table.c.account_id == param("account_id"), in_list(table.c.prop_id, "prop_ids"))
        .group_by(table.c.prop_id)
    )
    for name, table in _TABLES.items()
}
_NEXT_ROWS = {
    name: Statement(
        sa.select(*(table.c[column] for column in TABLES[name]))
        .where(
            table.c.account_id == param("account_id"),
            table.c.prop_id == param("prop_id"),
            sa.tuple_(table.c.value, table.c.record_id)
            > sa.tuple_(param("value"), param("record_id")),
        )
        .order_by(table.c.value, table.c.record_id)
        .limit(param("n"))
    )
    for name, table in _TABLES.items()
}
# Less than any value of an index row.
_LOWEST = {"ix_text": "", "ix_num": float("-inf"), "ix_date": -(2**31), "unique_value": ""}


def key_of(catalogue: Catalogue) -> dict[str, Any]:
    return {"account_id": catalogue.account_id, "kind": catalogue.kind.code}


def row_key(row: Row) -> Row:
    return row[:KEY_COLUMNS]


def row_id(row: Row) -> int:
    id: int = row[3]
    return id


def tables_of(known: Property) -> list[str]:
    """Return the tables with index rows of a property."""
    return [known.index, "unique_value"] if known.unique else [known.index]


def first_and_last_id(database: Database, catalogue: Catalogue) -> tuple[int, int] | None:
    """Return the smallest and the greatest id of a record; None if there are no records."""
    with database.reading() as connection:
        row = connection.row(_FIRST_AND_LAST_ID, key_of(catalogue))
    return None if row.first is None else (row.first, row.last)


def all_ids(database: Database, catalogue: Catalogue) -> Iterator[list[int]]:
    """Yield the ids of all records in ascending order, in batches of up to 1,000."""
    last = 0
    while ids := ids_from(database, catalogue, last + 1, _BATCH):
        yield ids
        last = ids[-1]


def all_rows(
    database: Database, catalogue: Catalogue, known: Property, table: str
) -> Iterator[list[Row]]:
    """Yield all rows of a property in an index table, in the order of the key, in batches."""
    behind: Row | None = None
    while rows := rows_behind(database, table, known, catalogue, behind, _BATCH):
        yield rows
        behind = rows[-1]


def count_rows(database: Database, catalogue: Catalogue) -> Counter[Range]:
    """Count the stored index rows of each property."""
    prop_ids = [known.prop_id for known in catalogue]
    of = {"account_id": catalogue.account_id, "prop_ids": prop_ids}
    with database.reading() as connection:
        return Counter(
            {
                (table, row.prop_id): row.n
                for table, statement in _COUNT_ROWS.items()
                for row in connection.rows(statement, of)
            }
        )


def ids_from(database: Database, catalogue: Catalogue, first: int, n: int) -> list[int]:
    """Return up to `n` ascending ids of records, from `first` on."""
    with database.reading() as connection:
        rows = connection.rows(_IDS_FROM, key_of(catalogue) | {"first": first, "n": n})
    return [row.id for row in rows]


def rows_behind(
    database: Database,
    table: str,
    known: Property,
    catalogue: Catalogue,
    behind: Row | None,
    n: int,
) -> list[Row]:
    """Return up to `n` rows of a property in the order of the key, after the row `behind`."""
    # A row of a sample may be a plain tuple, as a record should have it.
    value, record_id = behind[2:KEY_COLUMNS] if behind else (_LOWEST[table], -(2**63))
    of = {"account_id": catalogue.account_id, "prop_id": known.prop_id, "n": n}
    last = {"value": value, "record_id": record_id}
    with database.reading() as connection:
        return connection.rows(_NEXT_ROWS[table], of | last)


def wanted_rows(
    connection: Connection, catalogue: Catalogue, ids: Iterable[int]
) -> tuple[dict[str, set[Row]], set[int]]:
    """Return the index rows that these records should have, by table, and unreadable records."""
    found = connection.rows(_DOCUMENTS, key_of(catalogue) | {"ids": sorted(ids)})
    texts = {row.id: row.properties for row in found}
    try:
        return whole(catalogue, {id: orjson.loads(text) for id, text in texts.items()}), set()
    except NO_DOCUMENT:
        unreadable = {id for id, text in texts.items() if not _readable(catalogue, id, text)}
    readable = {id: orjson.loads(text) for id, text in texts.items() if id not in unreadable}
    return whole(catalogue, readable), unreadable


def _readable(catalogue: Catalogue, id: int, text: str) -> bool:
    try:
        whole(catalogue, {id: orjson.loads(text)})
    except NO_DOCUMENT:
        return False
    return True
