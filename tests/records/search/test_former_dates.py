"""Index rows of earlier versions, whose time of change is missing or old."""

from __future__ import annotations

import pytest

from crmhub.hub import Hub
from tests.clients import Client
from tests.records.times import set_former_dates, set_times


@pytest.mark.parametrize("behind", [False, True])
def test_records_are_sorted_by_their_own_time_of_change(
    client: Client, hub: Hub, behind: bool
) -> None:
    changed, *others = (client.make(city="Rome") for _ in range(3))
    set_times(hub, client, "contacts", [changed, *others], [(3, 9), (3, 7), (3, 8)])
    set_former_dates(hub, client, [changed], behind=behind)
    one = {"propertyName": "city", "operator": "EQ", "value": "Rome"}
    page = client.post("/contacts/search", {"filters": [one], "limit": 1}).json
    assert [each["id"] for each in page["results"]] == [changed]
