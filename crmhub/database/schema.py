"""The database's schema: brought to the newest version, and asked whether it is."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from crmhub.database.connection import Database


def upgrade(url: str) -> None:
    """Bring the database at `url` to the newest schema; safe to run twice or side by side.

    Raises alembic's CommandError when it is of a newer version.
    """
    from alembic import command

    command.upgrade(_alembic(url), "head")
    if url.startswith("postgresql"):
        _distribute_new_tables(url)


def _distribute_new_tables(url: str) -> None:
    """On a distributed database, distribute what the migrations have created."""
    from crmhub.database.distribution import distribute, read_distribution

    with closing(Database(url, pool_size=1)) as database:
        found = read_distribution(database)
        if found is not None and found.tables and found.missing:
            distribute(database)


def pending(database: Database) -> str | None:
    """Return what is wrong with the schema in words, or None when it is the newest."""
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
    if current and all(current != step.revision for step in steps.walk_revisions()):
        return f"the schema is at {current}, of a newer version of crmhub: run that one"
    return f"the schema is at {current or 'nothing'}, not at {newest}: run `crmhub db upgrade`"


def _alembic(url: str) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "crmhub.database:migrations")
    config.attributes["url"] = url
    return config
