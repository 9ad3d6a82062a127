"""Compares record counters and index rows with the records, and rebuilds them from the records.

A comparison reads a record and its index rows at two different moments, so a write in between looks
like an error. Therefore each difference is checked again under the account's exclusive lock, and
only the second check counts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
import sqlalchemy as sa

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import index_behind, metadata, record_count
from crmhub.database.tables import records as records_table
from crmhub.properties.catalogue import Catalogue, Catalogues, Property
from crmhub.properties.kinds import KINDS, Kind
from crmhub.records.index import (
    DATE,
    DATED,
    KEY_COLUMNS,
    NO_DOCUMENT,
    TABLES,
    note_changed,
    whole,
)

# A sample: so many places among the ids and among the properties, and at each a few neighbours.
_PLACES = 20
_NEIGHBOURS = 5
_BATCH = 1000

_KEYS = {table: dict([*columns.items()][:KEY_COLUMNS]) for table, columns in TABLES.items()}
Rows = Mapping[str, Sequence[Row]]
# The rows of a property in one of TABLES.
_Range = tuple[str, int]

_record = records_table.c
_OF_KIND = sa.and_(_record.account_id == param("account_id"), _record.kind == param("kind"))
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
        .where(_OF_KIND)
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
    .where(_OF_KIND, in_list(_record.id, "ids"))
)
_FIRST_AND_LAST_ID = Statement(
    sa.select(
        sa.select(sa.func.min(_record.id)).where(_OF_KIND).scalar_subquery().label("first"),
        sa.select(sa.func.max(_record.id)).where(_OF_KIND).scalar_subquery().label("last"),
    )
)
_IDS_FROM = Statement(
    sa.select(_record.id)
    .where(_OF_KIND, _record.id >= param("first"))
    .order_by(_record.id)
    .limit(param("n"))
)
_DOCUMENTS = Statement(
    sa.select(_record.id, sa.cast(_record.properties, sa.Text).label("properties")).where(
        _OF_KIND, in_list(_record.id, "ids")
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


@dataclass(frozen=True, slots=True)
class Miscount:
    """A record counter whose stored value differs from the actual number of records."""

    kind: Kind
    stored: int
    actual: int


@dataclass(slots=True)
class Examined:
    """The result of comparing index rows with records.

    `looked_at` is the number of records compared, and `wrong` contains the ids of records whose
    index rows are wrong. `twins` contains pairs of records with the same unique value, which only
    their owner can resolve, as `(property name, id, other id)`; the first id is also in `wrong`.
    `unreadable` contains the ids of records with invalid properties; their index rows are not
    changed.
    """

    looked_at: int = 0
    wrong: set[int] = field(default_factory=set)
    twins: set[tuple[str, int, int]] = field(default_factory=set)
    unreadable: set[int] = field(default_factory=set)


def recount(database: Database, account_id: int, *, repair: bool) -> list[Miscount]:
    """Count the account's records of each kind, and return the counters that are wrong.

    With `repair` the wrong counters are corrected, while writers of the account wait.
    """

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
    """Compare the index rows of an account's records of a kind with the records.

    With `everything` all records and all index rows are compared, otherwise a random sample. The
    comparison corrects nothing. Differences are checked a second time, at most 1,000 records at a
    time, while writers of the account wait.
    """
    catalogue = catalogues.reload(account_id, kind)
    examined = Examined()
    right = Counter[_Range]()
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
    """Correct the index rows of all records of a kind in an account.

    Returns the pairs of records with the same unique value, as `(property name, id, other id)`.
    Writers of the account wait while a batch of 1,000 records or rows is processed. Correct rows
    are not written again, and the rows of unreadable records are not changed.
    """
    catalogue = catalogues.reload(account_id, kind)
    twins: set[tuple[str, int, int]] = set()
    for ids in _all_ids(database, catalogue):
        twins |= catalogues.edit(account_id, kind, partial(_add_missing, ids=ids))
    for known in catalogue:
        for table in _tables(known):
            for rows in _all_rows(database, catalogue, known, table):
                catalogues.edit(account_id, kind, partial(_replace_wrong, table=table, rows=rows))
    return twins


def _add_missing(
    tx: Connection, catalogue: Catalogue, ids: Iterable[int]
) -> set[tuple[str, int, int]]:
    """Insert the missing index rows of the records with these ids.

    Returns the pairs of records with the same unique value, as `(property name, id, other id)`.
    """
    wanted, _ = _wanted(tx, catalogue, ids)
    _, stray = _other_holders(tx, catalogue, wanted["unique_value"])
    tx.delete("unique_value", _KEYS["unique_value"], stray)
    _, changed = _dates(tx, catalogue, ids)
    for table, columns in TABLES.items():
        rows = sorted(wanted[table], key=_key)
        if tx.insert(table, columns, rows, or_skip=True) and table in DATED:
            # The new rows have no date yet.
            stored = tx.matching(table, _stored(table), _KEYS[table], rows)
            changed |= {_id(row) for row in stored if not row[-1]}
    note_changed(tx, catalogue.account_id, catalogue.kind, sorted(changed))
    # Of two records that lacked the same unique value one has it now.
    twins, _ = _other_holders(tx, catalogue, wanted["unique_value"])
    return twins


def _replace_wrong(tx: Connection, catalogue: Catalogue, table: str, rows: Sequence[Row]) -> None:
    """Delete the wrong rows among `rows`, and insert correct rows for the same records.

    `rows` are rows of the index table `table`. Rows of records with unreadable properties stay.
    """
    ids = set(map(_id, rows))
    wanted, unreadable = _wanted(tx, catalogue, ids)
    dates, _ = _dates(tx, catalogue, ids)
    wrong = [
        row
        for row in tx.matching(table, _stored(table), _KEYS[table], rows)
        if _id(row) not in unreadable
        and (row[: len(TABLES[table])] not in wanted[table] or _is_misdated(table, row, dates))
    ]
    if wrong:
        tx.delete(table, _KEYS[table], sorted(map(_key, wrong)))
        _add_missing(tx, catalogue, set(map(_id, wrong)))


def _compare(
    connection: Connection, catalogue: Catalogue, ids: Iterable[int], rows: Rows
) -> tuple[Examined, Counter[_Range]]:
    """Compare records with their index rows, and index rows with their records.

    `ids` are the records whose index rows are read and compared. `rows` maps index tables to rows
    that the caller has read earlier; each row is compared with its record. If such a row does not
    match, its record may have changed since. So the row is read again, and is wrong only if it is
    still stored.

    Returns two values. The first contains the ids of records with wrong index rows, the pairs of
    records with the same unique value, and the ids of unreadable records. The second counts the
    correct index rows of the records `ids`, by table and property id.
    """
    ids = set(ids)
    of_rows = {_id(row) for some in rows.values() for row in some}
    wanted, unreadable = _wanted(connection, catalogue, ids | of_rows)
    dates, misnoted = _dates(connection, catalogue, ids)
    found = Examined(wrong=misnoted, unreadable=unreadable)
    right = Counter[_Range]()
    for table, columns in TABLES.items():
        ours = {row for row in wanted[table] if _id(row) in ids}
        asked = ours.union(
            row
            for row in rows.get(table, ())
            if row not in wanted[table] and _id(row) not in unreadable
        )
        rows_there = connection.matching(table, _stored(table), _KEYS[table], [*asked])
        there = {row[: len(columns)] for row in rows_there}
        found.wrong.update(_id(row) for row in rows_there if _is_misdated(table, row, dates))
        found.wrong.update(map(_id, (ours - there) | (there - wanted[table])))
        right.update((table, prop_id) for _, prop_id, *_ in ours & there)
        if table == "unique_value":
            found.twins, _ = _other_holders(connection, catalogue, ours - there)
    return found, right


def _stored(table: str) -> dict[str, str]:
    return TABLES[table] | (DATE if table in DATED else {})


def _is_misdated(table: str, row: Row, dates: Mapping[int, int]) -> bool:
    return table in DATED and row[-1] != dates.get(_id(row), row[-1])


def _dates(
    connection: Connection, catalogue: Catalogue, ids: Iterable[int]
) -> tuple[dict[int, int], set[int]]:
    """Return the `updated_at` that index rows must have, and the records noted with a wrong time.

    The first value maps the ids of records that are not in the table `index_behind` to their
    `updated_at`. The second contains the ids of records whose time in `index_behind` differs from
    their `updated_at`.
    """
    dates, misnoted = dict[int, int](), set[int]()
    for record in connection.rows(_DATES, _of(catalogue) | {"ids": sorted(ids)}):
        if record.noted is None:
            dates[record.id] = record.updated_at
        elif record.noted != record.updated_at:
            misnoted.add(record.id)
    return dates, misnoted


def _other_holders(
    connection: Connection, catalogue: Catalogue, rows: Collection[Row]
) -> tuple[set[tuple[str, int, int]], list[Row]]:
    """Find the stored rows of the table `unique_value` that have the same values as `rows`.

    `rows` are the rows that records should have there. The first value contains the pairs of
    different records with the same unique value, as `(property name, id, other id)`. The second
    contains the stored rows whose record does not have that value.
    """
    columns = TABLES["unique_value"]
    of_value = dict([*columns.items()][: KEY_COLUMNS - 1])
    by_value: dict[Row, list[int]] = {}
    for row in rows:
        by_value.setdefault(row[: len(of_value)], []).append(_id(row))
    holders = set(connection.matching("unique_value", columns, of_value, [*by_value]))
    wanted, unreadable = _wanted(connection, catalogue, set(map(_id, holders)))
    names = {known.prop_id: known.name for known in catalogue}
    twins = {
        (names[holder[1]], id, _id(holder))
        for holder in holders & wanted["unique_value"]
        for id in by_value[holder[: len(of_value)]]
        if id != _id(holder)
    }
    stray = holders - wanted["unique_value"]
    return twins, sorted(row for row in stray if _id(row) not in unreadable)


def _walk(
    database: Database, catalogue: Catalogue, right: Counter[_Range]
) -> Iterator[tuple[list[int], Rows]]:
    """Yield batches of the ids of all records, then batches of the index rows of each property.

    The caller counts the correct index rows of the records in each batch, and adds the numbers to
    `right`. The stored rows of each property are counted before and after the records are read. If
    both counts equal the number in `right`, all rows of the property are correct and are not read.
    Reading them would take ten times as long as the rest.
    """
    before = _counted(database, catalogue)
    for ids in _all_ids(database, catalogue):
        yield ids, {}
    after = _counted(database, catalogue)
    for known in catalogue:
        for table in _tables(known):
            here = table, known.prop_id
            if before[here] == right[here] == after[here]:
                continue
            for rows in _all_rows(database, catalogue, known, table):
                yield [], {table: rows}


def _all_ids(database: Database, catalogue: Catalogue) -> Iterator[list[int]]:
    last = 0
    while ids := _ids_from(database, catalogue, last + 1, _BATCH):
        yield ids
        last = ids[-1]


def _all_rows(
    database: Database, catalogue: Catalogue, known: Property, table: str
) -> Iterator[list[Row]]:
    behind: Row | None = None
    while rows := _rows_behind(database, table, known, catalogue, behind, _BATCH):
        yield rows
        behind = rows[-1]


def _counted(database: Database, catalogue: Catalogue) -> Counter[_Range]:
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


def _sample(database: Database, catalogue: Catalogue) -> Iterator[tuple[list[int], Rows]]:
    """Yield one batch: the ids of random records, and index rows of random properties.

    The index rows of a property come directly after the row of one of these records, or are the
    first rows of the property.
    """
    with database.reading() as connection:
        there = connection.row(_FIRST_AND_LAST_ID, _of(catalogue))
    ids: set[int] = set()
    for _ in range(_PLACES if there.first is not None else 0):
        place = random.randint(there.first, there.last)
        ids.update(_ids_from(database, catalogue, place, _NEIGHBOURS))
    with database.reading() as connection:
        theirs, _ = _wanted(connection, catalogue, ids)
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    for known in random.sample([*catalogue], min(_PLACES, len(catalogue))):
        for table in _tables(known):
            behind = random.choice([None, *(r for r in theirs[table] if r[1] == known.prop_id)])
            rows[table] += _rows_behind(database, table, known, catalogue, behind, _NEIGHBOURS)
    yield sorted(ids), rows


def _tables(known: Property) -> list[str]:
    return [known.index, "unique_value"] if known.unique else [known.index]


def _ids_from(database: Database, catalogue: Catalogue, first: int, n: int) -> list[int]:
    with database.reading() as connection:
        rows = connection.rows(_IDS_FROM, _of(catalogue) | {"first": first, "n": n})
    return [row.id for row in rows]


def _rows_behind(
    database: Database,
    table: str,
    known: Property,
    catalogue: Catalogue,
    behind: Row | None,
    n: int,
) -> list[Row]:
    """Return up to `n` rows of the property `known` in an index table, in the order of the key.

    The rows come directly after the row `behind`; if `behind` is None, they are the first rows.
    """
    # A row of a sample may be a plain tuple, as a record should have it.
    value, record_id = behind[2:KEY_COLUMNS] if behind else (_LOWEST[table], -(2**63))
    of = {"account_id": catalogue.account_id, "prop_id": known.prop_id, "n": n}
    last = {"value": value, "record_id": record_id}
    with database.reading() as connection:
        return connection.rows(_NEXT_ROWS[table], of | last)


def _wanted(
    connection: Connection, catalogue: Catalogue, ids: Iterable[int]
) -> tuple[dict[str, set[Row]], set[int]]:
    """Return the index rows that the records with these ids should have.

    The first value maps each index table to its rows, without the rows of records with unreadable
    properties. The second contains the ids of those unreadable records.
    """
    found = connection.rows(_DOCUMENTS, _of(catalogue) | {"ids": sorted(ids)})
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


def _of(catalogue: Catalogue) -> dict[str, Any]:
    return {"account_id": catalogue.account_id, "kind": catalogue.kind.code}


def _key(row: Row) -> Row:
    return row[:KEY_COLUMNS]


def _id(row: Row) -> int:
    id: int = row[3]
    return id
