"""A cache for CRM data that rarely changes: property definitions, pipelines, owners."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from crmhub.adapter.context import Context
from crmhub.adapter.errors import NotYet, Throttled, Unavailable

T = TypeVar("T")

HOUR = 3_600.0
_SOON = 2.0
_AGAIN = 60.0


class Remembered(Generic[T]):
    """A cached value that the function `load` reads from the CRM.

    If the value is too old, one thread reloads it while all other threads wait.
    """

    def __init__(self, load: Callable[[], T], context: Context) -> None:
        self._load = load
        self._remaining = context.remaining
        self._lock = threading.Lock()
        self._held: tuple[float, T] | None = None

    def get(self, *, newer_than: float = HOUR) -> T:
        """Return the cached value; reload it first if it is older than `newer_than` seconds.

        If the CRM is unavailable, an older value is returned instead. Raises the errors of `load`.
        Raises NotYet if another thread reloads the value for longer than the time left for this
        call.
        """
        cached = self._held
        if cached is not None and time.monotonic() - cached[0] < newer_than:
            return cached[1]
        if not self._lock.acquire(timeout=max(0.0, self._remaining())):
            raise NotYet("The CRM takes long to tell its definitions.", retry_after=_SOON)
        try:
            return self._renewed(newer_than)
        finally:
            self._lock.release()

    def _renewed(self, newer_than: float) -> T:
        cached = self._held
        if cached is not None and time.monotonic() - cached[0] < newer_than:
            return cached[1]
        try:
            value = self._load()
        except (Throttled, Unavailable):
            # Old definitions suffice, since the CRM validates every write itself.
            if cached is None:
                raise
            value = cached[1]
            # Delay the next reload, so that not every call waits for an unavailable CRM.
            self._held = (time.monotonic() - HOUR + _AGAIN, value)
            return value
        self._held = (time.monotonic(), value)
        return value
