"""The pool of connections of one SQLAlchemy engine, and the errors of its driver.

Both drivers run in autocommit mode; only `Database.transact` sends BEGIN and COMMIT. SQLAlchemy's
ORM and execution would cost more per request than the queries.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, NoReturn

import sqlalchemy
from sqlalchemy.engine import make_url
from sqlalchemy.pool import QueuePool

from crmhub.database.drivers import (
    ALL_ACCOUNTS,
    NO_SETTING,
    READ_ONLY,
    Damaged,
    hung_up,
    is_behind_pooler,
    is_full,
    patience,
    prepare_postgresql,
    prepare_sqlite,
    translate_psycopg,
    translate_sqlite,
)
from crmhub.database.notifications import CHANNEL
from crmhub.errors import Unavailable

BUSY_SECONDS = 10
"""The time for which a caller waits for a connection, a lock of SQLite, or the turn to write."""
_BUSY_PAUSE_S = 0.05
# Reads go on while nothing can be written, so connections are not made anew more often.
_ANEW_EVERY_S = 1.0
_LISTEN_S = 1.0
_log = logging.getLogger("crmhub.database.connection")
# The value of the setting `crmhub.account` for a thread; "" for none.
_account = ContextVar("crmhub_account", default="")


class Pool:
    """At most `pool_size` connections. PostgreSQL ends a statement after `statement_seconds`."""

    def __init__(self, url: str, pool_size: int, statement_seconds: float | None) -> None:
        self.url = parsed = make_url(url)
        self.dialect = parsed.get_backend_name()
        self.pool_size = pool_size
        self.statement_limited = statement_seconds is not None and self.dialect == "postgresql"
        # Earlier connections lead to a server that takes no writes, or lack row-level security.
        self._anew_from = 0.0
        pool: dict[str, Any] = {
            "pool_size": pool_size,
            "max_overflow": 0,
            "pool_timeout": BUSY_SECONDS,
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
                connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
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

    def checkout(self) -> Any:
        """The caller must close the connection."""
        until = time.monotonic() + BUSY_SECONDS
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
