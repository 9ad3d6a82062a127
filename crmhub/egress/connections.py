"""HTTP connections to checked IP addresses only, with one deadline for the whole call."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from http.client import HTTPException, HTTPMessage, HTTPResponse
from time import monotonic
from typing import Any, ClassVar

from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.util.ssl_ import create_urllib3_context

from crmhub.egress.addresses import Guard

SECONDS = 10.0
"""The timeout of a call in seconds, if its caller gives none."""
# How long the headers of an answer may take after its status line, and a body after the headers.
_HEADERS_SECONDS, _BODY_SECONDS = 2.0, 0.25
# Servers close idle connections; a request sent at that moment may or may not arrive.
_IDLE_SECONDS = 20.0


class TimedSocket(socket.socket):
    """Its timeout limits the time of all operations: a slow server cannot prolong the call."""

    used = 0.0
    """When the socket was last read or written, in seconds of `time.monotonic`."""
    _ends: float | None = None

    def settimeout(self, value: float | None) -> None:
        self._ends = None if value is None else monotonic() + value
        super().settimeout(value)

    def recv_into(self, *args: Any) -> int:
        self._wind()
        try:
            return super().recv_into(*args)
        except ssl.SSLError as exc:
            raise _broken(exc) from exc

    def send(self, *args: Any) -> int:
        self._wind()
        try:
            return super().send(*args)
        except ssl.SSLError as exc:
            raise _broken(exc) from exc

    def sendall(self, *args: Any) -> None:
        self._wind()
        super().sendall(*args)

    @property
    def seconds_left(self) -> float:
        """At least a millisecond, for none would mean no timeout."""
        return max(0.001, SECONDS if self._ends is None else self._ends - monotonic())

    def _wind(self) -> None:
        self.used = monotonic()
        if self._ends is None:
            return
        if self._ends <= self.used:
            raise TimeoutError("the time for this call is over")
        super().settimeout(self._ends - self.used)


def _broken(exc: ssl.SSLError) -> OSError:
    # Not an SSLError, which callers read as a failed handshake: that nothing was sent.
    return ConnectionAbortedError(f"TLS broke after its handshake: {exc.reason}")


class TimedTLSSocket(TimedSocket, ssl.SSLSocket):
    def __del__(self) -> None:
        # ssl does not close the socket when the peer resets before the handshake.
        self.close()


def open_socket(
    resolved: Sequence[tuple[Any, ...]],
    seconds_left: Callable[[], float],
    options: Iterable[tuple[Any, ...]] = (),
) -> TimedSocket:
    """Connect to the first address that answers; its share of the time left bounds each attempt.

    The timeout of the socket is the time left then. Raises OSError.
    """
    failure = OSError("the name has no address")
    for tried, (*kind, _, address) in enumerate(resolved):
        try:
            seconds = seconds_left() / (len(resolved) - tried)
            return _connected(kind, address, seconds, seconds_left, options)
        except OSError as exc:
            failure = exc
    raise failure


def _connected(
    kind: list[Any],
    address: Any,
    seconds: float,
    seconds_left: Callable[[], float],
    options: Iterable[tuple[Any, ...]],
) -> TimedSocket:
    sock = TimedSocket(*kind)
    try:
        for option in options:
            sock.setsockopt(*option)
        sock.settimeout(seconds)
        sock.connect(address)
        sock.settimeout(seconds_left())
    except BaseException:
        sock.close()
        raise
    return sock


class StatusResponse(HTTPResponse):
    """Headers that do not come in time are left out."""

    def __init__(self, sock: TimedSocket, *args: Any, **more: Any) -> None:
        self._sock = sock
        super().__init__(sock, *args, **more)

    def _read_status(self) -> Any:
        status = super()._read_status()  # type: ignore[misc]
        self._allow(_HEADERS_SECONDS)
        return status

    def begin(self) -> None:
        try:
            super().begin()
        except (OSError, HTTPException):
            # Set after the status line, before the headers.
            if not isinstance(self.version, int):
                raise
            self.headers = self.msg = HTTPMessage()
            self.length, self.chunked, self.will_close = 0, False, True
        self._allow(_BODY_SECONDS)

    def _allow(self, seconds: float) -> None:
        with suppress(OSError):
            self._sock.settimeout(min(seconds, self._sock.seconds_left))


def tls_context() -> ssl.SSLContext:
    """Trust the CAs of requests and of this machine, or of SSL_CERT_FILE."""
    context = create_urllib3_context()
    context.load_default_certs()
    context.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
    context.sslsocket_class = TimedTLSSocket
    return context


class Connection(HTTPConnection):
    guard: ClassVar[Guard]
    secure: ClassVar[bool] = False
    _ends: float

    def __init__(self, host: str, *args: Any, **more: Any) -> None:
        # The lookup needs the dot at the end of a host name, which `host` leaves out.
        self._name = host
        super().__init__(host, *args, **more)

    def connect(self) -> None:
        self._ends = monotonic() + (self.timeout or SECONDS)
        try:
            super().connect()
        except socket.gaierror as exc:
            raise NameResolutionError(self.host, self, exc) from exc
        except TimeoutError as exc:
            raise ConnectTimeoutError(self, f"no connection to {self.host} in time") from exc
        except ssl.SSLError:
            raise
        except OSError as exc:
            raise NewConnectionError(self, f"no connection: {exc}") from exc
        # Otherwise urllib3 would allow the full timeout again for sending.
        self.timeout = self._left()

    def _new_conn(self) -> socket.socket:
        resolved = self.guard.addresses(
            self._name, self.port, secure=self.secure, seconds=self._left()
        )
        return open_socket(resolved, self._left, self.socket_options or ())

    def _left(self) -> float:
        left = self._ends - monotonic()
        if left <= 0:
            raise ConnectTimeoutError(self, f"no connection to {self.host} in time")
        return left

    @property
    def is_connected(self) -> bool:
        sock = self.sock
        if not isinstance(sock, TimedSocket) or monotonic() - sock.used > _IDLE_SECONDS:
            return False
        return super().is_connected


class TLSConnection(Connection, HTTPSConnection):
    """The certificate must match the host name, not the IP address.

    `context` is a function that returns the TLS context.
    """

    secure = True
    context: ClassVar[staticmethod[[], ssl.SSLContext]]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more, ssl_context=self.context())
