"""Statements on the rows of one table whose columns have given values, made once for the columns.

`where` must name the account in a table that has `account_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection
from crmhub.database.statements import Insert, Statement, equals, param, params

Values = Mapping[str, Any]


def insert_row(tx: Connection, table: sa.Table, values: Values, *, or_skip: bool = False) -> None:
    """With `or_skip`, an existing row with the same key stays as it is."""
    tx.run(_insert(table, tuple(values), or_skip), values)


def upsert_row(
    tx: Connection,
    table: sa.Table,
    key: Values,
    values: Values,
    first: Values | None = None,
) -> None:
    """Set values of the row with this key; a new row also gets those of `first`."""
    first = first or {}
    statement = _upsert(table, tuple(key), tuple(values), tuple(first))
    tx.run(statement, {**key, **values, **first})


def set_where(tx: Connection, table: sa.Table, where: Values, **values: Any) -> int:
    """Return the number of changed rows."""
    statement = _update(table, tuple(where), tuple(values))
    return tx.run(statement, {**where, **{f"new_{name}": value for name, value in values.items()}})


def delete_where(tx: Connection, table: sa.Table, where: Values) -> int:
    return tx.run(_delete(table, tuple(where)), where)


def find_row(db: Connection, table: sa.Table, where: Values, *, lock: bool = False) -> Any:
    """Return the row, or None; with `lock`, nobody else changes it until the transaction ends."""
    return db.row(_select(table, tuple(where), lock), where)


@cache
def _insert(table: sa.Table, names: tuple[str, ...], or_skip: bool) -> Statement:
    if or_skip:
        return Statement(
            lambda insert: insert(table).values(params(*names)).on_conflict_do_nothing()
        )
    return Statement(sa.insert(table).values(params(*names)).inline())


@cache
def _upsert(
    table: sa.Table, key: tuple[str, ...], names: tuple[str, ...], first: tuple[str, ...]
) -> Statement:
    def build(insert: Insert) -> sa.Insert:
        statement = insert(table).values(params(*key, *names, *first))
        changed = {name: statement.excluded[name] for name in names}
        built: sa.Insert = statement.on_conflict_do_update(index_elements=key, set_=changed)
        return built

    return Statement(build)


@cache
def _update(table: sa.Table, where: tuple[str, ...], names: tuple[str, ...]) -> Statement:
    values = {name: param(f"new_{name}") for name in names}
    return Statement(sa.update(table).where(*equals(table, *where)).values(values))


@cache
def _delete(table: sa.Table, where: tuple[str, ...]) -> Statement:
    return Statement(sa.delete(table).where(*equals(table, *where)))


@cache
def _select(table: sa.Table, where: tuple[str, ...], lock: bool) -> Statement:
    found = sa.select(table).where(*equals(table, *where))
    return Statement(found.with_for_update() if lock else found)
