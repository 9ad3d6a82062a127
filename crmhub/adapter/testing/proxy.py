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
_COMMON = ("accept", "accept-encoding", "connection", "content-length", "host", "user-agent")
MAIN = "url"
"""The name of the CRM's main host, in `FaultProxy.urls` and in the settings of a test class."""


@dataclass(slots=True)
class Request:
    """One request that the proxy received from the adapter.

    `wrote` is True if the request changed the CRM's records. `fault` is True if the proxy applied
    the injected fault to the request; only for such requests is `wrote` determined. `host` names
    the host of the CRM that was called, "url" for its main one. `status` is that of the CRM's
    answer; 0 if the request was not forwarded.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    wrote: bool = False
    fault: bool = False
    host: str = MAIN
    status: int = 0

    @property
    def said(self) -> tuple[str, str, bytes]:
        """The request's method, path and body.

        These are equal for two requests if the adapter sends the same request again.
        """
        return self.method, self.target, self.body

    def shown(self, secrets: Iterable[str]) -> str:
        """Return the request as a failed test shows it: with its body, and without secrets."""
        body = self.body[:_SHOWN].decode("utf-8", "replace")
        host = "" if self.host == MAIN else f"{self.host}: "
        return mask(f"{host}{self.method} {self.target} {body}".rstrip(), secrets)

    @property
    def quoted(self) -> str:
        """The request in one text, as error messages may quote it: with its credentials."""
        return self.quoted_with("")

    def quoted_with(self, words: str) -> str:
        """Return the request in one text, as `quoted`, with `words` before the body."""
        own = {name: value for name, value in self.headers.items() if name.lower() not in _COMMON}
        return f"{self.target} {own} {words} {self.body!r}"


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response to the adapter: status, body and headers."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Fault = Callable[["Exchange"], None]
"""A function that handles a request which the proxy would forward otherwise."""


class FaultProxy:
    """A proxy in front of the CRM whose base URL is `upstream`; the adapter calls `url`.

    If the CRM has further hosts, `more` holds their base URLs by name; the adapter calls `urls`.
    Addresses of these hosts in the CRM's responses are replaced by those of the proxy.
    The proxy forwards requests unchanged until `inject` is called, and records them in `requests`.
    The proxy calls the function `state`, which returns the CRM's records, to detect which requests
    changed them. The function `secrets` returns the secrets that the CRM knows, any of which it may
    quote, and `hidden` those that no report of a test shows.
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
        """Return the name and the port of the CRM's host that is called `host`."""
        return self._servers[host].upstream

    def at_home(self, reply: Reply) -> Reply:
        """Return a response in which the CRM's own addresses are replaced by those of the proxy."""
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
        """Apply `fault` to later requests instead of forwarding them; empty `requests`.

        Requests for which `when` returns False are always forwarded. Of the requests for which it
        returns True, the first `skip` are forwarded, and the fault is applied to the next `times`
        requests, or to all further ones if `times` is None.
        """
        with self._lock:
            self.requests = []
            self._fault, self._when, self._skip = fault, when, skip
            self._times = 1_000_000_000 if times is None else times

    def clear(self) -> None:
        """Remove the injected fault, and empty `requests`."""
        with self._lock:
            self.requests = []
            self._fault = None

    def shown(self, *, harm: str = "") -> list[str]:
        """Return the recorded requests as failed tests show them; with `harm`, the harmed ones."""
        hidden = self.hidden()
        lines: list[str] = []
        for nth, request in enumerate(self.requests, 1):
            if request.fault or not harm:
                met = f" (harmed: {harm or 'yes'})" if request.fault else ""
                lines.append(f"request {nth}{met}: {request.shown(hidden)}")
        return lines

    def hand_on(self, request: Request) -> Reply:
        """Send a recorded request to the CRM over a new connection; return the CRM's response."""
        upstream = HTTPConnection(*self.upstream(request.host), timeout=_TIMEOUT_S)
        try:
            return forwarded(request, upstream)
        finally:
            upstream.close()

    def take(self, request: Request) -> Fault:
        """Record a request and return what to do with it.

        The result is the injected fault if it applies to the request, else `passed`, which forwards
        the request.
        """
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
    """One request that the proxy is handling, with the methods that a fault may call.

    `handler` serves the connection to the adapter.
    """

    def __init__(self, handler: _Handler, request: Request, proxy: FaultProxy) -> None:
        self.request = request
        self._handler = handler
        self._proxy = proxy

    @property
    def quotation(self) -> str:
        """The request as the CRM's error messages may quote it, and all secrets of the connection.

        A message may hold others than the request does: one that the CRM has stored, such as the
        refresh token or the address of a webhook.
        """
        return self.request.quoted_with(" ".join(sorted(self._proxy.secrets(), key=len)))

    def forward(self) -> Reply:
        """Forward the request to the CRM and return the CRM's response.

        If the injected fault applies to the request, also store in `request.wrote` whether the
        request changed the CRM's records.
        """
        state, upstream = self._proxy.state, self._handler.upstream
        before = state() if state is not None and self.request.fault else None
        reply = forwarded(self.request, upstream)
        self.request.status = reply.status
        if state is not None and self.request.fault:
            self.request.wrote = state() != before
        return self._proxy.at_home(reply)

    def reply(self, reply: Reply) -> None:
        """Send a response to the adapter."""
        self.send(head(reply) + reply.body)

    def send(self, data: bytes) -> None:
        """Send raw bytes to the adapter; do nothing if the adapter has disconnected."""
        with suppress(OSError):
            self._handler.connection.sendall(data)

    def close(self) -> None:
        """Close the connection to the adapter normally."""
        self._handler.close_connection = True

    def reset(self) -> None:
        """Reset the connection to the adapter (TCP RST), as a crash or a firewall does."""
        self._handler.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._handler.connection.close()

    def drip(self, data: bytes, *, every: float) -> None:
        """Send `data` to the adapter at one byte per `every` seconds; then reset the connection.

        Stop sending when the adapter disconnects or the proxy stops.
        """
        with suppress(OSError):
            for byte in data:
                self._handler.connection.sendall(bytes([byte]))
                if self._proxy.stopped.wait(every):
                    break
        self.reset()


def forwarded(request: Request, upstream: HTTPConnection) -> Reply:
    """Send a request over the connection `upstream` to the CRM; return the CRM's response.

    If the CRM does not answer, return a response with the status 502.
    """
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
    """Forward the request and send the CRM's response unchanged: the behaviour without a fault."""
    exchange.reply(exchange.forward())


def head(reply: Reply, *, length: int | None = None) -> bytes:
    """Return the status line and the headers of a response as bytes.

    `length` is the value of the header Content-Length, by default the length of the body.
    """
    lines = [f"HTTP/1.1 {reply.status} Said"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    if reply.status not in (204, 304):
        lines.append(f"Content-Length: {len(reply.body) if length is None else length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class _Server(ThreadingHTTPServer):
    """The part of the proxy that stands for one host of the CRM."""

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
        """Serve connections until the proxy stops."""
        while not self.proxy.stopped.is_set():
            self.process_request(*self.get_request())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback, since clients often disconnect in these tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        """Prepare a connection to the CRM for this connection of the adapter."""
        super().setup()
        self.upstream = HTTPConnection(*self.server.upstream, timeout=_TIMEOUT_S)

    def finish(self) -> None:
        """Close the connection to the CRM."""
        self.upstream.close()
        super().finish()

    def handle_one_request(self) -> None:
        """Read one request; forward it, or apply the injected fault to it."""
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = dict(self.headers.items())
        request = Request(self.command, self.path, headers, body, host=self.server.host)
        fault = self.server.proxy.take(request)
        fault(Exchange(self, request, self.server.proxy))
