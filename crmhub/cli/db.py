"""`crmhub db`: the database's schema, its backups, and an index that an installation may want."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from crmhub.cli.output import print_json
from crmhub.cli.reseal import reseal

if TYPE_CHECKING:
    from crmhub.database.connection import Database
    from crmhub.settings import Settings

_TOLD_EVERY_S = 5


@click.group()
def db() -> None:
    """Look after the database."""


db.add_command(reseal)


@db.command()
def upgrade() -> None:
    """Bring the database to the newest schema.

    Safe to run again, and beside a running service.
    """
    from crmhub.cli.open_hub import upgrade as run_migrations
    from crmhub.settings import Settings

    settings = Settings.load()
    run_migrations(settings)
    click.echo("The database is at the newest schema.")


@db.command()
@click.option("--trigram", is_flag=True, help="Build the index for parts of texts.")
@click.option("--drop-trigram", is_flag=True, help="Remove it.")
def index(trigram: bool, drop_trigram: bool) -> None:
    """Build or remove an optional index (PostgreSQL).

    --trigram answers CONTAINS_TOKEN without reading all values of a property, and makes writes
    dearer. Safe to run again, and beside a running service, which goes on reading and writing.
    """
    from crmhub.cli.open_hub import opened_hub

    if trigram == drop_trigram:
        raise click.UsageError("Say one of --trigram and --drop-trigram.")
    with opened_hub() as hub:
        from crmhub.records import trigrams

        if drop_trigram:
            gone = trigrams.drop(hub.database)
            click.echo("The index is removed." if gone else "There is no such index.")
            return
        made = _told_meanwhile(hub.database)
        click.echo("The index is built." if made else "The index is there already.")


@db.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backup(file: Path, as_json: bool) -> None:
    """Write the whole database into FILE, as it is at one moment, beside a running service.

    For PostgreSQL that is pg_dump's custom format. FILE holds everything but the keys: keep
    CRMHUB_ENCRYPTION_KEYS and CRMHUB_SECRET_KEY elsewhere, since without them the credentials of
    CRMs cannot be read.
    """
    from crmhub.operations import backup as backups
    from crmhub.settings import Settings

    settings = Settings.load()
    try:
        size = backups.backup(settings.database_url, file)
    except OSError as exc:
        raise click.ClickException(f"{exc.filename or file}: {exc.strerror}.") from exc
    if as_json:
        print_json({"file": str(file), "bytes": size})
    else:
        click.echo(f"{file}: {size:,} bytes.")


@db.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def restore(file: Path, as_json: bool) -> None:
    """Fill an empty database from FILE, a backup of the same kind of database.

    All or nothing, and brought to the newest schema. What waited in the journal then may have
    been carried out since: each is looked up in its CRM before it is sent again.
    """
    from crmhub.cli.open_hub import upgrade as run_migrations
    from crmhub.operations import backup as backups
    from crmhub.settings import Settings

    settings = Settings.load()
    try:
        backups.restore(settings.database_url, file)
    except OSError as exc:
        raise click.ClickException(f"{exc.filename or file}: {exc.strerror}.") from exc
    run_migrations(settings)
    _print_contents(settings, "Restored", as_json=as_json)


@db.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def settle(as_json: bool) -> None:
    """Make a database that was restored by other means safe to start the service on.

    Run it after PostgreSQL's or SQLite's own tools, before the service; `crmhub db restore` does
    the same. It brings the database to the newest schema, has each unfinished action looked up in
    its CRM before it is sent again, and skips the ids that may have been given out since. Safe to
    run again.
    """
    from crmhub.cli.open_hub import upgrade as run_migrations
    from crmhub.operations import backup as backups
    from crmhub.settings import Settings

    settings = Settings.load()
    run_migrations(settings)
    backups.settle(settings.database_url)
    _print_contents(settings, "Settled", as_json=as_json)


def _print_contents(settings: Settings, done: str, *, as_json: bool) -> None:
    from crmhub.operations import backup as backups

    held = backups.contents(settings.database_url)
    if as_json:
        print_json(asdict(held))
        return
    click.echo(
        f"{done}: {held.accounts:,} accounts, {held.records:,} records,"
        f" {held.unfinished:,} unfinished actions. `crmhub doctor` tells whether all is in place."
    )


def _told_meanwhile(database: Database) -> bool:
    """Build the index and tell on standard error how far that is."""
    from crmhub.records import trigrams

    with ThreadPoolExecutor(1) as pool:
        building = pool.submit(trigrams.make, database)
        while not wait([building], timeout=_TOLD_EVERY_S).done:
            if how_far := trigrams.progress(database):
                click.echo(how_far, err=True)
    return building.result()
