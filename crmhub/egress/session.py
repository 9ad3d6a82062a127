from __future__ import annotations

import functools
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from requests.exceptions import InvalidHeader, InvalidSchema, InvalidURL, MissingSchema
from requests.hooks import dispatch_hook
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Retry, Timeout
from urllib3.exceptions import HTTPError

from crmhub import __version__
from crmhub.egress.addresses import Guard, NotAllowed, Resolve
from crmhub.egress.connections import (
    SECONDS,
    Connection,
    StatusResponse,
    TLSConnection,
    open_socket,
    tls_context,
)
from crmhub.setting_values import Network

_HOSTS = 64
_CHUNK = 1 << 16
_MOST_STATUS_BYTES = 4 << 10
_URL = re.compile(
    r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?(?:[/?#][!-~]*)?", re.IGNORECASE
)
_BAD_URL = (
    "the URL is not of the form https://host[:port]/path; "
    "percent-encode blanks and control characters, leave user and password out"
)
# RFC 9110 5.5; requests lets characters pass that http.client then cannot encode.
_HEADER = re.compile(r"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?")
_BAD_HEADER = (
    "a header of the call holds a line break or another character that HTTP does not allow; "
    "were credentials pasted with something around them?"
)


class Refused(InvalidURL):
    """The request was not sent; the message tells why and what to do."""


class TooLarge(requests.RequestException):
    """The response exceeds the session's size limit; the request was sent."""


def _parts(url: str | None) -> tuple[str, str, int | None]:
    """Raises Refused unless the URL has the form `http[s]://host[:port]/path`."""
    match = _URL.fullmatch(url or "")
    if match is None:
        raise Refused(_BAD_URL)
    scheme, host, port = match.groups()
    if port is not None and not 0 < int(port) < 65536:
        raise Refused(f"{host} has no port {port}; give one from 1 to 65535")
    return scheme.lower(), host.strip("[]"), int(port) if port else None


def _check_headers(headers: Mapping[str, str | bytes]) -> None:
    for value in headers.values():
        if isinstance(value, str) and not _HEADER.fullmatch(value):
            raise Refused(_BAD_HEADER)


def _total(timeout: Any) -> Timeout:
    """`timeout`: seconds, a (connect, read) pair whose sum counts, or None for the default.

    Raises requests.ConnectTimeout if it is not positive.
    """
    given = timeout if isinstance(timeout, tuple) else (timeout,)
    parts = [part for part in given if part is not None] or [SECONDS]
    if sum(parts) <= 0:
        raise requests.ConnectTimeout("no time is left for this call")
    return Timeout(total=sum(parts))


class _Once(Retry):
    """Never repeats a request; hides the URL's path in errors, which may contain personal data."""

    def increment(  # type: ignore[override]
        self, method: Any = None, url: Any = None, *args: Any, **more: Any
    ) -> Retry:
        return super().increment(method, "(not shown)", *args, **more)


class _Adapter(HTTPAdapter):
    _of_connections: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, guard: Guard, *, pool_size: int, most_bytes: int) -> None:
        self._guard = guard
        self._most_bytes = most_bytes
        super().__init__(_HOSTS, pool_size, max_retries=_Once(0, read=False))

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, **more)
        # Loading certificates takes 70 ms, so it is delayed until the first TLS call.
        guarded = {
            "guard": self._guard,
            "context": staticmethod(functools.cache(tls_context)),
            **self._of_connections,
        }
        plain = type("Connection", (Connection,), guarded)
        tls = type("TLSConnection", (TLSConnection,), guarded)
        self.poolmanager.pool_classes_by_scheme = {
            "http": type("HTTPConnectionPool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("HTTPSConnectionPool", (HTTPSConnectionPool,), {"ConnectionCls": tls}),
        }

    def get_connection_with_tls_context(self, request: Any, *_: Any, **__: Any) -> Any:
        scheme, host, port = _parts(request.url)
        return self.poolmanager.connection_from_host(host, port, scheme)

    def cert_verify(self, *_: Any) -> None:
        """Do nothing, since the TLS context already contains the trusted CAs."""

    def request_url(self, request: Any, proxies: Any) -> Any:
        return request.path_url

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        """`timeout` limits the whole call; `stream` has no effect. Raises Refused and TooLarge."""
        if verify not in (True, None) or cert or proxies:
            raise Refused("verify, cert and proxies cannot be chosen for outgoing calls")
        _parts(request.url)
        _check_headers(request.headers)
        try:
            total: Any = _total(timeout)
            response = super().send(request, stream=True, timeout=total)
        except NotAllowed as exc:
            raise Refused(str(exc), request=request) from None
        try:
            self._read_body(response)
        except BaseException:
            response.close()
            raise
        return response

    def _read_body(self, response: requests.Response) -> None:
        response.raw = _Limited(response.raw, self._most_bytes, response.url)
        _read(response)


class _StatusAdapter(_Adapter):
    """The answer is the status line; the response has no body."""

    _of_connections: Mapping[str, Any] = MappingProxyType({"response_class": StatusResponse})

    def _read_body(self, response: requests.Response) -> None:
        # A short body is read, so that the connection can be used again.
        left = self._most_bytes
        with suppress(HTTPError, OSError):
            for piece in response.raw.stream(left, decode_content=False):
                left -= len(piece)
                if left <= 0:
                    break
            else:
                return
        response.close()


def _read(response: requests.Response) -> bytes:
    return response.content or b""


class _Limited:
    def __init__(self, raw: Any, most_bytes: int, url: str) -> None:
        self._raw, self._left, self._most_bytes, self._url = raw, most_bytes, most_bytes, url

    def stream(self, *args: Any, **more: Any) -> Iterator[bytes]:
        """The requested size of a piece is ignored."""
        # Larger pieces than requests asks for, so that there are fewer of them.
        for piece in self._raw.stream(_CHUNK, **more):
            self._left -= len(piece)
            if self._left < 0:
                host = urlsplit(self._url).hostname
                raise TooLarge(f"{host} answered more than {self._most_bytes} bytes")
            yield piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


class Egress(requests.Session):
    """A guarded `requests.Session`, shared by all accounts and threads of a process.

    `allow`: networks that may be called although not public, also over plain http. `development`:
    allow loopback, and plain http everywhere. `pool_size`: idle connections per host. `most_bytes`:
    size limit of a response.

    With `stream=True` the status line decides: at most 4 KiB of the body are read and thrown away.
    Headers, authentication and cookies must be passed with each call. Raises `Refused` and
    `TooLarge` besides the exceptions of requests.
    """

    _sealed = False

    def __init__(
        self,
        *,
        allow: Sequence[Network] = (),
        development: bool = False,
        pool_size: int = 64,
        most_bytes: int = 8 << 20,
        resolve: Resolve = socket.getaddrinfo,
    ) -> None:
        super().__init__()
        self._guard = Guard(allow=allow, development=development, resolve=resolve)
        self._adapter = _Adapter(self._guard, pool_size=pool_size, most_bytes=most_bytes)
        self._status_adapter = _StatusAdapter(
            self._guard, pool_size=pool_size, most_bytes=_MOST_STATUS_BYTES
        )
        self.mount("https://", self._adapter)
        self.mount("http://", self._adapter)
        self.trust_env = False
        own = {
            "User-Agent": f"crmhub/{__version__}",
            "Accept-Encoding": "gzip, deflate",
            "Accept": "*/*",
        }
        self.headers = MappingProxyType(own)  # type: ignore[assignment]
        self._sealed = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._sealed:
            raise AttributeError(f"all accounts share this session; give {name} with the call")
        super().__setattr__(name, value)

    def mount(self, prefix: str | bytes, adapter: BaseAdapter) -> None:
        if self._sealed:
            raise AttributeError("the adapters of this session guard it and stay")
        super().mount(prefix, adapter)

    def fault(self, url: str, *, seconds: float = 5.0) -> str:
        """Return why calls to `url` are refused, or "". Resolves the host name, sends nothing."""
        host = "its host"
        try:
            scheme, host, port = _parts(self.prepare_request(requests.Request("GET", url)).url)
            self._guard.addresses(host, port or 443, secure=scheme == "https", seconds=seconds)
        except (Refused, NotAllowed) as exc:
            return str(exc)
        except OSError:
            return f"{host} cannot be found; check the name, and the DNS of this machine"
        return ""

    def open_socket(self, host: str, port: int, *, secure: bool, seconds: float) -> socket.socket:
        """Connect to a host that the settings of this machine name, for another protocol than HTTP.

        The host may be private, since no account can name it. All operations on the socket together
        take `seconds` at most. `secure`: TLS follows. Raises Refused and OSError.
        """
        ends = monotonic() + seconds

        def left() -> float:
            if (seconds := ends - monotonic()) <= 0:
                raise TimeoutError(f"no connection to {host} in time")
            return seconds

        try:
            resolved = self._guard.addresses(
                host, port, secure=secure, seconds=seconds, private=True
            )
        except NotAllowed as exc:
            raise Refused(str(exc)) from None
        return open_socket(resolved, left)

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Use no cookies or authentication of the session. Raises Refused."""
        prepared = requests.PreparedRequest()
        call = vars(request) | {
            "headers": {**self.headers, **(request.headers or {})},
            # None is faster: an empty dict costs as much as a full one.
            "params": request.params or None,
        }
        try:
            prepared.prepare(**call)
        # The messages of requests repeat the URL or the header, which may hold secrets.
        except InvalidHeader:
            raise Refused(_BAD_HEADER) from None
        except (InvalidURL, InvalidSchema, MissingSchema):
            raise Refused(_BAD_URL) from None
        except UnicodeError:
            raise Refused("the call holds half a character, which cannot be sent") from None
        return prepared

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:
        verify = True if verify is None else verify
        return {"proxies": proxies, "stream": stream, "verify": verify, "cert": cert}

    def send(
        self, request: requests.PreparedRequest, *, allow_redirects: bool = False, **more: Any
    ) -> requests.Response:
        started = monotonic()
        adapter = self._status_adapter if more.get("stream") else self._adapter
        response = adapter.send(request, **more)
        response.elapsed = timedelta(seconds=monotonic() - started)
        answer: requests.Response = dispatch_hook("response", request.hooks, response, **more)  # type: ignore[no-untyped-call]
        return answer
