"""crmhub's conformance tests, run on the adapter and a fake of its CRM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from crmhub_acme import AcmeAdapter
from fake_acme import TOKEN, FakeAcme

from adapters.fakes.kit import KitCrm
from crmhub.adapter import Conflict
from crmhub.adapter.testing import HttpAdapterTests


class TestAcme(HttpAdapterTests):
    adapter_class = AcmeAdapter
    settings = {"base_url": "{url}/v1"}
    credentials = {"token": TOKEN}
    choice = ("status", "customer")
    read_only = "created_at"

    @pytest.fixture
    def crm(self) -> Iterator[KitCrm]:
        with KitCrm(FakeAcme(), Conflict) as crm:
            yield crm
