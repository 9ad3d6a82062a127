"""Operations on all values that an account's records of a kind have of one property.

The caller has called `catalogue.change`, so that nobody else writes records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import ix_date, ix_num, ix_text, records, unique_value
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import DuplicateValue
from crmhub.records.index import UNIQUE, unique_key

_BATCH = 1000

_record = records.c
_OF_KIND = sa.and_(_record.account_id == param("account_id"), _record.kind == param("kind"))
_NAME = sa.cast(param("name"), sa.Text)


def _of_property(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.account_id == param("account_id"), table.c.prop_id == param("prop_id"))


def _keys(table: sa.Table) -> sa.Select[Any]:
    value, record_id = table.c.value, table.c.record_id
    keys = sa.select(value, record_id).where(_of_property(table)).order_by(value, record_id)
    return keys.limit(param("rows"))


def _without_values(table: sa.Table, properties: sa.ColumnElement[Any]) -> Statement:
    holders = sa.select(table.c.record_id).where(_of_property(table))
    return Statement(
        sa.update(records)
        .where(_OF_KIND, _record.id.in_(holders))
        .values(properties=properties, version=_record.version + 1)
    )


_INDEXES = {table.name: table for table in (ix_text, ix_num, ix_date)}
_COUNT = {
    name: Statement(sa.select(sa.func.count()).select_from(table).where(_of_property(table)))
    for name, table in _INDEXES.items()
}
_FIRST_KEYS = {name: Statement(_keys(table)) for name, table in _INDEXES.items()}
_NEXT_KEYS = {
    name: Statement(
        _keys(table).where(
            sa.tuple_(table.c.value, table.c.record_id)
            > sa.tuple_(param("value"), param("record_id"))
        )
    )
    for name, table in _INDEXES.items()
}
_DELETE_INDEX = {
    name: Statement(sa.delete(table).where(_of_property(table))) for name, table in _INDEXES.items()
}
# Each database takes a member out of a document in its own words.
_ERASE = {
    "postgresql": {
        name: _without_values(table, _record.properties.op("-")(_NAME))
        for name, table in _INDEXES.items()
    },
    "sqlite": {
        name: _without_values(
            table, sa.func.json_remove(_record.properties, sa.literal("$.") + _NAME)
        )
        for name, table in _INDEXES.items()
    },
}
_whole_text: sa.ColumnElement[Any] = sa.func.coalesce(ix_text.c.full_value, ix_text.c.value)
_n: sa.ColumnElement[Any] = sa.func.count().label("n")
_COUNT_BY_TEXT = Statement(
    sa.select(_whole_text.label("text"), _n).where(_of_property(ix_text)).group_by(_whole_text)
)
_HOLDER = Statement(
    sa.select(unique_value.c.record_id).where(
        _of_property(unique_value), unique_value.c.value == param("value")
    )
)
_RELEASE = Statement(sa.delete(unique_value).where(_of_property(unique_value)))
_VALUES = Statement(
    sa.select(_record.id, _record.properties.op("->>")(_NAME).label("value")).where(
        _OF_KIND, in_list(_record.id, "ids")
    )
)


def count(tx: Connection, account_id: int, known: Property) -> int:
    n: int = tx.scalar(_COUNT[known.index], _of(account_id, known))
    return n


def by_option(tx: Connection, account_id: int, known: Property) -> Counter[str]:
    """Unused options are left out."""
    held: Counter[str] = Counter()
    for row in tx.rows(_COUNT_BY_TEXT, _of(account_id, known)):
        for option in row.text.split(";") if known.type == "multi_enumeration" else [row.text]:
            held[option] += row.n
    return held


def claim(tx: Connection, account_id: int, kind: Kind, known: Property) -> None:
    """Raises DuplicateValue."""
    for rows in _values(tx, account_id, kind, known):
        claimed = [(account_id, known.prop_id, unique_key(row.value), row.id) for row in rows]
        if tx.insert("unique_value", UNIQUE, claimed, or_skip=True) == len(claimed):
            continue
        for *_, key, id in claimed:
            first = tx.scalar(_HOLDER, _of(account_id, known) | {"value": key})
            if first != id:
                raise DuplicateValue(
                    f"unique: {kind.name} {first} and {id} have the same {known.name}; change one"
                    " of them first.",
                    [("unique", known.name, first)],
                )


def release(tx: Connection, account_id: int, known: Property) -> None:
    tx.run(_RELEASE, _of(account_id, known))


def erase(tx: Connection, account_id: int, kind: Kind, known: Property) -> None:
    """The records get a new version."""
    of = _of(account_id, known)
    statement = _ERASE[tx.dialect][known.index]
    tx.run(statement, of | {"kind": kind.code, "name": known.name})
    tx.run(_DELETE_INDEX[known.index], of)
    release(tx, account_id, known)


def _values(tx: Connection, account_id: int, kind: Kind, known: Property) -> Iterator[list[Any]]:
    of = _of(account_id, known) | {"rows": _BATCH}
    of_kind = {"account_id": account_id, "kind": kind.code, "name": known.name}
    keys = tx.rows(_FIRST_KEYS[known.index], of)
    while keys:
        yield tx.rows(_VALUES, of_kind | {"ids": [row.record_id for row in keys]})
        keys = tx.rows(_NEXT_KEYS[known.index], of | keys[-1]._asdict())


def _of(account_id: int, known: Property) -> dict[str, Any]:
    return {"account_id": account_id, "prop_id": known.prop_id}
