"""Combines writes that several threads make at the same time into one call."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R")

_MAX_BATCH = 100
# A call may wait for a lock of another process: after this time the next caller goes ahead.
_PATIENCE_S = 0.05


class _Caller(Generic[V, R]):
    __slots__ = ("done", "error", "is_leader", "is_sent", "outcome", "value")

    outcome: R

    def __init__(self, value: V) -> None:
        self.value = value
        self.error: BaseException | None = None
        # `is_leader`: it makes a call, or is the next to do so. `is_sent`: a call has its value.
        self.is_leader = self.is_sent = False
        # Released when the outcome is there; a lock is the cheapest thing to wait for.
        self.done = threading.Lock()
        self.done.acquire()


class _Queue(Generic[V, R]):
    __slots__ = ("leaders", "waiting")

    def __init__(self) -> None:
        self.leaders = 0
        self.waiting: list[_Caller[V, R]] = []

    def take_batch(self, caller: _Caller[V, R]) -> list[_Caller[V, R]]:
        """Return [] if another thread writes, or has written, the value of `caller`."""
        if caller.is_sent:
            return []
        self._let_lead(caller)
        others = [each for each in self.waiting if not each.is_leader]
        batch = [caller, *others[: _MAX_BATCH - 1]]
        for each in batch:
            each.is_sent = True
        self.waiting = [each for each in self.waiting if not each.is_sent]
        return batch

    def next_leader(self) -> _Caller[V, R] | None:
        self.leaders -= 1
        leader = next((each for each in self.waiting if not each.is_leader), None)
        if leader is not None:
            self._let_lead(leader)
        return leader

    def _let_lead(self, caller: _Caller[V, R]) -> None:
        if not caller.is_leader:
            caller.is_leader = True
            self.leaders += 1


class WriteBatcher(Generic[K, V, R]):
    """`write_all` gets a key and values and returns outcomes; all threads get its exception."""

    def __init__(self, write_all: Callable[[K, Sequence[V]], Sequence[R]]) -> None:
        self._write_all = write_all
        self._queues: dict[K, _Queue[V, R]] = {}
        self._lock = threading.Lock()

    def call(self, key: K, value: V) -> R:
        mine = _Caller[V, R](value)
        with self._lock:
            queue = self._queues.setdefault(key, _Queue())
            queue.waiting.append(mine)
            batch = [] if queue.leaders else queue.take_batch(mine)
        if not batch:
            is_released = mine.done.acquire(timeout=_PATIENCE_S)
            with self._lock:
                batch = queue.take_batch(mine)
            if not batch and not is_released:
                mine.done.acquire()
        if batch:
            self._write(key, queue, batch)
        if mine.error is not None:
            raise mine.error
        return mine.outcome

    def _write(self, key: K, queue: _Queue[V, R], batch: Sequence[_Caller[V, R]]) -> None:
        _, *others = batch
        try:
            outcomes = self._write_all(key, [each.value for each in batch])
            for each, outcome in zip(batch, outcomes, strict=True):
                each.outcome = outcome
        except BaseException as exc:  # Whatever it is: the other callers wait for it.
            for each in batch:
                # Each thread adds to the traceback of the exception that it raises.
                each.error = copy.copy(exc) if each in others else exc
        with self._lock:
            leader = queue.next_leader()
            if not queue.leaders:
                del self._queues[key]
        if leader is not None:
            leader.done.release()
        for each in others:
            each.done.release()
