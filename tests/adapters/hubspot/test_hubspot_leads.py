"""Leads on a HubSpot-like CRM: how many calls they cost, and that nobody is made twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

import pytest

from adapters.fakes.hubspot import FakeHubSpot
from crmhub.adapter import Rejected
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.matching import Lead
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.hubspot.hubspot_crm import HubSpotCrm, adapted, calls
from tests.adapters.leads import person
from tests.loops import for_each

PHONE = "+4915112345678"


@pytest.fixture
def fake() -> Iterator[FakeHubSpot]:
    with HubSpotCrm(search_lag=10.0) as crm:
        yield crm.fake


def second_email(fake: FakeHubSpot, contact_id: str, email: str) -> None:
    held = fake.portal.load("contacts", contact_id)
    fake.portal.store(held, {**held.properties, "hs_additional_emails": email})


def test_a_new_lead_costs_two_calls(fake: FakeHubSpot) -> None:
    adapter = adapted(fake)
    upsert_contact(adapter, person(email="first@x.org", mark="crmhub-0"))
    calls(fake)
    upsert_contact(adapter, person(email="ann@x.org", firstname="Ann", mark="crmhub-1"))
    assert calls(fake) == [
        "GET /crm/objects/2026-09/contacts/ann%40x.org",
        "POST /crm/objects/2026-09/contacts",
    ]


def test_a_new_lead_with_a_phone_costs_two_calls(fake: FakeHubSpot) -> None:
    adapter = adapted(fake)
    upsert_contact(adapter, person(email="first@x.org", mark="crmhub-0"))
    calls(fake)
    upsert_contact(adapter, person(email="ann@x.org", phone=PHONE, mark="crmhub-1"))
    assert calls(fake) == [
        "POST /crm/objects/2026-09/contacts/search",
        "POST /crm/objects/2026-09/contacts",
    ]


@for_each("known", ["contact_id", "email_id", "tried_ms", "written_ms"], fresh="fake")
def test_the_email_of_a_lead_that_may_have_a_contact_is_looked_up(
    fake: FakeHubSpot, known: str
) -> None:
    id = fake.add_contact(email="ann@x.org", phone=PHONE)
    value = {known: id if known.endswith("_id") else 1}
    lead = replace(person(email="ann@x.org", phone=PHONE), **value)
    assert upsert_contact(adapted(fake), lead).outcome == "unchanged"
    assert calls(fake) == ["GET /crm/objects/2026-09/contacts/ann%40x.org"]


_HOLDERS_OF_EMAIL = {
    "nobody": None,
    "with-the-phone": {"phone": PHONE},
    "with-another-phone": {"phone": "+4915198765432"},
    "without-phone": {},
}
_HOLDERS_OF_PHONE = {
    "nobody": None,
    "with-another-email": {"email": "ben@x.org"},
    "without-email": {"firstname": "Ben"},
}


@for_each("phone_identifies", [False, True])
@for_each("strict", [False, True])
@for_each(
    ("of_email", "of_phone"),
    [
        *product(_HOLDERS_OF_EMAIL, _HOLDERS_OF_PHONE),
        ("nobody", "with-the-email-as-second"),
    ],
)
def test_a_lead_goes_to_the_same_contact_with_and_without_a_lookup_of_its_email(
    of_email: str, of_phone: str, strict: bool, phone_identifies: bool
) -> None:
    lead = replace(
        person(email="ann@x.org", phone=PHONE, city="Rome", strict=strict),
        phone_identifies=phone_identifies,
    )
    results = []
    for unique in (True, False):
        with HubSpotCrm() as crm:
            if of_phone == "with-the-email-as-second":
                id = crm.fake.add_contact(email="ann@home.org", phone=PHONE)
                second_email(crm.fake, id, "ann@x.org")
            elif (values := _HOLDERS_OF_PHONE[of_phone]) is not None:
                crm.fake.add_contact(phone=PHONE, **values)
            if (values := _HOLDERS_OF_EMAIL[of_email]) is not None:
                crm.fake.add_contact(email="ann@x.org", **values)
            adapter = adapted(crm.fake)
            adapter.unique_emails = unique  # type: ignore[misc]
            result: object
            try:
                result = upsert_contact(adapter, lead)
            except Rejected as exc:
                result = exc.problems
            results.append((result, without_times(crm.fake.contacts)))
    assert results[0] == results[1]


def without_times(contacts: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {
        id: {name: value for name, value in values.items() if "date" not in name}
        for id, values in contacts.items()
    }


def test_a_value_that_only_a_new_contact_needs_does_not_stop_an_update(fake: FakeHubSpot) -> None:
    id = fake.add_contact(email="ann@x.org", company="X")
    fake.require("contacts", "company")
    lead = person(email="ann@x.org", phone=PHONE, city="Rome")
    saved = upsert_contact(adapted(fake), lead)
    assert (saved.id, saved.outcome, fake.contacts[id]["city"]) == (id, "updated", "Rome")
    with pytest.raises(Rejected):
        upsert_contact(adapted(fake), person(email="new@x.org", phone="+4915198765432"))


def test_a_known_lead_costs_two_calls_and_one_when_nothing_changes(fake: FakeHubSpot) -> None:
    id = fake.add_contact(email="ann@x.org", firstname="Ann", city="Rome")
    adapter = adapted(fake)
    changed = upsert_contact(adapter, person(email="ann@x.org", firstname="Anna"))
    assert (changed.outcome, len(calls(fake))) == ("updated", 2)
    same = upsert_contact(adapter, person(email="ann@x.org", firstname="Anna"))
    assert (same.outcome, len(calls(fake))) == ("unchanged", 1)
    assert fake.contacts[id]["city"] == "Rome"


def test_a_known_lead_with_a_new_phone_reads_its_contact_once(fake: FakeHubSpot) -> None:
    id = fake.add_contact(email="ann@x.org", phone="+4915198765432")
    lead = replace(person(email="ann@x.org", phone=PHONE), contact_id=id, phone_id=id)
    assert upsert_contact(adapted(fake), lead).outcome == "updated"
    assert calls(fake) == [
        "GET /crm/objects/2026-09/contacts/ann%40x.org",
        "POST /crm/objects/2026-09/contacts/search",
        f"PATCH /crm/objects/2026-09/contacts/{id}",
    ]
    assert fake.contacts[id]["phone"] == PHONE


def test_values_that_mean_the_same_are_unchanged(fake: FakeHubSpot) -> None:
    fake.define("contacts", "score", "number")
    fake.define("contacts", "vip", "bool")
    fake.add_contact(email="ann@x.org", score="1200.5", vip="true", hs_lead_status="OPEN_DEAL")
    lead = person(email="ann@x.org", score="1,200.50", vip="Yes", hs_lead_status="open deal")
    assert upsert_contact(adapted(fake), lead).outcome == "unchanged"


def test_a_second_email_is_found_and_the_first_one_stays(fake: FakeHubSpot) -> None:
    id = fake.add_contact(email="ann@x.org")
    second_email(fake, id, "ann@home.org")
    saved = upsert_contact(adapted(fake), person(email="ann@home.org", city="Rome"))
    assert (saved.id, saved.outcome) == (id, "updated")
    assert fake.contacts[id]["email"] == "ann@x.org"
    assert fake.contacts[id]["city"] == "Rome"


def test_a_second_email_that_no_read_shows_is_told_by_the_clash(fake: FakeHubSpot) -> None:
    id = fake.add_contact(email="ann@x.org")
    second_email(fake, id, "ann@home.org")
    fake.fail(404, method="GET", path="*ann%40home.org", body={"message": "resource not found"})
    saved = upsert_contact(adapted(fake), person(email="ann@home.org", city="Rome"))
    assert saved.id == id
    assert fake.contacts[id]["email"] == "ann@x.org"
    assert len(fake.contacts) == 1


def test_a_second_email_that_no_read_shows_takes_nobodys_phone(fake: FakeHubSpot) -> None:
    id = fake.add_contact(email="ann@x.org", phone="+4915198765432")
    other = fake.add_contact(email="ben@x.org", phone=PHONE)
    second_email(fake, id, "ann@home.org")
    fake.fail(404, method="GET", path="*ann%40home.org", body={"message": "resource not found"})
    saved = upsert_contact(adapted(fake), person(email="ann@home.org", phone=PHONE, city="Rome"))
    assert (saved.id, [one.name for one in saved.refused]) == (id, ["phone"])
    assert fake.contacts[id]["city"] == "Rome"
    assert fake.contacts[id]["phone"] == "+4915198765432"
    assert fake.contacts[other]["phone"] == PHONE


def test_a_second_email_of_the_conversations_contact_replaces_the_first_one_never(
    fake: FakeHubSpot,
) -> None:
    id = fake.add_contact(email="ann@x.org")
    second_email(fake, id, "ann@home.org")
    for city in ("Rome", "Oslo"):
        fake.fail(404, method="GET", path="*ann%40home.org", body={"message": "resource not found"})
        lead = person(email="ann@home.org", city=city, contact_id=id)
        saved = upsert_contact(adapted(fake), lead)
        assert (saved.id, saved.outcome, saved.refused) == (id, "updated", ())
        assert fake.contacts[id]["email"] == "ann@x.org"
        assert fake.contacts[id]["city"] == city


def test_a_second_email_among_many_leads_is_told_by_the_clash(fake: FakeHubSpot) -> None:
    id = fake.add_contact(email="ann@x.org")
    second_email(fake, id, "ann@home.org")
    leads = [person(email="ann@home.org", city="Rome"), person(email="new@x.org")]
    outcomes = [getattr(one, "outcome", one) for one in upsert_contacts(adapted(fake), leads)]
    assert outcomes == ["updated", "created"]
    assert fake.contacts[id]["email"] == "ann@x.org"


def test_an_archived_contact_is_made_anew(fake: FakeHubSpot) -> None:
    old = fake.add_contact(email="ann@x.org")
    fake.delete("contacts", old)
    saved = upsert_contact(adapted(fake), person(email="ann@x.org", contact_id=old))
    assert saved.outcome == "created"
    assert saved.id != old


@for_each("stored", ["+49 1511 2345678", "01511 2345678"], fresh="fake")
def test_a_phone_that_is_stored_in_another_notation_is_known_by_the_hub(
    fake: FakeHubSpot, stored: str
) -> None:
    adapter = adapted(fake)
    first = upsert_contact(adapter, person(phone=PHONE, firstname="Ann"))
    fake.set("contacts", first.id, phone=stored)
    lead = Lead({"phone": PHONE, "firstname": "Ann"}, phone=PHONE, phone_id=first.id)
    assert upsert_contact(adapter, lead).id == first.id
    assert len(fake.contacts) == 1


@for_each("held", ["customer", "opportunity"], fresh="fake")
def test_a_step_back_in_the_life_cycle_is_refused_by_name(fake: FakeHubSpot, held: str) -> None:
    id = fake.add_contact(email="ann@x.org", lifecyclestage=held)
    lead = person(email="ann@x.org", lifecyclestage="Lead", city="Rome")
    for saved in (
        upsert_contact(adapted(fake), lead),
        upsert_contacts(adapted(fake), [lead, person(email="b@x.org")])[0],
        adapted(fake).update_contact(id, {"lifecyclestage": "lead"}),
    ):
        assert [one.name for one in getattr(saved, "refused", ())] == ["lifecyclestage"]
    assert fake.contacts[id]["lifecyclestage"] == held
    assert adapted(fake).update_contact(id, {"lifecyclestage": "lead"}).outcome == "unchanged"
    assert fake.contacts[id]["city"] == "Rome"


def test_a_strict_lead_with_a_step_back_is_rejected_as_a_whole(fake: FakeHubSpot) -> None:
    id = fake.add_contact(email="ann@x.org", lifecyclestage="customer")
    lead = person(email="ann@x.org", lifecyclestage="lead", city="Rome", strict=True)
    with pytest.raises(Rejected) as caught:
        upsert_contact(adapted(fake), lead)
    assert [one.name for one in caught.value.problems] == ["lifecyclestage"]
    assert "city" not in fake.contacts[id]


def test_a_step_forward_in_the_life_cycle_is_taken(fake: FakeHubSpot) -> None:
    id = fake.add_contact(email="ann@x.org", lifecyclestage="lead")
    saved = upsert_contact(adapted(fake), person(email="ann@x.org", lifecyclestage="Customer"))
    assert (saved.outcome, saved.refused) == ("updated", ())
    assert fake.contacts[id]["lifecyclestage"] == "customer"


def test_a_phone_alone_is_the_name_until_there_is_one(fake: FakeHubSpot) -> None:
    crm = adapted(fake)
    lead = Lead({"phone": "+4915112345678"}, phone="+4915112345678")
    saved = upsert_contact(crm, lead)
    assert saved.outcome == "created"
    assert fake.contacts[saved.id]["firstname"] == "+4915112345678"
    named = Lead({**lead.properties, "firstname": "Ann"}, phone=lead.phone, contact_id=saved.id)
    assert upsert_contact(crm, named).id == saved.id
    assert fake.contacts[saved.id]["firstname"] == "Ann"


def test_a_phone_alone_that_is_wrong_is_refused_by_name(fake: FakeHubSpot) -> None:
    with pytest.raises(Rejected) as refused:
        adapted(fake).create_contact({"phone": "+4915112345678", "lifecyclestage": "no such"})
    assert "lifecyclestage" in {problem.name for problem in refused.value.problems}
    assert not fake.contacts
