"""createLead never takes one person for another, on the hub's own records and on a CRM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub.hub import Hub
from crmhub.identity import possible_duplicates
from tests.api.helpers.helper_calls import GET_PROPERTIES, create_lead_answer, stored, switch
from tests.clients import Client, open_client
from tests.fakes import hubspot_client
from tests.pages import total

PHONE, OTHER_PHONE = "+12025550100", "+12025550199"
Json = Any


@dataclass
class Crm:
    """An account on one CRM: its bot, and the contacts seen from behind."""

    app: flask.Flask
    bot: Client
    contact: Callable[[str], Mapping[str, str]]
    count: Callable[[], int]

    def lead(self, token: str, **said: str) -> Json:
        """Call createLead, which must succeed, and return its answer."""
        return create_lead_answer(self.bot, token, **said)

    def pairs(self) -> list[set[str]]:
        """Return the possible duplicates that operators see."""
        hub: Hub = self.app.extensions["crmhub"]
        with hub.database.reading() as connection:
            found = possible_duplicates.listed(connection, self.bot.account, limit=100)
        return [{*one.ids} for one in found]

    def read(self, token: str, *names: str) -> dict[str, str]:
        """Return properties of the conversation's contact."""
        body = {"contactToken": token, "props": list(names)}
        properties: dict[str, str] = self.bot.helper(GET_PROPERTIES, body).json["properties"]  # type: ignore[index]
        return properties


@pytest.fixture(params=["local", "hubspot"])
def crm(app: flask.Flask, request: pytest.FixtureRequest) -> Iterator[Crm]:
    if request.param == "local":
        bot = open_client(app)
        yield Crm(app, bot, lambda id: stored(bot, id), lambda: total(bot))
        return
    with FakeHubSpot(Options(limit="100000/10s", search_limit="none")) as fake:
        bot = hubspot_client(app, fake)
        yield Crm(app, bot, lambda id: fake.contacts[id], lambda: len(fake.contacts))


def test_two_people_with_one_phone_are_two_contacts(crm: Crm) -> None:
    ann = crm.lead("a", name="Ann Lee", email="ann@x.org", phone=PHONE)
    ben = crm.lead("b", name="Ben Ray", email="ben@x.org", phone=PHONE)
    assert (ben["status"], ben["refused"]) == ("created", "")
    assert ann["contactId"] in ben["message"]
    assert crm.pairs() == [{ann["contactId"], ben["contactId"]}]
    assert crm.read("a", "email", "name") == {"email": "ann@x.org", "name": "Ann Lee"}
    assert crm.read("b", "email", "phone") == {"email": "ben@x.org", "phone": PHONE}
    again = crm.lead("a", name="Ann Lee", email="ann@x.org", phone=PHONE)
    assert (again["contactId"], again["status"]) == (ann["contactId"], "unchanged")


def test_ten_people_with_one_new_phone_at_once_are_ten_contacts(crm: Crm) -> None:
    switch(crm.app, crm.bot, deadline_s=25)

    def call(i: int) -> Json:
        return crm.lead(f"t{i}", name=f"Person {i}", email=f"p{i}@x.org", phone=PHONE)

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(call, range(10)))
    assert {answer["status"] for answer in answers} == {"created"}
    listed = {id for pair in crm.pairs() for id in pair}
    assert listed == {answer["contactId"] for answer in answers}
    assert len({answer["contactId"] for answer in answers}) == crm.count() == 10
    for i in range(10):
        assert crm.read(f"t{i}", "email", "lastname") == {
            "email": f"p{i}@x.org",
            "lastname": str(i),
        }


def test_a_corrected_email_of_a_conversation_replaces_the_former_one(crm: Crm) -> None:
    ann = crm.lead("a", name="Ann Lee", email="an@x.org")
    right = crm.lead("a", name="Ann Lee", email="ann@x.org")
    assert (right["contactId"], right["status"]) == (ann["contactId"], "updated")
    back = crm.lead("a", name="Ann Lee", email="an@x.org")
    assert (back["contactId"], back["status"]) == (ann["contactId"], "updated")
    assert crm.contact(ann["contactId"])["email"] == "an@x.org"
    assert crm.count() == 1


def test_a_contact_known_by_phone_alone_gets_the_email(crm: Crm) -> None:
    switch(crm.app, crm.bot, lead_requires="email_or_phone")
    first = crm.lead("a", name="Ann", email="", phone=PHONE)
    later = crm.lead("b", name="Ann Lee", email="ann@x.org", phone=PHONE)
    assert (later["contactId"], later["status"]) == (first["contactId"], "updated")
    third = crm.lead("c", name="Ben Ray", email="ben@x.org", phone=PHONE)
    assert third["status"] == "created"
    assert crm.contact(first["contactId"])["email"] == "ann@x.org"


def test_a_lead_by_phone_alone_is_the_oldest_contact_with_this_phone(crm: Crm) -> None:
    switch(crm.app, crm.bot, lead_requires="email_or_phone")
    ann = crm.lead("a", name="Ann Lee", email="ann@x.org", phone=PHONE)
    crm.lead("b", name="Ben Ray", email="ben@x.org", phone=PHONE)
    known = crm.lead("c", name="Ann", email="", phone=PHONE)
    assert known["contactId"] == ann["contactId"]
    assert crm.contact(ann["contactId"])["email"] == "ann@x.org"


def test_a_conversation_by_a_shared_phone_replaces_nobodys_email(crm: Crm) -> None:
    switch(crm.app, crm.bot, lead_requires="email_or_phone")
    ann = crm.lead("a", name="Ann Lee", email="ann@x.org", phone=PHONE)
    by_phone = crm.lead("b", name="Ann", email="", phone=PHONE)
    assert by_phone["contactId"] == ann["contactId"]
    ben = crm.lead("b", name="Ben Ray", email="ben@x.org", phone=PHONE)
    assert (ben["status"], ben["refused"]) == ("created", "")
    assert ann["contactId"] in ben["message"]
    assert crm.contact(ann["contactId"])["email"] == "ann@x.org"
    assert crm.read("b", "email") == {"email": "ben@x.org"}


@pytest.mark.parametrize("theirs", ["", OTHER_PHONE])
def test_a_phone_of_another_contact_goes_only_to_a_contact_without_a_phone(
    crm: Crm, theirs: str
) -> None:
    ann = crm.lead("a", name="Ann Lee", email="ann@x.org", phone=theirs)
    ben = crm.lead("b", name="Ben Ray", email="ben@x.org", phone=PHONE)
    answer = crm.lead("a", name="Ann Lee", email="ann@x.org", phone=PHONE)
    assert answer["contactId"] == ann["contactId"]
    assert answer["refused"] == ("phone" if theirs else "")
    assert ben["contactId"] in answer["message"]
    assert crm.contact(ann["contactId"])["phone"] == (theirs or PHONE)
    assert crm.contact(ben["contactId"])["phone"] == PHONE


def test_an_email_that_cannot_be_used_gives_nobody_elses_contact_away(crm: Crm) -> None:
    ann = crm.lead("a", name="Ann Lee", email="ann@x.org", phone=PHONE)
    ben = crm.lead("b", name="Ben Ray", email="ben at x", phone=PHONE)
    assert ben["contactId"] != ann["contactId"]
    assert ben["refused"] == "email"
    assert crm.contact(ann["contactId"])["firstname"] == "Ann"


def test_where_the_phone_identifies_it_goes_before_the_conversation(crm: Crm) -> None:
    switch(crm.app, crm.bot, phone_identifies=True)
    ann = crm.lead("a", name="Ann Lee", email="ann@x.org", phone=PHONE)
    crm.lead("b", name="Ben Ray", email="ben@x.org", phone=OTHER_PHONE)
    answer = crm.lead("b", name="Ann Lee", email="new@x.org", phone=PHONE)
    assert (answer["contactId"], answer["refused"]) == (ann["contactId"], "email")
    assert crm.read("b", "email") == {"email": "ann@x.org"}
    corrected = crm.lead("a", name="Ann Lee", email="new@x.org", phone=PHONE)
    assert corrected["refused"] == "email"
    assert crm.contact(ann["contactId"])["email"] == "ann@x.org"


def test_a_conversation_known_by_phone_is_about_the_emails_contact_once_that_is_said(
    crm: Crm,
) -> None:
    switch(crm.app, crm.bot, lead_requires="email_or_phone")
    nameless = crm.lead("a", name="Ann", email="", phone=PHONE)
    ben = crm.lead("b", name="Ben Ray", email="ben@x.org", phone=OTHER_PHONE)
    said = crm.lead("a", name="Ben Ray", email="ben@x.org", phone="")
    assert said["contactId"] == ben["contactId"]
    assert crm.read("a", "email") == {"email": "ben@x.org"}
    assert "email" not in crm.contact(nameless["contactId"])
