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
# A window without a limit still measures, over the time that the limit would have.
_MOST_REMEMBERED = 1_000_000


@dataclass(slots=True)
class Window:
    """A rate limit: at most `most` calls in any period of `seconds` seconds; None is no limit.

    `name` is general, search or token. `calls` counts all calls and `refused` the refused calls;
    `peak` is the largest number of calls, accepted or refused, within any period.
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
        """Count a call; return None if it is accepted, else the time to wait in seconds."""
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
        """Return the number of further calls that are accepted in the present period."""
        return max(0, (self.most or 0) - len(self._taken))

    def change(self, most: int | None, seconds: float) -> None:
        """Set another limit. The counters are kept, and the period starts without calls."""
        self.most, self.seconds = most, seconds
        self._taken.clear()
        self._came.clear()

    def counted(self) -> dict[str, float | int | None]:
        """Return the limit and the counters as the control endpoint shows them."""
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
    """Return (calls, seconds) for a limit such as `100/10s`; (None, `usual`) for `none`.

    Without a limit, `usual` is the period in seconds for which calls are counted. Raises ValueError
    if the text has another form.
    """
    if text == "none":
        return None, usual
    written = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,4}(?:\.[0-9]{1,3})?)s?", text)
    if written is None or float(written[2]) == 0:
        raise ValueError(f"{text}: a limit is written as 100/10s, or none")
    return int(written[1]), float(written[2])


def too_many(window: Window, wait: float, retry_after: RetryAfter) -> Refused:
    """Return HubSpot's 429 response to a call that exceeds the limit `window`.

    `wait` is the time in seconds until a call is accepted. `retry_after` is the form of the header
    Retry-After, which HubSpot does not document.
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
    """Return the header Retry-After for a wait of some seconds.

    `form` says whether it holds seconds or a date, or is left out.
    """
    if form == "seconds":
        return {"Retry-After": str(max(1, math.ceil(wait)))}
    if form == "date":
        at = time.gmtime(time.time() + wait + 1)
        return {"Retry-After": time.strftime("%a, %d %b %Y %H:%M:%S GMT", at)}
    return {}
