"""Keeps the server processes of `crmhub serve` running until a signal ends them."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

# A process that keeps ending by itself gets a pause; one that is killed from outside needs none.
_SHORT_LIFE = 2.0
_SHORT_LIVES = 10
_PAUSE = 5.0
_log = logging.getLogger("crmhub.server")


class Supervisor:
    """Runs `serve` in so many processes, and begins another one when one ends."""

    def __init__(self, serve: Callable[[], None], processes: int) -> None:
        self._places = [_Place(serve) for _ in range(processes)]
        self._ended, self._signal = os.pipe()

    def handle(self, *signals: int) -> None:
        """Let these signals end `run`."""
        for number in signals:
            signal.signal(number, lambda *_: self.end())

    def end(self) -> None:
        """Let `run` return."""
        # Nothing else: a signal may come while the loop holds a lock.
        os.write(self._signal, b".")

    def begin(self) -> None:
        """Begin the processes that are missing and due."""
        for place in self._places:
            place.begin_when_due()

    def run(self) -> None:
        """Replace each process that ends, until `end` is called."""
        while True:
            self.begin()
            running = [place.process.sentinel for place in self._places if place.process]
            pauses = [place.pause for place in self._places if place.process is None]
            ready = wait([self._ended, *running], min(pauses, default=None))
            if self._ended in ready:
                return
            for place in self._places:
                place.note_end()

    def stop(self, seconds: float) -> None:
        """End all processes after the requests under way, and kill those that take longer."""
        ending = [place.process for place in self._places if place.process]
        for process in ending:
            process.terminate()
        latest = time.monotonic() + seconds
        for process in ending:
            process.join(max(0.0, latest - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


class _Place:
    """One server process after another."""

    def __init__(self, serve: Callable[[], None]) -> None:
        self.process: BaseProcess | None = None
        self._serve = serve
        self._began = self._due = 0.0
        self._short_lives = 0

    @property
    def pause(self) -> float:
        """Return the seconds until a process may begin."""
        return max(0.0, self._due - time.monotonic())

    def begin_when_due(self) -> None:
        """Begin a process, unless there is one or its pause is not over."""
        if self.process is not None or self.pause:
            return
        process = multiprocessing.get_context("fork").Process(target=self._serve)
        self._began = time.monotonic()
        try:
            process.start()
        except OSError as exc:
            # Want of memory or of processes passes.
            _log.warning("A server process could not be started: %s.", exc.strerror)
            self._due = self._began + _PAUSE
            return
        self.process = process

    def note_end(self) -> None:
        """Make room for another process if this one has ended."""
        if self.process is None or self.process.is_alive():
            return
        lived = time.monotonic() - self._began
        self._short_lives = self._short_lives + 1 if lived < _SHORT_LIFE else 0
        pause = _PAUSE if self._short_lives >= _SHORT_LIVES else 0.0
        self._due = time.monotonic() + pause
        _log.warning(
            "A server process ended with code %s; another one begins%s.",
            self.process.exitcode,
            f" in {pause:g} s" if pause else "",
        )
        self.process.close()
        self.process = None
