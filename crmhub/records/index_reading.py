from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import sqlalchemy as sa

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import metadata
from crmhub.database.tables import records as records_table
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.definitions import Property
from crmhub.records.index import DATE, DATED, KEY_COLUMNS, NO_DOCUMENT, TABLES, whole

_BATCH = 1000

_record = records_table.c
IS_OF_KIND = sa.and_(_record.account_id == param("account_id"), _record.kind == param("kind"))
_IDS_AFTER = Statement(
    sa.select(_record.id)
    .where(IS_OF_KIND, _record.id > param("last"))
    .order_by(_record.id)
    .limit(_BATCH)
)
_DOCUMENTS = Statement(
    sa.select(_record.id, sa.cast(_record.properties, sa.Text).label("properties")).where(
        IS_OF_KIND, in_list(_record.id, "ids")
    )
)


def stored_columns(table: str) -> dict[str, str]:
    """The date is last if the table has one."""
    return TABLES[table] | (DATE if table in DATED else {})


def _rows_after(name: str) -> Statement:
    table = metadata.tables[name]
    key = table.c.value, table.c.record_id
    return Statement(
        sa.select(*(table.c[column] for column in stored_columns(name)))
        .where(
            table.c.account_id == param("account_id"),
            table.c.prop_id == param("prop_id"),
            sa.tuple_(*key) > sa.tuple_(param("value"), param("record_id")),
        )
        .order_by(*key)
        .limit(_BATCH)
    )


_ROWS_AFTER = {name: _rows_after(name) for name in TABLES}
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
    return [known.index, "unique_value"] if known.unique else [known.index]


def ids_after(connection: Connection, catalogue: Catalogue, last: int) -> list[int]:
    """Up to 1,000 ids after `last`, ascending."""
    rows = connection.rows(_IDS_AFTER, key_of(catalogue) | {"last": last})
    return [row.id for row in rows]


def rows_after(
    connection: Connection, table: str, known: Property, catalogue: Catalogue, last: Row | None
) -> list[Row]:
    """Up to 1,000 rows after `last` (None: from the first), in the order of the key."""
    value, record_id = last[2:KEY_COLUMNS] if last else (_LOWEST[table], -(2**63))
    of = {"account_id": catalogue.account_id, "prop_id": known.prop_id}
    return connection.rows(_ROWS_AFTER[table], of | {"value": value, "record_id": record_id})


def wanted_rows(
    connection: Connection, catalogue: Catalogue, ids: Iterable[int]
) -> tuple[dict[str, set[Row]], set[int]]:
    """Return the rows by index table, and the ids of records with unreadable properties."""
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
