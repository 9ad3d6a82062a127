"""What an adapter asks its CRM seldom: definitions, pipelines, owners."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from crmhub.adapter.contract import Context, NotYet, Throttled, Unavailable

T = TypeVar("T")

HOUR = 3_600.0
_SOON = 2.0
_AGAIN = 60.0


class Remembered(Generic[T]):
    """What the CRM was asked once, asked again when it is too old; one thread asks at a time."""

    def __init__(self, load: Callable[[], T], context: Context) -> None:
        self._load = load
        self._remaining = context.remaining
        self._lock = threading.Lock()
        self._held: tuple[float, T] | None = None

    def get(self, *, newer_than: float = HOUR) -> T:
        """Return it, not older than so many seconds unless the CRM cannot be asked now.

        Raises what `load` raises, and NotYet when another thread takes too long to ask.
        """
        held = self._held
        if held is not None and time.monotonic() - held[0] < newer_than:
            return held[1]
        if not self._lock.acquire(timeout=max(0.0, self._remaining())):
            raise NotYet("The CRM takes long to tell its definitions.", retry_after=_SOON)
        try:
            return self._renewed(newer_than)
        finally:
            self._lock.release()

    def _renewed(self, newer_than: float) -> T:
        held = self._held
        if held is not None and time.monotonic() - held[0] < newer_than:
            return held[1]
        try:
            value = self._load()
        except (Throttled, Unavailable):
            # Old definitions are better than none: the CRM checks every write once more.
            if held is None:
                raise
            value = held[1]
            # Not every call is to wait for a CRM that is down.
            self._held = (time.monotonic() - HOUR + _AGAIN, value)
            return value
        self._held = (time.monotonic(), value)
        return value
