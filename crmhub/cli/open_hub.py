"""Open the hub for a command: read the settings, prepare the database, close it at the end."""

from __future__ import annotations

import gc
import logging
import os
import pwd
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from crmhub.errors import Unavailable

if TYPE_CHECKING:
    from crmhub.audit import Author
    from crmhub.hub import Hub
    from crmhub.settings import Settings


@contextmanager
def opened_hub() -> Iterator[Hub]:
    """Open a hub on a database with the newest schema, and close it at the end.

    Raises SettingsError for an invalid setting, and Unavailable for an unusable database.
    """
    # The command prints the error itself; a log line would repeat it.
    logging.getLogger("crmhub").addHandler(logging.NullHandler())
    # Imported modules stay in memory; looking for garbage among them takes a fifth of the time of a
    # short command.
    gc.disable()
    try:
        from crmhub.hub import Hub
        from crmhub.settings import Settings

        settings = Settings.load()
        _tell_of_new_file(settings)
        make_ready(settings)
        hub = Hub.open(settings)
    finally:
        # Once a process, since garbage of a former command would stay as well.
        if not gc.get_freeze_count():
            gc.freeze()
        gc.enable()
    try:
        with hub.database.across_accounts():
            yield hub
    finally:
        hub.close()


def _tell_of_new_file(settings: Settings) -> None:
    """Say on a terminal where a new SQLite database is made: another folder has another one."""
    name = settings.database_url.removeprefix("sqlite:///")
    is_sqlite = name != settings.database_url
    if is_sqlite and sys.stderr.isatty() and not Path(name).exists():
        click.echo(f"There was no database at {name}; a new one is made.", err=True)


def make_ready(settings: Settings) -> None:
    """Migrate SQLite; check PostgreSQL, which other processes may use and the operator migrates.

    Raises Unavailable if it cannot be used, and SettingsError if it is used with other secrets.
    """
    from crmhub.operators.database import database_keys

    if settings.database_url.startswith("sqlite"):
        _make_sqlite_ready(settings)
    else:
        _check_schema(settings)
    database_keys.claim(settings)


def _check_schema(settings: Settings) -> None:
    from crmhub.database.connection import Database
    from crmhub.database.schema import pending

    with closing(Database(settings.database_url, pool_size=1)) as database:
        try:
            pending_migrations = pending(database)
        except (Unavailable, database.drivers_errors) as exc:
            fault = first_line(exc.__cause__ or exc)
            raise Unavailable(f"The database cannot be used: {fault}.") from exc
    if pending_migrations:
        raise Unavailable(f"The database is not ready: {pending_migrations}.")


def _make_sqlite_ready(settings: Settings) -> None:
    """Run the missing migrations; on a full disk, with the space that the hub has reserved."""
    from sqlalchemy.engine import make_url

    from crmhub.database.drivers import Unwritable, keep_reserve, use_reserve

    url = make_url(settings.database_url)
    try:
        if not _is_newest(settings):
            upgrade(settings)
    except Unwritable:
        if not use_reserve(url):
            raise
        upgrade(settings)
    else:
        keep_reserve(url)


def _is_newest(settings: Settings) -> bool:
    """Return whether a SQLite database has the newest schema, without importing Alembic."""
    from sqlalchemy.exc import SQLAlchemyError

    from crmhub.database.connection import Database
    from crmhub.database.schema import current, revisions

    if not Path(settings.database_url.removeprefix("sqlite:///")).exists():
        return False
    with closing(Database(settings.database_url, pool_size=1)) as database:
        try:
            return current(database) == revisions()[-1]
        except (Unavailable, SQLAlchemyError, database.drivers_errors):
            # The upgrade meets the same error, and says what is wrong.
            return False


def warn_of_disk(settings: Settings) -> None:
    """Log a warning if the disk of a SQLite database is full or cannot be written."""
    from sqlalchemy.engine import make_url

    from crmhub.database.drivers import check_disk

    try:
        if settings.database_url.startswith("sqlite"):
            check_disk(make_url(settings.database_url))
    except Unavailable as exc:
        logging.getLogger("crmhub.serve").warning(
            "%s Until then reads are answered, and writes refused.", exc.message
        )


def upgrade(settings: Settings) -> None:
    """Run the missing migrations of the database; warn if an index cannot be built.

    Raises Unwritable if the disk is full, else Unavailable.
    """
    from alembic.util import CommandError
    from sqlalchemy.exc import SQLAlchemyError

    from crmhub.database import schema
    from crmhub.database.drivers import Unwritable, without_room

    try:
        if reason := schema.upgrade(settings.database_url):
            click.echo(f"Warning: searches for parts of texts are slow: {reason}", err=True)
    except SQLAlchemyError as exc:
        cause = getattr(exc, "orig", None) or exc
        if reason := without_room(cause):
            raise Unwritable(f"{reason}; make room on it, then start again.") from exc
        raise Unavailable(f"The database cannot be migrated: {first_line(cause)}.") from exc
    except CommandError:
        _check_schema(settings)
        raise


def first_line(exc: BaseException) -> str:
    return str(exc).strip().partition("\n")[0]


def base_url(hub: Hub, url: str | None = None) -> str:
    """Return the address of the service, by default this machine's, without a slash at its end."""
    from crmhub.server.processes import local_host, origin

    local = origin(local_host(hub.settings.host), hub.settings.port)
    return (url or hub.settings.public_url or local).rstrip("/")


def author() -> Author:
    """Return the system user who runs the command, as the author of audit entries."""
    from crmhub.audit import Author

    try:
        # getpass.getuser would trust the environment.
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A container may run under a user id without a name.
        name = f"uid {os.getuid()}"
    return Author("cli", name)
