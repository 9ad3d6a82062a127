"""Time that a test moves on by itself, so that it hangs neither on sleep nor on a quick machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from crmhub.database.connection import Connection, now_ms


class Clock:
    """The time, by as many seconds later as a test has let pass."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def forward(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self._ahead += seconds

    def monotonic(self) -> float:
        """Stand for time.monotonic."""
        return time.monotonic() + self._ahead

    def time(self) -> float:
        """Stand for time.time."""
        return time.time() + self._ahead

    def sleep(self, seconds: float) -> None:
        """Stand for time.sleep."""
        self.forward(seconds)

    def now_ms(self) -> int:
        """Stand for crmhub.database.connection.now_ms."""
        return now_ms() + int(self._ahead * 1000)


def clock_of(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that a module of the hub reads from now on, which no other one does."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    if hasattr(module, "now_ms"):
        monkeypatch.setattr(module, "now_ms", clock.now_ms)
    return clock


class Clocks:
    """The clocks of this host and of the database, which a test sets; what is monotonic runs on.

    Nothing but clocks is moved: what was stored before keeps its date.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, time_machine: Any) -> None:
        self._time_machine = time_machine
        self._ahead_ms = 0
        time_machine.move_to(time.time(), tick=True)
        moment = Connection.now_ms

        def moved(connection: Connection) -> int:
            # SQLite has this host's clock, which is moved already.
            return moment(connection) + self._ahead_ms * (connection.dialect != "sqlite")

        monkeypatch.setattr(Connection, "now_ms", moved)

    def set(self, seconds: int) -> None:
        """Set both ahead, or back, by so much."""
        self._ahead_ms += seconds * 1000
        self._time_machine.shift(seconds)


def next_ms() -> None:
    """Wait until what is stored from now on has a later millisecond than what was stored before."""
    moment = now_ms()
    while now_ms() <= moment:
        time.sleep(0.0005)


@contextmanager
def in_no_time() -> Iterator[None]:
    """Assert that what is done takes this thread a few seconds of a processor at the most.

    That is for what takes milliseconds, and would take minutes if its time grew with the square
    of what it is given.
    """
    began = time.thread_time()
    yield
    assert time.thread_time() - began < 5
