"""The deadline of the present call, and whether a caller waits for its answer.

They belong to the call and not to its connection, so a context variable holds them instead of
arguments through every adapter.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_UNHURRIED_S = 30.0
# Most actions take two or three calls.
_FIRST_SHARE = 0.25


@dataclass(slots=True)
class _Call:
    until: float
    queued: bool
    under_way: bool = False


_call: ContextVar[_Call | None] = ContextVar("call", default=None)
_arrived: ContextVar[float | None] = ContextVar("arrived", default=None)
_deferred: ContextVar[bool] = ContextVar("deferred", default=False)


@contextmanager
def since(moment: float, *, deferred: bool = False) -> Iterator[None]:
    """Count the deadline of calls in the block from their arrival, by `time.monotonic`.

    `deferred`: the call is accepted and not attempted, since its account uses all its threads.
    """
    before, was_deferred = _arrived.set(moment), _deferred.set(deferred)
    try:
        yield
    finally:
        _arrived.reset(before)
        _deferred.reset(was_deferred)


def is_deferred() -> bool:
    """Return whether the present call is accepted and not attempted."""
    return _deferred.get()


def arrived() -> float:
    """Return when the present call arrived; now, outside of `since`."""
    moment = _arrived.get()
    return time.monotonic() if moment is None else moment


@contextmanager
def within(seconds: float, *, queued: bool = False) -> Iterator[None]:
    """Limit the block to so many seconds, within the deadline around it.

    `queued`: no caller waits for the answer, so interactive calls go first.
    """
    outer = _call.get()
    until = arrived() + seconds
    mine = _Call(until if outer is None else min(until, outer.until), queued)
    before = _call.set(mine)
    try:
        yield
    finally:
        _call.reset(before)


def remaining() -> float:
    """Return how many seconds are left of the deadline, at least 0."""
    call = _call.get()
    return _UNHURRIED_S if call is None else max(0.0, call.until - time.monotonic())


def patience() -> float:
    """Return how many seconds the present call may wait for its turn in a budget.

    The first call of an attempt may wait for a share of the time left: an attempt that begins too
    late would not end in time, and would waste its turns.
    """
    call = _call.get()
    if call is None or call.queued or call.under_way:
        return remaining()
    call.under_way = True
    return remaining() * _FIRST_SHARE


def is_queued() -> bool:
    """Return whether no caller waits for the answer."""
    call = _call.get()
    return call is not None and call.queued
