"""Phones on a HubSpot-like CRM: found in every notation, and never somebody else's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crmhub.adapter import Lead, Saved
from crmhub.fakes.hubspot import FakeHubSpot
from tests.adapters.hubspot_crm import HubSpotCrm, adapted, person

PHONE = "+4915112345678"
NOTATIONS = [
    "+4915112345678",
    "004915112345678",
    "4915112345678",
    "015112345678",
    "+49 1511 2345678",
    "01511 2345678",
    "(01511) 234-5678",
    "+49 (0) 1511 2345678",
]
OTHERS = [
    "+4315112345678",
    "+49151123456789",
    "+491511234567",
    "+14915112345678",
    "0151 1234567",
    "015112345679",
    "+49 1511 2345678 ext. 5",
]


@pytest.fixture
def fake() -> Iterator[FakeHubSpot]:
    with HubSpotCrm() as crm:
        yield crm.fake


@pytest.mark.parametrize("name", ["phone", "mobilephone"])
@pytest.mark.parametrize("stored", NOTATIONS)
def test_a_phone_is_found_in_every_notation(fake: FakeHubSpot, name: str, stored: str) -> None:
    for other in OTHERS:
        fake.add("contacts", {"firstname": "Decoy", name: other})
    id = fake.add("contacts", {"firstname": "Ann", name: stored})
    found = adapted(fake).find_contact(phone=PHONE, names=["firstname"])
    assert found is not None
    assert (found.id, found.properties) == (id, {"firstname": "Ann"})


@pytest.mark.parametrize("other", OTHERS)
def test_a_phone_of_somebody_else_is_not_taken(fake: FakeHubSpot, other: str) -> None:
    fake.add("contacts", {"firstname": "Decoy", "phone": other})
    assert adapted(fake).find_contact(phone=PHONE) is None


def test_of_several_with_a_phone_the_oldest_is_found(fake: FakeHubSpot) -> None:
    oldest, _ = (fake.add_contact(firstname=name, phone=PHONE) for name in ("Ann", "Bob"))
    found = adapted(fake).find_contact(phone=PHONE)
    assert found is not None
    assert found.id == oldest


def test_a_number_that_was_changed_since_the_search_saw_it_is_not_taken(fake: FakeHubSpot) -> None:
    id = fake.add_contact(firstname="Ann", phone=PHONE)
    fake.portal.search_lag = 30.0
    fake.set("contacts", id, phone="+4915199999999")
    assert adapted(fake).find_contact(phone=PHONE) is None


def test_an_account_that_calculates_no_numbers_is_searched_by_what_was_typed(
    fake: FakeHubSpot,
) -> None:
    for name in ("phone", "mobile"):
        del fake.portal.definitions["contacts"][f"hs_searchable_calculated_{name}_number"]
    id = fake.add_contact(firstname="Ann", phone="01511 2345678")
    adapter = adapted(fake)
    found = adapter.find_contact(phone=PHONE)
    assert found is not None
    assert found.id == id
    before = fake.count("POST", "*/search")
    adapter.find_contact(phone=PHONE)
    assert fake.count("POST", "*/search") == before + 1


def test_many_names_make_no_search_too_long(fake: FakeHubSpot) -> None:
    names = [f"a_property_of_a_long_name_{i}" for i in range(150)]
    for name in names:
        fake.define("contacts", name)
    id = fake.add("contacts", {"phone": PHONE, "firstname": "Ann", names[7]: "x"})
    lead = Lead(dict.fromkeys(names, "x") | {"phone": PHONE}, phone=PHONE)
    assert adapted(fake).upsert_contact(lead).id == id
    assert fake.contacts[id][names[149]] == "x"


def test_a_hundred_phones_are_searched_together(fake: FakeHubSpot) -> None:
    ids = [fake.add_contact(email=f"p{i}@x.org", phone=f"0151 2345 {i:04d}") for i in range(100)]
    leads = [person(email=f"p{i}@x.org", phone=f"+491512345{i:04d}") for i in range(100)]
    outcomes = adapted(fake).upsert_contacts(leads)
    assert [one.id for one in outcomes if isinstance(one, Saved)] == ids
    assert fake.count("POST", "*/search") <= 5
    assert len(fake.contacts) == 100


def test_a_phone_of_another_contact_is_refused_and_the_rest_stored(fake: FakeHubSpot) -> None:
    other = fake.add_contact(firstname="Bob", phone="01511 2345678")
    id = fake.add_contact(email="ann@x.org")
    saved = adapted(fake).upsert_contact(person(email="ann@x.org", phone=PHONE, city="Rome"))
    assert (saved.id, [one.name for one in saved.refused]) == (id, ["phone"])
    assert other in saved.refused[0].reason
    assert fake.contacts[id].get("phone") is None
    assert fake.contacts[id]["city"] == "Rome"


def test_one_behind_more_namesakes_than_a_page_holds_is_found(fake: FakeHubSpot) -> None:
    for i in range(205):
        fake.add_contact(firstname=f"Decoy {i}", phone="+4315112345678")
    id = fake.add_contact(firstname="Ann", phone=PHONE)
    found = adapted(fake).find_contact(phone=PHONE)
    assert found is not None
    assert found.id == id
