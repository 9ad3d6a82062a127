"""Count failed calls per connection in this process, to decide when a circuit breaker opens."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

_FAILURES = 3
# Of many parallel calls, some may fail in a row by chance, so failures must last this long.
_LASTING_S = 1.0


@dataclass(slots=True)
class _Failing:
    since: float
    count: int = 0


class Health:
    """The number of failed calls in a row of each connection; 0 again once the CRM answers."""

    def __init__(self) -> None:
        self._failing: dict[tuple[int, int], _Failing] = {}
        self._lock = threading.Lock()

    def answered(self, account_id: int, connection_id: int) -> None:
        """Set a connection's failed calls to 0; an error that the CRM answered counts, too."""
        # Reading without the lock keeps calls to a healthy CRM fast.
        if (account_id, connection_id) in self._failing:
            with self._lock:
                self._failing.pop((account_id, connection_id), None)

    def failed(self, account_id: int, connection_id: int, *, after: float) -> bool:
        """Count a failed call that took `after` seconds; return whether the circuit breaker opens.

        It opens after 3 failures in a row, from the start of the first to the end of the last at
        least 1 s.
        """
        now = time.monotonic()
        with self._lock:
            failing = self._failing.setdefault(
                (account_id, connection_id), _Failing(since=now - after)
            )
            failing.count += 1
            failing.since = min(failing.since, now - after)
            return failing.count >= _FAILURES and now - failing.since >= _LASTING_S
