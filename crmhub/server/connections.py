"""Who may hold a connection and for how long, so that nobody locks others out by holding many.

granian has room for a number of connections in each process, and gives a request a thread as soon
as its headers are there. It waits without end for a body, and for a caller to read an answer. So
each process looks at its own connections and closes some, by this rule:

1. No connection is closed while its request is worked on or waits for its turn.
2. A request must be there as a whole `CRMHUB_READ_TIMEOUT_S` after its first byte. Beside that,
   nothing may stand still for 80 s: an answer must be read, and an idle connection be used
   (granian itself closes an idle one after 75 s).
3. Beyond a bound, connections make room: the slow ones first, the longest slow before the others,
   then the idle ones, the longest idle before the others. Slow is a caller who is sending a
   request, does not read an answer, or has sent nothing yet. The bounds are:
   - of one address, `CRMHUB_CONNECTIONS_PER_ADDRESS` that are slow or idle for a second and more.
     A /64 of IPv6 counts as one address; trusted proxies have no such bound;
   - of those whose long bodies hold a place and do not get on, as many as wait for a place;
   - of all, so many that a fifth of what granian has room for is free.

The kernel tells how a connection stands: when data last came and was last sent, and how much.
Data that came after the last answer is a request, in part or as a whole. WSGI does not tell on
which connection a request came, since it gives no port: it is one of the same address, where data
last came just before the request was there as a whole.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import NoReturn

import structlog

from crmhub.accounts.limits import network_of
from crmhub.api.http.addresses import is_trusted
from crmhub.setting_values import Network

# A longer body waits for a place among those that are read.
SHORT_BODY = 65_536

# Between two looks. One at 2,000 connections takes 15 ms.
_LOOK_SECONDS, _CROWDED_LOOK_SECONDS = 0.5, 0.05
_LOG_SECONDS = 10.0
# granian closes an idle connection after 75 s itself.
_STILL_SECONDS = 80.0
# A busy caller has connections of any state at any moment; those that are so for longer count.
_NEW_SECONDS = 1.0
# A request is known to be there so long after its last byte, at most, and usually.
_LATE_SECONDS, _USUAL_SECONDS = 10.0, 0.25
# So long after a connection is closed, its request may still be in the hands of a thread.
_ENDING_SECONDS = 10.0
# The kernel's clock for connections ticks every 4 to 10 ms.
_TICK_SECONDS = 0.02
# Several connections of one address may have moved just before a request was there; it may be on
# any, so it keeps so many from being closed. No more, lest one request protect all the slow ones.
_ALIKE = 4
# A body that gets on by less in a second does not get on.
_PROGRESS_BYTES = 4096
# Of `HTTP/1.1 100 Continue`, which is no answer; every other has more.
_CONTINUE_BYTES = 25
# Of Linux's `struct tcp_info`: the state, how long ago (ms) data was sent and data came, how many
# bytes came, how many wait to be sent, and how many were sent.
_TCP_INFO = struct.Struct("=B43xI4xI72xQ8xI52xQ")
_ESTABLISHED, _CLOSE_WAIT = 1, 8
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
# Why a connection is closed, as the log says it.
_TIMEOUT, _ADDRESS, _ROOM = "timed_out", "of_busy_addresses", "for_room"
_log = structlog.get_logger("crmhub.serve")

# What counts as one address.
_owner = lru_cache(4096)(network_of)


class Request:
    """A request whose headers are there; `arrived` once its body is, too."""

    __slots__ = (
        "_connections",
        "_lines",
        "address",
        "arrived",
        "began",
        "expects",
        "has_place",
        "waits_since",
    )

    def __init__(self, address: str, connections: Connections) -> None:
        self.address = address
        self.began = time.monotonic()
        self.arrived: float | None = None
        # The caller asked for `100 Continue`.
        self.expects = False
        # Whether its body has a place among the long ones, or since when it waits for one (or 0).
        self.has_place, self.waits_since = False, 0.0
        self._connections = connections
        self._lines: list[tuple[_Line, int]] | None = None

    def hung_up(self) -> bool:
        """Return whether the caller has hung up; False where that cannot be told.

        The first call notes every connection that may be the caller's: it is open, of the same
        address, and holds an unanswered request. Each later call drops those that were closed,
        and those that got an answer meanwhile: they were another request's. The caller hung up
        when none is left.
        """
        if self._lines is None:
            self._lines = self._connections.unanswered(self)
            # Nothing is told of a caller who is on none of them.
            return False
        left = [(line, sent) for line, sent in self._lines if line.still_waits(sent)]
        gone = bool(self._lines) and not left
        if not gone:
            self._lines = left
        return gone


class Connections:
    """The connections to `port` that this process has, and the requests that came on them."""

    def __init__(
        self,
        port: int,
        *,
        read_timeout: float,
        per_address: int,
        room: int,
        trusted: Sequence[Network] = (),
    ) -> None:
        self.requests = dict[int, Request]()
        """By the thread that has each."""
        self._port = port
        self._read_timeout = read_timeout
        self._per_address = per_address
        self._most = room * 4 // 5
        self._is_crowded = False
        self._trusted = tuple(trusted)
        self._closed_at = 0.0
        # By the number of the socket's inode; None for a socket that is no connection of ours.
        self._known: dict[int, _Line | None] = {}

    @property
    def has_just_closed(self) -> bool:
        """Whether connections were closed a moment ago."""
        return time.monotonic() - self._closed_at < _ENDING_SECONDS

    def watch(self) -> None:
        """From now on look at the connections, several times a second."""
        if _can_tell():
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> NoReturn:
        pause, logged, closed = _LOOK_SECONDS, 0.0, Counter[str]()
        while True:
            time.sleep(pause)
            began = time.monotonic()
            with suppress(OSError):  # no descriptor is left to look with
                closed += self.look()
            now = time.monotonic()
            if closed and now - logged > _LOG_SECONDS:
                _log.warning("connections closed", **closed)
                logged, closed = now, Counter()
            pause = _CROWDED_LOOK_SECONDS if self._is_crowded else _LOOK_SECONDS
            # At most half of the time is for looking.
            pause = max(pause, now - began)

    def look(self) -> Counter[str]:
        """Close what the rule says; return how many connections for which reason."""
        began = time.monotonic()
        lines = [line for line in self._lines() if line.see()]
        worked_on = self._worked_on(lines)
        others = [line for line in lines if line not in worked_on]
        # The first is the first to be closed.
        others.sort(key=lambda line: (not line.slow, line.since))
        closed = Counter[str]()
        for line, reason in self._superfluous(others, len(lines), began).items():
            closed[reason] += self._close(line, since=began)
        self._is_crowded = closed[_ROOM] > 0 or len(lines) > self._most
        return closed

    def unanswered(self, request: Request) -> list[tuple[_Line, int]]:
        """Return the connections that may be the request's, and how much was sent on each."""
        # A `100 Continue` that is sent after the body has come looks like an answer.
        if not _can_tell() or request.expects:
            return []
        owner, found = _owner(request.address), []
        for line in self._lines():
            if line.owner == owner:
                with suppress(OSError):  # closed meanwhile
                    now, told = time.monotonic(), line.told()
                    state, sent_ms, came_ms, received, _, sent = told
                    if (
                        state == _ESTABLISHED
                        and received
                        and came_ms <= sent_ms
                        and now - came_ms / 1000 > request.began - _LATE_SECONDS
                        and now - sent_ms / 1000 < (request.arrived or now) + _TICK_SECONDS
                    ):
                        found.append((line, sent))
        return found

    def _lines(self) -> list[_Line]:
        """Return the connections that are open now, each as the same object in every look.

        No descriptor is made, and none is closed. Above all no second one of a file may ever be
        closed: POSIX would give up every lock of this process on that file, those of SQLite with
        them, and another process could take the database for unused
        (https://sqlite.org/howtocorrupt.html, 2.2).
        """
        known, found = self._known, dict[int, _Line | None]()
        for name in os.listdir("/proc/self/fd"):
            descriptor = int(name)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISSOCK(status.st_mode):
                    continue
                inode = status.st_ino
                line = known.get(inode)
                if inode not in known or (line and line.descriptor != descriptor):
                    line = self._meet(descriptor, inode)
                found[inode] = line
            except OSError:  # closed meanwhile, or it listens
                continue
        self._known = found
        return [line for line in found.values() if line]

    def _meet(self, descriptor: int, inode: int) -> _Line | None:
        """Return a connection seen for the first time; None for a socket that is none of ours.

        Raises OSError where there is no peer.
        """
        one = socket.socket(fileno=descriptor)
        try:
            is_tcp = one.type == socket.SOCK_STREAM and one.family in _FAMILIES
            if not is_tcp or one.getsockname()[1] != self._port:
                return None
            peer = one.getpeername()[0]
        finally:
            one.detach()
        return _Line(descriptor, inode, _owner(peer), is_trusted(peer, self._trusted))

    def _worked_on(self, lines: Iterable[_Line]) -> set[_Line]:
        """Return the connections whose requests are there as a whole and not answered yet."""
        arrived = defaultdict(list)
        for request in list(self.requests.values()):
            if request.arrived is not None:
                arrived[_owner(request.address)].append((request.arrived, request.began))
        by_owner = defaultdict(list)
        for line in lines:
            if line.owner in arrived and line.may_be_worked_on:
                by_owner[line.owner].append(line)
        found = set()
        for owner, possible in by_owner.items():
            possible.sort(key=lambda line: line.came)
            for whole, began in sorted(arrived[owner], reverse=True):
                while possible and possible[-1].came > whole + _TICK_SECONDS:
                    possible.pop()
                late = _LATE_SECONDS
                for _ in range(_ALIKE):
                    if possible and possible[-1].came > began - late:
                        found.add(possible.pop())
                    late = _USUAL_SECONDS
        return found

    def _superfluous(self, lines: list[_Line], total: int, now: float) -> dict[_Line, str]:
        """Return those to be closed, and why, of lines on which nothing is worked on.

        `total` counts the others, too.
        """
        found: dict[_Line, str] = {}
        for line in lines:
            if now - line.since > (self._read_timeout if line.reading else _STILL_SECONDS):
                found[line] = _TIMEOUT
        settled = [line for line in lines if now - line.since > _USUAL_SECONDS]
        old = [line for line in settled if now - line.since > _NEW_SECONDS]
        by_owner = defaultdict(list)
        for line in old:
            if not line.is_proxy:
                by_owner[line.owner].append(line)
        for group, excess, reason in (
            *((each, len(each) - self._per_address, _ADDRESS) for each in by_owner.values()),
            self._stuck([line for line in old if line.is_long], now),
            (settled, total - self._most, _ROOM),
        ):
            left = [line for line in group if line not in found]
            excess -= len(group) - len(left)
            found |= dict.fromkeys(left[: max(0, excess)], reason)
        return found

    def _stuck(self, lines: list[_Line], now: float) -> tuple[list[_Line], int, str]:
        """Return which of the long bodies may make room for others, and how many of them are to.

        Nothing is read of those that wait for a place, so that they do not get on either; but
        they came later than those that have one.
        """
        requests = list(self.requests.values())
        waiting = sum(0 < each.waits_since < now - _NEW_SECONDS for each in requests)
        without_place = len(lines) - sum(each.has_place for each in requests)
        stuck = [line for line in lines if now - line.moved > _NEW_SECONDS]
        return stuck, min(waiting, len(stuck) - max(0, without_place)), _ROOM

    def _close(self, line: _Line, *, since: float) -> bool:
        """Close a connection, unless there is something to work on by now; return whether."""
        was_slow, came = line.slow, line.received
        if not line.see() or (line.received != came and not was_slow):
            return False
        for request in list(self.requests.values()):
            whole = request.arrived
            if (
                whole is not None
                and whole > since
                and abs(whole - line.came) < _USUAL_SECONDS
                and _owner(request.address) == line.owner
            ):
                return False
        self._closed_at = time.monotonic()
        return line.shut()


class _Line:
    """One connection, and how it stood at the last look.

    It is known by the number of granian's descriptor, as long as the inode is the same.
    """

    __slots__ = (
        "_answered",
        "_before",
        "_marked",
        "came",
        "descriptor",
        "inode",
        "is_long",
        "is_proxy",
        "may_be_worked_on",
        "moved",
        "owner",
        "reading",
        "received",
        "since",
        "slow",
    )

    def __init__(self, descriptor: int, inode: int, owner: str, is_proxy: bool) -> None:
        self.descriptor, self.inode = descriptor, inode
        self.owner, self.is_proxy = owner, is_proxy
        # When data last came, and since when it is as it is; both by `time.monotonic`.
        self.came = self.since = 0.0
        self.reading = self.slow = self.is_long = self.may_be_worked_on = False
        # When a body last got on.
        self.moved = 0.0
        # Bytes that came, that had come then and before this request; sent before its answer.
        self.received = self._marked = self._before = self._answered = 0

    def told(self) -> tuple[int, ...]:
        """Return what the kernel tells of it, as `_TCP_INFO` says; raises OSError."""
        # Python closes what it has an object for, and this is granian's: none is kept.
        one = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, self.descriptor)
        try:
            told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        finally:
            one.detach()
        return _TCP_INFO.unpack(told)

    def see(self) -> bool:
        """Note how it stands now; return False where it is gone."""
        was_reading, now = self.reading, time.monotonic()
        try:
            state, sent_ms, came_ms, self.received, unsent, sent = self.told()
        except OSError:
            return False
        if state not in (_ESTABLISHED, _CLOSE_WAIT):
            return False
        answer = sent - self._answered
        self.came = now - came_ms / 1000
        expected = answer == _CONTINUE_BYTES
        self.may_be_worked_on = self.received > 0 and (came_ms <= sent_ms or expected)
        self.reading = self.received > 0 and (came_ms < sent_ms or not sent or expected)
        if not self.reading:
            self.since = now - min(came_ms, sent_ms) / 1000
            self._before = self.received
        elif not was_reading or answer > _CONTINUE_BYTES:
            self.since = self.came
        if not expected:
            self._answered = sent
        if not self.reading or self.received >= self._marked + _PROGRESS_BYTES:
            self._marked, self.moved = self.received, now
        self.slow = self.reading or unsent > 0 or not self.received
        self.is_long = self.reading and self.received - self._before > SHORT_BODY
        return True

    def still_waits(self, sent: int) -> bool:
        """Return whether it is open, and nothing was sent on it beyond so many bytes."""
        try:
            same = os.fstat(self.descriptor).st_ino == self.inode
            state, *_, sent_by_now = self.told()
        except OSError:
            return False
        return same and state == _ESTABLISHED and sent_by_now == sent

    def shut(self) -> bool:
        """Close it for both sides; return False where it is gone already."""
        try:
            # By a descriptor of our own, which cannot come to mean something else meanwhile.
            copy = os.dup(self.descriptor)
            held = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, copy)
        except OSError:
            # Where a file has taken its place, the copy stays open: it is not worth the locks.
            return False
        with held:
            if os.fstat(copy).st_ino != self.inode:
                return False
            with suppress(OSError):  # the caller was faster
                held.shutdown(socket.SHUT_RDWR)
        return True


@cache
def _can_tell() -> bool:
    """Whether this system tells of connections what is asked here: Linux does, since 4.19."""
    if sys.platform != "linux":
        return False
    with socket.socket() as some:
        told = some.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    return len(told) == _TCP_INFO.size
