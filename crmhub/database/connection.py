"""The database: one way to run statements, one place that commits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from crmhub.database import pool
from crmhub.database.drivers import Away, Deadlocked, check_disk, file_of
from crmhub.database.drivers import now_ms as now_ms
from crmhub.database.notifications import CHANNEL, Notifications
from crmhub.database.pool import Pool
from crmhub.database.single_connection import Connection as Connection
from crmhub.database.write_queue import WriteQueue
from crmhub.errors import Unavailable
from crmhub.search_limits import SearchLimit, SearchWatch, Stopped

T = TypeVar("T")

_DEADLOCK_TRIES = 5
_AWAY_PAUSE_S = 0.1
_THREADS_THAT_NEVER_WAIT = 8
# After this time a request to cancel a statement is given up, and sent again.
_CANCEL_S = 2.0


@dataclass(slots=True)
class _Transaction:
    connection: Connection
    afterwards: list[Callable[[], object]] = field(default_factory=list)


class _Here(threading.local):
    transaction: _Transaction | None = None


class Database(Pool):
    """SQLite or PostgreSQL, given by its SQLAlchemy URL.

    A caller waits 10 s for one of `pool_size` connections, then gets Unavailable. While `transact`
    runs, all calls of the same thread belong to its transaction. PostgreSQL ends a statement after
    `statement_seconds`, but for transactions that call `take_time`.
    """

    def __init__(
        self, url: str, *, pool_size: int = 20, statement_seconds: float | None = None
    ) -> None:
        super().__init__(url, pool_size, statement_seconds)
        self._searches = SearchWatch()
        # Searches leave half of the connections to others.
        self._search_turns = threading.BoundedSemaphore(max(1, pool_size // 2))
        self._here = _Here()
        self._notifications = Notifications(self._notify_apart)
        self._waiters = threading.BoundedSemaphore(max(1, pool_size - _THREADS_THAT_NEVER_WAIT))
        # Nodes of a distributed database that did not answer a worker, and when (`time.monotonic`)
        # all nodes are asked again.
        self.paused_nodes: frozenset[int] = frozenset()
        self.all_nodes_at = 0.0
        self._queue = WriteQueue(file_of(self.url)) if self.dialect == "sqlite" else None

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
        if not self._search_turns.acquire(timeout=pool.BUSY_SECONDS):
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
        `one_statement`: a single statement, which PostgreSQL without Citus commits without BEGIN
        and COMMIT.
        Within another `transact`, an exception undoes only the changes of `work`, and the outer
        call commits.
        """
        if self._here.transaction is not None:
            return self._join(self._here.transaction, work)
        for attempt in range(_DEADLOCK_TRIES):
            try:
                turn = self._queue.turn(seconds=pool.BUSY_SECONDS) if self._queue else nullcontext()
                with turn, self.reading() as connection:
                    together = self.dialect == "postgresql" and not connection.is_distributed
                    if one_statement and together:
                        return work(connection)
                    return self._transact_on(connection, work)
            except Deadlocked:
                if attempt == _DEADLOCK_TRIES - 1:
                    raise
                time.sleep(0.01 * 2**attempt)
        raise AssertionError("unreachable")

    @property
    def in_transaction(self) -> bool:
        return self._here.transaction is not None

    def after_commit(self, work: Callable[[], object]) -> None:
        """Call `work` after the commit, or now without a transaction; not after a rollback.

        `work` should only change data in memory.
        """
        if self._here.transaction is None:
            work()
        else:
            self._here.transaction.afterwards.append(work)

    def notify_workers(self) -> None:
        """After the commit. On SQLite, where workers poll, nothing is sent."""
        if self._here.transaction is not None:
            self._here.transaction.connection.notify_workers()
        elif self.dialect == "postgresql":
            self._notifications.note(self._notify_apart)

    def _notify(self, connection: Connection) -> None:
        # A hint that is lost costs a second; what was committed stays committed.
        with suppress(Unavailable, self.drivers_errors):
            connection.run(f"notify {CHANNEL}")

    def _notify_apart(self) -> None:
        with suppress(Unavailable), self.reading() as connection:
            connection.run(f"notify {CHANNEL}")

    def _transact_on(self, connection: Connection, work: Callable[[Connection], T]) -> T:
        with self._queue.next_in_line() if self._queue else nullcontext():
            connection.begin()
        opened = self._here.transaction = _Transaction(connection)
        try:
            result = work(connection)
            connection.end("COMMIT")
        except BaseException:
            connection.undo("ROLLBACK")
            raise
        finally:
            self._here.transaction = None
        if connection.notifies:
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
            opened.connection.undo("ROLLBACK TO SAVEPOINT part", "RELEASE SAVEPOINT part")
            raise
        return result

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
