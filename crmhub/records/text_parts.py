"""SQLite's index for parts of texts: the trigrams of each folded text, filled behind the writes.

`part_indexes` makes its tables. A trigger notes each record whose properties change in
`text_part_behind`; the worker indexes it, and until then a search tests the record itself. A search
is therefore exact at any moment, and fast if few records are behind.

`text_part_set` numbers the texts of a property. The row of a text in `text_part` is numbered by its
set and its record.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import orjson

from crmhub.database.connection import Connection, Database
from crmhub.database.part_indexes import read_built
from crmhub.properties.values import fold
from crmhub.records.index import NO_DOCUMENT, few_values

FEW_VALUES = 200
"""With no more distinct values, a part is looked for in each value: the property gets no set."""

# Record ids are much smaller (`ids`).
_ID_BITS = 44
# Records of one transaction, and characters of their documents, each about 1 us: 50 ms, in which no
# other writes.
_BATCH, _CHARACTERS = 200, 50_000
_SECONDS = 5.0
# A search tests them one by one (about 10 us each), or reads all texts instead.
_MOST_BEHIND = 2000
# Pages that one step of a purge writes.
_STEP = 500
_SHORTEST_PART = 3
# The tokenizer takes these characters for one.
_ALIKE = frozenset("\ufffd\ufffe\uffff")
# The index compares the positions of all trigrams of a part; the rest is tested in the text.
_LONGEST_PIECE = 16
_OF = "account_id = :account and kind = :kind"
_BEHIND = f"select record_id from text_part_behind where {_OF}"
_WITHOUT_SET = (
    f"select prop_id from property_def where {_OF}"
    " and prop_id not in (select prop_id from text_part_set where account_id = :account)"
)
_NEW_SET = "insert into text_part_set (account_id, kind, prop_id) values (:account, :kind, :prop)"
_OLD_VALUES = (
    "insert or ignore into text_part_behind select :account, :kind, record_id from ix_text"
    " where account_id = :account and prop_id = :prop"
)


def fill(database: Database, *, seconds: float = _SECONDS) -> int:
    """Index the records that are behind, for so long at most; return how many are left.

    Does nothing on PostgreSQL and without the index.
    """
    if database.dialect != "sqlite":
        return 0
    with database.reading() as connection:
        if not read_built(connection).trigrams:
            return 0
        kinds = connection.rows("select distinct account_id, kind from text_part_behind")
    end = time.monotonic() + seconds
    for account_id, kind in kinds:
        of = {"account": account_id, "kind": kind}
        database.transact(partial(_make_sets, of=of))
        while database.transact(partial(_fill_some, of=of)) and time.monotonic() < end:
            pass
        if time.monotonic() >= end:
            break
    with database.reading() as connection:
        return int(connection.scalar("select count(*) from text_part_behind"))


def purge(database: Database) -> None:
    """Remove what is left of deleted texts: SQLite only marks their trigrams as deleted."""
    fill(database, seconds=math.inf)
    with database.reading() as connection:
        if not read_built(connection).trigrams:
            return
    # A negative number begins to merge all parts of the index into one.
    pages = -_STEP
    while database.transact(partial(_merge, pages=pages)):
        pages = _STEP


def _merge(tx: Connection, pages: int) -> bool:
    """Return whether there was anything to merge."""
    before = tx.scalar("select total_changes()")
    tx.run("insert into text_part (text_part, rank) values ('merge', :pages)", {"pages": pages})
    return bool(tx.scalar("select total_changes()") - before > 1)


def _make_sets(tx: Connection, of: dict[str, int]) -> None:
    for (prop_id,) in tx.rows(_WITHOUT_SET, of):
        if few_values(tx, of["account"], prop_id, FEW_VALUES) is None:
            tx.run(_NEW_SET, of | {"prop": prop_id})
            tx.run(_OLD_VALUES, of | {"prop": prop_id})


def _fill_some(tx: Connection, of: dict[str, int]) -> bool:
    """Return False if nothing was behind."""
    behind = [id for (id,) in tx.rows(f"{_BEHIND} order by record_id limit {_BATCH}", of)]
    if not behind:
        return False
    sets = tx.rows(
        "select s.number, d.name from text_part_set s left join property_def d"
        " on d.account_id = s.account_id and d.prop_id = s.prop_id"
        " where s.account_id = :account and s.kind = :kind",
        of,
    )
    among, these = tx.in_list("id", "ids", behind)
    records = f"select id, properties from records where {_OF} and {among}"
    documents: dict[int, str] = dict(tx.rows(records, of | these))
    behind = list(_first_of(behind, documents))
    texts = {
        number << _ID_BITS | id: text
        for id in behind
        for number, text in _texts(documents.get(id, "{}"), sets)
    }
    old: dict[int, str] = dict(
        tx.rows(
            "select rowid, folded from text_part where rowid in"
            f" (select number << {_ID_BITS} | value from text_part_set, json_each(:all)"
            f" where {_OF})",
            of | {"all": orjson.dumps(behind).decode()},
        )
    )
    for row, text in old.items():
        if texts.get(row) != text:
            tx.run("delete from text_part where rowid = :row", {"row": row})
    for row, text in texts.items():
        if old.get(row) != text:
            tx.run(
                "insert into text_part (rowid, folded) values (:row, :text)",
                {"row": row, "text": text},
            )
    among, these = tx.in_list("record_id", "ids", behind)
    tx.run(f"delete from text_part_behind where {_OF} and {among}", of | these)
    return True


def _first_of(ids: list[int], documents: Mapping[int, str]) -> Iterator[int]:
    left = _CHARACTERS
    for id in ids:
        yield id
        left -= len(documents.get(id, ""))
        if left <= 0:
            return


def _texts(document: str, sets: list[tuple[int, str | None]]) -> Iterator[tuple[int, str]]:
    try:
        properties = orjson.loads(document)
        for number, name in sets:
            if name and (value := properties.get(name)):
                yield number, fold(value)
    except NO_DOCUMENT:
        # It was spoilt by hand, and has no index rows either.
        return


def find_set(
    connection: Connection, account_id: int, kind: int, prop_id: int, part: str
) -> int | None:
    """Return the set in which the index finds the folded `part`; None if it cannot, or if too many
    records are behind."""
    if len(part) < _SHORTEST_PART or _ALIKE.intersection(part):
        return None
    of = {"account": account_id, "kind": kind, "prop": prop_id}
    row = connection.row(
        f"select number, (select count(*) from ({_BEHIND} limit {_MOST_BEHIND}))"
        " from text_part_set where account_id = :account and prop_id = :prop",
        of,
    )
    return row[0] if row and row[1] < _MOST_BEHIND else None


def ids(n: int, number: int, part: str, test: str, more: str) -> tuple[str, dict[str, Any]]:
    """Select the ids of the records with the folded `part`; `test` is its test of a record."""
    piece = part[:_LONGEST_PIECE].replace('"', '""')
    first = number << _ID_BITS
    rest = f" and instr(folded, :part{n}) > 0" if len(part) > _LONGEST_PIECE else ""
    id = f"rowid & {(1 << _ID_BITS) - 1}"
    return (
        f"select {id} as id{more} from text_part where text_part match :piece{n}"
        f" and rowid between :first{n} and :last{n} and {id} not in ({_BEHIND}){rest}"
        f" union all select id{more} from records where {_OF} and id in ({_BEHIND}) and {test}",
        {
            f"part{n}": part,
            f"piece{n}": f'"{piece}"',
            f"first{n}": first,
            f"last{n}": first | (1 << _ID_BITS) - 1,
        },
    )
