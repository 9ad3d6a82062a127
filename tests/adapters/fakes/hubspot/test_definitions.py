"""The fake's definitions, pipelines, owners and account."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.fakes.hubspot.calls import Api

_PROPERTIES = "/crm/properties/2026-09"
_PIPELINES = "/crm/pipelines/2026-09"
_MARK = {
    "name": "crmhub_mark",
    "label": "Mark",
    "type": "string",
    "fieldType": "text",
    "groupName": "dealinformation",
    "hasUniqueValue": True,
}


@pytest.mark.parametrize("kind", ["contacts", "deals", "tickets", "companies"])
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


def test_a_property_can_be_defined_used_and_archived(api: Api) -> None:
    made = api.post(f"{_PROPERTIES}/deals", _MARK)
    assert (made.status_code, made.json()["hubspotDefined"]) == (201, False)
    assert api.create("deals", crmhub_mark="m1").status_code == 201
    assert api("DELETE", f"{_PROPERTIES}/deals/crmhub_mark").status_code == 204
    assert api.get(f"{_PROPERTIES}/deals/crmhub_mark").status_code == 404
    archived = api.get(f"{_PROPERTIES}/deals", archived="true").json()["results"]
    assert [one["name"] for one in archived] == ["crmhub_mark"]


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Upper Case"},
        {"groupName": "nonsense"},
        {"type": "number", "fieldType": "checkbox"},
        {"type": "enumeration", "fieldType": "select", "hasUniqueValue": False},
        {"type": "date", "fieldType": "date"},
        {"type": "json"},
        {"hubspotDefined": True},
    ],
)
def test_a_wrong_definition_is_refused(api: Api, change: dict[str, Any]) -> None:
    assert api.post(f"{_PROPERTIES}/deals", {**_MARK, **change}).status_code == 400


def test_ten_properties_may_be_unique(api: Api) -> None:
    made = [
        api.post(f"{_PROPERTIES}/deals", {**_MARK, "name": f"mark{number}"}).status_code
        for number in range(11)
    ]
    assert made == [201] * 10 + [400]


def test_new_options_replace_the_old_ones(api: Api) -> None:
    option = {"label": "Now", "value": "NOW", "displayOrder": 0, "hidden": False}
    path = f"{_PROPERTIES}/tickets/hs_ticket_priority"
    changed = api("PATCH", path, json={"options": [option]}).json()
    assert [one["value"] for one in changed["options"]] == ["NOW"]
    made = api.create("tickets", subject="?", hs_pipeline_stage="1", hs_ticket_priority="LOW")
    assert made.status_code == 400


def test_sensitive_definitions_are_told_when_asked_for(api: Api) -> None:
    made = {**_MARK, "name": "iban", "dataSensitivity": "sensitive"}
    path = f"{_PROPERTIES}/deals"
    assert api.post(path, made).status_code == 201
    listed = [
        api.get(f"{path}{how}").json()["results"] for how in ("", "?dataSensitivity=sensitive")
    ]
    assert ["iban" in {one["name"] for one in found} for found in listed] == [False, True]
    assert api.get(f"{path}/iban").status_code == 404
    assert api.get(f"{path}/iban?dataSensitivity=sensitive").status_code == 200


def test_sensitive_values_need_scopes_of_their_own(api: Api) -> None:
    made = {**_MARK, "name": "iban", "dataSensitivity": "sensitive"}
    api.post(f"{_PROPERTIES}/deals", made)
    refused = api.create("deals", dealname="A", iban="DE0")
    assert (refused.status_code, refused.json()["category"]) == (403, "MISSING_SCOPES")
    [said] = refused.json()["errors"]
    scopes = ["crm.objects.deals.sensitive.write.v2"]
    assert said["context"]["requiredGranularScopes"] == scopes
    granted = {"scopes": ["crm.objects.deals.write", *scopes]}
    assert api.post("/_control/settings", granted).status_code == 200
    assert api.create("deals", dealname="A", iban="DE0").status_code == 201


def test_the_pipelines_that_an_account_begins_with(api: Api) -> None:
    deals, tickets = (
        api.get(f"{_PIPELINES}/{kind}").json()["results"] for kind in ("deals", "tickets")
    )
    assert (deals[0]["id"], tickets[0]["id"]) == ("default", "0")
    assert deals[0]["stages"][5]["metadata"] == {"isClosed": "true", "probability": "1.0"}
    assert [one["metadata"]["ticketState"] for one in tickets[0]["stages"]][-1] == "CLOSED"
    assert api.get(f"{_PIPELINES}/contacts").json()["results"] == []


def test_a_stage_can_be_added_used_and_then_not_deleted(api: Api) -> None:
    path = f"{_PIPELINES}/tickets/0/stages"
    body = {
        "stageId": "5",
        "label": "Later",
        "displayOrder": 5,
        "metadata": {"ticketState": "OPEN"},
    }
    assert api.post(path, body).status_code == 201
    assert api.create("tickets", subject="?", hs_pipeline_stage="5").status_code == 201
    refused = api("DELETE", f"{path}/5?validateReferencesBeforeDelete=true")
    assert refused.status_code == 400
    assert api("DELETE", f"{path}/5").status_code == 204


def test_a_pipeline_can_be_renamed_and_archived(api: Api) -> None:
    changed = api("PATCH", f"{_PIPELINES}/deals/default", json={"label": "Ventas"}).json()
    assert changed["label"] == "Ventas"
    api("PATCH", f"{_PIPELINES}/deals/default", json={"archived": True})
    assert api.create("deals", pipeline="default").status_code == 400
    assert api.get(f"{_PIPELINES}/deals/nonsense").status_code == 404


def test_owners_by_address_and_by_id(api: Api) -> None:
    path = "/crm/owners/2026-09"
    one = api.get(path, email="lise@example.com").json()["results"][0]
    assert (one["id"], one["userId"]) == ("60158084", 9586517)
    assert api.get(f"{path}/60158084").json()["email"] == "lise@example.com"
    assert api.get(f"{path}/9586517", idProperty="userId").json()["id"] == "60158084"
    assert api.get(f"{path}/1").status_code == 404


def test_owners_are_paged_and_those_who_left_are_apart(api: Api) -> None:
    path = "/crm/owners/2026-09"
    first = api.get(path, limit=1).json()
    second = api.get(path, limit=1, after=first["paging"]["next"]["after"]).json()
    assert len(first["results"] + second["results"]) == 2
    assert "paging" not in second
    assert len(api.get(path, archived="true").json()["results"]) == 1


@pytest.mark.parametrize("version", ["2026-09", "2026-03", "v3"])
def test_the_account_says_what_it_is(api: Api, version: str) -> None:
    found = api.get(f"/account-info/{version}/details").json()
    assert (found["portalId"], found["companyCurrency"]) == (62515, "USD")
