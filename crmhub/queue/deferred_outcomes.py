"""Outcomes of attempts that could not be stored in the database: repeated until they can be.

They wait in memory while this process holds the leases of their actions. Once a lease has expired
and another process has the action, its outcome is dropped, as are all when the process ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import TypeVar

from crmhub.database.drivers import Away, NodeAway
from crmhub.errors import Unavailable

T = TypeVar("T")

_AGAIN_S = 0.3
# After this time the lease has expired and no write of the attempt can still arrive, so another
# process can safely look in the CRM.
_KEPT_S = 300.0
_MANY = 8
_log = logging.getLogger("crmhub.actions")


@dataclass(slots=True, eq=False)
class _Kept:
    """A database write to repeat until it succeeds, and the leases to hold until then."""

    write: Callable[[], object]
    locks: ExitStack
    # The account for which the thread worked.
    context: Context = field(default_factory=copy_context)
    since: float = field(default_factory=time.monotonic)
    # A node of a distributed database is unavailable: this says nothing about other accounts.
    waits_for_node: bool = False


class Unwritten:
    """The outcomes that this process could not store in the database yet; for all threads."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def many(self) -> bool:
        """Whether so many outcomes are not stored that no further action should be attempted."""
        return sum(not each.waits_for_node for each in list(self._kept)) >= _MANY

    def write(self, write: Callable[[], T], locks: ExitStack | None = None) -> T | None:
        """Call `write`, which stores an outcome, and return its result.

        If the database is unavailable, return None; then a background thread holds `locks` and
        calls `write` until it succeeds, for at most 5 minutes while the database is reachable. So a
        failed `write` must leave nothing behind.
        """
        try:
            return write()
        except Unavailable as exc:
            _log.warning("What an attempt came to cannot be written yet: %s", exc.message)
            waits_for_node = isinstance(exc, NodeAway)
        kept = _Kept(
            write, locks.pop_all() if locks else ExitStack(), waits_for_node=waits_for_node
        )
        with self._lock:
            self._kept.append(kept)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._write_on, daemon=True)
                self._thread.start()
        return None

    def close(self) -> None:
        """Try once more to store each outcome, and release all leases; the others are lost."""
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
                kept.context.run(kept.write)
            except NodeAway:
                # Those of other accounts may succeed.
                kept.waits_for_node = True
                continue
            except Away:
                # The database is unreachable, so the other writes would fail, too.
                return
            except Unavailable:
                if time.monotonic() - kept.since < _KEPT_S:
                    continue
                _log.error("What an attempt came to could not be written; its lease ends.")
            # A bug must not keep the other outcomes from being written; the lease of this one ends.
            except Exception:
                _log.exception("What an attempt came to could not be written.")
            with self._lock:
                self._kept.remove(kept)
            kept.locks.close()
