"""crmhub db upgrade, and what commands say before it."""

from __future__ import annotations

import pytest

from crmhub.db import Database, pending
from tests import databases


@pytest.fixture
def bare_postgresql():
    """A PostgreSQL database without any table."""
    if reason := databases.left_out("postgresql"):
        pytest.skip(f"PostgreSQL left out: {reason}")
    with databases.postgresql_database() as url:
        database = Database(url, pool_size=1)
        with database.reading() as conn:
            conn.run("drop schema public cascade")
            conn.run("create schema public")
        database.close()
        yield url


def test_a_bare_postgresql_is_upgraded_when_told_only(crmhub, bare_postgresql):
    crmhub.env["CRMHUB_DATABASE_URL"] = bare_postgresql
    for command in (["account", "list"], ["demo"], ["serve"]):
        refused = crmhub(*command, code=1).stderr
        assert "run `crmhub db upgrade`" in refused
        assert refused.count("\n") == 1
    assert crmhub("db", "upgrade").stdout == "The database is at the newest schema.\n"
    crmhub("db", "upgrade")
    assert crmhub.json("account", "list") == []


def test_a_bare_sqlite_is_made_ready_by_itself(crmhub, tmp_path):
    crmhub.env["CRMHUB_DATABASE_URL"] = f"sqlite:///{tmp_path}/new.db"
    assert crmhub.json("account", "list") == []
    assert pending(Database(f"sqlite:///{tmp_path}/new.db")) is None
