"""SQL statements that are built with SQLAlchemy Core and compiled once for each database.

Execution by Core would cost several times the queries. A statement that depends on a function's
arguments takes half a millisecond to build for each call.
"""

from __future__ import annotations

import json
import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql.base import PGCompiler, PGDialect
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler, SQLiteDialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler


class _NumbersInText(SQLCompiler):
    """Writes integer constants into the SQL text: PostgreSQL's planner does not know parameters."""

    def visit_bindparam(self, bindparam: Any, *args: Any, **options: Any) -> Any:
        if not bindparam.required and type(bindparam.value) is int:
            return str(bindparam.value)
        return super().visit_bindparam(bindparam, *args, **options)  # type: ignore[no-untyped-call]


class _PostgresqlCompiler(_NumbersInText, PGCompiler):
    pass


class _SqliteCompiler(_NumbersInText, SQLiteCompiler):
    pass


class _Postgresql(PGDialect):
    # The base dialect renders no casts; a column gives its parameter the type.
    statement_compiler = _PostgresqlCompiler
    supports_statement_cache = True


class _Sqlite(SQLiteDialect):
    statement_compiler = _SqliteCompiler
    supports_statement_cache = True


_DIALECTS: Mapping[str, sa.Dialect] = {
    "postgresql": _Postgresql(paramstyle="pyformat"),  # type: ignore[no-untyped-call]
    "sqlite": _Sqlite(paramstyle="named"),
}
_WORD = re.compile(r"[a-z_]+")
# For a list of several values, and of one.
_AMONG = {
    "postgresql": ("= any(%({name})s)", "= %({name})s"),
    "sqlite": ("in (select value from json_each(:{name}))", "= :{name}"),
}

_Compiled = tuple[str, Mapping[str, Any], Mapping[str, tuple[str, str]]]

Built = sa.Select[Any] | sa.CompoundSelect[Any] | sa.Insert | sa.Update | sa.Delete
Insert = Callable[[sa.Table], Any]
"""The `insert` function of one database's dialect, which supports `on_conflict_do_update`."""


class Statement:
    """SQL for both databases, or a function that builds it with a dialect's `insert`."""

    def __init__(self, built: Built | Callable[[Insert], Built]) -> None:
        self._built = built
        self._texts: dict[str, _Compiled] = {}
        self.row_class: Any = tuple
        """The named tuple of a result row, with the columns as attributes, once it was compiled."""

    def text(self, dialect: str) -> str:
        return (self._texts.get(dialect) or self._compile(dialect))[0]

    def bound(
        self, dialect: str, params: Mapping[str, Any] | None = None
    ) -> tuple[str, Mapping[str, Any]]:
        """For one value `=`: with `= any`, PostgreSQL without statistics would read the whole
        account."""
        text, constants, lists = self._texts.get(dialect) or self._compile(dialect)
        if not constants and not lists:
            return text, params or {}
        values = {**constants, **(params or {})}
        for name, (several, one) in lists.items():
            chosen = list(values[name])
            if len(chosen) == 1:
                [values[name]] = chosen
                text = text.replace(several, one)
            else:
                values[name] = chosen if dialect == "postgresql" else json.dumps(chosen)
        return text, values

    def _compile(self, dialect: str) -> _Compiled:
        insert: Any = postgresql.insert if dialect == "postgresql" else sqlite.insert
        built = self._built(insert) if callable(self._built) else self._built
        made = built.compile(dialect=_DIALECTS[dialect])
        self.row_class = _row_class(built)
        text = str(made)
        if "POSTCOMPILE" in text:
            raise ValueError(f"a list of values is no `in_list`: {text}")
        binds = made.bind_names.items()
        constants = {name: bind.effective_value for bind, name in binds if not bind.required}
        several, one = _AMONG[dialect]
        lists = {
            name: (several.format(name=name), one.format(name=name))
            for bind, name in binds
            if isinstance(bind.type, _List)
        }
        compiled = self._texts[dialect] = text, constants, lists
        return compiled


def _row_class(built: Built) -> Any:
    if isinstance(built, sa.Select | sa.CompoundSelect):
        names: Iterable[object] = built.selected_columns.keys()
    else:
        names = built.exported_columns.keys()
    return namedtuple("Row", map(str, names), rename=True)


def param(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name)


def unindexed(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Without statistics, a planner prefers the index on a range of `column` to one with more
    columns that are compared for equality, and may so read nearly all rows."""
    return column + sa.literal_column("0")


def params(*names: str) -> dict[str, sa.BindParameter[Any]]:
    """For `values()` of an insert or update."""
    return {name: param(name) for name in names}


def equals(table: sa.FromClause, *columns: str) -> list[sa.ColumnElement[bool]]:
    """For `where()`: each column has the value of the parameter with its name."""
    return [table.c[name] == param(name) for name in columns]


def count_of(table: sa.FromClause, *where: sa.ColumnElement[bool]) -> Statement:
    """Count the rows of a table to which the conditions apply."""
    return Statement(sa.select(sa.func.count()).select_from(table).where(*where))


def one_of(column: sa.ColumnElement[Any], *words: str) -> sa.ColumnElement[bool]:
    """PostgreSQL uses a partial index only for constants (of a-z and _), and SQLite only for a
    condition written like that of the index: `=` for a single word."""
    if not all(map(_WORD.fullmatch, words)):
        raise ValueError(f"{words} are not plain words")
    literals: list[sa.ColumnElement[Any]] = [sa.literal_column(f"'{word}'") for word in words]
    return column == literals[0] if len(literals) == 1 else column.in_(literals)


class _List(sa.types.TypeEngine[Any]):
    pass


class in_list(sa.sql.expression.ColumnElement[bool]):
    """The SQL text is the same for any number of values."""

    inherit_cache = True
    # Not Boolean: SQLAlchemy would compare that with 1 on SQLite.
    type = sa.types.NullType()  # type: ignore[assignment]

    def __init__(self, column: sa.ColumnElement[Any], name: str) -> None:
        self.column = column
        self.values = sa.bindparam(name, type_=_List())


@compiles(in_list, "postgresql")
@compiles(in_list, "sqlite")
def _in_list(element: in_list, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.column, **options)
    compiler.process(element.values, **options)
    several, _ = _AMONG[compiler.dialect.name]
    return f"{column} {several.format(name=element.values.key)}"
