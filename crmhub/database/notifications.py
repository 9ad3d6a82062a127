"""Notifications that tell the workers on PostgreSQL that actions are queued in the journal.

A notification only saves time: without it, workers look once a second. PostgreSQL's NOTIFY within a
transaction locks the whole server at the commit. So it is sent after the commit, and by each
process at most once in 50 ms.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

CHANNEL = "crmhub_journal"
"""The name of PostgreSQL's channel for these notifications."""
_PAUSE_S = 0.05


class Notifications:
    """Sends notifications to the workers, at most one in 50 ms.

    `send` sends a notification on a database connection of its own; it is called by a thread that
    holds no other connection.
    """

    def __init__(self, send: Callable[[], object]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._next_at = 0.0
        # The timer that is waiting, and the one started last, which may be sending.
        self._timer: threading.Timer | None = None
        self._last_timer: threading.Timer | None = None

    def note(self, send_now: Callable[[], object]) -> None:
        """Notify the workers with `send_now`, which sends a notification immediately.

        If the last notification was sent less than 50 ms ago, `send` is called later instead.
        """
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
        """Send the notification that is still waiting, if any; return when no thread sends one."""
        with self._lock:
            timer = self._last_timer
        if timer is not None:
            timer.cancel()
            timer.join()
        self._send_later()

    def _send_later(self) -> None:
        with self._lock:
            if self._timer is None:
                return
            self._timer = None
            self._next_at = time.monotonic() + _PAUSE_S
        self._send()
