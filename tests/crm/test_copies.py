"""A copy of a CRM in the account's own records: loaded, kept up to date, compared, and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any, NoReturn

import flask
import pytest

from crmhub.accounts.field_maps import FieldMap, KindMap, Rule
from crmhub.adapter import Unavailable
from crmhub.crm.pulling import pull_next
from crmhub.database.rows import set_where
from crmhub.database.tables import crm_copy
from crmhub.errors import Conflict
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from crmhub.operators.crm import copy_crm, map_fields
from tests.adapter.small_adapter import SmallAdapter
from tests.adapter.small_crm import HOOK_KEY, SmallCrm
from tests.api.agents.agent_calls import AgentCaller
from tests.clients import TESTS, Client, open_client
from tests.consoles import open_console
from tests.events.receivers import subscribe
from tests.fakes import adapters, connect

SMALL = EntryPoint("small", "tests.adapter.small_adapter:SmallAdapter", "crmhub.adapters")


@pytest.fixture
def crm() -> Iterator[SmallCrm]:
    with SmallCrm() as crm:
        yield crm


@pytest.fixture
def client(app: flask.Flask, crm: SmallCrm) -> Iterator[Client]:
    with adapters(app, SMALL):
        client = open_client(app)
        kept = {"refresh_token": crm.refresh_token, "hook_key": HOOK_KEY}
        connect(app, client, "small", kept, base_url=crm.url)
        yield client


@pytest.fixture
def hub(app: flask.Flask, client: Client) -> Hub:
    hub: Hub = app.extensions["crmhub"]
    return hub


def switch(hub: Hub, client: Client, on: bool) -> None:
    change_account.change(hub, client.account.client_id, {"mirror": on}, by=TESTS)
    client.account = hub.load_account(client.account.client_id)
    hub.directory.forget(client.account.id)


def pull(hub: Hub, client: Client) -> None:
    """Do all that is due now, and what is due in a minute."""
    of = {"account_id": client.account.id, "connection_id": client.account.connection.id}
    hub.database.transact(
        lambda tx: [
            set_where(tx, crm_copy, of | {"state": state}, run_at=0)
            for state in ("loading", "following", "ending")
        ]
    )
    while pull_next(hub, *of.values()):
        pass
    hub.records.copy_states._read.clear()


def contacts(client: Client) -> dict[str, Any]:
    listed = client.get("/contacts?limit=100")
    assert listed.status_code == 200, listed.json
    return {one["properties"]["crm_id"]: one["properties"] for one in listed.json["results"]}


def lead_of(client: Client) -> Any:
    lead = {"name": "Ann Lee", "email": "ann@example.org", "contactToken": "a"}
    return client.helper("/chatbot/createLead/{generated}", lead)


def person(n: int, **more: str) -> dict[str, str]:
    return {"email": f"p{n}@example.org", "firstname": f"Ann {n}", "lastname": "Lee", **more}


def test_all_is_loaded_and_then_followed(hub: Hub, client: Client, crm: SmallCrm) -> None:
    ids = [crm.add_contact(person(n)) for n in range(5)]
    switch(hub, client, on=True)
    early = client.get("/contacts")
    assert (early.status_code, early.headers["Retry-After"]) == (503, "10")
    pull(hub, client)
    assert contacts(client).keys() == {*ids}
    listed = client.get("/contacts")
    assert listed.json["total"] == 5
    assert listed.headers["X-Record-Source"] == "copy"
    assert listed.headers["X-CRM-Synced-At"].endswith("Z")
    crm.delete_contact(ids[0])
    added = crm.add_contact(person(7, city="Rome"))
    pull(hub, client)
    assert contacts(client).keys() == {*ids[1:], added}
    found = client.post(
        "/contacts/search",
        {"filters": [{"propertyName": "city", "operator": "EQ", "value": "Rome"}]},
    )
    assert [one["properties"]["crm_id"] for one in found.json["results"]] == [added]
    one = client.get(f"/contacts/{added}?idProperty=crm_id")
    assert one.json["properties"]["email"] == "p7@example.org"
    assert client.get("/companies").status_code == 422


def test_what_comes_again_changes_nothing_and_tells_nobody(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    crm.add_contact(person(1))
    switch(hub, client, on=True)
    pull(hub, client)
    [before] = client.get("/contacts?include=updatedAt").json["results"]
    copy_crm.load_anew(hub, client.account, by=TESTS)
    pull(hub, client)
    assert client.get("/contacts?include=updatedAt").json["results"] == [before]


def test_a_deal_is_linked_to_its_contact_also_by_a_lead_of_a_bot(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    switch(hub, client, on=True)
    pull(hub, client)
    lead = lead_of(client).json
    [contact] = client.get("/contacts").json["results"]
    assert contact["properties"]["crm_id"] == lead["contactId"]
    deal = client.helper(
        "/crm-api-interface/createDeal/{portal}",
        {"contactId": lead["contactId"], "properties": {"dealname": "Big"}},
    ).json
    [stored] = client.get("/deals?include=associations").json["results"]
    assert stored["properties"]["crm_id"] == deal["dealId"]
    pull(hub, client)
    [stored] = client.get("/deals?include=associations").json["results"]
    linked = client.get(f"/deals/{stored['id']}/associations/contacts")
    assert linked.json["results"] == [contact["id"]]


def test_a_comparison_finds_what_was_missed(hub: Hub, client: Client, crm: SmallCrm) -> None:
    ids = [crm.add_contact(person(n)) for n in range(3)]
    switch(hub, client, on=True)
    pull(hub, client)
    # The feed of the CRM forgets a deletion and a new contact.
    told = len(crm.feed)
    crm.delete_contact(ids[0])
    added = crm.add_contact(person(9))
    crm.feed[told:] = []
    pull(hub, client)
    assert contacts(client).keys() == {*ids}
    # The walk of a comparison must see what is there.
    crm.feed.append(("contacts", int(added), ""))
    copy_crm.compare(hub, client.account, by=TESTS)
    pull(hub, client)
    pull(hub, client)
    assert contacts(client).keys() == {*ids[1:], added}
    [state] = [one for one in copy_crm.states(hub, client.account) if one.kind == "contacts"]
    assert state.differences


def test_events_tell_who_made_the_change(hub: Hub, client: Client, crm: SmallCrm) -> None:
    switch(hub, client, on=True)
    pull(hub, client)
    subscribe(hub, client, "contact.created", "contact.updated")
    lead_of(client)
    theirs = crm.add_contact(person(3))
    pull(hub, client)
    with hub.database.reading() as db:
        rows = db.rows(
            "select data from event where account_id = :account", {"account": client.account.id}
        )
    told = [json.loads(row[0]) for row in rows]
    sources = {one["properties"]["email"]: one["source"] for one in told}
    assert sources == {"ann@example.org": "hub", "p3@example.org": "crm"}
    assert len(told) == 2, theirs


def test_a_webhook_names_what_is_read_at_once(hub: Hub, client: Client, crm: SmallCrm) -> None:
    id = crm.add_contact(person(1))
    switch(hub, client, on=True)
    pull(hub, client)
    path = copy_crm.webhook_address(hub, client.account).partition("SERVICE")[2]
    crm.records["contacts"][int(id)]["properties"]["city"] = "Rome"
    sent = crm.webhook("contacts", id)
    refused = client.helper(path, None, data=sent.body)
    assert refused.status_code == 401
    assert client.helper(f"{path}x", None, data=sent.body).status_code == 404
    taken = client.helper(path, None, data=sent.body, headers=dict(sent.headers))
    assert taken.status_code == 204, taken.json
    pull(hub, client)
    assert contacts(client)[id]["city"] == "Rome"


def test_switched_off_the_copy_goes_and_the_hub_is_as_it_was(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    before = client.get("/properties/contacts").json
    own = client.make(firstname="Own")
    client.delete(f"/contacts/{own}")
    crm.add_contact(person(1))
    gone = crm.add_contact(person(2))
    switch(hub, client, on=True)
    pull(hub, client)
    crm.delete_contact(gone)
    pull(hub, client)
    assert client.get("/contacts?archived=true").json["total"] == 2
    switch(hub, client, on=False)
    with pytest.raises(Conflict, match="being deleted"):
        copy_crm.load_anew(hub, client.account, by=TESTS)
    pull(hub, client)
    client.account = hub.load_account(client.account.client_id)
    hub.directory.forget(client.account.id)
    assert not client.account.switches.mirror
    assert client.get("/contacts").json["total"] == 0
    archived = client.get("/contacts?archived=true").json["results"]
    assert [one["id"] for one in archived] == [own]
    assert client.get("/properties/contacts").json == before
    assert client.post("/contacts", {"properties": {"email": "a@b.org"}}).status_code == 201


def test_records_of_its_own_stand_in_the_way(hub: Hub, client: Client) -> None:
    client.post("/contacts", {"properties": {"email": "a@example.org"}})
    with pytest.raises(Conflict, match="1 contacts"):
        switch(hub, client, on=True)


def test_agents_search_the_copy_and_use_the_ids_of_the_crm(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    switch(hub, client, on=True)
    asked = {"resource": "deals"}
    agent = AgentCaller(client)
    assert "not complete" in agent.call("search_records", **asked).message
    pull(hub, client)
    lead = lead_of(client).json
    deal = {"contactId": lead["contactId"], "properties": {"dealname": "Big"}}
    deal_id = client.helper("/crm-api-interface/createDeal/{portal}", deal).json["dealId"]
    pull(hub, client)
    found = agent.ok("search_records", **asked)
    assert (found["total"], found["source"]) == (1, "copy")
    assert [one["id"] for one in found["results"]] == [deal_id]
    read = agent.ok("get_record", resource="deals", id=deal_id)
    assert read["associations"]["contacts"] == [lead["contactId"]]


def test_a_worker_killed_between_pages_goes_on_where_it_was(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [crm.add_contact(person(n)) for n in range(450)]
    switch(hub, client, on=True)
    asked: list[str] = []
    true = SmallAdapter.changed_since

    def dies_at_the_third_page(self: SmallAdapter, kind: Any, since: str, names: Any) -> Any:
        asked.append(since)
        if len([one for one in asked if one]) == 2:
            raise KeyboardInterrupt
        return true(self, kind, since, names)

    monkeypatch.setattr(SmallAdapter, "changed_since", dies_at_the_third_page)
    with pytest.raises(KeyboardInterrupt):
        pull(hub, client)
    monkeypatch.undo()
    pull(hub, client)
    assert client.get("/contacts").json["total"] == len(ids)


def test_what_the_hub_cannot_hold_is_left_out_and_counted(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    id = crm.add_contact(person(1, city="x" * 70_000))
    switch(hub, client, on=True)
    pull(hub, client)
    assert "city" not in contacts(client)[id]
    shown = client.get("/sync").json["contacts"]
    assert (shown["records"], shown["leftOut"], shown["complete"]) == (1, 1, True)
    assert client.get("/sync").json["companies"]["state"] == "absent"


def test_the_names_are_those_of_the_field_map(hub: Hub, client: Client, crm: SmallCrm) -> None:
    town = FieldMap({"contacts": KindMap({"town": Rule("city")})})
    map_fields.set_field_map(hub, client.account.client_id, town, test=False, by=TESTS)
    client.account = hub.load_account(client.account.client_id)
    id = crm.add_contact(person(1, city="Rome"))
    switch(hub, client, on=True)
    pull(hub, client)
    assert contacts(client)[id]["town"] == "Rome"


def test_a_crm_that_is_down_is_told_and_asked_again(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(hub, client, on=True)

    def down(*args: Any) -> NoReturn:
        raise Unavailable("The CRM is down.")

    monkeypatch.setattr(SmallAdapter, "changed_since", down)
    pull(hub, client)
    told = {one.failure for one in copy_crm.states(hub, client.account)}
    assert told == {"The CRM is down.", "Small CRM has no companies."}
    monkeypatch.undo()
    pull(hub, client)
    assert client.get("/contacts").json["total"] == 0


def test_a_merged_contact_hands_its_deals_on(hub: Hub, client: Client, crm: SmallCrm) -> None:
    kept = crm.add_contact(person(1))
    switch(hub, client, on=True)
    pull(hub, client)
    gone = lead_of(client).json["contactId"]
    deal = {"contactId": gone, "properties": {"dealname": "Big"}}
    client.helper("/crm-api-interface/createDeal/{portal}", deal)
    pull(hub, client)
    crm.merge_contacts(gone, kept)
    pull(hub, client)
    [contact] = client.get("/contacts?include=associations").json["results"]
    assert (contact["properties"]["crm_id"], len(contact["associations"]["deals"])) == (kept, 1)


def test_the_console_shows_the_copy_and_the_address_for_webhooks(
    app: flask.Flask, hub: Hub, client: Client, crm: SmallCrm, quick_passwords: None
) -> None:
    crm.add_contact(person(1))
    switch(hub, client, on=True)
    pull(hub, client)
    page = open_console(app).get(f"/accounts/{client.account.client_id}/crm").text
    assert "Copy of Small CRM" in page
    assert copy_crm.webhook_address(hub, client.account) in page
