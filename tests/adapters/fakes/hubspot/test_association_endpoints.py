"""The fake's association endpoints: linking afterwards, reading, and batches."""

from __future__ import annotations

import pytest

from tests.adapters.fakes.hubspot.calls import Api

_TYPE_3 = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": 3}


@pytest.fixture
def pair(api: Api) -> tuple[str, str]:
    """A deal and a contact that are not linked yet."""
    return api.fake.add("deals", {"dealname": "x"}), api.fake.add_contact(firstname="Ada")


def test_two_records_are_linked_by_a_type_and_unlinked(api: Api, pair: tuple[str, str]) -> None:
    deal, contact = pair
    path = f"deals/{deal}/associations/contacts/{contact}"
    assert api("PUT", path, json=[_TYPE_3]).status_code == 201
    assert api.fake.linked("deals", deal, "contacts") == [contact]
    assert api("DELETE", path).status_code == 204
    assert api.fake.linked("contacts", contact, "deals") == []


def test_a_type_of_the_other_direction_is_refused(api: Api, pair: tuple[str, str]) -> None:
    deal, contact = pair
    path = f"contacts/{contact}/associations/deals/{deal}"
    answer = api("PUT", path, json=[_TYPE_3])
    assert answer.status_code == 400
    assert answer.json()["context"]["INVALID_OBJECT_IDS"] == [deal]


def test_a_target_that_is_not_there(api: Api, pair: tuple[str, str]) -> None:
    path = f"deals/{pair[0]}/associations/default/contacts/{pair[0]}"
    assert api("PUT", path).json()["context"]["INVALID_OBJECT_IDS"] == [pair[0]]


def test_a_records_links_are_paged(api: Api) -> None:
    contact = api.fake.add_contact(firstname="Ada")
    deals = [api.fake.add("deals", {"dealname": str(n)}, contacts=[contact]) for n in range(3)]
    path = f"contacts/{contact}/associations/deals"
    first = api.get(path, limit=2).json()
    second = api.get(path, limit=2, after=first["paging"]["next"]["after"]).json()
    assert [one["toObjectId"] for one in first["results"] + second["results"]] == deals
    assert first["results"][0]["associationTypes"][0]["typeId"] == 4


def test_links_of_several_records_in_one_call(api: Api, pair: tuple[str, str]) -> None:
    deal, contact = pair
    path = "/crm/associations/2026-09/deals/contacts/batch"
    ends = {"from": {"id": deal}, "to": {"id": contact}}
    assert api.post(f"{path}/associate/default", {"inputs": [ends]}).status_code == 200
    read = api.post(f"{path}/read", {"inputs": [{"id": deal}, {"id": "999"}]})
    assert read.status_code == 207
    assert read.json()["results"][0]["to"][0]["toObjectId"] == contact
    gone = {"inputs": [{"from": {"id": deal}, "to": [{"id": contact}]}]}
    assert api.post(f"{path}/archive", gone).status_code == 200
    assert api.fake.linked("deals", deal, "contacts") == []


def test_a_primary_company_is_a_company_too(api: Api) -> None:
    contact = api.fake.add_contact(firstname="Ada")
    company = api.create("companies", name="Engines").json()["id"]
    types = [{"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": 1}]
    inputs = [{"from": {"id": contact}, "to": {"id": company}, "types": types}]
    path = "/crm/associations/2026-09/contacts/companies/batch/create"
    assert api.post(path, {"inputs": inputs}).status_code == 201
    found = api.get(f"contacts/{contact}", associations="companies").json()["associations"]
    names = [one["type"] for one in found["companies"]["results"]]
    assert names == ["contact_to_company", "contact_to_company_unlabeled"]
