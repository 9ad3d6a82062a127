"""A tiny CRM on a port of its own for each test, and a client with its token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.adapters.fakes.tiny_crm import TinyCrm


class Client:
    """Calls the tiny CRM with its token."""

    def __init__(self, crm: TinyCrm) -> None:
        self.crm = crm
        self.session = requests.Session()
        self.session.headers["X-Token"] = crm.options.token

    def __call__(self, method: str, path: str, **more: Any) -> requests.Response:
        return self.session.request(method, self.crm.url + path, **{"timeout": 30, **more})

    def create(self, name: Any) -> requests.Response:
        return self("POST", "/contacts", json={"name": name})

    def found(self, name: str) -> list[str]:
        found: list[str] = self("GET", "/search", params={"name": name}).json()["results"]
        return found

    def change(self, **settings: Any) -> requests.Response:
        return self("POST", "/_control/settings", json=settings)

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self("GET", "/_control/state").json()
        return state


@pytest.fixture
def crm() -> Iterator[TinyCrm]:
    with TinyCrm() as started:
        yield started


@pytest.fixture
def client(crm: TinyCrm) -> Iterator[Client]:
    client = Client(crm)
    yield client
    client.session.close()
