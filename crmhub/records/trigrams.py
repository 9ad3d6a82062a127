"""The optional trigram index, with which PostgreSQL finds parts of texts quickly.

Without it, CONTAINS_TOKEN reads all values of the property; with it, each write of a text is
slower.
"""

from __future__ import annotations

from crmhub.database.connection import Connection, Database
from crmhub.errors import Conflict, Semantic, Unavailable

NAME = "ix_text_trigram"


def make(database: Database) -> bool:
    """Build the index while others read and write; return False if it exists.

    An interrupted build is replaced. Raises Semantic on SQLite and without pg_trgm, Conflict while
    another process builds, and Unavailable if the build fails, as on a full disk.
    """
    _demand_postgresql(database)
    with database.reading() as connection:
        state = _state(connection)
        if state == "whole":
            return False
        schema = _extension(connection)
        try:
            if state == "broken":
                connection.run(f"drop index concurrently {NAME}")
            connection.run(
                f"create index concurrently {NAME} on ix_text"
                f" using gin (coalesce(folded, value) {schema}.gin_trgm_ops)"
            )
            # The planner knows how often each text occurs only after this.
            connection.run("analyze ix_text")
        except Unavailable as exc:
            reason = str(exc.__cause__).strip().partition("\n")[0]
            raise Unavailable(
                f"The index could not be built: {reason}. Run the same again; what was begun is"
                " replaced. Until then each write of a text pays for it in vain: --drop-trigram"
                " removes it."
            ) from exc
    return True


def drop(database: Database) -> bool:
    """Return False without an index. Raises Semantic on SQLite, and Conflict during a build."""
    _demand_postgresql(database)
    with database.reading() as connection:
        if _state(connection) == "none":
            return False
        connection.run(f"drop index concurrently {NAME}")
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


def _demand_postgresql(database: Database) -> None:
    if database.dialect != "postgresql":
        raise Semantic(
            "The index of trigrams is one of PostgreSQL; SQLite reads through a property's values."
        )


def _state(connection: Connection) -> str:
    """Return "none", "whole" (usable) or "broken"; raise Conflict during a build."""
    row = connection.row(
        "select i.indisvalid, exists (select 1 from pg_stat_progress_create_index p"
        " where p.index_relid = i.indexrelid)"
        " from pg_index i where i.indexrelid = to_regclass(:name)",
        {"name": NAME},
    )
    if row is None:
        return "none"
    valid, being_built = row
    if being_built:
        raise Conflict("The index is being built already; wait for that to end.")
    return "whole" if valid else "broken"


def _extension(connection: Connection) -> str:
    """Return the quoted schema; raise Semantic if pg_trgm cannot be created."""
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
                " PostgreSQL's contrib modules (postgresql-contrib on many systems)."
            )
        try:
            connection.run("create extension if not exists pg_trgm")
        except psycopg.errors.InsufficientPrivilege as exc:
            raise Semantic(
                "The database role may not create the extension pg_trgm; let the database's owner"
                " run `create extension pg_trgm` in it, then run this again."
            ) from exc
    return str(connection.scalar(where))
