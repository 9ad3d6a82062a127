"""A fake Zoho CRM for each test, and an adapter that talks to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters.fakes.zoho import FakeZoho
from crmhub.adapter import Adapter
from tests.adapters.zoho.zoho_crm import ZohoCrm, adapted


@pytest.fixture
def crm() -> Iterator[ZohoCrm]:
    with ZohoCrm() as crm:
        yield crm


@pytest.fixture
def fake(crm: ZohoCrm) -> FakeZoho:
    fake: FakeZoho = crm.fake
    return fake


@pytest.fixture
def adapter(fake: FakeZoho) -> Adapter:
    return adapted(fake)
