"""The only way out: what it refuses, when it gives up, and what it never tells."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gzip
import ipaddress
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
import requests
import responses
from requests import exceptions
from urllib3.exceptions import NewConnectionError

from crmhub.egress import Egress, Refused, TooLarge, connections
from crmhub.egress.addresses import destination, special
from tests.egress.egress_servers import (
    OK,
    Names,
    Server,
    answering,
    certificate,
    reset,
    resetting,
    silent,
)
from tests.hostile_urls import HOSTILE

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
PUBLIC = "93.184.215.14"
PERSON = "".join(["ada", "@", "example.com"])  # tracebacks show these lines, but not their sum
SECRET = "".join(["sec", "ret"])
# Deadlines of some seconds end well before this, on however busy a machine, and what they are to
# end would go on much longer.
SOON = 60.0


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with contextlib.ExitStack() as stack:
        yield lambda *args, **more: stack.enter_context(Server(*args, **more))


@pytest.fixture
def canary(serve: Callable[..., Server]) -> Iterator[Server]:
    """A server on loopback that must hear nothing."""
    server = serve(answering(OK))
    yield server
    assert server.connections == 0


@pytest.fixture
def egress() -> Iterator[Egress]:
    with Egress(allow=LOOPBACK, resolve=Names()) as session:
        yield session


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Connects to anywhere end on loopback; the list holds where they were to go."""
    asked: list[tuple[str, int]] = []

    def connect(sock: socket.socket, address: tuple[str, int]) -> None:
        asked.append(address)
        socket.socket.connect(sock, ("127.0.0.1", address[1]))

    monkeypatch.setattr(connections.TimedSocket, "connect", connect)
    return asked


def failure(call: Callable[[], object]) -> requests.RequestException:
    """What `call` raises; within SOON."""
    started = time.monotonic()
    with pytest.raises(requests.RequestException) as caught:
        call()
    assert time.monotonic() - started < SOON
    return caught.value


def surely_not_sent(exc: requests.RequestException) -> bool:
    """What the docstring of crmhub.egress promises, as a caller reads it."""
    if isinstance(exc, (exceptions.ConnectTimeout, exceptions.SSLError, exceptions.InvalidURL)):
        return True
    reason = getattr(exc.args[0], "reason", None) if exc.args else None
    return isinstance(exc, exceptions.ConnectionError) and isinstance(reason, NewConnectionError)


def told(exc: BaseException) -> str:
    """All that a log would show of an exception."""
    return "".join(traceback.format_exception(exc)) + repr(exc)


def words(text: str) -> list[str]:
    return text.split()


# Addresses

NOT_PUBLIC = words("""
    0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.254 127.0.0.1 127.255.255.254 169.254.169.254
    172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255
    198.51.100.1 203.0.113.1 224.0.0.1 233.252.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::2 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254
    64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::808:808 100::1 2001::1 2001:0:7f00:1::
    2001:db8::1 2001:10::1 2002:7f00:1:: 2002:a00:1::1 2002:a9fe:a9fe:: 3fff::1 4000::1 5f00::1
    fc00::1 fd12:3456::1 fe80::1 fe80::1%eth0 fec0::1 ff02::1 ff0e::1
""")
PUBLIC_FORMS = words("""
    1.1.1.1 93.184.215.14 100.63.255.255 100.128.0.1 172.15.255.255 172.32.0.1 2606:4700::1111
    2a00:1450::1 ::ffff:1.1.1.1 64:ff9b::101:101 2002:101:101::1
""")


def test_addresses_that_are_not_public_are_refused(canary: Server) -> None:
    # One after the other is what the name stands for.
    egress = Egress(resolve=Names(crm__example=[[address] for address in NOT_PUBLIC]))
    url = f"https://crm.example:{canary.port}/"
    for address in NOT_PUBLIC:
        refused = failure(lambda: egress.get(url, timeout=2))
        assert isinstance(refused, Refused), address
        assert f"crm.example ({address}) is not a public address" in str(refused)
        assert "CRMHUB_EGRESS_ALLOW" in str(refused)


def test_public_addresses_are_public_in_whatever_form() -> None:
    assert {form: special(destination(form)) for form in PUBLIC_FORMS} == dict.fromkeys(
        PUBLIC_FORMS, ""
    )


def test_one_address_that_is_not_public_spoils_the_others(canary: Server) -> None:
    egress = Egress(resolve=Names(crm__example=[[PUBLIC, "2606:4700::1111", "127.0.0.1"]]))
    with pytest.raises(Refused, match=r"crm\.example \(127\.0\.0\.1\)"):
        egress.get(f"https://crm.example:{canary.port}/")


def test_hostile_base_urls_reach_nothing(canary: Server) -> None:
    egress = Egress(resolve=Names(localhost=[["127.0.0.1"]], metadata=[["169.254.169.254"]]))
    for form in HOSTILE:
        url = form.replace("{port}", str(canary.port)) + f"crm/v3/contacts?email={PERSON}"
        exc = failure(lambda url=url: egress.get(url, timeout=2))
        assert surely_not_sent(exc), form
        assert PERSON not in told(exc), form
        assert egress.fault(url) != "", form


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "[::ffff:127.0.0.1]"])
def test_an_allowed_network_may_be_called_over_http(
    host: str, serve: Callable[..., Server], egress: Egress
) -> None:
    server = serve(answering(OK))
    url = f"http://{host}:{server.port}/"
    assert egress.fault(url) == ""
    if not host.startswith("["):  # Linux may have no IPv6 to send it by
        assert egress.get(url).text == "ok"


def test_http_to_a_public_host_is_refused_in_production(outside: list[tuple[str, int]]) -> None:
    egress = Egress(resolve=Names(crm__example=[[PUBLIC]]))
    with pytest.raises(Refused, match="use https"):
        egress.get("http://crm.example/contacts")
    assert outside == []


def test_development_allows_http_and_loopback_but_nothing_private(
    serve: Callable[..., Server], outside: list[tuple[str, int]]
) -> None:
    server = serve(answering(OK))
    egress = Egress(development=True, resolve=Names(crm__example=[[PUBLIC]]))
    assert egress.get(f"http://crm.example:{server.port}/").text == "ok"
    assert egress.get(server.url).text == "ok"
    assert egress.fault("http://[::1]/") == ""
    assert "private" in egress.fault("https://10.0.0.1/")


def test_a_name_is_resolved_once_and_that_address_is_called(
    serve: Callable[..., Server], outside: list[tuple[str, int]]
) -> None:
    server = serve(answering(OK))
    names = Names(crm__example=[[PUBLIC], ["127.0.0.1"]])
    egress = Egress(development=True, resolve=names)
    egress.get(f"http://crm.example:{server.port}/")
    assert names.asked == ["crm.example"]
    assert outside == [(PUBLIC, server.port)]


def test_a_name_that_moves_to_loopback_is_refused_at_the_next_connection(
    serve: Callable[..., Server], outside: list[tuple[str, int]]
) -> None:
    server = serve(answering(b"HTTP/1.1 204 Done\r\nConnection: close\r\n\r\n"))
    names = Names(crm__example=[[PUBLIC], ["10.0.0.1"]])
    egress = Egress(development=True, resolve=names)
    url = f"http://crm.example:{server.port}/"
    egress.get(url)
    with pytest.raises(Refused, match="private"):
        egress.get(url)
    assert outside == [(PUBLIC, server.port)]


def test_the_next_address_is_tried_when_one_is_dead(
    serve: Callable[..., Server], egress: Egress
) -> None:
    server = serve(answering(OK))
    two = Egress(allow=LOOPBACK, resolve=Names(crm__example=[["127.0.0.2", "127.0.0.1"]]))
    assert two.get(f"http://crm.example:{server.port}/").text == "ok"


# What was surely not sent


def test_nobody_listening_is_surely_not_sent(egress: Egress) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    exc = failure(lambda: egress.get(f"http://127.0.0.1:{port}/?email={PERSON}"))
    assert type(exc) is exceptions.ConnectionError
    assert surely_not_sent(exc)
    assert PERSON not in told(exc)


def test_an_unknown_name_is_surely_not_sent(egress: Egress) -> None:
    exc = failure(lambda: egress.get("https://nowhere.example/"))
    assert type(exc) is exceptions.ConnectionError
    assert surely_not_sent(exc)
    assert "nowhere.example cannot be found" in egress.fault("https://nowhere.example/")


def test_a_hanging_name_server_ends_at_the_deadline() -> None:
    over = threading.Event()
    egress = Egress(resolve=lambda *_, **__: over.wait(120) and [])
    exc = failure(lambda: egress.get("https://crm.example/", timeout=0.3))
    over.set()
    assert isinstance(exc, exceptions.ConnectTimeout)


def test_a_slow_tls_handshake_ends_at_the_deadline(
    serve: Callable[..., Server], egress: Egress
) -> None:
    server = serve(silent)
    exc = failure(lambda: egress.get(f"https://127.0.0.1:{server.port}/", timeout=0.5))
    assert isinstance(exc, exceptions.ConnectTimeout)


def test_a_reset_in_the_tls_handshake_is_surely_not_sent(
    serve: Callable[..., Server], egress: Egress
) -> None:
    server = serve(lambda connection, _: connection.recv(10) and reset(connection))
    assert surely_not_sent(failure(lambda: egress.get(f"https://127.0.0.1:{server.port}/")))


def test_a_self_signed_certificate_is_refused(
    serve: Callable[..., Server], egress: Egress, tmp_path
) -> None:
    context, _ = certificate(tmp_path, "127.0.0.1")
    server = serve(answering(OK), tls=context)
    exc = failure(lambda: egress.get(f"https://127.0.0.1:{server.port}/"))
    assert isinstance(exc, exceptions.SSLError)
    assert server.heard == []


@pytest.mark.parametrize(("host", "good"), [("crm.example", True), ("other.example", False)])
def test_the_certificate_is_checked_against_the_name(
    host: str, good: bool, serve: Callable[..., Server], tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, file = certificate(tmp_path, "crm.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    server = serve(answering(OK), tls=context)
    names = Names(crm__example=[["127.0.0.1"]], other__example=[["127.0.0.1"]])
    egress = Egress(allow=LOOPBACK, resolve=names)
    url = f"https://{host}:{server.port}/"
    if good:
        assert [egress.get(url).text for _ in range(3)] == ["ok"] * 3
        assert server.connections == 1
    else:
        assert isinstance(failure(lambda: egress.get(url)), exceptions.SSLError)


@pytest.mark.parametrize("choice", [{"verify": False}, {"cert": "x.pem"}])
def test_tls_checks_cannot_be_switched_off(choice: dict[str, object], egress: Egress) -> None:
    with pytest.raises(Refused, match="cannot be chosen"):
        egress.get("https://127.0.0.1/", **choice)


# What may have been sent


def test_a_reset_after_the_request_leaves_it_in_doubt(
    serve: Callable[..., Server], egress: Egress
) -> None:
    server = serve(resetting)
    exc = failure(lambda: egress.post(server.url, data=b"{}"))
    assert isinstance(exc, exceptions.ConnectionError)
    assert not surely_not_sent(exc)
    assert len(server.heard) == 1


def test_tls_that_breaks_after_the_request_leaves_it_in_doubt(
    serve: Callable[..., Server], tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def garbage(connection, server: Server) -> None:
        next(server.requests(connection))
        os.write(connection.fileno(), OK)

    context, file = certificate(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    server = serve(garbage, tls=context)
    exc = failure(lambda: Egress(allow=LOOPBACK).get(f"https://127.0.0.1:{server.port}/"))
    assert isinstance(exc, exceptions.ConnectionError)
    assert not surely_not_sent(exc)


DRIPS = {
    "status": [b"H"] * 100,
    "headers": [b"HTTP/1.1 200 OK\r\n", *[b"X-A: b\r\n"] * 100],
    "body": [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[b"x"] * 100],
    "chunks": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1\r\nx\r\n"] * 100],
    "until closed": [b"HTTP/1.1 200 OK\r\n\r\n", *[b"x"] * 100],
    "continue": [b"HTTP/1.1 100 Continue\r\n\r\n"] * 100,
}


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("drip", DRIPS)
def test_a_drip_ends_at_the_deadline(
    drip: str, tls: bool, serve: Callable[..., Server], tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, file = certificate(tmp_path, "127.0.0.1") if tls else (None, "")
    if tls:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    late = threading.Event()

    def dripping(connection, server: Server) -> None:
        next(server.requests(connection))
        for number, part in enumerate(DRIPS[drip]):
            connection.sendall(part)
            if number == 5:
                late.set()
            if server.over.wait(0.05):
                return

    monkeypatch.setattr(connections, "monotonic", lambda: time.monotonic() + 1000 * late.is_set())
    server = serve(dripping, tls=context)
    url = server.url.replace("http:", "https:") if tls else server.url
    exc = failure(lambda: Egress(allow=LOOPBACK).get(url, timeout=500))
    assert isinstance(exc, (exceptions.ReadTimeout, exceptions.ConnectionError))
    assert "the time for this call is over" in told(exc)
    assert not surely_not_sent(exc)


def test_a_server_that_does_not_read_ends_at_the_deadline(
    serve: Callable[..., Server], egress: Egress
) -> None:
    server = serve(silent)
    exc = failure(lambda: egress.post(server.url, data=b"x" * (64 << 20), timeout=1))
    assert not surely_not_sent(exc)


def test_a_slow_handshake_leaves_less_time_for_the_rest(
    serve: Callable[..., Server], tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Told(connections.TimedTLSSocket):
        def settimeout(self, value: float | None) -> None:
            told.append(value)
            super().settimeout(value)

    def slow(connection, server: Server) -> None:
        server.over.wait(0.5)
        with context.wrap_socket(connection, server_side=True) as wrapped:
            answering(OK)(wrapped, server)

    told: list[float | None] = []
    context, file = certificate(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setattr(connections, "TimedTLSSocket", Told)
    Egress(allow=LOOPBACK).get(f"https://127.0.0.1:{serve(slow).port}/", timeout=60)
    *_, sending, receiving = told
    assert receiving <= sending < 59.6


def test_the_deadline_starts_anew_on_a_connection_used_before(
    serve: Callable[..., Server], egress: Egress, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [0.0]
    monkeypatch.setattr(connections, "monotonic", lambda: time.monotonic() + sum(passed))
    monkeypatch.setattr(connections, "_IDLE_SECONDS", 1000)
    server = serve(answering(OK))
    for _ in range(4):
        assert egress.get(server.url, timeout=100).text == "ok"
        passed.append(60.0)
    assert server.connections == 1


@pytest.mark.parametrize("timeout", [0, -1, (0.0, 0.0)])
def test_no_time_left_is_surely_not_sent(timeout, canary: Server, egress: Egress) -> None:
    assert surely_not_sent(failure(lambda: egress.get(canary.url, timeout=timeout)))


def test_a_pair_of_timeouts_counts_as_its_sum(serve: Callable[..., Server], egress: Egress) -> None:
    server = serve(silent)
    failure(lambda: egress.get(server.url, timeout=(0.2, 0.2)))


GARBAGE = [
    b"",
    b"\0" * 1000,
    b"HTTP/1.1 abc\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
    b"HTTP/1.1 200 " + b"O" * 100_000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: " + b"gzip, " * 9 + b"br\r\nContent-Length: 2\r\n\r\nok",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_leaves_the_request_in_doubt(
    garbage: bytes, serve: Callable[..., Server], egress: Egress
) -> None:
    def say(connection, server: Server) -> None:
        next(server.requests(connection))
        connection.sendall(garbage)

    server = serve(say)
    assert not surely_not_sent(failure(lambda: egress.get(server.url, timeout=30)))


# Size

PLAIN = b"x" * (2 << 20)
BOMB = gzip.compress(gzip.compress(b"\0" * (256 << 20), 1))


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


LARGE = {
    "length": b"Content-Length: %d\r\n\r\n%s" % (len(PLAIN), PLAIN),
    "chunked": b"Transfer-Encoding: chunked\r\n\r\n" + chunked(PLAIN),
    "until closed": b"Connection: close\r\n\r\n" + PLAIN,
    "bomb": b"Content-Encoding: gzip, gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(BOMB), BOMB),
    "chunked bomb": b"Content-Encoding: gzip, gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    + chunked(BOMB),
}


@pytest.mark.parametrize("form", LARGE)
def test_an_answer_that_is_too_large_is_cut_off(form: str, serve: Callable[..., Server]) -> None:
    server = serve(answering(b"HTTP/1.1 200 OK\r\n" + LARGE[form]))
    egress = Egress(allow=LOOPBACK, most_bytes=1 << 20)
    tracemalloc.start()
    try:
        exc = failure(lambda: egress.get(f"{server.url}/?email={PERSON}"))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert isinstance(exc, TooLarge)
    assert PERSON not in told(exc)


def test_the_rest_of_a_large_answer_is_not_taken_for_the_next(
    serve: Callable[..., Server],
) -> None:
    server = serve(answering(b"HTTP/1.1 200 OK\r\n" + LARGE["length"]))
    egress = Egress(allow=LOOPBACK, most_bytes=1 << 20)
    for _ in range(2):
        with pytest.raises(TooLarge, match=r"127\.0\.0\.1 answered more than 1048576 bytes"):
            egress.get(server.url)
    assert server.connections == 2


def test_an_answer_as_large_as_it_may_be_is_whole(serve: Callable[..., Server]) -> None:
    body = gzip.compress(PLAIN)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    server = serve(answering(head % len(body) + body))
    egress = Egress(allow=LOOPBACK, most_bytes=len(PLAIN))
    assert [egress.get(server.url).content == PLAIN for _ in range(2)] == [True, True]
    assert server.connections == 1


# Nothing of one account reaches another


def test_cookies_are_not_kept(serve: Callable[..., Server], egress: Egress) -> None:
    server = serve(
        answering(b"HTTP/1.1 200 OK\r\nSet-Cookie: session=1; Path=/\r\nContent-Length: 0\r\n\r\n")
    )
    for _ in range(2):
        egress.get(server.url)
    assert len(egress.cookies) == 0
    assert not any(b"cookie" in heard.lower() for heard in server.heard)


@pytest.mark.parametrize("name", ["headers", "auth", "verify", "trust_env", "proxies", "cookies"])
def test_the_session_takes_no_defaults(name: str, egress: Egress) -> None:
    with pytest.raises(AttributeError, match=f"give {name} with the call"):
        setattr(egress, name, {"Authorization": "Bearer secret"})


def test_what_is_put_into_the_session_is_not_sent(
    serve: Callable[..., Server], egress: Egress
) -> None:
    server = serve(answering(OK))
    with pytest.raises(TypeError):
        egress.headers["Authorization"] = "Bearer secret"
    egress.params["token"] = "secret"
    egress.cookies.set("token", "secret")
    egress.proxies["http"] = "http://127.0.0.1:1"
    egress.get(server.url)
    assert b"secret" not in server.heard[0]


def test_the_guard_cannot_be_replaced(egress: Egress) -> None:
    with pytest.raises(AttributeError):
        egress.mount("https://", requests.adapters.HTTPAdapter())


def test_the_environment_is_ignored(
    serve: Callable[..., Server],
    canary: Server,
    egress: Egress,
    tmp_path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, canary.url)
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ada password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server = serve(answering(OK))
    egress.get(server.url)
    assert b"authorization" not in server.heard[0].lower()


def test_threads_get_their_own_answers(serve: Callable[..., Server], egress: Egress) -> None:
    def echo(connection, server: Server) -> None:
        for request in server.requests(connection):
            body = request.partition(b"\r\n\r\n")[2]
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )

    server = serve(echo)
    numbers = [str(number) for number in range(400)]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(
            pool.map(lambda n: egress.post(server.url, data=n, timeout=120).text, numbers)
        )
    assert answers == numbers
    assert server.connections <= 32


# Connections


def test_a_connection_is_used_again(serve: Callable[..., Server], egress: Egress) -> None:
    server = serve(answering(OK))
    for method in ("GET", "POST", "PATCH", "DELETE"):
        egress.request(method, server.url, data=b"{}")
    assert server.connections == 1


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_an_answer_without_a_body_leaves_its_connection(
    method: str, serve: Callable[..., Server], egress: Egress
) -> None:
    head = b"Content-Length: 9" if method == "HEAD" else b"X: y"
    server = serve(
        answering(b"HTTP/1.1 %d OK\r\n%s\r\n\r\n" % (200 if method == "HEAD" else 204, head))
    )
    assert [egress.request(method, server.url).content for _ in range(2)] == [b"", b""]
    assert server.connections == 1


def test_an_idle_connection_is_not_used_again(
    serve: Callable[..., Server], egress: Egress, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(answering(OK))
    egress.get(server.url)
    monkeypatch.setattr(connections, "_IDLE_SECONDS", 0.05)
    time.sleep(0.1)
    egress.get(server.url)
    assert server.connections == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_returned_and_not_followed(
    status: int, serve: Callable[..., Server], canary: Server, egress: Egress
) -> None:
    head = f"HTTP/1.1 {status} Moved\r\nLocation: {canary.url}/\r\nContent-Length: 0\r\n\r\n"
    server = serve(answering(head.encode()))
    answer = egress.post(server.url, data=b"{}", allow_redirects=True)
    assert (answer.status_code, answer.headers["Location"]) == (status, f"{canary.url}/")
    assert len(server.heard) == 1


def test_nothing_is_sent_twice(serve: Callable[..., Server], egress: Egress) -> None:
    server = serve(answering(b"HTTP/1.1 503 Away\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"))
    assert egress.get(server.url).status_code == 503
    assert len(server.heard) == 1


def test_a_prepared_request_is_guarded_too(canary: Server) -> None:
    prepared = requests.Request("GET", canary.url).prepare()
    with pytest.raises(Refused):
        Egress().send(prepared)


# Secrets and personal data


@pytest.mark.parametrize("form", ["Bearer {}\r\nX: y", "Bearer {}…", " {}", "{} ", "{}\0", "{}\n"])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(
    form: str, canary: Server, egress: Egress
) -> None:
    headers = {"Authorization": form.format(SECRET)}
    exc = failure(lambda: egress.get(canary.url, headers=headers))
    assert isinstance(exc, Refused)
    assert SECRET not in told(exc)


@pytest.mark.parametrize("serving", [resetting, silent, reset])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_failures_do_not_tell_what_was_sent(
    scheme: str, serving, serve: Callable[..., Server], egress: Egress
) -> None:
    url = f"{scheme}://127.0.0.1:{serve(serving).port}/{SECRET}?email={SECRET}"
    headers = {"Authorization": SECRET}
    exc = failure(lambda: egress.post(url, headers=headers, data=SECRET, timeout=0.5))
    assert SECRET not in told(exc)


def test_paths_do_not_reach_the_log(serve: Callable[..., Server]) -> None:
    # A header that cannot be parsed makes urllib3 warn, with the whole URL.
    server = serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nbroken header\r\n\r\nok"))
    script = (
        "import sys, ipaddress, crmhub.logs; from crmhub.egress import Egress\n"
        "crmhub.logs.configure('debug')\n"
        "allow = [ipaddress.ip_network('127.0.0.0/8')]\n"
        "Egress(allow=allow).get(sys.argv[1] + '/?email=ada@example.com')\n"
    )
    run = subprocess.run([sys.executable, "-c", script, server.url], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


# With the tools of others


@responses.activate
def test_responses_can_stand_for_a_crm(egress: Egress) -> None:
    responses.get("https://crm.example/contacts", json={"id": "1"}, status=201)
    answer = egress.get("https://crm.example/contacts", params={"limit": 1}, timeout=3)
    assert (answer.status_code, answer.json()) == (201, {"id": "1"})
    assert responses.calls[0].request.headers["User-Agent"].startswith("crmhub/")


@responses.activate
def test_a_mocked_answer_is_bounded_as_well() -> None:
    responses.get("https://crm.example/", body=PLAIN)
    with pytest.raises(TooLarge):
        Egress(most_bytes=1 << 20).get("https://crm.example/")


def test_bodies_in_every_form_requests_takes_are_sent(
    serve: Callable[..., Server], egress: Egress
) -> None:
    server = serve(answering(OK))
    egress.post(server.url, json={"a": "é"}, auth=("ada", "x"), params=[("q", "1 2")])
    egress.post(server.url, data={"a": "b"}, cookies={"own": "1"}, stream=True)
    assert server.heard[0].startswith(b"POST /?q=1+2 HTTP/1.1\r\n")
    assert b"Authorization: Basic" in server.heard[0]
    assert server.heard[1].endswith(b"\r\n\r\na=b")
    assert b"Cookie: own=1" in server.heard[1]


@pytest.mark.parametrize(
    "parts",
    [
        (b"HTTP/1.1 202 Accepted\r\n", b"X-Slow: 1"),
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 99\r\n\r\n", b"drip"),
        (b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 99_999,),
        (b"HTTP/1.1 202 Accepted\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",),
    ],
    ids=["headers", "body", "chunks", "large", "encoding"],
)
def test_the_status_line_decides_where_a_call_asks_for_no_more(
    serve: Callable[..., Server], egress: Egress, parts: tuple[bytes, ...]
) -> None:
    server = serve(answering(*parts, b"", pause=60.0))
    answer = egress.post(server.url, data=b"event", timeout=30, stream=True)
    assert answer.status_code == 202


def test_a_short_body_leaves_the_connection_of_a_status_for_the_next_call(
    serve: Callable[..., Server], egress: Egress
) -> None:
    server = serve(answering(OK))
    for _ in range(3):
        assert egress.post(server.url, data=b"event", stream=True).status_code == 200
    assert server.connections == 1
    long = serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000))
    for _ in range(2):
        assert egress.post(long.url, data=b"event", stream=True).status_code == 200
    assert long.connections == 2


def test_an_answer_without_a_status_line_is_no_answer(
    serve: Callable[..., Server], egress: Egress
) -> None:
    server = serve(answering(b"HTTP/1.1 2", pause=60.0))
    with pytest.raises(requests.Timeout):
        egress.post(server.url, data=b"event", timeout=0.3, stream=True)
