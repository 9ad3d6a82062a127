"""Durations in the form in which people write them, such as 10m, 2h or 3d, and times as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from crmhub.translatable import translatable

PATTERN = "[0-9]{1,6}[smhdw]"
FORM = translatable("a number and s, m, h, d or w, such as 90s, 12h or 7d")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
# By ms, and the fewest of each that are told.
_UNITS = (("day", 86_400_000, 2), ("hour", 3_600_000, 2), ("minute", 60_000, 1))
_WRITTEN = re.compile(PATTERN, re.ASCII)


def milliseconds(text: str) -> int | None:
    """Return a duration such as `7d` in milliseconds, or None if the text is no duration."""
    if not _WRITTEN.fullmatch(text):
        return None
    return int(text[:-1]) * _SECONDS[text[-1]] * 1000


def in_words(ms: int) -> str:
    """Return a duration (ms) in words: `40 seconds`, `20 minutes`, `3 hours` or `2 days`."""
    for unit, size, fewest in _UNITS:
        if ms >= fewest * size:
            count = ms // size
            return f"{count} {unit}{'s' * (count != 1)}"
    seconds = max(0, ms // 1000)
    return f"{seconds} second{'s' * (seconds != 1)}"


def iso(moment: int) -> str:
    """Return a time (ms since 1970) as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    seconds, ms = divmod(moment, 1000)
    # Half as dear as strftime: each record that is answered whole has two of them.
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{ms:03d}Z"


def local_time(moment: int) -> str:
    """Return a time (ms since 1970) as 2026-11-26 09:51:10+01:00, in the machine's zone (TZ)."""
    return datetime.fromtimestamp(moment // 1000).astimezone().isoformat(" ", "seconds")
