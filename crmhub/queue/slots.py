"""Limits on the number of calls that one server process handles at the same time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from crmhub.errors import TooManyRequests

_FREE_THREADS = 4
# The rest of a call, without the CRM, takes about as long as its first write.
_MOST_OF_DEADLINE = 0.5
_FORGOTTEN_S = 1.0
# More writers would wait for each other and delay calls that return from their CRM.
_WRITERS = 8
# Parallel batch reads: each may need three times 13 MB of memory.
_LONG_ANSWERS = 2
# The greatest share of the threads for one account.
_SHARE = 0.5
# Calls of one account that may wait for a thread, and their longest wait in seconds. A request
# takes 1 to 2 ms, so short bursts are answered, and long ones get `queued` soon.
_LINE = 64
_LINE_S = 1.0


class Gate:
    """A counting semaphore: at most `size` threads are inside it, and others wait in their order.

    Python's own semaphore may leave one of hundreds of threads waiting forever. With `with
    gate.of(group):`, groups of threads, such as accounts, take turns.
    """

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        # The first group is the next to be admitted.
        self._waiting: dict[str, deque[threading.Lock]] = {}
        self._lock = threading.Lock()

    @property
    def empty(self) -> bool:
        return self._free == self._size

    @property
    def waiting(self) -> int:
        """The number of threads that wait for admission."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def waiting_of(self, group: str) -> int:
        return len(self._waiting.get(group, ()))

    def of(self, group: str) -> Turn:
        return Turn(self, group)

    def enter(self, group: str = "") -> None:
        """Wait, without a time limit, until the gate admits the calling thread."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.setdefault(group, deque()).append(turn)
        turn.acquire()

    def leave(self) -> None:
        with self._lock:
            if not self._waiting:
                self._free += 1
                return
            group = next(iter(self._waiting))
            line = self._waiting.pop(group)
            line.popleft().release()
            if line:
                self._waiting[group] = line

    __enter__ = enter

    def __exit__(self, *_: object) -> None:
        self.leave()


class Turn:
    """One call inside a gate (`with turn:`); entering waits for admission, without a time limit."""

    __slots__ = ("_gate", "_group")

    def __init__(self, gate: Gate, group: str) -> None:
        self._gate = gate
        self._group = group

    def __enter__(self) -> None:
        self._gate.enter(self._group)

    def __exit__(self, *_: object) -> None:
        self._gate.leave()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Leave the gate during the block, so that another thread is admitted; then wait again."""
        self._gate.leave()
        try:
            yield
        finally:
            self._gate.enter(self._group)


class Slots:
    """Limits the number of threads that wait for CRMs: at least four threads never do.

    No slot is given while storing a new action takes over half of a call's deadline, since the CRM
    could not answer within the rest. `writing`: a gate for calls that store actions.
    `long_answers`: a gate for reads of many records, which need much memory.
    """

    def __init__(self, threads: int) -> None:
        self._free = threading.BoundedSemaphore(max(1, threads - _FREE_THREADS))
        self.writing = Gate(_WRITERS)
        self.long_answers = Gate(_LONG_ANSWERS)
        self._behind_s = 0.0
        self._seen_at = 0.0

    @contextmanager
    def one(self, deadline_s: float) -> Iterator[bool]:
        """Take a slot for the block; yield whether the call may wait for the CRM."""
        is_fresh = time.monotonic() - self._seen_at < _FORGOTTEN_S
        is_late = is_fresh and self._behind_s > deadline_s * _MOST_OF_DEADLINE
        free = not is_late and self._free.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._free.release()

    def took(self, seconds: float, deadline_s: float) -> bool:
        """Record how long storing a call's action took; return whether too little time is left."""
        self._behind_s, self._seen_at = seconds, time.monotonic()
        return seconds > deadline_s * _MOST_OF_DEADLINE


class Shares:
    """Limits each account to half of a process's threads, so that others have the rest."""

    def __init__(self, threads: int) -> None:
        self._most = max(1, int(threads * _SHARE))
        self._taken: dict[int, int] = {}
        self._lines: dict[int, deque[threading.Lock]] = {}
        self._lock = threading.Lock()

    def take(self, account_id: int, turn: Turn | None = None) -> bool:
        """Take one of the threads that the account may use; return whether a thread was taken.

        A call with `turn` waits up to 1 s for one, outside of its gate, unless too many of the
        account's calls wait; a call without `turn` does not wait.
        """
        with self._lock:
            taken = self._taken.get(account_id, 0)
            if taken < self._most:
                self._taken[account_id] = taken + 1
                return True
            line = self._lines.setdefault(account_id, deque())
            if turn is None or len(line) >= _LINE:
                return False
            place = threading.Lock()
            place.acquire()
            line.append(place)
        with turn.outside():
            if place.acquire(timeout=_LINE_S):
                return True
        with self._lock:
            if place in line:
                line.remove(place)
                return False
        # `release` gave the place to this call just after the timeout.
        return True

    def release(self, account_id: int) -> None:
        """Free a thread of the account, or give it to the account's call that waits for longest."""
        with self._lock:
            if line := self._lines.get(account_id):
                line.popleft().release()
            elif self._taken[account_id] > 1:
                self._taken[account_id] -= 1
            else:
                # Deleted, so that the mapping does not grow with accounts.
                del self._taken[account_id]
                self._lines.pop(account_id, None)

    def waiting(self, account_id: int) -> int:
        return len(self._lines.get(account_id, ()))


def too_many_at_once() -> TooManyRequests:
    return TooManyRequests(
        "The account has as many calls in progress as a server process takes of one account;"
        " try again in 1 s, or send fewer at a time.",
        retry_after=1,
    )
