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
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import orjson

from crmhub.database.connection import Connection, Database
from crmhub.database.part_indexes import make_again, read_built
from crmhub.properties.values import fold
from crmhub.records.index import NO_DOCUMENT, few_values

FEW_VALUES = 200
"""With no more distinct values, a part is looked for in each value: the property gets no set."""

# Record ids are much smaller (`ids`).
_ID_BITS = 44
_ID_MASK = (1 << _ID_BITS) - 1
# Records of one transaction, and characters of their documents and old texts, each about 1 us. For
# these 50 ms no other writes.
_BATCH, _CHARACTERS = 200, 50_000
_SECONDS = 5.0
# A search tests them one by one (about 10 us each), or reads all texts instead.
_MOST_BEHIND = 2000
# Each purge leaves two levels in the index, which cannot be read above 2,000 of them (SQLite 3.40).
_MOST_LEVELS = 127
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
# In the order of the key: a million take half a second.
_ALL_BEHIND = (
    "insert or ignore into text_part_behind (account_id, kind, record_id)"
    f" select account_id, kind, id from records where {_OF}"
)
_DEAD_SETS = (
    f"delete from text_part_set where {_OF} and prop_id not in"
    f" (select prop_id from property_def where {_OF})"
)
# A row of no account asks for a purge: SQLite only marks the trigrams of deleted texts.
_PURGES = "select record_id from text_part_behind where account_id = 0"
_ASK_FOR_PURGE = (
    "insert or ignore into text_part_behind (account_id, kind, record_id)"
    " values (0, 0, abs(random()))"
)


def fill(database: Database, *, seconds: float = _SECONDS) -> int:
    """Index the records that are behind, for so long at most, and purge the index if that is asked
    for; return how many records are left.

    Does nothing on PostgreSQL and without the index.
    """
    if database.dialect != "sqlite":
        return 0
    with database.reading() as connection:
        if not read_built(connection).trigrams:
            return 0
        purges = [number for (number,) in connection.rows(_PURGES)]
        # By chance: an import into one account keeps no other waiting.
        kinds = connection.rows(
            "select account_id, kind, max(record_id) from text_part_behind where account_id > 0"
            " group by account_id, kind order by random()"
        )
    end = time.monotonic() + seconds
    for account_id, kind, last in kinds:
        of = {"account": account_id, "kind": kind}
        database.transact(partial(_make_sets, of=of))
        _fill_up_to(database, of, last, end)
        if time.monotonic() >= end:
            break
    else:
        # What was erased before is marked as deleted now.
        if purges:
            database.transact(partial(_purge, purges=purges))
    with database.reading() as connection:
        left = "select count(*) from text_part_behind where account_id > 0"
        return int(connection.scalar(left))


def _fill_up_to(database: Database, of: dict[str, int], last: int, end: float) -> None:
    """Once from the first id to the `last`: others may write all the time."""
    after: int | None = -1
    while after is not None:
        after = database.transact(partial(_fill_some, of=of, after=after, last=last))
        if time.monotonic() >= end:
            return


def ask_for_purge(tx: Connection) -> None:
    """Let nothing remain in the index of texts that the transaction deletes."""
    if _is_made(tx):
        tx.run(_ASK_FOR_PURGE)


def purge(database: Database) -> bool:
    """Do now what `ask_for_purge` asked for; return False if something else must do it later."""
    fill(database, seconds=math.inf)
    with database.reading() as connection:
        return not _is_made(connection) or connection.row(_PURGES) is None


def _is_made(connection: Connection) -> bool:
    """Whether the tables are there, even if this SQLite cannot read the index."""
    return connection.dialect == "sqlite" and bool(
        connection.scalar("select 1 from sqlite_master where name = 'text_part_behind'")
    )


def _purge(tx: Connection, purges: list[int]) -> None:
    """For what these rows ask; whoever asks meanwhile asks for another one."""
    # The number of levels follows a cookie of four bytes; above 127, its first byte is higher.
    block: bytes = tx.scalar("select block from text_part_data where id = 10")
    if block[4] > _MOST_LEVELS:
        make_again(tx)
        return
    # In one transaction: in steps, the merge ends too early if others write between them.
    tx.run("insert into text_part (text_part) values ('optimize')")
    among, these = tx.in_list("record_id", "ids", purges)
    tx.run(f"delete from text_part_behind where account_id = 0 and {among}", these)


def _make_sets(tx: Connection, of: dict[str, int]) -> None:
    new = [
        prop_id
        for (prop_id,) in tx.rows(_WITHOUT_SET, of)
        if few_values(tx, of["account"], prop_id, FEW_VALUES) is None
    ]
    for prop_id in new:
        tx.run(_NEW_SET, of | {"prop": prop_id})
    if new:
        tx.run(_ALL_BEHIND, of)


def _fill_some(tx: Connection, of: dict[str, int], *, after: int, last: int) -> int | None:
    """Index records that are behind, with ids above `after` and up to `last`; return the highest of
    these ids, None without any."""
    some = f"{_BEHIND} and record_id > :after and record_id <= :last order by record_id"
    rows = tx.rows(f"{some} limit {_BATCH}", of | {"after": after, "last": last})
    behind: list[int] = [id for (id,) in rows]
    if not behind:
        if tx.row(f"{_BEHIND} limit 1", of) is None:
            tx.run(_DEAD_SETS, of)
        return None
    among, these = tx.in_list("id", "ids", behind)
    records = f"select id, properties from records where {_OF} and {among}"
    documents: dict[int, str] = dict(tx.rows(records, of | these))
    indexed = (
        "select rowid, folded from text_part where rowid in"
        f" (select number << {_ID_BITS} | value from text_part_set, json_each(:all) where {_OF})"
    )
    old: dict[int, str] = dict(tx.rows(indexed, of | {"all": orjson.dumps(behind).decode()}))
    sizes = Counter({id: len(document) for id, document in documents.items()})
    for row, text in old.items():
        sizes[row & _ID_MASK] += len(text)
    behind = list(_first_of(behind, sizes))
    sets = tx.rows(
        "select s.number, d.name from text_part_set s join property_def d"
        " on d.account_id = s.account_id and d.prop_id = s.prop_id"
        " where s.account_id = :account and s.kind = :kind",
        of,
    )
    new = {
        number << _ID_BITS | id: text
        for id in behind
        for number, text in _texts(documents.get(id, "{}"), sets)
    }
    taken = set(behind)
    for row, text in old.items():
        if row & _ID_MASK in taken and new.get(row) != text:
            tx.run("delete from text_part where rowid = :row", {"row": row})
    insert = "insert into text_part (rowid, folded) values (:row, :text)"
    for row, text in sorted(new.items()):
        if old.get(row) != text:
            tx.run(insert, {"row": row, "text": text})
    among, these = tx.in_list("record_id", "ids", behind)
    tx.run(f"delete from text_part_behind where {_OF} and {among}", of | these)
    return behind[-1]


def _first_of(ids: list[int], sizes: Mapping[int, int]) -> Iterator[int]:
    left = _CHARACTERS
    for id in ids:
        yield id
        left -= sizes[id]
        if left <= 0:
            return


def _texts(document: str, sets: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    # What was spoilt by hand has no rows in the other index tables either.
    with suppress(*NO_DOCUMENT):
        properties = orjson.loads(document)
        for number, name in sets:
            with suppress(*NO_DOCUMENT):
                if value := properties.get(name):
                    yield number, fold(value)


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
    id = f"rowid & {_ID_MASK}"
    return (
        f"select {id} as id{more} from text_part where text_part match :piece{n}"
        f" and rowid between :first{n} and :last{n} and {id} not in ({_BEHIND}){rest}"
        f" union all select id{more} from records where {_OF} and id in ({_BEHIND}) and {test}",
        {
            f"part{n}": part,
            f"piece{n}": f'"{piece}"',
            f"first{n}": first,
            f"last{n}": first | _ID_MASK,
        },
    )
