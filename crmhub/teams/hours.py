"""Weekly working hours, such as `mon-fri 09:00-13:00 15:00-18:00, sat 10:00-14:00`, and days off.

The hours are those of a wall clock in the member's time zone, whatever daylight saving time does. A
span over midnight (`fri 22:00-06:00`) belongs to the day on which it starts, so a day off leaves
out the spans that start on it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from crmhub.translatable import translatable

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = 24 * 60
# A year of days off in a row, and a span after it.
_HORIZON_DAYS = 400
_TIME = re.compile(r"([01]?[0-9]|2[0-4]):([0-5][0-9])-([01]?[0-9]|2[0-4]):([0-5][0-9])", re.ASCII)
_RIGHT = translatable("write days and times such as mon-fri 09:00-17:30, sat 10:00-14:00")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Working time that starts on a weekday (0 is Monday); in minutes since that midnight."""

    day: int
    start: int
    end: int


@lru_cache(maxsize=4096)
def parse_hours(text: str) -> tuple[Span, ...]:
    """Return the spans, without any for "" (always). Raises ValueError with the remedy."""
    spans: set[Span] = set()
    for part in filter(None, (part.split() for part in re.split("[,;\n]", text.lower()))):
        times = [_TIME.fullmatch(word) for word in part]
        days = {
            day
            for word, found in zip(part, times, strict=True)
            if not found
            for day in _days(word, text)
        }
        hours = [_minutes(found, text) for found in times if found]
        if not days or not hours:
            raise ValueError(translatable("%(text)s: %(right)s", text=repr(text), right=_RIGHT))
        spans |= {Span(day, *span) for day in days for span in hours}
    return tuple(sorted(spans))


def _days(word: str, text: str) -> list[int]:
    if word == "daily":
        return list(range(7))
    first, dash, last = word.partition("-")
    if first[:3] not in DAYS or (dash and last[:3] not in DAYS):
        raise ValueError(
            translatable(
                "%(text)s: %(word)s is no day; %(right)s", text=repr(text), word=word, right=_RIGHT
            )
        )
    start = DAYS.index(first[:3])
    more = (DAYS.index(last[:3]) - start) % 7 if dash else 0
    return [(start + n) % 7 for n in range(more + 1)]


def _minutes(found: re.Match[str], text: str) -> tuple[int, int]:
    hour, minute, to_hour, to_minute = map(int, found.groups())
    start, end = hour * 60 + minute, to_hour * 60 + to_minute
    if start >= _DAY or end > _DAY:
        raise ValueError(
            translatable(
                "%(text)s: %(found)s is no time of a day; %(right)s",
                text=repr(text),
                found=found[0],
                right=_RIGHT,
            )
        )
    return start, end if end > start else end + _DAY


def parse_dates(texts: Iterable[str]) -> tuple[str, ...]:
    """Return dates in order; `2026-12-24/2027-01-06` names both and those between them.

    Raises ValueError with the remedy.
    """
    dates: set[date] = set()
    for text in texts:
        first, _, last = text.strip().partition("/")
        try:
            start = date.fromisoformat(first)
            end = date.fromisoformat(last or first)
        except ValueError:
            start = end = date.max
        length = (end - start).days
        if start == date.max or not 0 <= length <= _HORIZON_DAYS:
            raise ValueError(
                translatable(
                    "%(text)s is no date; write one such as 2026-12-25, or the first and"
                    " the last such as 2026-12-24/2027-01-06",
                    text=repr(text),
                )
            )
        dates |= {start + timedelta(n) for n in range(length + 1)}
    return tuple(day.isoformat() for day in sorted(dates))


@dataclass(frozen=True, slots=True)
class Duty:
    """When somebody works: always without `spans`; `away_until` is in ms since 1970, 0 for never.

    `days_off` has dates as `2026-12-25`.
    """

    spans: tuple[Span, ...] = ()
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    days_off: Collection[str] = ()
    away_until: int = 0

    def is_on(self, moment: int) -> bool:
        return moment >= self.away_until and self._works(moment)

    def _works(self, moment: int) -> bool:
        now = self.local(moment)
        if not self.spans:
            return now.date().isoformat() not in self.days_off
        for back in (0, 1):
            day = now.date() - timedelta(back)
            minute = now.hour * 60 + now.minute + back * _DAY
            if day.isoformat() not in self.days_off and any(
                span.day == day.weekday() and span.start <= minute < span.end for span in self.spans
            ):
                return True
        return False

    def next_start(self, moment: int) -> int | None:
        """Return when work begins at or after `moment`; None if not within a year."""
        moment = max(moment, self.away_until)
        if self._works(moment):
            return moment
        today = self.local(moment).date()
        for n in range(_HORIZON_DAYS):
            starts = [
                start
                for start in self._starts(today + timedelta(n))
                if start > moment and self._works(start)
            ]
            if starts:
                return min(starts)
        return None

    def _starts(self, day: date) -> list[int]:
        if day.isoformat() in self.days_off:
            return []
        minutes = {span.start for span in self.spans if span.day == day.weekday()}
        return [self._moment(day, minute) for minute in (minutes if self.spans else {0})]

    def _moment(self, day: date, minute: int) -> int:
        at = datetime.combine(day, time(minute // 60, minute % 60), self.zone)
        return int(at.timestamp() * 1000)

    def day_start(self, moment: int) -> int:
        """Return when the day of `moment` began."""
        return self._moment(self.local(moment).date(), 0)

    def next_day(self, moment: int) -> int:
        return self._moment(self.local(moment).date() + timedelta(1), 0)

    def local(self, moment: int) -> datetime:
        return datetime.fromtimestamp(moment / 1000, UTC).astimezone(self.zone)
