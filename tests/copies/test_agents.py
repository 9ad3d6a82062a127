"""Agents of an account with a copy: they read the copy by the CRM's ids, and write into the CRM."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub.adapter import Unavailable
from crmhub.errors import Conflict
from crmhub.helpers.crm_records import Deferred
from crmhub.hub import Hub
from crmhub.operators import agent_writes
from tests.adapter.small_adapter import SmallAdapter
from tests.adapter.small_crm import SmallCrm
from tests.api.agents.agent_calls import AgentCaller
from tests.clients import TESTS, Client, open_client
from tests.copies.copying import load_copy, person, pull
from tests.fakes import connect


@pytest.fixture
def agent(hub: Hub, copied: Client, crm: SmallCrm) -> AgentCaller:
    for n in range(3):
        crm.add_contact(person(n))
    pull(hub, copied)
    return AgentCaller(copied)


def found(agent: AgentCaller, email: str) -> str:
    [one] = agent.ok("find_contacts", email=email)["results"]
    return str(one["id"])


def test_what_agents_read_says_that_it_is_a_copy_and_of_when(
    agent: AgentCaller, crm: SmallCrm
) -> None:
    ids = sorted(map(str, crm.records["contacts"]))
    for answer in (
        agent.ok("find_contacts", query="Ann"),
        agent.ok("search_records", resource="contacts"),
        agent.ok("get_record", resource="contacts", ids=ids),
    ):
        assert answer["source"] == "copy"
        assert answer["syncedAt"].endswith("Z")
        assert sorted(one["id"] for one in answer["results"]) == ids
    one = agent.ok("get_record", resource="contacts", id=ids[0])
    assert (one["id"], one["source"]) == (ids[0], "copy")
    assert agent.ok("find_contacts", email="p1@example.org")["source"] != "copy"


def test_a_filter_by_id_means_the_id_of_the_crm(agent: AgentCaller) -> None:
    id = found(agent, "p1@example.org")
    for name in ("id", "hs_object_id"):
        by_id = [{"propertyName": name, "operator": "EQ", "value": id}]
        assert agent.ok("search_records", resource="contacts", filters=by_id)["total"] == 1
    above = [{"propertyName": "id", "operator": "GT", "value": id}]
    called = agent.call("search_records", resource="contacts", filters=above)
    assert "filters[0].operator" in called.message


def test_when_a_record_changed_before_the_copy_is_not_claimed(agent: AgentCaller) -> None:
    def changed_since(day: str) -> Any:
        since = [{"propertyName": "updatedAt", "operator": "GTE", "value": day}]
        return agent.call("search_records", resource="contacts", filters=since)

    assert "filters[0].propertyName: in a copy" in changed_since("2020-01-01").message
    assert changed_since("2999-01-01").answer["total"] == 0
    sorted_by_change = agent.ok("search_records", resource="contacts", sort="updatedAt")
    assert "in a copy" in sorted_by_change["message"]


def test_deals_are_changed_linked_and_unlinked_in_the_crm(
    agent: AgentCaller, crm: SmallCrm
) -> None:
    ann = found(agent, "p0@example.org")
    deal = agent.ok("create_deal", contactId=ann, properties={"dealname": "Engine"})["dealId"]
    change = {"resource": "deals", "id": deal, "properties": {"dealname": "Engine two"}}
    tried = agent.ok("set_properties", **change, dryRun=True)
    assert tried["wouldBe"].startswith("change dealname")
    assert crm.records["deals"][int(deal)]["properties"]["dealname"] == "Engine"
    assert agent.ok("set_properties", **change)["status"] == "updated"
    assert crm.records["deals"][int(deal)]["properties"]["dealname"] == "Engine two"
    assert agent.ok("get_record", resource="deals", id=deal)["properties"]["dealname"] == (
        "Engine two"
    )
    pair = {"resource": "deals", "id": deal, "toResource": "contacts", "toId": ann}
    linked = {"resource": "deals", "linkedTo": [{"resource": "contacts", "id": ann}]}
    assert agent.ok("search_records", **linked)["total"] == 1
    assert agent.ok("link_records", **pair, remove=True)["status"] == "updated"
    assert not crm.linked("deals", ann)
    assert agent.ok("search_records", **linked)["total"] == 0
    assert agent.ok("link_records", **pair)["status"] == "updated"
    assert list(crm.linked("deals", ann)) == [deal]
    assert agent.ok("search_records", **linked)["total"] == 1


def test_what_the_crm_cannot_take_now_is_queued(
    agent: AgentCaller, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> NoReturn:
        raise Unavailable("it is down")

    ann = found(agent, "p0@example.org")
    deal = agent.ok("create_deal", contactId=ann, properties={"dealname": "Engine"})["dealId"]
    monkeypatch.setattr(SmallAdapter, "write", away)
    asked = {"resource": "deals", "id": deal, "properties": {"dealname": "Engine two"}}
    queued = agent.ok("set_properties", **asked)
    assert (queued["status"], "get_action" in queued["message"]) == ("queued", True)
    assert agent.ok("get_action", actionId=queued["actionId"])["state"] == "queued"
    [waits] = agent.ok("list_failed", states=["queued"])["results"]
    assert waits["actionId"] == queued["actionId"]


def test_a_kind_that_the_crm_lacks_is_refused(agent: AgentCaller) -> None:
    for called in (
        agent.call("search_records", resource="companies"),
        agent.call("create_or_update_company", domain="acme.com", name="Acme"),
    ):
        assert "has no companies" in called.message


@pytest.fixture
def hubspot(app: flask.Flask) -> Any:
    with FakeHubSpot(Options(limit="none", search_limit="none")) as fake:
        client = open_client(app)
        connect(app, client, "hubspot", {"access_token": fake.token}, base_url=str(fake.url))
        hub: Hub = app.extensions["crmhub"]
        fake.add("companies", {"name": "Globex", "domain": "www.globex.com"})
        load_copy(hub, client)
        yield fake, client


def test_companies_are_made_once_in_the_crm(app: flask.Flask, hubspot: Any) -> None:
    fake, client = hubspot
    agent = AgentCaller(client)
    known = agent.ok("create_or_update_company", domain="globex.com", properties={"city": "Rome"})
    assert known["status"] == "updated"
    [globex] = fake.records("companies").values()
    assert globex["city"] == "Rome"
    tried = agent.ok("create_or_update_company", domain="acme.com", name="Acme", dryRun=True)
    assert tried["wouldBe"] == "create a company"
    assert len(fake.records("companies")) == 1
    made = agent.ok("create_or_update_company", domain="acme.com", name="Acme")
    assert made["status"] == "created"
    again = agent.ok("create_or_update_company", domain="acme.com", name="Acme")
    assert (again["status"], again["companyId"]) == ("unchanged", made["companyId"])
    assert made["companyId"] in fake.records("companies")


def test_a_company_that_the_crm_refused_can_be_corrected(hubspot: Any) -> None:
    fake, client = hubspot
    agent = AgentCaller(client)
    fake.require("companies", "city")
    company = {"domain": "acme.com", "name": "Acme"}
    for _ in range(2):
        assert "city" in agent.call("create_or_update_company", **company).message
    made = agent.ok("create_or_update_company", **company, properties={"city": "Rome"})
    assert made["status"] == "created"


def test_calls_at_once_make_one_company_in_the_crm(app: flask.Flask, hubspot: Any) -> None:
    fake, client = hubspot
    hub: Hub = app.extensions["crmhub"]

    def save(_: int) -> str:
        values = {"name": "Acme"}
        try:
            record, _ = agent_writes.save_company(
                hub, client.account, "acme.com", "Acme", values, by=TESTS
            )
        except (Deferred, Conflict):
            # The first call is still in progress, or its record is not copied yet.
            return ""
        return record.properties["crm_id"]

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(save, range(4))) - {""}) == 1
    assert [one["name"] for one in fake.records("companies").values()].count("Acme") == 1
