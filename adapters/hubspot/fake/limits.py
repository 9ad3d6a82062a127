"""Rate limits of the fake: rolling windows that count calls and refuse those over the limit."""

from __future__ import annotations

import math
import re
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from adapters.hubspot.fake.answers import Refused

RetryAfter = Literal["none", "seconds", "date"]

_POLICIES = {"general": "TEN_SECONDLY_ROLLING", "search": "SECONDLY", "daily": "DAILY"}
# A window without a limit still measures, over the time that the limit would have.
_MOST_REMEMBERED = 1_000_000


@dataclass(slots=True)
class Window:
    """A rate limit of `most` calls in any `seconds`; `most` None means no limit.

    `calls` counts all calls, `refused` those over the limit, and `peak` is the largest number of
    calls, accepted or refused, within one window.
    """

    name: str
    most: int | None
    seconds: float
    calls: int = 0
    refused: int = 0
    peak: int = 0
    _taken: deque[float] = field(default_factory=deque)
    _came: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_REMEMBERED))

    def take(self) -> float | None:
        """Count a call; return None if it is accepted, else the seconds to wait."""
        now = time.monotonic()
        self.calls += 1
        self._came.append(now)
        _drop(self._came, now - self.seconds)
        self.peak = max(self.peak, len(self._came))
        _drop(self._taken, now - self.seconds)
        if self.most is not None and len(self._taken) >= self.most:
            self.refused += 1
            return self._taken[0] + self.seconds - now if self._taken else self.seconds
        self._taken.append(now)
        return None

    def remaining(self) -> int:
        """Return how many more calls the current window accepts."""
        return max(0, (self.most or 0) - len(self._taken))

    def change(self, most: int | None, seconds: float) -> None:
        """Set another limit; the counters stay, and the window starts empty."""
        self.most, self.seconds = most, seconds
        self._taken.clear()
        self._came.clear()

    def counted(self) -> dict[str, float | int | None]:
        """Return the counters as the control endpoint prints them."""
        return {
            "limit": self.most,
            "seconds": self.seconds,
            "calls": self.calls,
            "refused": self.refused,
            "peak": self.peak,
        }


def _drop(moments: deque[float], before: float) -> None:
    while moments and moments[0] <= before:
        moments.popleft()


def parse(text: str, *, usual: float = 10.0) -> tuple[int | None, float]:
    """Parse a limit such as `100/10s`, or `none` for no limit; raises ValueError.

    Without a limit, calls are counted in windows of `usual` seconds.
    """
    if text == "none":
        return None, usual
    written = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,4}(?:\.[0-9]{1,3})?)s?", text)
    if written is None or float(written[2]) == 0:
        raise ValueError(f"{text}: a limit is written as 100/10s, or none")
    return int(written[1]), float(written[2])


def too_many(window: Window, wait: float, retry_after: RetryAfter) -> Refused:
    """Return HubSpot's 429; its `Retry-After` is optional, since HubSpot does not document it."""
    policy = _POLICIES[window.name]
    return Refused(
        429,
        f"You have reached your {policy.lower()} limit.",
        category=None,
        headers=retry_header(wait, retry_after),
        extra={"errorType": "RATE_LIMIT", "policyName": policy, "groupName": "publicapi:fake"},
    )


def retry_header(wait: float, form: RetryAfter) -> dict[str, str]:
    """Return the `Retry-After` header as the options format it, or no header."""
    if form == "seconds":
        return {"Retry-After": str(max(1, math.ceil(wait)))}
    if form == "date":
        at = time.gmtime(time.time() + wait + 1)
        return {"Retry-After": time.strftime("%a, %d %b %Y %H:%M:%S GMT", at)}
    return {}
