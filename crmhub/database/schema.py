from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from crmhub.database.connection import Database
from crmhub.errors import Conflict, Semantic, Unavailable

_MIGRATIONS = Path(__file__).parent / "migrations" / "versions"


def upgrade(url: str) -> str:
    """Return why searches for parts of texts have no index of trigrams, or "".

    Several processes may run it. Raises CommandError for a newer or pre-0.1.0 schema.
    """
    from alembic import command

    command.upgrade(_alembic(url), "head")
    return _finish(url)


def _finish(url: str) -> str:
    from crmhub.database import part_indexes
    from crmhub.database.distribution import distribute, read_distribution
    from crmhub.database.row_security import secure_new_tables

    with closing(Database(url, pool_size=1)) as database:
        found = read_distribution(database)
        if found is not None and found.tables and (found.missing or found.unlogged):
            distribute(database)
        if database.dialect == "postgresql":
            secure_new_tables(database)
        try:
            part_indexes.build(database)
        except (Semantic, Conflict, Unavailable) as exc:
            return exc.message
    return ""


def revisions() -> list[str]:
    """Read file names: importing Alembic takes a third of the time that a command needs."""
    return sorted(file.name.partition("_")[0] for file in _MIGRATIONS.glob("[0-9]*.py"))


def current(database: Database) -> str | None:
    """None for a database without a schema."""
    with database.reading() as connection:
        exists = connection.scalar(
            "select count(*) from sqlite_master where name = 'alembic_version'"
            if connection.dialect == "sqlite"
            else "select to_regclass('alembic_version') is not null"
        )
        return connection.scalar("select version_num from alembic_version") if exists else None


def pending(database: Database) -> str | None:
    """Return a reason, or None if the schema fits."""
    found, known = current(database), revisions()
    if found == known[-1]:
        return None
    if found is None or found in known:
        return f"the schema is at {found or 'nothing'}, not at {known[-1]}: run `crmhub db upgrade`"
    if found > known[0]:
        return f"the schema is at {found}, of a newer version of crmhub: run that one"
    return (
        f"the schema is at {found}, of a development version before 0.1.0, and is not upgraded:"
        " use a new database"
    )


def _alembic(url: str) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "crmhub.database:migrations")
    config.attributes["url"] = url
    return config
