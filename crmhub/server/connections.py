"""Limits on connections, so that no client blocks others by keeping many connections open.

granian accepts a number of connections in each process, and gives a request a thread as soon as its
headers have arrived. granian waits without limit for a body, and for a client to read an answer. So
each process checks its own connections and closes some of them, by these rules:

1. No connection is closed while its request is processed or waits for a thread.
2. A request must be complete `CRMHUB_READ_TIMEOUT_S` after its first byte. In any other state a
   connection may stay unchanged for 80 s: unread answers and idle connections
   (granian itself closes an idle one after 75 s).
3. Above a limit, connections are closed: first slow ones, then idle ones, always starting with the
   one unchanged for longest. A client is slow while sending a request, while not reading an answer,
   or before sending anything. The limits are:
   - for one address, `CRMHUB_CONNECTIONS_PER_ADDRESS` connections that were slow or idle for more
     than a second. A /64 of IPv6 counts as one address; trusted proxies have no such limit;
   - for long bodies without progress: as many are closed as other long bodies wait for a place;
   - for all connections: a fifth of the number that granian accepts stays free.

WSGI does not say on which connection a request arrived, since it gives no port. The candidates are
the connections of the same address that received data just before the request was complete.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NoReturn

import structlog

from crmhub.accounts.limits import network_of
from crmhub.api.http.addresses import is_trusted
from crmhub.server.tcp_connection import ESTABLISHED, TcpConnection, has_tcp_info
from crmhub.setting_values import Network

# Pauses between two checks. A check of 2,000 connections takes 15 ms.
_CHECK_SECONDS, _CROWDED_CHECK_SECONDS = 0.5, 0.05
_LOG_SECONDS = 10.0
# granian itself closes an idle connection after 75 s.
_UNCHANGED_SECONDS = 80.0
# A busy client has connections in any state at any moment; only longer-lasting states count.
_NEW_SECONDS = 1.0
# The longest and the usual time between a request's last byte and the app's knowledge of it.
_LATE_SECONDS, _USUAL_SECONDS = 10.0, 0.25
# After a connection is closed, a thread may still process its request for this long.
_ENDING_SECONDS = 10.0
# The kernel's clock for connections ticks every 4 to 10 ms.
_TICK_SECONDS = 0.02
# If several connections of an address received data just before a request was complete, it may be
# on any of them. So it protects this many; with more, one request would protect all slow ones.
_CANDIDATES = 4
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
# The reasons for closing, as the log names them.
_TIMEOUT, _ADDRESS, _ROOM = "timed_out", "of_busy_addresses", "for_room"
_log = structlog.get_logger("crmhub.serve")

_network = lru_cache(4096)(network_of)


class Request:
    """A request whose headers have arrived; its body may be incomplete.

    `began_at` and `complete_at`: when the headers and the whole body had arrived, by
    `time.monotonic`; `complete_at` is None before.
    """

    __slots__ = (
        "_candidates",
        "_connections",
        "address",
        "began_at",
        "complete_at",
        "expects_continue",
        "has_place",
        "waiting_since",
    )

    def __init__(self, address: str, connections: Connections) -> None:
        self.address = address
        self.began_at = time.monotonic()
        self.complete_at: float | None = None
        self.expects_continue = False
        # Whether its long body has a place to be read, and since when it waits for one (0: not).
        self.has_place, self.waiting_since = False, 0.0
        self._connections = connections
        self._candidates: list[tuple[TcpConnection, int]] | None = None

    def has_hung_up(self) -> bool:
        """Return whether the client has closed its connection; False if this is unknown.

        The connection on which the request arrived is unknown. So the first call stores the
        candidates: the open connections from the client's address that have an unanswered request.
        Later calls remove candidates that were closed, and candidates that were answered, which
        belong to other requests. The client has hung up if no candidate is left.
        """
        if self._candidates is None:
            self._candidates = self._connections.find_candidates(self)
            # Without candidates the state of the caller is unknown.
            return False
        left = [(line, sent) for line, sent in self._candidates if line.is_unanswered(sent)]
        if self._candidates and not left:
            return True
        self._candidates = left
        return False


class Connections:
    """The connections of clients to `port` in this process, and the requests that arrived on them.

    `read_timeout`: the seconds in which a request must arrive. `per_address`: the greatest number
    of slow or idle connections from one address. `room`: the number of connections that granian
    accepts. `trusted`: networks of proxies, which have no limit per address.
    """

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
        """The requests in progress, by the id of the thread that processes the request."""
        self._port = port
        self._read_timeout = read_timeout
        self._per_address = per_address
        self._limit = room * 4 // 5
        self._is_crowded = False
        self._trusted = tuple(trusted)
        self._closed_at = 0.0
        # By the socket's inode; None for a socket that is no connection to `port`.
        self._sockets: dict[int, TcpConnection | None] = {}

    @property
    def has_closed_recently(self) -> bool:
        """True if this object has closed a connection within the last ten seconds."""
        return time.monotonic() - self._closed_at < _ENDING_SECONDS

    def start_checks(self) -> None:
        """Start a thread that calls `close_excess` several times a second.

        Does nothing on systems where the kernel does not report the state of connections.
        """
        if has_tcp_info():
            threading.Thread(target=self._check_forever, daemon=True).start()

    def _check_forever(self) -> NoReturn:
        pause, logged_at, closed = _CHECK_SECONDS, 0.0, Counter[str]()
        while True:
            time.sleep(pause)
            began = time.monotonic()
            with suppress(OSError):  # out of file descriptors
                closed += self.close_excess()
            now = time.monotonic()
            if closed and now - logged_at > _LOG_SECONDS:
                _log.warning("connections closed", **closed)
                logged_at, closed = now, Counter()
            pause = _CROWDED_CHECK_SECONDS if self._is_crowded else _CHECK_SECONDS
            # Checks take at most half of the time.
            pause = max(pause, now - began)

    def close_excess(self) -> Counter[str]:
        """Close the connections that exceed a limit of time or number.

        Return the number of closed connections for each reason.
        """
        began = time.monotonic()
        lines = [line for line in self._list_open() if line.refresh()]
        in_progress = self._find_in_progress(lines)
        others = [line for line in lines if line not in in_progress]
        # The first one is closed first.
        others.sort(key=lambda line: (not line.is_slow, line.unchanged_since))
        closed = Counter[str]()
        for line, reason in self._choose_excess(others, len(lines), began).items():
            closed[reason] += self._close(line, since=began)
        self._is_crowded = closed[_ROOM] > 0 or len(lines) > self._limit
        return closed

    def find_candidates(self, request: Request) -> list[tuple[TcpConnection, int]]:
        """Return the connections on which the request may have arrived.

        Each item is a pair: the connection, and the number of bytes that were sent on it so far.
        """
        # A `100 Continue` that is sent after the body has arrived looks like an answer.
        if not has_tcp_info() or request.expects_continue:
            return []
        network, candidates = _network(request.address), []
        for line in self._list_open():
            if line.network == network:
                with suppress(OSError):  # closed meanwhile
                    now, info = time.monotonic(), line.read_tcp_info()
                    state, sent_ms, received_ms, received, _, sent = info
                    if (
                        state == ESTABLISHED
                        and received
                        and received_ms <= sent_ms
                        and now - received_ms / 1000 > request.began_at - _LATE_SECONDS
                        and now - sent_ms / 1000 < (request.complete_at or now) + _TICK_SECONDS
                    ):
                        candidates.append((line, sent))
        return candidates

    def _list_open(self) -> list[TcpConnection]:
        """Return the open connections; a connection is the same object in each call.

        No file descriptor is created or closed. Closing a second descriptor of a file would drop
        all POSIX locks of this process on the file. If the file were SQLite's database, another
        process could take it for unused (https://sqlite.org/howtocorrupt.html, 2.2).
        """
        before, sockets = self._sockets, dict[int, TcpConnection | None]()
        for name in os.listdir("/proc/self/fd"):
            descriptor = int(name)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISSOCK(status.st_mode):
                    continue
                inode = status.st_ino
                line = before.get(inode)
                if inode not in before or (line and line.descriptor != descriptor):
                    line = self._inspect_socket(descriptor, inode)
                sockets[inode] = line
            except OSError:  # closed meanwhile, or a listening socket
                continue
        self._sockets = sockets
        return [line for line in sockets.values() if line]

    def _inspect_socket(self, descriptor: int, inode: int) -> TcpConnection | None:
        """Return the connection of a new socket; None if the socket does not belong to `port`.

        `descriptor` and `inode`: the file descriptor and the inode of the socket. Raises OSError
        for a socket without a peer.
        """
        handle = socket.socket(fileno=descriptor)
        try:
            is_tcp = handle.type == socket.SOCK_STREAM and handle.family in _FAMILIES
            if not is_tcp or handle.getsockname()[1] != self._port:
                return None
            peer = handle.getpeername()[0]
        finally:
            handle.detach()
        return TcpConnection(descriptor, inode, _network(peer), is_trusted(peer, self._trusted))

    def _find_in_progress(self, lines: Iterable[TcpConnection]) -> set[TcpConnection]:
        """Return those of the connections on which a complete request waits for its answer."""
        complete = defaultdict(list)
        for request in list(self.requests.values()):
            if request.complete_at is not None:
                times = (request.complete_at, request.began_at)
                complete[_network(request.address)].append(times)
        by_network = defaultdict(list)
        for line in lines:
            if line.network in complete and line.may_be_in_progress:
                by_network[line.network].append(line)
        in_progress = set()
        for network, possible in by_network.items():
            possible.sort(key=lambda line: line.last_received_at)
            for complete_at, began_at in sorted(complete[network], reverse=True):
                while possible and possible[-1].last_received_at > complete_at + _TICK_SECONDS:
                    possible.pop()
                late = _LATE_SECONDS
                for _ in range(_CANDIDATES):
                    if possible and possible[-1].last_received_at > began_at - late:
                        in_progress.add(possible.pop())
                    late = _USUAL_SECONDS
        return in_progress

    def _choose_excess(
        self, lines: list[TcpConnection], total: int, now: float
    ) -> dict[TcpConnection, str]:
        """Return the connections that must be closed; the mapping has the reason for each.

        `lines`: the connections without a request in progress; the first is closed first. `total`:
        the number of all connections. `now`: the present by `time.monotonic`.
        """
        chosen: dict[TcpConnection, str] = {}
        for line in lines:
            allowed = self._read_timeout if line.is_receiving else _UNCHANGED_SECONDS
            if now - line.unchanged_since > allowed:
                chosen[line] = _TIMEOUT
        settled = [line for line in lines if now - line.unchanged_since > _USUAL_SECONDS]
        old = [line for line in settled if now - line.unchanged_since > _NEW_SECONDS]
        by_network = defaultdict(list)
        for line in old:
            if not line.is_proxy:
                by_network[line.network].append(line)
        for group, excess, reason in (
            *((group, len(group) - self._per_address, _ADDRESS) for group in by_network.values()),
            self._choose_stalled_bodies([line for line in old if line.is_long], now),
            (settled, total - self._limit, _ROOM),
        ):
            left = [line for line in group if line not in chosen]
            excess -= len(group) - len(left)
            chosen |= dict.fromkeys(left[: max(0, excess)], reason)
        return chosen

    def _choose_stalled_bodies(
        self, lines: list[TcpConnection], now: float
    ) -> tuple[list[TcpConnection], int, str]:
        """Choose connections to close because their long bodies keep other long bodies waiting.

        Return three items: all connections whose long body makes no progress, how many of these
        the caller closes, and the reason. `lines`: the connections with a long body. `now`: the
        present by `time.monotonic`. The first item may contain connections that only wait for
        their turn; they come last in it, because they began later than the stalled ones.
        """
        requests = list(self.requests.values())
        waiting = sum(0 < request.waiting_since < now - _NEW_SECONDS for request in requests)
        without_place = len(lines) - sum(request.has_place for request in requests)
        stalled = [line for line in lines if now - line.last_progress_at > _NEW_SECONDS]
        return stalled, min(waiting, len(stalled) - max(0, without_place)), _ROOM

    def _close(self, line: TcpConnection, *, since: float) -> bool:
        """Close a connection and return True.

        If a request has arrived on it after the moment `since` (by `time.monotonic`), or if it is
        closed already, do nothing and return False.
        """
        was_slow, received = line.is_slow, line.received
        if not line.refresh() or (line.received != received and not was_slow):
            return False
        for request in list(self.requests.values()):
            complete_at = request.complete_at
            if (
                complete_at is not None
                and complete_at > since
                and abs(complete_at - line.last_received_at) < _USUAL_SECONDS
                and _network(request.address) == line.network
            ):
                return False
        self._closed_at = time.monotonic()
        return line.shut_down()
