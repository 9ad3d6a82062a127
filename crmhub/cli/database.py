"""`crmhub db`: the database's schema."""

from __future__ import annotations

import rich_click as click


@click.group()
def db() -> None:
    """Look after the database."""


@db.command()
def upgrade() -> None:
    """Bring the database to the newest schema.

    Safe to run again, and beside a running service.
    """
    from crmhub.cli.opening import upgrade as run_migrations
    from crmhub.settings import Settings

    settings = Settings.load()
    run_migrations(settings)
    click.echo("The database is at the newest schema.")
