"""A limit on simultaneous calls to a CRM, over all processes of the hub."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from crmhub.adapter.context import Context
from crmhub.adapter.errors import NotYet

_FIRST_POLL, _SLOWEST_POLL = 0.01, 0.1
# The lease outlasts the call, so that no other call begins while the CRM still works on this one.
_MARGIN = 5.0
_COME_BACK = 1.0


class Simultaneous:
    """At most `most` calls at the same time; each call holds one of `most` leases."""

    def __init__(self, context: Context, crm: str, most: int) -> None:
        self._context = context
        self._crm = crm
        self._most = most
        # Threads of this process queue here, so that only as many as may get a lease ask for one.
        self._here = threading.BoundedSemaphore(most)

    @contextmanager
    def call(self, seconds: float) -> Iterator[None]:
        """Raises NotYet if the wait is longer than the time left; `seconds`: the longest call."""
        ends = time.monotonic() + self._context.remaining()
        if not self._here.acquire(timeout=max(0.0, ends - time.monotonic())):
            raise self._too_many()
        try:
            with ExitStack() as place:
                self._take(place, seconds, ends)
                yield
        finally:
            self._here.release()

    def _take(self, place: ExitStack, seconds: float, ends: float) -> None:
        poll = _FIRST_POLL
        while True:
            for number in random.sample(range(self._most), self._most):
                lease = self._context.lease(f"call {number}", seconds + _MARGIN, patience=0.0)
                with suppress(NotYet):
                    place.enter_context(lease)
                    return
            if time.monotonic() + poll > ends:
                raise self._too_many()
            time.sleep(poll * random.uniform(0.7, 1.3))
            poll = min(poll * 1.6, _SLOWEST_POLL)

    def _too_many(self) -> NotYet:
        return NotYet(
            f"{self._crm} is busy with as many calls as it takes at the same time.",
            retry_after=_COME_BACK,
        )
