"""A served hub with a fresh account for each test, and both clients of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crmhub.secrets import BASE36, token
from crmhub_client import Hub
from tests.cli.conftest import CommandLine
from tests.clients_python.callers import Caller
from tests.server.servers import Server, serving


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service on SQLite, one for each worker."""
    with serving(tmp_path_factory.mktemp("client"), "--no-worker") as server:
        yield server


@pytest.fixture
def installation(service: Server, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line of the service's installation."""
    for name in [name for name in os.environ if name.startswith("CRMHUB_")]:
        monkeypatch.delenv(name)
    root: Path = service.log.parent
    return CommandLine(root, {})


@pytest.fixture
def account(installation: CommandLine) -> dict[str, Any]:
    """A fresh account without limits: what `crmhub account create` printed."""
    name = f"client-{token(12, BASE36)}"
    made: dict[str, Any] = installation.json("account", "create", name, "--plan", "unlimited")
    return made


@pytest.fixture(params=["sync", "async"])
def caller(request: pytest.FixtureRequest, service: Server, account: dict[str, Any]) -> Caller:
    """Calls the account with each client in turn."""
    url = f"http://127.0.0.1:{service.port}"
    return Caller(request.param, url, account["clientId"], account["apiKey"])


@pytest.fixture
def hub(service: Server, account: dict[str, Any]) -> Iterator[Hub]:
    """The synchronous client, to look at what the account holds."""
    url = f"http://127.0.0.1:{service.port}"
    with Hub(url, account["clientId"], account["apiKey"]) as hub:
        yield hub
