"""The decision which contact a lead means, case by case."""

from __future__ import annotations

from dataclasses import replace

from crmhub.adapter import Contact
from crmhub.adapter.matching import Duplicate, Found, Lead, decide
from tests.loops import for_each

PHONE, OTHER_PHONE = "+12025550100", "+12025550199"
SAID = {"email": "ann@x.org", "phone": PHONE, "firstname": "Ann", "lastname": "Lee"}
LEAD = Lead(SAID, email="ann@x.org", phone=PHONE)
BY_PHONE_ONLY = Lead({"phone": PHONE, "firstname": "Ann"}, phone=PHONE)


def contact(id: str, **properties: str) -> Contact:
    return Contact(id, properties)


def but(*names: str) -> dict[str, str]:
    return {name: value for name, value in SAID.items() if name not in names}


ANN = contact("ann", email="ann@x.org")
TALKED = contact("talked", email="former@x.org")
BEN = contact("ben", email="ben@x.org", phone=PHONE, firstname="Ben", lastname="Ray")
NOBODY = contact("nobody", phone=PHONE)
SHARED = Duplicate("ben", ("phone",))


@for_each(
    ("found", "meant", "written", "refused", "duplicate"),
    [
        (Found(), None, SAID, [], None),
        (Found(by_email=ANN), ANN, but("email"), [], None),
        (Found(by_conversation=TALKED), TALKED, SAID, [], None),
        (Found(ANN, TALKED), ANN, but("email"), [], None),
        (Found(by_phone=NOBODY), NOBODY, SAID, [], None),
        (Found(by_phone=BEN), None, SAID, [], SHARED),
        (Found(by_email=ANN, by_phone=BEN), ANN, but("email"), [], SHARED),
        (Found(by_conversation=TALKED, by_phone=BEN), TALKED, SAID, [], SHARED),
        (Found(by_email=BEN, by_phone=BEN), BEN, but("email"), [], None),
    ],
)
def test_the_first_contact_that_is_found_decides(
    found: Found,
    meant: Contact | None,
    written: dict[str, str],
    refused: list[str],
    duplicate: Duplicate | None,
) -> None:
    match = decide(LEAD, found)
    assert (match.contact, match.properties) == (meant, written)
    assert ([one.name for one in match.refused], match.duplicate) == (refused, duplicate)


def test_a_contact_with_a_phone_keeps_it_when_the_new_one_belongs_to_another() -> None:
    for found in (
        Found(by_email=replace(ANN, properties={"phone": OTHER_PHONE}), by_phone=BEN),
        Found(by_conversation=replace(TALKED, properties={"phone": OTHER_PHONE}), by_phone=BEN),
    ):
        match = decide(LEAD, found)
        assert "phone" not in match.properties
        assert [one.name for one in match.refused] == ["phone"]
        assert match.duplicate is None


def test_people_who_share_a_name_and_a_phone_share_both() -> None:
    namesake = contact("other", email="a@x.org", phone=PHONE, firstname="ANN", lastname="Lee")
    assert decide(LEAD, Found(by_phone=namesake)).duplicate == Duplicate("other", ("phone", "name"))


def test_a_lead_whose_email_cannot_be_used_means_nobody_with_an_email() -> None:
    lead = replace(BY_PHONE_ONLY, by_phone_alone=False)
    assert decide(lead, Found(by_phone=BEN)).contact is None
    assert decide(lead, Found(by_phone=NOBODY)).contact is NOBODY
    email_refused_by_the_crm = replace(BY_PHONE_ONLY, email="ann@x.org")
    assert decide(email_refused_by_the_crm, Found(by_phone=BEN)).contact is None


def test_a_phone_that_identifies_goes_before_the_conversation_and_not_before_the_email() -> None:
    lead = replace(LEAD, phone_identifies=True)
    match = decide(lead, Found(by_conversation=TALKED, by_phone=BEN))
    assert (match.contact, match.properties) == (BEN, but("email"))
    assert [one.name for one in match.refused] == ["email"]
    assert decide(lead, Found(by_conversation=TALKED, by_phone=NOBODY)).properties == SAID
    assert decide(lead, Found(by_email=ANN, by_phone=BEN)).contact is ANN


def test_a_conversation_known_by_its_phone_alone_corrects_nobodys_email() -> None:
    lead = replace(LEAD, talked_by_phone=True)
    shared_phone = decide(lead, Found(by_conversation=BEN, by_phone=BEN))
    assert (shared_phone.contact, shared_phone.duplicate) == (None, SHARED)
    assert decide(lead, Found(by_conversation=TALKED)).contact is None
    assert decide(lead, Found(by_conversation=NOBODY)).properties == SAID
    no_email = replace(BY_PHONE_ONLY, talked_by_phone=True)
    assert decide(no_email, Found(by_conversation=BEN)).contact is BEN
