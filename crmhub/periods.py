"""Periods as people name them: today, 7d, 2026-11-26, or from one time to another.

Days begin and end in a time zone that the caller knows; None is the machine's (TZ).
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from crmhub import durations
from crmhub.translatable import translatable

FORM = translatable(
    "today, yesterday, a number and s, m, h, d or w such as 7d, a date such as 2026-11-26, or two"
    " dates or times such as 2026-11-24..2026-11-26"
)
_DAYS_AGO = {"today": 0, "yesterday": 1}
_ONE_DAY = timedelta(days=1)
# The end of the year 4999, which the ids of actions can express.
_LATEST_MS = 95_617_584_000_000


def parse(text: str, zone: tzinfo | None, now: datetime | None = None) -> tuple[int, int]:
    """Return the begin and the end of a period in ms since 1970, 0 for none.

    The last day of a period belongs to it; an end with a time does not. Raises ValueError.
    """
    now = (now or datetime.now(UTC)).astimezone(zone)
    if text in _DAYS_AGO:
        day = now.date() - timedelta(days=_DAYS_AGO[text])
        return _midnight(day, zone), 0 if text == "today" else _midnight(day + _ONE_DAY, zone)
    if (ago := durations.milliseconds(text)) is not None:
        return max(1, round(now.timestamp() * 1000) - ago), 0
    begin, separator, end = text.partition("..")
    begin_ms = _bound(begin, zone) if begin else 0
    end_ms = _bound(end if separator else begin, zone, is_end=True) if end or not separator else 0
    if not (begin_ms or end_ms) or 0 < end_ms <= begin_ms:
        raise ValueError(text)
    return begin_ms, end_ms


def moment(text: str, zone: tzinfo | None) -> int:
    """Return a time in ms since 1970, in `zone` unless it names an offset; raises ValueError."""
    try:
        at = datetime.fromisoformat(text)
        return _checked((at if at.tzinfo else at.replace(tzinfo=zone)).timestamp())
    except OverflowError as exc:
        raise ValueError(text) from exc


def parse_zone(name: str) -> ZoneInfo:
    """Raises ValueError with the remedy."""
    try:
        return ZoneInfo(name)
    # Of a name that is a directory, an absolute path, or has a NUL.
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is no time zone; write one such as Europe/Madrid") from None


def _bound(text: str, zone: tzinfo | None, *, is_end: bool = False) -> int:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return moment(text, zone)
    try:
        return _midnight(day + _ONE_DAY if is_end else day, zone)
    except OverflowError as exc:
        raise ValueError(text) from exc


def _midnight(day: date, zone: tzinfo | None) -> int:
    return _checked(datetime.combine(day, time(), zone).timestamp())


def _checked(seconds: float) -> int:
    milliseconds = round(seconds * 1000)
    if not 0 < milliseconds < _LATEST_MS:
        raise ValueError(f"{seconds}: out of range")
    return milliseconds
