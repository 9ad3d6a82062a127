"""Connections that are slow or idle make room for others; whose caller has hung up is known."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from crmhub.accounts.limits import network_of
from crmhub.bounds import MAX_HEAD_BYTES
from crmhub.server import connections
from crmhub.server.connections import Connections, Request
from tests.cli.conftest import CommandLine
from tests.server.servers import Server, serving, soon, waiting

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells how connections stand"
)
HEAD = b"GET /healthz HTTP/1.1\r\nHost: test\r\nX-Slow: "
BODY = b"POST /healthz HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: long ago\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def is_open(line: socket.socket) -> bool:
    """Whether the other end has not closed this connection; what it sent is passed over."""
    line.setblocking(False)
    try:
        while line.recv(65_536):
            pass
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        line.setblocking(True)
    return False


class Callers:
    """Connections to a port of this process, and the look that it has at them.

    Nothing but the test reads, sends or closes at the end of the service.
    """

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.ends: dict[socket.socket, socket.socket] = {}

    def connections(self, **bounds: Any) -> Connections:
        """Return the connections as the service would look at them."""
        wide = {"read_timeout": 600, "per_address": 1000, "room": 4000}
        return Connections(self._listening.getsockname()[1], **{**wide, **bounds})

    def call(self, sent: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
        """Connect from an address, and send something."""
        line = socket.create_connection(self._listening.getsockname(), source_address=(address, 0))
        self.ends[line] = self._stack.enter_context(self._listening.accept()[0])
        self._stack.enter_context(line)
        self.say(line, sent)
        return line

    def say(self, line: socket.socket, sent: bytes) -> None:
        """Send something, and wait until it is there."""
        if sent:
            line.sendall(sent)
            assert self.ends[line].recv(len(sent), socket.MSG_WAITALL) == sent

    def answer(self, line: socket.socket, sent: bytes = ANSWER) -> None:
        """Send something from the end of the service."""
        # Later than what came last, by the clock of the kernel.
        time.sleep(0.02)
        self.ends[line].sendall(sent)
        assert line.recv(len(sent), socket.MSG_WAITALL) == sent

    def request(
        self, looks: Connections, address: str = "127.0.0.1", *, whole: bool = True
    ) -> Request:
        """Return a request that is there since now, as a whole or without its body."""
        request = Request(address, looks)
        request.complete_at = request.began_at if whole else None
        looks.requests[id(request)] = request
        return request


@pytest.fixture
def callers() -> Iterator[Callers]:
    with ExitStack() as stack:
        yield Callers(stack)


def closed_by(looks: Connections, number: int) -> Counter[str]:
    """Look until so many connections were closed; return for which reasons."""
    found = Counter[str]()

    def enough() -> bool:
        found.update(looks.close_excess())
        return found.total() >= number

    soon(enough)
    assert found.total() == number
    return +found


# The rule, in this process.


def test_a_request_is_to_be_there_in_time_however_it_drips(callers: Callers) -> None:
    looks = callers.connections(read_timeout=0.5)
    slow, expects = callers.call(HEAD), callers.call(BODY)
    callers.answer(expects, CONTINUE)
    idle, silent = callers.call(HEAD), callers.call()
    callers.answer(idle)
    found = Counter[str]()

    def over() -> bool:
        found.update(looks.close_excess())
        for line in (slow, expects):
            with suppress(ConnectionError):
                line.send(b"x")
        return not is_open(slow) and not is_open(expects)

    soon(over)
    assert +found == {"timed_out": 2}
    assert is_open(idle)
    assert is_open(silent)


def test_a_body_that_does_not_begin_is_not_waited_for(callers: Callers) -> None:
    looks = callers.connections(read_timeout=0.3)
    line = callers.call(BODY)
    callers.answer(line, CONTINUE)
    assert closed_by(looks, 1) == {"timed_out": 1}
    assert not is_open(line)


def test_a_request_that_is_worked_on_keeps_its_connection(callers: Callers) -> None:
    looks = callers.connections(read_timeout=0.3)
    slow, whole = callers.call(BODY), callers.call(BODY)
    looks.close_excess()
    time.sleep(0.4)
    callers.say(whole, b"the rest")
    callers.request(looks)
    # Another address has one, too, but it is another's.
    callers.request(looks, "127.0.0.2")
    # Later than that, by the clock of the kernel.
    time.sleep(0.05)
    callers.say(slow, b"x")
    assert closed_by(looks, 1) == {"timed_out": 1}
    assert is_open(whole)
    looks.requests.clear()
    assert closed_by(looks, 1) == {"timed_out": 1}


def test_what_comes_beside_an_answer_to_come_takes_nothing_from_it(callers: Callers) -> None:
    """A body that came at once, before it was asked for."""
    looks = callers.connections(read_timeout=0.3)
    whole = callers.call(BODY)
    callers.request(looks)
    callers.answer(whole, CONTINUE)
    time.sleep(0.4)
    assert not looks.close_excess().total()
    looks.requests.clear()
    assert closed_by(looks, 1)


def test_an_address_has_its_share_and_the_slowest_go_first(callers: Callers) -> None:
    looks = callers.connections(per_address=4)
    idle = [callers.call(HEAD) for _ in range(2)]
    for line in idle:
        callers.answer(line)
    looks.close_excess()
    slow = [callers.call(HEAD) for _ in range(2)]
    looks.close_excess()
    # Later than that by the clock of the kernel, whose ticks a busy machine may delay.
    time.sleep(0.3)
    later = [callers.call(BODY) for _ in range(3)]
    other = callers.call(HEAD, address="127.0.0.2")
    assert closed_by(looks, 3) == {"of_busy_addresses": 3}
    assert [is_open(line) for line in slow] == [False, False]
    assert [is_open(line) for line in later].count(False) == 1
    assert all(map(is_open, [*idle, other]))


def test_the_longest_idle_make_room_after_the_slow_ones(callers: Callers) -> None:
    looks = callers.connections(per_address=1)
    idle = [callers.call(HEAD) for _ in range(3)]
    for line in idle:
        callers.answer(line)
    slow = callers.call(HEAD)
    assert closed_by(looks, 3) == {"of_busy_addresses": 3}
    assert [is_open(line) for line in (slow, *idle)] == [False, False, False, True]


def test_a_trusted_proxy_has_as_many_as_it_likes(callers: Callers) -> None:
    looks = callers.connections(per_address=2, trusted=[ip_network("127.0.0.1")])
    proxied = [callers.call(HEAD) for _ in range(5)]
    for _ in range(5):
        callers.call(HEAD, address="127.0.0.2")
    assert closed_by(looks, 3)
    assert all(map(is_open, proxied))


def test_a_network_of_ipv6_is_one_address() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:2") != network_of("2001:db9::1")
    assert network_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == network_of("fe80::2")


def test_the_oldest_make_room_in_a_full_process(callers: Callers) -> None:
    looks = callers.connections(room=10)
    idle = callers.call(HEAD)
    callers.answer(idle)
    old = callers.call(HEAD, address="127.0.0.2")
    silent = callers.call(address="127.0.0.3")
    time.sleep(0.3)
    later = [callers.call(HEAD, address=f"127.0.0.{n}") for n in range(4, 11)]
    assert closed_by(looks, 2) == {"for_room": 2}
    assert [is_open(line) for line in (old, silent)] == [False, False]
    assert all(map(is_open, [idle, *later]))


def test_requests_that_are_worked_on_take_room_too(callers: Callers) -> None:
    looks = callers.connections(room=5)
    lines = [callers.call(HEAD, address=f"127.0.0.{n}") for n in range(1, 6)]
    for n in range(2, 6):
        callers.request(looks, f"127.0.0.{n}")
    assert closed_by(looks, 1) == {"for_room": 1}
    assert [is_open(line) for line in lines] == [False, True, True, True, True]


def test_a_place_for_long_bodies_is_not_held_for_ever(callers: Callers) -> None:
    looks = callers.connections()
    short = callers.call(BODY + b"x" * 60_000)
    stuck, gets_on, waits = (callers.call(BODY + b"x" * 70_000) for _ in range(3))
    for _ in range(2):
        callers.request(looks, whole=False).has_place = True
    found = Counter[str]()

    def look() -> bool:
        callers.say(gets_on, b"x" * 5_000)
        found.update(looks.close_excess())
        return not is_open(stuck)

    # Whoever waits has come later, and is closed for nobody.
    began = time.monotonic()
    soon(lambda: look() or time.monotonic() - began > 1.5)
    assert not found.total()
    for _ in range(5):
        callers.request(looks, whole=False).waiting_since = began
    soon(look)
    assert +found == {"for_room": 1}
    assert all(map(is_open, (short, gets_on, waits)))


def test_an_answer_that_is_not_read_is_given_up(
    callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_UNCHANGED_SECONDS", 0.3)
    looks = callers.connections()
    line = callers.call(HEAD)
    end = callers.ends[line]
    end.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            end.send(b"x" * 65_536)
    assert closed_by(looks, 1) == {"timed_out": 1}


def test_what_became_busy_meanwhile_stays(
    callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = callers.connections(room=0)
    idle = callers.call(HEAD)
    callers.answer(idle)
    slow = callers.call(HEAD, address="127.0.0.2")
    time.sleep(0.3)
    choose = looks._choose_excess

    def late(*args: Any) -> Any:
        chosen = choose(*args)
        callers.say(idle, HEAD)
        callers.say(slow, b"\r\n\r\n")
        callers.request(looks, "127.0.0.2")
        return chosen

    monkeypatch.setattr(looks, "_choose_excess", late)
    assert looks.close_excess().total() == 0
    assert is_open(idle)
    assert is_open(slow)


def test_this_process_keeps_its_locks_on_files(callers: Callers, tmp_path: Path) -> None:
    looks = callers.connections(room=0)
    callers.call(HEAD)
    with open(tmp_path / "locked", "w") as locked:
        fcntl.lockf(locked, fcntl.LOCK_EX)
        assert closed_by(looks, 1)
        assert not _lockable(tmp_path / "locked")


def test_a_file_that_takes_a_sockets_place_meanwhile_keeps_its_locks(
    callers: Callers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = callers.connections(room=0)
    line = callers.call(HEAD)
    other = callers.ends[line]
    time.sleep(0.3)
    choose = looks._choose_excess
    with open(tmp_path / "locked", "w") as locked, ExitStack() as stack:
        fcntl.lockf(locked, fcntl.LOCK_EX)

        def late(*args: Any) -> Any:
            chosen = choose(*args)
            # After the last look at it, too.
            monkeypatch.setattr(connections.TcpConnection, "refresh", lambda line: True)
            os.dup2(locked.fileno(), other.fileno())
            stack.callback(os.close, other.detach())
            return chosen

        monkeypatch.setattr(looks, "_choose_excess", late)
        monkeypatch.setattr(connections.stat, "S_ISSOCK", lambda mode: True)
        before = set(os.listdir("/proc/self/fd"))
        assert looks.close_excess().total() == 0
        assert not _lockable(tmp_path / "locked")
        for left in set(os.listdir("/proc/self/fd")) - before:
            with suppress(OSError):  # what the list itself was read with
                os.close(int(left))
    assert not is_open(line)


def test_another_socket_that_takes_its_place_meanwhile_stays_open(
    callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = callers.connections(room=0)
    line = callers.call(HEAD)
    there = callers.ends[line]
    time.sleep(0.3)
    choose = looks._choose_excess
    mine, another = socket.socketpair()
    with mine, another:

        def late(*args: Any) -> Any:
            chosen = choose(*args)
            assert chosen
            # After the last look at it, too.
            monkeypatch.setattr(connections.TcpConnection, "refresh", lambda line: True)
            os.dup2(another.fileno(), there.fileno())
            return chosen

        monkeypatch.setattr(looks, "_choose_excess", late)
        assert looks.close_excess().total() == 0
        assert is_open(mine)


def _lockable(file: Path) -> bool:
    """Whether another process may lock it."""
    trying = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    tried = subprocess.run([sys.executable, "-c", trying, str(file)], stderr=subprocess.DEVNULL)
    return tried.returncode == 0


# Who has hung up, in this process.


def end(line: socket.socket) -> None:
    """Hang up."""
    line.shutdown(socket.SHUT_RDWR)
    line.close()


def reset(line: socket.socket) -> None:
    """Hang up without a word, as a process does that is killed."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


def half_close(line: socket.socket) -> None:
    """Say that nothing more will be sent."""
    line.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("way", [end, reset, half_close])
def test_a_caller_who_hangs_up_is_gone(
    callers: Callers, way: Callable[[socket.socket], None]
) -> None:
    looks = callers.connections()
    line = callers.call(HEAD)
    request = callers.request(looks)
    assert not request.has_hung_up()
    assert not request.has_hung_up()
    way(line)
    soon(request.has_hung_up)
    assert request.has_hung_up()


def test_a_connection_that_the_server_has_closed_is_gone(callers: Callers) -> None:
    looks = callers.connections()
    line = callers.call(HEAD)
    request = callers.request(looks)
    assert not request.has_hung_up()
    line.close()
    callers.ends[line].close()
    # Whatever takes the place of its descriptor.
    callers.call(HEAD)
    assert request.has_hung_up()


def test_a_caller_who_waits_is_there_whoever_else_hangs_up(callers: Callers) -> None:
    looks = callers.connections()
    idle, slow = callers.call(HEAD), callers.call(HEAD)
    callers.answer(idle)
    waits = callers.call(HEAD)
    request = callers.request(looks)
    time.sleep(0.05)
    next_one = callers.call(HEAD)
    assert not request.has_hung_up()
    # It sends the next request before it has the answer to this one.
    callers.say(waits, HEAD)
    for line in (idle, slow, next_one):
        end(line)
    assert not request.has_hung_up()
    end(waits)
    soon(request.has_hung_up)


def test_whoever_got_an_answer_was_not_the_caller(callers: Callers) -> None:
    """As behind a proxy, whose connections have one address and stay open."""
    looks = callers.connections()
    others = [callers.call(HEAD) for _ in range(3)]
    gone = callers.call(HEAD)
    request = callers.request(looks)
    assert not request.has_hung_up()
    end(gone)
    for line in others:
        assert not request.has_hung_up()
        callers.answer(line)
    soon(request.has_hung_up)


def test_whoever_comes_later_is_not_the_caller(callers: Callers) -> None:
    looks = callers.connections()
    line = callers.call(HEAD)
    request = callers.request(looks)
    # Later by the clock of the kernel.
    time.sleep(0.05)
    callers.call(HEAD)
    assert not request.has_hung_up()
    end(line)
    soon(request.has_hung_up)


def test_a_caller_whose_connection_is_not_found_is_not_gone(callers: Callers) -> None:
    looks = callers.connections()
    expects = callers.call(HEAD, address="127.0.0.3")
    found = [callers.request(looks, "127.0.0.2"), callers.request(looks, "127.0.0.3")]
    found[1].expects_continue = True
    assert not any(request.has_hung_up() for request in found)
    end(expects)
    time.sleep(0.1)
    assert not any(request.has_hung_up() for request in found)


# A service.


@pytest.fixture(scope="module")
def database_url() -> str:
    """SQLite alone, each test with a file of its own: what a server process does is the same."""
    return ""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in [name for name in os.environ if name.startswith("CRMHUB_")]:
        monkeypatch.delenv(name)
    made: dict[str, str] = CommandLine(tmp_path, {}).json("account", "create", "Acme")
    return made


class Dripping:
    """Callers who send a byte ten times a second, and call again when they are cut off."""

    def __init__(self, port: int, sent: bytes, number: int, addresses: int = 1) -> None:
        self._port, self._sent, self._addresses = port, sent, addresses
        self.cut_off = 0
        self.lines = [self._call(n) for n in range(number)]
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._drip)

    def _call(self, n: int) -> socket.socket:
        line = socket.create_connection(
            ("127.0.0.1", self._port), source_address=(f"127.0.1.{n % self._addresses + 1}", 0)
        )
        with suppress(ConnectionError):  # it was cut off at once
            line.sendall(self._sent)
        return line

    def _drip(self) -> None:
        while not self._ends.wait(0.1):
            for n, line in enumerate(self.lines):
                if not is_open(line):
                    self.cut_off += 1
                    line.close()
                    self.lines[n] = self._call(n)
                with suppress(ConnectionError):
                    self.lines[n].send(b"x")

    def __enter__(self) -> Dripping:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        for line in self.lines:
            line.close()


@contextmanager
def calls(server: Server, address: str = "127.0.0.1") -> Iterator[http.client.HTTPConnection]:
    """Give a connection that is kept."""
    made = http.client.HTTPConnection("127.0.0.1", server.port, 60, source_address=(address, 0))
    with closing(made):
        yield made


def healthy(connection: http.client.HTTPConnection) -> bool:
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    answer.read()
    return answer.status == 200


def healthy_again(connection: http.client.HTTPConnection) -> bool:
    """Ask on a kept connection, or on a new one next time: idle ones may make room, too."""
    try:
        return healthy(connection)
    except ConnectionError:
        connection.close()
        return False


def test_whoever_drips_is_cut_off_in_time_and_others_are_not(
    acme: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "var" / "crmhub.db"
    request = (
        f"POST /{acme['clientId']}/api/v1/contacts HTTP/1.1\r\nHost: test\r\n"
        f"service-apikey: {acme['apiKey']}\r\nContent-Type: application/json\r\n"
        "Connection: close\r\nContent-Length: 36\r\n\r\n"
        '{"properties": {"firstname": "Ada"}}'
    ).encode()
    answers: list[bytes] = []
    with (
        serving(tmp_path, "--workers", "1", "--no-worker", read_timeout_s="1") as server,
        calls(server) as kept,
    ):
        assert healthy(kept)
        writer = sqlite3.connect(file, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        caller = threading.Thread(target=lambda: answers.append(server.raw(request)))
        caller.start()
        with ExitStack() as stack:
            dripping = [
                stack.enter_context(Dripping(server.port, sent, 3))
                for sent in (HEAD, BODY, BODY.replace(b"Host", b"Expect: 100-continue\r\nHost"))
            ]
            soon(lambda: all(slow.cut_off >= 6 for slow in dripping))
        assert not answers
        writer.execute("ROLLBACK")
        writer.close()
        caller.join()
        assert b"201 Created" in answers[0]
        assert healthy(kept)


def test_others_at_an_address_get_through_beside_those_who_hold_connections(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "--workers", "1", "--no-worker", connections_per_address="8") as server:
        # Of an address each, as the hub may see last that the others' have ended.
        for n, sent in enumerate((HEAD, BODY, b""), start=1):
            address = f"127.0.1.{n}"
            with calls(server, address) as near, ExitStack() as stack:
                lines = [
                    stack.enter_context(
                        socket.create_connection(
                            ("127.0.0.1", server.port), source_address=(address, 0)
                        )
                    )
                    for _ in range(30)
                ]
                for line in lines:
                    line.sendall(sent)
                soon(
                    lambda near=near, lines=lines: (  # type: ignore[misc]
                        healthy(near) and sum(map(is_open, lines)) <= 8
                    )
                )
                assert sum(map(is_open, lines)) in (7, 8), sent
                assert healthy(near)
                assert server.answers()
    told = [json.loads(line) for line in server.log.read_text().splitlines()]
    [first, *_] = [line for line in told if line["event"] == "connections closed"]
    assert first["of_busy_addresses"] > 0
    assert "127.0.1." not in server.log.read_text()


def test_others_get_through_whatever_holds_connections(tmp_path: Path) -> None:
    small = waiting(tmp_path, "processes._WAITING_CONNECTIONS = 30")
    with serving(
        tmp_path, "--workers", "1", "--no-worker", "--threads", "2", program=small
    ) as server:
        for sent in (HEAD, BODY, b""):
            with Dripping(server.port, sent, 60, addresses=60) as slow, calls(server) as kept:
                soon(
                    lambda slow=slow, kept=kept: (  # type: ignore[misc]
                        server.answers() and healthy_again(kept) and slow.cut_off >= 60
                    )
                )
        soon(lambda: '"for_room"' in server.log.read_text())


def test_an_app_is_told_whose_caller_hung_up(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--workers", "1", "--no-worker", program=waiting(tmp_path)) as server,
        ExitStack() as stack,
    ):
        lines = {}
        for n, name in enumerate(("one", "two", "three"), start=1):
            lines[name] = stack.enter_context(calls(server, f"127.0.0.{n}"))
            lines[name].request("GET", f"/wait?{name}")
        soon(lambda: all((tmp_path / f"{name}-waits").exists() for name in lines))
        with Dripping(server.port, HEAD, 2):
            lines["two"].close()
            soon((tmp_path / "two-gone").exists)
            (tmp_path / "one-let-go").touch()
            (tmp_path / "three-let-go").touch()
            assert {lines[name].getresponse().status for name in ("one", "three")} == {200}
    assert {path.name for path in tmp_path.glob("*-there")} == {"one-there", "three-there"}
    assert [path.name for path in tmp_path.glob("*-gone")] == ["two-gone"]


def test_headers_have_a_largest_size(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "1", "--no-worker") as server:
        most = "x" * (MAX_HEAD_BYTES - 1000)
        assert server.answer(headers=[("X-Long", most)])[0] == 200
        assert server.answer(headers=[("X-Long", most * 3)])[0] == 431
