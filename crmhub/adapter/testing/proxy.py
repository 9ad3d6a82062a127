"""An HTTP proxy between an adapter and a CRM, which records requests and injects faults."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from crmhub.adapter.masking import mask

_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "te", "upgrade", "host"}
)
_TIMEOUT_S = 30
_SHOWN = 1_000
_CAME = 300
_COMMON = ("accept", "accept-encoding", "connection", "content-length", "host", "user-agent")
MAIN = "url"
"""The name of the CRM's main host, in `FaultProxy.urls` and in the settings of a test class."""


@dataclass(slots=True)
class Request:
    """`wrote`: the request changed the CRM's records; known only for those with `fault`. `host`:
    the CRM's host, "url" for its main one. `status`: of the CRM's answer, 0 if not forwarded.
    `came`: what the adapter got, for messages.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    wrote: bool = False
    fault: bool = False
    host: str = MAIN
    status: int = 0
    came: str = ""

    @property
    def said(self) -> tuple[str, str, bytes]:
        """Equal for two requests if the adapter sends the same request again."""
        return self.method, self.target, self.body

    def shown(self, secrets: Iterable[str]) -> str:
        body = self.body[:_SHOWN].decode("utf-8", "replace")
        host = "" if self.host == MAIN else f"{self.host}: "
        sent = f"{host}{self.method} {self.target} {body}".rstrip()
        return mask(f"{sent} -> {self.came.strip() or 'no answer'}", secrets)

    @property
    def quoted(self) -> str:
        return self.quoted_with("")

    def quoted_with(self, words: str) -> str:
        own = {name: value for name, value in self.headers.items() if name.lower() not in _COMMON}
        return f"{self.target} {own} {words} {self.body!r}"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Fault = Callable[["Exchange"], None]
"""A function that handles a request which the proxy would forward otherwise."""


class FaultProxy:
    """Forwards to `upstream`, and to the CRM's further hosts `more`, whose addresses it replaces.

    `state`: the CRM's records. `secrets`: what the CRM may quote; `hidden`: never shown.
    """

    def __init__(
        self,
        upstream: str,
        *,
        more: Mapping[str, str] = {},
        state: Callable[[], object] | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.state = state
        self.secrets: Callable[[], Iterable[str]] = tuple
        self.hidden: Callable[[], Iterable[str]] = tuple
        self.stopped = threading.Event()
        self._fault: Fault | None = None
        self._when: Callable[[Request], bool] = lambda request: True
        self._skip = self._times = 0
        self._lock = threading.Lock()
        self._servers = {
            name: _Server(self, name, url) for name, url in [(MAIN, upstream), *more.items()]
        }
        self.urls = {name: server.url for name, server in self._servers.items()}
        self.url = self.urls[MAIN]
        self._threads = [
            threading.Thread(target=server.accept) for server in self._servers.values()
        ]

    def __enter__(self) -> FaultProxy:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stopped.set()
        for server in self._servers.values():
            # Wake the thread, which waits for the next connection.
            socket.create_connection(("127.0.0.1", server.server_address[1])).close()
        for thread in self._threads:
            thread.join()
        for server in self._servers.values():
            server.server_close()

    def upstream(self, host: str) -> tuple[str, int]:
        return self._servers[host].upstream

    def at_home(self, reply: Reply) -> Reply:
        body = reply.body
        for server in self._servers.values():
            body = body.replace(server.origin.encode(), server.here.encode())
        return Reply(reply.status, body, reply.headers)

    def inject(
        self,
        fault: Fault,
        *,
        skip: int = 0,
        times: int | None = 1,
        when: Callable[[Request], bool] = lambda request: True,
    ) -> None:
        """Apply `fault` to later requests; empty `requests`.

        Of those for which `when` is True, the first `skip` are forwarded, and the next `times`
        harmed; all if None.
        """
        with self._lock:
            self.requests = []
            self._fault, self._when, self._skip = fault, when, skip
            self._times = 1_000_000_000 if times is None else times

    def clear(self) -> None:
        with self._lock:
            self.requests = []
            self._fault = None

    def shown(self, *, harm: str = "", last: int = 0) -> list[str]:
        """Return a line for each request, or for the last ones; with `harm`, for those harmed."""
        hidden = self.hidden()
        lines: list[str] = []
        for nth, request in list(enumerate(self.requests, 1))[-last:]:
            if request.fault or not harm:
                stored = "; the CRM stored it" if request.wrote else ""
                met = f" (harmed: {harm or 'yes'}{stored})" if request.fault else ""
                lines.append(f"request {nth}{met}: {request.shown(hidden)}")
        return lines

    def hand_on(self, request: Request) -> Reply:
        upstream = HTTPConnection(*self.upstream(request.host), timeout=_TIMEOUT_S)
        try:
            return forwarded(request, upstream)
        finally:
            upstream.close()

    def take(self, request: Request) -> Fault:
        """Record a request; return the injected fault if it applies, else `passed`."""
        with self._lock:
            self.requests.append(request)
            if self._fault is None or not self._when(request):
                return passed
            if self._skip > 0:
                self._skip -= 1
                return passed
            if self._times <= 0:
                return passed
            self._times -= 1
            request.fault = True
            return self._fault


class Exchange:
    """One request that the proxy is handling, with the methods that a fault may call."""

    def __init__(self, handler: _Handler, request: Request, proxy: FaultProxy) -> None:
        self.request = request
        self._handler = handler
        self._proxy = proxy

    @property
    def quotation(self) -> str:
        """The request, and all secrets of the connection: the CRM may quote stored ones, too."""
        return self.request.quoted_with(" ".join(sorted(self._proxy.secrets(), key=len)))

    def forward(self) -> Reply:
        """Return the CRM's response; set `request.wrote` if the injected fault applies."""
        state, upstream = self._proxy.state, self._handler.upstream
        before = state() if state is not None and self.request.fault else None
        reply = forwarded(self.request, upstream)
        self.request.status = reply.status
        if state is not None and self.request.fault:
            self.request.wrote = state() != before
        return self._proxy.at_home(reply)

    def reply(self, reply: Reply) -> None:
        body = reply.body[:_CAME].decode("utf-8", "replace")
        self.request.came = f"{reply.status} {body}".rstrip()
        self.send(head(reply) + reply.body)

    def send(self, data: bytes) -> None:
        """Send raw bytes to the adapter; do nothing if the adapter has disconnected."""
        self.request.came = self.request.came or f"{data[:_CAME]!r}"
        with suppress(OSError):
            self._handler.connection.sendall(data)

    def close(self) -> None:
        self.request.came += " (connection closed)"
        self._handler.close_connection = True

    def reset(self) -> None:
        self.request.came += " (connection reset)"
        self._handler.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._handler.connection.close()

    def drip(self, data: bytes, *, every: float) -> None:
        """Send one byte per `every` seconds, then reset, until either side stops."""
        self.request.came += f" a byte each {every} s"
        with suppress(OSError):
            for byte in data:
                self._handler.connection.sendall(bytes([byte]))
                if self._proxy.stopped.wait(every):
                    break
        self.reset()


def forwarded(request: Request, upstream: HTTPConnection) -> Reply:
    """Return a response with the status 502 if the CRM does not answer."""
    try:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        upstream.request(request.method, request.target, request.body or None, headers)
        answer = upstream.getresponse()
        return Reply(
            answer.status,
            answer.read(),
            {k: v for k, v in answer.getheaders() if k.lower() not in _HOP_BY_HOP},
        )
    except (OSError, HTTPException) as exc:
        upstream.close()
        return Reply(502, f"the CRM under test did not answer: {exc!r}".encode())


def passed(exchange: Exchange) -> None:
    exchange.reply(exchange.forward())


def head(reply: Reply, *, length: int | None = None) -> bytes:
    """`length`: the header Content-Length, by default that of the body."""
    lines = [f"HTTP/1.1 {reply.status} Said"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    if reply.status not in (204, 304):
        lines.append(f"Content-Length: {len(reply.body) if length is None else length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, proxy: FaultProxy, host: str, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        parts = urlsplit(upstream)
        self.proxy = proxy
        self.host = host
        self.upstream = (parts.hostname or "", parts.port or 80)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.here = f"http://127.0.0.1:{self.server_address[1]}"
        self.url = f"{self.here}{parts.path}"

    def accept(self) -> None:
        while not self.proxy.stopped.is_set():
            self.process_request(*self.get_request())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback, since clients often disconnect in these tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.upstream = HTTPConnection(*self.server.upstream, timeout=_TIMEOUT_S)

    def finish(self) -> None:
        self.upstream.close()
        super().finish()

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = dict(self.headers.items())
        request = Request(self.command, self.path, headers, body, host=self.server.host)
        fault = self.server.proxy.take(request)
        fault(Exchange(self, request, self.server.proxy))
