"""The queue of writers of a SQLite database, which accepts one writer at a time.

Within SQLite, writers try again after ever longer pauses, and new ones overtake them: some would
wait for seconds. So the threads of a process queue here, and one process at a time tries to begin a
write, while the others wait for a lock on a file beside the database.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from crmhub.errors import Unavailable

# Behind the next in line all look again equally often, so that none is left behind.
_PAUSE_S = 0.001
# Whoever is next in line is not for longer than one write takes. A process that was stopped there
# holds up each write of the others for so long; then they go by.
_PATIENCE_S = 2.0


class WriteQueue:
    """The writers' queue of the database at `file`, None if no other process can use it."""

    def __init__(self, file: str | None) -> None:
        self._database = file
        # Again by its holder, after whose commit more may follow.
        self._writer = threading.RLock()

    @contextmanager
    def turn(self, *, seconds: float) -> Iterator[None]:
        """Let only this thread write in the block; raise Unavailable after `seconds`."""
        if not self._writer.acquire(timeout=seconds):
            raise Unavailable("The database is busy with other writes; try again.")
        try:
            yield
        finally:
            self._writer.release()

    @contextmanager
    def next_in_line(self) -> Iterator[None]:
        """Let only this process try to begin a write in the block, after at most two seconds' wait.

        The lock only makes the waiting fair: the block also runs where it is impossible (a
        read-only folder, a file system without locks).
        """
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
