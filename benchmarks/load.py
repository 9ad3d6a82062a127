"""A load generator with many keep-alive connections in one thread; requests are built beforehand.

The generator parses only the status and length of an answer, so that it takes little processor time
from the measured server.
"""

from __future__ import annotations

import selectors
import socket
import statistics
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run: successes per second, latencies in ms, and counts of statuses.

    The status is 0 if the connection broke, or if no answer came within a minute. Latencies are
    those of the answers. `refused` are the numbers of the requests that were not answered with 2xx.
    `busy` is the share of one core that the generator itself used.
    """

    per_second: float
    p50: float
    p99: float
    slowest: float
    statuses: Counter[int]
    refused: frozenset[int]
    busy: float

    @property
    def failures(self) -> int:
        """The number of answers with a status other than 2xx."""
        return len(self.refused)


def request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """Return the bytes of an HTTP/1.1 request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class _Connection:
    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.sent_at = 0.0
        self.number = 0

    def send(self, number: int, data: bytes) -> None:
        self.number = number
        self.received = b""
        self.sent_at = time.perf_counter()
        # Where the server has hung up, reading tells.
        with suppress(ConnectionError):
            self.socket.sendall(data)

    def status(self) -> int | None:
        """Read the received bytes; return the status once the answer is complete."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.received += data
        head, separator, body = self.received.partition(b"\r\n\r\n")
        if not separator:
            return None
        lowered = head.lower()
        at = lowered.find(b"content-length:")
        length = int(lowered[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        return int(head[9:12]) if len(body) >= length else None


def run(
    address: tuple[str, int],
    make: Callable[[int], bytes],
    *,
    connections: int = 16,
    seconds: float = 5,
) -> Figures:
    """Send the requests that `make` returns for 0, 1, 2, … as fast as they are answered.

    Each connection has one request in progress. If `seconds` is 0, each connection sends one
    request in all.
    """
    selector = selectors.DefaultSelector()
    sent = 0
    statuses: Counter[int] = Counter()
    refused = set[int]()
    latencies: list[float] = []
    began, worked = time.perf_counter(), time.process_time()
    for _ in range(connections):
        connection = _Connection(address)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.send(sent, make(sent))
        sent += 1
    while selector.get_map():
        ready = selector.select(_PATIENCE_S)
        if not ready:
            statuses[0] += len(selector.get_map())
            refused |= {key.data.number for key in selector.get_map().values()}
            break
        for key, _ in ready:
            connection = key.data
            try:
                status = connection.status()
            except OSError:
                status = 0
            if status is None:
                continue
            now = time.perf_counter()
            statuses[status] += 1
            if status:
                latencies.append((now - connection.sent_at) * 1000)
            if not 200 <= status < 300:
                refused.add(connection.number)
            if status and now - began < seconds:
                connection.send(sent, make(sent))
                sent += 1
            else:
                selector.unregister(connection.socket)
                connection.socket.close()
    elapsed = time.perf_counter() - began
    busy = (time.process_time() - worked) / elapsed
    # Quantiles need two of them.
    latencies = latencies if len(latencies) > 1 else (latencies or [0.0]) * 2
    cuts = statistics.quantiles(latencies, n=100)
    return Figures(
        (statuses.total() - len(refused)) / elapsed,
        cuts[49],
        cuts[98],
        max(latencies),
        statuses,
        frozenset(refused),
        busy,
    )
