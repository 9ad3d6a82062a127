"""A REST CRM without marks, definitions and pipelines passes the conformance tests."""

# ruff: noqa: RUF012 (class attributes as an author would write them)

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters.fakes.kit import KitCrm
from crmhub.adapter import Conflict
from crmhub.adapter.testing import HttpAdapterTests
from tests.adapter.peoplebase_adapter import PeoplebaseAdapter
from tests.adapter.peoplebase_crm import TOKEN, FakePeoplebase
from tests.depth import ALL


class TestPeoplebase(HttpAdapterTests):
    adapter_class = PeoplebaseAdapter
    settings = {"base_url": "{url}/v1"}
    credentials = {"token": TOKEN}
    text = "notes"
    text2 = "full_name"
    read_only = "created_at"
    details = {"deals": ("amount", "1250"), "tickets": ("hs_pipeline_stage", "pending")}
    paging = r'per_page"?[=:] ?([0-9]+)'
    every_request = ALL
    xfail = {
        "test_of_two_alike_each_is_found_by_its_own_mark": "Peoplebase has no room for marks",
        "test_a_change_to_nothing_clears_the_property": "each person has a name",
        "test_names_that_are_asked_for_come_back_unless_they_are_unknown": "each has a name",
    }

    @pytest.fixture
    def crm(self) -> Iterator[KitCrm]:
        with KitCrm(FakePeoplebase(), Conflict) as crm:
            yield crm
