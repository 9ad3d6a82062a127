"""Turns at a SQLite database, which takes one writer at a time.

SQLite's own waiters look again after ever longer pauses, and newcomers go first: among many
writers, some wait for seconds. So the threads of a process take turns here. Of all processes, one
at a time is next in line: it alone asks SQLite, and the others wait for a lock on a file beside the
database, which ends with its process. Readers are not affected.
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
    """The writers' queue of the database in `file`; None for one that no other process sees."""

    def __init__(self, file: str | None) -> None:
        self._database = file
        # Again by its holder, after whose commit more may follow.
        self._writer = threading.RLock()

    @contextmanager
    def turn(self, *, seconds: float) -> Iterator[None]:
        """Hold the turn among this process's threads; raises Unavailable after `seconds`."""
        if not self._writer.acquire(timeout=seconds):
            raise Unavailable("The database is busy with other writes; try again.")
        try:
            yield
        finally:
            self._writer.release()

    @contextmanager
    def next_in_line(self) -> Iterator[None]:
        """Hold the place next in line among all processes; leave it once the write has begun.

        It serves fairness only: without a lock (a read-only folder, a file system without locks),
        or if it does not come free, the write goes on.
        """
        file = self._opened()
        if file is None:
            yield
            return
        try:
            _lock(file)
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


def _lock(file: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        except OSError:
            return
        else:
            return
