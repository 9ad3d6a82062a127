"""The HTTP/1.1 server of a fake CRM, with keep-alive and faults such as TCP resets."""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

import orjson

from adapters.fakes.answers import Answer
from adapters.fakes.faults import Fault

_MAX_BODY = 10_000_000
# Up to this many seconds, sleep: it takes far less CPU time than waiting for an event.
_SHORT = 1.0
_REASONS = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Sent:
    """A response to send, and the fault that is applied while it is sent; None means no fault."""

    answer: Answer
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """An HTTP request as the server received it; `target` is the path with the query."""

    method: str
    target: str
    headers: Any
    body: bytes

    @property
    def path(self) -> str:
        """The path of the URL, still percent-encoded."""
        return urlsplit(self.target).path

    @property
    def parts(self) -> list[str]:
        """The segments of the path, without their percent-encoding."""
        return [unquote(part) for part in self.path.strip("/").split("/")]

    @property
    def query(self) -> str:
        """The query of the URL, without its question mark."""
        return urlsplit(self.target).query

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the query by name; of a repeated one, the last value."""
        return dict(parse_qsl(self.query, keep_blank_values=True))

    @property
    def parameter_lists(self) -> dict[str, list[str]]:
        """All values of each parameter of the query, by name."""
        return parse_qs(self.query, keep_blank_values=True)

    @property
    def json(self) -> Any:
        """The body as JSON, None if there is none. Raises ValueError for any other body."""
        return orjson.loads(self.body) if self.body else None

    @property
    def form(self) -> dict[str, str]:
        """The fields of a body that is a form; of a repeated one, the last value."""
        return dict(parse_qsl(self.body.decode("utf-8", "replace")))


Respond = Callable[["Server", Received], Sent]


class Server(ThreadingHTTPServer):
    """An HTTP server with a thread for each connection.

    The server calls the function `respond` with itself and each request, and sends the result.
    """

    daemon_threads = True
    request_queue_size = 2_048

    def __init__(self, host: str, port: int, respond: Respond) -> None:
        self.respond = respond
        self.stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._workers: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind the socket without a DNS look-up of the host."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def pause(self, seconds: float) -> None:
        """Wait for `seconds` in the thread of a connection.

        Raises ConnectionAbortedError if the server is stopped meanwhile.
        """
        if seconds > _SHORT:
            self.stopping.wait(seconds)
        elif seconds > 0:
            time.sleep(seconds)
        if self.stopping.is_set():
            raise ConnectionAbortedError

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection, and register it so that `stop` can close it."""
        with self._lock:
            self._open.add(request)
            self._workers.add(threading.current_thread())
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.discard(request)
                self._workers.discard(threading.current_thread())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of clients that disconnect; print any other error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        """Stop listening, close all connections, and wait for their threads to end."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            connections, workers = list(self._open), list(self._workers)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for worker in workers:
            worker.join(timeout=5)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 300
    server: Server

    def do_any(self) -> None:
        body = self._body()
        if body is None:
            return
        received = Received(self.command, self.path, self.headers, body)
        sent = self.server.respond(self.server, received)
        self._send(sent)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_any

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "0")
        if self.headers.get("Transfer-Encoding"):
            self.send_error(411)
            return None
        if not length.isdigit() or int(length) > _MAX_BODY:
            self.send_error(413 if length.isdigit() else 400)
            return None
        return self.rfile.read(int(length)) if length != "0" else b""

    def _send(self, sent: Sent) -> None:
        fault, answer = sent.fault, sent.answer
        if fault and fault.kind in ("reset", "close"):
            self._hang_up(reset=fault.kind == "reset")
            return
        body = answer.encoded()
        if self.command == "HEAD":
            self.wfile.write(self._head(answer, len(body)))
        elif fault and fault.kind == "cut":
            self.wfile.write(self._head(answer, len(body)) + body[: len(body) // 2])
            self._hang_up(reset=False)
        else:
            # One write, because a second one would wait until the client acknowledges the first.
            self.wfile.write(self._head(answer, len(body)) + body)

    def _head(self, answer: Answer, length: int) -> bytes:
        lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Unknown')}"]
        lines.append(f"Date: {self.date_time_string()}")
        if answer.status != HTTPStatus.NO_CONTENT:
            lines += [f"Content-Type: {answer.content_type}", f"Content-Length: {length}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        if self.close_connection:
            lines.append("Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _hang_up(self, *, reset: bool) -> None:
        self.close_connection = True
        if reset:
            # With a linger time of 0, closing the socket sends a TCP reset.
            now = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
            self.rfile.close()
            self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the service records all calls."""
