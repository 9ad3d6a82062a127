"""The deadline of the current call of a helper, and whether a caller waits for its answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from crmhub.queue.budgets import Copying

_UNHURRIED_S = 30.0
# A quarter, since most actions take two or three calls.
_FIRST_SHARE = 0.25


@dataclass(slots=True)
class _Call:
    until: float
    queued: bool
    copying: Copying
    under_way: bool = False


_call: ContextVar[_Call | None] = ContextVar("call", default=None)
_arrived: ContextVar[float | None] = ContextVar("arrived", default=None)
_deferred: ContextVar[bool] = ContextVar("deferred", default=False)


@contextmanager
def since(moment: float, *, deferred: bool = False) -> Iterator[None]:
    """Set when the current call arrived (monotonic), for the block; deadlines count from it.

    `deferred`: queue the call without an attempt, since its account uses all of its threads.
    """
    before, was_deferred = _arrived.set(moment), _deferred.set(deferred)
    try:
        yield
    finally:
        _arrived.reset(before)
        _deferred.reset(was_deferred)


def is_deferred() -> bool:
    """Return whether the current call must not wait for the CRM."""
    return _deferred.get()


def arrived() -> float:
    """Return when the current call arrived (monotonic), or the present outside of `since`."""
    moment = _arrived.get()
    return time.monotonic() if moment is None else moment


@contextmanager
def within(seconds: float, *, queued: bool = False, copying: Copying = "") -> Iterator[None]:
    """Set a deadline for the block: `seconds` after the current call arrived.

    In nested blocks, the earliest deadline applies. `queued`: no caller waits; calls with a waiting
    caller have priority. `copying`: the calls are for a copy of the CRM, and have the least; see
    `queue.budgets`.
    """
    outer = _call.get()
    until = arrived() + seconds
    mine = _Call(until if outer is None else min(until, outer.until), queued, copying)
    before = _call.set(mine)
    try:
        yield
    finally:
        _call.reset(before)


def remaining() -> float:
    """Return the seconds until the deadline of the current call, 30 without one."""
    call = _call.get()
    return _UNHURRIED_S if call is None else max(0.0, call.until - time.monotonic())


def patience() -> float:
    """Return how many seconds the current call may wait for the CRM's rate limit.

    If a caller waits, a wait may take a quarter of the time left, since an attempt that begins too
    late cannot end in time.
    """
    call = _call.get()
    if call is None or call.queued or call.under_way:
        return remaining()
    call.under_way = True
    return remaining() * _FIRST_SHARE


def is_queued() -> bool:
    call = _call.get()
    return call is not None and call.queued


def copying() -> Copying:
    call = _call.get()
    return "" if call is None else call.copying
