"""Calls that come at the same time are made together, by one of those who make them.

Several records in one statement take the database less time than one by one, and wait for the disk
once. Nobody waits for company: whoever comes while no such call is under way makes it at once, and
those who come meanwhile are made together in the next one.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R")

_AT_ONCE = 100
# The call under way may be held up by what another process has locked: the next one goes by it.
_PATIENCE_S = 0.05


class _Caller(Generic[V, R]):
    """What one caller wants, and what came of it."""

    __slots__ = ("bell", "error", "leads", "outcome", "taken", "value")

    outcome: R

    def __init__(self, value: V) -> None:
        self.value = value
        self.error: BaseException | None = None
        # Whether it makes a call, or is the next to do so; and whether its value is in one.
        self.leads = self.taken = False
        # Held until there is something to tell: the least that a thread can wait for.
        self.bell = threading.Lock()
        self.bell.acquire()


class _Line(Generic[V, R]):
    """Who waits, and how many make a call; as long as anybody waits, somebody does."""

    __slots__ = ("leaders", "waiting")

    def __init__(self) -> None:
        self.leaders = 0
        self.waiting: list[_Caller[V, R]] = []

    def taken_by(self, caller: _Caller[V, R]) -> list[_Caller[V, R]]:
        """Return the callers whose values this one is to send, its own first; none if it is in."""
        if caller.taken:
            return []
        self._let_lead(caller)
        others = [each for each in self.waiting if not each.leads]
        together = [caller, *others[: _AT_ONCE - 1]]
        for each in together:
            each.taken = True
        self.waiting = [each for each in self.waiting if not each.taken]
        return together

    def next_after_a_call(self) -> _Caller[V, R] | None:
        """Return who is to make the next call, now that one is over."""
        self.leaders -= 1
        heir = next((each for each in self.waiting if not each.leads), None)
        if heir is not None:
            self._let_lead(heir)
        return heir

    def _let_lead(self, caller: _Caller[V, R]) -> None:
        if not caller.leads:
            caller.leads = True
            self.leaders += 1


class Gathering(Generic[K, V, R]):
    """Makes calls of `work`, which takes a key and values of several callers.

    It returns as many outcomes. What it raises is raised to all whose values it took.
    """

    def __init__(self, work: Callable[[K, Sequence[V]], Sequence[R]]) -> None:
        self._work = work
        self._lines: dict[K, _Line[V, R]] = {}
        self._lock = threading.Lock()

    def call(self, key: K, value: V) -> R:
        """Return what comes of `value`, sent alone or with others of the same key."""
        mine = _Caller[V, R](value)
        with self._lock:
            line = self._lines.setdefault(key, _Line())
            line.waiting.append(mine)
            together = [] if line.leaders else line.taken_by(mine)
        if not together:
            told = mine.bell.acquire(timeout=_PATIENCE_S)
            with self._lock:
                together = line.taken_by(mine)
            if not together and not told:
                mine.bell.acquire()
        if together:
            self._make(key, line, together)
        if mine.error is not None:
            raise mine.error
        return mine.outcome

    def _make(self, key: K, line: _Line[V, R], together: Sequence[_Caller[V, R]]) -> None:
        _, *others = together
        try:
            outcomes = self._work(key, [each.value for each in together])
            for each, outcome in zip(together, outcomes, strict=True):
                each.outcome = outcome
        except BaseException as exc:  # Whatever it is: the others wait to be told.
            for each in together:
                # Each thread adds to the traceback of what it raises.
                each.error = copy.copy(exc) if each in others else exc
        with self._lock:
            heir = line.next_after_a_call()
            if not line.leaders:
                del self._lines[key]
        if heir is not None:
            heir.bell.release()
        for each in others:
            each.bell.release()
