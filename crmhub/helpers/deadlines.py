"""How long the present call may take, whether anybody waits for its answer, and whether to begin.

They belong to the call and not to the connection that it uses, so they are kept beside the
thread's work instead of being handed through every adapter.
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
    """Let the time of a call in the block count from its arrival then, by `time.monotonic`.

    `deferred` says that the call is written down and no more: its account has all the threads of
    this process that it may have.
    """
    before, was_deferred = _arrived.set(moment), _deferred.set(deferred)
    try:
        yield
    finally:
        _arrived.reset(before)
        _deferred.reset(was_deferred)


def is_deferred() -> bool:
    """Return whether the present call is written down and no more."""
    return _deferred.get()


def arrived() -> float:
    """Return when the present call arrived: now, unless `since` says it."""
    moment = _arrived.get()
    return time.monotonic() if moment is None else moment


@contextmanager
def within(seconds: float, *, queued: bool = False) -> Iterator[None]:
    """Let the call of the block take so many seconds in all, within what its caller has left.

    `queued` says that nobody waits for the answer, so that others may go first.
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
    """Return how many seconds the present call may still take, 0 when its time is over."""
    call = _call.get()
    return _UNHURRIED_S if call is None else max(0.0, call.until - time.monotonic())


def patience() -> float:
    """Return how many seconds the present call may wait for its turn among others.

    At first that is a share of what it has left: who has to wait longer had better not begin,
    since it would not come to its end, and its turns would be lost to those that could.
    """
    call = _call.get()
    if call is None or call.queued or call.under_way:
        return remaining()
    call.under_way = True
    return remaining() * _FIRST_SHARE


def is_queued() -> bool:
    """Return whether nobody waits for the present call's answer."""
    call = _call.get()
    return call is not None and call.queued
