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
# The server processes start first, because their start needs all processors.
_AFTER_SERVERS = 2.0
_SHORTEST_LIFE = 5.0
_log = logging.getLogger("crmhub.worker")

# Held while a worker is started and while a server process is forked: a server process forked
# during Popen would inherit the pipe on which Popen waits, and block it.
_starting = threading.Lock()
os.register_at_fork(
    before=_starting.acquire,
    after_in_parent=_starting.release,
    after_in_child=_starting.release,
)


@contextmanager
def keep_worker() -> Iterator[Callable[[], None]]:
    """Yield a function that stops the worker early, without waiting for its end."""
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
        self._stopping.wait(_AFTER_SERVERS)
        command = [sys.executable, "-m", "crmhub", "worker", "--of", str(os.getpid())]
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                result = f"ended with code {self._run(command)}"
            except OSError as exc:
                # A lack of memory or of processes is temporary, and so is an upgrade of Python.
                result = f"could not be started: {exc.strerror}"
            if self._stopping.is_set():
                return
            _log.warning("The worker %s; a new one starts.", result)
            # A worker that cannot start must not be restarted without a pause.
            self._stopping.wait(max(0.1, _SHORTEST_LIFE - (time.monotonic() - began)))

    def _run(self, command: list[str]) -> int | None:
        with _starting:
            if self._stopping.is_set():
                return None
            # A new program, because a fork would keep the server's sockets open.
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        return self._process.wait()

    def stop(self) -> None:
        with _starting:
            self._stopping.set()
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()
