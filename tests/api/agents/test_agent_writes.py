"""What agents write: its author, dry runs that leave nothing behind, and accounts of other CRMs."""

from __future__ import annotations

from typing import Any

import flask

from crmhub import audit
from crmhub.adapter import Unavailable
from crmhub.hub import Hub
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.action_queries import Summary, Wanted
from tests.api.agents.agent_calls import AgentCaller
from tests.api.helpers.helper_calls import switch
from tests.clients import Client
from tests.fakes import FAKE, adapters, fake_client

TITLES = {"contacts": "", "deals": "dealname", "companies": "name", "tickets": "subject"}
LEAD = {"name": "Ada Lovelace", "email": "ada@example.com"}


def actions(app: flask.Flask, client: Client) -> list[Summary]:
    hub: Hub = app.extensions["crmhub"]
    return action_queries.listed(hub.database, Wanted(account=client.account))


def entries(app: flask.Flask, client: Client) -> list[audit.Entry]:
    hub: Hub = app.extensions["crmhub"]
    with hub.database.reading() as db:
        wanted = audit.Wanted(account_id=client.account.id, object="records")
        return audit.listed(db, wanted, limit=20)


def test_each_write_names_the_key_that_made_it(agent: AgentCaller, app: flask.Flask) -> None:
    contact_id = agent.ok("create_or_update_lead", **LEAD)["contactId"]
    agent.ok("set_properties", id=contact_id, properties={"city": "London"})
    deal = agent.ok("create_deal", contactId=contact_id, properties={"dealname": "E"})["dealId"]
    agent.ok("create_ticket", contactId=contact_id, properties={"subject": "S"})
    made = actions(app, agent.client)
    assert [one.kind for one in made] == [
        "createTicket",
        "createDeal",
        "setProperties",
        "createLead",
    ]
    assert {one.author[:4] for one in made} == {"key_"}
    assert len({one.author for one in made}) == 1
    company = agent.client.make("companies")
    agent.ok("link_records", resource="deals", id=deal, toResource="companies", toId=company)
    agent.ok("set_properties", resource="deals", id=deal, properties={"amount": 5})
    agent.ok("pick_agent", min=1, max=3)
    noted = entries(app, agent.client)
    assert [one.verb for one in noted] == ["pick", "change", "link"]
    assert {(one.by.kind, one.by.name, one.by.id) for one in noted} == {
        ("key", "the desk's agent", made[0].author)
    }
    # Names of properties, but no values.
    assert noted[1].after == {"properties": ["amount"]}


def test_a_bots_action_has_no_author(client: Client, app: flask.Flask) -> None:
    body = {"contactToken": "t", **LEAD}
    assert client.helper("/chatbot/createLead/{generated}", body).status_code == 200
    assert [one.author for one in actions(app, client)] == [""]


def test_a_dry_run_leaves_nothing_behind(agent: AgentCaller, app: flask.Flask) -> None:
    contact = str(agent.client.make())
    deal, company = str(agent.client.make("deals")), str(agent.client.make("companies"))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("create_or_update_lead", LEAD),
        ("set_properties", {"id": contact, "properties": {"city": "x"}}),
        ("set_properties", {"resource": "deals", "id": deal, "properties": {"amount": 5}}),
        ("create_deal", {"contactId": contact, "properties": {"dealname": "E"}}),
        ("create_ticket", {"contactId": contact, "properties": {"subject": "E"}}),
        (
            "link_records",
            {"resource": "deals", "id": deal, "toResource": "companies", "toId": company},
        ),
        ("pick_agent", {"min": 1, "max": 3}),
    ]
    before = agent.client.get("/contacts").json
    for tool, arguments in calls:
        answer = agent.ok(tool, **arguments, dryRun=True)
        assert answer["status"] == "dryRun"
        assert answer["wouldBe"]
    assert actions(app, agent.client) == []
    assert entries(app, agent.client) == []
    assert agent.client.get("/contacts").json == before


def test_a_lead_of_an_agent_takes_no_email_from_anybody(agent: AgentCaller) -> None:
    """Unlike a bot's conversation, two calls of an agent have nothing to do with each other."""
    first = agent.ok("create_or_update_lead", **LEAD)["contactId"]
    agent.ok("set_properties", id=first, properties={"email": "new@example.com"})
    again = agent.ok("create_or_update_lead", **LEAD)
    assert again["contactId"] != first
    found = agent.ok("find_contacts", email="new@example.com")["results"]
    assert [one["id"] for one in found] == [first]


def test_a_conversation_keeps_its_contact(agent: AgentCaller) -> None:
    body = {"contactToken": "t", **LEAD}
    client = agent.client
    first = client.helper("/chatbot/createLead/{generated}", body).json
    again = agent.ok("create_or_update_lead", name="Ada King", email=LEAD["email"])
    assert again["contactId"] == first["contactId"]  # type: ignore[index]
    asked = {"contactToken": "t", "props": ["lastname"]}
    read = client.helper("/chatbot/getProperties/{generated}", asked).json
    assert read["lastname"] == "King"  # type: ignore[index]


def test_strict_accounts_refuse_a_lead_with_one_bad_property(
    agent: AgentCaller, app: flask.Flask
) -> None:
    from crmhub.accounts.changes import set_switches

    hub: Hub = app.extensions["crmhub"]
    account = agent.client.account
    hub.database.transact(lambda tx: set_switches(tx, account.id, {"strict": True}, hub.plans))
    hub.directory.forget(account.id)
    for properties in ({"citty": "x"}, {"lifecyclestage": "maybe"}):
        for dry in (True, False):
            called = agent.call("create_or_update_lead", **LEAD, properties=properties, dryRun=dry)
            assert called.answer["category"] == "SemanticError"
            assert next(iter(properties)) in called.message
    assert agent.ok("find_contacts", email=LEAD["email"])["results"] == []


# Accounts of another CRM


def test_contacts_of_another_crm_are_read_and_written_there(app: flask.Flask) -> None:
    with adapters(app, FAKE):
        client, crm = fake_client(app)
        agent = AgentCaller(client)
        made = agent.ok("create_or_update_lead", **LEAD, properties={"nothing": "x"})
        assert (made["status"], made["contactId"]) == ("created", "c-1")
        assert made["refused"] == [{"name": "nothing", "reason": "no such property"}]
        found = agent.ok("find_contacts", email=LEAD["email"])
        assert found["source"] == "Fake"
        assert found["results"][0]["properties"]["firstname"] == "Ada"
        read = agent.ok("get_record", resource="contacts", id="c-1")
        assert (read["source"], read["properties"]["email"]) == ("Fake", LEAD["email"])
        agent.ok("create_deal", contactId="c-1", properties={"dealname": "E"})
        assert [kind for kind, *_ in crm.linked] == ["deals"]
        assert "email and phone" in agent.call("find_contacts", query="Ada").message


def test_records_of_another_crm_are_an_error_that_names_the_crm(
    app: flask.Flask,
) -> None:
    with adapters(app, FAKE):
        client, _ = fake_client(app)
        agent = AgentCaller(client)
        made = agent.ok("create_or_update_lead", **LEAD)
        agent.ok("create_deal", contactId=made["contactId"], properties={"dealname": "E"})
        links = {"id": "5", "toResource": "companies", "toId": "6"}
        for resource, title in TITLES.items():
            where = f"This account's {resource} are in Fake"
            called = agent.call("search_records", resource=resource)
            assert where in called.message
            if resource == "contacts":
                continue
            for id in ("5", "deals-1"):
                called = agent.call("get_record", resource=resource, id=id)
                assert where in called.message, called.message
            changed = {"id": "5", "properties": {title: "F"}}
            for dry in (True, False):
                called = agent.call("set_properties", resource=resource, **changed, dryRun=dry)
                assert where in called.message
            assert where in agent.call("link_records", resource=resource, **links).message
        own = client.make("deals")
        assert "deals are in Fake" in agent.call("search_records", resource="deals").message
        assert "deals are in Fake" in agent.call("get_record", resource="deals", id=own).message
        called = agent.call("create_or_update_company", domain="example.com", name="Example")
        assert "companies are in Fake" in called.message


def test_a_contact_of_another_crm_is_read_by_its_email_there(app: flask.Flask) -> None:
    with adapters(app, FAKE):
        client, _ = fake_client(app)
        agent = AgentCaller(client)
        agent.ok("create_or_update_lead", **LEAD)
        by_email = {"resource": "contacts", "idProperty": "email"}
        read = agent.ok("get_record", **by_email, id=LEAD["email"])
        assert (read["id"], read["source"]) == ("c-1", "Fake")
        called = agent.call("get_record", **by_email, id="nobody@example.com")
        assert "Fake has no contact" in called.message


def test_the_hubs_own_records_say_so(agent: AgentCaller) -> None:
    made = agent.ok("create_or_update_lead", **LEAD)["contactId"]
    by_email = {"resource": "contacts", "id": LEAD["email"], "idProperty": "email"}
    for answer in (
        agent.ok("find_contacts", email=LEAD["email"]),
        agent.ok("find_contacts", query="Ada"),
        agent.ok("get_record", resource="contacts", id=made),
        agent.ok("get_record", **by_email),
        agent.ok("search_records", resource="contacts"),
        agent.ok("list_properties", resource="deals"),
        agent.ok("list_pipelines", resource="deals"),
    ):
        assert answer["source"] == "hub"
    assert "message" not in agent.ok("search_records", resource="tickets")


def test_the_email_of_a_lead_is_optional_where_the_account_says_so(
    app: flask.Flask, agent: AgentCaller
) -> None:
    def required() -> list[str]:
        tools = {tool["name"]: tool for tool in agent.result("tools/list")["tools"]}
        names: list[str] = tools["create_or_update_lead"]["inputSchema"]["required"]
        return names

    lead = {"name": "Ada Lovelace", "phone": "+12025550123"}
    assert required() == ["name", "email"]
    assert "email: is missing" in agent.call("create_or_update_lead", **lead).message
    switch(app, agent.client, lead_requires="email_or_phone")
    assert required() == ["name"]
    tried = agent.ok("create_or_update_lead", **lead, dryRun=True)
    assert tried["wouldBe"] == "create a contact"
    made = agent.ok("create_or_update_lead", **lead)
    assert made["status"] == "created"
    tried = agent.ok("create_or_update_lead", **lead, dryRun=True)
    assert tried["wouldBe"] == f"update contact {made['contactId']}"
    for bad in ({"name": "Ada"}, {"name": "Ada", "phone": "12"}):
        assert agent.call("create_or_update_lead", **bad).answer["category"] == "SemanticError"


def test_a_lead_while_the_crm_is_down_is_queued_and_can_be_followed(app: flask.Flask) -> None:
    with adapters(app, FAKE):
        client, crm = fake_client(app)
        agent = AgentCaller(client)
        crm.failure = Unavailable("it is down")
        lead = agent.ok("create_or_update_lead", **LEAD)
        assert lead["status"] == "queued"
        assert "get_action" in lead["message"]
        assert lead["contactId"].startswith("hub-")
        read = agent.ok("get_record", resource="contacts", id=lead["contactId"])
        assert (read["stale"], read["properties"]["email"]) == (True, LEAD["email"])
        deal = agent.ok("create_deal", contactId=lead["contactId"], properties={"dealname": "E"})
        again = agent.ok("create_deal", contactId=lead["contactId"], properties={"dealname": "E"})
        assert (again["status"], again["actionId"]) == ("queued", deal["actionId"])
        state = agent.ok("get_action", actionId=deal["actionId"])
        assert state["state"] == "queued"
        assert "Do not send it again" in state["message"]
        called = agent.call("find_contacts", email=LEAD["email"])
        assert called.answer["category"] == "InternalError"
        assert "Try again in" in called.message
        tried = agent.ok("create_or_update_lead", **LEAD, dryRun=True)
        assert "queued" in tried["message"]
