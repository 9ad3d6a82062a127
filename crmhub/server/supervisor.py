from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

# A process that ends this often soon after its start is restarted only after a pause.
_SHORT_LIFE = 2.0
_SHORT_LIVES = 10
_PAUSE = 5.0
_log = logging.getLogger("crmhub.server")


class Supervisor:
    """Runs the function `serve` in several processes, and replaces each process that ends."""

    def __init__(self, serve: Callable[[], None], processes: int) -> None:
        self._slots = [_Slot(serve) for _ in range(processes)]
        self._ended, self._signal = os.pipe()

    def handle(self, *signals: int) -> None:
        for number in signals:
            signal.signal(number, lambda *_: self.end())

    def end(self) -> None:
        """The server processes keep running until `stop` is called."""
        # Only a write, because the signal may arrive while the loop holds a lock.
        os.write(self._signal, b".")

    def start_missing(self) -> None:
        for slot in self._slots:
            slot.start_when_due()

    def run(self) -> None:
        while True:
            self.start_missing()
            running = [slot.process.sentinel for slot in self._slots if slot.process]
            pauses = [slot.pause for slot in self._slots if slot.process is None]
            ready = wait([self._ended, *running], min(pauses, default=None))
            if self._ended in ready:
                return
            for slot in self._slots:
                slot.clear_if_ended()

    def stop(self, seconds: float) -> None:
        """Processes still running after `seconds` are killed."""
        processes = [slot.process for slot in self._slots if slot.process]
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + seconds
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


class _Slot:
    def __init__(self, serve: Callable[[], None]) -> None:
        self.process: BaseProcess | None = None
        self._serve = serve
        self._started_at = self._due_at = 0.0
        self._short_lives = 0

    @property
    def pause(self) -> float:
        return max(0.0, self._due_at - time.monotonic())

    def start_when_due(self) -> None:
        if self.process is not None or self.pause:
            return
        process = multiprocessing.get_context("fork").Process(target=self._serve)
        self._started_at = time.monotonic()
        try:
            process.start()
        except OSError as exc:
            # A lack of memory or of processes is temporary.
            _log.warning("A server process could not be started: %s.", exc.strerror)
            self._due_at = self._started_at + _PAUSE
            return
        self.process = process

    def clear_if_ended(self) -> None:
        if self.process is None or self.process.is_alive():
            return
        lived = time.monotonic() - self._started_at
        self._short_lives = self._short_lives + 1 if lived < _SHORT_LIFE else 0
        pause = _PAUSE if self._short_lives >= _SHORT_LIVES else 0.0
        self._due_at = time.monotonic() + pause
        _log.warning(
            "A server process ended with code %s; a new one starts%s.",
            self.process.exitcode,
            f" in {pause:g} s" if pause else "",
        )
        self.process.close()
        self.process = None
