"""Compares record counters and index rows with the records, and rebuilds them from the records.

A write between the reads of a record and its index rows looks like an error. So each difference is
checked again under the account's exclusive lock, and only the second check counts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import sqlalchemy as sa

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import index_behind, record_count
from crmhub.database.tables import records as records_table
from crmhub.properties.catalogue import Catalogue, Catalogues
from crmhub.properties.kinds import KINDS, Kind
from crmhub.records.index import DATE, DATED, KEY_COLUMNS, TABLES, note_changed
from crmhub.records.index_reading import (
    IS_OF_KIND,
    Range,
    all_ids,
    all_rows,
    count_rows,
    first_and_last_id,
    ids_from,
    key_of,
    row_id,
    row_key,
    rows_behind,
    tables_of,
    wanted_rows,
)

# A sample: so many places among the ids and among the properties, and at each a few neighbours.
_PLACES = 20
_NEIGHBOURS = 5

_KEYS = {table: dict([*columns.items()][:KEY_COLUMNS]) for table, columns in TABLES.items()}
Rows = Mapping[str, Sequence[Row]]

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
    """A record counter whose stored value differs from the actual number of records."""

    kind: Kind
    stored: int
    actual: int


@dataclass(slots=True)
class Examined:
    """The result of comparing index rows with records; `wrong` and `unreadable` are record ids.

    `twins` are records with the same unique value, which only their owner can resolve: `(property
    name, id, other id)`, the first also in `wrong`. The rows of unreadable records stay.
    """

    looked_at: int = 0
    wrong: set[int] = field(default_factory=set)
    twins: set[tuple[str, int, int]] = field(default_factory=set)
    unreadable: set[int] = field(default_factory=set)


def recount(database: Database, account_id: int, *, repair: bool) -> list[Miscount]:
    """Return the account's wrong record counters; `repair` corrects them while its writers wait."""

    def correct(tx: Connection) -> list[Miscount]:
        tx.hold(account_id, exclusive=True)
        wrong = _miscounts(tx, account_id)
        of = {"account_id": "int", "kind": "int"}
        columns = {**of, "shard": "int", "n": "bigint"}
        tx.delete("record_count", of, [(account_id, each.kind.code) for each in wrong])
        rows = [(account_id, each.kind.code, 0, each.actual) for each in wrong]
        tx.insert("record_count", columns, rows)
        return wrong

    with database.reading() as connection:
        wrong = _miscounts(connection, account_id)
    return database.transact(correct) if wrong and repair else wrong


def _miscounts(connection: Connection, account_id: int) -> list[Miscount]:
    found = []
    for kind in KINDS.values():
        n = connection.row(_COUNT, {"account_id": account_id, "kind": kind.code})
        if n.stored != n.actual:
            found.append(Miscount(kind, int(n.stored or 0), n.actual))
    return found


def examine(
    catalogues: Catalogues, database: Database, account_id: int, kind: Kind, *, everything: bool
) -> Examined:
    """Compare `everything`, or a random sample, of index rows and records; correct nothing.

    Differences are checked again, up to 1,000 records at a time, while the account's writers wait.
    """
    catalogue = catalogues.reload(account_id, kind)
    examined = Examined()
    right = Counter[Range]()
    walk = _walk(database, catalogue, right) if everything else _sample(database, catalogue)
    for ids, rows in walk:
        with database.reading() as connection:
            seeming, right_here = _compare(connection, catalogue, ids, rows)
        right += right_here
        examined.looked_at += len(ids)
        if again := seeming.wrong | seeming.unreadable:
            compare = partial(_compare, ids=again, rows=rows)
            found, _ = catalogues.edit(account_id, kind, compare)
            examined.wrong |= found.wrong
            examined.twins |= found.twins
            examined.unreadable |= found.unreadable
    return examined


def rebuild(
    catalogues: Catalogues, database: Database, account_id: int, kind: Kind
) -> set[tuple[str, int, int]]:
    """Correct the index rows of all readable records of a kind; return the pairs of twins.

    Writers of the account wait while a batch of 1,000 records or rows is processed.
    """
    catalogue = catalogues.reload(account_id, kind)
    twins: set[tuple[str, int, int]] = set()
    for ids in all_ids(database, catalogue):
        twins |= catalogues.edit(account_id, kind, partial(_add_missing, ids=ids))
    for known in catalogue:
        for table in tables_of(known):
            for rows in all_rows(database, catalogue, known, table):
                catalogues.edit(account_id, kind, partial(_replace_wrong, table=table, rows=rows))
    return twins


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
            stored = tx.matching(table, _stored(table), _KEYS[table], rows)
            changed |= {row_id(row) for row in stored if not row[-1]}
    note_changed(tx, catalogue.account_id, catalogue.kind, sorted(changed))
    # Of two records that lacked the same unique value one has it now.
    twins, _ = _other_holders(tx, catalogue, wanted["unique_value"])
    return twins


def _replace_wrong(tx: Connection, catalogue: Catalogue, table: str, rows: Sequence[Row]) -> None:
    ids = set(map(row_id, rows))
    wanted, unreadable = wanted_rows(tx, catalogue, ids)
    dates, _ = _dates(tx, catalogue, ids)
    wrong = [
        row
        for row in tx.matching(table, _stored(table), _KEYS[table], rows)
        if row_id(row) not in unreadable
        and (row[: len(TABLES[table])] not in wanted[table] or _is_misdated(table, row, dates))
    ]
    if wrong:
        tx.delete(table, _KEYS[table], sorted(map(row_key, wrong)))
        _add_missing(tx, catalogue, set(map(row_id, wrong)))


def _compare(
    connection: Connection, catalogue: Catalogue, ids: Iterable[int], rows: Rows
) -> tuple[Examined, Counter[Range]]:
    """Compare records with their index rows, and `rows`, read earlier, with their records.

    The record of a row that does not match may have changed since: the row is wrong only if it is
    still stored. Also counts the correct index rows of `ids`.
    """
    ids = set(ids)
    of_rows = {row_id(row) for some in rows.values() for row in some}
    wanted, unreadable = wanted_rows(connection, catalogue, ids | of_rows)
    dates, misnoted = _dates(connection, catalogue, ids)
    found = Examined(wrong=misnoted, unreadable=unreadable)
    right = Counter[Range]()
    for table, columns in TABLES.items():
        ours = {row for row in wanted[table] if row_id(row) in ids}
        asked = ours.union(
            row
            for row in rows.get(table, ())
            if row not in wanted[table] and row_id(row) not in unreadable
        )
        rows_there = connection.matching(table, _stored(table), _KEYS[table], [*asked])
        there = {row[: len(columns)] for row in rows_there}
        found.wrong.update(row_id(row) for row in rows_there if _is_misdated(table, row, dates))
        found.wrong.update(map(row_id, (ours - there) | (there - wanted[table])))
        right.update((table, prop_id) for _, prop_id, *_ in ours & there)
        if table == "unique_value":
            found.twins, _ = _other_holders(connection, catalogue, ours - there)
    return found, right


def _stored(table: str) -> dict[str, str]:
    return TABLES[table] | (DATE if table in DATED else {})


def _is_misdated(table: str, row: Row, dates: Mapping[int, int]) -> bool:
    return table in DATED and row[-1] != dates.get(row_id(row), row[-1])


def _dates(
    connection: Connection, catalogue: Catalogue, ids: Iterable[int]
) -> tuple[dict[int, int], set[int]]:
    """Return the `updated_at` of records outside `index_behind`, and ids with a wrong note."""
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
    """Return the pairs of twins for these unique values, and stored rows that no record has."""
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


def _walk(
    database: Database, catalogue: Catalogue, right: Counter[Range]
) -> Iterator[tuple[list[int], Rows]]:
    """Yield batches of all record ids, then batches of the index rows of each property.

    The caller adds the number of correct rows to `right`. Where it equals the stored rows before
    and after, all are correct and not read, which would take ten times as long as the rest.
    """
    before = count_rows(database, catalogue)
    for ids in all_ids(database, catalogue):
        yield ids, {}
    after = count_rows(database, catalogue)
    for known in catalogue:
        for table in tables_of(known):
            here = table, known.prop_id
            if before[here] == right[here] == after[here]:
                continue
            for rows in all_rows(database, catalogue, known, table):
                yield [], {table: rows}


def _sample(database: Database, catalogue: Catalogue) -> Iterator[tuple[list[int], Rows]]:
    """Yield one batch: random records, and rows after theirs of random properties."""
    ids: set[int] = set()
    if (ends := first_and_last_id(database, catalogue)) is not None:
        for _ in range(_PLACES):
            ids.update(ids_from(database, catalogue, random.randint(*ends), _NEIGHBOURS))
    with database.reading() as connection:
        theirs, _ = wanted_rows(connection, catalogue, ids)
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    for known in random.sample([*catalogue], min(_PLACES, len(catalogue))):
        for table in tables_of(known):
            behind = random.choice([None, *(r for r in theirs[table] if r[1] == known.prop_id)])
            rows[table] += rows_behind(database, table, known, catalogue, behind, _NEIGHBOURS)
    yield sorted(ids), rows
