from __future__ import annotations

import os
import re
import select
import sqlite3
import time
from contextlib import suppress
from typing import Any

from sqlalchemy.engine import URL

from crmhub.errors import Unavailable

FULL = "The database's disk is full"
# Bytes; with less, SQLite's writes may still go into the log, but not for long.
_LEAST_ROOM = 1024 * 1024
# Opening a SQLite database first needs 32 kB for the index of its log, even to read.
_RESERVE, _RESERVED = "-reserve", 64 * 1024
# Without these, a dead host is noticed only after TCP's 15 minutes. Seconds; ms for sent data.
_PATIENCE = {
    "connect_timeout": "3",
    "tcp_user_timeout": "10000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
}

ACCOUNT_SETTING = "crmhub.account"
"""The PostgreSQL setting with the id of the account whose rows row-level security shows."""
ALL_ACCOUNTS = "-1"
"""The value of the setting with which row-level security shows the rows of all accounts."""
# A database without tables has none.
_IS_SECURED = (
    "select coalesce(row_security_active(to_regclass('records')), false),"
    " to_regclass('pg_catalog.pg_dist_partition') is not null"
)
_IS_DISTRIBUTED = (
    "select exists (select from pg_dist_partition where logicalrelid = to_regclass('records'))"
)
# How often PostgreSQL checks during a statement that the process that sent it still exists.
_CLIENT_CHECK = "2s"


class Duplicate(Exception):
    """The key of an inserted row already exists."""


class Deadlocked(Unavailable):
    """The database ended the transaction as a deadlock; another run may succeed."""


class Away(Unavailable):
    """The server cannot be reached; the failed statement may have taken effect."""


class NodeAway(Away):
    """A node of Citus cannot be reached; statements on other nodes may succeed."""


class Unwritable(Unavailable):
    """The database can be read but not written: a full disk, or a standby server."""


class Damaged(Unavailable):
    """Data in the database cannot be read any more."""


class HeldUp(Unavailable):
    """The statement waited too long for a lock, and has changed nothing."""


def file_of(url: URL) -> str | None:
    """None for memory or a "file:…" URL."""
    name = url.database or ":memory:"
    return None if name == ":memory:" or name.startswith("file:") else name


def check_disk(url: URL) -> None:
    """Raise Unavailable if the disk of the SQLite database is full, read-only or unreachable."""
    file = file_of(url)
    if file is None:
        return
    try:
        disk = os.statvfs(os.path.dirname(file) or ".")
    except OSError as exc:
        reason = f"The database's directory cannot be reached: {exc.strerror}."
        raise Unavailable(reason, retry_after=5) from exc
    if disk.f_flag & os.ST_RDONLY:
        raise Unavailable("The database's disk is read-only; make it writable.", retry_after=5)
    # A file system that does not count says that it has none.
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < _LEAST_ROOM:
        raise Unavailable(f"{FULL}; make room on it.", retry_after=5)


def without_room(exc: BaseException) -> str:
    """Return "" unless a full disk caused this exception."""
    code = getattr(exc, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return "The database cannot be opened: its disk is full, and not even 32 kB are left"
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
        return "The database must be migrated, and its disk is full"
    return ""


def keep_reserve(url: URL) -> None:
    """64 KiB beside the SQLite database, for `use_reserve` on a full disk."""
    file = file_of(url)
    if file is None:
        return
    try:
        check_disk(url)
        reserve = os.open(f"{file}{_RESERVE}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except (Unavailable, OSError):
        return
    # No zeros, for which some file systems take no room.
    with suppress(OSError), open(reserve, "wb") as kept:
        kept.write(os.urandom(_RESERVED))


def use_reserve(url: URL) -> bool:
    """Return whether the file of `keep_reserve` existed."""
    try:
        os.remove(f"{file_of(url)}{_RESERVE}")
    except OSError:
        return False
    return True


def patience(url: URL) -> dict[str, str]:
    """Leave out the options that the URL sets."""
    return {name: value for name, value in _PATIENCE.items() if name not in url.query}


def prepare_sqlite(driver: Any, _record: Any) -> None:
    # FULL: a commit survives a power cut, which WAL's usual NORMAL does not promise.
    driver.execute("PRAGMA journal_mode = WAL")
    driver.execute("PRAGMA synchronous = FULL")
    driver.execute("PRAGMA foreign_keys = ON")
    # Sorting half a million ids takes a quarter less time with helpers.
    driver.execute("PRAGMA threads = 2")
    # Deleted data is gone from the file, as in most builds.
    driver.execute("PRAGMA secure_delete = ON")
    driver.create_function("exact_number", 1, _exact_number, deterministic=True)


def _exact_number(text: str | None) -> float | None:
    return None if text is None else float(text)


def prepare_postgresql(driver: Any, record: Any, *, statement_seconds: float | None = None) -> None:
    """Store when the connection was opened (`time.monotonic`); end statements after
    `statement_seconds`.

    Behind a pooler, which may run each transaction on another connection, no options are set and
    nothing is prepared; the operator sets them for the database role (docs/scaling.md).
    """
    import psycopg

    record.info["made"] = time.monotonic()
    secured, has_citus = driver.execute(_IS_SECURED, prepare=False).fetchone()
    record.info["secured"] = secured
    if has_citus:
        [record.info["distributed"]] = driver.execute(_IS_DISTRIBUTED, prepare=False).fetchone()
    if is_behind_pooler(driver):
        driver.prepare_threshold = None
        return
    # An expensive plan is compiled each time it runs, which is not worth it here.
    settings = "set jit = off"
    if statement_seconds is not None:
        settings += f"; set statement_timeout = '{round(statement_seconds * 1000)}ms'"
    driver.execute(settings)
    # PostgreSQL before 14, or a system that cannot check this, refuses the setting.
    with suppress(psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue):
        driver.execute(f"set client_connection_check_interval = '{_CLIENT_CHECK}'")


def is_behind_pooler(driver: Any) -> bool:
    """A pooler reports its own process id."""
    # Not prepared: the next statement may come to another connection of the server.
    row = driver.execute("select pg_backend_pid()", prepare=False).fetchone()
    return bool(row[0] != driver.info.backend_pid)


_AWAY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
}
_UNWRITABLE_CODES = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
}


_UNWRITABLE = "The database cannot be written now; try again."
_DAMAGED = "The database is damaged; the operator of this service must restore a backup."


def translate_sqlite(exc: Any) -> Exception | None:
    if isinstance(exc, sqlite3.IntegrityError):
        return Duplicate(str(exc))
    extended = getattr(exc, "sqlite_errorcode", 0)
    code = extended & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return Unwritable(f"{FULL}; try again.")
    if extended == sqlite3.SQLITE_IOERR_SHMSIZE:
        # Without an index of the log beside it, the database cannot be read either.
        return Unavailable(f"{FULL}; try again.")
    if code in _UNWRITABLE_CODES or extended in _UNWRITABLE_CODES:
        return Unwritable(_UNWRITABLE)
    if code in _AWAY:
        return Unavailable("The database is busy or cannot be written; try again.")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Damaged(_DAMAGED)
    if "no such table: text_part" in str(exc):
        # The index of texts was removed after the search had begun.
        return Unavailable("The index of texts was just removed; try again.")
    return None


# psycopg takes most of these for programming errors of the caller.
READ_ONLY = "25006"
# The setting of the account is missing: the tables were secured after the connection was opened.
NO_SETTING = "42704"
_PASSING: dict[str, tuple[type[Unavailable], str]] = {
    READ_ONLY: (Unwritable, _UNWRITABLE),
    "25P03": (Unavailable, _UNWRITABLE),
    "25P04": (Unavailable, _UNWRITABLE),
    "53100": (Unwritable, f"{FULL}; try again."),
    "57014": (Unavailable, "The database ended a statement that took it too long; try again."),
}
# Citus gives XX000 for a row that it copies to a node, so the words tell.
_DUPLICATE = "duplicate key value violates unique constraint"
# libpq's own errors have no SQLSTATE, so Citus gives XX000 for a node that does not answer. Of a
# failed COMMIT it says only that a connection failed.
_NODE_AWAY = re.compile(
    r"server closed the connection|connection has been closed|connection not open"
    r"|no connection to the server|connection to server|connection to the remote node"
    r"|could not (?:receive data from|send data to|connect to) |SSL SYSCALL error"
    r"|failure on connection marked as essential|no active placements"
)
_OF_NODE = ("XX000", "08006")
# The context of a node's own error.
_ON_NODE = "while executing command on"
# data_corrupted, index_corrupted
_CORRUPTED = {"XX001", "XX002"}


def translate_psycopg(exc: Any) -> Exception | None:
    import psycopg

    if isinstance(exc, psycopg.errors.UniqueViolation) or str(exc).startswith(_DUPLICATE):
        return Duplicate(str(exc))
    if isinstance(exc, psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure):
        return Deadlocked("The database is busy with conflicting writes; try again.")
    if isinstance(exc, psycopg.errors.LockNotAvailable):
        return HeldUp("The database is busy with other writes; try again.")
    if exc.sqlstate == NO_SETTING and ACCOUNT_SETTING in str(exc):
        return Away("The database has been put under row-level security; try again.")
    if exc.sqlstate in _CORRUPTED:
        return Damaged(_DAMAGED)
    if exc.sqlstate in _PASSING:
        kind, words = _PASSING[exc.sqlstate]
        return kind(words)
    is_away = isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError)
    on_node = is_away and _ON_NODE in (exc.diag.context or "")
    if on_node or (exc.sqlstate in _OF_NODE and _NODE_AWAY.search(str(exc))):
        return NodeAway("A node of the database is unavailable; try again.")
    if is_away:
        return Away("The database cannot be reached or is shutting down; try again.")
    return None


def is_full(exc: Exception) -> bool:
    # psycopg has no SQLSTATE (53300) for a refused connection.
    words = str(exc)
    return "too many " in words or "connection slots are reserved" in words


def hung_up(fileno: int) -> bool:
    # An idle connection has nothing to read but the end of the stream.
    poller = select.poll()
    poller.register(fileno, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(0))


def now_ms() -> int:
    """Milliseconds since 1970 (UTC)."""
    return time.time_ns() // 1_000_000
