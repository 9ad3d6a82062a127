"""Limits of a fake CRM: moving windows that count calls or their costs, and calls at once."""

from __future__ import annotations

import math
import re
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

RetryAfter = Literal["none", "seconds", "date"]

# The most calls to remember for measuring `peak`.
_MOST_REMEMBERED = 1_000_000


@dataclass(slots=True)
class _Costs:
    """The costs of the calls in a moving window, with their times."""

    total: int = 0
    calls: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, now: float, cost: int) -> None:
        self.calls.append((now, cost))
        self.total += cost
        if len(self.calls) > _MOST_REMEMBERED:
            self.total -= self.calls.popleft()[1]

    def drop(self, before: float) -> None:
        while self.calls and self.calls[0][0] <= before:
            self.total -= self.calls.popleft()[1]

    def clear(self) -> None:
        self.calls.clear()
        self.total = 0

    def time_of(self, cost: int) -> float | None:
        """Return the time of the call with whose end a further cost of `cost` is free again."""
        for at, one in self.calls:
            cost -= one
            if cost <= 0:
                return at
        return None


@dataclass(slots=True)
class Window:
    """A rate limit: at most `most` calls, or costs of calls, in any period of `seconds` seconds.

    If `most` is None, calls are counted but not limited. `name` is the limit's name in the state
    that the control endpoint shows, such as "general". `calls` counts all calls, `spent` the costs
    of the accepted calls, and `refused` the refused calls. `peak` is the largest cost of the calls,
    accepted or refused, within any period.
    """

    name: str
    most: int | None
    seconds: float
    calls: int = 0
    spent: int = 0
    refused: int = 0
    peak: int = 0
    _taken: _Costs = field(default_factory=_Costs)
    _came: _Costs = field(default_factory=_Costs)

    def take(self, cost: int = 1) -> float | None:
        """Count a call with this cost; return None if the rate limit accepts the call.

        For a refused call, return the time in seconds until such a call is accepted again.
        """
        now = time.monotonic()
        self.calls += 1
        self._came.add(now, cost)
        self._came.drop(now - self.seconds)
        self.peak = max(self.peak, self._came.total)
        self._taken.drop(now - self.seconds)
        if self.most is not None and self._taken.total + cost > self.most:
            self.refused += 1
            freed = self._taken.time_of(self._taken.total + cost - self.most)
            return self.seconds if freed is None else freed + self.seconds - now
        self._taken.add(now, cost)
        self.spent += cost
        return None

    def remaining(self) -> int:
        """Return how many further calls, or costs, the rate limit accepts in the present period.

        Return 0 if there is no limit.
        """
        return max(0, (self.most or 0) - self._taken.total)

    def resets_in(self) -> float:
        """Return the time in seconds until the whole limit is free again."""
        if not self._taken.calls:
            return 0.0
        return max(0.0, self._taken.calls[-1][0] + self.seconds - time.monotonic())

    def change(self, most: int | None, seconds: float) -> None:
        """Set another limit; the totals are kept, and the new period starts without calls."""
        self.most, self.seconds = most, seconds
        self._taken.clear()
        self._came.clear()

    def counted(self) -> dict[str, float | int | None]:
        """Return the limit and the numbers of calls as the control endpoint shows them."""
        return {
            "limit": self.most,
            "seconds": self.seconds,
            "calls": self.calls,
            "spent": self.spent,
            "refused": self.refused,
            "peak": self.peak,
        }


@dataclass(slots=True)
class AtOnce:
    """A limit of calls at the same time: at most `most`; None means no limit.

    `name` is the limit's name as that of a Window. `now` is the number of calls under way, and
    `peak` the largest such number. `refused` counts the refused calls.
    """

    most: int | None = None
    name: str = "at_once"
    now: int = 0
    peak: int = 0
    refused: int = 0

    def enter(self) -> bool:
        """Count a call as under way if the limit accepts it; return whether it does."""
        if self.most is not None and self.now >= self.most:
            self.refused += 1
            return False
        self.now += 1
        self.peak = max(self.peak, self.now)
        return True

    def leave(self) -> None:
        """Count a call as ended that `enter` has accepted."""
        self.now -= 1

    def counted(self) -> dict[str, int | None]:
        """Return the limit and the numbers of calls as the control endpoint shows them."""
        return {"limit": self.most, "peak": self.peak, "refused": self.refused}


def parse(text: str, *, usual: float = 10.0) -> tuple[int | None, float]:
    """Parse a rate limit such as `100/10s`; return (calls, seconds).

    Return (None, `usual`) for `none`: without a limit, calls are counted over periods of `usual`
    seconds. Raises ValueError if the text has another form.
    """
    if text == "none":
        return None, usual
    written = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,5}(?:\.[0-9]{1,3})?)s?", text)
    if written is None or float(written[2]) == 0:
        raise ValueError(f"{text}: a limit is written as 100/10s, or none")
    return int(written[1]), float(written[2])


def retry_header(wait: float, form: RetryAfter) -> dict[str, str]:
    """Return the header Retry-After for a wait of `wait` seconds.

    `form` says whether the header contains seconds or a date; for "none" the result is empty.
    """
    if form == "seconds":
        return {"Retry-After": str(max(1, math.ceil(wait)))}
    if form == "date":
        at = time.gmtime(time.time() + wait + 1)
        return {"Retry-After": time.strftime("%a, %d %b %Y %H:%M:%S GMT", at)}
    return {}
