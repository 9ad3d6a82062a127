"""The hub as commands work with it: settings read, database ready, closed at the end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from crmhub.errors import Unavailable

if TYPE_CHECKING:
    from crmhub.accounts.accounts import Account
    from crmhub.audit import Author
    from crmhub.hub import Hub
    from crmhub.settings import Settings


@contextmanager
def opened_hub() -> Iterator[Hub]:
    """Lend a hub on a database with the newest schema.

    Raises SettingsError, and Unavailable when the database is away or must be migrated first.
    """
    from crmhub.hub import Hub
    from crmhub.settings import Settings

    # A command says itself what went wrong; lines of the log between would say it twice.
    logging.getLogger("crmhub").addHandler(logging.NullHandler())
    settings = Settings.load()
    make_ready(settings)
    hub = Hub.open(settings)
    try:
        yield hub
    finally:
        hub.close()


def make_ready(settings: Settings) -> None:
    """Migrate a SQLite database; of PostgreSQL, where others may be at work, only demand it.

    Raises Unavailable.
    """
    if settings.database_url.startswith("sqlite"):
        _make_sqlite_ready(settings)
        return
    from crmhub.database.connection import Database
    from crmhub.database.schema import pending

    database = Database(settings.database_url, pool_size=1)
    try:
        behind = pending(database)
    except (Unavailable, database.drivers_errors) as exc:
        raise Unavailable(
            f"The database cannot be used: {first_line(exc.__cause__ or exc)}."
        ) from exc
    finally:
        database.close()
    if behind:
        raise Unavailable(f"The database is not ready: {behind}.")


def _make_sqlite_ready(settings: Settings) -> None:
    """Migrate the database; where its disk is full, only demand that it need not be migrated."""
    from sqlalchemy.engine import make_url

    from crmhub.database.drivers import (
        Unwritable,
        keep_reserve,
        use_reserve,
    )

    url = make_url(settings.database_url)
    try:
        upgrade(settings)
    except Unwritable:
        if not use_reserve(url):
            raise
        upgrade(settings)
    else:
        keep_reserve(url)


def warn_of_disk(settings: Settings) -> None:
    """Say in the log that SQLite's disk takes no writes, where it does not."""
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
    """Run the migrations that are missing; raises Unavailable when the database is away.

    Also when it is of a newer version, and Unwritable when there is no room for them.
    """
    from alembic.util import CommandError
    from sqlalchemy.exc import SQLAlchemyError

    from crmhub.database import schema
    from crmhub.database.drivers import Unwritable, without_room

    try:
        schema.upgrade(settings.database_url)
    except SQLAlchemyError as exc:
        cause = getattr(exc, "orig", None) or exc
        if wrong := without_room(cause):
            raise Unwritable(f"{wrong}; make room on it, then start again.") from exc
        raise Unavailable(f"The database cannot be migrated: {first_line(cause)}.") from exc
    except CommandError as exc:
        raise Unavailable(
            f"The database is of a newer version of crmhub ({exc}); run that one."
        ) from exc


def first_line(exc: BaseException) -> str:
    """Return the first line of what a driver says is wrong."""
    return str(exc).strip().partition("\n")[0]


def author() -> Author:
    """Return who runs this command, as the audit log names them."""
    import os
    import pwd

    from crmhub.audit import Author

    try:
        # Not getpass.getuser: that believes the environment.
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A container may run under a number that has no name.
        name = f"uid {os.getuid()}"
    return Author("cli", name)


def load_account(hub: Hub, client_id: str) -> Account:
    """Return the account, disabled or not; raises NotFound."""
    from crmhub.accounts import accounts

    with hub.database.reading() as db:
        return accounts.load(db, client_id, hub.plans)
