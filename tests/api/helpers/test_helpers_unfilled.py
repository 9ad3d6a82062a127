"""What a builder did not fill in identifies nobody and overwrites nothing, whatever the helper."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from crmhub.hub import Hub
from tests.admin import open_admin
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_LEAD,
    CREATE_TICKET,
    GET_PROPERTIES,
    GET_RANDOM_INT,
    GET_TYPE,
    SET_PROPERTIES,
    known,
    lead,
    stored,
    switch,
)
from tests.clients import Client
from tests.fakes import FakeCrm
from tests.pages import total
from tests.queue.working import rows

# What calls look like; what they store is tested on each database by test_helpers_create_lead.py.
pytestmark = [pytest.mark.usefixtures("fakes"), pytest.mark.databases("sqlite")]


PHONE = "+12025550100"
JUNK = ["0", "-", "123456", "1111111111", "+1 (000) 000-0000", "undefined", "{{phone}}", "@phone"]


def _set(client: Client, **props: Any) -> Any:
    return client.helper(SET_PROPERTIES, {"contactToken": "t", "props": props}).json


def _type(client: Client, number: Any = PHONE) -> Any:
    return client.helper(GET_TYPE, {"contactnumber": number, "interval": 48, "lastChatInterval": 0})


# --- createLead ---------------------------------------------------------------------------------


def test_a_key_that_is_not_filled_in_is_422(client: Client) -> None:
    for key in ["contactToken", "name", "email"]:
        for text in [
            "{{x}}", "{x}", "%x%", "${x}", "@{x}", "[[x]]", "$contact.x", "¿·@x·?", "undefined",
        ]:  # fmt: skip
            body = {"contactToken": "t", "name": "Ann Lee", "email": "ann@x.org", key: text}
            answer = client.helper(CREATE_LEAD, body)
            assert answer.status_code == 422, key
            assert f"{key}: the builder sent {text} instead" in answer.json["message"]  # type: ignore[index]
            assert total(client) == 0, key


@pytest.mark.parametrize(
    "token", [0, "-", "N/A", "@x", "[x]", "<x>", "NULL", "chat-{{id}}", "messenger:undefined"]
)
def test_no_two_people_share_a_token_that_is_not_filled_in(client: Client, token: Any) -> None:
    known(client)
    for path, body in (
        (CREATE_LEAD, {"name": "Ben", "email": "ben@x.org"}),
        (GET_PROPERTIES, {"props": ["email"]}),
        (SET_PROPERTIES, {"props": {"city": "Rome"}}),
    ):
        answer = client.helper(path, {"contactToken": token, **body})
        assert (answer.status_code, str(token) in answer.json["message"]) == (422, True)  # type: ignore[index]
    assert total(client) == 1


@pytest.mark.parametrize("phone", JUNK)
def test_a_phone_that_is_no_number_is_nobodys_and_named(client: Client, phone: str) -> None:
    ann = lead(client, "t", phone=phone).json
    ben = lead(client, "u", name="Ben", email="ben@x.org", phone=phone).json
    for answer in (ann, ben):
        assert (answer["status"], answer["refused"]) == ("created", "phone")  # type: ignore[index]
        assert answer["message"].startswith("phone: ")  # type: ignore[index]
        assert "phone" not in stored(client, answer["contactId"])  # type: ignore[index]


def test_a_phone_that_is_no_number_is_never_looked_up(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    crm.contacts["c-0"] = {"phone": "0"}
    assert lead(bot, phone="0").json["contactId"] != "c-0"
    assert rows(hub, bot, "phone", "binding") == [(None,)]


def test_a_lead_by_phone_alone_needs_a_possible_number(app: flask.Flask, client: Client) -> None:
    switch(app, client, lead_requires="email_or_phone")
    for phone in JUNK:
        answer = lead(client, name=None, email=None, phone=phone)
        assert (answer.status_code, "phone: " in answer.json["message"]) == (422, True)  # type: ignore[index]
    assert total(client) == 0
    assert lead(client, phone="0").json["refused"] == "phone"  # type: ignore[index]


DUMMIES = ["0", "-", "N/A", "n/a", ".", "--", "???", "null", "none", "NONE", "12345", "0 0", "- -"]


def test_a_dummy_is_no_name(client: Client) -> None:
    contact_id = known(client, name="Ada King")
    for text in DUMMIES:
        answer = lead(client, name=text)
        assert answer.status_code == 422, text
        assert f"name: the builder sent {text} instead" in answer.json["message"]  # type: ignore[index]
        for key in ("name", "firstname", "lastname"):
            assert _set(client, **{key: text}, city="Rome")["refused"] == key, text
    kept = stored(client, contact_id)
    assert (kept["firstname"], kept["lastname"]) == ("Ada", "King")


def test_half_a_name_leaves_the_other_half_as_it_was(client: Client) -> None:
    contact_id = known(client, name="Ada King")
    known(client, name="{{first}} Lovelace")
    known(client, name="Augusta {{last}}")
    assert _set(client, name="Ada {{last}}")["refused"] == ""
    names = stored(client, contact_id)
    assert (names["firstname"], names["lastname"]) == ("Ada", "Lovelace")
    assert _set(client, name="{{name}}", city="Rome")["refused"] == "name"
    assert stored(client, contact_id)["firstname"] == "Ada"


def test_half_a_name_does_not_replace_a_whole_one(
    app: flask.Flask, bot: Client, crm: FakeCrm
) -> None:
    rules = {"contacts": {"name": {"to": "lastname"}}}
    path = f"/accounts/{bot.account.client_id}/field-map"
    assert open_admin(app).put(path, rules).status_code == 200
    known(bot, name="Ada {{last}}")
    assert crm.contacts["c-1"]["lastname"] == "Ada"
    known(bot, name="Ada Lovelace")
    known(bot, name="{{first}} King", city="Rome")
    answer = _set(bot, name="Ada {{last}}", city="Rome")
    assert (answer["status"], answer["refused"]) == ("updated", "name")
    assert crm.contacts["c-1"]["lastname"] == "Ada Lovelace"


# --- properties ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["phone", "mobilephone"])
def test_a_phone_among_properties_follows_the_rule_of_phones(client: Client, name: str) -> None:
    contact_id = known(client, phone=PHONE)
    for junk in JUNK:
        answer = _set(client, **{name: junk, "city": "Rome"})
        assert answer["refused"] == name, junk
    assert _set(client, **{name: "0151 12345678"})["refused"] == ""
    assert stored(client, contact_id)[name] == "0151 12345678"
    assert _set(client, **{name: ""})["refused"] == ""
    assert name not in stored(client, contact_id)


@pytest.mark.parametrize(
    "text", ["{{city}}", "null", "None", "[object Object]", "in {{city}}", "Hi {name}!", "{}"]
)
def test_a_property_that_is_not_filled_in_overwrites_nothing(client: Client, text: str) -> None:
    contact_id = known(client)
    _set(client, city="Rome")
    answer = _set(client, city=text, zip="1")
    assert (answer["status"], answer["refused"]) == ("updated", "city")
    assert "the builder sent" in answer["message"]
    assert stored(client, contact_id)["city"] == "Rome"


FREE = ["<b>bold</b>", "50% of x and 20% off", '{"a": 1}', "a{2}", "price $5.50", "[sic]",
        "I like {} and <3", "0", "-", "N/A", "@ada", "undefined behaviour", "NULL"]  # fmt: skip


def test_a_text_that_holds_such_characters_is_stored_as_it_is(client: Client) -> None:
    contact_id = known(client)
    for text in FREE:
        assert _set(client, city=text)["refused"] == ""
        assert stored(client, contact_id)["city"] == text
        ticket = client.helper(
            CREATE_TICKET,
            {"contactId": contact_id, "properties": {"subject": "S", "content": text}},
        ).json
        assert ticket["refused"] == ""  # type: ignore[index]
        kept = client.get(f"/tickets/{ticket['ticketId']}").json["properties"]  # type: ignore[index]
        assert kept["content"] == text


@pytest.mark.parametrize("path", [CREATE_DEAL, CREATE_TICKET])
def test_a_property_of_a_record_that_is_not_filled_in_is_left_out(
    client: Client, path: str
) -> None:
    title, free = ("dealname", "description") if path == CREATE_DEAL else ("subject", "content")
    properties = {title: "Fine", free: "It is {{problem}}", "amount_text": "undefined"}
    answer = client.helper(path, {"contactId": known(client), "properties": properties}).json
    assert answer["status"] == "created"  # type: ignore[index]
    assert set(answer["refused"].split(",")) == {free, "amount_text"}  # type: ignore[index]


@pytest.mark.parametrize("contact_id", [0, "-", "N/A", "@id", "[id]", "{{contactId}}", "none"])
def test_no_record_is_made_for_an_id_that_is_not_filled_in(client: Client, contact_id: Any) -> None:
    for path, properties in ((CREATE_DEAL, {"dealname": "D"}), (CREATE_TICKET, {"subject": "S"})):
        answer = client.helper(path, {"contactId": contact_id, "properties": properties})
        assert (answer.status_code, "contactId: " in answer.json["message"]) == (422, True)  # type: ignore[index]


def test_names_that_are_not_filled_in_are_not_asked_for(
    app: flask.Flask, client: Client, fake: tuple[Client, FakeCrm]
) -> None:
    known(client)
    body = {"contactToken": "t", "props": ["{{prop}}", "email", "undefined"]}
    answer = client.helper(GET_PROPERTIES, body).json
    assert answer["refused"] == "{{prop}},undefined"  # type: ignore[index]
    assert answer["message"].startswith("{{prop}}: the builder sent {{prop}}")  # type: ignore[index]
    values = {"{{prop}}": "", "email": "ann@x.org", "undefined": ""}
    assert answer["properties"] == values  # type: ignore[index]
    assert answer["missing"] == ""  # type: ignore[index]
    answer = client.helper(GET_PROPERTIES, body | {"props": ["{{prop}}"]})  # type: ignore[assignment]
    assert (answer.status_code, "props: " in answer.json["message"]) == (422, True)  # type: ignore[union-attr,index]


# --- getType, getRandomInt, Idempotency-Key -----------------------------------------------------


@pytest.mark.parametrize("number", ["{{phone}}", "+1{{phone}}", "undefined", "$contact.phone"])
def test_a_number_that_is_not_filled_in_is_422(client: Client, number: str) -> None:
    answer = _type(client, number)
    assert answer.status_code == 422
    assert f"contactnumber: the builder sent {number}" in answer.json["message"]


@pytest.mark.parametrize("number", [0, "00", "-", "123", "+1 (000) 000-0000", "n/a"])
def test_a_number_that_is_nobodys_is_a_reason_without_a_call(
    bot: Client, crm: FakeCrm, number: Any
) -> None:
    answer = _type(bot, number)
    assert (answer.status_code, answer.json["workflowId"], answer.json["stale"]) == (200, "", "")
    assert answer.json["reason"].startswith(f'"{number}" is not a possible phone number')
    assert crm.calls == []


@pytest.mark.parametrize("key", ["contactId", "contactToken"])
@pytest.mark.parametrize("text", ["0", "-", "@x", "chat-{{id}}", "null"])
def test_nobody_keeps_a_number_under_what_is_not_filled_in(
    app: flask.Flask, client: Client, key: str, text: str
) -> None:
    switch(app, client, rotation="round_robin+sticky")
    answer = client.helper(GET_RANDOM_INT, {"min": 1, "max": 3, key: text})
    assert (answer.status_code, f"{key}: " in answer.json["message"]) == (422, True)  # type: ignore[index]


@pytest.mark.parametrize("key", ["{{id}}", "deal-{{id}}", "undefined", "0", "@id"])
def test_a_key_of_a_call_that_is_not_filled_in_counts_as_none(client: Client, key: str) -> None:
    contact_id = known(client)
    answers = [
        client.helper(
            CREATE_DEAL,
            {"contactId": contact_id, "properties": {"dealname": name}},
            headers={"Idempotency-Key": key},
        ).json
        for name in ("A", "B")
    ]
    assert [answer["status"] for answer in answers] == ["created", "created"]  # type: ignore[index]


def test_a_key_that_ends_with_a_zero_is_one(client: Client) -> None:
    contact_id = known(client)
    statuses = [
        client.helper(
            CREATE_DEAL,
            {"contactId": contact_id, "properties": {"dealname": name}},
            headers={"Idempotency-Key": "row:0"},
        ).status_code
        for name in ("A", "B")
    ]
    assert statuses == [200, 422]
