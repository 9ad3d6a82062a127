"""Carry out the effects of operations over httpx: `SyncDriver` and `AsyncDriver`."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator, Generator, Iterator
from itertools import islice
from typing import Any, TypeVar

import anyio
import httpx

from crmhub_client.operations import Effect, Found, Request, Settings, Steps, Take, Walk
from crmhub_client.retries import Sleep

T = TypeVar("T")

_IDS = re.compile(r"(/(?:chatbot|crm-api-interface)/\w+/)[^/?\s\"]+")
_VALUES = re.compile(r"(/api/v1/\w+/)[^/?\s\"]+(?=\?\S*idProperty=)")


def _masked(record: logging.LogRecord) -> bool:
    """Hide webhook ids and values of unique properties in the addresses that httpx logs."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            _VALUES.sub(r"\1…", _IDS.sub(r"\1…", str(arg))) if isinstance(arg, httpx.URL) else arg
            for arg in record.args
        )
    return True


logging.getLogger("httpx").addFilter(_masked)


class _Key(httpx.Auth):
    """Adds the API key to a request; it is in no repr."""

    def __init__(self, key: str) -> None:
        if not (key and key.isascii() and key.isprintable()):
            raise ValueError("the API key must be printable ASCII")
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["service-apikey"] = self._key
        yield request


class _Driver:
    """What both drivers share: the address, the key, and how a request is built."""

    def __init__(self, url: str, key: str, settings: Settings) -> None:
        address = httpx.URL(url)
        if address.scheme not in ("http", "https") or not address.host:
            raise ValueError("the URL must be such as https://hub.example.com")
        if address.userinfo:
            raise ValueError(
                "the URL must hold no password; send it by an httpx client of your own"
            )
        self.settings = settings
        self.url = url.rstrip("/")
        self._auth = _Key(key)

    def _build(self, http: httpx.Client | httpx.AsyncClient, request: Request) -> httpx.Request:
        return http.build_request(
            request.method,
            self.url + request.path,
            params=dict(request.params) or None,
            content=request.body,
            headers=dict(request.headers),
            timeout=request.timeout,
        )

    def _options(self, request: Request) -> dict[str, Any]:
        return {"auth": self._auth if request.has_key else None, "follow_redirects": False}


class SyncDriver(_Driver):
    """Carries out effects in the caller's thread."""

    def __init__(self, http: httpx.Client | None, url: str, key: str, settings: Settings) -> None:
        super().__init__(url, key, settings)
        self._http = http or httpx.Client()
        self._is_owner = http is None

    def close(self) -> None:
        """Close the connections, unless the client is the caller's own."""
        if self._is_owner:
            self._http.close()

    def run(self, steps: Steps[T]) -> T:
        """Carry out an operation and return its result."""
        reply = None
        while True:
            try:
                effect = steps.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            reply = self._perform(effect)

    def walk(self, steps: Walk[T]) -> Iterator[T]:
        """Carry out a walk and yield its items."""
        reply = None
        while True:
            try:
                effect = steps.send(reply)
            except StopIteration:
                return
            if isinstance(effect, Found):
                yield from effect.items
                reply = None
            else:
                reply = self._perform(effect)

    def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, Sleep):
            return time.sleep(effect.seconds)
        if isinstance(effect, Take):
            if isinstance(effect.source, AsyncIterator):
                raise TypeError("an asynchronous iterable needs AsyncHub")
            return list(islice(effect.source, effect.count))
        try:
            return self._http.send(self._build(self._http, effect), **self._options(effect))
        except httpx.RequestError as exc:
            return exc


class AsyncDriver(_Driver):
    """Carries out effects under asyncio or trio."""

    def __init__(
        self, http: httpx.AsyncClient | None, url: str, key: str, settings: Settings
    ) -> None:
        super().__init__(url, key, settings)
        self._http = http or httpx.AsyncClient()
        self._is_owner = http is None

    async def aclose(self) -> None:
        """Close the connections, unless the client is the caller's own."""
        if self._is_owner:
            await self._http.aclose()

    async def run(self, steps: Steps[T]) -> T:
        """Carry out an operation and return its result."""
        reply = None
        while True:
            try:
                effect = steps.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            reply = await self._perform(effect)

    async def walk(self, steps: Walk[T]) -> AsyncIterator[T]:
        """Carry out a walk and yield its items."""
        reply = None
        while True:
            try:
                effect = steps.send(reply)
            except StopIteration:
                return
            if isinstance(effect, Found):
                for item in effect.items:
                    yield item
                reply = None
            else:
                reply = await self._perform(effect)

    async def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, Sleep):
            return await anyio.sleep(effect.seconds)
        if isinstance(effect, Take):
            return await _taken(effect)
        try:
            return await self._http.send(self._build(self._http, effect), **self._options(effect))
        except httpx.RequestError as exc:
            return exc


async def _taken(take: Take[T]) -> list[T]:
    if not isinstance(take.source, AsyncIterator):
        return list(islice(take.source, take.count))
    items: list[T] = []
    while len(items) < take.count:
        try:
            items.append(await anext(take.source))
        except StopAsyncIteration:
            break
    return items
