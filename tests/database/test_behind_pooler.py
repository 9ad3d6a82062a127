"""The hub behind a real pgbouncer that gives each transaction any connection of the server."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from benchmarks.places import free_port, wait_for
from crmhub.app import create_app
from crmhub.database.connection import Connection, Database
from tests import databases
from tests.clients import Client, open_client
from tests.databases import new_settings
from tests.pages import walk

# Fewer connections to the server than threads here, so that each thread meets all of them.
_POOL = 2
_THREADS = 6


@pytest.fixture(scope="module")
def pgbouncer_url(postgresql_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a database behind pgbouncer; skips without it."""
    if reason := databases.left_out("pgbouncer"):
        pytest.skip(f"pgbouncer left out: {reason}")
    url = make_url(postgresql_url)
    folder, port = tmp_path_factory.mktemp("pgbouncer"), free_port()
    server = {
        "host": url.host or "127.0.0.1",
        "port": url.port or 5432,
        "user": url.username,
        "password": url.password,
    }
    line = " ".join(f"{name}={value}" for name, value in server.items() if value)
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "auth_type": "any",
        "pool_mode": "transaction",
        "default_pool_size": _POOL,
        "max_client_conn": 100,
    }
    lines = ["[databases]", f"* = {line}", "[pgbouncer]"]
    lines += [f"{name} = {value}" for name, value in settings.items()]
    file = folder / "pgbouncer.ini"
    file.write_text("\n".join(lines) + "\n")
    command = [os.fspath(databases.PGBOUNCER), "-q", os.fspath(file)]
    # It refuses to run as root.
    user = _other_user() if os.geteuid() == 0 else None
    if user:
        _let_in(user, folder)
    with subprocess.Popen(command, user=user) as process:
        try:
            wait_for(port, process)
            pooled = url.set(host="127.0.0.1", port=port)
            yield pooled.render_as_string(hide_password=False)
        finally:
            process.terminate()


def _other_user() -> str:
    return pwd.getpwnam("nobody").pw_name


def _let_in(user: str, folder: Path) -> None:
    shutil.chown(folder, user)
    shutil.chown(folder / "pgbouncer.ini", user)
    for parent in folder.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)


@pytest.fixture(scope="module")
def pooled(pgbouncer_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of an app whose database is behind the pooler."""
    settings = new_settings(pgbouncer_url, tmp_path_factory.mktemp("root"))
    app = create_app(settings)
    yield open_client(app)
    app.extensions["crmhub"].close()


def test_threads_share_fewer_connections_of_the_server(pgbouncer_url: str) -> None:
    with closing(Database(pgbouncer_url)) as database:

        def work(number: int) -> list[int]:
            def both(tx: Connection) -> int:
                tx.hold(number, exclusive=True)
                return int(tx.scalar("select cast(:n as int) + 1", {"n": number}))

            found = [database.transact(both)]
            with database.reading() as db:
                found.append(db.scalar("select cast(:n as int) + 2", {"n": number}))
            return found

        with ThreadPoolExecutor(_THREADS) as threads:
            found = [*threads.map(work, range(200))]
    assert found == [[n + 1, n + 2] for n in range(200)]


def test_settings_of_a_join_end_with_it(pgbouncer_url: str) -> None:
    with closing(Database(pgbouncer_url, pool_size=1)) as database, database.reading() as db:
        asked = "select current_setting('enable_nestloop')"
        with db.large_join_settings(3):
            assert db.scalar(asked) == "off"
        assert [db.scalar(asked) for _ in range(5)] == ["on"] * 5


def test_workers_behind_it_poll(pgbouncer_url: str) -> None:
    with closing(Database(pgbouncer_url)) as database:
        heard = database.listen()
        database.notify_workers()
        assert [next(heard), next(heard)] == [False, False]
        heard.close()


def test_records_are_written_and_found(pooled: Client) -> None:
    inputs = [{"properties": {"firstname": f"Ada {n}", "city": "Rome"}} for n in range(30)]
    made = pooled.post("/contacts/batch/create", {"inputs": inputs})
    ids = [record["id"] for record in made.get_json()]
    for id in ids[:3]:
        answer = pooled.patch(f"/contacts/{id}", {"properties": {"jobtitle": "Writer"}})
        assert answer.status_code == 200
    rome = {"filters": [{"propertyName": "city", "operator": "EQ", "value": "Rome"}]}
    found = [record["id"] for record in walk(pooled, "/contacts/search", rome, limit=7)]
    assert sorted(found) == sorted(ids)
