"""Outcomes that the database could not store: kept in memory and stored as soon as possible.

The attempt is over, and this process still holds the action's lease. An outcome is stored under
that lease only: if another process has taken the action over, that one decides. When the process
ends, unstored outcomes are lost, and their leases expire.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from crmhub.database.drivers import Away
from crmhub.errors import Unavailable

T = TypeVar("T")

_AGAIN_S = 0.3
# By then the action's lease has ended, and so has all that an attempt may have sent: whoever looks
# it up in the CRM need not wait.
_KEPT_S = 300.0
_MANY = 8
_log = logging.getLogger("crmhub.actions")


@dataclass(frozen=True, slots=True)
class _Kept:
    """A write to repeat, and the leases to hold until it succeeds."""

    write: Callable[[], object]
    locks: ExitStack
    since: float = field(default_factory=time.monotonic)


class Unwritten:
    """The outcomes that this process has yet to store; one object serves all threads."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def many(self) -> bool:
        """Whether so many outcomes wait that no action should be begun."""
        return len(self._kept) >= _MANY

    def write(self, write: Callable[[], T], locks: ExitStack | None = None) -> T | None:
        """Return what `write` returns; None if the database is unavailable.

        Then it is repeated until it succeeds, so a rollback must undo all it does. `locks` are
        taken over and released afterwards.
        """
        try:
            return write()
        except Unavailable as exc:
            _log.warning("What an attempt came to cannot be written yet: %s", exc.message)
        kept = _Kept(write, locks.pop_all() if locks else ExitStack())
        with self._lock:
            self._kept.append(kept)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._write_on, daemon=True)
                self._thread.start()
        return None

    def close(self) -> None:
        """Try once more to store the outcomes; the leases of the rest expire."""
        with self._lock:
            self._closing.set()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._write_kept()
        if self._kept:
            _log.warning("%d outcomes could not be written; their leases end.", len(self._kept))
        while self._kept:
            self._kept.pop().locks.close()

    def _write_on(self) -> None:
        while not self._closing.wait(_AGAIN_S):
            self._write_kept()
            with self._lock:
                if not self._kept:
                    self._thread = None
                    return

    def _write_kept(self) -> None:
        for kept in list(self._kept):
            try:
                kept.write()
            except Away:
                # Nobody is there, also for the others.
                return
            except Unavailable:
                if time.monotonic() - kept.since < _KEPT_S:
                    continue
                _log.error("What an attempt came to could not be written; its lease ends.")
            # A bug of ours must not keep the others from being written; the lease ends here too.
            except Exception:
                _log.exception("What an attempt came to could not be written.")
            with self._lock:
                self._kept.remove(kept)
            kept.locks.close()
