"""Counters and index rows compared with the records they are made from, and mended.

While others write, a record and its rows are read at two moments and may differ. So what seems
wrong is looked at again while nobody writes to the account's records, and that look alone counts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database
from crmhub.properties.catalogue import (
    Catalogue,
    Catalogues,
    Property,
)
from crmhub.properties.kinds import KINDS, Kind
from crmhub.records.index import DATE, DATED, KEY_COLUMNS, NO_DOCUMENT, TABLES, whole

# A sample: so many places among the ids and among the properties, and at each a few neighbours.
_PLACES = 20
_NEIGHBOURS = 5
_BATCH = 1000

_KEYS = {table: dict([*columns.items()][:KEY_COLUMNS]) for table, columns in TABLES.items()}
Rows = Mapping[str, Sequence[Row]]
# The rows of a property in one of TABLES.
_Range = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Miscount:
    """A counter that says `told` of a kind of which there are `live` records."""

    kind: Kind
    told: int
    live: int


@dataclass(slots=True)
class Examined:
    """What came of comparing: how many records were looked at, and the ids of the wrong ones.

    `twins` are `(property name, id, other id)`: records with the same unique value, between which
    only their owner can decide. `unreadable` are those whose document is none, or holds what a
    property's type does not allow: their index rows stay as they are.
    """

    looked_at: int = 0
    wrong: set[int] = field(default_factory=set)
    twins: set[tuple[str, int, int]] = field(default_factory=set)
    unreadable: set[int] = field(default_factory=set)


def recount(database: Database, account_id: int, *, mend: bool) -> list[Miscount]:
    """Count the account's records of each kind and return where its counter is wrong.

    With `mend` the counters are right afterwards; writers of the account wait for that count.
    """

    def set_right(tx: Connection) -> list[Miscount]:
        tx.hold(account_id, alone=True)
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
        # One statement sees one moment: a write and its count together, or neither.
        told, live = connection.rows(
            "select (select sum(n) from record_count"
            " where account_id = :account and kind = :kind),"
            " (select count(*) from records where account_id = :account and kind = :kind)",
            {"account": account_id, "kind": kind.code},
        )[0]
        if told != live:
            found.append(Miscount(kind, int(told or 0), live))
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
    """Compare index rows with records, in both directions: `everything`, or what chance picks.

    With `mend` the rows of the records found wrong are made anew, but for `twins`. What seems
    wrong is looked at again, at most 1,000 records at a time, while writers of the account wait.
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
                # Without a date: the database notes itself that their records are behind.
                tx.insert(table, columns, sorted(found.missing[table], key=_key), or_skip=True)
            _note_behind(tx, fresh, found.misdated)
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
    for id, date, noted in _dates(connection, catalogue, ids):
        if noted is None:
            dates[id] = date
        elif noted != date:
            found.misdated.add(id)
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


def _dates(connection: Connection, catalogue: Catalogue, ids: Iterable[int]) -> list[Row]:
    """Return id and date of change of these records, and the date noted of those behind or None."""
    among, params = connection.among("r.id", "ids", sorted(ids))
    return connection.rows(
        "select r.id, r.updated_at, b.updated_at from records as r left join index_behind as b"
        " on b.account_id = r.account_id and b.kind = r.kind and b.id = r.id"
        f" where r.account_id = :account and r.kind = :kind and {among}",
        {"account": catalogue.account_id, "kind": catalogue.kind.code, **params},
    )


def _note_behind(tx: Connection, catalogue: Catalogue, ids: Iterable[int]) -> None:
    """Have all rows of these records dated anew."""
    among, params = tx.among("id", "ids", sorted(ids))
    tx.run(
        "insert into index_behind select account_id, kind, id, updated_at from records"
        f" where account_id = :account and kind = :kind and {among}"
        " on conflict (account_id, kind, id) do update set updated_at = excluded.updated_at",
        {"account": catalogue.account_id, "kind": catalogue.kind.code, **params},
    )


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
        of_kind, props = connection.among("prop_id", "props", [each.prop_id for each in catalogue])
        return Counter(
            {
                (table, prop_id): rows
                for table in TABLES
                for prop_id, rows in connection.rows(
                    f"select prop_id, count(*) from {table}"
                    f" where account_id = :account and {of_kind} group by prop_id",
                    {"account": catalogue.account_id, **props},
                )
            }
        )


def _sample(database: Database, catalogue: Catalogue) -> Iterator[tuple[list[int], Rows]]:
    """Yield some records, and index rows next to theirs or at the start of a property."""
    of = {"account": catalogue.account_id, "kind": catalogue.kind.code}
    here = "from records where account_id = :account and kind = :kind"
    with database.reading() as connection:
        first, last = connection.rows(
            f"select (select min(id) {here}), (select max(id) {here})", of
        )[0]
    ids: set[int] = set()
    for _ in range(_PLACES if first is not None else 0):
        ids.update(_ids_from(database, catalogue, random.randint(first, last), _NEIGHBOURS))
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
        rows = connection.rows(
            "select id from records where account_id = :account and kind = :kind and id >= :first"
            " order by id limit :n",
            {
                "account": catalogue.account_id,
                "kind": catalogue.kind.code,
                "first": first,
                "n": n,
            },
        )
    return [id for (id,) in rows]


def _rows_behind(
    database: Database,
    table: str,
    known: Property,
    catalogue: Catalogue,
    behind: Row | None,
    n: int,
) -> list[Row]:
    """Return the next rows of a property's range, or its first ones."""
    of = {"account": catalogue.account_id, "prop": known.prop_id, "n": n}
    where = ""
    if behind is not None:
        where = " and (value, record_id) > (:value, :id)"
        of |= {"value": behind[2], "id": behind[3]}
    with database.reading() as connection:
        return connection.rows(
            f"select {', '.join(TABLES[table])} from {table}"
            f" where account_id = :account and prop_id = :prop{where}"
            " order by value, record_id limit :n",
            of,
        )


def _rows_of(connection: Connection, catalogue: Catalogue, ids: Iterable[int]) -> Rows:
    """Return all index rows of the records; it reads through the whole index of the account."""
    among, params = connection.among("record_id", "ids", sorted(ids))
    of_kind, props = connection.among("prop_id", "props", [each.prop_id for each in catalogue])
    return {
        table: connection.rows(
            f"select {', '.join(columns)} from {table}"
            f" where account_id = :account and {of_kind} and {among}",
            {"account": catalogue.account_id, **params, **props},
        )
        for table, columns in TABLES.items()
    }


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
    among, params = connection.among("id", "ids", sorted(ids))
    rows = connection.rows(
        "select id, cast(properties as text) from records"
        f" where account_id = :account and kind = :kind and {among}",
        {"account": catalogue.account_id, "kind": catalogue.kind.code, **params},
    )
    return dict(rows)


def _key(row: Row) -> Row:
    return row[:KEY_COLUMNS]


def _id(row: Row) -> int:
    id: int = row[3]
    return id
