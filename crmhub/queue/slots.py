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
    """A counting semaphore: at most `size` threads are inside it, and further threads wait.

    Waiting threads are admitted in the order of their arrival. Python's own semaphore may leave one
    of hundreds of threads waiting forever. Use it as `with gate:`. If threads belong to groups,
    such as accounts, use it as `with gate.of(group):`. Then the groups take turns: each time a
    thread leaves, the first waiting thread of the next group is admitted.
    """

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        # The first group is the next to be admitted.
        self._waiting: dict[str, deque[threading.Lock]] = {}
        self._lock = threading.Lock()

    @property
    def empty(self) -> bool:
        """True if no thread is inside the gate and no thread waits in front of it."""
        return self._free == self._size

    @property
    def waiting(self) -> int:
        """The number of threads that wait for admission."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def of(self, group: str) -> Turn:
        """Return a context manager: entering it waits for admission, leaving it leaves the gate.

        The wait has no time limit and raises no error. `group`: the name of the thread's group; if
        several groups wait, one thread of each is admitted in rotation.
        """
        return Turn(self, group)

    def enter(self, group: str = "") -> None:
        """Wait, without a time limit, until the gate admits the calling thread.

        `group`: the name of the thread's group; if several groups wait, one thread of each is
        admitted in rotation.
        """
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.setdefault(group, deque()).append(turn)
        turn.acquire()

    def leave(self) -> None:
        """Leave the gate, so that the next waiting thread is admitted."""
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
    """A context manager for one call inside a gate (`with turn:`); entering it waits for admission.

    The call may leave the gate for a while (`outside`).
    """

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
        """Leave the gate during the block, so that another thread can be admitted.

        At the end of the block, wait without a time limit until the gate admits this call again.
        """
        self._gate.leave()
        try:
            yield
        finally:
            self._gate.enter(self._group)


class Slots:
    """Limits the number of threads that wait for CRMs: at least four threads never do.

    A thread needs a slot to wait for a CRM. No slot is given while storing a new action takes over
    half of a call's deadline, since the CRM could not answer within the rest. `writing`: a gate for
    calls that store actions. `long_answers`: a gate for reads of many records, which need much
    memory.
    """

    def __init__(self, threads: int) -> None:
        self._free = threading.BoundedSemaphore(max(1, threads - _FREE_THREADS))
        self.writing = Gate(_WRITERS)
        self.long_answers = Gate(_LONG_ANSWERS)
        self._behind_s = 0.0
        self._seen_at = 0.0

    @contextmanager
    def one(self, deadline_s: float) -> Iterator[bool]:
        """Take a free slot for the block, and yield True: the call may wait for the CRM.

        Without a free slot, or if storing actions takes over half of the deadline, yield False at
        once. `deadline_s`: the deadline of the call in seconds.
        """
        is_fresh = time.monotonic() - self._seen_at < _FORGOTTEN_S
        is_late = is_fresh and self._behind_s > deadline_s * _MOST_OF_DEADLINE
        free = not is_late and self._free.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._free.release()

    def took(self, seconds: float, deadline_s: float) -> bool:
        """Record that storing the action of a call took `seconds`.

        Return True if this is over half of the call's deadline, so that too little time is left for
        the CRM. `deadline_s`: the deadline in seconds.
        """
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

        If the account uses all of them already, a call with `turn` waits up to 1 s, and a call
        without `turn` does not wait. Return False if no thread becomes free in this time, or if too
        many calls of the account wait. `turn`: the admission of the call to the gate that it is
        inside of. The call leaves this gate while it waits.
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
        """Return the number of calls of the account that wait for a thread."""
        return len(self._lines.get(account_id, ()))


def too_many_at_once() -> TooManyRequests:
    """Return the error for a call of an account that uses all of its threads already."""
    return TooManyRequests(
        "The account has as many calls in progress as a server process takes of one account;"
        " try again in 1 s, or send fewer at a time.",
        retry_after=1,
    )
