"""The database: one SQLAlchemy engine, one way to run statements, one place that commits.

Both drivers run in autocommit mode; only `transact` sends BEGIN and COMMIT. SQLAlchemy's ORM and
execution would cost more per request than the queries.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any, NoReturn, TypeVar, overload

import sqlalchemy
from sqlalchemy.engine import make_url
from sqlalchemy.pool import QueuePool

from crmhub.database.bulk import BulkStatements, Guard, Params, Row
from crmhub.database.drivers import (
    ACCOUNT_SETTING,
    ALL_ACCOUNTS,
    NO_SETTING,
    READ_ONLY,
    Away,
    Damaged,
    Deadlocked,
    check_disk,
    hung_up,
    is_behind_pooler,
    is_full,
    patience,
    prepare_postgresql,
    prepare_sqlite,
    translate_psycopg,
    translate_sqlite,
)
from crmhub.database.notifications import CHANNEL, Notifications
from crmhub.database.statements import Statement
from crmhub.errors import Unavailable
from crmhub.search_limits import SearchLimit, SearchWatch, Stopped

T = TypeVar("T")

_NAME = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")
_LOCKS = 0x63726D68
_DEADLOCK_TRIES = 5
_BUSY_SECONDS = 10
_BUSY_PAUSE_S = 0.05
_AWAY_PAUSE_S = 0.1
_THREADS_THAT_NEVER_WAIT = 8
# Reads go on while nothing can be written, so connections are not made anew more often.
_ANEW_EVERY_S = 1.0
# After this time a request to cancel a statement is given up, and sent again.
_CANCEL_S = 2.0
_LISTEN_S = 1.0
_IDLE = 0
# PostgreSQL takes large sets for small ones. A hash join takes twice as long as sort and merge,
# and parallel processes take twice the processor's time.
_JOINING = {
    "enable_nestloop": "off",
    "enable_hashjoin": "off",
    "max_parallel_workers_per_gather": "0",
    "plan_cache_mode": "force_custom_plan",
}
# Memory (kB) for sorting all sets of a join together.
_SORTED_KB = 65_536
_LEAST_SORTED_KB = 4096
_log = logging.getLogger(__name__)


@lru_cache(maxsize=1024)
def _for_psycopg(sql: str) -> str:
    return _NAME.sub(r"%(\1)s", sql.replace("%", "%%"))


class Connection(BulkStatements):
    """Outside `transact` each statement is committed at once.

    Every method may raise Unavailable, Duplicate, and Stopped (the limit of a search is reached).
    """

    def __init__(self, database: Database, pooled: Any, limit: SearchLimit | None = None) -> None:
        self._database = database
        self._driver = pooled.driver_connection
        # Lasts as long as the connection: is it secured, and the last account (`crmhub.account`).
        self._info = pooled.info
        self._secured = self._info.get("secured", False)
        self._limit = limit
        self._unsent = ""
        self.dialect = database.dialect

    def begin(self) -> None:
        """On PostgreSQL, BEGIN is sent together with the first statement."""
        if self.dialect == "sqlite":
            self._send("BEGIN IMMEDIATE")
        else:
            self._unsent = "BEGIN;"

    def end(self, *statements: str) -> None:
        """By these statements, such as COMMIT, unless the transaction is empty."""
        if self._unsent:
            self._unsent = ""
            return
        # Row-level security: a rollback restores the former setting.
        secured, self._secured = self._secured, False
        if secured and (statements != ("COMMIT",) or self._is_behind_pooler):
            self._info["account"] = None
        try:
            for each in statements:
                self._send(each)
        finally:
            self._secured = secured

    def _send(self, sql: str, params: Any = None) -> Any:
        if self._limit is not None and self._limit.reason:
            raise Stopped(self._limit.reason)
        try:
            if self._secured:
                return self._send_for_account(sql, params)
            if self._unsent:
                begin, self._unsent = self._unsent, ""
                self._driver.execute(begin)
            return self._driver.execute(sql, params) if params else self._driver.execute(sql)
        except self._database.drivers_errors as exc:
            self._database.raise_ours(exc)

    def _send_for_account(self, sql: str, params: Any) -> Any:
        alone = self._is_behind_pooler and not self._is_in_transaction()
        if alone:
            self.begin()
        if before := self._take_unsent():
            self._driver.execute(before, prepare=False)
        if not alone:
            return self._driver.execute(sql, params)
        try:
            cursor = self._driver.execute(sql, params)
            self.end("COMMIT")
        except BaseException:
            self._database.undo(self, "ROLLBACK")
            raise
        return cursor

    def _take_unsent(self) -> str:
        begin, self._unsent = self._unsent, ""
        account = self._database.account
        if not self._secured or self._info.get("account") == account:
            return begin
        # Behind a pooler, settings hold within a transaction, and each message is a transaction.
        pooled = self._is_behind_pooler
        ends_at_once = pooled and not begin and not self._is_in_transaction()
        self._info["account"] = None if ends_at_once else account
        return f"{begin}set {'local ' * pooled}{ACCOUNT_SETTING} = '{account}';"

    @property
    def _is_behind_pooler(self) -> bool:
        return self._driver.prepare_threshold is None

    def _message(self, statements: str) -> Any:
        """Send statements without parameters, after a due BEGIN; return the last one's cursor."""
        with self._database.mapped_errors():
            # Several statements in one message cannot be prepared.
            cursor = self._driver.execute(self._take_unsent() + statements, prepare=False)
            while cursor.nextset():
                pass
        return cursor

    def _execute(self, sql: str | Statement, params: Params | None) -> Any:
        if isinstance(sql, Statement):
            return self._send(*sql.bound(self.dialect, params))
        if params and self.dialect == "postgresql":
            sql = _for_psycopg(sql)
        return self._send(sql, params)

    @overload
    def rows(self, sql: str, params: Params | None = None) -> list[Row]: ...

    @overload
    def rows(self, sql: Statement, params: Params | None = None) -> list[Any]: ...

    def rows(self, sql: str | Statement, params: Params | None = None) -> list[Any]:
        """Tuples, and for a Statement named tuples."""
        cursor = self._execute(sql, params)
        try:
            rows: list[Row] = cursor.fetchall()
        except self._database.drivers_errors as exc:
            self._database.raise_ours(exc)
        return list(map(sql.row_class._make, rows)) if isinstance(sql, Statement) else rows

    @overload
    def row(self, sql: str, params: Params | None = None) -> Row | None: ...

    @overload
    def row(self, sql: Statement, params: Params | None = None) -> Any: ...

    def row(self, sql: str | Statement, params: Params | None = None) -> Any:
        rows = self.rows(sql, params)
        return rows[0] if rows else None

    def scalar(self, sql: str | Statement, params: Params | None = None) -> Any:
        rows = self.rows(sql, params)
        return rows[0][0] if rows else None

    def run(self, sql: str | Statement, params: Params | None = None) -> int:
        """Return the number of changed rows."""
        count: int = self._execute(sql, params).rowcount
        return count

    def _send_many(self, sql: str, rows: Sequence[Row]) -> int:
        if not rows:
            return 0
        try:
            count: int = self._driver.executemany(sql, rows).rowcount
        except self._database.drivers_errors as exc:
            self._database.raise_ours(exc)
        return count

    def in_list(self, column: str, name: str, values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
        """For one value `=`: PostgreSQL then uses the index even without statistics."""
        if len(values) == 1:
            return f"{column} = :{name}", {name: values[0]}
        if self.dialect == "postgresql":
            return f"{column} = any(:{name})", {name: list(values)}
        among = f"{column} in (select value from json_each(:{name}))"
        return among, {name: json.dumps(list(values))}

    @contextmanager
    def large_join_settings(self, sets: int) -> Iterator[None]:
        """Let PostgreSQL merge `sets` large sets, each read once, until the block ends.

        Does nothing on SQLite, or for one set.
        """
        if self.dialect == "sqlite" or sets == 1:
            yield
            return
        kb = max(_SORTED_KB // sets, _LEAST_SORTED_KB)
        memory = f"greatest({kb}, pg_size_bytes(current_setting('work_mem')) / 1024)"
        pooled = self._is_behind_pooler
        scope = "set local" if pooled else "set"
        settings = "; ".join(f"{scope} {name} = {value}" for name, value in _JOINING.items())
        settings += f"; select set_config('work_mem', ({memory})::text, {str(pooled).lower()})"
        apart = pooled and not self._is_in_transaction()
        try:
            self._message(f"begin; {settings}" if apart else settings)
            yield
        finally:
            reset = "; ".join(f"reset {name}" for name in (*_JOINING, "work_mem"))
            # Otherwise the connection is gone, or the rollback to come undoes the settings.
            with suppress(Unavailable, self._database.drivers_errors):
                if apart:
                    self.end("COMMIT")
                else:
                    self._message(reset)

    def _is_in_transaction(self) -> bool:
        return bool(self._unsent) or self._driver.info.transaction_status != _IDLE

    def take_time(self) -> None:
        """Remove PostgreSQL's time limit for a statement, until the transaction ends."""
        if self._database.statement_limited:
            self._message("set local statement_timeout = 0")

    @staticmethod
    def held_at(account_id: int, version: int) -> Guard:
        """Takes a shared lock."""
        return Guard("catalogue_held(%s, %s) = %s", (_LOCKS, account_id, version))

    def hold(self, key: int, *, exclusive: bool, then: str = "") -> Row | None:
        """Wait for the advisory lock, and take it until the transaction ends.

        Returns the first row of the query `then`, which sees all that earlier owners have written.
        On PostgreSQL, BEGIN, lock and query are one message; SQLite has a single writer and runs
        the query alone.
        """
        if self.dialect == "sqlite":
            return self.row(then) if then else None
        shared = "" if exclusive else "_shared"
        lock = f"select pg_advisory_xact_lock{shared}({_LOCKS}, {key:d});"
        cursor = self._message(lock + then)
        row: Row | None = cursor.fetchone() if then else None
        return row

    def try_hold(self, name: str) -> bool:
        """Return False if another process has the lock; on SQLite always True."""
        if self.dialect == "sqlite":
            return True
        key = int.from_bytes(sha256(f"crmhub/{name}".encode()).digest()[:8], signed=True)
        held: bool = self.scalar("select pg_try_advisory_xact_lock(:key)", {"key": key})
        return held

    def notify_workers(self) -> None:
        """After the commit."""
        self._database.notify_workers()

    def now_ms(self) -> int:
        """All processes share the time of the database server."""
        if self.dialect == "sqlite":
            return now_ms()
        # Not the transaction's start: it may have waited for a lock since.
        moment: int = self._message(
            "select cast(extract(epoch from clock_timestamp()) * 1000 as bigint)"
        ).fetchone()[0]
        return moment


@dataclass(slots=True)
class _Transaction:
    connection: Connection
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    notifies: bool = False


# The value of the setting `crmhub.account` for a thread; "" for none.
_account = ContextVar("crmhub_account", default="")


class _Here(threading.local):
    transaction: _Transaction | None = None


class Database:
    """SQLite or PostgreSQL, given by its SQLAlchemy URL.

    A caller waits 10 s for one of `pool_size` connections, then gets Unavailable. While `transact`
    runs, all calls of the same thread belong to its transaction. PostgreSQL ends a statement after
    `statement_seconds`, but for transactions that call `take_time`.
    """

    def __init__(
        self, url: str, *, pool_size: int = 20, statement_seconds: float | None = None
    ) -> None:
        parsed = make_url(url)
        self.url = parsed
        self.dialect = parsed.get_backend_name()
        self.pool_size = pool_size
        self.statement_limited = statement_seconds is not None and self.dialect == "postgresql"
        self._searches = SearchWatch()
        # Searches leave half of the connections to others.
        self._search_turns = threading.BoundedSemaphore(max(1, pool_size // 2))
        self._here = _Here()
        self._notifications = Notifications(self._notify_apart)
        self._waiters = threading.BoundedSemaphore(max(1, pool_size - _THREADS_THAT_NEVER_WAIT))
        # Earlier connections lead to a server that takes no writes, or lack row-level security.
        self._anew_from = 0.0
        # Of SQLite, which lets new writers overtake those that wait. Re-entrant: after a commit,
        # its holder may write more.
        self._writer = threading.RLock()
        pool: dict[str, Any] = {
            "pool_size": pool_size,
            "max_overflow": 0,
            "pool_timeout": _BUSY_SECONDS,
            "pool_reset_on_return": None,
            # Few connections with warm caches, not all of them in turn.
            "pool_use_lifo": True,
            "isolation_level": "AUTOCOMMIT",
        }
        if self.dialect == "sqlite":
            self._engine = sqlalchemy.create_engine(
                parsed,
                poolclass=QueuePool,
                **pool,
                connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
            )
            sqlalchemy.event.listen(self._engine, "connect", prepare_sqlite)
            self.drivers_errors: Any = sqlite3.Error
            self._translate = translate_sqlite
        else:
            import psycopg

            self._engine = sqlalchemy.create_engine(parsed, **pool, connect_args=patience(parsed))
            prepare = partial(prepare_postgresql, statement_seconds=statement_seconds)
            sqlalchemy.event.listen(self._engine, "connect", prepare)
            self.drivers_errors = psycopg.Error
            self._translate = translate_psycopg

    @contextmanager
    def mapped_errors(self) -> Iterator[None]:
        try:
            yield
        except self.drivers_errors as exc:
            self.raise_ours(exc)

    def raise_ours(self, exc: Exception) -> NoReturn:
        """A programming error is raised as it is."""
        ours = self._translate(exc)
        if ours is None:
            raise exc
        if isinstance(ours, Damaged):
            # The driver's words say where, and hold nobody's data.
            _log.error("The database is damaged: %s", str(exc).partition("\n")[0])
        if getattr(exc, "sqlstate", None) in (READ_ONLY, NO_SETTING):
            now = time.monotonic()
            if now >= self._anew_from + _ANEW_EVERY_S:
                self._anew_from = now
        raise ours from exc

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield the connection of this thread's transaction, if there is one.

        Outside `transact`, each statement sees the data committed when it runs. Within it, a
        failing statement ends the transaction on PostgreSQL: one that may fail needs a `transact`
        of its own.
        """
        if self._here.transaction is not None:
            yield self._here.transaction.connection
            return
        pooled = self.checkout()
        try:
            yield Connection(self, pooled)
        except Unavailable:
            pooled.invalidate()
            raise
        finally:
            pooled.close()

    @contextmanager
    def searching(self, limit: SearchLimit | None) -> Iterator[Connection]:
        """Raise Stopped when `limit` ends the search.

        Searches use at most half of the connections; others wait, then get Unavailable. Without
        `limit`, or within a transaction, this is `reading`.
        """
        if limit is None or self._here.transaction is not None:
            with self.reading() as connection:
                yield connection
            return
        if not self._search_turns.acquire(timeout=_BUSY_SECONDS):
            raise Unavailable("Too many searches are in progress; try again.")
        try:
            pooled = self.checkout()
            driver: Any = pooled.driver_connection
            sqlite = self.dialect == "sqlite"
            cancel = driver.interrupt if sqlite else partial(driver.cancel_safe, timeout=_CANCEL_S)
            stopped = ""
            try:
                self._searches.add(limit, cancel)
                try:
                    yield Connection(self, pooled, limit)
                finally:
                    stopped = self._searches.remove(limit)
            except (Unavailable, self.drivers_errors) as exc:
                if stopped:
                    raise Stopped(stopped) from exc
                pooled.invalidate()
                raise
            finally:
                if stopped:
                    # A late cancel could hit the next caller's statement.
                    pooled.invalidate()
                pooled.close()
        finally:
            self._search_turns.release()

    def transact(self, work: Callable[[Connection], T], *, one_statement: bool = False) -> T:
        """Run `work` in a transaction, commit, and return its result.

        After a deadlock `work` runs again, so its effects must be undone by a rollback.
        `one_statement`: a single statement, which PostgreSQL commits without BEGIN and COMMIT.
        Within another `transact`, an exception undoes only the changes of `work`, and the outer
        call commits.
        """
        if self._here.transaction is not None:
            return self._join(self._here.transaction, work)
        for attempt in range(_DEADLOCK_TRIES):
            try:
                with self._turn_to_write(), self.reading() as connection:
                    if one_statement and self.dialect == "postgresql":
                        return work(connection)
                    return self._transact_on(connection, work)
            except Deadlocked:
                if attempt == _DEADLOCK_TRIES - 1:
                    raise
                time.sleep(0.01 * 2**attempt)
        raise AssertionError("unreachable")

    @contextmanager
    def _turn_to_write(self) -> Iterator[None]:
        if self.dialect == "postgresql":
            yield
            return
        if not self._writer.acquire(timeout=_BUSY_SECONDS):
            raise Unavailable("The database is busy with other writes; try again.")
        try:
            yield
        finally:
            self._writer.release()

    @property
    def account(self) -> str:
        return _account.get()

    def bind_account(self, account_id: int | None) -> None:
        """None: no account. Under row-level security, statements fail without an account."""
        _account.set("" if account_id is None else str(account_id))

    def bind_all_accounts(self) -> None:
        """Holds until another bind, as for an operator."""
        _account.set(ALL_ACCOUNTS)

    @contextmanager
    def for_account(self, account_id: int) -> Iterator[None]:
        """Raises ValueError if the thread works for another account already."""
        before = _account.get()
        if before not in ("", ALL_ACCOUNTS, str(account_id)):
            raise ValueError(f"this thread works for account {before}, not for {account_id}")
        token = _account.set(str(account_id))
        try:
            yield
        finally:
            _account.reset(token)

    @contextmanager
    def across_accounts(self) -> Iterator[None]:
        token = _account.set(ALL_ACCOUNTS)
        try:
            yield
        finally:
            _account.reset(token)

    @property
    def in_transaction(self) -> bool:
        return self._here.transaction is not None

    def after_commit(self, work: Callable[[], None]) -> None:
        """Call `work` after the commit, or now without a transaction; not after a rollback.

        `work` should only change data in memory.
        """
        if self._here.transaction is None:
            work()
        else:
            self._here.transaction.afterwards.append(work)

    def notify_workers(self) -> None:
        """After the commit. On SQLite, where workers poll, nothing is sent."""
        if self.dialect != "postgresql":
            return
        if self._here.transaction is None:
            self._notifications.note(self._notify_apart)
        else:
            self._here.transaction.notifies = True

    def _notify(self, connection: Connection) -> None:
        # A hint that is lost costs a second; what was committed stays committed.
        with suppress(Unavailable, self.drivers_errors):
            connection.run(f"notify {CHANNEL}")

    def _notify_apart(self) -> None:
        with suppress(Unavailable), self.reading() as connection:
            connection.run(f"notify {CHANNEL}")

    def _transact_on(self, connection: Connection, work: Callable[[Connection], T]) -> T:
        connection.begin()
        opened = self._here.transaction = _Transaction(connection)
        try:
            result = work(connection)
            connection.end("COMMIT")
        except BaseException:
            self.undo(connection, "ROLLBACK")
            raise
        finally:
            self._here.transaction = None
        if opened.notifies:
            self._notifications.note(partial(self._notify, connection))
        for each in opened.afterwards:
            each()
        return result

    def _join(self, opened: _Transaction, work: Callable[[Connection], T]) -> T:
        # One name for all: each statement means the innermost savepoint.
        opened.connection.run("SAVEPOINT part")
        known = len(opened.afterwards)
        try:
            result = work(opened.connection)
            opened.connection.run("RELEASE SAVEPOINT part")
        except BaseException:
            del opened.afterwards[known:]
            self.undo(opened.connection, "ROLLBACK TO SAVEPOINT part", "RELEASE SAVEPOINT part")
            raise
        return result

    def undo(self, connection: Connection, *statements: str) -> None:
        """Ignore an unavailable database, which has rolled back."""
        # The connection may be gone, or SQLite has rolled back; the first error counts.
        with suppress(Unavailable, self.drivers_errors):
            connection.end(*statements)

    def listen(self) -> Iterator[bool]:
        """Yield True for each notification, and False after each second without one.

        A connection pooler passes on no notifications. Raises Unavailable if the connection breaks.
        """
        import psycopg

        _, options = self._engine.dialect.create_connect_args(self.url)
        options.update(autocommit=True, **patience(self.url))
        with self.mapped_errors(), psycopg.connect(**options) as driver:
            if is_behind_pooler(driver):
                driver.close()
                while True:
                    time.sleep(_LISTEN_S)
                    yield False
            driver.execute(f"listen {CHANNEL}")
            while True:
                told = False
                for _ in driver.notifies(timeout=_LISTEN_S, stop_after=1):
                    told = True
                yield told

    def retry_while_unavailable(self, until: float, work: Callable[[], T]) -> T:
        """Raise Unavailable at `until` (`time.monotonic`), or if too many threads wait. `work` must
        be idempotent, since a failed call may have committed."""
        while True:
            try:
                return work()
            except Away:
                if time.monotonic() >= until or not self._waiters.acquire(blocking=False):
                    raise
            time.sleep(_AWAY_PAUSE_S)
            self._waiters.release()

    def checkout(self) -> Any:
        """The caller must close the connection."""
        until = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                pooled = self._engine.raw_connection()
            except sqlalchemy.exc.TimeoutError as exc:
                raise Unavailable("All database connections are busy; try again.") from exc
            except self.drivers_errors as exc:
                if is_full(exc) and time.monotonic() < until:
                    time.sleep(_BUSY_PAUSE_S)
                    continue
                self.raise_ours(exc)
            except OSError as exc:
                raise Unavailable("The hub has too many connections open; try again.") from exc
            if self.dialect == "sqlite":
                return pooled
            driver: Any = pooled.driver_connection
            is_recent = pooled.info["made"] >= self._anew_from
            cut_off = driver.closed or hung_up(driver.fileno())
            if is_recent and not cut_off:
                return pooled
            pooled.invalidate()
            pooled.close()
            if is_recent:
                # A restarted server has cut off the whole pool, not this connection alone.
                self._anew_from = time.monotonic()

    def check_writable(self) -> None:
        """Raise Unavailable on a PostgreSQL standby, and on a full or read-only disk of SQLite."""
        if self.dialect != "postgresql":
            check_disk(self.url)
            return
        with self.reading() as connection:
            # Raised in here, it drops the connection: the next one may lead to another server.
            if connection.scalar("show transaction_read_only") == "on":
                raise Unavailable(
                    "The database is read-only, as a standby is; let CRMHUB_DATABASE_URL lead to"
                    " the one that takes writes.",
                    retry_after=5,
                )

    def keep_open(self) -> None:
        """On a full disk SQLite's database could not be opened again."""
        if self.dialect == "sqlite":
            with suppress(Unavailable), self.reading():
                pass

    def close(self) -> None:
        self._notifications.close()
        self._searches.close()
        self._engine.dispose()


def containing(text: str) -> str:
    """For `like … escape '!'`."""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{text}%"


def now_ms() -> int:
    """Milliseconds since 1970 (UTC)."""
    return time.time_ns() // 1_000_000
