"""The database schema: runs its migrations, and checks whether it is up to date."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from crmhub.database.connection import Database


def upgrade(url: str) -> None:
    """Run the missing migrations; several processes may do so at the same time.

    Raises alembic's CommandError if the schema is of a newer version of the hub, or of a
    development version before 0.1.0.
    """
    from alembic import command

    command.upgrade(_alembic(url), "head")
    if url.startswith("postgresql"):
        _treat_new_tables(url)


def _treat_new_tables(url: str) -> None:
    from crmhub.database.distribution import distribute, read_distribution
    from crmhub.database.row_security import secure_new_tables

    with closing(Database(url, pool_size=1)) as database:
        found = read_distribution(database)
        if found is not None and found.tables and found.missing:
            distribute(database)
        secure_new_tables(database)


def pending(database: Database) -> str | None:
    """Return why the database schema does not fit this version of the hub; None if it does."""
    from alembic.script import ScriptDirectory

    steps = ScriptDirectory.from_config(_alembic(""))
    newest = steps.get_current_head()
    with database.reading() as connection:
        exists = connection.scalar(
            "select count(*) from sqlite_master where name = 'alembic_version'"
            if connection.dialect == "sqlite"
            else "select to_regclass('alembic_version') is not null"
        )
        current = connection.scalar("select version_num from alembic_version") if exists else None
    if current == newest:
        return None
    known = [step.revision for step in steps.walk_revisions()]
    if current is None or current in known:
        return f"the schema is at {current or 'nothing'}, not at {newest}: run `crmhub db upgrade`"
    if current > known[-1]:
        return f"the schema is at {current}, of a newer version of crmhub: run that one"
    return (
        f"the schema is at {current}, of a development version before 0.1.0, and is not upgraded:"
        " use a new database"
    )


def _alembic(url: str) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "crmhub.database:migrations")
    config.attributes["url"] = url
    return config
