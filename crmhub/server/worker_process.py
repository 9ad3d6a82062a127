"""The worker that `crmhub serve` runs beside its server processes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STOP_SECONDS = 35
# The server processes come first: to start they need every processor there is.
_AFTER_SERVERS = 2.0
_SHORTEST_LIFE = 5.0
_log = logging.getLogger("crmhub.worker")

# Held while a worker is started, and while a server process is forked. One forked in between would
# have a copy of the pipe by which Popen is told that the worker runs, and as long as it lives Popen
# would wait for the end of that pipe: nobody would see the worker die.
_starting = threading.Lock()
os.register_at_fork(
    before=_starting.acquire,
    after_in_parent=_starting.release,
    after_in_child=_starting.release,
)


@contextmanager
def beside() -> Iterator[Callable[[], None]]:
    """Keep one worker process running as long as the block does; begin another when it dies.

    Lends what tells it to end sooner than that, without waiting for the end.
    """
    keeper = _Keeper()
    thread = threading.Thread(target=keeper.keep, daemon=True)
    thread.start()
    try:
        yield keeper.stop
    finally:
        keeper.stop()
        thread.join(_STOP_SECONDS)


class _Keeper:
    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def keep(self) -> None:
        """Run a worker again and again until `stop`."""
        self._stopping.wait(_AFTER_SERVERS)
        command = [sys.executable, "-m", "crmhub", "worker", "--of", str(os.getpid())]
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                became = f"ended with code {self._run(command)}"
            except OSError as exc:
                # Want of memory or of processes passes, and so does the upgrade of a Python.
                became = f"could not be started: {exc.strerror}"
            if self._stopping.is_set():
                return
            _log.warning("The worker %s; another one begins.", became)
            # One that cannot start at all must not be started without a pause.
            self._stopping.wait(max(0.1, _SHORTEST_LIFE - (time.monotonic() - began)))

    def _run(self, command: list[str]) -> int | None:
        """Run a worker to its end and return its code; None if there is to be none any more."""
        with _starting:
            if self._stopping.is_set():
                return None
            # Not a fork of this process: that one holds the server's sockets.
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        return self._process.wait()

    def stop(self) -> None:
        """End the worker after what it has under way."""
        with _starting:
            self._stopping.set()
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()
