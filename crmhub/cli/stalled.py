"""Closes connections on which nothing moves, where they leave little room for others.

A body that never ends, or an answer that nobody reads, holds one of the connections that a server
process has room for, and granian waits for either without end.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, suppress
from typing import NoReturn

import structlog

_STALLED_SECONDS = 10.0
_LOOK_SECONDS = 2.0
# How long after its last byte a request may be known to be there as a whole.
_LATE_SECONDS = 1.0
# Of Linux's `struct tcp_info`: how long ago (ms) data was sent and data came.
_LAST_SENT, _LAST_CAME = 44, 52
_log = structlog.get_logger("crmhub.serve")

Arrivals = Callable[[], Collection[float]]


def keep_room(room: int, arrivals: Arrivals) -> None:
    """From now on close what stalls where more than half of `room` connections are taken.

    `arrivals` tells when the requests came that are worked on or wait for their turn.
    """
    if sys.platform == "linux":  # which alone tells what is asked of it here
        threading.Thread(target=_keep_room, args=(room, arrivals), daemon=True).start()


def _keep_room(room: int, arrivals: Arrivals) -> NoReturn:
    while True:
        time.sleep(_LOOK_SECONDS)
        closed = 0
        with suppress(OSError):  # no descriptor is left to look with
            closed = close_stalled(room, arrivals)
        if closed:
            _log.warning(
                "connections closed",
                connections=closed,
                reason=f"nothing came or was read there for {_STALLED_SECONDS:.0f} s,"
                " and others had little room",
            )


def close_stalled(room: int, arrivals: Arrivals, *, after: float = _STALLED_SECONDS) -> int:
    """Close connections on which nothing came or went for `after` seconds; return how many.

    Nothing is closed unless more than half of `room` connections to the ports that this process
    listens on are open, nor where a request that came last may be worked on.
    """
    with ExitStack() as held:
        ours = [held.enter_context(each) for each in _sockets()]
        ports = {each.getsockname()[1] for each in ours if _listens(each)}
        callers = [each for each in ours if not _listens(each) and each.getsockname()[1] in ports]
        if len(callers) * 2 <= room:
            return 0
        # In this order: what came after the look is not still.
        still = [(each, *_still_for(each)) for each in callers]
        now = time.monotonic()
        worked_on = [now - moment for moment in arrivals()]
        stalled = [
            each
            for each, sent, came in still
            if min(sent, came) >= after
            and not any(abs(came - other) < _LATE_SECONDS for other in worked_on)
        ]
        for each in stalled:
            with suppress(OSError):  # the caller was faster
                each.shutdown(socket.SHUT_RDWR)
        return len(stalled)


def _sockets() -> Iterator[socket.socket]:
    """Give the TCP sockets of this process, each under a descriptor of its own.

    No other descriptor is touched. Above all no second one of a file may ever be closed: POSIX
    would give up every lock of this process on that file, those of SQLite with them, and another
    process could take the database for unused (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            descriptor = os.dup(descriptor)
        except OSError:  # closed meanwhile
            continue
        try:
            found = socket.socket(fileno=descriptor)
        except OSError:
            # Between the look and the copy it became a file: the copy is not worth its locks.
            continue
        if found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM:
            yield found
        else:
            found.close()


def _listens(one: socket.socket) -> bool:
    return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _still_for(one: socket.socket) -> tuple[float, float]:
    """Return how long ago (s) data was sent there, and how long ago data came."""
    told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_CAME + 4)
    [sent] = struct.unpack_from("=I", told, _LAST_SENT)
    [came] = struct.unpack_from("=I", told, _LAST_CAME)
    return sent / 1000, came / 1000
