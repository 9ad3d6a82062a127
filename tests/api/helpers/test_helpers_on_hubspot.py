"""The helpers of an account whose CRM is a HubSpot-like one, over real HTTP."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub.app import create_app
from crmhub.crm.stored_connections import configure
from crmhub.hub import Hub
from crmhub.operators.actions.action_queries import Wanted
from crmhub.operators.actions.retry_action import retry
from crmhub.queue.slots import Slots
from crmhub.settings import Settings
from tests.api.agents.agent_calls import AgentCaller
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_TICKET,
    GET_PROPERTIES,
    GET_TYPE,
    SET_PROPERTIES,
    known,
    lead,
    switch,
)
from tests.clients import TESTS, Client, open_client
from tests.queue.working import finish_all, rows, take_over, work_off

LAG = 10.0
Json = Any


@pytest.fixture
def fake() -> Iterator[FakeHubSpot]:
    """A CRM whose search lags behind its writes, without limits."""
    with FakeHubSpot(Options(limit="100000/10s", search_limit="none", search_lag=LAG)) as fake:
        yield fake


@pytest.fixture
def app(app: flask.Flask) -> Iterator[flask.Flask]:
    """An application of which more threads than usual may wait for a CRM."""
    hub: Hub = app.extensions["crmhub"]
    app.extensions["crmhub"] = replace(hub, slots=Slots(64))
    yield app
    app.extensions["crmhub"] = hub


@pytest.fixture
def bot(app: flask.Flask, fake: FakeHubSpot) -> Client:
    """A caller of an account that uses it, with time for 50 calls at once."""
    client = open_client(app)
    use(app, client, fake, access_token=fake.token)
    switch(app, client, lead_requires="email_or_phone")
    return client


def use(app: flask.Flask, client: Client, fake: FakeHubSpot, **credentials: str) -> None:
    """Let the client's account use this CRM."""
    hub: Hub = app.extensions["crmhub"]
    client.account = hub.database.transact(
        lambda tx: configure(
            tx,
            client.account.id,
            name="hubspot",
            adapter=hub.registry.load("hubspot"),
            settings={"base_url": fake.url},
            credentials=credentials,
            vault=hub.vault,
            plans=hub.plans,
        )
    )
    hub.directory.forget(client.account.id)


def oauth(fake: FakeHubSpot) -> dict[str, str]:
    names = ("client_id", "client_secret", "refresh_token")
    return {"access_token": "", **{name: getattr(fake.options, name) for name in names}}


def at_once(calls: int, call: Callable[[int], Json]) -> list[Json]:
    with ThreadPoolExecutor(calls) as pool:
        return list(pool.map(call, range(calls)))


def all_done(answers: list[Json]) -> None:
    assert {answer.text for answer in answers if answer.status_code != 200} == set()


def test_every_helper_works_on_hubspot(bot: Client, fake: FakeHubSpot) -> None:
    contact_id = known(bot, phone="+1 202 555 0100")
    assert fake.contacts[contact_id]["lastname"] == "Lee"
    asked = bot.helper(GET_PROPERTIES, {"contactToken": "t", "props": ["name", "city", "nope"]})
    assert asked.json["properties"] == {"name": "Ann Lee", "city": "", "nope": ""}  # type: ignore[index]
    assert asked.json["missing"] == "nope"  # type: ignore[index]
    bot.helper(SET_PROPERTIES, {"contactToken": "t", "props": {"city": "Rome"}})
    assert fake.contacts[contact_id]["city"] == "Rome"
    deal = bot.helper(CREATE_DEAL, {"contactId": contact_id, "properties": {"dealname": "A"}}).json
    assert fake.linked("contacts", contact_id, "deals") == [deal["dealId"]]  # type: ignore[index]
    assert "/record/0-3/" in deal["url"]  # type: ignore[index]
    ticket = bot.helper(
        CREATE_TICKET,
        {"contactId": contact_id, "properties": {"subject": "B", "hs_ticket_priority": "high"}},
    ).json
    assert fake.tickets[ticket["ticketId"]]["hs_ticket_priority"] == "HIGH"  # type: ignore[index]


def test_the_hub_keeps_the_enrolments_that_hubspot_does_not_tell(
    bot: Client, fake: FakeHubSpot
) -> None:
    contact_id = fake.add_contact(firstname="Ann", phone="+1 202-555-0100")
    assert bot.put(f"/workflows/w-7/enrolments/{contact_id}").status_code == 204
    body = {"contactnumber": "12025550100", "interval": 48, "lastChatInterval": 0}
    assert bot.helper(GET_TYPE, body).json["workflowId"] == "w-7"  # type: ignore[index]


@pytest.mark.parametrize("written", ["+12025550100", "(202) 555-0100"])
def test_whom_a_lead_has_made_is_found_by_phone_although_the_search_lags(
    bot: Client, fake: FakeHubSpot, written: str
) -> None:
    contact_id = known(bot, phone="+1 202 555 0100")
    fake.set("contacts", contact_id, phone=written)
    assert bot.put(f"/workflows/w-7/enrolments/{contact_id}").status_code == 204
    body = {"contactnumber": "12025550100", "interval": 48, "lastChatInterval": 0}
    assert bot.helper(GET_TYPE, body).json["workflowId"] == "w-7"  # type: ignore[index]


def test_a_number_that_a_contact_had_before_is_no_longer_theirs(
    bot: Client, fake: FakeHubSpot
) -> None:
    contact_id = known(bot, phone="+1 202 555 0100")
    fake.set("contacts", contact_id, phone="+12025550199")
    body = {"contactnumber": "12025550100", "interval": 48, "lastChatInterval": 0}
    reason = bot.helper(GET_TYPE, body).json["reason"]  # type: ignore[index]
    assert reason == "no contact has the phone 12025550100"


@pytest.mark.databases("sqlite", "postgresql")
def test_fifty_leads_of_one_new_email_make_one_contact(bot: Client, fake: FakeHubSpot) -> None:
    answers = at_once(50, lambda i: lead(bot, f"t{i}"))
    all_done(answers)
    assert {answer.json["contactId"] for answer in answers} == fake.contacts.keys()
    assert len(fake.contacts) == 1


@pytest.mark.databases("sqlite", "postgresql")
def test_fifty_leads_of_fifty_new_emails_make_fifty(bot: Client, fake: FakeHubSpot) -> None:
    answers = at_once(50, lambda i: lead(bot, f"t{i}", email=f"ann{i}@x.org"))
    all_done(answers)
    assert {answer.json["contactId"] for answer in answers} == fake.contacts.keys()
    assert len(fake.contacts) == 50


@pytest.mark.databases("sqlite", "postgresql")
def test_leads_of_one_new_phone_make_one_contact_although_no_search_shows_it(
    bot: Client, fake: FakeHubSpot
) -> None:
    answers = at_once(20, lambda i: lead(bot, f"t{i}", email="", phone="+12025550100"))
    all_done(answers)
    assert len(fake.contacts) == 1


def test_a_lead_by_phone_alone_is_stored(bot: Client, fake: FakeHubSpot) -> None:
    answers = [lead(bot, "t", name=name, email="", phone="+12025550100") for name in ("", "Ann")]
    all_done(answers)
    [contact] = fake.contacts.values()
    assert (contact["firstname"], contact["phone"]) == ("Ann", "+12025550100")


def test_a_deal_whose_answer_is_lost_is_found_and_made_once(bot: Client, fake: FakeHubSpot) -> None:
    contact_id = known(bot)
    fake.fail(kind="reset", method="POST", path="*/deals", written=True)
    body = {"contactId": contact_id, "properties": {"dealname": "A", "amount": "10"}}
    answer = bot.helper(CREATE_DEAL, body)
    assert answer.status_code == 200, answer.text
    assert list(fake.deals) == [answer.json["dealId"]]  # type: ignore[index]


def test_a_deal_waits_where_the_crm_has_no_place_for_it(
    app: flask.Flask, bot: Client, fake: FakeHubSpot
) -> None:
    body = {"contactId": known(bot), "properties": {"dealname": "A"}}
    fake.fail(404, method="POST", path="*/deals", body={"message": "resource not found"})
    answer = bot.helper(CREATE_DEAL, body)
    assert answer.status_code == 202, answer.text
    hub: Hub = app.extensions["crmhub"]
    finish_all(hub, bot)
    assert len(fake.deals) == 1


def test_a_deal_goes_at_once_when_its_right_was_granted_and_the_operator_says_so(
    app: flask.Flask, bot: Client, fake: FakeHubSpot
) -> None:
    contact_id, granted = known(bot), fake.tokens.scopes
    fake.tokens.scopes -= {"crm.objects.deals.write"}
    answer = bot.helper(CREATE_DEAL, {"contactId": contact_id, "properties": {"dealname": "A"}})
    assert answer.status_code == 202, answer.text
    all_done([lead(bot, "u", email="bob@x.org")])
    fake.tokens.scopes = granted
    hub: Hub = app.extensions["crmhub"]
    wanted = Wanted(account=bot.account, states=("queued",))
    assert retry(hub.database, wanted, by=TESTS) == 1
    work_off(hub, bot)
    assert len(fake.deals) == 1


@pytest.mark.parametrize(
    ("path", "title", "kind"),
    [(CREATE_DEAL, "dealname", "deals"), (CREATE_TICKET, "subject", "tickets")],
)
def test_what_is_for_a_merged_contact_is_linked_to_the_one_it_became(
    bot: Client, fake: FakeHubSpot, path: str, title: str, kind: str
) -> None:
    contact_id, other = known(bot), fake.add_contact(email="lee@x.org")
    pair = [fake.portal.load("contacts", one) for one in (other, contact_id)]
    became = fake.portal.merge(*pair).id
    answer = bot.helper(path, {"contactId": contact_id, "properties": {title: "A"}})
    assert answer.status_code == 200, answer.text
    assert fake.linked("contacts", became, kind) == list(fake.records(kind))
    assert len(fake.records(kind)) == 1


@pytest.mark.parametrize("written", [False, True])
def test_two_alike_under_two_keys_are_two_although_an_answer_is_lost(
    app: flask.Flask, bot: Client, fake: FakeHubSpot, written: bool
) -> None:
    body = {"contactId": known(bot), "properties": {"dealname": "A", "amount": "10"}}
    first = bot.helper(CREATE_DEAL, body, headers={"Idempotency-Key": "1"}).json
    assert first is not None
    fake.fail(kind="reset", method="POST", path="*/deals", written=written)
    answer = bot.helper(CREATE_DEAL, body, headers={"Idempotency-Key": "2"})
    hub: Hub = app.extensions["crmhub"]
    # Long enough ago that the call cannot be under way any more.
    take_over(hub, bot)
    made = [json.loads(result)["record_id"] for (result,) in rows(hub, bot, "result")[1:]]
    assert (answer.status_code, made[0]) == (200 if written else 202, first["dealId"])
    assert len(made) == len(fake.deals) == 2
    assert set(made) == fake.deals.keys()


def test_a_refused_token_is_told_in_words_and_nothing_of_it_shown(
    app: flask.Flask, bot: Client, fake: FakeHubSpot
) -> None:
    use(app, bot, fake, access_token="pat-wrong-planted")
    body = {"contactnumber": "+12025550177", "interval": 1, "lastChatInterval": 0}
    for _ in ("asked", "away since"):
        answer = bot.helper(GET_TYPE, body)
        assert answer.status_code == 503
        assert "HubSpot refuses the access token" in answer.json["message"]  # type: ignore[index]
        assert "planted" not in answer.text
    answer = lead(bot)
    assert (answer.status_code, "planted" in answer.text) == (202, False)


def test_a_lead_goes_in_without_the_sensitive_data_that_the_token_may_not_write(
    bot: Client, fake: FakeHubSpot
) -> None:
    fake.define("contacts", "passport_no", sensitivity="sensitive")
    contact_id = known(bot)
    body = {"contactToken": "t", "props": {"city": "Rome", "passport_no": "C01X"}}
    answer = bot.helper(SET_PROPERTIES, body)
    assert (answer.status_code, answer.json["status"]) == (200, "updated")  # type: ignore[index]
    assert "passport_no" in answer.json["refused"]  # type: ignore[index]
    assert fake.contacts[contact_id]["city"] == "Rome"
    asked = bot.helper(GET_PROPERTIES, {"contactToken": "t", "props": ["passport_no"]})
    assert asked.status_code == 422
    assert "crm.objects.contacts.sensitive.read.v2" in asked.json["message"]  # type: ignore[index]
    all_done([lead(bot, "u", email="bob@x.org")])


@pytest.mark.databases("sqlite", "postgresql")
def test_an_expired_token_in_a_burst_is_renewed_once_for_all_processes(
    app: flask.Flask, settings: Settings, bot: Client, fake: FakeHubSpot
) -> None:
    fake.tokens.rotates = True
    use(app, bot, fake, **oauth(fake))
    known(bot)
    fake.expire_tokens()
    other = create_app(settings)
    try:
        there = Client(other, bot.account, bot.ids)
        answers = at_once(20, lambda i: lead(there if i % 2 else bot, f"t{i}"))
    finally:
        other.extensions["crmhub"].close()
    all_done(answers)
    assert fake.count("POST", "/oauth/*") == 2


# What goes wrong is the CRM, and what is shown of it no database decides.
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("kind", ["reset", "html", "broken_json", "cut", "empty"])
def test_no_secret_shows_in_logs_or_answers_whatever_goes_wrong(
    app: flask.Flask, bot: Client, fake: FakeHubSpot, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.DEBUG)
    # A lead waits for what is in doubt of the same person.
    switch(app, bot, deadline_s=1)
    planted = {name: value and f"planted-{name}" for name, value in oauth(fake).items()}
    use(app, bot, fake, **planted)
    fake.fail(kind=kind, times=None)
    told = (
        lead(bot, email="private@x.org").text
        + bot.helper(
            GET_TYPE,
            {
                "contactnumber": "+12025550177",
                "interval": 1,
                "lastChatInterval": 0,
            },
        ).text
    )
    use(app, bot, fake, **{**dict.fromkeys(planted, ""), "access_token": "planted-token"})
    told += lead(bot, email="private@x.org").text
    told += "".join(f"{record.getMessage()}{record.exc_text}" for record in caplog.records)
    for secret in [*filter(None, planted.values()), "planted-token", "private@x.org", "2025550177"]:
        for form in (secret, quote(secret), base64.b64encode(secret.encode()).decode()[:-4]):
            assert form not in told


def test_a_missing_record_is_told_in_the_language_of_the_account(
    app: flask.Flask, bot: Client
) -> None:
    switch(app, bot, language="es", soft_errors="true")
    deal = {"contactId": "99999999", "properties": {"dealname": "Cake"}}
    answer = bot.helper(CREATE_DEAL, deal).get_json()
    assert answer["message"].startswith("contactId: HubSpot no tiene ese registro: resource not")


def test_values_are_read_as_on_the_hubs_own_records(
    app: flask.Flask, bot: Client, fake: FakeHubSpot
) -> None:
    options = (("cinema", "Going out"), ("music", "Música"), ("theater", "Theatre"))
    fake.define("contacts", "interests", "enumeration", field_type="checkbox", options=options)
    fake.define("contacts", "born", "date")
    fake.define("contacts", "vip", "bool")
    fake.define("contacts", "budget", "number")
    contact_id = known(bot)
    switch(app, bot, region="US", language="es")
    for sent, stored in (
        ({"interests": ["cinema", "Música"]}, "cinema;music"),
        ({"interests": ";Theatre; cinema"}, "cinema;music;theater"),
        ({"interests": "theater, music"}, "theater;music"),
        ({"born": "05/06/1990"}, "1990-05-06"),
        ({"born": "1990-05-17T22:30:00-05:00"}, "1990-05-17"),
        ({"vip": "Sí"}, "true"),
    ):
        answer = bot.helper(SET_PROPERTIES, {"contactToken": "t", "props": sent})
        assert answer.status_code == 200, answer.text
        assert fake.contacts[contact_id][next(iter(sent))] == stored
    properties = {"interests": ";music"}
    agent = AgentCaller(bot)
    agent.call("create_or_update_lead", name="Ann Lee", email="ann@x.org", properties=properties)
    assert fake.contacts[contact_id]["interests"] == "theater;music"
    switch(app, bot, region="")
    for sent in ({"born": "05/06/1990"}, {"city": ["Rome", "Bonn"]}):
        answer = bot.helper(SET_PROPERTIES, {"contactToken": "t", "props": {**sent, "zip": "1"}})
        assert answer.json["refused"] == next(iter(sent))  # type: ignore[index]
    switch(app, bot, region="BR")
    for amount, refused in (("R$ 1.234,50", ""), ("1.234", "budget")):
        sent = {"budget": amount, "zip": amount}
        answer = bot.helper(SET_PROPERTIES, {"contactToken": "t", "props": sent})
        assert answer.json["refused"] == refused  # type: ignore[index]
    assert fake.contacts[contact_id]["budget"] == "1234.5"
