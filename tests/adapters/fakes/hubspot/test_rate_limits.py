"""The fake's rate limits: rolling windows, headers, and what it counts."""

from __future__ import annotations

import pytest

from adapters.fakes import limits
from adapters.fakes.limits import Window, parse
from tests.adapters.fakes.hubspot.calls import Api
from tests.clocks import clock_of

_DETAILS = "/account-info/2026-09/details"


def test_a_call_over_the_limit_is_refused_as_hubspot_does(api: Api) -> None:
    api.post("/_control/settings", {"limit": "2/600s"})
    assert [api.get(_DETAILS).status_code for _ in range(3)] == [200, 200, 429]
    answer = api.get(_DETAILS)
    body = answer.json()
    assert body["message"] == "You have reached your ten_secondly_rolling limit."
    assert (body["errorType"], body["policyName"]) == ("RATE_LIMIT", "TEN_SECONDLY_ROLLING")
    assert "Retry-After" not in answer.headers


def test_headers_tell_what_is_left(api: Api) -> None:
    api.post("/_control/settings", {"limit": "100/10s", "daily_limit": "1000/86400s"})
    api.get(_DETAILS)
    headers = api.get(_DETAILS).headers
    assert headers["X-HubSpot-RateLimit-Max"] == "100"
    assert headers["X-HubSpot-RateLimit-Remaining"] == "98"
    assert headers["X-HubSpot-RateLimit-Interval-Milliseconds"] == "10000"
    assert headers["X-HubSpot-RateLimit-Daily"] == "1000"
    assert headers["X-HubSpot-RateLimit-Daily-Remaining"] == "998"


def test_search_has_a_limit_of_its_own_and_no_headers(api: Api) -> None:
    api.post("/_control/settings", {"limit": "1/600s", "search_limit": "2/600s"})
    answers = [api.search("contacts") for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert answers[2].json()["policyName"] == "SECONDLY"
    assert not [name for one in answers for name in one.headers if "RateLimit" in name]
    assert api.get(_DETAILS).status_code == 200


def test_a_token_of_oauth_sees_no_daily_limit(api: Api) -> None:
    api.post("/_control/settings", {"limit": "100/10s"})
    api.session.headers["Authorization"] = f"Bearer {api.fake.tokens.issue()}"
    headers = api.get(_DETAILS).headers
    assert "X-HubSpot-RateLimit-Max" in headers
    assert "X-HubSpot-RateLimit-Daily" not in headers


def test_the_days_calls_run_out(api: Api) -> None:
    api.post("/_control/settings", {"daily_limit": "1/86400s"})
    api.get(_DETAILS)
    assert api.get(_DETAILS).json()["policyName"] == "DAILY"
    assert api.fake.daily.calls == 2


def test_the_peak_is_that_of_one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    window, clock = Window("general", None, 1000.0), clock_of(limits, monkeypatch)
    for seconds in (0, 100, 100, 950, 100):
        clock.forward(seconds)
        window.take()
    assert (window.calls, window.peak) == (5, 3)


@pytest.mark.parametrize(
    ("text", "limit"),
    [("100/10s", (100, 10.0)), ("5/1", (5, 1.0)), ("0/0.5s", (0, 0.5)), ("none", (None, 10.0))],
)
def test_how_a_limit_is_written(text: str, limit: tuple[int | None, float]) -> None:
    assert parse(text) == limit


@pytest.mark.parametrize("text", ["", "x", "5", "5/x", "5/0s", "-1/1s", "5/1e9s", "5/nans"])
def test_how_it_is_not(text: str) -> None:
    with pytest.raises(ValueError, match="a limit is written as"):
        parse(text)
