"""A fake Pipedrive for each test, and an adapter that talks to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crmhub.adapter import Adapter
from tests.adapters.pipedrive.pipedrive_crm import PipedriveCrm, connected


@pytest.fixture
def crm() -> Iterator[PipedriveCrm]:
    with PipedriveCrm() as crm:
        yield crm


@pytest.fixture
def adapter(crm: PipedriveCrm) -> Adapter:
    return connected(crm.fake).adapter()
