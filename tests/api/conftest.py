"""What several modules of the public API's tests need."""

from __future__ import annotations

import pytest

from tests.depth import KINDS


@pytest.fixture(params=KINDS)
def resource(request: pytest.FixtureRequest) -> str:
    """A kind of records: all behave the same."""
    name: str = request.param
    return name
