"""A cache for CRM data that rarely changes: property definitions, pipelines, owners.

A value with a name is shared by all processes of the hub, and outlives them. It consists of JSON
values and of frozen dataclasses.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from typing import Any, Generic, TypeVar

from crmhub.adapter.context import Context
from crmhub.adapter.errors import NotYet, Throttled, Unavailable
from crmhub.adapter.values import Choice, Described, Pipeline

T = TypeVar("T")

HOUR = 3_600.0
_SOON = 2.0
_AGAIN = 60.0
# How long a process waits for another one that is reading the same value.
_PATIENCE = 2.0
_LEASE_MARGIN = 5.0
_SHARED_TYPES = (Choice, Described, Pipeline)
_TYPE = "__type__"


class Remembered(Generic[T]):
    """One thread reloads an old value while all others wait; with a `name`, one process.

    `types`: the dataclasses in it beside `Choice`, `Described` and `Pipeline`, with tuples only. Do
    not share data about people, such as owners.
    """

    def __init__(
        self,
        load: Callable[[], T],
        context: Context,
        *,
        name: str = "",
        types: Sequence[type] = (),
    ) -> None:
        self._load = load
        self._types: Mapping[str, Any] = {made.__name__: made for made in (*_SHARED_TYPES, *types)}
        self._context = context
        self._name = name
        self._lock = threading.Lock()
        self._held: tuple[float, T] | None = None
        # Whether the held value is used only because the CRM is unavailable.
        self._is_stale = False

    def get(self, *, newer_than: float = HOUR) -> T:
        """Reload a value older than `newer_than` seconds; if the CRM is unavailable, return it.

        Raises the errors of `load`, and NotYet if another thread's reload takes too long.
        """
        held = self._held
        if held is not None and time.monotonic() - held[0] < newer_than:
            return held[1]
        if not self._lock.acquire(timeout=max(0.0, self._context.remaining())):
            raise NotYet("The CRM takes long to tell its definitions.", retry_after=_SOON)
        try:
            if self._is_older_than(newer_than):
                self._take_over()
            if self._is_older_than(newer_than):
                with self._alone():
                    # Another process may have loaded the value while this one waited.
                    self._take_over()
                    if self._is_older_than(newer_than):
                        self._reload()
            assert self._held is not None
            return self._held[1]
        finally:
            self._lock.release()

    def peek(self) -> T | None:
        """Return the value if it was loaded within the last hour; None without calling the CRM."""
        # Whoever reloads the value holds the lock for as long as the CRM takes.
        if self._is_older_than(HOUR) and self._lock.acquire(blocking=False):
            try:
                self._take_over()
            finally:
                self._lock.release()
        if self._held is None or self._is_stale or self._is_older_than(HOUR):
            return None
        return self._held[1]

    def _is_older_than(self, seconds: float) -> bool:
        return self._held is None or time.monotonic() - self._held[0] >= seconds

    def _take_over(self) -> None:
        shared = self._context.shared.load(self._name) if self._name else None
        if shared is None:
            return
        loaded = time.monotonic() - shared[0]
        if self._held is None or loaded > self._held[0]:
            # Another version of the hub may have written a value in another form.
            with suppress(ValueError, TypeError, KeyError):
                self._held = (loaded, json.loads(shared[1], object_hook=self._from_json))
                self._is_stale = False

    def _reload(self) -> None:
        try:
            value = self._load()
        except (Throttled, Unavailable):
            # Old definitions suffice, since the CRM validates every write itself.
            if self._held is None:
                raise
            # Delay the next reload, so that not every call waits for an unavailable CRM.
            self._held = (time.monotonic() - HOUR + _AGAIN, self._held[1])
            self._is_stale = True
            return
        self._held = (time.monotonic(), value)
        self._is_stale = False
        if self._name:
            self._context.shared.save(self._name, json.dumps(value, default=self._to_json))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from loading the same value, if the lease can be had soon."""
        with ExitStack() as stack:
            if self._name:
                seconds = self._context.remaining() + _LEASE_MARGIN
                key = f"definitions {self._name}"
                patience = min(_PATIENCE, self._context.remaining())
                with suppress(NotYet):
                    stack.enter_context(self._context.lease(key, seconds, patience=patience))
            yield

    def _to_json(self, value: Any) -> dict[str, Any]:
        name = type(value).__name__
        if self._types.get(name) is not type(value):
            raise TypeError(f"{name} cannot be shared")
        return {_TYPE: name} | {field.name: getattr(value, field.name) for field in fields(value)}

    def _from_json(self, found: dict[str, Any]) -> Any:
        if _TYPE not in found:
            return found
        values = {n: tuple(v) if isinstance(v, list) else v for n, v in found.items() if n != _TYPE}
        return self._types[found[_TYPE]](**values)
