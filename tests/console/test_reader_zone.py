"""The days of filters are those of the reader: of the profile, of the browser, or of UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from crmhub.console.reader_zone import COOKIE
from crmhub.hub import Hub
from tests.clients import Client
from tests.console.past import put
from tests.consoles import Operator, text_of

EAST = "Pacific/Kiritimati"


def count(operator: Operator, client: Client, **given: str) -> int:
    query = {"account": client.account.client_id, **given}
    answer = operator.get("/activity", query_string=query)
    assert answer.status_code == 200
    return answer.text.count('<li class="act">')


@pytest.fixture
def day(hub: Hub, client: Client) -> str:
    """A past day of UTC with one action at 12:00, which is the next day in EAST."""
    noon = (datetime.now(UTC) - timedelta(days=3)).replace(hour=12, minute=0)
    ago = round((datetime.now(UTC) - noon).total_seconds() * 1000)
    put(hub, client.account, (ago, ago, "done"))
    return noon.date().isoformat()


def next_day(day: str) -> str:
    return (datetime.fromisoformat(day) + timedelta(days=1)).date().isoformat()


def test_a_changed_time_zone_is_in_the_audit_log(operator: Operator) -> None:
    for zone in (EAST, EAST):
        operator.send("/profile/preferences", {"timeZone": zone}, at="/profile")
    query = {"object": "user", "verb": "change", "by": operator.email}
    page = operator.get("/audit", query_string=query)
    assert text_of(page).count("timeZone") == 2  # the summary and the table of one entry
    assert EAST in page.text


def test_days_are_those_of_the_profile_of_the_browser_or_of_utc(
    operator: Operator, client: Client, day: str
) -> None:
    def found() -> list[int]:
        days = (day, next_day(day))
        return [count(operator, client, **{"from": one, "to": one}) for one in days]

    assert "UTC: your time zone is not known" in text_of(operator.get("/activity"))
    assert found() == [1, 0]
    operator.http.set_cookie(COOKIE, EAST, path="/console")
    assert found() == [0, 1]
    assert f"Days and times are in {EAST}" in text_of(operator.get("/activity"))
    saved = operator.send("/profile/preferences", {"timeZone": "UTC"}, at="/profile")
    assert saved.status_code == 303
    assert found() == [1, 0]
    assert "Days and times are in UTC." in text_of(operator.get("/activity"))
    operator.send("/profile/preferences", {"timeZone": ""}, at="/profile")
    assert found() == [0, 1]
    # What no time zone is called does no harm.
    for name in ("Nowhere/Here", "../../etc/passwd", "Europe"):
        operator.http.set_cookie(COOKIE, name, path="/console")
        assert found() == [1, 0]


def test_today_begins_at_midnight_of_the_profile(
    hub: Hub, operator: Operator, client: Client
) -> None:
    operator.send("/profile/preferences", {"timeZone": EAST}, at="/profile")
    now = datetime.now(ZoneInfo(EAST))
    since = now - now.replace(hour=0, minute=0, second=0, microsecond=0)
    ago = round(since.total_seconds() * 1000) + 60_000
    put(hub, client.account, (ago, ago, "done"))
    assert count(operator, client, when="today") == 0
    assert count(operator, client, when="yesterday") == 1


def test_an_unknown_time_zone_is_refused_at_its_field(operator: Operator) -> None:
    answer = operator.send("/profile/preferences", {"timeZone": "Moon/Base"}, at="/profile")
    assert answer.status_code == 422
    assert "'Moon/Base' is no time zone" in text_of(answer)
