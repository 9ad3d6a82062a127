"""Phones on a HubSpot-like CRM: found in every notation, and never somebody else's."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.fakes.hubspot import FakeHubSpot
from crmhub.adapter import Saved, Unavailable
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.matching import Lead
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.hubspot.hubspot_crm import adapted
from tests.adapters.hubspot.hubspot_wire import record, wire
from tests.adapters.leads import person
from tests.loops import for_each

PHONE = "+4915112345678"
NOTATIONS = [
    "+4915112345678", "004915112345678", "4915112345678", "015112345678", "+49 1511 2345678",
    "01511 2345678", "(01511) 234-5678", "+49 (0) 1511 2345678",
]  # fmt: skip
OTHERS = [
    "+4315112345678",
    "+49151123456789",
    "+491511234567",
    "+14915112345678",
    "0151 1234567",
    "015112345679",
    "+49 1511 2345678 ext. 5",
]


@for_each("name", ["phone", "mobilephone"], fresh="fake")
@for_each("stored", NOTATIONS, fresh="fake")
def test_a_phone_is_found_in_every_notation(fake: FakeHubSpot, name: str, stored: str) -> None:
    for other in OTHERS:
        fake.add("contacts", {"firstname": "Decoy", name: other})
    id = fake.add("contacts", {"firstname": "Ann", name: stored})
    found = adapted(fake).find_contact(phone=PHONE, names=["firstname"])
    assert found is not None
    assert (found.id, found.properties) == (id, {"firstname": "Ann"})


def test_the_oldest_is_not_the_one_with_the_smallest_id() -> None:
    with wire() as it:
        older = record("9", phone=PHONE) | {"createdAt": "2020-01-01T00:00:00Z"}
        contacts = [older, record("7", phone=PHONE)]
        it.give(200, {"results": contacts}).give(200, {"results": contacts[::-1]})
        found = it.adapter.find_contact(phone=PHONE)
        assert found is not None
        assert found.id == "9"


def test_a_number_that_was_changed_since_the_search_saw_it_is_not_taken(fake: FakeHubSpot) -> None:
    id = fake.add_contact(firstname="Ann", phone=PHONE)
    fake.search_lag = 30.0
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
    assert upsert_contact(adapted(fake), lead).id == id
    assert fake.contacts[id][names[149]] == "x"


def test_a_hundred_phones_are_searched_together(fake: FakeHubSpot) -> None:
    ids = [fake.add_contact(email=f"p{i}@x.org", phone=f"0151 2345 {i:04d}") for i in range(100)]
    leads = [person(email=f"p{i}@x.org", phone=f"+491512345{i:04d}") for i in range(100)]
    outcomes = upsert_contacts(adapted(fake), leads)
    assert [one.id for one in outcomes if isinstance(one, Saved)] == ids
    assert fake.count("POST", "*/search") <= 5
    assert len(fake.contacts) == 100


def test_a_phone_of_another_contact_is_refused_and_the_rest_stored(fake: FakeHubSpot) -> None:
    other = fake.add_contact(firstname="Bob", phone="01511 2345678")
    id = fake.add_contact(email="ann@x.org", phone="+4915198765432")
    saved = upsert_contact(adapted(fake), person(email="ann@x.org", phone=PHONE, city="Rome"))
    assert (saved.id, [one.name for one in saved.refused]) == (id, ["phone"])
    assert other in saved.refused[0].reason
    assert fake.contacts[id]["phone"] == "+4915198765432"
    assert fake.contacts[id]["city"] == "Rome"


def test_one_behind_more_namesakes_than_a_page_holds_is_found(fake: FakeHubSpot) -> None:
    for i in range(205):
        fake.add_contact(firstname=f"Decoy {i}", phone="+4315112345678")
    id = fake.add_contact(firstname="Ann", phone=PHONE)
    found = adapted(fake).find_contact(phone=PHONE)
    assert found is not None
    assert found.id == id


def test_a_contact_that_was_merged_since_the_search_saw_it_is_found() -> None:
    with wire() as it:
        it.give(200, {"results": [record("7", phone=PHONE)]})
        it.give(200, {"results": [record("99", phone=PHONE)]})
        found = it.adapter.find_contact(phone=PHONE)
        assert found is not None
        assert found.id == "99"


def test_of_a_number_that_thousands_have_one_page_is_searched() -> None:
    """HubSpot refuses the 10,001st result, and its first page has the oldest."""
    with wire() as it:
        page = [record(str(id), phone=PHONE) for id in range(7, 207)]
        it.give(200, {"results": page, "paging": {"next": {"after": "200"}}})
        it.give(200, {"results": page[:100]}).give(200, {"results": page[100:]})
        found = it.adapter.find_contact(phone=PHONE)
        assert found is not None
        assert found.id == "7"
        assert [one.rpartition("/")[2] for one in it.sent] == ["search", "read", "read"]


def test_a_search_goes_on_past_those_of_other_countries() -> None:
    with wire() as it:
        strangers = [record("7", phone="+3315112345678")]
        it.give(200, {"results": strangers, "paging": {"next": {"after": "200"}}})
        it.give(200, {"results": [record("8", phone=PHONE)]})
        it.give(200, {"results": [record("8", phone=PHONE)]})
        found = it.adapter.find_contact(phone=PHONE)
        assert found is not None
        assert found.id == "8"
        assert it.body(1)["after"] == "200"


@for_each(
    "short",
    [
        {"status": "CANCELED"},
        {"status": "PROCESSING"},
        {"status": "COMPLETE", "numErrors": 1, "errors": [{"category": "INTERNAL_ERROR"}]},
    ],
)
def test_a_batch_that_was_not_read_to_its_end_says_of_nobody_that_they_are_gone(
    short: dict[str, Any],
) -> None:
    with wire() as it:
        it.give(200, {"results": [record("7", phone=PHONE)]})
        for _ in range(3):
            it.give(200, {"results": [], **short})
        with pytest.raises(Unavailable):
            it.adapter.find_contact(phone=PHONE)
