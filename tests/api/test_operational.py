"""What an operator's tools call: /healthz and /readyz, without a key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import flask
import pytest

from crmhub.app import create_app
from crmhub.database.connection import Database
from crmhub.database.schema import upgrade
from crmhub.hub import Hub
from crmhub.settings import Settings
from tests.api.refusals import header_faults, refused
from tests.clients import open_client
from tests.databases import read_only
from tests.own_databases import own_database


@pytest.mark.parametrize(("path", "body"), [("/healthz", "ok"), ("/readyz", "ready")])
def test_a_sound_service_says_so(app: flask.Flask, path: str, body: str) -> None:
    answer = app.test_client().get(path)
    assert (answer.status_code, answer.json) == (200, {"status": body})
    assert answer.mimetype == "application/json"
    assert header_faults(answer) == []


@pytest.fixture
def bare(settings: Settings, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without any table, on each database in turn."""
    if settings.database_url.startswith("sqlite"):
        yield f"sqlite:///{tmp_path / 'bare.db'}"
        return
    with own_database("postgresql", tmp_path) as url, closing(Database(url)) as database:
        with database.reading() as connection:
            connection.run("drop schema public cascade")
            connection.run("create schema public")
        yield url


@pytest.fixture
def unmigrated(settings: Settings, bare: str) -> Iterator[flask.Flask]:
    app = create_app(replace(settings, database_url=bare))
    yield app
    app.extensions["crmhub"].close()


def test_it_is_not_ready_until_the_schema_is_the_newest(unmigrated: flask.Flask, bare: str) -> None:
    http = unmigrated.test_client()
    assert http.get("/healthz").status_code == 200
    message = refused(http.get("/readyz"), 503)
    assert "crmhub db upgrade" in message
    upgrade(bare)
    assert http.get("/readyz").status_code == 200


def test_an_older_or_unknown_schema_is_not_ready(unmigrated: flask.Flask, bare: str) -> None:
    upgrade(bare)
    hub: Hub = unmigrated.extensions["crmhub"]
    hub.database.transact(
        lambda tx: tx.run("update alembic_version set version_num = 'of another release'")
    )
    message = refused(unmigrated.test_client().get("/readyz"), 503)
    assert "of another release" in message


def test_what_needs_no_database_is_answered_before_the_migration(unmigrated: flask.Flask) -> None:
    http = unmigrated.test_client()
    numbers = http.post("/crm-api-interface/getRandomInt", json={"min": 7, "max": 7})
    assert (numbers.status_code, numbers.json["value"]) == (200, 7)  # type: ignore[index]
    assert http.get("/openapi.json").status_code == 200


def test_readiness_is_asked_of_the_database_each_time(
    app: flask.Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = app.test_client()
    assert http.get("/readyz").status_code == 200
    monkeypatch.setattr("crmhub.api.operational.pending", lambda database: "the schema is at x")
    answer = http.get("/readyz")
    assert "the schema is at x" in refused(answer, 503)
    assert answer.headers["Retry-After"] == "5"


def test_a_database_that_takes_no_writes_is_not_ready(settings: Settings) -> None:
    app = create_app(settings)
    database = app.extensions["crmhub"].database
    if database.dialect != "postgresql":
        pytest.skip("SQLite has no standby")
    http, client = app.test_client(), open_client(app)
    contact = {"properties": {"firstname": "Ada"}}
    with read_only(database):
        assert "read-only" in refused(http.get("/readyz"), 503)
        assert "cannot be written" in refused(client.post("/contacts", contact), 503)
        assert client.get("/contacts").status_code == 200
    assert http.get("/readyz").status_code == 503  # on the connection that served the reads
    assert http.get("/readyz").status_code == 200
    assert client.post("/contacts", contact).status_code == 201
    app.extensions["crmhub"].close()


class _Disk(NamedTuple):
    f_blocks: int = 10**7
    f_bavail: int = 10**6
    f_frsize: int = 4096
    f_flag: int = 0


@pytest.mark.parametrize(
    ("disk", "words"),
    [
        (_Disk(f_bavail=0), "disk is full"),
        (_Disk(f_flag=os.ST_RDONLY), "disk is read-only"),
        (FileNotFoundError(2, "No such file or directory"), "cannot be reached: No such file"),
    ],
)
def test_a_disk_that_takes_no_writes_is_not_ready(
    app: flask.Flask,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    disk: _Disk | OSError,
    words: str,
) -> None:
    if not database_url.startswith("sqlite"):
        pytest.skip("PostgreSQL's disk is its own affair")

    def statvfs(_: str) -> _Disk:
        if isinstance(disk, OSError):
            raise disk
        return disk

    http = app.test_client()
    assert http.get("/readyz").status_code == 200
    monkeypatch.setattr(os, "statvfs", statvfs)
    assert words in refused(http.get("/readyz"), 503)
    disk = _Disk(f_blocks=0, f_bavail=0)
    assert http.get("/readyz").status_code == 200
