"""The hub behind a real nginx, with the configuration that is shipped."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.places import free_port
from benchmarks.proxies import run_nginx
from crmhub.bounds import MAX_BODY_BYTES
from tests import databases
from tests.cli.conftest import CommandLine
from tests.server.servers import Server, serving, soon


@pytest.fixture(scope="session")
def nginx() -> str:
    """The program; skips without it."""
    if reason := databases.left_out("nginx"):
        pytest.skip(f"nginx left out: {reason}")
    return os.fspath(databases.NGINX)


@dataclass(frozen=True)
class Proxy:
    """A running nginx."""

    port: int

    def answer(
        self,
        path: str = "/healthz",
        body: Any = None,
        *,
        address: str = "127.0.0.2",
        **headers: str,
    ) -> tuple[int, Any]:
        """Call from an address; return status and body. Names of headers are taken as given."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=120, source_address=(address, 0)
        )
        with closing(connection):
            connection.request("GET" if body is None else "POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


@contextmanager
def proxying(nginx: str, root: Path, *hub_ports: int) -> Iterator[Proxy]:
    with run_nginx(nginx, root, *hub_ports) as port:
        yield Proxy(port)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxied")


@pytest.fixture(scope="module")
def acme(root: Path) -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patched:
        for name in [name for name in os.environ if name.startswith("CRMHUB_")]:
            patched.delenv(name)
        made: dict[str, str] = CommandLine(root, {}).json("account", "create", "Acme")
    return made


@pytest.fixture(scope="module")
def hub(root: Path, acme: dict[str, str]) -> Iterator[Server]:
    """A hub that trusts the proxy of this machine."""
    with serving(root, "--workers", "1", "--no-worker", trusted_proxies="127.0.0.1") as server:
        yield server


@pytest.fixture(scope="module")
def proxy(nginx: str, root: Path, hub: Server) -> Iterator[Proxy]:
    """nginx before the hub."""
    with proxying(nginx, root, hub.port) as proxy:
        yield proxy


def test_a_call_goes_through(proxy: Proxy, acme: dict[str, str]) -> None:
    path = f"/{acme['clientId']}/api/v1/contacts"
    headers = {"service-apikey": acme["apiKey"], "Content-Type": "application/json"}
    status, made = proxy.answer(path, b'{"properties": {"firstname": "Ada"}}', **headers)
    assert status == 201
    status, page = proxy.answer(path, **headers)
    assert (status, page["results"][0]["id"]) == (200, made["id"])


def test_a_caller_is_known_by_its_address_whatever_it_says(proxy: Proxy) -> None:
    helper = "/chatbot/createLead/nobody"

    def guess(address: str, **headers: str) -> int:
        return proxy.answer(helper, b"{}", address=address, **headers)[0]

    soon(lambda: guess("127.0.0.4") == 429)
    assert guess("127.0.0.5") == 404
    for name in ("X-Forwarded-For", "X_Forwarded_For", "x_forwarded-for"):
        assert guess("127.0.0.4", **{name: "203.0.113.7"}) == 429, name


def test_a_body_that_is_too_large_is_refused_as_the_hub_would(
    proxy: Proxy, acme: dict[str, str]
) -> None:
    path = f"/{acme['clientId']}/api/v1/contacts"
    headers = {"service-apikey": acme["apiKey"], "Content-Type": "application/json"}
    status, told = proxy.answer(path, b"x" * (MAX_BODY_BYTES + 1), **headers)
    assert (status, sorted(told)) == (413, ["category", "message", "status", "timestamp"])
    assert told["status"] == "error"
    # What it lets through, the hub takes.
    value = "x" * 60_000
    body = json.dumps([{"properties": {f"text{n}": value for n in range(17)}}]).encode()
    assert len(body) < MAX_BODY_BYTES
    assert proxy.answer(f"{path}/batch/create", body, **headers)[0] != 413


def test_a_slow_body_does_not_reach_the_hub(proxy: Proxy, hub: Server) -> None:
    head = (
        b"POST /chatbot/createLead/nobody HTTP/1.1\r\nHost: test\r\n"
        b"Content-Length: 100\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", proxy.port)) as slow:
        slow.sendall(head + b"x" * 99)
        assert proxy.answer()[0] == 200
        # The one that nginx keeps.
        assert _connections(hub.port) == 1
        slow.sendall(b"x")
        assert slow.recv(65_536).startswith(b"HTTP/1.1 404 ")


def _connections(port: int) -> int:
    """Return how many connections to a port of this machine are open."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_hubs_restarted_in_turn_lose_no_call(nginx: str, tmp_path: Path) -> None:
    answers: list[int] = []
    ends = threading.Event()
    ports = free_port(), free_port()

    def call(proxy: Proxy) -> None:
        while not ends.wait(0.02):
            answers.append(proxy.answer()[0])

    def hub(port: int) -> AbstractContextManager[Server]:
        return serving(tmp_path, "--workers", "1", "--no-worker", port=port)

    with ExitStack() as stack:
        hubs = [stack.enter_context(hub(port)) for port in ports]
        proxy = stack.enter_context(proxying(nginx, tmp_path, *ports))
        callers = [threading.Thread(target=call, args=(proxy,)) for _ in range(2)]
        for caller in callers:
            caller.start()
        for port, running in zip(ports, hubs, strict=True):
            before = len(answers)
            soon(lambda before=before: len(answers) > before + 50)
            assert running.stop() == 0
            stack.enter_context(hub(port))
        before = len(answers)
        soon(lambda: len(answers) > before + 50)
        ends.set()
        for caller in callers:
            caller.join()
    assert set(answers) == {200}
