"""What an adapter that speaks HTTP is given, and servers that misbehave."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import requests

from benchmarks.places import free_port
from crmhub.adapter import Context, NotYet, Throttled

URL = "https://crm.example.test/api"


class PlainSession:
    """A session that guards nothing and follows no redirect."""

    def request(
        self, method: str, url: str, *, headers: Mapping[str, str], data: Any, timeout: float
    ) -> requests.Response:
        with requests.Session() as session:
            session.trust_env = False
            return session.request(
                method, url, headers=headers, data=data, timeout=timeout, allow_redirects=False
            )


@dataclass
class FakeBudget:
    """A budget that counts, and refuses as long as it is paused."""

    taken: int = 0
    paused: list[float] = field(default_factory=list)
    full: bool = False
    followed: list[tuple[int, float]] = field(default_factory=list)

    def take(self, cost: int = 1) -> None:
        if self.full:
            raise Throttled("no more calls", retry_after=60.0)
        self.taken += cost

    def follow(self, calls: int, seconds: float) -> None:
        self.followed.append((calls, seconds))

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)


@dataclass
class Vault:
    """The stored credentials of a connection and its leases, common to several processes."""

    stored: dict[str, str] = field(default_factory=dict)
    saved: int = 0
    broken: bool = False
    leases: list[tuple[str, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self) -> dict[str, str]:
        return dict(self.stored)

    def save(self, credentials: Mapping[str, str]) -> None:
        if self.broken:
            raise OSError("the database is away")
        self.stored, self.saved = dict(credentials), self.saved + 1

    @contextmanager
    def lease(self, key: str, seconds: float, *, patience: float | None = None) -> Iterator[None]:
        if not self.lock.acquire(timeout=120 if patience is None else patience):
            raise NotYet("busy", retry_after=1.0)
        self.leases.append((key, seconds))
        try:
            yield
        finally:
            self.lock.release()


def http_context(
    vault: Vault | None = None, *, seconds: float = 20.0, session: Any = None
) -> Context:
    """Return a context whose present call may take so many seconds from now on."""
    vault = vault or Vault()
    ends = time.monotonic() + seconds
    return Context(
        client_id="acme",
        region="",
        settings={},
        store=cast(Any, None),
        session=session or PlainSession(),
        budget=cast(Any, None),
        lease=vault.lease,
        remaining=lambda: ends - time.monotonic(),
        load_credentials=vault.load,
        save_credentials=vault.save,
        credentials=vault.load(),
    )


@contextmanager
def server(*scripts: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """Serve one connection after the other as the scripts say; the last serves all others, too.

    Gives the address and what has been received, a request a connection.
    """
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            number = 0
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    received.append(_request(connection))
                    scripts[min(number, len(scripts) - 1)](connection)
                number += 1

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", received
        # Closing alone does not wake who waits in accept.
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=120)


def answering(status: str, body: bytes = b"{}", *headers: str) -> Callable[[socket.socket], None]:
    """Return a script that answers and closes."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return lambda connection: connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body)


def reset(connection: socket.socket) -> None:
    """Break the connection in the middle."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def cut_short(connection: socket.socket) -> None:
    """Promise more than is sent."""
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"id": "1"')


def closed_port() -> str:
    """Return an address where nobody listens."""
    return f"http://127.0.0.1:{free_port()}"


def _request(connection: socket.socket) -> bytes:
    connection.settimeout(120)
    whole = b""
    while b"\r\n\r\n" not in whole:
        if not (piece := connection.recv(65536)):
            return whole
        whole += piece
    head, _, body = whole.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    missing = int(lengths[0].partition(b":")[2]) - len(body) if lengths else 0
    while missing > 0 and (piece := connection.recv(missing)):
        whole, missing = whole + piece, missing - len(piece)
    return whole
