"""Working hours: as a wall clock shows them, over midnight, on days off, and when they change."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from crmhub.periods import parse_zone
from crmhub.teams.hours import Duty, parse_dates, parse_hours

MADRID = ZoneInfo("Europe/Madrid")
OFFICE = parse_hours("mon-fri 09:00-17:00")


def at(text: str, zone: ZoneInfo = MADRID, fold: int = 0) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold)
    return int(moment.timestamp() * 1000)


def start(duty: Duty, moment: int) -> str:
    found = duty.next_start(moment)
    return f"{duty.local(found):%a %Y-%m-%d %H:%M}" if found is not None else ""


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("", 0),
        ("mon-fri 09:00-17:00", 5),
        ("Mon-Fri 9:00-13:00 15:00-18:00; sat 10:00-14:00", 11),
        ("daily 00:00-24:00", 7),
        ("fri-mon 22:00-06:00", 4),
        ("mon wed, monday 09:00-10:00", None),
        ("09:00-17:00", None),
        ("mon", None),
        ("mon 25:00-26:00", None),
        ("mon 24:00-25:00", None),
        ("never", None),
    ],
)
def test_hours_are_read_or_refused_with_the_remedy(text: str, spans: int | None) -> None:
    if spans is None:
        with pytest.raises(ValueError, match="mon-fri 09:00-17:30"):
            parse_hours(text)
    else:
        assert len(parse_hours(text)) == spans


def test_days_off_are_dates_and_ranges() -> None:
    assert parse_dates(["2026-12-31/2027-01-02", "2026-12-25"]) == (
        "2026-12-25",
        "2026-12-31",
        "2027-01-01",
        "2027-01-02",
    )
    for text in ("25.12.2026", "2026-02-30", "2026-12-31/2026-12-25", "2026-01-01/2036-01-01"):
        with pytest.raises(ValueError, match="is no date"):
            parse_dates([text])


@pytest.mark.parametrize("name", ["", "Madrid", "../etc/passwd", "/etc/passwd", "Europe", "a\0b"])
def test_an_unknown_time_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        parse_zone(name)


def test_office_hours() -> None:
    duty = Duty(OFFICE, MADRID)
    assert not duty.is_on(at("2026-11-27T08:59"))
    assert duty.is_on(at("2026-11-27T09:00"))
    assert not duty.is_on(at("2026-11-27T17:00"))
    assert start(duty, at("2026-11-27T17:00")) == "Mon 2026-11-30 09:00"


def test_hours_follow_the_wall_clock_when_summer_time_begins_and_ends() -> None:
    night = Duty(parse_hours("sat 22:00-06:00"), MADRID)
    # 29 March 2026: 02:00 becomes 03:00, so the night is an hour shorter.
    assert at("2026-03-29T06:00") - at("2026-03-28T22:00") == 7 * 3_600_000
    assert night.is_on(at("2026-03-29T05:59"))
    assert not night.is_on(at("2026-03-29T06:00"))
    # 25 October 2026: 03:00 becomes 02:00, and both hours belong to the night.
    assert night.is_on(at("2026-10-25T02:30"))
    assert night.is_on(at("2026-10-25T02:30", fold=1))
    assert not night.is_on(at("2026-10-25T06:00"))
    day = Duty(OFFICE, MADRID)
    for morning in ("2026-03-27", "2026-03-30", "2026-10-23", "2026-10-26"):
        assert day.is_on(at(f"{morning}T09:00"))
        assert not day.is_on(at(f"{morning}T08:59"))


def test_a_start_within_the_hour_that_is_left_out_is_after_it() -> None:
    duty = Duty(parse_hours("sun 02:30-05:00"), MADRID)
    assert start(duty, at("2026-03-28T12:00")) == "Sun 2026-03-29 03:30"


def test_a_span_over_midnight_belongs_to_the_day_on_which_it_starts() -> None:
    duty = Duty(parse_hours("fri 22:00-06:00"), MADRID, {"2026-11-28"})
    assert duty.is_on(at("2026-11-27T23:00"))
    assert duty.is_on(at("2026-11-28T05:00"))
    off = Duty(parse_hours("fri 22:00-06:00"), MADRID, {"2026-11-27"})
    assert not off.is_on(at("2026-11-28T05:00"))
    assert start(off, at("2026-11-27T12:00")) == "Fri 2026-12-04 22:00"


def test_days_off_and_away_put_the_start_off() -> None:
    days = set(parse_dates(["2026-12-24/2027-01-06"]))
    assert start(Duty(OFFICE, MADRID, days), at("2026-12-23T18:00")) == "Thu 2027-01-07 09:00"
    always = Duty((), MADRID, {"2026-11-28"})
    assert start(always, at("2026-11-28T12:00")) == "Sun 2026-11-29 00:00"
    away = Duty(OFFICE, MADRID, (), at("2026-11-30T12:00"))
    assert not away.is_on(at("2026-11-30T10:00"))
    assert start(away, at("2026-11-27T10:00")) == "Mon 2026-11-30 12:00"


def test_who_never_works_has_no_start() -> None:
    days = parse_dates(["2026-01-01/2026-12-31", "2027-01-01/2027-12-31", "2028-01-01/2028-12-31"])
    assert start(Duty(OFFICE, MADRID, set(days)), at("2026-01-01T10:00")) == ""
