"""Calls with either client, over a network that fails as told."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from crmhub_client import AsyncHub, Hub, Retry
from tests import coroutines

QUICK = Retry(attempts=12, total=60, first=0.001, longest=0.001)
"""Enough attempts for every fault of a test, without waiting."""

_LATER = {"Retry-After": "0"}
_ANSWERS = {
    "429": (429, _LATER, "ManyRequestError"),
    "503": (503, _LATER, "InternalError"),
    "running": (409, _LATER, "ConflictError"),
}


class Network:
    """Loses requests and answers: each request fails in all of these ways in turn, then passes.

    `refused`: no connection. `lost`: the hub carries the request out, and the connection breaks.
    `silent`: the same with a timeout. `429`, `503`, `running`: answers that ask to come back; `502`
    is a proxy's page. `requests` are all that were sent; `passed` those that reached the hub.
    """

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        self.requests: list[httpx.Request] = []
        self.passed: list[httpx.Request] = []
        self._attempts: Counter[object] = Counter()

    def fault(self, request: httpx.Request) -> str:
        """Return how the next attempt of a request fails, "" for not at all."""
        self.requests.append(request)
        # A repetition is the same request, with its Idempotency-Key.
        headers = request.headers
        names = ("Idempotency-Key", "If-Match")
        same = (request.method, str(request.url), request.content, *map(headers.get, names))
        attempt = self._attempts[same]
        self._attempts[same] += 1
        fault = self.faults[attempt] if attempt < len(self.faults) else ""
        if fault in ("", "lost", "silent"):
            self.passed.append(request)
        return fault


def _before(fault: str, request: httpx.Request) -> httpx.Response | None:
    """Return the answer to an attempt that fails before it reaches the hub; or raise."""
    if fault == "refused":
        raise httpx.ConnectError("refused", request=request)
    if fault == "502":
        return httpx.Response(502, html="<h1>Bad Gateway</h1>")
    if fault not in _ANSWERS:
        return None
    status, headers, category = _ANSWERS[fault]
    body = {"category": category, "message": "later", "timestamp": "", "status": "error"}
    return httpx.Response(status, headers=headers, json=body)


def _after(fault: str, request: httpx.Request) -> None:
    if fault == "lost":
        raise httpx.ReadError("cut", request=request)
    if fault == "silent":
        raise httpx.ReadTimeout("silence", request=request)


# No certificates are loaded for each client: the service speaks plain HTTP.
class _Faults(httpx.BaseTransport):
    def __init__(self, network: Network, inner: httpx.BaseTransport | None = None) -> None:
        self._network = network
        self._inner = inner or httpx.HTTPTransport(verify=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        fault = self._network.fault(request)
        response = _before(fault, request) or self._inner.handle_request(request)
        if fault in ("lost", "silent"):
            response.read()
            response.close()
        _after(fault, request)
        return response

    def close(self) -> None:
        self._inner.close()


class _AsyncFaults(httpx.AsyncBaseTransport):
    def __init__(self, network: Network, inner: httpx.AsyncBaseTransport | None = None) -> None:
        self._network = network
        self._inner = inner or httpx.AsyncHTTPTransport(verify=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fault = self._network.fault(request)
        response = _before(fault, request) or await self._inner.handle_async_request(request)
        if fault in ("lost", "silent"):
            await response.aread()
            await response.aclose()
        _after(fault, request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


@dataclass
class Caller:
    """Calls an account with the client of a kind, `sync` or `async`.

    `answer` takes the place of the service. `network`: what its requests pass through.
    """

    kind: str
    url: str
    client_id: str
    key: str
    network: Network = field(default_factory=Network)
    retry: Retry = QUICK
    answer: Callable[[httpx.Request], httpx.Response] | None = None

    def call(self, work: Callable[[Any], Any]) -> Any:
        """Return what `work` returns, which calls a method of the hub that it gets."""
        return self._run(work, lambda hub: _awaited(work(hub)))

    def items(self, work: Callable[[Any], Any]) -> list[Any]:
        """Return all items of the iterator that `work` returns."""
        found: list[Any] = self._run(lambda hub: list(work(hub)), lambda hub: _listed(work(hub)))
        return found

    def _run(self, sync: Callable[[Hub], Any], coroutine: Callable[[AsyncHub], Any]) -> Any:
        inner = httpx.MockTransport(self.answer) if self.answer else None
        where, retry = (self.url, self.client_id, self.key), self.retry
        if self.kind == "sync":
            with (
                httpx.Client(transport=_Faults(self.network, inner), trust_env=False) as http,
                Hub(*where, retry=retry, http=http) as hub,
            ):
                return sync(hub)

        async def main() -> Any:
            async with (
                httpx.AsyncClient(
                    transport=_AsyncFaults(self.network, inner), trust_env=False
                ) as http,
                AsyncHub(*where, retry=retry, http=http) as hub,
            ):
                return await coroutine(hub)

        return coroutines.run(main())


async def _awaited(value: Any) -> Any:
    return await value


async def _listed(items: Any) -> list[Any]:
    return [item async for item in items]


def fake(kind: str, answer: Callable[[httpx.Request], httpx.Response], **options: Any) -> Caller:
    """Return a caller whose requests `answer` answers."""
    return Caller(kind, "http://hub.test", "acme", "crmhub_k", answer=answer, **options)


def answers(*given: httpx.Response) -> Callable[[httpx.Request], httpx.Response]:
    """Return a function that gives these answers one after the other."""
    rest = iter(given)
    return lambda request: next(rest)


@contextmanager
def background(works: Sequence[Callable[[], object]]) -> Iterator[None]:
    """Do all of these in threads meanwhile, and raise what they raise."""
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        # Of another thread: it is raised in this one.
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()
    assert not failures, failures
