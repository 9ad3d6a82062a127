"""When this process tells the workers of its database that actions are queued (PostgreSQL).

A NOTIFY is a hint: workers that hear none look once a second. Inside a transaction it would take a
lock over the whole server at the commit. So it is sent behind the commit, and by each process at
most once in 50 ms.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

CHANNEL = "crmhub_journal"
"""The channel of the notifications."""
_PAUSE_S = 0.05


class Notifications:
    """Sends a notification now, or once the pause after the last one has ended.

    `send` sends one on a connection of its own; a thread calls it that holds no other.
    """

    def __init__(self, send: Callable[[], object]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._next_at = 0.0
        self._timer: threading.Timer | None = None

    def note(self, send_now: Callable[[], object]) -> None:
        """Call `send_now`; during the pause, call `send` at its end instead."""
        with self._lock:
            if self._timer is not None:
                return
            pause = self._next_at - time.monotonic()
            if pause > 0:
                self._timer = threading.Timer(pause, self._send_later)
                self._timer.daemon = True
                self._timer.start()
                return
            self._next_at = time.monotonic() + _PAUSE_S
        send_now()

    def close(self) -> None:
        """Send a notification that is still due."""
        with self._lock:
            timer = self._timer
        if timer is not None:
            timer.cancel()
            self._send_later()

    def _send_later(self) -> None:
        with self._lock:
            if self._timer is None:
                return
            self._timer = None
            self._next_at = time.monotonic() + _PAUSE_S
        self._send()
