"""How many calls of this process do what: be written down, and wait for their CRM."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_FREE_THREADS = 4
# What comes after the journal's first write takes about as long again, besides the CRM.
_MOST_OF_DEADLINE = 0.5
_FORGOTTEN_S = 1.0
# More would wait for each other inside, and hold up those who have been at their CRM.
_WRITERS = 8


class Gate:
    """Lets so many in at a time (`with gate:`), the others one after the other as they came.

    A semaphore of the standard library lets whoever runs just then go first, so that with
    hundreds of threads some wait for ever.
    """

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        self.waiting: deque[threading.Lock] = deque()
        self._lock = threading.Lock()

    @property
    def empty(self) -> bool:
        """Whether nobody is in, and nobody waits."""
        return self._free == self._size

    def __enter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = threading.Lock()
            turn.acquire()
            self.waiting.append(turn)
        turn.acquire()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self.waiting:
                self.waiting.popleft().release()
            else:
                self._free += 1


class Slots:
    """One for each thread that may wait for a CRM; the others stay free for everybody else.

    While the process is behind there is none: the time of whoever waits for it now would be over
    before the CRM has answered, and what is queued goes out with others in few calls.
    `writing` is the gate to the journal for what begins.
    """

    def __init__(self, threads: int) -> None:
        self._free = threading.BoundedSemaphore(max(1, threads - _FREE_THREADS))
        self.writing = Gate(_WRITERS)
        self._behind_s = 0.0
        self._seen_at = 0.0

    @contextmanager
    def one(self, deadline_s: float) -> Iterator[bool]:
        """Say whether a call of this deadline may wait; if so, it holds a slot in the block."""
        free = not self.late(self._behind(), deadline_s) and self._free.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._free.release()

    def late(self, seconds: float, deadline_s: float) -> bool:
        """Return whether too little of the deadline is left after so many seconds."""
        return seconds > deadline_s * _MOST_OF_DEADLINE

    def took(self, seconds: float) -> None:
        """Note how long a call took that was to be written down and no more."""
        self._behind_s, self._seen_at = seconds, time.monotonic()

    def _behind(self) -> float:
        fresh = time.monotonic() - self._seen_at < _FORGOTTEN_S
        return self._behind_s if fresh else 0.0
