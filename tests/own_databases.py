"""Databases for tests whose promise is about all accounts there are, or about a fixed one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

import flask
import pytest

from crmhub.app import create_app
from crmhub.database.connection import Database
from crmhub.database.tables import metadata
from tests import databases
from tests.fakes import adapters

KINDS = ("sqlite", "postgresql")


def url_fixture(scope: Literal["module", "session"]) -> Any:
    """Return a fixture: the URL of each database in turn, which no other module's tests use."""

    @pytest.fixture(scope=scope, params=KINDS)
    def url(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[str]:
        with own_database(request.param, tmp_path_factory.mktemp("own")) as found:
            yield found

    return url


@contextmanager
def own_database(kind: str, directory: Path) -> Iterator[str]:
    """Give the URL of a database that no other directory of tests uses."""
    if kind == "sqlite":
        yield databases.sqlite_database(directory)
        return
    if reason := databases.left_out(kind):
        pytest.skip(f"PostgreSQL left out: {reason}")
    with databases.postgresql_database() as url:
        yield url


def empty(url: str) -> None:
    """Take every row out of every table, the schema's version excepted."""
    database = Database(url, pool_size=1)
    with database.reading() as conn:
        # Truncate makes each table and index anew, which takes a hundred times as long.
        for table in reversed(metadata.sorted_tables):
            conn.run(f"delete from {table.name}")
    database.close()


@contextmanager
def emptied_app(
    url: str, root: Path, *points: EntryPoint, **settings: Any
) -> Iterator[flask.Flask]:
    """Give an app that knows these adapters, on a database without rows."""
    empty(url)
    app = create_app(databases.new_settings(url, root))
    with adapters(app, *points):
        yield app
    app.extensions["crmhub"].close()
