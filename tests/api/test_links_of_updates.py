"""Updates and upserts add links: `associations` in their input."""

from __future__ import annotations

from functools import partial
from typing import Any

import flask
import pytest

from crmhub.database import connection
from tests.api.refusals import refused
from tests.api.test_associations import EMPTY, RESOURCES, create, linked, read
from tests.clients import Client, needed
from tests.records.meanwhile import at_once

VERBS = ("patch", "update", "upsert")
UNIQUE = {"email": "ada@example.com"}


def send(
    client: Client, verb: str, record: Any, *, query: str = "", **sent: Any
) -> tuple[int, Any, str]:
    """Change a contact in one of three ways; return the status, the record, and the text."""
    by_id, batch = f"/contacts/{record['id']}", f"/contacts/batch/{verb}{query}"
    if verb == "patch":
        answer = client.patch(by_id, sent)
        return answer.status_code, answer.get_json(), answer.text
    found = {"id": record["id"]}
    if verb == "upsert":
        found = {"idProperty": "email", "id": record["properties"]["email"]}
    answer = client.post(batch, {"inputs": [found | sent]})
    shown = answer.get_json()
    if answer.status_code == 200:
        [shown] = shown["results"] if query else shown
        shown.pop("new", None)
    return answer.status_code, shown, answer.text


def contact(client: Client) -> Any:
    answer = client.post("/contacts", {"properties": needed("contacts") | UNIQUE})
    assert answer.status_code == 201, answer.text
    return answer.get_json()


@pytest.mark.parametrize("verb", VERBS)
def test_an_update_adds_links_to_the_present_ones(client: Client, verb: str) -> None:
    friends = {to: [client.make(to), client.make(to)] for to in RESOURCES}
    one = contact(client)
    for to, (first, _) in friends.items():
        assert client.put(f"/contacts/{one['id']}/associations/{to}/{first}").status_code == 204
    sent = {to: [second, second, first] for to, (first, second) in friends.items()}
    status, shown, _ = send(client, verb, one, properties={"city": "Rome"}, associations=sent)
    assert (status, shown["associations"]) == (200, friends)
    assert shown["properties"]["city"] == "Rome"
    assert read(client, "contacts", one["id"]) == shown
    for to, ids in friends.items():
        assert [linked(client, to, id, "contacts") for id in ids] == [[one["id"]]] * 2


@pytest.mark.parametrize("query", ["", "?partial=true"])
@pytest.mark.parametrize("verb", VERBS)
def test_links_alone_change_updated_at_of_the_named_record_and_no_etag(
    client: Client, verb: str, query: str
) -> None:
    one, company = contact(client), create(client, "companies")
    tag = client.get(f"/contacts/{one['id']}").headers["ETag"]
    links = {"companies": [company["id"]], "tickets": []}
    status, shown, _ = send(client, verb, one, query=query, associations=links)
    assert status == 200
    assert shown["updatedAt"] > one["updatedAt"]
    assert shown["associations"] == {**EMPTY, "companies": [company["id"]], "tickets": []}
    assert client.get(f"/contacts/{one['id']}").headers["ETag"] == tag
    assert read(client, "companies", company["id"])["updatedAt"] == company["updatedAt"]
    status, again, _ = send(client, verb, one, query=query, associations=links)
    assert (status, again) == (200, shown)
    newest = client.get("/contacts?include=updatedAt&limit=1").get_json()["results"]
    assert [(each["id"], each["updatedAt"]) for each in newest] == [(one["id"], shown["updatedAt"])]


def test_an_upsert_creates_a_record_with_its_links(client: Client) -> None:
    deal = client.make("deals")
    item = {"idProperty": "email", "id": "new@example.com", "associations": {"deals": [deal]}}
    [made] = client.post("/contacts/batch/upsert", {"inputs": [item]}).get_json()
    assert (made["new"], made["associations"]) == (True, {**EMPTY, "deals": [deal]})
    assert linked(client, "deals", deal, "contacts") == [made["id"]]


@pytest.mark.parametrize("verb", VERBS)
def test_a_refused_link_is_named_and_nothing_is_written(client: Client, verb: str) -> None:
    one, deal = contact(client), client.make("deals")
    path = "" if verb == "patch" else "inputs[0]."
    links: Any
    for links, status, place in (
        ({"deals": [deal, 1]}, 422, "associations.deals[1]"),
        ({"deals": [deal, 2**53]}, 422, "associations.deals[1]"),
        ({"deals": [deal], "contacts": [one["id"]]}, 422, "associations.contacts[0]"),
        ({"deals": [deal, str(deal)]}, 400, "associations.deals[1]"),
        ({"deals": deal}, 400, "associations.deals"),
        ({"notes": [1]}, 400, "associations.notes"),
        ([], 400, "associations"),
        (None, 400, "associations"),
    ):
        sent = {"properties": {"city": "Rome"}, "associations": links}
        found, _, text = send(client, verb, one, **sent)
        assert (found, f"{path}{place}" in text) == (status, True), text
    assert read(client, "contacts", one["id"]) == one
    assert send(client, verb, one)[0] == 400


def test_a_partial_batch_refuses_the_inputs_with_wrong_links_alone(client: Client) -> None:
    one, two, deal = client.make(), client.make(), client.make("deals")
    inputs = [
        {"id": one, "associations": {"deals": [deal]}},
        {"id": two, "associations": {"contacts": [two]}, "properties": {"city": "Rome"}},
        {"id": two, "associations": {"contacts": [one]}},
    ]
    answer = client.post("/contacts/batch/update?partial=true", {"inputs": inputs})
    shown = answer.get_json()
    assert answer.status_code == 207
    assert [each["id"] for each in shown["results"]] == [one, two]
    [refusal] = shown["errors"]
    assert (refusal["index"], refusal["category"]) == (1, "SemanticError")
    assert "inputs[1].associations.contacts[0]" in refusal["message"]
    assert read(client, "contacts", two)["properties"] == needed("contacts")
    assert linked(client, "contacts", one, "contacts") == [two]


def test_two_of_a_batch_may_link_each_other(client: Client) -> None:
    one, two = sorted((client.make("deals"), client.make("deals")))
    inputs = [
        {"id": one, "associations": {"deals": [two]}},
        {"id": two, "associations": {"deals": [one]}},
    ]
    shown = client.post("/deals/batch/update", {"inputs": inputs}).get_json()
    assert [each["associations"]["deals"] for each in shown] == [[two], [one]]


def test_if_match_holds_for_links_too(client: Client) -> None:
    one, deal = client.make(), client.make("deals")
    tag = client.get(f"/contacts/{one}").headers["ETag"]
    client.patch(f"/contacts/{one}", {"properties": {"city": "Rome"}})
    sent = {"associations": {"deals": [deal]}}
    refused(client.patch(f"/contacts/{one}", sent, headers={"If-Match": tag}), 409)
    assert linked(client, "contacts", one, "deals") == []


@pytest.mark.databases("sqlite", "postgresql")
def test_two_updates_at_once_may_link_each_others_record(
    app: flask.Flask, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Neither may have to give way to a deadlock.
    monkeypatch.setattr(connection, "_DEADLOCK_TRIES", 1)
    callers = [Client(app, client.account, client.ids) for _ in range(2)]
    for _ in range(12):
        one, deal = client.make(), client.make("deals")
        answers = at_once(
            partial(callers[0].patch, f"/contacts/{one}", {"associations": {"deals": [deal]}}),
            partial(callers[1].patch, f"/deals/{deal}", {"associations": {"contacts": [one]}}),
        )
        assert [each.status_code for each in answers] == [200, 200]
        assert linked(client, "contacts", one, "deals") == [deal]
