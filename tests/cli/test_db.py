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


def test_the_index_of_trigrams_comes_and_goes(crmhub, database_url):
    if database_url.startswith("sqlite"):
        for option in ("--trigram", "--drop-trigram"):
            told = crmhub("db", "index", option, code=1).stderr
            assert told.startswith("crmhub: The index of trigrams is one of PostgreSQL")
        return
    for option, told in (
        ("--trigram", "The index is built."),
        ("--trigram", "The index is there already."),
        ("--drop-trigram", "The index is removed."),
        ("--drop-trigram", "There is no such index."),
    ):
        assert crmhub("db", "index", option).stdout == f"{told}\n"


@pytest.mark.parametrize("options", [(), ("--trigram", "--drop-trigram")])
def test_an_index_is_built_or_removed(crmhub, options):
    assert "one of --trigram and --drop-trigram" in crmhub("db", "index", *options, code=2).stderr
