"""The deadline of the current helper call, and whether a caller waits for its answer.

Context variables store both, so that adapters need no arguments for them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_UNHURRIED_S = 30.0
# A quarter, since most actions take two or three calls.
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
    """Set the time when the current call arrived, by `time.monotonic`, for the block.

    Deadlines inside the block count from this time. `deferred`: the call must only be queued, since
    its account uses all the threads it may use.
    """
    before, was_deferred = _arrived.set(moment), _deferred.set(deferred)
    try:
        yield
    finally:
        _arrived.reset(before)
        _deferred.reset(was_deferred)


def is_deferred() -> bool:
    """Return whether the current call must be queued without an attempt."""
    return _deferred.get()


def arrived() -> float:
    """Return when the current call arrived, by `time.monotonic`; now, if `since` is not used."""
    moment = _arrived.get()
    return time.monotonic() if moment is None else moment


@contextmanager
def within(seconds: float, *, queued: bool = False) -> Iterator[None]:
    """Set a deadline for the block: `seconds` after the current call arrived.

    In nested blocks, the earliest deadline counts. `queued`: no caller waits for the answer, so
    interactive calls have priority.
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
    """Return the seconds until the deadline of the current call, at least 0; 30 without one."""
    call = _call.get()
    return _UNHURRIED_S if call is None else max(0.0, call.until - time.monotonic())


def patience() -> float:
    """Return how many seconds the current call may wait for its turn to call the CRM.

    For an interactive call, the first wait may take a quarter of the time to the deadline: an
    attempt that begins too late could not end in time. Later waits may take all of it.
    """
    call = _call.get()
    if call is None or call.queued or call.under_way:
        return remaining()
    call.under_way = True
    return remaining() * _FIRST_SHARE


def is_queued() -> bool:
    """Return whether no caller waits for the answer of the current call."""
    call = _call.get()
    return call is not None and call.queued
