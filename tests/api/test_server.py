"""What only a real server shows: HTTP byte by byte, over connections that stay open.

How it starts, stops and restarts is tested with the command line (tests/server/test_serve.py).
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.server.servers import Server, serving

_PATIENCE = 120


@dataclass(frozen=True)
class Answer:
    """An answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes


class NoAnswer(Exception):
    """The server has hung up."""


class Line:
    """One connection, that answers are read from one by one."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        self._file = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self, *, bodiless: bool = False) -> Answer:
        """Read one answer to its end and no further."""
        version, _, rest = self._file.readline().partition(b" ")
        if not version:
            raise NoAnswer
        assert version in (b"HTTP/1.1", b"HTTP/1.0"), version
        headers: dict[str, str] = {}
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        status = int(rest[:3])
        length = 0 if bodiless or status < 200 else int(headers.get("content-length", 0))
        return Answer(status, headers, self._file.read(length))

    def first_line(self) -> bytes:
        """Return what the server says first, b"" when it hangs up."""
        return self._file.readline()

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@dataclass(frozen=True)
class Service:
    """A running service with one account."""

    server: Server
    base: str
    key: str

    def request(self, method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
        """Return a request of the account as bytes; it leaves the connection open."""
        lines = [
            f"{method} {self.base}{path} HTTP/1.1",
            "Host: test",
            f"service-apikey: {self.key}",
            *([f"Content-Length: {len(body)}", "Content-Type: application/json"] if body else []),
            *headers,
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def create(self, name: str, *headers: str) -> bytes:
        return self.request("POST", "/contacts", contact(name), *headers)


def contact(name: str) -> bytes:
    return json.dumps({"properties": {"firstname": name}}).encode()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two server processes on a SQLite file."""
    root: Path = tmp_path_factory.mktemp("server")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("CRMHUB_")]:
            patch.delenv(name)
        made = CommandLine(root, {}).json("account", "create", "Acme")
        with serving(root, "--workers", "2", "--threads", "4") as server:
            yield Service(server, f"/{made['clientId']}/api/v1", made["apiKey"])


@pytest.fixture
def line(service: Service) -> Iterator[Line]:
    line = Line(service.server.port)
    yield line
    line.close()


def assert_still_there(service: Service) -> None:
    assert service.server.answer()[0] == 200


def test_head_has_the_headers_of_get_and_no_body(service: Service, line: Line) -> None:
    line.send(service.request("HEAD", "/contacts") + service.request("GET", "/contacts"))
    head, get = line.answer(bodiless=True), line.answer()
    assert (head.status, get.status) == (200, 200)
    assert head.headers["content-type"] == get.headers["content-type"]
    assert json.loads(get.body)["hasMore"] is False


def test_a_connection_serves_many_requests(service: Service, line: Line) -> None:
    for n in range(20):
        line.send(service.create(f"kept {n}"))
        assert line.answer().status == 201


def test_pipelined_requests_are_answered_in_order(service: Service, line: Line) -> None:
    names = [f"pipelined {n}" for n in range(10)]
    line.send(b"".join(service.create(name) for name in names))
    answers = [json.loads(line.answer().body) for _ in names]
    assert [each["properties"]["firstname"] for each in answers] == names


@pytest.mark.parametrize("blanks", [0, 10_000, 500_000])
def test_a_refused_request_does_not_spoil_the_next_one(service: Service, blanks: int) -> None:
    """What nobody asked for of a body is no part of the next request."""
    body = contact("x") + b" " * blanks
    for method, path, status in (
        ("PUT", "/contacts", 405),
        ("POST", "/nothing/here", 404),
        ("DELETE", "/contacts/1", 404),
    ):
        line = Line(service.server.port)
        line.send(service.request(method, path, body))
        assert line.answer().status == status
        line.send(service.request("GET", "/contacts"))
        assert line.answer().status == 200
        line.close()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_refused_request_whose_body_comes_late_leaves_the_connection(
    service: Service, line: Line, chunked: bool
) -> None:
    body = contact("late")
    path = f"{service.base}/contacts"
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    line.send(f"POST {path} HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n".encode())
    # By now it would be answered, 401, and the connection gone.
    for _ in range(20):
        assert_still_there(service)
    line.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if chunked else body)
    assert line.answer().status == 401
    line.send(service.request("GET", "/contacts"))
    assert line.answer().status == 200


def test_a_body_too_large_is_413_and_the_service_goes_on(service: Service, line: Line) -> None:
    line.send(service.request("POST", "/contacts", b" " * 1_100_000))
    answer = line.answer()
    assert (answer.status, json.loads(answer.body)["category"]) == (413, "BadRequestError")
    # A client that keeps connections sends its next request on another one.
    assert answer.headers["connection"] == "close"
    assert_still_there(service)


def test_expect_continue_is_answered_before_the_body(service: Service, line: Line) -> None:
    body = contact("expected")
    whole = service.request("POST", "/contacts", body, "Expect: 100-continue")
    line.send(whole[: -len(body)])
    assert line.answer().status == 100
    line.send(body)
    assert line.answer().status == 201


def test_a_chunked_body_is_read_to_its_end(service: Service, line: Line) -> None:
    body = contact("chunked")
    head = service.request(
        "POST", "/contacts", b"", "Transfer-Encoding: chunked", "Content-Type: application/json"
    )
    for _ in range(2):
        line.send(head)
        for byte in body:
            line.send(b"1\r\n%c\r\n" % byte)
        line.send(b"0\r\n\r\n")
        answer = line.answer()
        assert json.loads(answer.body)["properties"]["firstname"] == "chunked"


def test_every_answer_carries_its_headers(service: Service, line: Line) -> None:
    line.send(
        service.request("GET", "/contacts", b"", "X-Request-Id: mine-1")
        + service.request("GET", "/nothing", b"", "X-Request-Id: mine 2")
    )
    found, missing = line.answer(), line.answer()
    assert found.headers["x-request-id"] == "mine-1"
    assert missing.headers["x-request-id"] not in ("", "mine 2")
    for answer in (found, missing):
        assert int(answer.headers["ratelimit-limit"]) > 0


MALFORMED = {
    "nothing like HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "a version nobody knows": b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
    "no path": b"GET HTTP/1.1\r\nHost: x\r\n\r\n",
    "a blank in the path": b"GET /health z HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header without a colon": b"GET /healthz HTTP/1.1\r\nHost: x\r\nnope\r\n\r\n",
    "a blank before the colon": b"GET /healthz HTTP/1.1\r\nHost: x\r\na : b\r\n\r\n",
    "NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\na: \0\r\n\r\n",
    "a negative length": b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "a length that is no number": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\n"
    b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a chunk of no size": b"POST /x/api/v1/contacts HTTP/1.1\r\nHost: x\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "headers without end": b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 5000 + b"\r\n",
    "an endless header": b"GET /healthz HTTP/1.1\r\nHost: x\r\na: "
    + b"b" * 1_000_000
    + b"\r\n\r\n",
    "an endless path": b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED)
def test_malformed_http_is_refused_and_the_service_goes_on(
    service: Service, request_bytes: bytes
) -> None:
    line = Line(service.server.port)
    try:
        line.send(request_bytes)
        answered = line.first_line()
    except ConnectionError:
        # Hanging up in the middle of it is an answer, too.
        answered = b""
    finally:
        line.close()
    assert answered == b"" or answered.startswith(b"HTTP/1.1 4"), answered
    assert_still_there(service)


def test_length_and_chunks_together_smuggle_nothing(service: Service, line: Line) -> None:
    """The chunks count; what comes after them is thrown away with the connection."""
    body = b"0\r\n\r\n" + service.create("smuggled")
    both = ("Transfer-Encoding: chunked", f"Content-Length: {len(body)}")
    line.send(service.request("POST", "/contacts", b"", *both, "Content-Type: application/json"))
    line.send(body)
    assert line.answer().status == 400
    with pytest.raises((NoAnswer, ConnectionError)):
        line.answer()
    filters = [{"propertyName": "firstname", "operator": "EQ", "value": "smuggled"}]
    status, _, found = service.server.answer(
        "POST",
        f"{service.base}/contacts/search",
        json.dumps({"filters": filters}),
        {"service-apikey": service.key, "Content-Type": "application/json"},
    )
    assert (status, json.loads(found)["total"]) == (200, 0)


@pytest.mark.parametrize(
    "path", [b"/\xff\xfe", b"/%00", b"/%ff", b"/a?\xff=\xff", b"//", b"/../../etc/passwd", b"*"]
)
def test_raw_bytes_in_a_path_are_refused_in_the_one_shape(
    service: Service, line: Line, path: bytes
) -> None:
    line.send(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = line.answer()
    assert answer.status in (400, 404)
    if answer.body:
        assert set(json.loads(answer.body)) == {"category", "message", "timestamp", "status"}


def test_a_raw_byte_in_a_query_of_the_api_is_400(service: Service, line: Line) -> None:
    request = service.request("GET", "/contacts?limit=QQ").replace(b"QQ", b"\xff")
    line.send(request)
    assert line.answer().status == 400


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1\r\n", 400),
        (b"HTTP/1.1\r\nHost:\r\n", 400),
        (b"HTTP/1.1\r\nHost: a\r\nHost: b\r\n", 400),
        (b"HTTP/1.1\r\nHost: a\r\n", 200),
        (b"HTTP/1.0\r\n", 200),
    ],
)
def test_a_request_names_one_host(line: Line, head: bytes, status: int) -> None:
    line.send(b"GET /healthz " + head + b"\r\n")
    answer = line.answer()
    assert (answer.status, answer.headers["x-content-type-options"]) == (status, "nosniff")


def test_a_key_sent_twice_is_401(service: Service, line: Line) -> None:
    line.send(service.request("GET", "/contacts", b"", "service-apikey: other"))
    assert line.answer().status == 401


def test_an_absolute_address_in_the_request_line_is_understood(
    service: Service, line: Line
) -> None:
    line.send(b"GET http://test/healthz HTTP/1.1\r\nHost: test\r\n\r\n")
    assert line.answer().status == 200


def test_slow_headers_keep_no_thread_from_the_others(service: Service) -> None:
    lines = [Line(service.server.port) for _ in range(40)]
    for each in lines:
        each.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
    began = time.monotonic()
    assert_still_there(service)
    # The server itself hangs up on them after 10 s.
    assert time.monotonic() - began < 8
    for each in lines:
        each.close()


def test_slow_bodies_leave_a_thread_for_the_others(service: Service) -> None:
    body = contact("slow")
    # Of nobody: of one account not as many are worked on at a time.
    head = service.request("POST", "/contacts", body).replace(service.key.encode(), b"")
    head = head[: -len(body)]
    # One fewer than the threads of a process: all of them may meet in the same one.
    lines = [Line(service.server.port) for _ in range(3)]
    for each in lines:
        each.send(head + body[:5])
    assert_still_there(service)
    for each in lines:
        each.send(body[5:])
    assert [each.answer().status for each in lines] == [401] * 3
    for each in lines:
        each.close()
