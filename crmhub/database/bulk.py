"""Rows for bulk writes, and PostgreSQL's statements that write any number of them.

The text is the same for any number of rows, so that it is prepared once: each column is an array.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

Row = tuple[Any, ...]
Params = Mapping[str, Any]

# How long rows of several callers wait for what another transaction holds: more than the commit of
# one that is at work takes, and too little for it to be noticed that one of them stood still.
_TOGETHER_MS = 200


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows for a table, as `Connection.insert` takes them."""

    table: str
    types: Params
    rows: Sequence[Row]
    or_skip: bool = False

    def sent(self, *, one: bool) -> tuple[Part, Sequence[Any]]:
        """Return a part of PostgreSQL's statement, of `one` row or of any, and its values."""
        part = Part(self.table, tuple(self.types.items()), self.or_skip, one)
        return part, self.rows[0] if one else arrays(self.types, self.rows)


class Part(NamedTuple):
    """What determines the text of PostgreSQL's insert of some `Rows`."""

    table: str
    types: tuple[tuple[str, str], ...]
    or_skip: bool
    one: bool

    @property
    def into(self) -> str:
        return f"insert into {self.table} ({', '.join(name for name, _ in self.types)})"

    @property
    def source(self) -> str:
        """The query of the rows: of the values of one, or of an array for each column."""
        if self.one:
            return f"select {', '.join(['%s'] * len(self.types))}"
        return f"select {columns(self.types)} from {unnested(self.types)}"


@dataclass(frozen=True, slots=True)
class Increment:
    """Adds an amount to `column` of the row with these keys, which is created if missing."""

    table: str
    column: str
    keys: Params
    by: int

    def sql(self, mark: str, by: str = "", source: str = "where true") -> str:
        """Return the statement that adds and returns the sum, with `mark` per value.

        `by` is SQL for how much is added, over the rows of `source`, in place of the first value.
        """
        keys, marks = ", ".join(self.keys), ", ".join([by or mark, *[mark] * len(self.keys)])
        return (
            f"insert into {self.table} ({self.column}, {keys}) select {marks} {source}"
            f" on conflict ({keys}) do update set"
            f" {self.column} = {self.table}.{self.column} + excluded.{self.column}"
            f" returning {self.column}"
        )

    @property
    def values(self) -> list[Any]:
        """The values of the statement."""
        return [self.by, *self.keys.values()]


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition of PostgreSQL, with `%s` for its values, that must hold before an insert."""

    sql: str
    values: tuple[Any, ...]


@lru_cache(maxsize=256)
def inserting(parts: tuple[Part, ...], adding: str) -> str:
    """Return PostgreSQL's statement that inserts all parts and counts the rows of the first.

    `adding` is one more statement; its value is returned behind the count, else 0.
    """
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
    claims: Part | None, items: Part, parts: tuple[Part, ...], adding: str, guard: str
) -> str:
    """Return PostgreSQL's statement of `insert_unclaimed`: it returns the ids, and the guard."""
    opened = "(select open from guard)"
    if not items.one:
        patience = f"set_config('lock_timeout', '{_TOGETHER_MS}', true)"
        guard = f"case when {guard} then {patience} <> '' else false end"
    steps, free = [f"guard (open) as materialized (select {guard})"], opened
    if claims is not None:
        source, others = f"{claims.source} where {opened}", "exists (select from held)"
        if not claims.one:
            steps.append(f"claims as materialized ({source})")
            source = "select * from claims"
            taken = "select record_id from claims except select record_id from held"
            others = f"{opened} and rows.id not in ({taken})"
        free = others
        skip = "on conflict do nothing returning record_id"
        steps.append(f"held as ({claims.into} {source} {skip})")
    steps.append(f"went as ({items.into} {items.source} where {free} returning id)")
    its = "exists (select from went)" if items.one else "rows.record_id in (select id from went)"
    for number, part in enumerate(parts):
        steps.append(f"p{number} as ({part.into} {part.source} where {its})")
    steps.append(f"added as ({adding})")
    return f"with {', '.join(steps)} select (select array_agg(id) from went), {opened}"


def arrays(types: Params, rows: Sequence[Row]) -> list[str]:
    """Return the text of PostgreSQL's array for each column of the rows.

    psycopg inspects each element for its type and quotes, which takes longer than the insert.
    """
    columns = zip(*rows, strict=True)
    return [_array(kind, column) for kind, column in zip(types.values(), columns, strict=True)]


def _array(kind: str, column: Row) -> str:
    if _plain(kind) != "text":
        inside = ",".join(map(str, column))
        return f"{{{inside.replace('None', 'NULL') if None in column else inside}}}"
    # All are quoted at once: no text of PostgreSQL has the character that stands for a quote.
    inside = ",".join(["NULL" if each is None else f"\0{each}\0" for each in column])
    if inside.count("\0") != 2 * (len(column) - column.count(None)):
        raise ValueError("a text holds U+0000, which PostgreSQL cannot store")
    inside = inside.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '"')
    return f"{{{inside}}}"


def unnested(types: Iterable[tuple[str, str]]) -> str:
    """Return PostgreSQL's source `rows`, from one array per column."""
    names, kinds = zip(*types, strict=True)
    arrays = ", ".join(f"cast(%s as {_plain(kind)}[])" for kind in kinds)
    return f"unnest({arrays}) as rows({', '.join(names)})"


def columns(types: Iterable[tuple[str, str]]) -> str:
    """Return the columns of `rows`, cast to the table's types."""
    return ", ".join(cast_of(f"rows.{name}", kind) for name, kind in types)


def cast_of(column: str, kind: str) -> str:
    """Return a column of `rows`, cast to this type where needed."""
    return f"cast({column} as jsonb)" if kind == "jsonb" else column


def _plain(kind: str) -> str:
    return "text" if kind == "jsonb" else kind
