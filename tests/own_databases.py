"""Databases for tests whose promise is about all accounts there are, or about a fixed one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crmhub.database.connection import Database
from crmhub.database.tables import metadata
from tests import databases

KINDS = ("sqlite", "postgresql")


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
