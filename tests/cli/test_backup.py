"""crmhub db backup and restore: one moment of everything, and nothing twice afterwards."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import flask
import pytest

from crmhub.app import create_app
from crmhub.database.connection import now_ms
from crmhub.hub import Hub
from crmhub.operators.database import backup
from crmhub.properties.kinds import CONTACTS
from crmhub.queue import claiming
from crmhub.records.models import NewRecord
from crmhub.settings import Settings
from tests.api.helpers.helper_calls import known
from tests.cli.conftest import CommandLine
from tests.clients import Client, open_client
from tests.databases import empty_postgresql_database
from tests.queue.working import change


@pytest.fixture
def app(crmhub: CommandLine) -> Iterator[flask.Flask]:
    crmhub("db", "upgrade")
    app = create_app(Settings.load(crmhub.env, crmhub.root))
    yield app
    app.extensions["crmhub"].close()


@pytest.fixture
def bot(app: flask.Flask) -> Client:
    """A client of an account that knows one contact."""
    client = open_client(app)
    known(client)
    return client


@pytest.fixture
def elsewhere(crmhub: CommandLine, tmp_path: Path) -> Iterator[CommandLine]:
    """The same installation on a database that is empty."""
    if crmhub.env["CRMHUB_DATABASE_URL"].startswith("sqlite"):
        url = f"sqlite:///{tmp_path / 'restored.db'}"
        yield CommandLine(tmp_path, {"CRMHUB_DATABASE_URL": url})
        return
    with empty_postgresql_database() as url:
        yield CommandLine(tmp_path, {"CRMHUB_DATABASE_URL": url})


def _hub(crmhub: CommandLine) -> Hub:
    return Hub.open(Settings.load(crmhub.env, crmhub.root))


def test_what_was_backed_up_is_restored(crmhub, bot, elsewhere):
    client_id = bot.account.client_id
    made = crmhub.json("db", "backup", "hub.backup")
    file = crmhub.root / "hub.backup"
    assert made["bytes"] == file.stat().st_size > 1000
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    held = elsewhere.json("db", "restore", "hub.backup")
    assert held == {"accounts": 1, "records": 1, "unfinished": 0}
    assert elsewhere.json("doctor", "--all")["ok"]
    for command in (["account", "show", client_id], ["key", "list", client_id], ["audit", "list"]):
        assert elsewhere.json(*command) == crmhub.json(*command)
    rows = ("export", client_id, "contacts", "-")
    assert elsewhere(*rows).stdout == crmhub(*rows).stdout


def test_what_waited_is_looked_up_before_it_is_sent_again(crmhub, bot, hub, elsewhere):
    change(hub, bot, "state = 'queued', doubt_since = null")
    crmhub("db", "backup", "hub.backup")
    assert elsewhere.json("db", "restore", "hub.backup")["unfinished"] == 1
    restored = _hub(elsewhere)
    with restored.database.reading() as db:
        rows = db.rows("select state, doubt_since = created_at, account_id from action")
    assert [tuple(row)[:2] for row in rows] == [("queued", True)]
    # It may have been sent until just now.
    began = now_ms()
    (entry,) = claiming.claim(
        restored.database, rows[0][2], bot.account.connection.id, most=1, lease_s=60
    )
    restored.close()
    assert began - 1000 <= entry.written_at <= now_ms()


def test_no_id_is_given_out_twice(crmhub, bot, hub, elsewhere):
    new = [NewRecord({"firstname": "Ada"})]
    account = bot.account
    crmhub("db", "backup", "hub.backup")
    later = {hub.records.create(account, CONTACTS, new)[0].id for _ in range(500)}
    elsewhere("db", "restore", "hub.backup")
    restored = _hub(elsewhere)
    anew = {restored.records.create(account, CONTACTS, new)[0].id for _ in range(500)}
    restored.close()
    assert later.isdisjoint(anew)


def test_a_backup_beside_writers_is_one_moment(crmhub, bot, hub, elsewhere):
    new = [NewRecord({"firstname": f"N{n}", "city": "Rome"}) for n in range(5)]
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            hub.records.create(bot.account, CONTACTS, new)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        crmhub("db", "backup", "hub.backup")
    finally:
        over.set()
        for writer in writers:
            writer.join()
    held = elsewhere.json("db", "restore", "hub.backup")
    assert held["records"] % 5 == 1
    assert elsewhere.json("doctor", "--all")["ok"]


def test_a_copy_made_by_other_means_is_settled(crmhub, bot, hub):
    change(hub, bot, "state = 'queued', doubt_since = null")
    assert crmhub.json("db", "settle") == {"accounts": 1, "records": 1, "unfinished": 1}
    with hub.database.reading() as db:
        ((doubted,),) = db.rows("select doubt_since = created_at from action")
        next_ids = {next_id for (next_id,) in db.rows("select next_id from id_block")}
    assert doubted
    assert min(next_ids) > backup._SKIPPED_IDS
    # Who is not sure runs it again.
    assert "Settled: 1 accounts" in crmhub("db", "settle").stdout


def test_neither_writes_over_anything(crmhub, bot, elsewhere):
    (crmhub.root / "hub.backup").write_text("mine")
    assert "is there already" in crmhub("db", "backup", "hub.backup", code=1).stderr
    crmhub("db", "backup", "other.backup")
    told = crmhub("db", "restore", "other.backup", code=1).stderr
    assert "is there already" in told or "is not empty" in told
    elsewhere("db", "restore", "other.backup")
    elsewhere("db", "restore", "other.backup", code=1)
    assert elsewhere.json("doctor")["ok"]


def test_a_damaged_backup_leaves_the_database_empty(crmhub, bot, elsewhere):
    crmhub("db", "backup", "hub.backup")
    file = crmhub.root / "hub.backup"
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 2 // 3])
    told = elsewhere("db", "restore", "hub.backup", code=1).stderr
    assert told.startswith("crmhub: ")
    file.write_bytes(content)
    elsewhere("db", "restore", "hub.backup")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"email,name\n", "is no backup"), (b"", "is no backup")],
)
def test_what_is_no_backup_is_named(elsewhere, content, words):
    (elsewhere.root / "x.csv").write_bytes(content)
    assert words in elsewhere("db", "restore", "x.csv", code=1).stderr


def test_a_backup_of_the_other_database_is_named(elsewhere):
    sqlite = elsewhere.env["CRMHUB_DATABASE_URL"].startswith("sqlite")
    (elsewhere.root / "x").write_bytes(b"PGDMP\x01" if sqlite else b"SQLite format 3\0")
    told = elsewhere("db", "restore", "x", code=1).stderr
    assert f"is no backup of a {'sqlite' if sqlite else 'postgresql'} database" in told


@pytest.mark.parametrize("own_url", ["postgresql"], indirect=True)
def test_programs_that_are_missing_are_named(crmhub, bot, tmp_path, monkeypatch):
    (tmp_path / "b").write_bytes(b"PGDMP")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "pg_dump was not found; install" in crmhub("db", "backup", "c", code=1).stderr
    assert not (crmhub.root / "c").exists()


def filter_pg_restore(tmp_path, monkeypatch, command):
    """Let what pg_restore prints go through a command of the shell."""
    instead = tmp_path / "bin" / "pg_restore"
    instead.parent.mkdir()
    instead.write_text(f'#!/bin/sh\n{shutil.which("pg_restore")} "$@" | {command}\n')
    instead.chmod(0o700)
    monkeypatch.setenv("PATH", str(instead.parent), prepend=os.pathsep)


@pytest.mark.parametrize("own_url", ["postgresql"], indirect=True)
def test_a_restore_that_pg_restore_does_not_finish_commits_nothing(
    crmhub, bot, elsewhere, tmp_path, monkeypatch
):
    crmhub("db", "backup", str(tmp_path / "b"))
    # In the midst of a table's rows, where psql takes the end of its input for theirs.
    filter_pg_restore(tmp_path, monkeypatch, "sed '/^COPY public.account /q'; kill -9 $$")
    told = elsewhere("db", "restore", str(tmp_path / "b"), code=1).stderr
    assert "pg_restore did not finish" in told
    monkeypatch.undo()
    elsewhere("db", "restore", str(tmp_path / "b"))


@pytest.mark.parametrize("own_url", ["postgresql"], indirect=True)
def test_programs_that_are_newer_than_the_server_restore_too(
    crmhub, bot, elsewhere, tmp_path, monkeypatch
):
    crmhub("db", "backup", str(tmp_path / "b"))
    # What 17 adds, and no older server knows.
    sets = "s/^SET lock_timeout.*/&\\nSET transaction_timeout = 0;/"
    filter_pg_restore(tmp_path, monkeypatch, f"sed '{sets}'")
    assert "Restored: 1 accounts" in elsewhere("db", "restore", str(tmp_path / "b")).stdout


@pytest.mark.parametrize("own_url", ["sqlite"], indirect=True)
def test_a_backup_on_a_disk_that_is_full_leaves_nothing(crmhub, bot, tmp_path, monkeypatch):
    def full(copy, _source):
        # A log is there while it is written, and stays where it cannot be.
        Path(copy.execute("pragma database_list").fetchone()[2] + "-journal").write_text("x")
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(backup, "_check", full)
    folder = tmp_path / "backups"
    folder.mkdir()
    assert "disk is full" in crmhub("db", "backup", str(folder / "b"), code=1).stderr
    assert list(folder.iterdir()) == []


def test_a_backup_of_a_newer_version_is_named(crmhub, bot, hub, elsewhere):
    with hub.database.reading() as db:
        now = db.scalar("select version_num from alembic_version")
        db.run("update alembic_version set version_num = '9999'")
        crmhub("db", "backup", "hub.backup")
        db.run("update alembic_version set version_num = :now", {"now": now})
    told = elsewhere("db", "restore", "hub.backup", code=1).stderr
    assert "of a newer version of crmhub" in told


def test_where_nothing_can_be_written_it_says_so(crmhub, bot):
    assert "No such file" in crmhub("db", "backup", "no/hub.backup", code=1).stderr


def test_what_is_damaged_is_named_and_not_the_half_of_a_file(tmp_path):
    crmhub = CommandLine(tmp_path, {"CRMHUB_DATABASE_URL": f"sqlite:///{tmp_path}/hub.db"})
    crmhub("account", "create", "Acme")
    crmhub("db", "backup", "whole.backup")
    cut = (tmp_path / "whole.backup").read_bytes()[:100_000]
    (tmp_path / "hub.db").write_bytes(cut)
    told = crmhub("db", "backup", "hub.backup", code=1).stderr
    assert told.startswith(f"crmhub: {tmp_path}/hub.db ")
    (tmp_path / "cut.backup").write_bytes(cut)
    (tmp_path / "hub.db").unlink()
    told = crmhub("db", "restore", "cut.backup", code=1).stderr
    assert told.startswith("crmhub: cut.backup ")
