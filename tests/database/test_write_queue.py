"""Writers of one SQLite database, each a process of its own, go one after the other."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from crmhub.database import write_queue
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


def _write(file: Path, writer: str, times: int = 1, threads: int = 1) -> None:
    write_queue._PATIENCE_S = 60.0
    with closing(Database(f"sqlite:///{file}")) as database:

        def write() -> None:
            for _ in range(times):
                database.transact(partial(note, writer))

        at_once(*[write] * threads)


def started(*args: object) -> BaseProcess:
    process = _FRESH.Process(target=_write, args=args, daemon=True)
    process.start()
    return process


def is_taken(file: Path) -> bool:
    """Return whether some process is next in line."""
    try:
        opened = os.open(f"{file}-queue", os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(opened)
    return False


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def ended(*processes: BaseProcess) -> list[int | None]:
    for each in processes:
        each.join(60)
    return [each.exitcode for each in processes]


def test_who_has_just_written_does_not_go_before_a_process_that_waits(
    database: Database, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "_PATIENCE_S", 60.0)
    others = []

    def first(tx: Connection) -> None:
        note("here", tx)
        others.append(started(file, "there"))
        wait_for(lambda: is_taken(file))

    database.transact(first)
    database.transact(partial(note, "here again"))
    assert ended(*others) == [0]
    assert written(database) == ["here", "there", "here again"]


def test_readers_wait_for_nobody(database: Database, file: Path) -> None:
    seen: list[list[str]] = []

    def first(tx: Connection) -> None:
        note("here", tx)
        other = started(file, "there")
        wait_for(lambda: is_taken(file))
        reader = threading.Thread(target=lambda: seen.append(written(database)))
        reader.start()
        reader.join(60)
        assert seen == [[]]
        other.kill()
        other.join(60)

    database.transact(first)


def test_every_write_of_many_processes_succeeds(database: Database, file: Path) -> None:
    names = [f"process {n}" for n in range(_PROCESSES)]
    assert ended(*(started(file, name, _WRITES, _THREADS) for name in names)) == [0] * _PROCESSES
    assert sorted(written(database)) == sorted(names * (_WRITES * _THREADS))


def test_a_process_killed_while_next_in_line_leaves_its_place(
    database: Database, file: Path
) -> None:
    def first(tx: Connection) -> None:
        note("here", tx)
        other = started(file, "there")
        wait_for(lambda: is_taken(file))
        assert other.pid is not None
        os.kill(other.pid, signal.SIGKILL)
        assert ended(other) == [-signal.SIGKILL]
        assert not is_taken(file)

    database.transact(first)
    assert written(database) == ["here"]


def test_a_process_stopped_while_next_in_line_is_gone_by(
    database: Database, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "_PATIENCE_S", 0.01)
    stopped = os.open(f"{file}-queue", os.O_RDONLY | os.O_CREAT)
    fcntl.flock(stopped, fcntl.LOCK_EX)
    database.transact(partial(note, "here"))
    os.close(stopped)
    assert written(database) == ["here"]


def test_where_no_file_can_be_made_writes_go_on_without(database: Database, file: Path) -> None:
    Path(f"{file}-queue").symlink_to(file.parent / "nowhere" / "queue")
    database.transact(partial(note, "here"))
    assert written(database) == ["here"]


def test_where_files_cannot_be_locked_writes_go_on_without(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    database.transact(partial(note, "here"))
    assert written(database) == ["here"]


def test_the_file_is_as_readable_as_the_database(database: Database, file: Path) -> None:
    file.chmod(0o600)
    database.transact(partial(note, "here"))
    queue = Path(f"{file}-queue")
    assert stat.S_IMODE(queue.stat().st_mode) == 0o600
    queue.unlink()
    database.transact(partial(note, "here again"))
    assert queue.exists()


def test_a_database_in_memory_has_no_queue_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(Database("sqlite://", pool_size=1)) as database:
        database.transact(lambda tx: tx.run("create table written (n integer)"))
    assert [*tmp_path.iterdir()] == []
