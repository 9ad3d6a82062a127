"""Notifications to the workers, on PostgreSQL, that the journal contains queued actions.

They only save time: workers also look once a second. A NOTIFY within a transaction would lock the
whole server at the commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

CHANNEL = "crmhub_journal"
"""The name of PostgreSQL's channel for the notifications to workers."""
_PAUSE_S = 0.05


class Notifications:
    """At most one in 50 ms per process. `send` uses a connection of its own."""

    def __init__(self, send: Callable[[], object]) -> None:
        self._send = send
        self._lock = threading.Lock()
        # Held by the thread that sends; a next timer may have started meanwhile.
        self._sending = threading.Lock()
        self._next_at = 0.0
        # The timer that is waiting, and the one started last, which may be sending.
        self._timer: threading.Timer | None = None
        self._last_timer: threading.Timer | None = None

    def note(self, send_now: Callable[[], object]) -> None:
        """Call `send_now`, or let a thread notify when the 50 ms since the last one are over."""
        with self._lock:
            if self._timer is not None:
                return
            pause = self._next_at - time.monotonic()
            if pause > 0:
                self._timer = self._last_timer = threading.Timer(pause, self._send_later)
                self._timer.daemon = True
                self._timer.start()
                return
            self._next_at = time.monotonic() + _PAUSE_S
        send_now()

    def close(self) -> None:
        """Send the notification that is still waiting; return when no thread sends one."""
        with self._lock:
            timer = self._last_timer
        if timer is not None:
            timer.cancel()
            timer.join()
        self._send_later()

    def _send_later(self) -> None:
        with self._sending:
            with self._lock:
                if self._timer is None:
                    return
                self._timer = None
                self._next_at = time.monotonic() + _PAUSE_S
            self._send()
