"""One connection of the pool: statements, advisory locks and settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any, overload

from crmhub.database.bulk import BulkStatements, Guard, Params, Row
from crmhub.database.drivers import ACCOUNT_SETTING, now_ms
from crmhub.database.pool import Pool
from crmhub.database.statements import Statement
from crmhub.errors import Unavailable
from crmhub.search_limits import SearchLimit, Stopped

_NAME = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")
_LOCKS = 0x63726D68
_IDLE = 0
# PostgreSQL takes large sets for small ones. A hash join takes twice as long as sort and merge,
# and parallel processes take twice the processor's time.
_JOINING = {
    "enable_nestloop": "off",
    "enable_hashjoin": "off",
    "max_parallel_workers_per_gather": "0",
    "plan_cache_mode": "force_custom_plan",
}
PLANNED_BY_VALUE = "/* planned by value */"
"""In a statement: PostgreSQL does not prepare it, since its best plan depends on the values."""
# Memory (kB) for sorting all sets of a join together.
_SORTED_KB = 65_536
_LEAST_SORTED_KB = 4096


@lru_cache(maxsize=1024)
def _for_psycopg(sql: str) -> str:
    return _NAME.sub(r"%(\1)s", sql.replace("%", "%%"))


class Connection(BulkStatements):
    """Outside `transact` each statement is committed at once.

    Every method may raise Unavailable, Duplicate, and Stopped (the limit of a search is reached).
    """

    def __init__(self, database: Pool, pooled: Any, limit: SearchLimit | None = None) -> None:
        self._database = database
        self._driver = pooled.driver_connection
        # Lasts as long as the connection: is it secured, and the last account (`crmhub.account`).
        self._info = pooled.info
        self._secured = self._info.get("secured", False)
        self.is_distributed = self._info.get("distributed", False)
        self._limit = limit
        self._unsent = ""
        self.dialect = database.dialect
        self.notifies = False

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

    def undo(self, *statements: str) -> None:
        """Ignore an unavailable database, which has rolled back."""
        # The connection may be gone, or SQLite has rolled back; the first error counts.
        with suppress(Unavailable, self._database.drivers_errors):
            self.end(*statements)

    def _send(self, sql: str, params: Any = None) -> Any:
        if self._limit is not None and self._limit.reason:
            raise Stopped(self._limit.reason)
        try:
            if self._secured:
                return self._send_for_account(sql, params)
            if self._unsent:
                begin, self._unsent = self._unsent, ""
                self._driver.execute(begin)
            if not params:
                return self._driver.execute(sql)
            if self.dialect == "postgresql" and PLANNED_BY_VALUE in sql:
                return self._driver.execute(sql, params, prepare=False)
            return self._driver.execute(sql, params)
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
            self.undo("ROLLBACK")
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
        """After the commit. On SQLite, where workers poll, nothing is sent."""
        self.notifies = self.dialect == "postgresql"

    def now_ms(self) -> int:
        """All processes share the time of the database server."""
        if self.dialect == "sqlite":
            return now_ms()
        # Not the transaction's start: it may have waited for a lock since.
        moment: int = self._message(
            "select cast(extract(epoch from clock_timestamp()) * 1000 as bigint)"
        ).fetchone()[0]
        return moment
