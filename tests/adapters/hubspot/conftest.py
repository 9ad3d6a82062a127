"""A fake HubSpot without limits for each test, and an adapter that talks to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters.fakes.hubspot import FakeHubSpot
from adapters.hubspot import HubSpotAdapter
from tests.adapters.hubspot.hubspot_crm import HubSpotCrm, adapted


@pytest.fixture
def crm() -> Iterator[HubSpotCrm]:
    with HubSpotCrm() as crm:
        yield crm


@pytest.fixture
def fake(crm: HubSpotCrm) -> FakeHubSpot:
    fake: FakeHubSpot = crm.fake
    return fake


@pytest.fixture
def adapter(fake: FakeHubSpot) -> HubSpotAdapter:
    return adapted(fake)
