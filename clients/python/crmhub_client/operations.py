"""The core that does no input or output: each operation is a generator that says what to do next.

It yields effects (`Request`, `Sleep`, `Take`, and in a walk `Found`) and gets back what came of
them. `drivers.py` carries them out, once for Hub and once for AsyncHub; all else exists once.
The decorators `operation` and `walk` make methods of such generators: of a SyncGroup plain ones,
of an AsyncGroup coroutines and asynchronous iterators, with the same arguments and results.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass, field
from functools import update_wrapper, wraps
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload
from urllib.parse import quote
from uuid import uuid4

import httpx

from crmhub_client.errors import unexpected
from crmhub_client.retries import Retry, Sleep, attempts
from crmhub_client.values import encode

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """Effect: send this request; answered by httpx's response, or by its exception.

    `path` begins at the hub's address. `has_key`: whether to send the API key.
    """

    method: str
    path: str
    timeout: float
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    has_key: bool = True


@dataclass(frozen=True, slots=True)
class Take(Generic[T]):
    """Effect: take up to `count` items; answered by a list, which is empty at the end."""

    source: Iterator[T] | AsyncIterator[T]
    count: int


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Effect of a walk: hand these items to the caller."""

    items: Iterable[T]


Effect = Request | Sleep | Take[Any]
Steps = Generator[Effect, Any, T]
Walk = Generator[Effect | Found[T], Any, None]
Inputs = Iterable[T] | AsyncIterable[T]
"""The inputs of a batch: any iterable; for AsyncHub an asynchronous one, too."""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the account is, and how patiently it is called. `timeout`: seconds of silence."""

    client_id: str
    retry: Retry
    timeout: float


class Driver(Protocol):
    """What carries effects out."""

    url: str

    settings: Settings

    def run(self, steps: Steps[Any]) -> Any: ...

    def walk(self, steps: Walk[Any]) -> Any: ...


class Group:
    """Operations that belong together, such as those of the contacts."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def _bind(self, steps: Callable[..., Any], run: str) -> Callable[..., Any]:
        method = MethodType(steps, self)

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(self._driver, run)(method(*args, **kwargs))

        return call

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        has_key: bool = True,
    ) -> Steps[httpx.Response]:
        """Send a request until it is answered; `key`: the Idempotency-Key of a POST that writes."""
        sent = dict(headers or {})
        if key is not None:
            sent["Idempotency-Key"] = key
        content = None
        if body is not None:
            content = encode(body)
            sent["Content-Type"] = "application/json"
        settings = self._driver.settings
        request = Request(method, path, settings.timeout, params or {}, content, sent, has_key)
        return (yield from attempts(request, settings.retry))

    def _api(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        parse: Callable[[Any], T] = _same,
        **options: Any,
    ) -> Steps[T]:
        """Call the public API; return the answer's JSON as `parse` reads it.

        The JSON of an answer without a body is None.
        """
        response = yield from self._api_response(method, path, body, **options)
        return parsed(response, parse)

    def _api_response(
        self, method: str, path: str, body: Any = None, **options: Any
    ) -> Steps[httpx.Response]:
        base = f"/{in_path(self._driver.settings.client_id)}/api/v1/"
        return (yield from self._send(method, base + path, body, **options))


class SyncGroup(Group):
    """A group of a Hub."""


class AsyncGroup(Group):
    """A group of an AsyncHub."""


class operation(Generic[P, T]):
    """Decorator: make a method of a generator that returns the method's result."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._steps = steps
        update_wrapper(self, steps)  # type: ignore[arg-type]

    @overload
    def __get__(self, group: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, group: SyncGroup, owner: type | None = None) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, group: AsyncGroup, owner: type | None = None
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, group: Group | None, owner: type | None = None) -> Any:
        return self if group is None else group._bind(self._steps, "run")


class walk(Generic[P, T]):
    """Decorator: make an iterator of a generator that yields its items as `Found`."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Walk[T]]) -> None:
        self._steps = steps
        update_wrapper(self, steps)  # type: ignore[arg-type]

    @overload
    def __get__(self, group: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, group: SyncGroup, owner: type | None = None) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(
        self, group: AsyncGroup, owner: type | None = None
    ) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, group: Group | None, owner: type | None = None) -> Any:
        return self if group is None else group._bind(self._steps, "walk")


def new_key(given: str | None) -> str:
    """Return the given Idempotency-Key, or a new one for None."""
    return uuid4().hex if given is None else given


def in_path(value: object) -> str:
    """Return a value as a segment of a path."""
    return quote(str(value), safe="")


def opened(inputs: Inputs[T]) -> Iterator[T] | AsyncIterator[T]:
    """Return an iterator over the inputs of a batch."""
    return aiter(inputs) if isinstance(inputs, AsyncIterable) else iter(inputs)


def parsed(response: httpx.Response, parse: Callable[[Any], T]) -> T:
    """Return what `parse` reads in an answer's JSON, which is None without a body.

    Raises UnexpectedAnswerError for no JSON, or that of another service.
    """
    has_body = response.is_success and response.status_code != 204
    try:
        return parse(response.json() if has_body else None)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise unexpected(response) from None
