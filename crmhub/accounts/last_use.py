"""The last use of API keys and admin tokens, collected in memory and written periodically.

Writing the time in each request would cost more than the request. So stored times are exact to ten
seconds, and a killed process loses the uses of its last ten seconds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from crmhub.database.connection import Connection, Database, now_ms
from crmhub.errors import Unavailable

K = TypeVar("K", bound=Hashable)

_EVERY_SECONDS = 10.0
_log = logging.getLogger(__name__)


class LastUse(Generic[K]):
    """Collects when keys or tokens were last used (ms since 1970); a thread writes the times."""

    def __init__(
        self,
        database: Database,
        write: Callable[[Connection, dict[K, int]], None],
        *,
        every: float = _EVERY_SECONDS,
    ) -> None:
        self._database = database
        self._write = write
        self._every = every
        self._used: dict[K, int] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._writer: threading.Thread | None = None

    def note(self, key: K) -> None:
        """Record that a key or token is being used now; the first call starts the thread."""
        with self._lock:
            self._used[key] = now_ms()
            if self._writer is None and not self._closed.is_set():
                self._writer = threading.Thread(target=self._run, name="last-use", daemon=True)
                self._writer.start()

    def flush(self) -> None:
        """Write the collected times now; while the database is unavailable, keep them."""
        with self._lock:
            used, self._used = self._used, {}
        if not used:
            return
        try:
            self._database.transact(lambda tx: self._write(tx, used))
        except Unavailable:
            _log.warning("The last use of keys was not written: the database is unavailable.")
            with self._lock:
                self._used = {**used, **self._used}

    def close(self) -> None:
        """End the background thread and write the collected times."""
        self._closed.set()
        if self._writer is not None:
            self._writer.join()
        self.flush()

    def _run(self) -> None:
        while not self._closed.wait(self._every):
            self.flush()
