"""The queue of writers of a SQLite database, which accepts one writer at a time.

SQLite's own retries let new writers overtake, so some would wait for seconds. Threads queue here;
processes queue for a lock on a file beside the database.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from crmhub.errors import Unavailable

_PAUSE_S = 0.001
# A stopped process that is next in line delays each write for so long; then the others go by.
_PATIENCE_S = 2.0


class WriteQueue:
    """`file` is None if no other process can use the database."""

    def __init__(self, file: str | None) -> None:
        self._database = file
        # Again by its holder, after whose commit more may follow.
        self._writer = threading.RLock()

    @contextmanager
    def turn(self, *, seconds: float) -> Iterator[None]:
        """Raise Unavailable after `seconds`."""
        if not self._writer.acquire(timeout=seconds):
            raise Unavailable("The database is busy with other writes; try again.")
        try:
            yield
        finally:
            self._writer.release()

    @contextmanager
    def next_in_line(self) -> Iterator[None]:
        """Wait at most two seconds. The block also runs where the lock is impossible (a read-only
        folder, a file system without locks), since it only makes the waiting fair."""
        file = self._opened()
        if file is None:
            yield
            return
        until = time.monotonic() + _PATIENCE_S
        try:
            while time.monotonic() < until:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(_PAUSE_S)
                except OSError:
                    break
            yield
        finally:
            # A process that was forked meanwhile has the file open, too.
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    def _opened(self) -> int | None:
        # Opened each time: it may be deleted or the process forked, and it costs microseconds.
        if self._database is None:
            return None
        queue = f"{self._database}-queue"
        try:
            try:
                return os.open(queue, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                mode = os.stat(self._database).st_mode & 0o666
                return os.open(queue, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, mode)
        except OSError:
            return None
