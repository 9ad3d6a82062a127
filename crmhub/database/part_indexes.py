"""The indexes for parts of texts (CONTAINS_TOKEN): two of PostgreSQL, one of SQLite.

`TRIGRAMS` finds the few texts that contain a part of three letters or more, of all accounts: with
account and property in the index a search took 120 ms instead of 1, since it reads their lists of
millions of rows. `OTHERS` contains the rows whose folded text does not follow from their key: all
other rows are read from the primary key alone. Both are built beside the migrations, while others
read and write.

On SQLite only tables and triggers are made here; `records.text_parts` fills and reads them.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from crmhub.database.connection import Connection, Database
from crmhub.errors import Conflict, Semantic, Unavailable

TRIGRAMS = "ix_text_trigram"
OTHERS = "ix_text_others"

IN_KEY = "octet_length(value) = char_length(value) and octet_length(value) < 255"
"""Whether a row's folded text is `lower(value)`: the text is ASCII, and not longer than the key."""
NOT_IN_KEY = "(octet_length(value) <> char_length(value) or octet_length(value) >= 255)"
"""The complement, literally the predicate of `OTHERS`."""

# Not every build of SQLite has it, and a database may move to another machine.
_MODULE = "select 1 from pragma_module_list where name = 'fts5'"
_NOTE = (
    "begin insert or ignore into text_part_behind values ({0}.account_id, {0}.kind, {0}.id); end"
)
_MAKE = (
    "create virtual table text_part"
    " using fts5(folded, columnsize = 0, tokenize = 'trigram case_sensitive 1')",
    "create table if not exists text_part_set (number integer primary key autoincrement,"
    " account_id integer not null, kind smallint not null, prop_id integer not null,"
    " unique (account_id, prop_id))",
    "create table text_part_behind (account_id integer not null, kind smallint not null,"
    " record_id bigint not null, primary key (account_id, kind, record_id)) without rowid",
    f"create trigger text_part_come after insert on records {_NOTE.format('new')}",
    "create trigger text_part_changed after update of properties on records"
    f" when new.properties <> old.properties {_NOTE.format('new')}",
    f"create trigger text_part_gone after delete on records {_NOTE.format('old')}",
    "insert into text_part_behind select account_id, kind, id from records",
)
# The sets stay: to a search that has begun, a number never means another set.
_REMOVE = (
    *(f"drop trigger text_part_{when}" for when in ("come", "changed", "gone")),
    *(f"drop table {name}" for name in ("text_part_behind", "text_part")),
)


class Built(NamedTuple):
    """Under row-level security PostgreSQL tests the account first, and uses no index of texts."""

    trigrams: bool
    others: bool
    is_secured: bool


def read_built(connection: Connection) -> Built:
    """Return which indexes are complete. SQLite has the first alone, which may be behind."""
    if connection.dialect == "sqlite":
        made = connection.scalar(
            "select exists (select 1 from sqlite_master where name = 'text_part')"
            f" and exists ({_MODULE})"
        )
        return Built(trigrams=bool(made), others=False, is_secured=False)
    row = connection.row(
        "select exists (select 1 from pg_index where indexrelid = to_regclass(:trigrams)"
        " and indisvalid), exists (select 1 from pg_index where indexrelid = to_regclass(:others)"
        " and indisvalid), row_security_active('ix_text')",
        {"trigrams": TRIGRAMS, "others": OTHERS},
    )
    assert row is not None
    return Built(*row)


def build(database: Database) -> bool:
    """Build both indexes while others read and write; return False if they exist.

    An interrupted build is replaced. Raises Semantic without the extensions, Conflict while another
    process builds, and Unavailable if a build fails, as on a full disk.
    """
    if database.dialect == "sqlite":
        return database.transact(_make)
    with database.reading() as connection:
        built = _build(connection, OTHERS, f"(account_id, prop_id, record_id) where {NOT_IN_KEY}")
        if _state(connection, TRIGRAMS) != "whole":
            schema = _extension(connection)
            text = f"coalesce(folded, value) {schema}.gin_trgm_ops"
            built |= _build(connection, TRIGRAMS, f"using gin ({text})")
        if built:
            # The planner knows how often each text occurs only after this.
            connection.run("analyze ix_text")
    return built


def _make(tx: Connection) -> bool:
    if read_built(tx).trigrams:
        return False
    if not tx.scalar(_MODULE):
        raise Semantic(
            f"Python's SQLite ({sqlite3.sqlite_version}) is built without FTS5; take another build,"
            " then run `crmhub db index --trigram`."
        )
    for statement in _MAKE:
        tx.run(statement)
    return True


def _remove(tx: Connection) -> bool:
    if not read_built(tx).trigrams:
        return False
    for statement in _REMOVE:
        tx.run(statement)
    return True


def make_again(tx: Connection) -> None:
    """Make SQLite's index anew, to be filled with all records."""
    _remove(tx)
    _make(tx)


def _build(connection: Connection, name: str, definition: str) -> bool:
    state = _state(connection, name)
    if state == "whole":
        return False
    try:
        if state == "broken":
            connection.run(f"drop index concurrently {name}")
        connection.run(f"create index concurrently {name} on ix_text {definition}")
    except Unavailable as exc:
        reason = str(exc.__cause__).strip().partition("\n")[0]
        raise Unavailable(
            f"The index {name} could not be built: {reason}. Run `crmhub db index --trigram`; what"
            " was begun is replaced. Until then each write of a text pays for it in vain:"
            " --drop-trigram removes it."
        ) from exc
    return True


def drop(database: Database) -> bool:
    """Drop the index of trigrams; `OTHERS` costs next to nothing.

    Return False without an index. Raises Conflict during a build.
    """
    if database.dialect == "sqlite":
        return database.transact(_remove)
    with database.reading() as connection:
        if _state(connection, TRIGRAMS) == "none":
            return False
        connection.run(f"drop index concurrently {TRIGRAMS}")
    return True


def progress(database: Database) -> str:
    """Return "" if no build is running."""
    with database.reading() as connection:
        row = connection.row(
            "select phase, blocks_done, blocks_total from pg_stat_progress_create_index"
            " where relid = to_regclass('ix_text')"
        )
    if row is None or row[0] is None:
        return ""
    phase, done, total = row
    return f"{phase}, {100 * done // total} %" if total else str(phase)


def _state(connection: Connection, name: str) -> str:
    """Return "none", "whole" (usable) or "broken"; raise Conflict during a build."""
    row = connection.row(
        "select i.indisvalid, exists (select 1 from pg_stat_progress_create_index p"
        " where p.index_relid = i.indexrelid)"
        " from pg_index i where i.indexrelid = to_regclass(:name)",
        {"name": name},
    )
    if row is None:
        return "none"
    valid, being_built = row
    if being_built:
        raise Conflict("The index is being built already; wait for that to end.")
    return "whole" if valid else "broken"


def _extension(connection: Connection) -> str:
    """Return pg_trgm's quoted schema; raise Semantic if it cannot be created."""
    import psycopg

    where = (
        "select quote_ident(n.nspname) from pg_extension e"
        " join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm'"
    )
    if connection.scalar(where) is None:
        known = "select count(*) from pg_available_extensions where name = 'pg_trgm'"
        if not connection.scalar(known):
            raise Semantic(
                "The database server has no extension pg_trgm; install the package that brings"
                " PostgreSQL's contrib modules (postgresql-contrib on many systems), then run"
                " `crmhub db index --trigram`."
            )
        try:
            connection.run("create extension if not exists pg_trgm")
        except psycopg.errors.InsufficientPrivilege as exc:
            raise Semantic(
                "The database role may not create the extension pg_trgm; let the database's owner"
                " run `create extension pg_trgm` in it, then run `crmhub db index --trigram`."
            ) from exc
    return str(connection.scalar(where))
