"""Backup and restore of the whole database with `pg_dump`, `pg_restore` and SQLite's backup API.

A restored database is older than the CRMs: since the backup, actions that it shows as waiting may
have been sent, and record ids that it shows as free may have been used. `settle` prepares a
restored database for both.
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

from crmhub.accounts.accounts import account_ids
from crmhub.database.connection import Database
from crmhub.database.statements import Statement, count_of, equals, one_of
from crmhub.database.tables import action, id_block, record_count
from crmhub.errors import BadRequest, Conflict, Semantic, Unavailable

_FIRST_BYTES = {"sqlite": b"SQLite format 3\0", "postgresql": b"PGDMP"}
# More ids than any installation uses between two backups.
_SKIPPED_IDS = 10_000_000
# Later than any moment: a claim replaces it with the moment of the claim.
_UNTIL_NOW = 10**15
_UNFINISHED = ~one_of(action.c.state, "done", "refused", "discarded")
# Without parameters, because psql and sqlite3 also run their text.
_SETTLE_ALL_ACCOUNTS = (
    # An action in doubt is looked up in its CRM before it is sent.
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
_COUNT_RECORDS = Statement(
    sa.select(sa.func.coalesce(sa.func.sum(record_count.c.n), 0)).where(
        *equals(record_count, "account_id")
    )
)
_COUNT_UNFINISHED = count_of(action, *equals(action, "account_id"), _UNFINISHED)
# One transaction, committed only if pg_restore succeeds; the last line confirms the commit.
# sed removes a setting of pg_restore 17 that older servers do not know.
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
    accounts: int
    records: int
    unfinished: int


def backup(url: str, path: Path) -> int:
    """For the owner's eyes; return the size in bytes.

    Raises Conflict if the file exists, Unavailable without a database or pg_dump, and OSError.
    """
    if path.exists():
        raise Conflict(f"{path} is there already; a backup is written over nothing.")
    parsed = make_url(url)
    with _new_file(path) as part:
        if parsed.get_backend_name() == "sqlite":
            _copy_sqlite(_sqlite_file(parsed), part)
        else:
            # Not to standard output, where pg_dump 17 writes the table of contents twice.
            _require("pg_dump")
            _run("The backup", parsed, "pg_dump", "--format=custom", f"--file={part}")
    return path.stat().st_size


def restore(url: str, path: Path) -> None:
    """Restore a backup into the empty database at `url` and `settle` it, or restore nothing.

    Raises BadRequest for another kind of file, Conflict if the database is not empty, and
    Unavailable for a damaged file, without the database or a PostgreSQL program.
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
    """A worker will search the CRM for an earlier result of each unfinished action.

    Record ids that may have been used since the backup are skipped. May be called again.
    """
    with closing(Database(url, pool_size=1)) as database:
        database.transact(lambda tx: [tx.run(statement) for statement in _SETTLE_ALL_ACCOUNTS])


def contents(url: str) -> Contents:
    """The database must have the newest schema."""
    with closing(Database(url, pool_size=1)) as database, database.reading() as db:
        ids = account_ids(db)

        def total(count: Statement) -> int:
            return sum(int(db.scalar(count, {"account_id": account_id})) for account_id in ids)

        return Contents(len(ids), total(_COUNT_RECORDS), total(_COUNT_UNFINISHED))


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """Yield a file that becomes `path` once it is on the disk; raises OSError if that exists."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.") as folder:
        part = Path(folder, "part")
        part.touch(0o600)
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        # A rename would replace a file that was created meanwhile.
        os.link(part, path)


def _sqlite_file(url: URL) -> Path:
    name = url.database or ":memory:"
    if name == ":memory:" or name.startswith("file:"):
        raise Semantic(f"{name} is no file that can be backed up or restored.")
    return Path(name)


def _restore_sqlite(path: Path, target: Path) -> None:
    # SQLite would apply leftover journals to the restored file.
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
            # A single file, without a write-ahead log.
            copied.execute("pragma journal_mode = delete")
            _check(copied, source)
            for statement in _SETTLE_ALL_ACCOUNTS if settled else ():
                copied.execute(statement.text("sqlite"))
            copied.commit()
    except sqlite3.DatabaseError as exc:
        # SQLite's message tells a damaged file, a full disk or a lock.
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
    settled = (statement.text("postgresql") for statement in _SETTLE_ALL_ACCOUNTS)
    end = ("set search_path to public", *settled, "commit", "select 'restored'")
    _require("pg_restore", "psql")
    _run(
        "The restore",
        url,
        "sh",
        "-c",
        _RESTORE,
        str(path),
        "".join(f"{statement};\n" for statement in end),
    )


def _require(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise Unavailable(
                f"{program} was not found; install PostgreSQL's client programs, at least as new"
                " as the server (Debian, Ubuntu: apt install postgresql-client)."
            )


def _run(what: str, url: URL, *command: str) -> None:
    """Run a program on a database; raises Unavailable with its error output if it fails."""
    from psycopg.conninfo import make_conninfo

    conninfo: dict[str, Any] = {
        **url.set(password=None).translate_connect_args(username="user", database="dbname"),
        **url.query,
    }
    # Every user of the machine can read the command line.
    password = {"PGPASSWORD": url.password} if url.password else {}
    done = subprocess.run(
        [*command, make_conninfo("", **conninfo)],
        env={**os.environ, **password},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"{what} failed: {done.stderr.decode(errors='replace').strip()}")
