"""The database: one engine, one way to speak SQL, the one place that commits.

Statements are SQL text with `:name` parameters, written once for SQLite and PostgreSQL. Both
drivers run in autocommit, so a read costs no transaction; `transact` alone says BEGIN and COMMIT.
SQLAlchemy brings the URL, the pool and the drivers; its expression language and its ORM cost
more per request than the queries themselves, so the hot path does without them.
"""

from __future__ import annotations

import json
import re
import select
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy.engine import make_url
from sqlalchemy.pool import QueuePool

from crmhub.errors import Unavailable

T = TypeVar("T")
Row = tuple[Any, ...]
Params = Mapping[str, Any]

_NAME = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")
# Keeps our advisory locks apart from those of other programs in the same database.
_LOCKS = 0x63726D68
_DEADLOCK_TRIES = 5
_BUSY_SECONDS = 10
_CONNECT_SECONDS = 3


class Duplicate(Exception):
    """A row with this key exists already."""


class Deadlocked(Unavailable):
    """The database chose this transaction as the one to give way."""


@lru_cache(maxsize=1024)
def _for_psycopg(sql: str) -> str:
    return _NAME.sub(r"%(\1)s", sql.replace("%", "%%"))


class Connection:
    """A pooled connection that speaks SQL text; outside `transact` each statement stands alone.

    Every method raises `Unavailable` when the database cannot be reached or is busy for too
    long, and `Duplicate` when a key exists already.
    """

    def __init__(self, database: Database, driver: Any) -> None:
        self._database = database
        self._driver = driver
        self.dialect = database.dialect

    def _execute(self, sql: str, params: Params | None) -> Any:
        if self.dialect == "postgresql":
            sql = _for_psycopg(sql) if params else sql
        with self._database.mapped_errors():
            return self._driver.execute(sql, params) if params else self._driver.execute(sql)

    def rows(self, sql: str, params: Params | None = None) -> list[Row]:
        """Return all rows."""
        cursor = self._execute(sql, params)
        with self._database.mapped_errors():
            rows: list[Row] = cursor.fetchall()
        return rows

    def row(self, sql: str, params: Params | None = None) -> Row | None:
        """Return the first row, or None."""
        rows = self.rows(sql, params)
        return rows[0] if rows else None

    def scalar(self, sql: str, params: Params | None = None) -> Any:
        """Return the first column of the first row, or None."""
        row = self.row(sql, params)
        return row[0] if row else None

    def run(self, sql: str, params: Params | None = None) -> int:
        """Run a statement for its effect and return the number of rows it touched."""
        count: int = self._execute(sql, params).rowcount
        return count

    def insert(
        self, table: str, types: Params, rows: Sequence[Row], *, or_skip: bool = False
    ) -> int:
        """Insert `rows` in one statement and return how many went in.

        `types` maps the columns, in the order of the rows' values, to PostgreSQL's types. With
        `or_skip`, a row whose key exists is left out instead of raising `Duplicate`.
        """
        skip = " on conflict do nothing" if or_skip else ""
        into = f"insert into {table} ({', '.join(types)})"
        if self.dialect == "postgresql":
            return self._unnested(f"{into} select {{columns}} from {{rows}}{skip}", types, rows)
        marks = ", ".join("?" * len(types))
        return self._each(f"{into} values ({marks}){skip}", rows)

    def delete(self, table: str, types: Params, rows: Sequence[Row]) -> int:
        """Delete the rows of `table` whose columns named in `types` equal one of `rows`."""
        if self.dialect == "postgresql":
            where = " and ".join(f"t.{column} = rows.{column}" for column in types)
            return self._unnested(
                f"delete from {table} t using {{rows}} where {where}", types, rows
            )
        where = " and ".join(f"{column} = ?" for column in types)
        return self._each(f"delete from {table} where {where}", rows)

    def update(self, table: str, types: Params, keys: Params, rows: Sequence[Row]) -> int:
        """Set the columns of `types` in the rows whose `keys` match.

        A row of `rows` holds the values of `types`, then those of `keys`.
        """
        if self.dialect == "postgresql":
            values = ", ".join(f"{c} = {_cast(f'rows.{c}', t)}" for c, t in types.items())
            where = " and ".join(f"t.{column} = rows.{column}" for column in keys)
            sql = f"update {table} t set {values} from {{rows}} where {where}"
            return self._unnested(sql, {**types, **keys}, rows)
        values = ", ".join(f"{column} = ?" for column in types)
        where = " and ".join(f"{column} = ?" for column in keys)
        return self._each(f"update {table} set {values} where {where}", rows)

    def _unnested(self, sql: str, types: Params, rows: Sequence[Row]) -> int:
        # One array per column: a statement of constant text and size, whatever the rows' number.
        if not rows:
            return 0
        arrays = ", ".join(f"cast(%s as {_plain(kind)}[])" for kind in types.values())
        columns = ", ".join(_cast(f"rows.{name}", kind) for name, kind in types.items())
        source = f"unnest({arrays}) as rows({', '.join(types)})"
        with self._database.mapped_errors():
            cursor = self._driver.execute(
                sql.format(rows=source, columns=columns),
                [list(column) for column in zip(*rows, strict=True)],
            )
        count: int = cursor.rowcount
        return count

    def _each(self, sql: str, rows: Sequence[Row]) -> int:
        if not rows:
            return 0
        with self._database.mapped_errors():
            count: int = self._driver.executemany(sql, rows).rowcount
        return count

    def among(self, column: str, name: str, values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
        """Return the condition "`column` is one of `values`" and its parameter, called `name`.

        A single value is compared with =, for which a planner without statistics finds the index.
        """
        if len(values) == 1:
            return f"{column} = :{name}", {name: values[0]}
        if self.dialect == "postgresql":
            return f"{column} = any(:{name})", {name: list(values)}
        return (
            f"{column} in (select value from json_each(:{name}))",
            {name: json.dumps(list(values))},
        )

    def hold(self, key: int, *, alone: bool) -> None:
        """Hold the lock `key` until the transaction ends: alone, or with others who share it.

        It costs no write. SQLite's one writer at a time holds every lock already.
        """
        if self.dialect == "postgresql":
            shared = "" if alone else "_shared"
            self.run(f"select pg_advisory_xact_lock{shared}({_LOCKS}, :key)", {"key": key})

    @property
    def for_update(self) -> str:
        """The suffix that locks selected rows; SQLite has one writer at a time and needs none."""
        return " for update" if self.dialect == "postgresql" else ""

    @property
    def for_share(self) -> str:
        """The suffix that keeps selected rows from being deleted; they may change meanwhile."""
        return " for key share" if self.dialect == "postgresql" else ""


class Database:
    """The hub's database, SQLite or PostgreSQL, by its SQLAlchemy URL.

    `pool_size` bounds the connections of this process; a caller waits up to 10 s for one.
    """

    def __init__(self, url: str, *, pool_size: int = 20) -> None:
        parsed = make_url(url)
        self.url = parsed
        self.dialect = parsed.get_backend_name()
        self.pool_size = pool_size
        if self.dialect == "sqlite":
            self._engine = sqlalchemy.create_engine(
                parsed,
                poolclass=QueuePool,
                pool_size=pool_size,
                max_overflow=0,
                pool_timeout=_BUSY_SECONDS,
                pool_reset_on_return=None,
                isolation_level="AUTOCOMMIT",
                connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
            )
            sqlalchemy.event.listen(self._engine, "connect", _prepare_sqlite)
            self._begin = "BEGIN IMMEDIATE"
            self._drivers_errors: Any = sqlite3.Error
            self._translate = _translate_sqlite
        else:
            import psycopg

            self._engine = sqlalchemy.create_engine(
                parsed,
                pool_size=pool_size,
                max_overflow=0,
                pool_timeout=_BUSY_SECONDS,
                pool_reset_on_return=None,
                isolation_level="AUTOCOMMIT",
                connect_args={"connect_timeout": _CONNECT_SECONDS},
            )
            self._begin = "BEGIN"
            self._drivers_errors = psycopg.Error
            self._translate = _translate_psycopg

    @contextmanager
    def mapped_errors(self) -> Iterator[None]:
        """Turn the drivers' exceptions into ours; what is a bug of ours stays what it is."""
        try:
            yield
        except self._drivers_errors as exc:
            ours = self._translate(exc)
            if ours is None:
                raise
            raise ours from exc

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Lend a connection whose statements each see what is committed at that moment."""
        pooled = self._checkout()
        try:
            yield Connection(self, pooled.driver_connection)
        except Unavailable:
            # Its state is unknown: the next caller gets a fresh one.
            pooled.invalidate()
            raise
        finally:
            pooled.close()

    def transact(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction and commit; an exception from it rolls all back.

        A deadlock or a dead pooled connection runs `work` again, so it must do nothing that
        cannot be undone by a rollback.
        """
        for attempt in range(_DEADLOCK_TRIES):
            try:
                with self.reading() as connection:
                    return self._transact_on(connection, work)
            except Deadlocked:
                if attempt == _DEADLOCK_TRIES - 1:
                    raise
                time.sleep(0.01 * 2**attempt)
        raise AssertionError("unreachable")

    def _transact_on(self, connection: Connection, work: Callable[[Connection], T]) -> T:
        connection.run(self._begin)
        try:
            result = work(connection)
            connection.run("COMMIT")
        except BaseException:
            # Where that fails the connection is gone, and the transaction with it; what failed
            # first is what counts.
            with suppress(Unavailable):
                connection.run("ROLLBACK")
            raise
        return result

    def _checkout(self) -> Any:
        try:
            pooled = self._engine.raw_connection()
        except sqlalchemy.exc.TimeoutError as exc:
            raise Unavailable("All database connections are busy; try again.") from exc
        except self._drivers_errors as exc:
            raise self._translate(exc) or exc from exc
        if self._alive(pooled):
            return pooled
        # A restarted server has hung up on the whole pool, not on this connection alone.
        pooled.invalidate()
        pooled.close()
        self._engine.dispose()
        return self._checkout()

    def _alive(self, pooled: Any) -> bool:
        """Return whether the server has not hung up on an idle pooled connection."""
        if self.dialect == "sqlite":
            return True
        driver = pooled.driver_connection
        return not driver.closed and not _hung_up(driver.fileno())

    def close(self) -> None:
        """Close all pooled connections."""
        self._engine.dispose()


def _plain(kind: str) -> str:
    return "text" if kind == "jsonb" else kind


def _cast(column: str, kind: str) -> str:
    return f"cast({column} as jsonb)" if kind == "jsonb" else column


def _prepare_sqlite(driver: Any, _record: Any) -> None:
    # FULL: a commit survives a power cut, which WAL's usual NORMAL does not promise.
    driver.execute("PRAGMA journal_mode = WAL")
    driver.execute("PRAGMA synchronous = FULL")
    driver.execute("PRAGMA foreign_keys = ON")


_AWAY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PROTOCOL,
}


def _translate_sqlite(exc: Any) -> Exception | None:
    if isinstance(exc, sqlite3.IntegrityError):
        return Duplicate(str(exc))
    if (getattr(exc, "sqlite_errorcode", 0) & 0xFF) in _AWAY:
        return Unavailable("The database is busy or cannot be written; try again.")
    return None


def _translate_psycopg(exc: Any) -> Exception | None:
    import psycopg

    if isinstance(exc, psycopg.errors.UniqueViolation):
        return Duplicate(str(exc))
    if isinstance(exc, psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure):
        return Deadlocked("The database is busy with conflicting writes; try again.")
    if isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError):
        return Unavailable("The database cannot be reached or is shutting down; try again.")
    return None


def _hung_up(fileno: int) -> bool:
    # An idle connection has nothing to read but the end of the stream.
    poller = select.poll()
    poller.register(fileno, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(0))


def now_ms() -> int:
    """Return the time as the database holds it: milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


def upgrade(url: str) -> None:
    """Bring the database at `url` to the newest schema; safe to run twice or side by side."""
    from alembic import command

    command.upgrade(_alembic(url), "head")


def pending(database: Database) -> str | None:
    """Return what is wrong with the schema in words, or None when it is the newest."""
    from alembic.script import ScriptDirectory

    newest = ScriptDirectory.from_config(_alembic("")).get_current_head()
    with database.reading() as connection:
        exists = connection.scalar(
            "select count(*) from sqlite_master where name = 'alembic_version'"
            if connection.dialect == "sqlite"
            else "select count(*) from pg_tables where tablename = 'alembic_version'"
        )
        current = connection.scalar("select version_num from alembic_version") if exists else None
    if current == newest:
        return None
    return f"the schema is at {current or 'nothing'}, not at {newest}: run `crmhub db upgrade`"


def _alembic(url: str) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "crmhub:migrations")
    config.attributes["url"] = url
    return config
