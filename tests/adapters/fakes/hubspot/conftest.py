"""A fake HubSpot on a port of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters.fakes.hubspot import FakeHubSpot, Options
from tests.adapters.fakes.hubspot.calls import Api


@pytest.fixture
def fake() -> Iterator[FakeHubSpot]:
    with FakeHubSpot(Options(limit="none", search_limit="none")) as started:
        yield started


@pytest.fixture
def api(fake: FakeHubSpot) -> Iterator[Api]:
    client = Api(fake)
    yield client
    client.session.close()
