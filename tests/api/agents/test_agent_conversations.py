"""What agents add to a conversation: notes, and owners from a team."""

from __future__ import annotations

import flask

from crmhub.hub import Hub
from crmhub.properties.kinds import KINDS
from crmhub.records import timeline
from tests.api.agents.agent_calls import AgentCaller, caller_with
from tests.clients import Client
from tests.helpers.test_assign_owner import make_team


def notes(hub: Hub, client: Client, resource: str, id: str) -> list[tuple[str, str]]:
    of = (client.account.id, timeline.OWN, KINDS[resource], [id])
    with hub.database.reading() as connection:
        return [(one.text, one.author) for one in timeline.latest(connection, *of)]


def test_a_note_is_added_once_to_each_kind_of_record(agent: AgentCaller, hub: Hub) -> None:
    contact = agent.ok("create_or_update_lead", name="Ada", email="ada@x.org")["contactId"]
    deal = agent.ok("create_deal", contactId=contact, properties={"dealname": "E"})["dealId"]
    for resource, id in (("contacts", contact), ("deals", deal)):
        call = {"resource": resource, "id": id, "text": "Calls <b>back</b>", "author": "Ada"}
        assert agent.ok("add_note", **call, dryRun=True)["status"] == "dryRun"
        assert not notes(hub, agent.client, resource, id)
        first, again = agent.ok("add_note", **call), agent.ok("add_note", **call)
        assert (first["status"], again["status"]) == ("created", "unchanged")
        assert first["noteId"] == again["noteId"]
        assert notes(hub, agent.client, resource, id) == [("Calls <b>back</b>", "Ada")]
    for resource, field in (("contacts", "contactId"), ("deals", "id")):
        refused = agent.call("add_note", resource=resource, id="481516234299", text="x").message
        assert refused.startswith(field), refused
        assert resource == "deals" or ". The call is action act-" in refused


def test_an_owner_is_chosen_and_named(agent: AgentCaller, app: flask.Flask, client: Client) -> None:
    contact = agent.ok("create_or_update_lead", name="Ada", email="ada@x.org")["contactId"]
    assert "team" in agent.call("assign_owner", contactId=contact).message
    make_team(app, client, "Sales", ["Ana <ana@x.org>", "Ben <ben@x.org>"])
    assert agent.ok("assign_owner", contactId=contact, dryRun=True)["status"] == "dryRun"
    first = agent.ok("assign_owner", contactId=contact, team="sales")
    assert (first["ownerId"], first["ownerName"]) == ("ana@x.org", "Ana")
    again = agent.ok("assign_owner", contactId=contact, team="sales")
    assert (again["ownerId"], again["status"]) == ("ana@x.org", "unchanged")
    record = client.get(f"/contacts/{contact}").json
    assert record is not None
    assert record["properties"]["hubspot_owner_id"] == "ana@x.org"


def test_a_key_without_the_right_adds_no_note(client: Client, app: flask.Flask) -> None:
    caller = caller_with(client, app, ("deals:write",), "deals")
    contact = str(client.make())
    assert "contacts" in caller.call("add_note", id=contact, text="x").message
