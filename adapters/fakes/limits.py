"""Rate limits of the fake HubSpot: moving windows that count calls and refuse excess calls."""

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
# The most calls to remember for measuring `peak`.
_MOST_REMEMBERED = 1_000_000


@dataclass(slots=True)
class Window:
    """A rate limit: at most `most` calls in any period of `seconds` seconds.

    If `most` is None, calls are counted but not limited. `name` is "general", "search" or "token".
    `calls` counts all calls, and `refused` the refused calls. `peak` is the largest number of
    calls, accepted or refused, within any period.
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
        """Count a call; return None if the rate limit accepts the call.

        For a refused call, return the time in seconds until a call is accepted again.
        """
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
        """Return how many further calls the rate limit accepts in the present period.

        Return 0 if there is no limit.
        """
        return max(0, (self.most or 0) - len(self._taken))

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
            "refused": self.refused,
            "peak": self.peak,
        }


def _drop(moments: deque[float], before: float) -> None:
    while moments and moments[0] <= before:
        moments.popleft()


def parse(text: str, *, usual: float = 10.0) -> tuple[int | None, float]:
    """Parse a rate limit such as `100/10s`; return (calls, seconds).

    Return (None, `usual`) for `none`: without a limit, calls are counted over periods of `usual`
    seconds. Raises ValueError if the text has another form.
    """
    if text == "none":
        return None, usual
    written = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,4}(?:\.[0-9]{1,3})?)s?", text)
    if written is None or float(written[2]) == 0:
        raise ValueError(f"{text}: a limit is written as 100/10s, or none")
    return int(written[1]), float(written[2])


def too_many(window: Window, wait: float, retry_after: RetryAfter) -> Refused:
    """Return HubSpot's 429 response to a call that exceeds the rate limit `window`.

    `wait` is the time in seconds until a call is accepted. `retry_after` is the form of the header
    Retry-After, which HubSpot does not document: seconds, a date, or no header.
    """
    policy = _POLICIES[window.name]
    return Refused(
        429,
        f"You have reached your {policy.lower()} limit.",
        category=None,
        headers=retry_header(wait, retry_after),
        extra={"errorType": "RATE_LIMIT", "policyName": policy, "groupName": "publicapi:fake"},
    )


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
