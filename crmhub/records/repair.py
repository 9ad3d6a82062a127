"""Compares counters and index rows with the records, and repairs them.

While others write, a record and its rows are read at two moments and may differ. So differences are
checked again under the account's exclusive lock, and only that second check counts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
        .label("told"),
        sa.select(sa.func.count())
        .select_from(records_table)
        .where(_OF_KIND)
        .scalar_subquery()
        .label("live"),
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


def _rows_in(table: sa.Table) -> sa.Select[Any]:
    """Return the query of rows of a property, in the order of their key, in columns of TABLES."""
    return (
        sa.select(*(table.c[name] for name in TABLES[table.name]))
        .where(table.c.account_id == param("account_id"), table.c.prop_id == param("prop_id"))
        .order_by(table.c.value, table.c.record_id)
        .limit(param("n"))
    )


def _of_properties(table: sa.Table) -> sa.ColumnElement[bool]:
    of_account = table.c.account_id == param("account_id")
    return sa.and_(of_account, in_list(table.c.prop_id, "prop_ids"))


_TABLES = {name: metadata.tables[name] for name in TABLES}
_COUNT_ROWS = {
    name: Statement(
        sa.select(table.c.prop_id, sa.func.count().label("n"))
        .where(_of_properties(table))
        .group_by(table.c.prop_id)
    )
    for name, table in _TABLES.items()
}
_FIRST_ROWS = {name: Statement(_rows_in(table)) for name, table in _TABLES.items()}
_ROWS_BEHIND = {
    name: Statement(
        _rows_in(table).where(
            sa.tuple_(table.c.value, table.c.record_id)
            > sa.tuple_(param("value"), param("record_id"))
        )
    )
    for name, table in _TABLES.items()
}
_ROWS_OF_RECORDS = {
    name: Statement(
        sa.select(*(table.c[column] for column in TABLES[name])).where(
            _of_properties(table), in_list(table.c.record_id, "ids")
        )
    )
    for name, table in _TABLES.items()
}


@dataclass(frozen=True, slots=True)
class Miscount:
    """A record counter whose stored value (`told`) differs from the real count (`live`)."""

    kind: Kind
    told: int
    live: int


@dataclass(slots=True)
class Examined:
    """The result of a comparison: the number of records, and the ids of the wrong ones.

    `twins` are `(property name, id, other id)`: records with the same unique value, which only
    their owner can resolve. `unreadable` are records with an invalid document or value; their index
    rows stay as they are.
    """

    looked_at: int = 0
    wrong: set[int] = field(default_factory=set)
    twins: set[tuple[str, int, int]] = field(default_factory=set)
    unreadable: set[int] = field(default_factory=set)


def recount(database: Database, account_id: int, *, mend: bool) -> list[Miscount]:
    """Count the account's records of each kind and return the wrong counters.

    With `mend` the counters are repaired; writers of the account wait meanwhile.
    """

    def set_right(tx: Connection) -> list[Miscount]:
        tx.hold(account_id, exclusive=True)
        wrong = _miscounts(tx, account_id)
        of = {"account_id": "int", "kind": "int"}
        columns = {**of, "shard": "int", "n": "bigint"}
        tx.delete("record_count", of, [(account_id, each.kind.code) for each in wrong])
        rows = [(account_id, each.kind.code, 0, each.live) for each in wrong]
        tx.insert("record_count", columns, rows)
        return wrong

    with database.reading() as connection:
        wrong = _miscounts(connection, account_id)
    return database.transact(set_right) if wrong and mend else wrong


def _miscounts(connection: Connection, account_id: int) -> list[Miscount]:
    found = []
    for kind in KINDS.values():
        n = connection.row(_COUNT, {"account_id": account_id, "kind": kind.code})
        if n.told != n.live:
            found.append(Miscount(kind, int(n.told or 0), n.live))
    return found


def examine(
    catalogues: Catalogues,
    database: Database,
    account_id: int,
    kind: Kind,
    *,
    everything: bool,
    mend: bool,
) -> Examined:
    """Compare index rows with records, in both directions: `everything`, or a random sample.

    With `mend` the rows of wrong records are written anew, except for `twins`. Differences are
    checked again for at most 1,000 records at a time, while writers of the account wait.
    """
    catalogue = catalogues.reload(account_id, kind)
    examined = Examined()
    right = Counter[_Range]()
    walk = _walk(database, catalogue, right) if everything else _sample(database, catalogue)
    for ids, rows in walk:
        with database.reading() as connection:
            found = _compare(connection, catalogue, ids, rows)
            right += found.right
            # What else there may be of a record has no key it could be found by, but the walk
            # over everything comes past it.
            if found.ids and not everything:
                rows = _rows_of(connection, catalogue, found.ids)
        examined.looked_at += len(ids)
        if seeming := found.ids | found.unreadable:
            _look_again(catalogues, examined, catalogue, seeming, rows, mend=mend)
    return examined


def _look_again(
    catalogues: Catalogues,
    examined: Examined,
    catalogue: Catalogue,
    ids: set[int],
    rows: Rows,
    *,
    mend: bool,
) -> None:
    def look(tx: Connection, fresh: Catalogue) -> _Difference:
        found = _compare(tx, fresh, ids, rows)
        if mend:
            for table, columns in TABLES.items():
                tx.delete(table, _KEYS[table], sorted(map(_key, found.stray[table])))
                tx.insert(table, columns, sorted(found.missing[table], key=_key), or_skip=True)
            # The new rows have no date yet.
            note_changed(tx, fresh.account_id, fresh.kind, sorted(found.ids))
            # Of two that lacked the same unique value one has it now.
            found.twins = _compare(tx, fresh, found.ids, {}).twins
        return found

    found = catalogues.edit(catalogue.account_id, catalogue.kind, look)
    examined.wrong |= found.ids
    examined.twins |= found.twins
    examined.unreadable |= found.unreadable


@dataclass(slots=True)
class _Difference:
    """Rows of records that their tables lack, and rows of the tables that no record is behind.

    `misdated` are records that were changed at another time than a row of theirs says, or than is
    noted of those that are behind; `right` counts the rows of records that are as they should be.
    """

    missing: dict[str, set[Row]] = field(default_factory=dict)
    stray: dict[str, set[Row]] = field(default_factory=dict)
    twins: set[tuple[str, int, int]] = field(default_factory=set)
    unreadable: set[int] = field(default_factory=set)
    misdated: set[int] = field(default_factory=set)
    right: Counter[_Range] = field(default_factory=Counter)

    @property
    def ids(self) -> set[int]:
        """The records at fault."""
        return self.misdated | {
            _id(row)
            for by_table in (self.missing, self.stray)
            for rows in by_table.values()
            for row in rows
        }


def _compare(
    connection: Connection, catalogue: Catalogue, ids: Iterable[int], rows: Rows
) -> _Difference:
    """Compare all rows of the records of these ids, and these index rows with what is behind them.

    Of the rows only those are read again that seem to be stray.
    """
    ids = set(ids)
    of_rows = {_id(row) for some in rows.values() for row in some}
    wanted, unreadable = _wanted(connection, catalogue, ids | of_rows)
    found = _Difference(unreadable=unreadable)
    dates = dict[int, int]()
    for record in connection.rows(_DATES, _of(catalogue) | {"ids": sorted(ids)}):
        if record.noted is None:
            dates[record.id] = record.updated_at
        elif record.noted != record.updated_at:
            found.misdated.add(record.id)
    for table, columns in TABLES.items():
        ours = {row for row in wanted[table] if _id(row) in ids}
        asked = ours.union(
            row
            for row in rows.get(table, ())
            if row not in wanted[table] and _id(row) not in unreadable
        )
        stored = columns | (DATE if table in DATED else {})
        rows_there = connection.matching(table, stored, _KEYS[table], [*asked])
        there = {row[: len(columns)] for row in rows_there}
        if table in DATED:
            found.misdated.update(
                _id(row) for row in rows_there if row[-1] != dates.get(_id(row), row[-1])
            )
        found.missing[table] = ours - there
        found.stray[table] = there - wanted[table]
        found.right.update((table, prop_id) for _, prop_id, *_ in ours & there)
    _look_at_holders(connection, catalogue, found)
    return found


def _look_at_holders(connection: Connection, catalogue: Catalogue, found: _Difference) -> None:
    """Note who holds the unique values that are missing: a twin, or a row that is stray."""
    columns = TABLES["unique_value"]
    of_value = dict([*columns.items()][: KEY_COLUMNS - 1])
    missing: dict[Row, list[Row]] = {}
    for row in found.missing["unique_value"]:
        missing.setdefault(row[: len(of_value)], []).append(row)
    holders = connection.matching("unique_value", columns, of_value, [*missing])
    wanted, unreadable = _wanted(connection, catalogue, {_id(row) for row in holders})
    rightly = wanted["unique_value"]
    names = {known.prop_id: known.name for known in catalogue}
    for holder in holders:
        if holder in rightly:
            for row in missing[holder[: len(of_value)]]:
                found.twins.add((names[row[1]], _id(row), _id(holder)))
        elif _id(holder) not in unreadable:
            found.stray["unique_value"].add(holder)


def _walk(
    database: Database, catalogue: Catalogue, right: Counter[_Range]
) -> Iterator[tuple[list[int], Rows]]:
    """Yield the ids of all records, then the index rows of properties, a batch at a time.

    `right` tells by then how many rows the records are behind. Where a property has so many, and
    had before, each of them is right: reading them would take ten times as long as all else.
    """
    before = _counted(database, catalogue)
    last = 0
    while ids := _ids_from(database, catalogue, last + 1, _BATCH):
        yield ids, {}
        last = ids[-1]
    after = _counted(database, catalogue)
    for known in catalogue:
        for table in _tables(known):
            here = table, known.prop_id
            if before[here] == right[here] == after[here]:
                continue
            behind: Row | None = None
            while rows := _rows_behind(database, table, known, catalogue, behind, _BATCH):
                yield [], {table: rows}
                behind = rows[-1]


def _counted(database: Database, catalogue: Catalogue) -> Counter[_Range]:
    with database.reading() as connection:
        return Counter(
            {
                (table, row.prop_id): row.n
                for table, statement in _COUNT_ROWS.items()
                for row in connection.rows(statement, _of_all_properties(catalogue))
            }
        )


def _sample(database: Database, catalogue: Catalogue) -> Iterator[tuple[list[int], Rows]]:
    """Yield some records, and index rows next to theirs or at the start of a property."""
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
    """Return the next rows of a property's range, or its first ones."""
    of = {"account_id": catalogue.account_id, "prop_id": known.prop_id, "n": n}
    with database.reading() as connection:
        if behind is None:
            return connection.rows(_FIRST_ROWS[table], of)
        # It may be what a record should have: a row without names.
        _, _, value, record_id, *_ = behind
        last = {"value": value, "record_id": record_id}
        return connection.rows(_ROWS_BEHIND[table], of | last)


def _rows_of(connection: Connection, catalogue: Catalogue, ids: Iterable[int]) -> Rows:
    """Return all index rows of the records; it reads through the whole index of the account."""
    of = _of_all_properties(catalogue) | {"ids": sorted(ids)}
    return {table: connection.rows(statement, of) for table, statement in _ROWS_OF_RECORDS.items()}


def _wanted(
    connection: Connection, catalogue: Catalogue, ids: Iterable[int]
) -> tuple[dict[str, set[Row]], set[int]]:
    """Return the rows that the records should have, and the ids of those that cannot be read."""
    texts = _documents(connection, catalogue, ids)
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


def _documents(connection: Connection, catalogue: Catalogue, ids: Iterable[int]) -> dict[int, str]:
    rows = connection.rows(_DOCUMENTS, _of(catalogue) | {"ids": sorted(ids)})
    return {row.id: row.properties for row in rows}


def _of(catalogue: Catalogue) -> dict[str, Any]:
    return {"account_id": catalogue.account_id, "kind": catalogue.kind.code}


def _of_all_properties(catalogue: Catalogue) -> dict[str, Any]:
    prop_ids = [known.prop_id for known in catalogue]
    return {"account_id": catalogue.account_id, "prop_ids": prop_ids}


def _key(row: Row) -> Row:
    return row[:KEY_COLUMNS]


def _id(row: Row) -> int:
    id: int = row[3]
    return id
