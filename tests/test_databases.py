"""What the fixtures for databases promise, and the words and exit status of a run."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from crmhub.accounts.changes import open_account
from crmhub.accounts.plans import BUILT_IN
from crmhub.database.connection import Database
from crmhub.database.schema import pending
from tests import databases
from tests.depth import thorough
from tests.own_databases import KINDS, empty, own_database

ROOT = Path(__file__).parents[1]
SUITE = """
    def test_database(database_url): pass
    def test_redis(redis_url): pass
    def test_neither(): pass
"""
# A port on which nothing listens.
AWAY = {
    "CRMHUB_TEST_POSTGRES": "postgresql+psycopg://root:hunter2@127.0.0.1:9/postgres",
    "CRMHUB_TEST_REDIS": "redis://:hunter2@127.0.0.1:9",
}


@pytest.fixture
def run_suite(tmp_path):
    """Run a small suite under the project's own conftest; return its exit status and output."""

    def run(suite: str = SUITE, workers: int = 0, **environ: str) -> tuple[int, str]:
        (tmp_path / "test_suite.py").write_text(textwrap.dedent(suite))
        plugins = ["-p", "tests.conftest", *(["-p", "xdist", f"-n{workers}"] if workers else [])]
        command = [sys.executable, "-m", "pytest", *plugins, tmp_path]
        clean = {key: value for key, value in os.environ.items() if key != "CRMHUB_TEST_REQUIRE"}
        finished = subprocess.run(
            [*command, "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path],
            cwd=ROOT,
            # Of the plugins only what is needed: the others take as long to load as the run does.
            env=clean | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | environ,
            capture_output=True,
            text=True,
        )
        return finished.returncode, finished.stdout + finished.stderr

    return run


def test_databases_are_at_the_newest_schema(database_url):
    with closing(Database(database_url)) as database:
        assert pending(database) is None


def test_a_postgresql_database_is_dropped_although_someone_holds_it(postgresql_url):
    with databases.postgresql_database() as url:
        database = Database(url)
        with database.reading() as connection:
            name = connection.scalar("select current_database()")
    database.close()
    with closing(Database(postgresql_url)) as other, other.reading() as connection:
        gone = connection.scalar("select count(*) from pg_database where datname = :n", {"n": name})
    assert gone == 0
    assert name.startswith("crmhub_test_")


def test_what_is_told_is_heard_whatever_options_the_address_has(postgresql_url):
    options = "options=-c%20search_path%3Dpublic&application_name=a%20b"
    with closing(Database(f"{postgresql_url}?{options}")) as database:
        heard = database.listen()
        assert next(heard) is False
        database.transact(lambda tx: database.notify_workers())
        assert next(heard) is True
        heard.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_emptied_has_its_schema_and_no_row(kind, tmp_path):
    with own_database(kind, tmp_path) as url, closing(Database(url)) as database:
        database.transact(lambda tx: open_account(tx, name="Acme", plans=BUILT_IN))
        empty(url)
        assert pending(database) is None
        with database.reading() as connection:
            for table in ("account", "api_key", "webhook_id"):
                assert connection.scalar(f"select count(*) from {table}") == 0


def test_two_claims_never_share_a_redis_database(redis_url, redis_database):
    redis_database.set("crmhub-tests", os.getppid())
    with databases.redis_database() as other:
        assert databases.emptied(other) != redis_url
    redis_database.set("crmhub-tests", os.getpid())


def test_a_redis_database_with_keys_of_others_is_left_alone(redis_url, redis_database):
    # In this order: it is never without keys, so that no other run claims it meanwhile.
    redis_database.set("precious", "1")
    redis_database.delete("crmhub-tests")
    with databases.redis_database() as other:
        assert databases.emptied(other) != redis_url
    assert redis_database.get("precious") == "1"
    redis_database.set("crmhub-tests", os.getpid())


def test_a_dead_claim_is_taken_over(redis_url, redis_database, monkeypatch):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    # Another mark than that of other runs, which would take it over as well.
    monkeypatch.setattr(databases, "_OURS", "crmhub-tests-dead")
    redis_database.set("crmhub-tests-dead", dead.pid)
    redis_database.set("left", "over")
    # Its own number alone: other runs come and go, and may leave a lower one free.
    number = redis_database.get_connection_kwargs()["db"]
    with closing(databases._claim([number])) as client:
        assert databases.emptied(client) == redis_url
    redis_database.set("crmhub-tests", os.getpid())


@thorough
def test_the_summary_names_each_database_and_its_tests(run_suite, postgresql_url, redis_url):
    status, output = run_suite(workers=2, CRMHUB_TEST_REQUIRE="postgresql,redis,sqlite")
    assert status == 0, output
    assert "ran on: SQLite (1 test); PostgreSQL (1 test); Redis (1 test)" in output


@thorough
def test_a_run_fails_without_the_databases_it_requires(run_suite):
    status, output = run_suite(workers=2, **AWAY, CRMHUB_TEST_REQUIRE="postgresql, redis")
    assert status == 1, output
    assert "CRMHUB_TEST_REQUIRE names postgresql, but it cannot be used: " in output
    assert "CRMHUB_TEST_REQUIRE names redis, but it cannot be used: " in output
    assert "PostgreSQL left out: " in output
    assert "hunter2" not in output


@thorough
def test_a_run_fails_when_no_test_used_what_it_requires(run_suite):
    status, output = run_suite("def test_neither(): pass", CRMHUB_TEST_REQUIRE="sqlite")
    assert status == 1, output
    assert "CRMHUB_TEST_REQUIRE names sqlite, but no test ran on it" in output
