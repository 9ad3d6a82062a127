"""Backup and restore of the whole database, and what a restored database needs.

The copying is done by `pg_dump`, `pg_restore` and SQLite's backup API. A restored database is older
than the world around it: an action that waited then may have been sent since, and ids have been
given out that it does not know. `settle` allows for both.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import URL, make_url

from crmhub.database.connection import Database
from crmhub.database.statements import Statement, one_of
from crmhub.database.tables import account, action, id_block, record_count
from crmhub.errors import BadRequest, Conflict, Semantic, Unavailable

_FIRST_BYTES = {"sqlite": b"SQLite format 3\0", "postgresql": b"PGDMP"}
# More ids than any installation gives out between two backups.
_SKIPPED_IDS = 10_000_000
# Later than any moment: a claim replaces it with the moment of the claim.
_UNTIL_NOW = 10**15
_UNFINISHED = ~one_of(action.c.state, "done", "refused", "discarded")
# They have no parameters: psql and SQLite's own connection run their text, too.
_SETTLE_ALL_ACCOUNTS = (
    # An action with a doubt is looked up in its CRM before it is sent.
    Statement(
        sa.update(action)
        .where(_UNFINISHED)
        .values(
            doubt_since=sa.func.coalesce(action.c.doubt_since, action.c.created_at),
            written_at=_UNTIL_NOW,
        )
    ),
    Statement(sa.update(id_block).values(next_id=id_block.c.next_id + _SKIPPED_IDS)),
)
_COUNT_ACCOUNTS = Statement(sa.select(sa.func.count()).select_from(account))
_COUNT_RECORDS_OF_ALL_ACCOUNTS = Statement(
    sa.select(sa.func.coalesce(sa.func.sum(record_count.c.n), 0))
)
_COUNT_UNFINISHED_OF_ALL_ACCOUNTS = Statement(
    sa.select(sa.func.count()).select_from(action).where(_UNFINISHED)
)
# In one transaction. Its commit, and the word behind it, come only when pg_restore has ended well.
# What sed takes out is set by pg_restore 17, and known to no older server.
_RESTORE = """
{
    echo 'begin;'
    pg_restore --file=- --no-owner --no-privileges "$0" && echo "$1" ||
        echo 'pg_restore did not finish' >&2
} | sed 's/^SET transaction_timeout = 0;$//' | psql -XqAt -v ON_ERROR_STOP=1 "$2" |
    grep -x restored >/dev/null
"""


@dataclass(frozen=True, slots=True)
class Contents:
    """Counts of a database: accounts, records, and unfinished actions."""

    accounts: int
    records: int
    unfinished: int


def backup(url: str, path: Path) -> int:
    """Write the database at `url` into a new file that only its owner reads; return its bytes.

    Raises Conflict when the file exists, Unavailable when the database or pg_dump is not there,
    OSError when the file cannot be written.
    """
    if path.exists():
        raise Conflict(f"{path} is there already; a backup is written over nothing.")
    parsed = make_url(url)
    with _new_file(path) as part:
        if parsed.get_backend_name() == "sqlite":
            _copy_sqlite(_sqlite_file(parsed), part)
        else:
            # Not by its standard output: as of 17 that writes the table of contents twice.
            _require("pg_dump")
            _run("The backup", parsed, "pg_dump", "--format=custom", f"--file={part}")
    return path.stat().st_size


def restore(url: str, path: Path) -> None:
    """Fill the empty database at `url` from a backup and settle it: all or nothing.

    Raises BadRequest for a file that is no such backup, Conflict when the database is not empty,
    Unavailable for a damaged file, or when the database or a program is not there.
    """
    parsed = make_url(url)
    backend = parsed.get_backend_name()
    with path.open("rb") as file:
        if not file.read(16).startswith(_FIRST_BYTES[backend]):
            raise BadRequest(f"{path} is no backup of a {backend} database.")
    if backend == "sqlite":
        _restore_sqlite(path, _sqlite_file(parsed))
    else:
        _restore_postgresql(path, parsed)


def settle(url: str) -> None:
    """Make a restored database of the newest schema safe to work with; safe to run again.

    Unfinished actions are looked up in their CRM before they are sent, and no id is reused.
    """
    with closing(Database(url, pool_size=1)) as database:
        database.transact(lambda tx: [tx.run(each) for each in _SETTLE_ALL_ACCOUNTS])


def contents(url: str) -> Contents:
    """Return what a database of the newest schema holds."""
    with closing(Database(url, pool_size=1)) as database, database.reading() as db:
        return Contents(
            accounts=db.scalar(_COUNT_ACCOUNTS),
            records=int(db.scalar(_COUNT_RECORDS_OF_ALL_ACCOUNTS)),
            unfinished=db.scalar(_COUNT_UNFINISHED_OF_ALL_ACCOUNTS),
        )


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """Lend an empty file that becomes `path` once it is whole and on the disk."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.") as folder:
        part = Path(folder, "part")
        part.touch(0o600)
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        # Not a rename: that would replace a file made meanwhile.
        os.link(part, path)


def _sqlite_file(url: URL) -> Path:
    name = url.database or ":memory:"
    if name == ":memory:" or name.startswith("file:"):
        raise Semantic(f"{name} is no file that can be backed up or restored.")
    return Path(name)


def _restore_sqlite(path: Path, target: Path) -> None:
    # SQLite would mix the latter three with the backup.
    for end in ("", "-journal", "-wal", "-shm"):
        if (file := target.with_name(target.name + end)).exists():
            raise Conflict(
                f"{file} is there already. Stop the service, move {target} away with its -wal and"
                " -shm, and restore then."
            )
    with _new_file(target) as part:
        _copy_sqlite(path, part, settled=True)


def _copy_sqlite(source: Path, copy: Path, *, settled: bool = False) -> None:
    if not source.exists():
        raise Unavailable(f"There is no database at {source}.")
    try:
        with (
            closing(sqlite3.connect(source, timeout=10)) as original,
            closing(sqlite3.connect(copy)) as copied,
        ):
            original.backup(copied)
            # One file, without a log beside it.
            copied.execute("pragma journal_mode = delete")
            _check(copied, source)
            for statement in _SETTLE_ALL_ACCOUNTS if settled else ():
                copied.execute(statement.text("sqlite"))
            copied.commit()
    except sqlite3.DatabaseError as exc:
        # A damaged file, a full disk, a lock: SQLite says which.
        raise Unavailable(f"{source} cannot be copied: {exc}.") from exc


def _check(copied: sqlite3.Connection, source: Path) -> None:
    faults = [fault for (fault,) in copied.execute("pragma quick_check(5)") if fault != "ok"]
    if faults:
        raise BadRequest(f"{source} is damaged: {'; '.join(faults)}")
    if not copied.execute("select 1 from sqlite_master where name = 'alembic_version'").fetchone():
        raise BadRequest(f"{source} is no database of crmhub.")


def _restore_postgresql(path: Path, url: URL) -> None:
    shown = url.render_as_string(hide_password=False)
    with closing(Database(shown, pool_size=1)) as database, database.reading() as db:
        table = db.scalar("select tablename from pg_tables where schemaname = 'public' limit 1")
    if table:
        raise Conflict(
            f"The database {url.database} is not empty (it has the table {table}); make a new one"
            " with `createdb`, and name that in CRMHUB_DATABASE_URL."
        )
    settled = (each.text("postgresql") for each in _SETTLE_ALL_ACCOUNTS)
    end = ("set search_path to public", *settled, "commit", "select 'restored'")
    _require("pg_restore", "psql")
    _run("The restore", url, "sh", "-c", _RESTORE, str(path), "".join(f"{each};\n" for each in end))


def _require(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise Unavailable(
                f"{program} was not found; install PostgreSQL's client programs, at least as new"
                " as the server (Debian, Ubuntu: apt install postgresql-client)."
            )


def _run(what: str, url: URL, *command: str) -> None:
    """Run a command on the database of `url`, named by its last argument.

    Raises Unavailable with what the command says.
    """
    from psycopg.conninfo import make_conninfo

    named: dict[str, Any] = {
        **url.set(password=None).translate_connect_args(username="user", database="dbname"),
        **url.query,
    }
    # The command line can be read by every user of the machine.
    password = {"PGPASSWORD": url.password} if url.password else {}
    done = subprocess.run(
        [*command, make_conninfo("", **named)],
        env={**os.environ, **password},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"{what} failed: {done.stderr.decode(errors='replace').strip()}")
