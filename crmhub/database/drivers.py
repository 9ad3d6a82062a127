"""The drivers of SQLite and PostgreSQL: the options of their connections, and their errors."""

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

ACCOUNT_SETTING = "crmhub.account"
"""The PostgreSQL setting with the id of the account whose rows row-level security shows."""
ALL_ACCOUNTS = "-1"
"""The value of the setting with which row-level security shows the rows of all accounts."""
# Whether row-level security applies to the connected role; a database without tables has none.
_IS_SECURED = "select coalesce(row_security_active(to_regclass('records')), false)"
# How often PostgreSQL checks during a statement that the process that sent it still exists.
_CLIENT_CHECK = "2s"


class Duplicate(Exception):
    """Error for the insertion of a row whose key already exists."""


class Deadlocked(Unavailable):
    """Error for a transaction that the database ended as a deadlock; another run may succeed."""


class Away(Unavailable):
    """Error for a server that cannot be reached; the failed statement may have taken effect."""


class Unwritable(Unavailable):
    """Error for a database that can be read but not written: a full disk, or a standby server."""


class Damaged(Unavailable):
    """Error for data in the database that cannot be read any more."""


class HeldUp(Unavailable):
    """Error for a statement that waited too long for a lock, and has changed nothing."""


def file_of(url: URL) -> str | None:
    """Return the path of the SQLite database file, None for memory or a "file:…" URL."""
    # A URI ("file:…") may mean memory or anything else.
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
    """Return an error message if a full disk caused this exception of SQLite, else ""."""
    code = getattr(exc, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return "The database cannot be opened: its disk is full, and not even 32 kB are left"
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
        return "The database must be migrated, and its disk is full"
    return ""


def keep_reserve(url: URL) -> None:
    """Create a file of 64 KiB beside the SQLite database, for `use_reserve` on a full disk.

    Does nothing if the file exists or the disk is full already.
    """
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
    """Delete the file of `keep_reserve` to free space; return whether it existed."""
    try:
        os.remove(f"{file_of(url)}{_RESERVE}")
    except OSError:
        return False
    return True


def patience(url: URL) -> dict[str, str]:
    """Return the psycopg options that limit a silent server, without those that the URL sets."""
    # What the operator has written into the URL holds.
    return {name: value for name, value in _PATIENCE.items() if name not in url.query}


def prepare_sqlite(driver: Any, _record: Any) -> None:
    """Set the options of a new SQLite connection (SQLAlchemy's event `connect`)."""
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
    """Set the options of a new PostgreSQL connection; store when it was opened (`time.monotonic`).

    PostgreSQL will end statements after `statement_seconds`. A pooler may run each transaction on
    another connection: behind one no options are set and nothing is prepared; the operator sets the
    options for the database role (docs/scaling.md).
    """
    import psycopg

    record.info["made"] = time.monotonic()
    # Not prepared, as in `is_behind_pooler`.
    [record.info["secured"]] = driver.execute(_IS_SECURED, prepare=False).fetchone()
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
    """Return whether a PostgreSQL connection reports a pooler's process id as its own."""
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
    """Return the hub's error for an exception of sqlite3, or None for a programming error."""
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
# The setting of the account is missing: the tables were secured after the connection was opened.
NO_SETTING = "42704"
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
    """Return the hub's error for an exception of psycopg, or None for a programming error."""
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
    if isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError):
        return Away("The database cannot be reached or is shutting down; try again.")
    return None


def is_full(exc: Exception) -> bool:
    """Return whether PostgreSQL refused a connection because it allows no more connections."""
    # A connection that is refused has no SQLSTATE (53300) in psycopg, only the server's words.
    words = str(exc)
    return "too many " in words or "connection slots are reserved" in words


def hung_up(fileno: int) -> bool:
    """Return whether the server has closed the idle connection with this socket."""
    # An idle connection has nothing to read but the end of the stream.
    poller = select.poll()
    poller.register(fileno, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(0))
