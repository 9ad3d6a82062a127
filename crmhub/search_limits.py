"""Stops searches that take too long.

One thread per process checks the searches in progress a few times a second, so a limit costs a
search no statement and no thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from crmhub.errors import Semantic

# Most searches end before their first check.
_CHECK_EVERY_S = 0.25
_log = logging.getLogger(__name__)


class Stopped(Semantic):
    """The search was stopped, because it took too long."""


@dataclass(eq=False, slots=True)
class SearchLimit:
    """Ends after `seconds`. `since`: when the search got its connection, by `time.monotonic`."""

    seconds: float
    reason: str = ""
    """Why the search was stopped; "" if it was not."""
    since: float = 0.0
    cancel: Callable[[], object] | None = None
    """The function that cancels the search's statement; None while the search has no connection."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, now: float) -> float:
        """Cancel the search if its time is over; return the seconds until the next look."""
        left = self.since + self.seconds - now
        if left > 0:
            return min(left, _CHECK_EVERY_S)
        self.reason = (
            f"The search took longer than {self.seconds:g} s and was stopped;"
            " send fewer or narrower filters."
        )
        # Repeated at each check, since there is nothing to cancel between two statements.
        with self.lock:
            if self.cancel is not None:
                self.cancel()
        return _CHECK_EVERY_S


class SearchWatch:
    def __init__(self) -> None:
        self._in_progress: set[SearchLimit] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def add(self, limit: SearchLimit, cancel: Callable[[], object]) -> None:
        limit.since = limit.since or time.monotonic()
        limit.cancel = cancel
        self._in_progress.add(limit)
        if self._thread is None:
            self._start()

    def remove(self, limit: SearchLimit) -> str:
        """Return the reason if the search was stopped, else ""."""
        self._in_progress.discard(limit)
        # Wait for a `cancel` in progress: it uses the connection, which may be closed from here on.
        with limit.lock:
            limit.cancel = None
        return limit.reason

    def close(self) -> None:
        """The next search starts a new thread."""
        with self._lock:
            self._ended.set()
            self._thread = None

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._ended = threading.Event()
                self._thread = threading.Thread(
                    target=self._watch, args=(self._ended,), name="search limits", daemon=True
                )
                self._thread.start()

    def _watch(self, ended: threading.Event) -> None:
        pause = _CHECK_EVERY_S
        while not ended.wait(pause):
            pause = _CHECK_EVERY_S
            for limit in tuple(self._in_progress):
                try:
                    pause = min(pause, limit.look(time.monotonic()))
                except Exception:
                    # Others must be stopped nevertheless, and this search is tried again.
                    _log.exception("A search could not be stopped.")
