"""HubSpot's adapter owes what every adapter owes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters.hubspot import HubSpotAdapter
from crmhub.adapter.testing import AdapterTests, HttpAdapterTests
from tests.adapters.hubspot.hubspot_crm import OAUTH, TOKEN, HubSpotCrm


class _OnHubSpot:
    adapter_class = HubSpotAdapter
    choice = ("hs_lead_status", "OPEN")
    read_only = "createdate"

    @pytest.fixture
    def crm(self) -> Iterator[HubSpotCrm]:
        with HubSpotCrm() as crm:
            yield crm


class TestHubSpot(_OnHubSpot, HttpAdapterTests):
    settings = {"base_url": "{url}"}  # noqa: RUF012
    credentials = TOKEN


class TestHubSpotByOAuth(_OnHubSpot, AdapterTests):
    settings = {"base_url": "{url}", "api_version": "2026-03"}  # noqa: RUF012
    credentials = OAUTH

    @pytest.fixture
    def crm(self) -> Iterator[HubSpotCrm]:
        with HubSpotCrm(rotates=True) as crm:
            yield crm

    @pytest.fixture
    def url(self, crm: HubSpotCrm) -> str:
        return crm.url


class TestHubSpotInVersion3(_OnHubSpot, AdapterTests):
    settings = {"base_url": "{url}", "api_version": "v3"}  # noqa: RUF012
    credentials = TOKEN

    @pytest.fixture
    def url(self, crm: HubSpotCrm) -> str:
        return crm.url


class TestHubSpotWithMarks(_OnHubSpot, AdapterTests):
    settings = {"base_url": "{url}"}  # noqa: RUF012
    credentials = TOKEN

    @pytest.fixture
    def crm(self) -> Iterator[HubSpotCrm]:
        with HubSpotCrm() as crm:
            for kind in ("contacts", "deals", "tickets"):
                crm.fake.define(kind, "crmhub_mark", unique=True)
            yield crm

    @pytest.fixture
    def url(self, crm: HubSpotCrm) -> str:
        return crm.url
