"""Compares record counters and index rows with the records, and corrects them.

Every comparison holds the account's exclusive lock, so no write changes a record in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import sqlalchemy as sa

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import index_behind, record_count
from crmhub.database.tables import records as records_table
from crmhub.properties.catalogue import Catalogue, Catalogues
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import KINDS, Kind
from crmhub.records.index import DATED, KEY_COLUMNS, TABLES, note_changed
from crmhub.records.index_reading import (
    IS_OF_KIND,
    ids_after,
    key_of,
    row_id,
    row_key,
    rows_after,
    stored_columns,
    tables_of,
    wanted_rows,
)

_KEYS = {table: dict([*columns.items()][:KEY_COLUMNS]) for table, columns in TABLES.items()}

_record = records_table.c
# One statement sees one moment: a write and its count together, or neither.
_COUNT = Statement(
    sa.select(
        sa.select(sa.func.sum(record_count.c.n))
        .where(
            record_count.c.account_id == param("account_id"),
            record_count.c.kind == param("kind"),
        )
        .scalar_subquery()
        .label("stored"),
        sa.select(sa.func.count())
        .select_from(records_table)
        .where(IS_OF_KIND)
        .scalar_subquery()
        .label("actual"),
    )
)
_DATES = Statement(
    sa.select(_record.id, _record.updated_at, index_behind.c.updated_at.label("noted"))
    .join_from(
        records_table,
        index_behind,
        sa.and_(
            index_behind.c.account_id == _record.account_id,
            index_behind.c.kind == _record.kind,
            index_behind.c.id == _record.id,
        ),
        isouter=True,
    )
    .where(IS_OF_KIND, in_list(_record.id, "ids"))
)


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
        for table in tables_of(known):
            check_rows = partial(
                _check_rows, known=known, table=table, last=None, examined=examined, repair=repair
            )
            while rows := catalogues.edit(account_id, kind, check_rows):
                check_rows = partial(check_rows, last=rows[-1])
    return examined


def _check_records(
    tx: Connection, catalogue: Catalogue, *, last: int, examined: Examined, repair: bool
) -> list[int]:
    ids = ids_after(tx, catalogue, last)
    wanted, unreadable = wanted_rows(tx, catalogue, ids)
    dates, wrong = _dates(tx, catalogue, ids)
    for table, columns in TABLES.items():
        rows = tx.matching(table, stored_columns(table), _KEYS[table], [*wanted[table]])
        wrong.update(row_id(row) for row in rows if _is_misdated(table, row, dates))
        stored = {row[: len(columns)] for row in rows}
        wrong.update(map(row_id, wanted[table] ^ stored))
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
    rows = rows_after(tx, table, known, catalogue, last)
    ids = set(map(row_id, rows))
    wanted, unreadable = wanted_rows(tx, catalogue, ids)
    dates, _ = _dates(tx, catalogue, ids)
    wrong = [
        row
        for row in rows
        if row_id(row) not in unreadable
        and (row[: len(TABLES[table])] not in wanted[table] or _is_misdated(table, row, dates))
    ]
    examined.wrong.update(map(row_id, wrong))
    if repair and wrong:
        tx.delete(table, _KEYS[table], sorted(map(row_key, wrong)))
        _add_missing(tx, catalogue, set(map(row_id, wrong)))
    return rows


def _add_missing(
    tx: Connection, catalogue: Catalogue, ids: Iterable[int]
) -> set[tuple[str, int, int]]:
    wanted, _ = wanted_rows(tx, catalogue, ids)
    _, stray = _other_holders(tx, catalogue, wanted["unique_value"])
    tx.delete("unique_value", _KEYS["unique_value"], stray)
    _, changed = _dates(tx, catalogue, ids)
    for table, columns in TABLES.items():
        rows = sorted(wanted[table], key=row_key)
        if tx.insert(table, columns, rows, or_skip=True) and table in DATED:
            # The new rows have no date yet.
            stored = tx.matching(table, stored_columns(table), _KEYS[table], rows)
            changed |= {row_id(row) for row in stored if not row[-1]}
    note_changed(tx, catalogue.account_id, catalogue.kind, sorted(changed))
    # Of two records that lacked the same unique value one has it now.
    twins, _ = _other_holders(tx, catalogue, wanted["unique_value"])
    return twins


def _is_misdated(table: str, row: Row, dates: Mapping[int, int]) -> bool:
    return table in DATED and row[-1] != dates.get(row_id(row), row[-1])


def _dates(
    connection: Connection, catalogue: Catalogue, ids: Iterable[int]
) -> tuple[dict[int, int], set[int]]:
    """Return the `updated_at` that index rows must have, by id, without records in `index_behind`;
    and the ids whose time in `index_behind` differs from their `updated_at`."""
    dates, misnoted = dict[int, int](), set[int]()
    for record in connection.rows(_DATES, key_of(catalogue) | {"ids": sorted(ids)}):
        if record.noted is None:
            dates[record.id] = record.updated_at
        elif record.noted != record.updated_at:
            misnoted.add(record.id)
    return dates, misnoted


def _other_holders(
    connection: Connection, catalogue: Catalogue, rows: Collection[Row]
) -> tuple[set[tuple[str, int, int]], list[Row]]:
    """Return `twins`, and the stored rows whose record does not have that value."""
    columns = TABLES["unique_value"]
    of_value = dict([*columns.items()][: KEY_COLUMNS - 1])
    by_value: dict[Row, list[int]] = {}
    for row in rows:
        by_value.setdefault(row[: len(of_value)], []).append(row_id(row))
    holders = set(connection.matching("unique_value", columns, of_value, [*by_value]))
    wanted, unreadable = wanted_rows(connection, catalogue, set(map(row_id, holders)))
    names = {known.prop_id: known.name for known in catalogue}
    twins = {
        (names[holder[1]], id, row_id(holder))
        for holder in holders & wanted["unique_value"]
        for id in by_value[holder[: len(of_value)]]
        if id != row_id(holder)
    }
    stray = holders - wanted["unique_value"]
    return twins, sorted(row for row in stray if row_id(row) not in unreadable)
