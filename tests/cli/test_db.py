"""crmhub db upgrade, and what commands say before it."""

from __future__ import annotations

from contextlib import closing

import pytest
from sqlalchemy.engine import make_url

from crmhub.database import part_indexes
from crmhub.database.connection import Database
from crmhub.database.schema import pending
from crmhub.errors import Semantic
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
    with closing(Database(f"sqlite:///{tmp_path}/new.db")) as database:
        assert pending(database) is None


def test_what_the_server_says_is_told(crmhub, bare_postgresql):
    url = make_url(bare_postgresql).set(database="nobodys")
    crmhub.env["CRMHUB_DATABASE_URL"] = url.render_as_string(hide_password=False)
    for command in (["account", "list"], ["db", "upgrade"]):
        refused = crmhub(*command, code=1).stderr
        assert 'database "nobodys" does not exist' in refused
        assert refused.count("\n") == 1


@pytest.fixture(params=["9999", "0029"])
def of_another_version(own_url, request):
    """A database that a newer version, or one before 0.1.0, has migrated; what is said of it."""
    database = Database(own_url, pool_size=1)
    with database.reading() as conn:
        now = conn.scalar("select version_num from alembic_version")
    _stamp(database, request.param)
    yield {
        "9999": "at 9999, of a newer version of crmhub: run that one.",
        "0029": "at 0029, of a development version before 0.1.0, and is not upgraded: use a new",
    }[request.param]
    _stamp(database, now)
    database.close()


def _stamp(database, revision):
    with database.reading() as conn:
        conn.run("update alembic_version set version_num = :it", {"it": revision})


def test_a_database_of_another_version_is_refused(crmhub, of_another_version):
    for command in (["db", "upgrade"], ["account", "list"], ["serve"]):
        refused = crmhub(*command, code=1).stderr
        assert of_another_version in refused
        assert "db upgrade" not in refused
        assert refused.count("\n") == 1
    assert of_another_version.partition(":")[0] in crmhub("doctor", code=1).stdout


def test_tables_of_another_schema_are_none_of_ours(crmhub, bare_postgresql):
    database = Database(bare_postgresql, pool_size=1)
    with database.reading() as conn:
        conn.run("create schema other")
        conn.run("create table other.alembic_version (version_num text)")
    assert "is at nothing" in pending(database)
    database.close()


def test_the_index_of_trigrams_comes_and_goes(crmhub, own_url):
    for option, told in (
        ("--trigram", "The index exists already."),
        ("--drop-trigram", "The index is removed."),
        ("--drop-trigram", "There is no such index."),
        ("--trigram", "The index is built."),
    ):
        assert crmhub("db", "index", option).stdout == f"{told}\n"


def test_an_upgrade_builds_the_indexes_for_parts_and_doctor_misses_them(crmhub, own_url):
    def warnings():
        checks = crmhub.json("doctor")["checks"]
        return [each["message"] for each in checks if each["name"] == "parts of texts"]

    crmhub("db", "index", "--drop-trigram")
    assert "`crmhub db index --trigram` builds it" in warnings()[0]
    assert crmhub("db", "upgrade").stderr == ""
    assert warnings() == []


def test_an_upgrade_that_may_not_build_an_index_succeeds_and_warns(crmhub, own_url, monkeypatch):
    def refuse(_):
        raise Semantic("The database server has no extension pg_trgm.")

    monkeypatch.setattr(part_indexes, "build", refuse)
    done = crmhub("db", "upgrade")
    assert done.stdout == "The database is at the newest schema.\n"
    assert done.stderr.startswith("Warning: searches for parts of texts are slow: The database se")


def test_an_index_is_built_or_removed(crmhub):
    for options in ((), ("--trigram", "--drop-trigram")):
        assert "Give --trigram or --drop-trigram" in crmhub("db", "index", *options, code=2).stderr
