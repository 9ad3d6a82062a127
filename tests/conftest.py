"""Fixtures that every test may use. Accounts are tenants: a test opens its own and sees no other's.

Nothing is emptied between tests, so they run side by side and in any order.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import flask
import hypothesis
import pytest
import redis

from crmhub.accounts import limits
from crmhub.app import create_app
from crmhub.database import drivers, pool
from crmhub.hub import Hub
from crmhub.queue import slots
from crmhub.settings import Settings
from crmhub.users import passwords
from tests import databases, garbage, marks, statements
from tests.clients import Client, open_client
from tests.fakes import FAKE, FakeCrm, adapters, fake_client

# What is drawn is the same in each run, and may take as long as a busy machine needs.
hypothesis.settings.load_profile("ci")
# However busy the machine is, the database and Redis are there.
limits._REDIS_SECONDS = 120.0
pool.BUSY_SECONDS = 60
drivers._PATIENCE["connect_timeout"] = "60"
pool.prepare_sqlite = databases.prepare_sqlite
# Tests call the app of one process with more threads than a server would let in.
slots._SHARE = 8


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        # /docs serves them. An installation has built them, of the pages there were by then.
        builder = Path(__file__).parents[1] / "hatch_build.py"
        subprocess.run([sys.executable, builder], check=True)
    # The workers of xdist run the tests; the process that they report to does the telling.
    config.pluginmanager.register(databases.DatabaseReport(), "databases")
    config.pluginmanager.register(marks.Marks(), "marks")
    config.pluginmanager.register(statements.StatementRecorder(), "statements")
    config.pluginmanager.register(garbage.LastingItems(), "garbage")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one more for every two processors: a part of each worker's time is waiting.

    No more than Redis, which has 15 databases, leaves room for beside a second run.
    """
    processors = os.cpu_count() or 1
    return min(processors + (processors + 1) // 2, 7)


@pytest.fixture(autouse=True)
def _no_settings_are_left() -> Iterator[None]:
    """`crmhub serve` hands its options on in the environment: no test finds another one's there."""
    before = _our_environment()
    yield
    for name in _our_environment():
        del os.environ[name]
    os.environ.update(before)


def _our_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("CRMHUB_")}


@pytest.fixture(scope="session")
def sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A SQLite database at the newest schema, one for each worker."""
    return databases.sqlite_database(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A PostgreSQL database at the newest schema, one for each worker; skips without a server."""
    if reason := databases.left_out("postgresql"):
        pytest.skip(f"PostgreSQL left out: {reason}")
    with databases.postgresql_database() as url:
        yield url


@pytest.fixture(scope="session")
def secured_url() -> Iterator[str]:
    """A PostgreSQL database with row-level security, for the role of the service."""
    if reason := databases.left_out("postgresql"):
        pytest.skip(f"PostgreSQL left out: {reason}")
    with databases.secured_postgresql_database() as url:
        yield url


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Each database in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def redis_database() -> Iterator[redis.Redis]:
    """A Redis database that this worker alone uses; skips without a server."""
    if reason := databases.left_out("redis"):
        pytest.skip(f"Redis left out: {reason}")
    with databases.redis_database() as client:
        yield client


@pytest.fixture
def redis_url(redis_database: redis.Redis) -> str:
    """The address of an empty Redis database."""
    return databases.emptied(redis_database)


@pytest.fixture(scope="session")
def settings(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a fresh installation on each database in turn."""
    return databases.new_settings(database_url, tmp_path_factory.mktemp("root"))


@pytest.fixture(scope="session")
def app(settings: Settings) -> Iterator[flask.Flask]:
    """The whole application on each database in turn."""
    app = create_app(settings)
    yield app
    hub: Hub = app.extensions["crmhub"]
    hub.close()


@pytest.fixture
def hub(app: flask.Flask) -> Hub:
    """What the application works with."""
    hub: Hub = app.extensions["crmhub"]
    return hub


@pytest.fixture
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new passwords be hashed in a millisecond instead of half a second."""
    quick = passwords._NOBODYS.replace(f"${passwords._LOG_N}$", "$6$", 1)
    monkeypatch.setattr(passwords, "_LOG_N", 6)
    monkeypatch.setattr(passwords, "_NOBODYS", quick)


@pytest.fixture
def client(app: flask.Flask) -> Client:
    """A caller with every scope of a fresh account without limits."""
    return open_client(app)


@pytest.fixture
def other(app: flask.Flask) -> Client:
    """A caller of another fresh account."""
    return open_client(app)


@pytest.fixture
def fakes(app: flask.Flask) -> Iterator[None]:
    """Let the app know the fake CRM."""
    with adapters(app, FAKE):
        yield


@pytest.fixture
def fake(app: flask.Flask) -> tuple[Client, FakeCrm]:
    """A caller of an account that uses a fake CRM, and that CRM."""
    return fake_client(app)


@pytest.fixture
def bot(fake: tuple[Client, FakeCrm]) -> Client:
    """The caller of that account."""
    return fake[0]


@pytest.fixture
def crm(fake: tuple[Client, FakeCrm]) -> FakeCrm:
    """The fake CRM of that account."""
    return fake[1]
