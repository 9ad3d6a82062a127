"""The calls HubSpot allows: what its headers say is followed, searches are counted apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters.fakes.hubspot import FakeHubSpot
from crmhub.adapter import Throttled
from crmhub.adapter.testing import Connection
from crmhub.adapter.testing.connection import CountingBudget
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.hubspot.hubspot_crm import HubSpotCrm, connected
from tests.adapters.hubspot.hubspot_wire import record, wire
from tests.adapters.leads import person
from tests.loops import for_each


@pytest.fixture
def fake() -> Iterator[FakeHubSpot]:
    with HubSpotCrm(limit="190/10s", search_limit="5/1s") as crm:
        yield crm.fake


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, float]]:
    """What the budgets were told to follow."""
    told: list[tuple[str, int, float]] = []
    monkeypatch.setattr(
        CountingBudget,
        "follow",
        lambda self, calls, seconds: told.append((self.lane, calls, seconds)),
    )
    return told


def taken(connection: Connection) -> dict[str, int]:
    return {lane: budget.taken for lane, budget in connection.budgets.items()}


def test_the_limit_in_the_headers_is_followed(
    fake: FakeHubSpot, followed: list[tuple[str, int, float]]
) -> None:
    connected(fake).adapter().find_contact(email="ann@x.org")
    assert followed[-1] == ("general", 190, 10.0)


@for_each("value", ["", "0", "-1", "many", "1e3", "\u00b2", "9" * 5000])
def test_a_limit_that_is_none_is_not_followed(
    followed: list[tuple[str, int, float]], value: str
) -> None:
    with wire() as it:
        headers = {"X_HubSpot_RateLimit_Max": value}
        it.give(200, record(), X_HubSpot_RateLimit_Interval_Milliseconds="10000", **headers)
        it.adapter.get_contact("7", [])
    assert followed == []


def test_searches_take_their_turn_apart(fake: FakeHubSpot) -> None:
    connection = connected(fake)
    adapter = connection.adapter()
    adapter.find_contact(phone="+4915112345678")
    assert taken(connection) == {"general": 0, "search": 1, "oauth": 0}
    upsert_contact(adapter, person(email="ann@x.org"))
    assert taken(connection) == {"general": 2, "search": 1, "oauth": 0}


def test_a_search_too_many_stops_only_searches(
    fake: FakeHubSpot, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.fail(429, path="*/search", times=None, body={"policyName": "SECONDLY"})
    connection = connected(fake)
    monkeypatch.setattr("time.sleep", connection.sleep)
    with pytest.raises(Throttled):
        connection.adapter().find_contact(phone="+4915112345678")
    assert connection.budgets["search"].paused == [1.0, 1.0, 1.0]
    assert connection.budgets["general"].paused == []


def test_a_call_too_many_stops_the_others_for_the_window(fake: FakeHubSpot) -> None:
    fake.fail(429, times=None)
    connection = connected(fake)
    with pytest.raises(Throttled):
        connection.adapter().find_contact(email="ann@x.org")
    assert connection.budgets["general"].paused == [10.0]
    assert connection.budgets["search"].paused == []
