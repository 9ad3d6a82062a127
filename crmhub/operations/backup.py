"""The database in one file, and a database from such a file, beside a running service.

A backup is one moment of the whole database; nobody waits for it. What is restored is older than
the world: an action that waited then may have been carried out since, and ids have been given out
that it does not know. So whatever waits is looked up in its CRM before it is sent again, and no id
is given out twice.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sqlalchemy import URL, make_url

from crmhub.database.connection import Database
from crmhub.database.schema import upgrade
from crmhub.errors import BadRequest, Conflict, Semantic, Unavailable

_SQLITE, _POSTGRESQL = b"SQLite format 3\0", b"PGDMP"
# More than any installation gives out between two backups.
_IDS_PASSED = 10_000_000
# Later than any moment: who claims such an action takes it for the moment of the claim.
_UNTIL_NOW = 10**15
_SETTLE = (
    "update action set doubt_since = coalesce(doubt_since, created_at),"
    f" written_at = {_UNTIL_NOW}"
    " where state not in ('done', 'refused', 'discarded')",
    f"update id_block set next_id = next_id + {_IDS_PASSED}",
)
_BLOCK = 1 << 20
# What SQLite keeps beside a database, and mixes into whatever it finds under that name.
_BESIDE = ("-journal", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restored database holds: accounts, records, and actions that are unfinished."""

    accounts: int
    records: int
    unfinished: int


def backup(url: str, path: Path) -> int:
    """Write the database at `url` into a new file that only its owner reads; return its bytes.

    Raises Conflict when the file is there, Unavailable when the database or a program that is
    needed is not, OSError when the file cannot be written.
    """
    if path.exists():
        raise Conflict(f"{path} is there already; a backup is written over nothing.")
    parsed = make_url(url)
    with _whole(path) as part:
        if parsed.get_backend_name() == "sqlite":
            _backup_sqlite(_file(parsed), part)
        else:
            _backup_postgresql(parsed, part)
    return path.stat().st_size


def restore(url: str, path: Path) -> Restored:
    """Fill the empty database at `url` from a backup, migrate it, and return what it holds.

    All or nothing. Raises BadRequest for a file that is no such backup, Conflict when the database
    is not empty, Semantic when the backup is of a newer version, Unavailable.
    """
    parsed = make_url(url)
    sqlite = parsed.get_backend_name() == "sqlite"
    with path.open("rb") as file:
        begins = file.read(len(_SQLITE))
    if not begins.startswith(_SQLITE if sqlite else _POSTGRESQL):
        other = begins.startswith(_POSTGRESQL if sqlite else _SQLITE)
        reason = "is of the other kind of database" if other else "is no backup"
        raise BadRequest(f"{path} {reason}; the database is {parsed.get_backend_name()}.")
    if sqlite:
        _restore_sqlite(path, _file(parsed))
    else:
        _restore_postgresql(path, parsed)
    _migrate(url)
    return _held(url)


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Lend the name of an empty file that becomes `path` once it is whole and on the disk."""
    part = path.with_name(f"{path.name}.part")
    # Of a run that was killed. Not written over: it may be what the former file was linked from.
    _remove(part)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        try:
            # Not a rename: that would write over what has come there meanwhile.
            os.link(part, path)
        except FileExistsError as exc:
            raise Conflict(f"{path} is there already; nothing is written over it.") from exc
    finally:
        _remove(part)


def _remove(file: Path) -> None:
    # With what is beside it: SQLite cannot tidy up after itself on a disk that is full.
    for beside in ("", *_BESIDE):
        file.with_name(file.name + beside).unlink(missing_ok=True)


def _migrate(url: str) -> None:
    from alembic.util import CommandError

    try:
        upgrade(url)
    except CommandError as exc:
        raise Semantic(
            "The backup is of a newer version of crmhub, which alone can use the database now"
            f" ({exc})."
        ) from exc


def _held(url: str) -> Restored:
    database = Database(url, pool_size=1)
    try:
        with database.reading() as db:
            return Restored(
                accounts=db.scalar("select count(*) from account"),
                records=int(db.scalar("select coalesce(sum(n), 0) from record_count")),
                unfinished=db.scalar(
                    "select count(*) from action"
                    " where state not in ('done', 'refused', 'discarded')"
                ),
            )
    finally:
        database.close()


# --- SQLite ------------------------------------------------------------------------------------


def _file(url: URL) -> Path:
    name = url.database or ":memory:"
    if name == ":memory:" or name.startswith("file:"):
        raise Semantic(f"{name} is no file that can be backed up or restored.")
    return Path(name)


def _backup_sqlite(source: Path, part: Path) -> None:
    if not source.exists():
        raise Unavailable(f"There is no database at {source}.")
    copying = f"{source} cannot be copied into {part}"
    with _sqlite(source, copying) as live, _sqlite(part, copying) as copy:
        # In one step: it reads one moment, and a writer would make it begin anew between two.
        live.backup(copy)
        # The copy is one file, without a log beside it.
        copy.execute("pragma journal_mode = delete")
        _check(copy, source)


def _restore_sqlite(path: Path, target: Path) -> None:
    if target.exists() and target.stat().st_size:
        raise Conflict(
            f"{target} is there already. Stop the service, move it away with {target.name}-wal"
            f" and {target.name}-shm, and restore then."
        )
    target.unlink(missing_ok=True)
    for beside in _BESIDE:
        if target.with_name(target.name + beside).exists():
            raise Conflict(
                f"{target}{beside} belongs to another database; move it away first, since SQLite"
                " would mix the two."
            )
    with _whole(target) as part:
        shutil.copyfile(path, part)
        with _sqlite(part, f"{path} cannot be restored") as copy:
            _check(copy, path)
            for statement in _SETTLE:
                copy.execute(statement)
            copy.commit()


def _check(copy: sqlite3.Connection, path: Path) -> None:
    found = [said for (said,) in copy.execute("pragma quick_check(5)")]
    if found != ["ok"]:
        raise BadRequest(f"{path} is damaged: {'; '.join(found)}")
    if not copy.execute("select 1 from sqlite_master where name = 'alembic_version'").fetchone():
        raise BadRequest(f"{path} is no database of crmhub.")


@contextmanager
def _sqlite(path: Path, failed: str) -> Iterator[sqlite3.Connection]:
    """Lend a connection; Unavailable that says what `failed`, and why."""
    connection = sqlite3.connect(path, timeout=10)
    try:
        yield connection
    except sqlite3.DatabaseError as exc:
        # A damaged file, a full disk, a lock that somebody holds: SQLite says which.
        raise Unavailable(f"{failed}: {exc}.") from exc
    finally:
        connection.close()


# --- PostgreSQL --------------------------------------------------------------------------------


def _backup_postgresql(url: URL, part: Path) -> None:
    # Not by its standard output: as of 17 that writes the table of contents twice into a file.
    _run(["pg_dump", "--format=custom", f"--file={part}"], url)
    # Read to its end, as a restore would.
    _run(["pg_restore", "--file=/dev/null", str(part)], None)


def _restore_postgresql(path: Path, url: URL) -> None:
    database = Database(url.render_as_string(hide_password=False), pool_size=1)
    try:
        with database.reading() as db:
            there = db.scalar("select tablename from pg_tables where schemaname = 'public' limit 1")
    finally:
        database.close()
    if there:
        raise Conflict(
            f"The database {url.database} is not empty (it has the table {there}); make a new one"
            " with `createdb`, and name that in CRMHUB_DATABASE_URL."
        )
    script = ["pg_restore", "--file=-", "--no-owner", "--no-privileges", str(path)]
    with _started(script, None, stdout=subprocess.PIPE) as reading:
        psql = ["psql", "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", "-"]
        with _started(psql, url, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as writing:
            assert reading.stdout is not None
            assert writing.stdin is not None
            whole = False
            # psql, which has ended then, says why.
            with suppress(BrokenPipeError):
                _copy_settings(reading.stdout, writing.stdin)
                shutil.copyfileobj(reading.stdout, writing.stdin, _BLOCK)
                whole = True
                if reading.wait() == 0:
                    writing.stdin.write("".join(f"{each};\n" for each in _PUBLIC).encode())
                    writing.stdin.close()
                else:
                    # Without the end of its input it commits nothing.
                    writing.kill()
            if whole:
                _ended(reading)
            _ended(writing)


# pg_restore switches off whatever times out in a server of its own version: 17 does so to
# transaction_timeout, which no older server knows.
_SWITCHED_OFF = re.compile(rb"SET (\w+_timeout) = 0;")
_WHERE_KNOWN = (
    rb"select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings"
    rb" where name = '\1';"
)


def _copy_settings(script: IO[bytes], to: IO[bytes]) -> None:
    """Copy the beginning of a script, so that an older server takes it, too."""
    for line in script:
        to.write(_SWITCHED_OFF.sub(_WHERE_KNOWN, line))
        # Behind it come no more of them, but rows.
        if b"'search_path'" in line:
            return


# The script of pg_restore leaves an empty search path behind.
_PUBLIC = ("set search_path to public", *_SETTLE)


def _run(command: Sequence[str], url: URL | None) -> None:
    with _started(command, url, stdout=subprocess.DEVNULL) as running:
        _ended(running)


@contextmanager
def _started(
    command: Sequence[str], url: URL | None, *, stdout: int, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """Lend a running program of PostgreSQL's client, with the database of `url`."""
    env = dict(os.environ)
    arguments = list(command)
    if url is not None:
        from psycopg.conninfo import make_conninfo

        # The command line can be read by every user of the machine.
        env["PGPASSWORD"] = str(url.password or "")
        if not url.password:
            del env["PGPASSWORD"]
        named: dict[str, Any] = {
            **url.set(password=None).translate_connect_args(username="user", database="dbname"),
            **url.query,
        }
        arguments.append(f"--dbname={make_conninfo('', **named)}")
    try:
        running = subprocess.Popen(
            arguments, env=env, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE
        )
    except FileNotFoundError as exc:
        raise Unavailable(
            f"{command[0]} was not found; install PostgreSQL's client programs, at least as new as"
            " the server (Debian, Ubuntu: apt install postgresql-client)."
        ) from exc
    try:
        yield running
    finally:
        running.kill()
        running.wait()
        for stream in (running.stdin, running.stdout, running.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def _ended(running: subprocess.Popen[bytes]) -> None:
    """Wait for a program to end well; Unavailable with what it says."""
    assert running.stderr is not None
    said = running.stderr.read().decode(errors="replace").strip()
    if running.wait() != 0:
        name = Path(str(running.args[0])).name if isinstance(running.args, list) else "It"
        raise Unavailable(f"{name} failed: {said or f'exit code {running.returncode}'}")
