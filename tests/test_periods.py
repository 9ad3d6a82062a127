"""Periods as people name them, in a time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from crmhub import periods

MADRID = ZoneInfo("Europe/Madrid")
HOUR = 3_600_000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-11-26", 24)]
)
def test_a_day_is_as_long_as_its_clock_says(day: str, hours: int) -> None:
    begin, end = periods.parse(day, MADRID)
    assert datetime.fromtimestamp(begin / 1000, MADRID).isoformat()[:16] == f"{day}T00:00"
    assert end - begin == hours * HOUR


def test_today_and_yesterday_are_those_of_the_zone() -> None:
    # In Madrid it is already the 26th.
    now = datetime.fromisoformat("2026-11-25T23:30:00+00:00")
    midnight = ms("2026-11-26T00:00+01:00")
    assert periods.parse("today", MADRID, now) == (midnight, 0)
    assert periods.parse("yesterday", MADRID, now) == (ms("2026-11-25T00:00+01:00"), midnight)
    assert periods.parse("today", UTC, now) == (ms("2026-11-25T00:00+00:00"), 0)
    changed = datetime.fromisoformat("2026-03-30T08:00:00+02:00")
    begin, end = periods.parse("yesterday", MADRID, changed)
    assert end - begin == 23 * HOUR


def test_a_duration_and_two_ends() -> None:
    now = datetime.fromisoformat("2026-11-26T12:00:00+00:00")
    assert periods.parse("7d", MADRID, now) == (ms("2026-11-19T12:00+00:00"), 0)
    begin, end = ms("2026-11-24T00:00+01:00"), ms("2026-11-27T00:00+01:00")
    assert periods.parse("2026-11-24..2026-11-26", MADRID) == (begin, end)
    assert periods.parse("2026-11-24..", MADRID) == (begin, 0)
    assert periods.parse("..2026-11-26", MADRID) == (0, end)
    hours = periods.parse("2026-11-24T08:00..2026-11-24T09:30Z", MADRID)
    assert hours == (ms("2026-11-24T08:00+01:00"), ms("2026-11-24T09:30+00:00"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "..",
        "soon",
        "Today",
        "2026-02-30",
        "2026-11-26..2026-11-24",
        "2026-11-24T09:00..2026-11-24T09:00",
        "2026-11-24..soon",
        "2026-11-24..2026-11-25..2026-11-26",
        "0001-01-01",
        "9999-12-31",
        "2026-11-24T08:00",
        "today..",
    ],
)
@pytest.mark.parametrize("zone", [MADRID, UTC, None])
def test_what_is_no_period_is_refused(text: str, zone: ZoneInfo | None) -> None:
    # The callers say in their own words what a period is.
    with pytest.raises(ValueError, match=r"^"):
        periods.parse(text, zone)
