"""SQLite's disk is full: reads are answered, writes refused, and both go on once there is room."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.engine import make_url

from crmhub.cli import open_hub
from crmhub.database import drivers, schema
from crmhub.database.drivers import Unwritable
from crmhub.errors import Unavailable
from crmhub.settings import Settings
from tests.cli.conftest import CRMHUB, CommandLine, environment
from tests.databases import new_settings
from tests.server.servers import Server, serving, soon


@pytest.fixture
def acme(crmhub: CommandLine) -> Any:
    return crmhub.json("account", "create", "Acme", "--plan", "unlimited")


class Caller:
    """Calls the account of a running service."""

    def __init__(self, server: Server, ids: Any) -> None:
        self._server = server
        self._ids = ids

    def api(self, method: str, path: str, body: Any = None) -> tuple[int, Any, Any]:
        headers = {"service-apikey": self._ids["apiKey"]}
        return self._sent(method, f"/{self._ids['clientId']}/api/v1/{path}", body, headers)

    def helper(self, called: str, **body: Any) -> tuple[int, Any, Any]:
        return self._sent("POST", f"/chatbot/{called}/{self._ids['generatedId']}", body, {})

    def _sent(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        sent = None if body is None else json.dumps(body)
        headers["Content-Type"] = "application/json"
        status, told, answer = self._server.answer(method, path, sent, headers.items())
        return status, told, json.loads(answer)

    def create(self, name: str) -> tuple[int, Any, Any]:
        return self.api("POST", "contacts", {"properties": {"firstname": name}})


def begun(caller: Caller) -> int:
    """Create a contact and a conversation; return the contact's id."""
    assert caller.helper("createLead", contactToken="t", name="Ann Lee", email="a@x.org")[0] == 200
    id: int = caller.api("GET", "contacts")[2]["results"][0]["id"]
    return id


def reads(caller: Caller, id: int) -> None:
    """See that everything that reads is answered."""
    filters = [{"propertyName": "email", "operator": "EQ", "value": "a@x.org"}]
    assert caller.api("GET", "contacts")[2]["total"] >= 1
    assert caller.api("GET", f"contacts/{id}")[2]["properties"]["email"] == "a@x.org"
    assert caller.api("POST", "contacts/search", {"filters": filters})[2]["total"] == 1
    told = caller.helper("getProperties", contactToken="t", props=["email"])
    assert (told[0], told[2].get("email")) == (200, "a@x.org"), told[2]


def refuses_writes(caller: Caller, id: int, *, words: str) -> None:
    """See that whatever writes is refused, once it has taken what room there may be left."""
    numbers = itertools.count()

    def lead(email: str) -> tuple[int, Any, Any]:
        return caller.helper("createLead", contactToken=email, name="Ben Lee", email=email)

    writes: list[Callable[[int], tuple[int, Any, Any]]] = [
        lambda n: caller.create(f"{n}" + "x" * 4000),
        lambda n: caller.api("PATCH", f"contacts/{id}", {"properties": {"city": f"Rome {n}"}}),
        lambda n: lead(f"b{n}@x.org"),
        lambda n: caller.helper("setProperties", contactToken="t", props={"city": f"Oslo {n}"}),
    ]
    for write in writes:
        answers: list[Any] = []
        soon(lambda write=write, to=answers: to.append(write(next(numbers))) or to[-1][0] >= 400)
        status, headers, told = answers[-1]
        assert (status, words in told["message"], int(headers["Retry-After"]) >= 1) == (503, 1, 1)


def test_a_hub_whose_files_cannot_grow_reads_and_then_writes(acme: Any, tmp_path: Path) -> None:
    log = tmp_path / "var" / "crmhub.db-wal"
    with serving(tmp_path, "--workers", "1") as server:
        caller = Caller(server, acme)
        id = begun(caller)
        soon(lambda: len(server.children()) == 2)
        server.limit_files(log.stat().st_size)
        refuses_writes(caller, id, words="cannot be written")
        reads(caller, id)
        server.limit_files(-1)
        assert caller.create("Ada")[0] == 201
        assert caller.helper("createLead", contactToken="u", name="B L", email="b@x.org")[0] == 200


def test_a_hub_that_is_started_where_files_cannot_grow_reads_and_then_writes(
    acme: Any, tmp_path: Path
) -> None:
    with serving(tmp_path, "--workers", "1") as server:
        id = begun(Caller(server, acme))
    with serving(tmp_path, "--workers", "1", program=CRMHUB, largest_file=64 * 1024) as server:
        caller = Caller(server, acme)
        reads(caller, id)
        refuses_writes(caller, id, words="cannot be written")
        reads(caller, id)
        server.limit_files(-1)
        assert caller.create("Ada")[0] == 201


# --- where there is not a byte left -------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own; skips where none can be mounted."""
    disk = tmp_path / "var"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Fill the disk to the last byte until the block ends."""
    file = disk / "big"
    with file.open("wb", buffering=0) as filling:
        size = 64 * 1024
        while size:
            try:
                filling.write(b"x" * size)
            except OSError:
                size //= 2
    try:
        yield
    finally:
        file.unlink()


def test_a_hub_starts_without_a_byte_of_room(disk: Path, acme: Any, tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "1") as server:
        id = begun(Caller(server, acme))
        assert server.stop() == 0
    with full(disk), serving(tmp_path, "--workers", "2") as server:
        caller = Caller(server, acme)
        reads(caller, id)
        refuses_writes(caller, id, words="disk is full")
        reads(caller, id)
        assert (
            "disk is full; make room" in json.loads(server.answer("GET", "/readyz")[2])["message"]
        )
        (disk / "big").unlink()
        assert caller.create("Ada")[0] == 201
        assert server.answer("GET", "/readyz")[0] == 200
        (disk / "big").touch()
    assert "Until then reads are answered" in server.log.read_text()


def test_a_database_that_must_be_migrated_is_not_served_without_room(
    disk: Path, tmp_path: Path
) -> None:
    url = f"sqlite:///{disk}/crmhub.db"
    # Its secrets are there, as after any former start.
    Settings.load({}, tmp_path)
    (disk / "crmhub.db").touch()
    drivers.keep_reserve(make_url(url))
    with full(disk):
        refused = subprocess.run(
            [*CRMHUB, "serve"],
            cwd=tmp_path,
            env=environment(database_url=url),
            capture_output=True,
            text=True,
            check=False,
        )
    assert refused.returncode == 1
    assert "must be migrated, and its disk is full; make room on it" in refused.stderr
    with closing(sqlite3.connect(disk / "crmhub.db")) as driver:
        assert driver.execute("select name from sqlite_master").fetchall() == []


# --- the reserve ----------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return new_settings(f"sqlite:///{tmp_path}/crmhub.db", tmp_path)


@pytest.fixture
def reserve(tmp_path: Path) -> Path:
    return tmp_path / "crmhub.db-reserve"


def fails_with(monkeypatch: pytest.MonkeyPatch, code: int, *, times: int) -> None:
    """Let migrations, which are missing, fail so often with a code of SQLite's."""
    monkeypatch.setattr(open_hub, "_is_newest", lambda _: False)
    upgrade, failures = schema.upgrade, [code] * times

    def failing(url: str) -> None:
        if failures:
            error = sqlite3.OperationalError("no room")
            error.sqlite_errorcode = failures.pop()
            raise sqlalchemy.exc.OperationalError("", {}, error)
        upgrade(url)

    monkeypatch.setattr(schema, "upgrade", failing)


def test_room_is_kept_once_there_is_a_database(settings: Settings, reserve: Path) -> None:
    open_hub.make_ready(settings)
    kept = reserve.read_bytes()
    assert len(kept) == 64 * 1024
    open_hub.make_ready(settings)
    assert reserve.read_bytes() == kept


def test_none_is_kept_on_a_disk_that_is_full(
    settings: Settings, reserve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = SimpleNamespace(f_blocks=1, f_bavail=0, f_frsize=4096, f_flag=0)
    monkeypatch.setattr(os, "statvfs", lambda _: none)
    open_hub.make_ready(settings)
    assert not reserve.exists()


def test_it_is_given_back_where_the_database_cannot_be_opened(
    settings: Settings, reserve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_hub.make_ready(settings)
    fails_with(monkeypatch, sqlite3.SQLITE_IOERR_SHMSIZE, times=1)
    open_hub.make_ready(settings)
    assert not reserve.exists()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_IOERR_SHMSIZE, "cannot be opened: its disk is full, and not even 32 kB"),
        (sqlite3.SQLITE_FULL, "must be migrated, and its disk is full"),
        (sqlite3.SQLITE_IOERR_WRITE, "must be migrated, and its disk is full"),
    ],
)
def test_where_it_does_not_help_the_start_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    open_hub.make_ready(settings)
    fails_with(monkeypatch, code, times=2)
    for _ in range(2):
        with pytest.raises(Unwritable, match=words):
            open_hub.make_ready(settings)
        fails_with(monkeypatch, code, times=1)


def test_another_failure_leaves_it(
    settings: Settings, reserve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_hub.make_ready(settings)
    fails_with(monkeypatch, sqlite3.SQLITE_CANTOPEN, times=1)
    with pytest.raises(Unavailable, match="cannot be migrated: no room"):
        open_hub.make_ready(settings)
    assert reserve.exists()


def test_a_database_without_a_file_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    drivers.keep_reserve(make_url("sqlite:///:memory:"))
    assert not drivers.use_reserve(make_url("sqlite:///:memory:"))
    assert list(tmp_path.iterdir()) == []
