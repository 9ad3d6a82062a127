"""A phone is one number as a whole: no text with more in it finds, joins or changes a contact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from tests.api.helpers.helper_calls import (
    GET_PROPERTIES,
    GET_TYPE,
    SET_PROPERTIES,
    create_lead_answer,
    stored,
    switch,
)
from tests.clients import Client, open_client
from tests.fakes import hubspot_client

OWNER = "+493012345678"
NUMBER = "+34600111222"
NO_NUMBER = [
    "493012345678@lid",
    "493012345678@g.us",
    "493012345678@newsletter",
    "493012345678@broadcast",
    "Mobile: +493012345678",
    "+493012345678 (home)",
    "https://example.com/493012345678",
    "4.93012345678E+11",
    "4,93012E+11",
    "+493012345678, +493012345679",
    "+4930123456/78",
    "+493012345678\n+493012345679",
]
# The same number as NUMBER, but never as good as it.
WORSE = ["34600111222", "0034600111222", "34600111222@c.us", "wa.me/34600111222", "34 600 111 222"]


@dataclass
class Crm:
    """An account on one CRM: its bot, the contacts as the CRM has them, and its writes."""

    app: flask.Flask
    bot: Client
    contact: Callable[[str], Mapping[str, str]]
    enter: Callable[[dict[str, str]], str]

    def lead(self, token: str, **said: Any) -> Any:
        """Call createLead, which must succeed, and return its answer."""
        return create_lead_answer(self.bot, token, **{"email": f"{token}@x.org", **said})

    def set(self, token: str, **props: str) -> Any:
        """Call setProperties and return its answer."""
        return self.bot.helper(SET_PROPERTIES, {"contactToken": token, "props": props}).json

    def read(self, token: str, name: str) -> Any:
        """Return a property of the conversation's contact."""
        body = {"contactToken": token, "props": [name]}
        return self.bot.helper(GET_PROPERTIES, body).json["properties"][name]  # type: ignore[index]


@pytest.fixture(params=["local", "hubspot"])
def crm(app: flask.Flask, request: pytest.FixtureRequest) -> Iterator[Crm]:
    if request.param == "local":
        bot = open_client(app)
        yield Crm(app, bot, lambda id: stored(bot, id), lambda props: str(bot.make(**props)))
        return
    with FakeHubSpot(Options(limit="100000/10s", search_limit="none")) as fake:

        def enter(props: dict[str, str]) -> str:
            return str(fake.add("contacts", props))

        yield Crm(app, hubspot_client(app, fake), lambda id: fake.contacts[id], enter)


def test_a_text_with_more_than_a_number_is_refused_and_finds_no_contact(crm: Crm) -> None:
    owner = crm.enter({"firstname": "Owner", "phone": OWNER, "address": "Hidden Street 1"})
    for i, text in enumerate(NO_NUMBER):
        answer = crm.lead(f"t{i}", phone=text)
        assert (answer["status"], answer["refused"]) == ("created", "phone"), text
        assert not crm.contact(answer["contactId"]).get("phone"), text
        assert crm.read(f"t{i}", "address") == "", text
        assert crm.set(f"t{i}", mobilephone=text, city="Rome")["refused"] == "mobilephone", text
        body = {"contactnumber": text, "interval": 1, "lastChatInterval": 0}
        reason = crm.bot.helper(GET_TYPE, body).json["reason"]  # type: ignore[index]
        assert "is not a possible phone number" in reason, text
    assert crm.contact(owner)["phone"] == OWNER


def test_the_extension_belongs_to_the_number(crm: Crm) -> None:
    for i, phone in enumerate([f"{OWNER}12", OWNER, f"{OWNER} ext. 13"]):
        crm.enter({"firstname": f"Owner {i}", "phone": phone, "address": f"Hidden Street {i}"})
    clerk = crm.lead("clerk", phone="+49 30 12345678 ext. 12")
    assert (clerk["status"], clerk["refused"], clerk["message"]) == ("created", "", "")
    assert crm.read("clerk", "address") == ""
    assert crm.contact(clerk["contactId"])["phone"] == f"{OWNER} ext. 12"


def test_an_extension_is_the_same_in_any_notation(crm: Crm) -> None:
    switch(crm.app, crm.bot, lead_requires="email_or_phone")
    first = crm.lead("a", phone="+49 30 12345678 ext. 12")["contactId"]
    for i, text in enumerate(["0049 30 12345678 x12", "tel:+493012345678;ext=12"]):
        answer = crm.lead(f"b{i}", email="", phone=text)
        assert answer["contactId"] == first, text
    assert crm.lead("c", email="", phone="+49 30 12345678 ext. 13")["contactId"] != first


def test_a_known_number_is_never_made_worse(crm: Crm) -> None:
    contact_id = crm.lead("t", phone=NUMBER)["contactId"]
    for region in ("", "DE", "ES"):
        switch(crm.app, crm.bot, region=region)
        for text in WORSE:
            assert crm.lead("t", phone=text)["status"] == "unchanged", (region, text)
            assert crm.set("t", phone=text)["refused"] == "", (region, text)
            assert crm.contact(contact_id)["phone"] == NUMBER, (region, text)
    assert crm.set("t", phone="+49 34600 111222")["status"] == "updated"
    assert crm.contact(contact_id)["phone"] == "+4934600111222"


def test_bare_digits_are_the_number_that_a_contact_has_with_its_country(crm: Crm) -> None:
    switch(crm.app, crm.bot, lead_requires="email_or_phone")
    for i, (known, bare) in enumerate(
        (
            (NUMBER, "34600111222"),
            ("+525512345678", "5215512345678"),
            ("+525512345679", "525512345679"),
            ("+5511987654321", "551187654321"),
            ("+5491166773388", "541166773388"),
        )
    ):
        owner = crm.enter({"firstname": "Owner", "phone": known})
        answer = crm.lead(f"t{i}", email="", phone=bare)
        assert answer["contactId"] == owner, bare
        assert crm.contact(owner)["phone"] == known, bare


def test_bare_digits_are_found_as_they_were_stored(crm: Crm) -> None:
    switch(crm.app, crm.bot, lead_requires="email_or_phone")
    for i, bare in enumerate(("34600111222", "2025550123", "600111222")):
        first = crm.lead(f"a{i}", phone=bare)["contactId"]
        again = crm.lead(f"b{i}", email="", phone=bare)
        assert (again["contactId"], again["status"]) == (first, "unchanged"), bare


def test_a_number_without_its_country_is_made_better(crm: Crm) -> None:
    contact_id = crm.lead("t", phone="34600111222")["contactId"]
    assert crm.contact(contact_id)["phone"] == "34600111222"
    assert crm.lead("t", phone="0034 600 111 222")["status"] == "updated"
    assert crm.contact(contact_id)["phone"] == NUMBER


def test_both_forms_of_an_argentine_number_are_one(crm: Crm) -> None:
    switch(crm.app, crm.bot, lead_requires="email_or_phone", region="AR")
    forms = ["+54 11 %s-3399", "54911%s3399@c.us", "0 11 15 %s-3399", "+54 9 11 %s 3399"]
    for line, first in (("6677", 0), ("6678", 1)):
        first_text, *others = [form % line for form in forms[first:] + forms[:first]]
        contact_id = crm.lead(line, phone=first_text)["contactId"]
        phone = crm.contact(contact_id)["phone"]
        for i, text in enumerate(others):
            answer = crm.lead(f"{line}{i}", email="", phone=text)
            assert (answer["contactId"], answer["status"]) == (contact_id, "unchanged"), text
        assert crm.contact(contact_id)["phone"] == phone


def test_the_digits_of_a_foreign_mobile_are_its_number_in_every_region(crm: Crm) -> None:
    for n, region in enumerate(["BR", "IN", "AE", "DE", "MX"]):
        switch(crm.app, crm.bot, lead_requires="email_or_phone", region=region)
        first = crm.lead(f"{region}1", phone=f"+1202555010{n}")["contactId"]
        assert crm.lead(f"{region}2", email="", phone=f"1202555010{n}")["contactId"] == first
        assert crm.contact(first)["phone"] == f"+1202555010{n}"


def test_a_foreigner_is_not_taken_for_who_has_the_same_digits_in_the_region(crm: Crm) -> None:
    switch(crm.app, crm.bot, lead_requires="email_or_phone", region="MX", phone_identifies="true")
    owner = crm.lead("a", phone="646 555 0123")["contactId"]
    assert crm.contact(owner)["phone"] == "+526465550123"
    assert crm.lead("b", email="", phone="16465550123")["contactId"] != owner


def test_two_zeros_are_a_plus(crm: Crm) -> None:
    contact_id = crm.lead("t", phone="0034600111222")["contactId"]
    assert crm.contact(contact_id)["phone"] == NUMBER


# --- the public API ------------------------------------------------------------------------------


@pytest.fixture
def client(app: flask.Flask) -> Client:
    return open_client(app)


def test_the_api_refuses_a_text_that_is_no_number_by_name(client: Client) -> None:
    id = client.make(phone=NUMBER, email="ada@x.org")
    for text in NO_NUMBER:
        properties = {"phone": text}
        upsert = {"idProperty": "email", "id": "ada@x.org", "properties": properties}
        for answer in (
            client.post("/contacts", {"properties": properties}),
            client.patch(f"/contacts/{id}", {"properties": properties}),
            client.post("/contacts/batch/create", {"inputs": [{"properties": properties}]}),
            client.post(
                "/contacts/batch/update", {"inputs": [{"id": id, "properties": properties}]}
            ),
            client.post("/contacts/batch/upsert", {"inputs": [upsert]}),
        ):
            assert answer.status_code == 422, text
            assert "phone: " in answer.json["message"], text  # type: ignore[index]
    assert stored(client, str(id))["phone"] == NUMBER


def test_no_write_of_the_api_makes_a_known_number_worse(app: flask.Flask, client: Client) -> None:
    id = client.make(phone=NUMBER, email="ada@x.org")
    before = client.get(f"/contacts/{id}").json["updatedAt"]  # type: ignore[index]
    for region in ("", "DE"):
        switch(app, client, region=region)
        for text in WORSE:
            properties = {"phone": text}
            upsert = {"idProperty": "email", "id": "ada@x.org", "properties": properties}
            change = {"id": id, "properties": properties}
            for answer in (
                client.patch(f"/contacts/{id}", {"properties": properties}),
                client.post("/contacts/batch/update", {"inputs": [change]}),
                client.post("/contacts/batch/update?partial=true", {"inputs": [change]}),
                client.post("/contacts/batch/upsert", {"inputs": [upsert]}),
                client.post("/contacts/batch/upsert?partial=true", {"inputs": [upsert]}),
            ):
                assert answer.status_code == 200, answer.text
            record = client.get(f"/contacts/{id}").json
            assert record["properties"]["phone"] == NUMBER, text  # type: ignore[index]
            assert record["updatedAt"] == before, text  # type: ignore[index]


def _found(client: Client, operator: str, text: str) -> list[int]:
    wanted = {"values": [text]} if operator == "IN" else {"value": text}
    filters = [{"propertyName": "phone", "operator": operator, **wanted}]
    results = client.post("/contacts/search", {"filters": filters}).json["results"]  # type: ignore[index]
    return [one["id"] for one in results]


def test_a_search_finds_a_number_in_any_notation_and_nobody_by_other_texts(client: Client) -> None:
    spanish, argentine = client.make(phone=NUMBER), client.make(phone="+54 11 6677-3399")
    extension = client.make(phone="+34 600 111 222 x7")
    for operator in ("EQ", "IN"):
        for text in ["0034600111222", "+34 600 111 222", "34600111222@c.us", "tel:+34600111222"]:
            assert _found(client, operator, text) == [spanish], text
        for text in ["+34600111222 ext. 7", "0034600111222;ext=7"]:
            assert _found(client, operator, text) == [extension], text
        assert _found(client, operator, "5491166773399@c.us") == [argentine]
        for text in ["34600111222@lid", "Mobile: +34600111222", "3.4600111222E+10"]:
            assert _found(client, operator, text) == [], text
