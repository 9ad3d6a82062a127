"""`crmhub db`: upgrade, distribute, secure, index, back up, restore and reseal the database."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.output import print_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crmhub.operators.database.reseal_secrets import Broken
    from crmhub.settings import Settings

_REPORT_EVERY_S = 5


@click.group()
def db() -> None:
    """Upgrade, back up and restore the database."""


@db.command()
def upgrade() -> None:
    """Upgrade the database to the newest schema.

    Safe to run again, and while the service runs.
    """
    from crmhub.cli.open_hub import upgrade as run_migrations
    from crmhub.settings import Settings

    settings = Settings.load()
    run_migrations(settings)
    click.echo("The database is at the newest schema.")


@db.command()
@click.option("--trigram", is_flag=True, help="Build the index for substring search.")
@click.option("--drop-trigram", is_flag=True, help="Remove the index for substring search.")
def index(trigram: bool, drop_trigram: bool) -> None:
    """Build or remove the index for parts of texts.

    `crmhub db upgrade` builds it; on SQLite the worker then fills it, and this command does so at
    once. With it CONTAINS_TOKEN does not read all values of a property; writes become slower. Safe
    to run again, and while the service reads and writes.
    """
    from concurrent.futures import ThreadPoolExecutor, wait

    from crmhub.cli.open_hub import opened_hub

    if trigram == drop_trigram:
        raise click.UsageError("Give --trigram or --drop-trigram.")
    with opened_hub() as hub:
        from crmhub.database import part_indexes
        from crmhub.records import text_parts

        if drop_trigram:
            dropped = part_indexes.drop(hub.database)
            click.echo("The index is removed." if dropped else "There is no such index.")
            return
        with ThreadPoolExecutor(1) as pool:
            building = pool.submit(part_indexes.build, hub.database)
            while not wait([building], timeout=_REPORT_EVERY_S).done:
                if message := part_indexes.progress(hub.database):
                    click.echo(message, err=True)
        before, left = math.inf, text_parts.fill(hub.database)
        # Others may write all the time.
        while 0 < left < before:
            click.echo(f"{left} records are left", err=True)
            before, left = left, text_parts.fill(hub.database)
        if left:
            click.echo(f"The worker indexes {left} records later.", err=True)
        click.echo("The index is built." if building.result() else "The index exists already.")


@db.command()
@click.option(
    "--shards",
    type=click.IntRange(1, 1024),
    default=32,
    show_default=True,
    help="Parts of each table, which Citus spreads over its nodes. Cannot be changed later.",
)
def distribute(shards: int) -> None:
    """Distribute the accounts over several servers (PostgreSQL with the extension Citus).

    All rows of an account are on one server. Writers wait while rows are moved, so stop the
    service first if the database holds many. Safe to run again; `crmhub db upgrade` distributes
    the tables of later versions.
    """
    from crmhub.cli.open_hub import opened_hub
    from crmhub.database import distribution

    with opened_hub() as hub:
        names = distribution.distribute(hub.database, shards=shards)
    if names:
        click.echo(f"{len(names)} tables are distributed by account.")
    else:
        click.echo("All tables are distributed already.")


@db.command()
@click.option(
    "--role",
    default="crmhub_service",
    show_default=True,
    help="The role with which the service connects; it is created if it is missing.",
)
@click.option("--off", is_flag=True, help="Remove row-level security.")
def secure(role: str, off: bool) -> None:
    """Put the accounts' tables under row-level security (PostgreSQL).

    PostgreSQL itself then hides the rows of other accounts from each request and each attempt. Run
    it as the owner of the tables; `crmhub serve` and `crmhub worker` then connect as ROLE. Safe to
    run again; `crmhub db upgrade` protects the tables of later versions.
    """
    from crmhub.cli.open_hub import opened_hub
    from crmhub.database import row_security

    with opened_hub() as hub:
        if off:
            names = row_security.release(hub.database)
            click.echo(f"Row-level security is removed from {len(names)} tables.")
            return
        names = row_security.secure(hub.database, role)
    click.echo(
        f"{len(names)} tables are newly protected." if names else "All tables are protected."
    )
    click.echo(
        f"Set a password (ALTER ROLE {role} PASSWORD '…'), name the role in CRMHUB_DATABASE_URL of"
        " `crmhub serve` and `crmhub worker`, and restart them. The other commands of `crmhub db`"
        " go on as the owner."
    )


@db.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backup(file: Path, as_json: bool) -> None:
    """Back up the whole database to FILE, as a consistent snapshot, while the service runs.

    PostgreSQL's FILE is in pg_dump's custom format. FILE does not contain the keys: store
    CRMHUB_ENCRYPTION_KEYS and CRMHUB_SECRET_KEY elsewhere. Without them the CRM credentials in the
    backup cannot be read.
    """
    from crmhub.operators.database import backup as backups
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

    Restores all or nothing, then upgrades to the newest schema. An unfinished action of the backup
    may have been sent since; the hub looks it up in its CRM before it sends it again.
    """
    from crmhub.cli.open_hub import upgrade as run_migrations
    from crmhub.operators.database import backup as backups
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
    """Prepare a database that was restored with PostgreSQL's or SQLite's own tools.

    Run it after the restore and before the service; `crmhub db restore` does the same by itself. It
    upgrades the schema, marks each unfinished action to be looked up in its CRM before it is sent
    again, and skips record ids that may have been used since. Safe to run again.
    """
    from crmhub.cli.open_hub import upgrade as run_migrations
    from crmhub.operators.database import backup as backups
    from crmhub.settings import Settings

    settings = Settings.load()
    run_migrations(settings)
    backups.settle(settings.database_url)
    _print_contents(settings, "Settled", as_json=as_json)


def _print_contents(settings: Settings, done: str, *, as_json: bool) -> None:
    from crmhub.operators.database import backup as backups

    contents = backups.contents(settings.database_url)
    if as_json:
        print_json(asdict(contents))
        return
    click.echo(
        f"{done}: {contents.accounts:,} accounts, {contents.records:,} records,"
        f" {contents.unfinished:,} unfinished actions. `crmhub doctor` checks the installation."
    )


@db.command()
@click.option("--check", is_flag=True, help="Only count the sealed values per key.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reseal(check: bool, as_json: bool) -> None:
    """Reseal the stored credentials with the first encryption key, so that old keys can be removed.

    Safe to run again, in several processes, and while the service runs. Exits with 1 while a value
    is still sealed with another key.
    """
    from crmhub.cli.open_hub import author, opened_hub

    with opened_hub() as hub:
        from crmhub.operators.database import reseal_secrets

        done = 0
        broken: Sequence[Broken] = ()
        if not check:
            result = reseal_secrets.reseal(
                hub,
                by=author(),
                report=lambda count: click.echo(f"{count} resealed so far", err=True),
            )
            done, broken = result.done, result.broken
        counts = reseal_secrets.counts(hub.database)
        key_ids = hub.vault.key_ids
    counts_by_key = {key_id: counts[key_id] for key_id in (*key_ids, *sorted(counts))}
    if as_json:
        print_json({"resealed": done, "first": key_ids[0], "sealed": counts_by_key})
    else:
        if not check:
            were = "value was" if done == 1 else "values were"
            click.echo(f"{done} {were} resealed with {key_ids[0]}.")
        _print_keys(counts_by_key, key_ids)
    for secret in broken:
        click.echo(f"crmhub: {secret.client_id}: {secret.reason}", err=True)
    if any(count for key_id, count in counts_by_key.items() if key_id != key_ids[0]):
        raise Exit(1)


def _print_keys(counts_by_key: Mapping[str, int], key_ids: Sequence[str]) -> None:
    for key_id, count in counts_by_key.items():
        if key_id == key_ids[0]:
            advice = "the first key"
        elif key_id not in key_ids:
            advice = "missing from CRMHUB_ENCRYPTION_KEYS: add it, or enter these secrets again"
        elif count:
            advice = "still needed"
        else:
            advice = "no longer needed: remove it from CRMHUB_ENCRYPTION_KEYS"
        click.echo(f"{key_id}: {count} ({advice})")
