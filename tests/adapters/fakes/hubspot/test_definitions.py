"""The fake's definitions, pipelines, owners and account."""

from __future__ import annotations

import pytest

from tests.adapters.fakes.hubspot.calls import Api

_PROPERTIES = "/crm/properties/2026-09"
_PIPELINES = "/crm/pipelines/2026-09"


@pytest.mark.parametrize("kind", ["contacts", "deals", "tickets"])
def test_every_definition_has_what_the_reference_demands(api: Api, kind: str) -> None:
    results = api.get(f"{_PROPERTIES}/{kind}").json()["results"]
    needed = {"name", "label", "type", "fieldType", "groupName", "description", "options"}
    assert len(results) > 10
    assert all(needed <= one.keys() for one in results)


def test_references_have_no_options_in_their_definition(api: Api) -> None:
    names = [
        ("contacts", "hubspot_owner_id"),
        ("deals", "dealstage"),
        ("deals", "pipeline"),
        ("tickets", "hs_pipeline"),
        ("tickets", "hs_pipeline_stage"),
    ]
    found = [api.get(f"{_PROPERTIES}/{kind}/{name}").json() for kind, name in names]
    assert all(one["externalOptions"] and one["options"] == [] for one in found)


def test_the_pipelines_that_an_account_begins_with(api: Api) -> None:
    deals, tickets = (
        api.get(f"{_PIPELINES}/{kind}").json()["results"] for kind in ("deals", "tickets")
    )
    assert (deals[0]["id"], tickets[0]["id"]) == ("default", "0")
    assert deals[0]["stages"][5]["metadata"] == {"isClosed": "true", "probability": "1.0"}
    assert [one["metadata"]["ticketState"] for one in tickets[0]["stages"]][-1] == "CLOSED"
    assert api.get(f"{_PIPELINES}/contacts").json()["results"] == []


def test_owners_are_paged_and_those_who_left_are_apart(api: Api) -> None:
    path = "/crm/owners/2026-09"
    first = api.get(path, limit=1).json()
    second = api.get(path, limit=1, after=first["paging"]["next"]["after"]).json()
    assert len(first["results"] + second["results"]) == 2
    assert "paging" not in second


@pytest.mark.parametrize("version", ["2026-09", "2026-03", "v3"])
def test_the_account_says_what_it_is(api: Api, version: str) -> None:
    found = api.get(f"/account-info/{version}/details").json()
    assert (found["portalId"], found["companyCurrency"]) == (62515, "USD")
