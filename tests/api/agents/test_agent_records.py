"""Companies, links, several records at once, and failed calls, as agents write and read them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import flask
import pytest

from crmhub import audit
from crmhub.database.rows import set_where
from crmhub.database.tables import action
from crmhub.hub import Hub
from crmhub.operators import agent_writes
from crmhub.operators.agent_writes import host_of
from tests.api.agents.agent_calls import AgentCaller, caller_with
from tests.clients import TESTS, Client

LEAD = {"name": "Ada Lovelace", "email": "ada@example.com"}
ACME = {"domain": "acme.example", "name": "Acme"}


def companies(agent: AgentCaller) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.ok("search_records", resource="companies")["results"]
    return found


# Companies


def test_a_company_is_created_once_and_then_updated(agent: AgentCaller, hub: Hub) -> None:
    made = agent.ok("create_or_update_company", **ACME, properties={"city": "Rome"})
    assert made["status"] == "created"
    for domain in ("ACME.example", "https://www.acme.example/about", " www.acme.example "):
        again = agent.ok("create_or_update_company", domain=domain)
        assert (again["status"], again["companyId"]) == ("unchanged", made["companyId"])
    changed = agent.ok("create_or_update_company", domain=ACME["domain"], properties={"city": "A"})
    assert (changed["status"], changed["companyId"]) == ("updated", made["companyId"])
    [held] = companies(agent)
    assert held["properties"] == {**ACME, "city": "A"}
    with hub.database.reading() as db:
        wanted = audit.Wanted(account_id=agent.client.account.id, object="records")
        noted = audit.listed(db, wanted, limit=10)
    assert noted[-1].verb == "create"
    assert noted[-1].after == {"properties": ["city", "domain", "name"]}


def test_calls_at_once_make_one_company(agent: AgentCaller, hub: Hub) -> None:
    def save(n: int) -> str:
        _, status = agent_writes.save_company(
            hub, agent.client.account, "acme.example", "", {"name": f"Acme {n}"}, by=TESTS
        )
        return status

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(save, range(8)))
    assert done.count("created") == 1
    assert len(companies(agent)) == 1


def test_a_company_without_a_domain_is_found_by_its_name(agent: AgentCaller) -> None:
    made = agent.ok("create_or_update_company", name="Acme")
    again = agent.ok("create_or_update_company", name="ACME", properties={"city": "Rome"})
    assert (again["status"], again["companyId"]) == ("updated", made["companyId"])
    assert agent.ok("create_or_update_company", name="Acme Inc")["status"] == "created"
    agent.client.make("companies", name="Acme Inc")
    called = agent.call("create_or_update_company", name="Acme Inc")
    assert "2 companies have this name; send the domain" in called.message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "domain: is missing"),
        ({"domain": "no domain"}, "domain: 'no domain' is no domain; send one such as"),
        ({"name": "{{name}}"}, "name:"),
        ({"domain": "acme.example"}, "name"),
        ({**ACME, "properties": {"name": "B"}}, "properties.name: send it as the argument name"),
        ({**ACME, "properties": {"numberofemployees": "few"}}, "numberofemployees"),
    ],
)
def test_a_company_is_refused_with_the_field(
    agent: AgentCaller, arguments: dict[str, Any], words: str
) -> None:
    for dry in (True, False):
        assert words in agent.call("create_or_update_company", **arguments, dryRun=dry).message
    assert companies(agent) == []


def test_a_dry_run_of_a_company_writes_nothing(agent: AgentCaller) -> None:
    asked = {**ACME, "properties": {"citty": "Rome", "city": "Rome"}}
    tried = agent.ok("create_or_update_company", **asked, dryRun=True)
    assert tried["wouldBe"] == "create a company"
    assert tried["refused"][0]["name"] == "citty"
    assert companies(agent) == []
    made = agent.ok("create_or_update_company", **ACME)
    tried = agent.ok("create_or_update_company", **asked, dryRun=True)
    assert tried["wouldBe"] == f"change city of company {made['companyId']}"
    assert tried["companyId"] == made["companyId"]


@pytest.mark.parametrize(
    ("sent", "domain"),
    [
        ("https://www.Acme.example/a?b", "acme.example"),
        ("acme.example?b", "acme.example"),
        ("http://ann@acme.example:8080", "acme.example"),
        ("acme.example.", "acme.example"),
        ("xn--mnchen-3ya.example", "münchen.example"),
        ("MÜNCHEN.example", "münchen.example"),
        ("localhost", ""),
        ("1.2.3.4", ""),
        ("xn--a.b", ""),
        ("", ""),
    ],
)
def test_one_domain_is_written_in_many_ways(sent: str, domain: str) -> None:
    assert host_of(sent) == domain


# Links


def test_a_link_is_made_removed_and_searched_by(agent: AgentCaller) -> None:
    company = agent.ok("create_or_update_company", **ACME)["companyId"]
    ada, bob = (str(agent.client.make(firstname=name)) for name in ("Ada", "Bob"))
    pair = {"resource": "contacts", "id": ada, "toResource": "companies", "toId": company}
    of_company = {"resource": "contacts", "linkedTo": [{"resource": "companies", "id": company}]}
    assert agent.ok("search_records", **of_company)["total"] == 0
    assert agent.ok("link_records", **pair, remove=True)["status"] == "unchanged"
    assert agent.ok("link_records", **pair)["status"] == "updated"
    agent.ok("link_records", **{**pair, "id": bob})
    assert agent.ok("search_records", **of_company)["total"] == 2
    named = [{"propertyName": "firstname", "operator": "EQ", "value": "Ada"}]
    found = agent.ok("search_records", **of_company, filters=named)
    assert [one["id"] for one in found["results"]] == [ada]
    tried = agent.ok("link_records", **pair, remove=True, dryRun=True)
    assert tried["wouldBe"] == f"remove the link of contact {ada} and company {company}"
    assert agent.ok("link_records", **pair, remove=True)["status"] == "updated"
    assert agent.ok("search_records", **of_company)["total"] == 1


def test_linked_records_need_the_scope_of_both_kinds(agent: AgentCaller, app: flask.Flask) -> None:
    company = agent.ok("create_or_update_company", **ACME)["companyId"]
    caller = caller_with(agent.client, app, ["contacts:read"])
    linked = [{"resource": "companies", "id": company}]
    called = caller.call("search_records", resource="contacts", linkedTo=linked)
    assert "companies:read" in called.message
    linked = [{"resource": "companies", "id": "5"}]
    called = agent.call("search_records", resource="contacts", linkedTo=linked)
    assert "linkedTo[0].id: There is no company 5" in called.message


# Several records


def test_several_records_are_read_at_once(agent: AgentCaller) -> None:
    ids = [str(agent.client.make(firstname=f"Ann {n}")) for n in range(3)]
    asked = ["5", *ids, "x"]
    read = agent.ok("get_record", resource="contacts", ids=asked)
    assert read["source"] == "hub"
    wrong, *records, odd = read["results"]
    assert [one["id"] for one in records] == ids
    assert [one["properties"] for one in records] == [{"firstname": f"Ann {n}"} for n in range(3)]
    assert (wrong["id"], "no contact 5" in wrong["error"]) == ("5", True)
    assert (odd["id"], odd["error"][:4]) == ("x", "id: ")
    assert agent.ok("get_record", resource="contacts", id=ids[0])["id"] == ids[0]
    for wrong_ids in ({}, {"id": "5", "ids": ["5"]}, {"ids": ["5"] * 21}):
        assert agent.call("get_record", resource="contacts", **wrong_ids).is_error


def test_several_long_records_come_in_pages(agent: AgentCaller) -> None:
    ids = [
        str(agent.client.make("tickets", subject="x" * 400, content="y" * 400)) for _ in range(20)
    ]
    pages = agent.pages("get_record", resource="tickets", ids=ids)
    assert len(pages) > 1
    assert [one["id"] for page in pages for one in page["results"]] == ids


def test_long_lists_of_links_say_how_many_there_are(agent: AgentCaller) -> None:
    company = agent.client.make("companies")
    ids = [agent.client.make() for _ in range(25)]
    for id in ids:
        agent.client.put(f"/companies/{company}/associations/contacts/{id}")
    [read] = agent.ok("get_record", resource="companies", ids=[str(company)])["results"]
    assert len(read["associations"]["contacts"]) == 20
    assert read["partial"] == {"contacts": {"from": 0, "to": 20, "of": 25}}


# Failed calls


def plant(hub: Hub, client: Client, action_id: str, state: str, **more: Any) -> None:
    key = {"account_id": client.account.id, "id": action_id}
    values = {"state": state, "reason": "HubSpot: no such option", **more}
    hub.database.transact(lambda tx: set_where(tx, action, key, **values))


def test_failed_calls_are_listed_with_reason_and_remedy(agent: AgentCaller, hub: Hub) -> None:
    assert agent.ok("list_failed")["results"] == []
    lead = agent.ok("create_or_update_lead", **LEAD)
    of_ada = {"contactId": lead["contactId"], "properties": {"dealname": "Engine"}}
    deal = agent.ok("create_deal", **of_ada)
    plant(hub, agent.client, lead["actionId"], "dead")
    plant(hub, agent.client, deal["actionId"], "parked", behind=lead["actionId"])
    listed = agent.ok("list_failed")
    assert listed["counts"] == {"dead": 1, "parked": 1, "refused": 0, "queued": 0}
    blocked, failed = listed["results"]
    assert (blocked["state"], blocked["behind"]) == ("parked", lead["actionId"])
    assert blocked["sent"]["dealname"] == "Engine"
    assert (failed["state"], failed["reason"]) == ("dead", "HubSpot: no such option")
    assert "do not send it again" in failed["message"]
    assert failed["sent"]["email"] == LEAD["email"]
    plant(hub, agent.client, deal["actionId"], "refused")
    assert len(agent.ok("list_failed")["results"]) == 1
    assert [one["state"] for one in agent.ok("list_failed", states=["refused"])["results"]] == [
        "refused"
    ]


def test_failed_calls_of_a_day(agent: AgentCaller, hub: Hub) -> None:
    lead = agent.ok("create_or_update_lead", **LEAD)
    plant(hub, agent.client, lead["actionId"], "dead")
    accepted = agent.ok("list_failed")["results"][0]["acceptedAt"]
    assert len(agent.ok("list_failed", since=accepted[:10])["results"]) == 1
    before = agent.ok("list_failed", until=accepted[:10])
    assert (before["results"], before["counts"]["dead"]) == ([], 0)
    assert "since:" in agent.call("list_failed", since="yesterday").message


def test_many_failed_calls_come_in_pages(agent: AgentCaller, hub: Hub) -> None:
    ids = []
    for n in range(60):
        lead = agent.ok("create_or_update_lead", name=f"Ann {n}", email=f"a{n}@example.com")
        plant(hub, agent.client, lead["actionId"], "dead")
        ids.append(lead["actionId"])
    pages = agent.pages("list_failed")
    assert [one["actionId"] for page in pages for one in page["results"]] == ids[::-1]


def test_a_key_sees_the_failed_calls_of_its_scopes(
    agent: AgentCaller, hub: Hub, app: flask.Flask
) -> None:
    lead = agent.ok("create_or_update_lead", **LEAD)
    plant(hub, agent.client, lead["actionId"], "dead")
    of_deals = caller_with(agent.client, app, ["deals:read"]).ok("list_failed")
    assert (of_deals["results"], of_deals["counts"]["dead"]) == ([], 0)
    [shown] = caller_with(agent.client, app, ["contacts:write"]).ok("list_failed")["results"]
    assert "sent" not in shown
