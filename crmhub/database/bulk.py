"""Bulk statements, which write or look up any number of rows.

On PostgreSQL, each column is one array parameter: the SQL text does not depend on the number of
rows, and is prepared once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

Row = tuple[Any, ...]
Params = Mapping[str, Any]

# How long items of several callers wait for another transaction: longer than most commits take.
_TOGETHER_MS = "200"
# Above this number, Citus is faster to copy rows to their node than to read their VALUES.
_FEW = 20
# Rows that a statement of SQLite names; more take no less time.
_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Rows:
    """`types` maps columns, in order, to PostgreSQL's types. `or_skip`: skip existing keys."""

    table: str
    types: Params
    rows: Sequence[Row]
    or_skip: bool = False

    def sent(self, *, one: bool) -> tuple[Part, Sequence[Any]]:
        part = Part(self.table, tuple(self.types.items()), self.or_skip, one)
        return part, self.rows[0] if one else arrays(self.types, self.rows)


class Part(NamedTuple):
    table: str
    types: tuple[tuple[str, str], ...]
    or_skip: bool
    one: bool

    @property
    def into(self) -> str:
        return f"insert into {self.table} ({', '.join(name for name, _ in self.types)})"

    @property
    def source(self) -> str:
        if self.one:
            return f"select {', '.join(['%s'] * len(self.types))}"
        return f"select {columns(self.types)} from {unnested(self.types)}"


@dataclass(frozen=True, slots=True)
class Increment:
    """Adds `by` to `column` of the row with these `keys`; a missing row is created."""

    table: str
    column: str
    keys: Params
    by: int

    def sql(self, mark: str, by: str = "", source: str = "") -> str:
        """`mark` is a placeholder. `by`: a SQL expression over the rows of the clause `source`."""
        keys, marks = ", ".join(self.keys), ", ".join([by or mark, *[mark] * len(self.keys)])
        rows = f"select {marks} {source}" if source else f"values ({marks})"
        return (
            f"insert into {self.table} ({self.column}, {keys}) {rows}"
            f" on conflict ({keys}) do update set"
            f" {self.column} = {self.table}.{self.column} + excluded.{self.column}"
            f" returning {self.column}"
        )

    @property
    def values(self) -> list[Any]:
        return [self.by, *self.keys.values()]


@dataclass(frozen=True, slots=True)
class Guard:
    """A PostgreSQL condition, with `%s` for each of `values`, that an insert requires."""

    sql: str
    values: tuple[Any, ...]


@lru_cache(maxsize=256)
def inserting(parts: tuple[Part, ...], adding: str) -> str:
    """Yields the number of rows inserted by the first part, and what `adding` returns, 0 for ""."""
    inserts = []
    for number, part in enumerate(parts):
        skip = " on conflict do nothing" if part.or_skip else ""
        told = "" if number else " returning 1"
        inserts.append(f"p{number} as ({part.into} {part.source}{skip}{told})")
    if adding:
        inserts.append(f"added (it) as ({adding})")
    it = "(select it from added)" if adding else "0"
    return f"with {', '.join(inserts)} select (select count(*) from p0), {it}"


@lru_cache(maxsize=256)
def inserting_unclaimed(
    claims: Part, items: Part, parts: tuple[Part, ...], adding: str, guard: str
) -> str:
    """Yields the ids of the inserted items, and whether the condition `guard` was true."""
    opened = "(select open from guard)"
    patience = "set_config('lock_timeout', %s, true) <> ''"
    skip = "on conflict do nothing returning record_id"
    taken = "select record_id from claims except select record_id from held"
    free = f"{opened} and rows.id not in ({taken})"
    its = "rows.record_id in (select id from went)"
    steps = [
        f"guard (open) as materialized (select case when {guard} then {patience} end)",
        f"claims as ({claims.source} where {opened})",
        f"held as ({claims.into} select * from claims {skip})",
        f"went as ({items.into} {items.source} where {free} returning id)",
        *(f"p{n} as ({part.into} {part.source} where {its})" for n, part in enumerate(parts)),
        f"added as ({adding})",
    ]
    return f"with {', '.join(steps)} select (select array_agg(id) from went), {opened}"


def arrays(types: Params, rows: Sequence[Row]) -> list[str]:
    """Array literals by column: psycopg's look at each value would take longer than the insert."""
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return [_array(kind, column) for kind, column in zip(types.values(), columns, strict=True)]


def _array(kind: str, column: Row) -> str:
    if _plain(kind) != "text":
        inside = ",".join(map(str, column))
        return f"{{{inside.replace('None', 'NULL') if None in column else inside}}}"
    # All are quoted at once: no text of PostgreSQL contains NUL.
    inside = ",".join(["NULL" if each is None else f"\0{each}\0" for each in column])
    if inside.count("\0") != 2 * (len(column) - column.count(None)):
        raise ValueError("a text holds U+0000, which PostgreSQL cannot store")
    inside = inside.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '"')
    return f"{{{inside}}}"


def unnested(types: Iterable[tuple[str, str]]) -> str:
    names, kinds = zip(*types, strict=True)
    arrays = ", ".join(f"cast(%s as {_plain(kind)}[])" for kind in kinds)
    return f"unnest({arrays}) as rows({', '.join(names)})"


def columns(types: Iterable[tuple[str, str]]) -> str:
    return ", ".join(cast_of(f"rows.{name}", kind) for name, kind in types)


def cast_of(column: str, kind: str) -> str:
    return f"cast({column} as jsonb)" if kind == "jsonb" else column


def _plain(kind: str) -> str:
    return "text" if kind == "jsonb" else kind


class GuardFailed(Exception):
    """A write's guard, such as a catalogue version, was not true; nothing has been written."""


class BulkStatements(ABC):
    """`is_distributed`: with Citus, which runs a statement on one node alone if it writes one table
    and gets its rows by VALUES. Otherwise it sends each part's result to every node."""

    dialect: str
    is_distributed = False

    @abstractmethod
    def _send(self, sql: str, params: Any = None) -> Any:
        pass

    @abstractmethod
    def _send_many(self, sql: str, rows: Sequence[Row]) -> int:
        pass

    def insert(
        self, table: str, types: Params, rows: Sequence[Row], *, or_skip: bool = False
    ) -> int:
        """Return the number of inserted rows; raise Duplicate for a key, unless `or_skip`."""
        if not rows:
            return 0
        skip = " on conflict do nothing" if or_skip else ""
        if self.is_distributed and (or_skip or len(rows) <= _FEW):
            went = self._insert_values(table, types, rows, f"{skip} returning 1")
            return sum(len(each.fetchall()) for each in went)
        return self._insert(table, types, rows, skip)

    def upsert(self, table: str, keys: Params, types: Params, rows: Sequence[Row]) -> None:
        """`rows` have the values of `keys`, then of `types`, which existing rows get."""
        if not rows:
            return
        values = ", ".join(f"{column} = excluded.{column}" for column in types)
        after = f" on conflict ({', '.join(keys)}) do update set {values}"
        both = {**keys, **types}
        if self.is_distributed:
            for _ in self._insert_values(table, both, rows, after):
                pass
            return
        self._insert(table, both, rows, after)

    def _insert(self, table: str, types: Params, rows: Sequence[Row], after: str) -> int:
        into = f"insert into {table} ({', '.join(types)})"
        if self.dialect == "postgresql":
            source = f"select {columns(types.items())} from {unnested(types.items())}"
            count: int = self._send(f"{into} {source}{after}", arrays(types, rows)).rowcount
            return count
        return self._send_many(f"{into} values ({', '.join('?' * len(types))}){after}", rows)

    def insert_all(self, *parts: Rows, added: Increment | None = None) -> tuple[int, int]:
        """Return the rows inserted by the first of `parts`, and the new number (0 without `added`).

        One statement on PostgreSQL. The number's row is locked after the first part is inserted.
        """
        if self.dialect == "sqlite" or self.is_distributed:
            went = [self.insert(p.table, p.types, p.rows, or_skip=p.or_skip) for p in parts]
            return went[0], self.add(added) if added else 0
        filled = [each.sent(one=len(each.rows) == 1) for each in parts if each.rows]
        if not filled:
            return 0, self.add(added) if added else 0
        values = [value for _, sent in filled for value in sent]
        adding = ""
        if added is not None:
            adding = added.sql("%s", source="where (select count(*) from p0) >= 0")
            values += added.values
        went, it = self._send(inserting(tuple(p for p, _ in filled), adding), values).fetchone()
        return (went if parts[0].rows else 0), it

    def insert_unclaimed(
        self, claims: Rows, items: Rows, parts: Sequence[Rows], added: Increment, guard: Guard
    ) -> set[int]:
        """Insert items whose unique value is free, in one PostgreSQL statement; return their ids.

        `items` have the column `id`; in `claims` (at most one per item) and `parts` (skipped with
        their item) it is `record_id`. `added` grows by one per item. Raises GuardFailed, and HeldUp
        if one of several items must wait: insert them one by one then.
        """
        if self.is_distributed:
            return self._insert_unclaimed_in_steps(claims, items, parts, added, guard)
        filled = [each for each in parts if each.rows]
        sent = [each.sent(one=False) for each in (claims, items, *filled)]
        (claim, item, *rest), values = zip(*sent, strict=True)
        adding = added.sql("%s", "count(*) * cast(%s as int)", "from went having count(*) > 0")
        sql = inserting_unclaimed(claim, item, tuple(rest), adding, guard.sql)
        patience = _TOGETHER_MS if len(items.rows) > 1 else "0"
        params = [*guard.values, patience, *chain.from_iterable(values), *added.values]
        ids, opened = self._send(sql, params).fetchone()
        if not opened:
            raise GuardFailed
        return set(ids or ())

    def _insert_unclaimed_in_steps(
        self, claims: Rows, items: Rows, parts: Sequence[Rows], added: Increment, guard: Guard
    ) -> set[int]:
        """As `insert_unclaimed`, by several statements of a transaction."""
        if not self._send(f"select {guard.sql}", guard.values).fetchone()[0]:
            raise GuardFailed
        free = {row[[*items.types].index("id")] for row in items.rows}
        if claims.rows:
            after = " on conflict do nothing returning record_id"
            went = self._insert_values(claims.table, claims.types, claims.rows, after)
            held = {id for cursor in went for (id,) in cursor.fetchall()}
            free -= {row[[*claims.types].index("record_id")] for row in claims.rows} - held
        for column, part in (("id", items), *(("record_id", part) for part in parts)):
            at = [*part.types].index(column)
            self.insert(part.table, part.types, [row for row in part.rows if row[at] in free])
        if free:
            self.add(replace(added, by=added.by * len(free)))
        return free

    def _insert_values(
        self, table: str, types: Params, rows: Sequence[Row], after: str
    ) -> Iterator[Any]:
        """Yield the cursors."""
        marks = f"({', '.join(f'cast(%s as {kind})' for kind in types.values())})"
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            values = f"values {', '.join([marks] * len(some))}"
            sql = f"insert into {table} ({', '.join(types)}) {values}{after}"
            yield self._send(sql, list(chain.from_iterable(some)))

    def add(self, added: Increment) -> int:
        """Return the sum."""
        mark = "%s" if self.dialect == "postgresql" else "?"
        now: int = self._send(added.sql(mark), added.values).fetchone()[0]
        return now

    def delete(self, table: str, types: Params, rows: Sequence[Row]) -> int:
        """`types` must include `account_id`. Return the number of deleted rows."""
        if self.dialect == "postgresql":
            sql = f"delete from {table} t using {{rows}} where {{where}}"
            return sum(each.rowcount for each in self._over(sql, types, types, rows))
        where = " and ".join(f"{column} = ?" for column in types)
        return self._send_many(f"delete from {table} where {where}", rows)

    def delete_and_return(self, table: str, types: Params, rows: Sequence[Row]) -> list[Row]:
        """As `delete`, but return those of the rows that were deleted."""
        if self.dialect == "postgresql":
            names = ", ".join(f"t.{column}" for column in types)
            sql = f"delete from {table} t using {{rows}} where {{where}} returning {names}"
            return [row for each in self._over(sql, types, types, rows) for row in each.fetchall()]
        where = " and ".join(f"{column} = ?" for column in types)
        sql = f"delete from {table} where {where}"
        return [row for row in rows if self._send(sql, row).rowcount]

    def update(self, table: str, types: Params, keys: Params, rows: Sequence[Row]) -> int:
        """`rows` have the new values of `types`, then `keys`, which must include `account_id`."""
        if self.dialect == "postgresql":
            values = ", ".join(f"{c} = {cast_of(f'rows.{c}', t)}" for c, t in types.items())
            sql = f"update {table} t set {values} from {{rows}} where {{where}}"
            return sum(each.rowcount for each in self._over(sql, {**types, **keys}, keys, rows))
        values = ", ".join(f"{column} = ?" for column in types)
        where = " and ".join(f"{column} = ?" for column in keys)
        return self._send_many(f"update {table} set {values} where {where}", rows)

    def matching(self, table: str, types: Params, keys: Params, rows: Sequence[Row]) -> list[Row]:
        """`keys` must include `account_id`; their values come first in each of `rows`."""
        wanted = [row[: len(keys)] for row in rows]
        columns = ", ".join(f"t.{column}" for column in types)
        if self.dialect == "postgresql":
            sql = f"select {columns} from {{rows}} join {table} t on {{where}}"
            return [row for each in self._over(sql, keys, keys, wanted) for row in each.fetchall()]
        others = [column for column in keys if column != "account_id"]
        where = " and ".join(f"t.{column} = rows.{column}" for column in others)
        marks = f"({', '.join('?' * len(others))})"
        found: list[Row] = []
        for account_id, own in _by_account(keys, wanted):
            for start in range(0, len(own), _AT_ONCE):
                some = own[start : start + _AT_ONCE]
                sql = (
                    f"with rows ({', '.join(others)}) as (values {', '.join([marks] * len(some))})"
                    f" select {columns} from rows cross join {table} t"
                    f" on t.account_id = ? and {where}"
                )
                values = [value for row in some for value in row]
                found += self._send(sql, [*values, account_id]).fetchall()
        return found

    def _over(self, sql: str, types: Params, keys: Params, rows: Sequence[Row]) -> Iterator[Any]:
        """Yield a cursor for each account. `sql` has {rows} and {where} (`keys` equal)."""
        others = {column: kind for column, kind in types.items() if column != "account_id"}
        where = " and ".join(
            ["t.account_id = %s", *(f"t.{each} = rows.{each}" for each in keys if each in others)]
        )
        sql = sql.format(rows=unnested(others.items()), where=where)
        for account_id, own in _by_account(types, rows):
            yield self._send(sql, [*arrays(others, own), account_id])


def _by_account(types: Params, rows: Sequence[Row]) -> list[tuple[int, list[Row]]]:
    at = [*types].index("account_id")
    by_account: dict[int, list[Row]] = {}
    for row in rows:
        by_account.setdefault(row[at], []).append((*row[:at], *row[at + 1 :]))
    return sorted(by_account.items())
