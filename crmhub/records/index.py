"""The index rows of records, which searches read instead of the records' properties.

The key of a row follows from the value, so the rows to delete are known from the old properties. A
search sorts by the row's `updated_at`. A change writes only the rows of changed values and notes
the others in `index_behind` (records/redating.py).

The number of records that have a value is counted on demand: with counters of 12 properties, 8
writers on PostgreSQL created a fifth fewer contacts per second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from crmhub.database.bulk import Row, Rows
from crmhub.database.connection import Connection
from crmhub.database.statements import Insert, Statement, in_list, param
from crmhub.database.tables import index_behind, records
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.properties.numbers_and_dates import day_key
from crmhub.properties.values import fold

# ix_text holds this much of a value in its key; what is longer stands beside the key as a whole.
PREFIX = 255
_DIGEST = "sha256:"

DATED: dict[str, dict[str, str]] = {
    "ix_text": {"account_id": "int", "prop_id": "int", "value": "text", "record_id": "bigint"},
    "ix_num": {"account_id": "int", "prop_id": "int", "value": "float8", "record_id": "bigint"},
    "ix_date": {"account_id": "int", "prop_id": "int", "value": "int", "record_id": "bigint"},
}
_COLUMNS = {**DATED, "ix_text": {**DATED["ix_text"], "full_value": "text", "folded": "text"}}
DATE = {"updated_at": "bigint"}
_STORED = {table: columns | DATE for table, columns in _COLUMNS.items()}
BEHIND = {"account_id": "int", "kind": "int", "id": "bigint"}
UNIQUE = {"account_id": "int", "prop_id": "int", "value": "text", "record_id": "bigint"}

# Columns in the order of a row, without its date, and how many of the first are its key.
TABLES = {**_COLUMNS, "unique_value": UNIQUE}
KEY_COLUMNS = 4
# What an UPDATE by hand may leave: no JSON, no object, a value of a wrong type.
NO_DOCUMENT = (ValueError, TypeError, AttributeError, KeyError)


@Statement
def _NOTE_CHANGED(insert: Insert) -> Any:
    record, key = records.c, tuple(BEHIND)
    changed = sa.select(*(record[name] for name in key), record.updated_at).where(
        record.account_id == param("account_id"),
        record.kind == param("kind"),
        in_list(record.id, "ids"),
    )
    noted = insert(index_behind).from_select([*key, "updated_at"], changed)
    return noted.on_conflict_do_update(
        index_elements=key, set_={"updated_at": noted.excluded.updated_at}
    )


def note_changed(tx: Connection, account_id: int, kind: Kind, ids: Sequence[int]) -> None:
    """Call after each change of a record's `updated_at`, in its transaction."""
    if ids:
        tx.run(_NOTE_CHANGED, {"account_id": account_id, "kind": kind.code, "ids": sorted(ids)})


class IndexChange:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._gone: dict[str, list[tuple[Any, ...]]] = {table: [] for table in DATED}
        self._come: dict[str, list[tuple[Any, ...]]] = {table: [] for table in DATED}
        self.unique_gone: list[tuple[Any, ...]] = []
        self.unique_come: list[tuple[Any, ...]] = []

    def add(
        self, record_id: int, old: Mapping[str, str], new: Mapping[str, str], *, now: int = 0
    ) -> None:
        """All properties before and after; {} means none. `now` is the new `updated_at` (ms)."""
        account = self._catalogue.account_id
        steps = [(name, old.get(name, ""), after) for name, after in new.items()]
        steps += [(name, before, "") for name, before in old.items() if name not in new]
        for name, before, after in steps:
            known = self._catalogue.get(name) if before != after else None
            if known is None:
                continue
            if known.unique:
                if before:
                    gone = (account, known.prop_id, unique_key(before), record_id)
                    self.unique_gone.append(gone)
                if after:
                    come = (account, known.prop_id, unique_key(after), record_id)
                    self.unique_come.append(come)
            table = known.index
            old_row = _row(table, before) if before else None
            new_row = _row(table, after) if after else None
            if old_row == new_row:
                continue
            if old_row is not None:
                self._gone[table].append((account, known.prop_id, old_row[0], record_id))
            if new_row is not None:
                value, *beside = new_row
                self._come[table].append((account, known.prop_id, value, record_id, *beside, now))

    def write(self, tx: Connection) -> None:
        """The caller writes `unique_gone` and `unique_come`."""
        for table, key in DATED.items():
            tx.delete(table, key, self._gone[table])
        tx.insert_all(*self.rows())

    def rows(self) -> list[Rows]:
        return [Rows(table, columns, self._come[table]) for table, columns in _STORED.items()]


def whole(catalogue: Catalogue, records: Mapping[int, Mapping[str, str]]) -> dict[str, set[Row]]:
    """By table, including `unique_value`, without the column `updated_at`."""
    change = IndexChange(catalogue)
    for record_id, properties in records.items():
        change.add(record_id, {}, properties)
    rows = {each.table: {row[:-1] for row in each.rows} for each in change.rows()}
    return {**rows, "unique_value": set(change.unique_come)}


def _row(table: str, value: str) -> tuple[Any, ...]:
    if table == "ix_num":
        return (float(value),)
    if table == "ix_date":
        return (day_key(value),)
    prefix = value[:PREFIX]
    folded = fold(value)
    return (
        prefix,
        value if len(value) > PREFIX else None,
        folded if folded != prefix else None,
    )


def unique_key(value: str) -> str:
    """A digest if the value is long or looks like such a digest."""
    if len(value) <= PREFIX and not value.startswith(_DIGEST):
        return value
    return f"{_DIGEST}{hashlib.sha256(value.encode()).hexdigest()}"
