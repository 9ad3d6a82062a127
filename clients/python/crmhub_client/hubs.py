"""`Hub` and `AsyncHub`: an account of a hub."""

from __future__ import annotations

from typing import Self

import httpx

from crmhub_client.definitions import AsyncPipelines, AsyncProperties, Pipelines, Properties
from crmhub_client.drivers import AsyncDriver, SyncDriver
from crmhub_client.events import AsyncEvents, Events
from crmhub_client.helpers import AsyncHelpers, Helpers
from crmhub_client.operations import AsyncGroup, Group, Settings, Steps, SyncGroup, operation
from crmhub_client.records import AsyncRecords, Records
from crmhub_client.results import Usage
from crmhub_client.retries import Retry

_TIMEOUT_S = 30.0
_RETRY = Retry()


class _Account(Group):
    """What both hubs share."""

    @operation
    def usage(self) -> Steps[Usage]:
        """Return the account's plan, its limits, and what is used."""
        answer = yield from self._api("GET", "usage")
        return answer  # type: ignore[no-any-return]


class Hub(_Account, SyncGroup):
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
        self._http = httpx.Client() if http is None else http
        self._is_owner = http is None
        driver = SyncDriver(self._http, url, key, Settings(client_id, retry, timeout))
        super().__init__(driver)
        self.contacts = Records(driver, "contacts")
        self.deals = Records(driver, "deals")
        self.companies = Records(driver, "companies")
        self.tickets = Records(driver, "tickets")
        self.properties = Properties(driver)
        self.pipelines = Pipelines(driver)
        self.events = Events(driver)

    def helpers(
        self,
        *,
        generated_id: str | None = None,
        portal_id: str | None = None,
        secret: str | None = None,
    ) -> Helpers:
        """Return the webhook helpers; the ids and the webhook secret are those of the account."""
        return Helpers(self._driver, generated_id, portal_id, secret)

    def close(self) -> None:
        """Close the connections."""
        if self._is_owner:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return _shown(self)


class AsyncHub(_Account, AsyncGroup):
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
        self._http = httpx.AsyncClient() if http is None else http
        self._is_owner = http is None
        driver = AsyncDriver(self._http, url, key, Settings(client_id, retry, timeout))
        super().__init__(driver)
        self.contacts = AsyncRecords(driver, "contacts")
        self.deals = AsyncRecords(driver, "deals")
        self.companies = AsyncRecords(driver, "companies")
        self.tickets = AsyncRecords(driver, "tickets")
        self.properties = AsyncProperties(driver)
        self.pipelines = AsyncPipelines(driver)
        self.events = AsyncEvents(driver)

    def helpers(
        self,
        *,
        generated_id: str | None = None,
        portal_id: str | None = None,
        secret: str | None = None,
    ) -> AsyncHelpers:
        """Return the webhook helpers; the ids and the webhook secret are those of the account."""
        return AsyncHelpers(self._driver, generated_id, portal_id, secret)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._is_owner:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return _shown(self)


def _shown(hub: Hub | AsyncHub) -> str:
    driver = hub._driver
    # A password in the URL, of a proxy before the hub, is shown by httpx as [secure].
    return f"{type(hub).__name__}({httpx.URL(driver.url)!r}, {driver.settings.client_id!r})"
