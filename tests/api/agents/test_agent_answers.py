"""Long answers of tools come in parts of at most 8,000 characters that are read by a cursor."""

from __future__ import annotations

import flask
import pytest

from tests.api.agents.agent_calls import AgentCaller
from tests.clients import Client, open_client

# The records that tasks read and write are the API's, which is tested on each database.
pytestmark = pytest.mark.databases("sqlite")


def fill(client: Client, count: int, **properties: str) -> list[str]:
    """Create contacts and return their ids."""
    inputs = [{"properties": {"firstname": f"N{n}", **properties}} for n in range(count)]
    answer = client.post("/contacts/batch/create", {"inputs": inputs})
    assert answer.status_code == 201, answer.text
    return [str(one["id"]) for one in answer.json]  # type: ignore[index,union-attr]


@pytest.mark.parametrize("limit", [3, 100])
def test_a_search_is_read_to_its_end_with_each_record_once(agent: AgentCaller, limit: int) -> None:
    ids = fill(agent.client, 60, jobtitle="j" * 300)
    pages = agent.pages(
        "search_records", resource="contacts", limit=limit, sort="createdAt", order="asc"
    )
    shown = [record["id"] for page in pages for record in page["results"]]
    assert sorted(shown) == sorted(ids)
    assert {page["total"] for page in pages} == {60}
    assert all(1 <= len(page["results"]) <= limit for page in pages)
    # Each page is filled: 60 records of 350 characters do not need more.
    assert limit == 3 or len(pages) <= 4


def test_the_newest_change_first_is_read_to_its_end(agent: AgentCaller) -> None:
    ids = fill(agent.client, 30, jobtitle="j" * 400)
    pages = agent.pages("search_records", resource="contacts", limit=50)
    assert sorted({r["id"] for page in pages for r in page["results"]}) == sorted(ids)


def test_people_are_found_once_each_although_several_values_match(agent: AgentCaller) -> None:
    ids = fill(agent.client, 12, lastname="Smith", company="Smith & Sons")
    more = fill(agent.client, 12, lastname="Jones", company="smith ltd")
    fill(agent.client, 3, lastname="Brown")
    pages = agent.pages("find_contacts", query="smith", limit=5)
    shown = [record["id"] for page in pages for record in page["results"]]
    assert sorted(shown) == sorted([*ids, *more])
    assert pages[-1]["results"]


def test_long_values_are_named_in_a_list_and_read_in_parts(agent: AgentCaller) -> None:
    text = "äöü\n\"'" * 4000
    id = str(agent.client.make("tickets", subject="Long", content=text))
    listed = agent.ok("search_records", resource="tickets")["results"][0]
    assert listed["omitted"] == {"content": len(text)}
    assert listed["properties"]["subject"] == "Long"
    pages = agent.pages("get_record", resource="tickets", id=id, properties=["content"])
    assert "".join(page["properties"].get("content", "") for page in pages) == text
    assert pages[0]["partial"]["content"]["of"] == len(text)


def test_a_record_of_many_properties_is_read_in_parts(agent: AgentCaller, app: flask.Flask) -> None:
    names = [f"p{n:03d}" for n in range(150)]
    for name in names:
        body = {"name": name, "type": "string"}
        assert agent.client.post("/properties/companies", body).status_code == 201
    values = {name: name * 25 for name in names}
    id = str(agent.client.make("companies", **values))
    [listed] = agent.ok("search_records", resource="companies")["results"]
    assert listed.get("omitted") or listed["omittedCount"]
    pages = agent.pages("get_record", resource="companies", id=id)
    read: dict[str, str] = {}
    for page in pages:
        assert not read.keys() & page["properties"].keys()
        read |= page["properties"]
    assert {name: read[name] for name in names} == values


def test_many_links_are_read_in_parts(agent: AgentCaller) -> None:
    people = fill(agent.client, 100)
    people += [i for _ in range(9) for i in fill(agent.client, 100)]
    body = {
        "properties": {"name": "Big"},
        "associations": {"contacts": [int(id) for id in people]},
    }
    answer = agent.client.post("/companies", body)
    assert answer.status_code == 201, answer.text
    pages = agent.pages("get_record", resource="companies", id=str(answer.json["id"]))  # type: ignore[index]
    linked = [id for page in pages for id in page["associations"].get("contacts", ())]
    assert sorted(linked) == sorted(people)
    assert len(pages) > 1


def test_all_properties_and_options_are_listed(agent: AgentCaller) -> None:
    options = [{"value": f"v{n}", "label": f"An option of number {n}"} for n in range(400)]
    body = {"name": "many", "type": "enumeration", "options": options}
    assert agent.client.post("/properties/contacts", body).status_code == 201
    pages = agent.pages("list_properties", resource="contacts")
    names = [one["name"] for page in pages for one in page["results"]]
    total = agent.client.get("/properties/contacts").json["total"]  # type: ignore[index]
    assert len(names) == len(set(names)) == total
    many = next(one for page in pages for one in page["results"] if one["name"] == "many")
    assert (len(many["options"]), many["optionsTotal"]) == (20, 400)
    pages = agent.pages("list_properties", resource="contacts", name="many")
    assert [o for page in pages for one in page["results"] for o in one["options"]] == options


def test_all_stages_are_listed(agent: AgentCaller) -> None:
    for n in range(4):
        stages = [{"label": f"The stage number {m} of {n}"} for m in range(90)]
        body = {"label": f"Pipeline {n}", "stages": stages}
        assert agent.client.post("/pipelines/deals", body).status_code == 201
    pages = agent.pages("list_pipelines", resource="deals")
    stages = [s["id"] for page in pages for one in page["results"] for s in one["stages"]]
    assert len(stages) == len(set(stages)) == 7 + 4 * 90


@pytest.mark.parametrize("tool", ["find_contacts", "list_properties", "list_pipelines"])
def test_a_cursor_is_for_one_tool_and_one_account(
    agent: AgentCaller, app: flask.Flask, tool: str
) -> None:
    fill(agent.client, 3)
    other = AgentCaller(open_client(app))
    fill(other.client, 3)
    cursor = agent.ok("search_records", resource="contacts", limit=1)["cursor"]
    foreign = other.ok("find_contacts", query="N", limit=1)["cursor"]
    arguments = {"query": "N", "limit": 1} if tool == "find_contacts" else {"resource": "deals"}
    for wrong in (cursor, foreign, cursor[:-2], "a" * 8000, "🙂"):
        called = agent.call(tool, **arguments, cursor=wrong)
        assert called.answer["category"] == "BadRequestError"
        assert "cursor" in called.message
    assert other.ok("find_contacts", query="N", limit=1, cursor=foreign)["results"]
