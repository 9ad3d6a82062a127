"""Calls that come while one is under way are made together in the next one."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from crmhub.database import write_batcher
from crmhub.database.write_batcher import WriteBatcher
from crmhub.errors import Unavailable
from tests.queue.working import soon

HELD = "held"


class Work:
    """Doubles numbers; a call with HELD's key takes until it is let go."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.error: Exception | None = None
        self.let_go = threading.Event()
        self.batcher = WriteBatcher[str, int, int](self)

    def __call__(self, key: str, values: Sequence[int]) -> list[int]:
        self.calls.append(list(values))
        if values[0] == 1 and key == HELD:
            assert self.let_go.wait(120)
        if self.error is not None and key == HELD and 1 not in values:
            raise self.error
        return [2 * each for each in values]

    def waiting(self) -> int:
        line = self.batcher._queues.get(HELD)
        return len(line.waiting) if line else 0


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_batcher, "_PATIENCE_S", 120)


@contextmanager
def callers(work: Work, n: int) -> Iterator[list[Future[int]]]:
    """Have the calls 1 to n come one after the other, while the first one is held up."""
    with ThreadPoolExecutor(n) as threads:
        futures = []
        try:
            for number in range(1, n + 1):
                futures.append(threads.submit(work.batcher.call, HELD, number))
                soon(lambda number=number: work.waiting() == number - 1 and bool(work.calls))
            yield futures
        finally:
            work.let_go.set()


def test_who_comes_alone_waits_for_nobody(work: Work) -> None:
    assert [work.batcher.call(HELD, number) for number in (2, 3)] == [4, 6]
    assert work.calls == [[2], [3]]


@pytest.mark.usefixtures("patient")
def test_those_who_come_meanwhile_are_one_call(work: Work) -> None:
    with callers(work, 5) as futures:
        assert work.batcher.call("another key", 7) == 14
        work.let_go.set()
        assert [each.result(120) for each in futures] == [2, 4, 6, 8, 10]
    assert work.calls == [[1], [7], [2, 3, 4, 5]]
    assert work.batcher._queues == {}


@pytest.mark.usefixtures("patient")
def test_a_call_has_a_bound(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_batcher, "_MAX_BATCH", 2)
    with callers(work, 6) as futures:
        work.let_go.set()
        assert [each.result(120) for each in futures] == [2, 4, 6, 8, 10, 12]
    assert work.calls == [[1], [2, 3], [4, 5], [6]]


@pytest.mark.usefixtures("patient")
def test_what_fails_fails_for_all_of_it_and_for_nobody_else(work: Work) -> None:
    work.error = Unavailable("The database is away.", retry_after=7)
    with callers(work, 4) as futures:
        work.let_go.set()
        assert futures[0].result(120) == 2
        raised = [each.exception(120) for each in futures[1:]]
    assert len({id(each) for each in raised}) == 3
    assert {(type(each), str(each), each.retry_after) for each in raised} == {
        (Unavailable, "The database is away.", 7)
    }
    work.error = None
    assert work.batcher.call(HELD, 9) == 18


def test_a_call_that_is_held_up_holds_up_no_other(work: Work) -> None:
    with callers(work, 1) as [first]:
        # These wait a moment for the first one, and go by it.
        assert [work.batcher.call(HELD, number) for number in (2, 3)] == [4, 6]
        assert not first.done()
    assert first.result(120) == 2
    assert work.batcher._queues == {}


def test_everyone_gets_what_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    # So short that calls overtake each other all the time.
    monkeypatch.setattr(write_batcher, "_PATIENCE_S", 0.0005)

    def work(key: int, values: Sequence[int]) -> list[tuple[int, int]]:
        time.sleep(random.random() * 0.002)
        if len(values) == 3:
            raise ValueError(values)
        return [(key, each) for each in values]

    crowd = WriteBatcher[int, int, tuple[int, int]](work)

    def call(number: int) -> bool:
        try:
            return crowd.call(number % 2, number) == (number % 2, number)
        except ValueError as exc:
            return number in exc.args[0]

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(call, range(3000)))
    assert crowd._queues == {}
