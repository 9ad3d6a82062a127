"""Several processes write to one SQLite database, whose file has one writer at a time."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from crmhub.database.connection import Connection, Database
from tests.records.meanwhile import at_once

_FRESH = multiprocessing.get_context("spawn")
_PROCESSES, _THREADS, _WRITES = 4, 2, 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "crmhub.db"


@pytest.fixture
def database(file: Path) -> Iterator[Database]:
    with closing(Database(f"sqlite:///{file}")) as database:
        with database.reading() as connection:
            connection.run("create table written (n integer primary key, writer text)")
        yield database


def note(writer: str, tx: Connection) -> None:
    tx.run("insert into written (writer) values (:writer)", {"writer": writer})


def written(database: Database) -> list[str]:
    with database.reading() as connection:
        return [writer for (writer,) in connection.rows("select writer from written order by n")]


def _write(file: Path, writer: str) -> None:
    with closing(Database(f"sqlite:///{file}")) as database:

        def write() -> None:
            for _ in range(_WRITES):
                database.transact(partial(note, writer))

        at_once(*[write] * _THREADS)


def started(file: Path, writer: str) -> BaseProcess:
    process = _FRESH.Process(target=_write, args=(file, writer), daemon=True)
    process.start()
    return process


def test_every_write_of_many_processes_succeeds(database: Database, file: Path) -> None:
    names = [f"process {n}" for n in range(_PROCESSES)]
    processes = [started(file, name) for name in names]
    for each in processes:
        each.join(60)
    assert [each.exitcode for each in processes] == [0] * _PROCESSES
    assert sorted(written(database)) == sorted(names * (_WRITES * _THREADS))


def test_readers_wait_for_nobody(database: Database) -> None:
    seen: list[list[str]] = []

    def write(tx: Connection) -> None:
        note("here", tx)
        reader = threading.Thread(target=lambda: seen.append(written(database)))
        reader.start()
        reader.join(60)
        assert seen == [[]]

    database.transact(write)
    assert written(database) == ["here"]
