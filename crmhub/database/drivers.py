"""The drivers of SQLite and PostgreSQL: connection options, and the meaning of their errors."""

from __future__ import annotations

import os
import select
import sqlite3
import time
from contextlib import suppress
from typing import Any

from sqlalchemy.engine import URL

from crmhub.errors import Unavailable

FULL = "The database's disk is full"
# Bytes on SQLite's disk; with less, writes may still go into the log, but not for long.
_LEAST_ROOM = 1024 * 1024
# Who opens a SQLite database first needs 32 kB for the index of its log, to read it as well.
_RESERVE, _RESERVED = "-reserve", 64 * 1024
# A machine that is gone says nothing, and Linux would ask it for a quarter of an hour whether it
# has heard a statement, and for its answer for ever. Seconds, but milliseconds for what is sent.
_PATIENCE = {
    "connect_timeout": "3",
    "tcp_user_timeout": "10000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
}

# How often PostgreSQL checks during a statement that the process that sent it still exists.
_CLIENT_CHECK = "2s"


class Duplicate(Exception):
    """A row with this key exists already."""


class Deadlocked(Unavailable):
    """The database ended this transaction to resolve a deadlock."""


class Away(Unavailable):
    """The server is unreachable or hung up; the last statement may have taken effect."""


class Unwritable(Unavailable):
    """The database can be read but takes no writes: its disk is full, or it is a standby."""


class Damaged(Unavailable):
    """Stored data cannot be read any more."""


class HeldUp(Unavailable):
    """Another transaction held a lock for too long; nothing was done."""


def file_of(url: URL) -> str | None:
    """Return SQLite's file; None for a database in memory or an unknown place."""
    # A URI ("file:…") may mean memory or anything else.
    name = url.database or ":memory:"
    return None if name == ":memory:" or name.startswith("file:") else name


def check_disk(url: URL) -> None:
    """Raise Unavailable if SQLite's disk takes no writes: it is full, read-only or gone."""
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
    """Return what failed for lack of room on SQLite's disk, "" for any other error."""
    code = getattr(exc, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return "The database cannot be opened: its disk is full, and not even 32 kB are left"
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
        return "The database must be migrated, and its disk is full"
    return ""


def keep_reserve(url: URL) -> None:
    """Reserve room on SQLite's disk for a start with a full disk; does nothing without room."""
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
    """Free the reserved room; return whether there was any."""
    try:
        os.remove(f"{file_of(url)}{_RESERVE}")
    except OSError:
        return False
    return True


def patience(url: URL) -> dict[str, str]:
    """Return psycopg's options that limit how long a PostgreSQL server may stay silent."""
    # What the operator has written into the URL holds.
    return {name: value for name, value in _PATIENCE.items() if name not in url.query}


def prepare_sqlite(driver: Any, _record: Any) -> None:
    """Set up each connection; a listener of SQLAlchemy's event `connect`."""
    # FULL: a commit survives a power cut, which WAL's usual NORMAL does not promise.
    driver.execute("PRAGMA journal_mode = WAL")
    driver.execute("PRAGMA synchronous = FULL")
    driver.execute("PRAGMA foreign_keys = ON")
    # What is deleted is gone from the file, as most builds have it from the start.
    driver.execute("PRAGMA secure_delete = ON")
    # For `crmhub.records.search.conditions`.
    driver.create_function("exact_number", 1, _exact_number, deterministic=True)


def _exact_number(text: str | None) -> float | None:
    return None if text is None else float(text)


def prepare_postgresql(driver: Any, record: Any, *, statement_seconds: float | None = None) -> None:
    """Set up each connection, and store when it was `made`, by `time.monotonic`.

    PostgreSQL ends a statement that takes longer than `statement_seconds`. Behind a pooler, which
    may run each transaction on another connection of the server, nothing is set up or prepared:
    settings belong to the role there (docs/scaling.md).
    """
    import psycopg

    record.info["made"] = time.monotonic()
    if is_behind_pooler(driver):
        driver.prepare_threshold = None
        return
    # A plan it takes for a dear one is compiled each time it runs, and is not worth that here.
    settings = "set jit = off"
    if statement_seconds is not None:
        settings += f"; set statement_timeout = '{round(statement_seconds * 1000)}ms'"
    driver.execute(settings)
    # PostgreSQL before 14, or on a system that cannot check this, refuses the setting. It then
    # finishes the statements of a process that was killed.
    with suppress(psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue):
        driver.execute(f"set client_connection_check_interval = '{_CLIENT_CHECK}'")


def is_behind_pooler(driver: Any) -> bool:
    """Return whether a pooler, such as pgbouncer, stands between the hub and PostgreSQL.

    The pooler answers for the server with a process id of its own.
    """
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
# What writing alone comes upon.
_UNWRITABLE_CODES = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
}


_UNWRITABLE = "The database cannot be written now; try again."
_DAMAGED = "The database is damaged; the operator of this service must restore a backup."


def translate_sqlite(exc: Any) -> Exception | None:
    """Return the hub's error for an error of sqlite3; None for a programming error."""
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
    return None


# To psycopg most of these are bugs of the caller's: the server takes no writes, since it became a
# standby or its disk is full, or it has waited too long for the end of a transaction. The others it
# counts among those of a connection that is lost.
READ_ONLY = "25006"
_PASSING: dict[str, tuple[type[Unavailable], str]] = {
    READ_ONLY: (Unwritable, _UNWRITABLE),
    "25P03": (Unavailable, _UNWRITABLE),
    "25P04": (Unavailable, _UNWRITABLE),
    "53100": (Unwritable, f"{FULL}; try again."),
    "57014": (Unavailable, "The database ended a statement that took it too long; try again."),
}
# Of a row that Citus copies to a node the words alone tell it: the SQLSTATE is XX000.
_DUPLICATE = "duplicate key value violates unique constraint"
# data_corrupted, index_corrupted
_CORRUPTED = {"XX001", "XX002"}


def translate_psycopg(exc: Any) -> Exception | None:
    """Return the hub's error for an error of psycopg; None for a programming error."""
    import psycopg

    if isinstance(exc, psycopg.errors.UniqueViolation) or str(exc).startswith(_DUPLICATE):
        return Duplicate(str(exc))
    if isinstance(exc, psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure):
        return Deadlocked("The database is busy with conflicting writes; try again.")
    if isinstance(exc, psycopg.errors.LockNotAvailable):
        return HeldUp("The database is busy with other writes; try again.")
    if exc.sqlstate in _CORRUPTED:
        return Damaged(_DAMAGED)
    if exc.sqlstate in _PASSING:
        kind, words = _PASSING[exc.sqlstate]
        return kind(words)
    if isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError):
        return Away("The database cannot be reached or is shutting down; try again.")
    return None


def is_full(exc: Exception) -> bool:
    """Return whether the server refused a connection because all are in use."""
    # A connection that is refused has no SQLSTATE (53300) in psycopg, only the server's words.
    words = str(exc)
    return "too many " in words or "connection slots are reserved" in words


def hung_up(fileno: int) -> bool:
    """Return whether the other end of an idle connection is closed."""
    # An idle connection has nothing to read but the end of the stream.
    poller = select.poll()
    poller.register(fileno, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(0))
