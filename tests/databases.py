"""What the tests run on: SQLite always; all others that are there.

`CRMHUB_TEST_POSTGRES` and `CRMHUB_TEST_REDIS` say where they are. The tests make and drop
databases of their own on PostgreSQL; on Redis they claim an empty numbered one and empty it again.
What `CRMHUB_TEST_REQUIRE` names (`postgresql,redis,chromium,nginx,pgbouncer,npm,pypi,tryton`) must
have been used, or the run fails.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
import redis
from sqlalchemy.engine import make_url

from benchmarks.places import administer
from crmhub.database import drivers, row_security
from crmhub.database.connection import Database
from crmhub.database.schema import upgrade
from crmhub.secrets import BASE36, EncryptionKey, token
from crmhub.settings import Settings
from tests.depth import ALL

NAMES = {
    "sqlite": "SQLite",
    "postgresql": "PostgreSQL",
    "redis": "Redis",
    "chromium": "Chromium",
    "nginx": "nginx",
    "pgbouncer": "pgbouncer",
    "npm": "npm",
    "pypi": "PyPI",
    "tryton": "Tryton",
}
CHROMIUM = Path("/usr/bin/chromium")
NGINX = Path("/usr/sbin/nginx")
PGBOUNCER = Path("/usr/sbin/pgbouncer")
TRYTON = Path(__file__).parents[1] / ".venv-tryton"
POSTGRES = os.environ.get(
    "CRMHUB_TEST_POSTGRES", "postgresql+psycopg://root@127.0.0.1:5432/postgres"
)
REDIS = os.environ.get("CRMHUB_TEST_REDIS", "redis://127.0.0.1:6379")
_PATIENCE = 60

_OURS = "crmhub-tests"
# Take over the mark of a run that is no more, unless another run was quicker.
_TAKE_OVER = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) end"


@cache
def left_out(name: str) -> str | None:
    """Return why this cannot be used, or None when it can."""
    try:
        if name == "postgresql":
            _postgresql().close()
        if name == "redis":
            with closing(_redis(0)) as client:
                client.ping()
    except (psycopg.Error, redis.RedisError) as exc:
        return str(exc).partition("\n")[0]
    if name == "chromium" and not CHROMIUM.exists():
        return f"there is no {CHROMIUM}; Debian's package chromium has it"
    if name == "nginx" and not NGINX.exists():
        return f"there is no {NGINX}; Debian's package nginx-light has it"
    if name == "pgbouncer" and not PGBOUNCER.exists():
        return f"there is no {PGBOUNCER}; Debian's package pgbouncer has it"
    if name == "tryton":
        return _tryton_left_out()
    if name in ("npm", "pypi") and not ALL:
        return "make test-all runs the programs that tests install from it"
    return _npm_left_out() if name == "npm" else None


def _tryton_left_out() -> str | None:
    if not (TRYTON / ".ready").exists():
        return f"there is no {TRYTON.name}; make {TRYTON.name}/.ready installs it"
    return left_out("postgresql")


def _npm_left_out() -> str | None:
    if not (npm := shutil.which("npm")):
        return "there is no npm; Node.js has it"
    ping = subprocess.run([npm, "ping"], capture_output=True, timeout=_PATIENCE, check=False)
    return None if ping.returncode == 0 else "its registry does not answer"


def _postgresql() -> psycopg.Connection:
    url = make_url(POSTGRES).set(drivername="postgresql")
    return psycopg.connect(
        url.render_as_string(hide_password=False), autocommit=True, connect_timeout=_PATIENCE
    )


def _redis_url(number: int) -> str:
    return make_url(REDIS).set(database=str(number)).render_as_string(hide_password=False)


def _redis(number: int) -> redis.Redis:
    return redis.Redis.from_url(_redis_url(number), socket_timeout=_PATIENCE, decode_responses=True)


def new_settings(url: str, root: Path, **others: Any) -> Settings:
    """Return the settings of an installation on this database."""
    return Settings(
        root=root,
        database_url=url,
        secret_key="the secret key of the tests alone",
        encryption_keys=(EncryptionKey("k1", b"k" * 32),),
        # A busy machine ends no search of a test that is about something else.
        **{"search_timeout_s": 60, **others},
    )


def sqlite_database(directory: Path) -> str:
    """Return the URL of a fresh SQLite database at the newest schema."""
    file = directory / "crmhub.db"
    file.write_bytes(_sqlite_template())
    return f"sqlite:///{file}"


@cache
def _sqlite_template() -> bytes:
    """Return the file of a SQLite database at the newest schema; this process migrates it once."""
    with TemporaryDirectory() as directory:
        file = Path(directory, "crmhub.db")
        upgrade(f"sqlite:///{file}")
        return file.read_bytes()


@contextmanager
def postgresql_database() -> Iterator[str]:
    """Make a PostgreSQL database at the newest schema, give its URL, and drop it afterwards."""
    with empty_postgresql_database(template=_postgresql_template()) as url:
        yield url


@cache
def _postgresql_template() -> str:
    """Return the name of a PostgreSQL database to copy; this process migrates it once.

    `DatabaseReport` drops it when the run ends.
    """
    name = f"crmhub_test_{os.getpid()}_{token(40, BASE36)}_template"
    administer(POSTGRES, f"create database {name} encoding 'UTF8' template template0")
    upgrade(make_url(POSTGRES).set(database=name).render_as_string(hide_password=False))
    return name


def _drop_template() -> None:
    if _postgresql_template.cache_info().currsize:
        administer(POSTGRES, f"drop database {_postgresql_template()} with (force)")
        _postgresql_template.cache_clear()


@contextmanager
def secured_postgresql_database() -> Iterator[str]:
    """Make a PostgreSQL database with row-level security; give its URL for the service's role."""
    role = f"crmhub_test_{os.getpid()}_{token(40, BASE36)}"
    try:
        with postgresql_database() as url:
            with closing(Database(url, pool_size=1)) as owner:
                row_security.secure(owner, role)
            yield make_url(url).set(username=role).render_as_string(hide_password=False)
    finally:
        administer(POSTGRES, f"drop role if exists {role}")


@contextmanager
def empty_postgresql_database(template: str = "template0") -> Iterator[str]:
    """Make a PostgreSQL database as a copy of `template`, give its URL, and drop it afterwards.

    The copy of `template0` has no table.
    """
    name = f"crmhub_test_{os.getpid()}_{token(40, BASE36)}"
    url = make_url(POSTGRES).set(database=name).render_as_string(hide_password=False)
    administer(POSTGRES, f"create database {name} encoding 'UTF8' template {template}")
    try:
        # No test pulls the server's plug: a commit is seen by all before the disk has it.
        administer(POSTGRES, f"alter database {name} set synchronous_commit = off")
        yield url
    finally:
        # Pools that a test left open must not keep it.
        administer(POSTGRES, f"drop database {name} with (force)")


def prepare_sqlite(driver: Any, record: Any) -> None:
    """Set the options of a new SQLite connection as the hub does, but wait for no disk.

    No test cuts the power, and what a killed process has written is not lost.
    """
    drivers.prepare_sqlite(driver, record)
    driver.execute("PRAGMA synchronous = OFF")


def overwrite(file: Path, table: str) -> None:
    """Damage a SQLite database that nobody has open: the first page of a table holds nonsense."""
    with closing(sqlite3.connect(file)) as driver:
        driver.execute("pragma journal_mode = delete")
        [(page,)] = driver.execute("select rootpage from sqlite_master where name = ?", (table,))
        [(size,)] = driver.execute("pragma page_size")
    with file.open("r+b") as damaged:
        damaged.seek((page - 1) * size)
        damaged.write(b"nonsense")


@contextmanager
def read_only(database: Database) -> Iterator[None]:
    """Let a PostgreSQL database take no writes on new connections, as a standby takes none."""
    setting = f"database {database.url.database} %s default_transaction_read_only"
    administer(POSTGRES, f"alter {setting % 'set'} = on")
    database.close()
    try:
        yield
    finally:
        administer(POSTGRES, f"alter {setting % 'reset'}")


@contextmanager
def redis_database() -> Iterator[redis.Redis]:
    """Claim a numbered database that nobody uses, and leave it empty.

    Several runs and their workers may share one server; a marker key holds the claimer's pid.
    """
    with closing(_claim()) as client:
        try:
            yield client
        finally:
            client.flushdb()


def _claim(numbers: Iterable[int] = range(15, 0, -1)) -> redis.Redis:
    for number in numbers:
        client = _redis(number)
        owner = client.get(_OURS)
        if owner is None and client.dbsize() == 0:
            client.set(_OURS, os.getpid(), nx=True)
        elif owner is not None and not _runs(int(owner)):
            client.eval(_TAKE_OVER, 1, _OURS, owner, os.getpid())
        if client.get(_OURS) == str(os.getpid()):
            return client
        client.close()
    raise RuntimeError("Redis has no empty database among 1 to 15 for the tests; empty one.")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def emptied(client: redis.Redis) -> str:
    """Empty the claimed database and return its URL."""
    together = client.pipeline(transaction=True)
    together.flushdb()
    together.set(_OURS, os.getpid())
    together.execute()
    return _redis_url(client.get_connection_kwargs()["db"])


class DatabaseReport:
    """Counts the tests that ran on each of them, says so at the end, and fails what must."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        asked = os.environ.get("CRMHUB_TEST_REQUIRE", "").split(",")
        self.required = [name.strip() for name in asked if name.strip()]
        if unknown := sorted(set(self.required) - set(NAMES)):
            raise pytest.UsageError(
                f"CRMHUB_TEST_REQUIRE: {', '.join(unknown)} is none of {', '.join(NAMES)}"
            )

    def pytest_runtest_setup(self, item: pytest.Function) -> None:
        """Note on the item what it runs on; xdist carries that to the main process."""
        params = item.callspec.params if hasattr(item, "callspec") else {}
        used = {
            name
            for name in NAMES
            if {f"{name}_url", f"{name}_programs", name} & set(item.fixturenames)
        }
        if "database_url" in params:
            used.add(str(params["database_url"]))
        item.user_properties += [("database", name) for name in sorted(used)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once it has really run."""
        if report.when == "call" and not report.skipped:
            self.ran.update(
                str(value) for key, value in report.user_properties if key == "database"
            )

    def missing(self) -> list[str]:
        """Return a sentence for what is required and no test ran on."""
        return [
            f"CRMHUB_TEST_REQUIRE names {name}, but "
            + (f"it cannot be used: {left_out(name)}" if left_out(name) else "no test ran on it")
            for name in self.required
            if not self.ran[name]
        ]

    def summary(self) -> str:
        """Return in words what tests ran on, and why not on the others."""
        told = []
        for name, shown in NAMES.items():
            if count := self.ran[name]:
                told.append(f"{shown} ({count} {'test' if count == 1 else 'tests'})")
            elif reason := left_out(name):
                told.append(f"{shown} left out: {reason}")
            else:
                told.append(f"{shown} (no tests)")
        return "ran on: " + "; ".join(told)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a run that otherwise passed into a failed one when something is missing."""
        _drop_template()
        # Each worker of xdist sees its own share of the tests only.
        in_worker = hasattr(session.config, "workerinput")
        if not in_worker and session.exitstatus == pytest.ExitCode.OK and self.missing():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Print the summary behind the list of skipped tests, just before pytest's own line."""
        yield
        terminalreporter.write_line(self.summary())
        for problem in self.missing():
            terminalreporter.write_line(problem, red=True)
