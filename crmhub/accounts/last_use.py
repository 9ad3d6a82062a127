"""When API keys were last used: noted in memory, written now and then.

A write in each request would cost more than the request; so the time is exact to ten seconds,
and what a killed process had not written yet is lost.
"""

from __future__ import annotations

import logging
import threading

from crmhub.accounts import keys
from crmhub.db import Database, now_ms
from crmhub.errors import Unavailable

_EVERY_SECONDS = 10.0
_log = logging.getLogger(__name__)


class LastUse:
    """Notes uses of keys; a thread of its own, started with the first use, writes them."""

    def __init__(self, database: Database, *, every: float = _EVERY_SECONDS) -> None:
        self._database = database
        self._every = every
        self._used: dict[tuple[int, str], int] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._writer: threading.Thread | None = None

    def note(self, account_id: int, key_id: str) -> None:
        """Note that the key is being used now."""
        with self._lock:
            self._used[account_id, key_id] = now_ms()
            if self._writer is None and not self._closed.is_set():
                self._writer = threading.Thread(target=self._run, name="last-use", daemon=True)
                self._writer.start()

    def flush(self) -> None:
        """Write what was noted; while the database is away, keep it for the next time."""
        with self._lock:
            used, self._used = self._used, {}
        if not used:
            return
        try:
            self._database.transact(lambda tx: keys.note_use(tx, used))
        except Unavailable:
            _log.warning("The last use of API keys was not written: the database is away.")
            with self._lock:
                self._used = {**used, **self._used}

    def close(self) -> None:
        """Write what was noted and end the thread."""
        self._closed.set()
        if self._writer is not None:
            self._writer.join()
        self.flush()

    def _run(self) -> None:
        while not self._closed.wait(self._every):
            self.flush()
