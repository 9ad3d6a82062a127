"""`Hub` and `AsyncHub`: an account of a hub."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

import httpx

from crmhub_client.definitions import AsyncPipelines, AsyncProperties, Pipelines, Properties
from crmhub_client.drivers import AsyncDriver, SyncDriver
from crmhub_client.events import AsyncEvents, Events
from crmhub_client.helpers import AsyncHelpers, Helpers
from crmhub_client.operations import (
    AsyncGroup,
    Driver,
    Group,
    Settings,
    Steps,
    SyncGroup,
    operation,
)
from crmhub_client.records import AsyncRecords, Records
from crmhub_client.results import Kind, Usage
from crmhub_client.retries import Retry

R = TypeVar("R")
P = TypeVar("P")
L = TypeVar("L")
E = TypeVar("E")
H = TypeVar("H")

_TIMEOUT_S = 30.0
_RETRY = Retry()


class _Account(Group, Generic[R, P, L, E, H]):
    """What both hubs share: the groups of operations, made by the classes that they hand on."""

    def __init__(
        self,
        driver: Driver,
        records: Callable[[Driver, Kind], R],
        properties: Callable[[Driver, str], P],
        pipelines: Callable[[Driver, str], L],
        events: Callable[[Driver], E],
        helpers: Callable[[Driver, str | None, str | None, str | None], H],
    ) -> None:
        super().__init__(driver)
        self.contacts: R = records(driver, "contacts")
        self.deals: R = records(driver, "deals")
        self.companies: R = records(driver, "companies")
        self.tickets: R = records(driver, "tickets")
        self.properties: P = properties(driver, "properties")
        self.pipelines: L = pipelines(driver, "pipelines")
        self.events: E = events(driver)
        self._helpers = helpers

    @operation
    def usage(self) -> Steps[Usage]:
        """Return the account's plan, its limits, and what is used."""
        usage: Usage = yield from self._api("GET", "usage")
        return usage

    def helpers(
        self,
        *,
        generated_id: str | None = None,
        portal_id: str | None = None,
        secret: str | None = None,
    ) -> H:
        """Return the webhook helpers; the ids and the webhook secret are those of the account."""
        return self._helpers(self._driver, generated_id, portal_id, secret)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._driver.url!r}, {self._driver.settings.client_id!r})"


class Hub(_Account[Records, Properties, Pipelines, Events, Helpers], SyncGroup):
    """An account of a hub; use it in a `with` statement, or call `close`. Threads may share it.

    `url`: the hub's address. `client_id` and `key`: the account and its API key. `retry`: how
    patiently it is called. `timeout`: seconds of silence after which an attempt fails. `http`: an
    httpx.Client of your own, for proxies, certificates and the like; it is not closed.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        key: str,
        *,
        retry: Retry = _RETRY,
        timeout: float = _TIMEOUT_S,
        http: httpx.Client | None = None,
    ) -> None:
        driver = SyncDriver(http, url, key, Settings(client_id, retry, timeout))
        super().__init__(driver, Records, Properties, Pipelines, Events, Helpers)
        self.close = driver.close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncHub(
    _Account[AsyncRecords, AsyncProperties, AsyncPipelines, AsyncEvents, AsyncHelpers], AsyncGroup
):
    """The same as Hub for asyncio and trio: methods are awaited, iterators are asynchronous.

    Use it in an `async with` statement, or await `aclose`. `http`: an httpx.AsyncClient.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        key: str,
        *,
        retry: Retry = _RETRY,
        timeout: float = _TIMEOUT_S,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        driver = AsyncDriver(http, url, key, Settings(client_id, retry, timeout))
        super().__init__(
            driver, AsyncRecords, AsyncProperties, AsyncPipelines, AsyncEvents, AsyncHelpers
        )
        self.aclose = driver.aclose

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
