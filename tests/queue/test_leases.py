"""Leases: one holder at a time, in whatever process, and nobody waits for the dead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crmhub import errors
from crmhub.adapter import Unavailable
from crmhub.database.connection import Connection, Database
from crmhub.queue import leases as module
from crmhub.queue.leases import Leases
from crmhub.secrets import token
from tests.processes import start
from tests.queue.callers import Caller
from tests.queue.working import soon


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, pool_size=1)
    yield database
    database.close()


@pytest.fixture
def leases(database: Database) -> Leases:
    return Leases(database)


@pytest.fixture
def another(database: Database) -> Leases:
    """The leases of another process, as far as this one can tell."""
    return Leases(database)


@pytest.fixture
def key() -> str:
    return token(60)


def hold(leases: Leases, key: str, **options: Any) -> Any:
    given = {"account_id": 1, "connection_id": 1, "seconds": 30, "patience": 0} | options
    return leases.hold(key=key, **given)


def taken(leases: Leases, key: str) -> bool:
    try:
        with hold(leases, key):
            return False
    except Unavailable:
        return True


# Between processes.


def test_four_processes_count_without_losing_one(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "number"
    file.write_text("0")
    options = {"database_url": database_url, "path": str(file), "rounds": 25}
    callers = [Caller("count_up", **options) for _ in range(4)]
    start(*callers)
    for each in callers:
        each.result()
    assert file.read_text() == "100"


def test_the_lease_of_a_killed_process_is_taken_over_when_it_runs_out(
    database_url: str, database: Database, leases: Leases, key: str
) -> None:
    holder = Caller("hold_for_ever", database_url=database_url, key=key, seconds=600)
    start(holder)
    assert holder.pipe.recv() == "held"
    holder.kill()
    assert taken(leases, key)
    with database.reading() as connection:
        connection.run("update lease set expires_at = 1 where account_id = 1")
    with hold(leases, key, patience=120):
        assert taken(Leases(database), key)


def test_a_process_of_many_threads_does_not_keep_a_lease_to_itself(
    database_url: str, leases: Leases, key: str
) -> None:
    greedy = Caller("hog", database_url=database_url, key=key, threads=8)
    start(greedy)
    soon(lambda: taken(leases, key))
    for _ in range(5):
        with hold(leases, key, patience=120):
            pass
    # It goes on until it is told to end: our turns came meanwhile.
    assert greedy.is_alive
    greedy.pipe.send("end")
    assert greedy.result() > 5


# In one process.


def test_fifty_threads_come_one_after_the_other(leases: Leases, key: str) -> None:
    inside: set[int] = set()

    def work(n: int) -> int:
        with hold(leases, key, patience=60):
            inside.add(n)
            time.sleep(0.001)
            together = len(inside)
            inside.remove(n)
            return together

    with ThreadPoolExecutor(50) as pool:
        assert set(pool.map(work, range(100))) == {1}
    assert leases._queues == {}


def test_whoever_waits_too_long_is_told_what_for_and_when_to_come_back(
    leases: Leases, another: Leases
) -> None:
    for waiting in (leases, another):
        second = hold(waiting, "+49 30 1234567", patience=0.2)
        start = time.monotonic()
        with hold(leases, "+49 30 1234567"), pytest.raises(Unavailable) as caught:
            second.__enter__()
        assert time.monotonic() - start >= 0.2
        assert "connection 1 is busy" in caught.value.message
        assert "1234567" not in caught.value.message
        assert caught.value.retry_after == 1


def test_other_keys_connections_and_accounts_do_not_wait(leases: Leases, key: str) -> None:
    with (
        hold(leases, key),
        hold(leases, key + "x"),
        hold(leases, key, connection_id=2),
        hold(leases, key, account_id=2),
    ):
        assert taken(leases, key)
    assert not taken(leases, key)


def test_a_block_that_fails_gives_its_lease_back(leases: Leases, key: str) -> None:
    with pytest.raises(ZeroDivisionError), hold(leases, key):
        _ = 1 / 0
    assert not taken(leases, key)


def test_who_was_late_does_not_take_the_lease_from_the_next(
    leases: Leases, another: Leases, database: Database, key: str
) -> None:
    with hold(leases, key, seconds=0.05):
        time.sleep(0.1)
        next_one = hold(another, key)
        next_one.__enter__()
    assert taken(Leases(database), key)
    next_one.__exit__(None, None, None)
    assert not taken(Leases(database), key)


def test_neither_holder_nor_waiter_keeps_a_database_connection(
    database: Database, leases: Leases, another: Leases, key: str
) -> None:
    def wait() -> None:
        with hold(another, key, patience=120):
            pass

    with ThreadPoolExecutor(1) as pool:
        with hold(leases, key):
            waiting = pool.submit(wait)
            for _ in range(20):
                assert rows(database, 1)
        waiting.result()


def rows(database: Database, account_id: int) -> list[Any]:
    # The pool has one connection: this would wait for it in vain.
    with database.reading() as connection:
        return connection.rows("select key from lease where account_id = :id", {"id": account_id})


def test_a_key_is_nowhere_to_be_read(leases: Leases, database: Database) -> None:
    with hold(leases, "+49301234567"):
        (stored,) = rows(database, 1)[0]
    assert len(stored) == 64
    assert "1234567" not in stored


def test_what_the_dead_left_behind_is_swept_away(
    leases: Leases, database: Database, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SWEEP", 1)
    dead = [hold(leases, f"{key}{n}", account_id=7, seconds=0.01) for n in range(5)]
    for each in dead:
        each.__enter__()
    time.sleep(0.05)
    with hold(leases, key, account_id=7), hold(leases, key + "x", account_id=7):
        assert len(rows(database, 7)) == 7
    assert rows(database, 7) == []
    for each in dead:
        each.__exit__(None, None, None)


def test_what_is_done_stays_done_when_the_lease_cannot_be_given_back(
    leases: Leases, key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Away:
        @contextmanager
        def reading(self) -> Iterator[Connection]:
            raise errors.Unavailable("The database is away.")
            yield

    with hold(leases, key):
        monkeypatch.setattr(leases, "_database", Away())
    assert [record.message for record in caplog.records] == [
        "A lease could not be given back; it runs out by itself."
    ]
