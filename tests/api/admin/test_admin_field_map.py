"""/admin/v1/…/field-map: bots' names and values become the CRM's, and come back as theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.accounts.directory import Directory
from crmhub.adapter import Unavailable
from crmhub.hub import Hub
from tests.admin import Admin, open_admin
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_TICKET,
    GET_PROPERTIES,
    SET_PROPERTIES,
    known,
    lead,
    stored,
    switch,
)
from tests.api.refusals import refused
from tests.clients import Client
from tests.fakes import BATCHING, FAKE, FakeCrm, adapters, fake_client, hubspot_client
from tests.queue.working import hurry, rows, soon, states, working

Json = Any
AWAY = Unavailable("no route")
# Of the fake CRM, which knows the names of `tests.fakes.KNOWN` alone.
TOPIC = {"topic": {"to": "city", "values": {"Sales": "s-1", "Support": "s-2"}}}


@pytest.fixture
def app(app: flask.Flask) -> Iterator[flask.Flask]:
    with adapters(app, FAKE, BATCHING):
        yield app


@pytest.fixture
def hubspot() -> Iterator[FakeHubSpot]:
    with FakeHubSpot() as fake:
        yield fake


def path(client: Client) -> str:
    return f"/accounts/{client.account.client_id}/field-map"


def put(admin: Admin, client: Client, query: str = "", /, **kinds: Json) -> Any:
    return admin.put(path(client) + query, kinds)


def set_map(admin: Admin, client: Client, **kinds: Json) -> Json:
    answer = put(admin, client, **kinds)
    assert answer.status_code == 200, answer.text
    return answer.get_json()


def read(client: Client, *names: str) -> Json:
    return client.helper(GET_PROPERTIES, {"contactToken": "t", "props": [*names]}).get_json()


def write(client: Client, **props: Json) -> Any:
    return client.helper(SET_PROPERTIES, {"contactToken": "t", "props": props})


def deal(client: Client, contact_id: str, /, **properties: Json) -> Any:
    return client.helper(CREATE_DEAL, {"contactId": contact_id, "properties": properties})


# --- both ways ---------------------------------------------------------------------------------


def test_what_is_written_by_the_bots_names_is_read_by_them(
    admin: Admin, bot: Client, crm: FakeCrm
) -> None:
    set_map(admin, bot, contacts=TOPIC)
    contact_id = known(bot)
    assert write(bot, topic="Sales").status_code == 200
    assert crm.contacts[contact_id]["city"] == "s-1"
    assert "topic" not in crm.contacts[contact_id]
    answer = read(bot, "topic", "firstname", "colour")
    assert answer["properties"] == {"topic": "Sales", "firstname": "Ann", "colour": ""}
    assert answer["missing"] == "colour"
    # What is not in the table passes as it is, of several each is looked up, and blank clears.
    for sent, held in (("Other", "Other"), ("Support;Other;Sales", "s-2;Other;s-1"), ("", "")):
        write(bot, topic=sent)
        assert crm.contacts[contact_id]["city"] == held
        assert read(bot, "topic")["topic"] == sent


def test_two_names_may_change_places(admin: Admin, bot: Client, crm: FakeCrm) -> None:
    swapped = {"firstname": "lastname", "lastname": {"to": "firstname", "values": {"a": "b"}}}
    set_map(admin, bot, contacts=swapped | {"city": {"values": {"a": "b", "b": "a"}}})
    contact_id = known(bot, name="Ann Lee")
    assert crm.contacts[contact_id]["lastname"] == "Ann"
    write(bot, lastname="a", city="b")
    assert (crm.contacts[contact_id]["firstname"], crm.contacts[contact_id]["city"]) == ("b", "a")
    assert read(bot, "name", "city")["properties"] == {"name": "Ann a", "city": "b"}


@pytest.mark.parametrize("rule", ["lastname", {"to": "lastname"}])
def test_a_name_may_go_as_a_whole(admin: Admin, bot: Client, crm: FakeCrm, rule: Json) -> None:
    set_map(admin, bot, contacts={"name": rule})
    contact_id = known(bot, name=" Ann  Maria Lee ")
    assert crm.contacts[contact_id]["lastname"] == "Ann Maria Lee"
    assert "firstname" not in crm.contacts[contact_id]
    write(bot, name="Ann Smith")
    assert crm.contacts[contact_id]["lastname"] == "Ann Smith"
    assert read(bot, "name")["properties"] == {"name": "Ann Smith"}


def test_what_the_crm_refuses_is_named_as_bots_call_it(admin: Admin, bot: Client) -> None:
    set_map(admin, bot, contacts={"topic": "chat_topic"}, deals={"stage": "dealstage"})
    contact_id = known(bot)
    answer = write(bot, topic="x", city="Rome").get_json()
    assert (answer["status"], answer["refused"]) == ("updated", "topic")
    assert "chat_topic" not in answer["message"]
    # The CRM's own name of a property that a rule leads to is no second way to it.
    made = deal(bot, contact_id, dealname="A", stage="1", dealstage="2").get_json()
    assert made.get("message", "").startswith("dealstage: the field map writes stage to this")


def test_constants_go_with_leads_and_deals_and_not_with_properties(
    admin: Admin, bot: Client, crm: FakeCrm
) -> None:
    set_map(
        admin,
        bot,
        contacts={"city": {"constant": "Rome"}, "lastname": {"constant": "-", "set": "empty"}},
        deals={
            "dealname": {"constant": "From the chat", "set": "empty"},
            "stage": {"to": "dealstage", "constant": "new", "values": {"new": "17"}},
        },
    )
    contact_id = known(bot, name="Ann")
    assert (crm.contacts[contact_id]["city"], crm.contacts[contact_id]["lastname"]) == ("Rome", "-")
    write(bot, city="Oslo", lastname="Lee")
    assert crm.contacts[contact_id]["city"] == "Oslo"
    known(bot, name="Ann")
    assert crm.contacts[contact_id]["city"] == "Rome"
    assert crm.contacts[contact_id]["lastname"] == "Lee"
    assert deal(bot, contact_id, stage="other").status_code == 200
    assert crm.linked[0][2] == {"dealname": "From the chat", "dealstage": "17"}
    assert deal(bot, contact_id, dealname="Mine").status_code == 200
    assert crm.linked[1][2]["dealname"] == "Mine"


def test_a_constant_that_the_crm_refuses_sinks_no_lead(
    admin: Admin, bot: Client, crm: FakeCrm
) -> None:
    set_map(admin, bot, contacts={"source": {"to": "lead_source", "constant": "chat"}})
    answer = lead(bot).get_json()
    assert (answer["status"], answer["refused"]) == ("created", "source")
    assert len(crm.contacts) == 1


def test_the_last_known_values_have_the_bots_names(admin: Admin, bot: Client, crm: FakeCrm) -> None:
    set_map(admin, bot, contacts=TOPIC)
    known(bot)
    write(bot, topic="Sales")
    crm.failure = AWAY
    answer = read(bot, "topic")
    assert (answer["stale"], answer["topic"]) == ("true", "Sales")


def test_the_same_deal_again_is_the_first_one_whatever_the_map(
    admin: Admin, bot: Client, crm: FakeCrm
) -> None:
    contact_id = known(bot)
    first = deal(bot, contact_id, dealname="A", stage="1").get_json()
    set_map(admin, bot, deals={"stage": {"to": "dealstage", "constant": "9"}})
    again = deal(bot, contact_id, dealname="A", stage="1").get_json()
    assert (again["status"], again["dealId"]) == ("unchanged", first["dealId"])
    assert len(crm.linked) == 1


# --- later tries and other CRMs ----------------------------------------------------------------


@pytest.mark.parametrize("adapter", ["fake", "batching"])
def test_what_waits_is_mapped_anew_at_each_try(
    app: flask.Flask, hub: Hub, admin: Admin, adapter: str
) -> None:
    client, crm = fake_client(app, adapter)
    set_map(admin, client, contacts={"topic": {"to": "nothing", "constant": "Sales"}})
    crm.failure = AWAY
    assert lead(client).status_code == 202
    assert lead(client, "u", email="bob@x.org").status_code == 202
    crm.failure = None
    set_map(admin, client, contacts={"topic": {**TOPIC["topic"], "constant": "Sales"}})
    with working(hub):
        soon(lambda: hurry(hub, client) or states(hub, client) == ["done"] * 2, seconds=60)
    assert {one["city"] for one in crm.contacts.values()} == {"s-1"}
    shown = admin.get(f"/actions?account={client.account.client_id}").get_json()["results"]
    full = admin.get(f"/actions/{shown[0]['actionId']}").get_json()
    assert full["request"]["name"] == "Ann Lee"
    assert (full["mapped"]["city"], "topic" in full["mapped"]) == ("s-1", False)


def test_another_crm_starts_without_a_map_and_the_former_keeps_its_own(
    app: flask.Flask, hub: Hub, admin: Admin, bot: Client, crm: FakeCrm
) -> None:
    set_map(admin, bot, contacts={"topic": {"to": "city", "constant": "x"}})
    same = {"adapter": "fake", "settings": dict(bot.account.connection.settings)}
    connection = f"/accounts/{bot.account.client_id}/connection"
    assert admin.put(connection, same).status_code == 200
    assert admin.get(path(bot)).get_json()["contacts"]["topic"]["constant"] == "x"
    crm.failure = AWAY
    assert lead(bot).status_code == 202
    crm.failure = None
    answer = admin.put(connection, {"adapter": "local", "queued": "finish"})
    assert answer.status_code == 200, answer.text
    assert admin.get(path(bot)).get_json() == {"contacts": {}, "deals": {}, "tickets": {}}
    with working(hub):
        soon(lambda: hurry(hub, bot) or states(hub, bot) == ["done"], seconds=60)
    (kept,) = crm.contacts.values()
    assert kept["city"] == "x"


def test_a_map_is_known_to_other_processes_within_a_second(
    hub: Hub, admin: Admin, client: Client
) -> None:
    elsewhere = Directory(hub.database, hub.plans)
    client_id = client.account.client_id
    assert not elsewhere.by_client_id(client_id).connection.field_map  # type: ignore[union-attr]
    set_map(admin, client, contacts={"topic": "city"})

    def known_there() -> bool:
        found = elsewhere.by_client_id(client_id)
        return found is not None and bool(found.connection.field_map)

    soon(known_there, seconds=1)
    elsewhere.close()


# --- checked before it is saved ----------------------------------------------------------------


def test_a_map_is_held_against_what_local_has(admin: Admin, client: Client) -> None:
    wrong = {
        "contacts": {
            "topic": "citty",
            "kind": {"to": "lifecyclestage", "values": {"New": "Lead", "Old": "gone"}},
            "made": "createdate",
        },
        "deals": {"dealstage": {"values": {"won": "closedwon", "lost": "closed"}}},
        "tickets": {"hs_ticket_priority": {"constant": "soon"}},
    }
    message = refused(put(admin, client, **wrong), 422)
    assert message.startswith("Nothing was saved: contacts.topic.to: contacts have no property")
    assert "citty in the CRM; did you mean city?" in message
    assert "contacts.kind.values.Old: lifecyclestage of the CRM does not accept" in message
    assert "contacts.kind.values.New: the CRM stores it as lead; use that" in message
    assert "contacts.made.to: the CRM sets createdate itself" in message
    assert "deals.dealstage.values.lost: dealstage of the CRM does not accept it" in message
    assert "tickets.hs_ticket_priority.constant: " in message
    assert "closedwon:" not in message
    assert admin.get(path(client)).get_json()["contacts"] == {}
    assert put(admin, client, "?check=false", **wrong).get_json()["notes"] == []


def test_a_map_works_on_local(admin: Admin, client: Client) -> None:
    saved = set_map(
        admin,
        client,
        contacts={"topic": "jobtitle"},
        deals={"stage": {"to": "dealstage", "values": {"won": "closedwon"}}},
    )
    assert saved["contacts"] == {"topic": {"to": "jobtitle"}}
    assert [one["path"] for one in saved["notes"]] == ["contacts.topic", "deals.stage"]
    contact_id = known(client)
    write(client, topic="Sales")
    assert stored(client, contact_id)["jobtitle"] == "Sales"
    made = deal(client, contact_id, dealname="A", stage="won").get_json()
    properties = client.get(f"/deals/{made['dealId']}").json["properties"]  # type: ignore[index]
    assert properties["dealstage"] == "closedwon"


def test_a_map_works_on_hubspot(app: flask.Flask, admin: Admin, hubspot: FakeHubSpot) -> None:
    client = hubspot_client(app, hubspot)
    bad = put(
        admin,
        client,
        contacts={"topic": "jobtitel", "hs": {"to": "hs_object_id"}},
        deals={"dealstage": {"values": {"won": "no-such-stage"}}, "pipeline": {"constant": "9"}},
    )
    message = refused(bad, 422)
    assert "did you mean jobtitle?" in message
    assert "contacts.hs.to: the CRM sets hs_object_id itself" in message
    assert "deals.dealstage.values.won: dealstage of the CRM does not accept it" in message
    assert "deals.pipeline.constant: pipeline of the CRM does not accept it" in message
    set_map(
        admin,
        client,
        contacts={
            "topic": {"to": "jobtitle", "values": {"Sales": "sales-team"}},
            "lifecyclestage": {"constant": "lead", "set": "empty"},
        },
        deals={"dealstage": {"values": {"won": "closedwon"}}},
        tickets={"urgency": {"to": "hs_ticket_priority", "values": {"now": "URGENT"}}},
    )
    contact_id = known(client, email="mapped@x.org")
    write(client, topic="Sales")
    assert hubspot.contacts[contact_id]["jobtitle"] == "sales-team"
    assert hubspot.contacts[contact_id]["lifecyclestage"] == "lead"
    assert read(client, "topic", "name")["properties"] == {"topic": "Sales", "name": "Ann Lee"}
    made = deal(client, contact_id, dealname="A", dealstage="won").get_json()
    assert hubspot.deals[made["dealId"]]["dealstage"] == "closedwon"
    ticket = {"contactId": contact_id, "properties": {"subject": "B", "urgency": "now"}}
    told = client.helper(CREATE_TICKET, ticket).get_json()
    assert hubspot.tickets[told["ticketId"]]["hs_ticket_priority"] == "URGENT"
    wrong = deal(client, contact_id, dealname="B", dealstage="17")
    assert "dealstage: " in refused(wrong, 422)
    # A customer stays one, although each lead says what a new contact is to be.
    write(client, lifecyclestage="customer")
    known(client, email="mapped@x.org")
    assert hubspot.contacts[contact_id]["lifecyclestage"] == "customer"


def test_a_crm_that_is_away_cannot_be_held_against(admin: Admin, app: flask.Flask) -> None:
    with FakeHubSpot() as gone:
        client = hubspot_client(app, gone)
    message = refused(put(admin, client, contacts={"topic": "jobtitle"}), 422)
    assert message.startswith("Nothing was saved, because the check failed: Couldn't read")
    assert put(admin, client, "?check=false", contacts={"topic": "jobtitle"}).status_code == 200
    preview = admin.post(
        f"{path(client)}/preview", {"helper": "setProperties", "properties": {"topic": "x"}}
    ).get_json()
    assert preview["sent"][0]["name"] == "jobtitle"
    assert preview["note"].startswith("What the CRM would refuse is not known: ")


def test_an_adapter_that_describes_nothing_gets_a_note(admin: Admin, bot: Client) -> None:
    saved = set_map(admin, bot, contacts={"city": "anything"})
    assert saved["notes"] == [
        {
            "path": "contacts",
            "message": "The Fake adapter cannot list properties. Whether the CRM's names are right"
            " was not checked",
        }
    ]


@pytest.mark.databases("sqlite")
def test_a_map_that_makes_no_sense_is_422(admin: Admin, client: Client) -> None:
    for kinds, words in [
        ({"contacts": {"a": "city", "b": "city"}}, "contacts.b.to: a also goes to the CRM's city"),
        ({"contacts": {"a": "city", "city": {"constant": "x"}}}, "contacts.city.to: a also goes"),
        ({"contacts": {"email": "mail"}}, "contacts.email: email identifies contacts"),
        ({"contacts": {"phone": {"constant": "1"}}}, "contacts.phone: phone identifies contacts"),
        ({"contacts": {"mail2": "email"}}, "contacts.mail2.to: email already goes"),
        (
            {"contacts": {"a": {"values": {"Yes": "y", "Ja": "y"}}}},
            "contacts.a.values: Yes and Ja both become y, so getProperties could not tell",
        ),
        ({"contacts": {"a": {}}}, "contacts.a: the rule is empty"),
        ({"contacts": {"a": {"to": " "}}}, "contacts.a.to: this is not a property name"),
        ({"contacts": {"": "a"}}, "contacts.: this is not a property name"),
        ({"contacts": {"a": {"constant": ""}}}, "contacts.a.constant: the value is blank"),
        ({"contacts": {"a": {"values": {"x": " "}}}}, "contacts.a.values.x: the value is blank"),
        (
            {"contacts": {"a": {"values": {" ": "x"}}}},
            "contacts.a.values: a bot's value is blank",
        ),
        ({"deals": {"a": {"to": "b", "set": "empty"}}}, "deals.a.set: set needs a constant"),
        ({"deals": {f"p{i}": "q" for i in range(501)}}, "deals: 501 rules; give at most 500"),
    ]:
        for query in ("", "?check=false"):
            assert words in refused(put(admin, client, query, **kinds), 422)
        assert admin.get(path(client)).get_json()["contacts"] == {}, kinds


def test_several_values_of_deals_may_become_one(admin: Admin, bot: Client, crm: FakeCrm) -> None:
    set_map(admin, bot, deals={"dealstage": {"values": {"hot": "17", "warm": "17"}}})
    deal(bot, known(bot), dealname="A", dealstage="warm")
    assert crm.linked[0][2]["dealstage"] == "17"


@pytest.mark.parametrize("stage", ["nope", "{{stage}}"])
def test_an_unknown_place_is_422_by_the_name_that_bots_have_for_it(
    app: flask.Flask, admin: Admin, hubspot: FakeHubSpot, stage: str
) -> None:
    client = hubspot_client(app, hubspot)
    set_map(admin, client, deals={"stage": "dealstage"})
    contact_id = known(client)
    assert refused(deal(client, contact_id, dealname="A", stage=stage), 422).startswith("stage: ")
    assert not hubspot.deals
    assert deal(client, contact_id, dealname="A", stage="closedwon").status_code == 200


@pytest.mark.databases("sqlite")
def test_a_map_that_cannot_be_read_is_400(admin: Admin, client: Client) -> None:
    for kinds, words in [
        ({"leads": {}}, "leads: is not known here"),
        ({"contacts": []}, "contacts: must be an object"),
        ({"contacts": {"a": 1}}, "contacts.a: must be an object"),
        ({"contacts": {"a": {"to": 1}}}, "contacts.a.to: must be a string"),
        ({"contacts": {"a": {"from": "x"}}}, "contacts.a.from: is not known here"),
        ({"contacts": {"a": {"values": {"x": 1}}}}, "contacts.a.values.x: must be a string"),
        (
            {"contacts": {"a": {"constant": "x", "set": "once"}}},
            "contacts.a.set: must be one of always, empty",
        ),
    ]:
        assert words in refused(put(admin, client, **kinds), 400)


def test_a_change_is_in_the_audit_log_rule_by_rule(admin: Admin, client: Client) -> None:
    set_map(admin, client, contacts={"topic": "city", "a": "jobtitle"})
    set_map(admin, client, contacts={"topic": "city", "a": "zip"})
    set_map(admin, client, contacts={"topic": "city", "a": "zip"})
    log = admin.get(f"/audit?account={client.account.client_id}&object=fieldMap").get_json()
    assert [(one["before"], one["after"]) for one in log["results"]] == [
        ({"contacts.a": {"to": "jobtitle"}}, {"contacts.a": {"to": "zip"}}),
        ({}, {"contacts.topic": {"to": "city"}, "contacts.a": {"to": "jobtitle"}}),
    ]


# --- the preview -------------------------------------------------------------------------------


def test_a_preview_shows_what_would_be_sent_and_sends_nothing(
    app: flask.Flask, admin: Admin, hubspot: FakeHubSpot
) -> None:
    client = hubspot_client(app, hubspot)
    before = len(hubspot.contacts)
    answer = admin.post(
        f"{path(client)}/preview",
        {
            "helper": "createLead",
            "properties": {"name": "Ann Lee", "email": "ANN@x.org", "phone": "{{phone}}"},
            "fieldMap": {
                "contacts": {
                    "firstname": "jobtitle",
                    "source": {"to": "no_such", "constant": "chat"},
                    "lifecyclestage": {"constant": "lead", "set": "empty"},
                }
            },
        },
    )
    assert answer.status_code == 200, answer.text
    told = answer.get_json()
    assert [tuple(one.values()) for one in told["sent"]] == [
        ("email", "ann@x.org", "email", "ann@x.org", "bot"),
        ("jobtitle", "Ann", "firstname", "Ann", "bot"),
        ("lastname", "Lee", "lastname", "Lee", "bot"),
        ("no_such", "chat", "source", "chat", "constant"),
        ("lifecyclestage", "lead", "lifecyclestage", "lead", "constantIfEmpty"),
    ]
    assert [one["name"] for one in told["refused"]] == ["phone", "source"]
    assert (told["kind"], told["note"]) == ("contacts", "")
    assert len(hubspot.contacts) == before
    assert admin.get(path(client)).get_json()["contacts"] == {}


def test_a_preview_may_take_the_newest_call_where_that_may_be_seen(
    app: flask.Flask, admin: Admin, bot: Client
) -> None:
    preview = f"{path(bot)}/preview"
    asked = {"helper": "createDeal", "fieldMap": {"deals": {"stage": "dealstage"}}}
    assert refused(admin.post(preview, asked), 404).startswith("No bot has called createDeal yet")
    deal(bot, known(bot), dealname="A", stage="1")
    told = admin.post(preview, asked).get_json()
    assert {one["name"]: one["value"] for one in told["sent"]} == {
        "dealname": "A",
        "dealstage": "1",
    }
    reader = open_admin(app, "accounts:read")
    assert "actions:read" in refused(reader.post(preview, asked), 403)
    assert reader.post(preview, {**asked, "properties": {"dealname": "B"}}).status_code == 200
    assert refused(reader.put(path(bot), {}), 403)
    lead_only = {"helper": "createLead", "properties": {"city": "Rome"}}
    assert "createLead takes name, email, phone" in refused(admin.post(preview, lead_only), 422)
    assert refused(admin.post(preview, {"helper": "getType"}), 400)


def test_strict_accounts_are_told_by_the_bots_names(
    app: flask.Flask, hub: Hub, admin: Admin, bot: Client
) -> None:
    known(bot)
    switch(app, bot, strict=True)
    set_map(admin, bot, contacts={"topic": "chat_topic"})
    assert "topic: no such property" in refused(write(bot, topic="x"), 422)
    ((request, mapped),) = rows(hub, bot, "request, mapped")[-1:]
    assert "topic" in request
    assert "chat_topic" in mapped
