"""Links between records, seen from both ends."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import flask
import pytest

from crmhub.database import connection
from tests.api.refusals import refused
from tests.clients import Client, needed
from tests.depth import KINDS
from tests.pages import fetch, walk
from tests.records.meanwhile import at_once

RESOURCES = ("contacts", "deals", "companies", "tickets")
PAIRS = list(product(KINDS, repeat=2))
EMPTY: dict[str, list[int]] = {"deals": [], "companies": []}


def create(client: Client, resource: str, **associations: Any) -> Any:
    body = {"properties": needed(resource), "associations": associations}
    answer = client.post(f"/{resource}", body)
    assert answer.status_code == 201, answer.text
    return answer.get_json()


def read(client: Client, resource: str, id: int) -> Any:
    answer = client.get(f"/{resource}/{id}")
    assert answer.status_code == 200, answer.text
    return answer.get_json()


def link(client: Client, resource: str, id: int, to: str, to_id: int) -> None:
    answer = client.put(f"/{resource}/{id}/associations/{to}/{to_id}")
    assert (answer.status_code, answer.data) == (204, b"")


def unlink(client: Client, resource: str, id: int, to: str, to_id: int) -> None:
    answer = client.delete(f"/{resource}/{id}/associations/{to}/{to_id}")
    assert (answer.status_code, answer.data) == (204, b"")


def linked(client: Client, resource: str, id: int, to: str) -> list[int]:
    return walk(client, f"/{resource}/{id}/associations/{to}")


# --- both ends -------------------------------------------------------------------------------


@pytest.mark.parametrize(("resource", "to"), PAIRS)
def test_a_link_is_seen_from_both_ends(client: Client, resource: str, to: str) -> None:
    one, two = client.make(resource), client.make(to)
    link(client, resource, one, to, two)
    assert linked(client, resource, one, to) == [two]
    assert linked(client, to, two, resource) == [one]
    assert read(client, resource, one)["associations"] == {**EMPTY, to: [two]}
    assert read(client, to, two)["associations"] == {**EMPTY, resource: [one]}
    unlink(client, to, two, resource, one)
    assert linked(client, resource, one, to) == []
    assert linked(client, to, two, resource) == []


@pytest.mark.parametrize(("resource", "to"), PAIRS)
def test_a_new_record_may_be_linked(client: Client, resource: str, to: str) -> None:
    first, second = sorted(client.make(to) for _ in range(2))
    record = create(client, resource, **{to: [second, first, second]})
    assert record["associations"] == {**EMPTY, to: [first, second]}
    assert read(client, resource, record["id"]) == record
    assert linked(client, to, first, resource) == [record["id"]]


def test_contacts_and_tickets_are_shown_when_there_are_any_or_they_were_asked_for(
    client: Client, resource: str
) -> None:
    record = create(client, resource, contacts=[], tickets=[])
    assert record["associations"] == {**EMPTY, "contacts": [], "tickets": []}
    assert read(client, resource, record["id"])["associations"] == EMPTY
    asked = client.get(f"/{resource}/{record['id']}?associations=tickets").get_json()
    assert asked["associations"] == {**EMPTY, "tickets": []}
    ticket = client.make("tickets")
    link(client, resource, record["id"], "tickets", ticket)
    assert read(client, resource, record["id"])["associations"] == {**EMPTY, "tickets": [ticket]}


def test_lists_and_batches_show_the_links_of_each_record(client: Client, resource: str) -> None:
    company = client.make("companies", name="Linked")
    one, two = create(client, resource, companies=[company]), create(client, resource)
    inputs = {"inputs": [{"id": one["id"]}, {"id": two["id"]}]}
    assert client.post(f"/{resource}/batch/read", inputs).get_json() == [one, two]
    page = fetch(client, f"/{resource}", None, "?include=associations&sort=createdAt&order=asc")
    shown = {each["id"]: each["associations"] for each in page["results"]}
    assert shown[one["id"]] == {**EMPTY, "companies": [company]}
    assert shown[two["id"]] == EMPTY
    same = {"inputs": [{"id": one["id"], "properties": {}}]}
    assert client.post(f"/{resource}/batch/update", same).get_json() == [one]


def test_linking_twice_is_once(client: Client, resource: str) -> None:
    one, two = client.make(resource), client.make("deals", dealname="Linked")
    link(client, resource, one, "deals", two)
    before = read(client, resource, one)
    link(client, resource, one, "deals", two)
    link(client, "deals", two, resource, one)
    assert read(client, resource, one) == before
    assert before["associations"]["deals"] == [two]


# --- what a link touches ---------------------------------------------------------------------


def test_linking_touches_only_the_record_named_in_the_request(
    client: Client, resource: str
) -> None:
    one, two = create(client, resource), create(client, "companies")
    path = f"/{resource}/{one['id']}"
    tags = [client.get(path).headers["ETag"]]
    link(client, resource, one["id"], "companies", two["id"])
    once = read(client, resource, one["id"])
    unlink(client, resource, one["id"], "companies", two["id"])
    twice = read(client, resource, one["id"])
    tags.append(client.get(path).headers["ETag"])
    assert one["updatedAt"] < once["updatedAt"] < twice["updatedAt"]
    assert read(client, "companies", two["id"]) == two
    assert tags[0] == tags[1]


def test_a_record_created_with_links_touches_none_of_the_others(
    client: Client, resource: str
) -> None:
    company = create(client, "companies")
    create(client, resource, companies=[company["id"]])
    assert read(client, "companies", company["id"])["updatedAt"] == company["updatedAt"]


def test_archiving_takes_a_record_out_of_every_link(client: Client, resource: str) -> None:
    friends = {to: client.make(to) for to in RESOURCES}
    before = {to: read(client, to, id) for to, id in friends.items()}
    gone = create(client, resource, **{to: [id] for to, id in friends.items()})["id"]
    assert client.delete(f"/{resource}/{gone}").status_code == 204
    for to, id in friends.items():
        assert linked(client, to, id, resource) == []
        assert read(client, to, id) == before[to]


# --- the page of ids -------------------------------------------------------------------------


def test_linked_ids_come_in_pages(client: Client, resource: str) -> None:
    inputs = [{"properties": needed("deals")} for _ in range(25)]
    made = client.post("/deals/batch/create", {"inputs": inputs}).get_json()
    ids = sorted(each["id"] for each in made)
    one = create(client, resource, deals=ids)["id"]
    path = f"/{resource}/{one}/associations/deals"
    first = fetch(client, path)
    assert (first["total"], first["results"], first["hasMore"]) == (25, ids[:20], True)
    last = fetch(client, path, None, first["cursor"]["nextLink"])
    assert (last["total"], last["results"], last["hasMore"]) == (25, ids[20:], False)
    assert walk(client, path, limit=7) == ids
    assert fetch(client, path, None, "?limit=25&cursor=")["hasMore"] is False
    assert (
        fetch(client, path, None, f"{first['cursor']['nextLink']}&limit=2")["results"]
        == (ids[20:22])
    )


def test_the_cursor_of_linked_ids_is_good_for_them_only(client: Client) -> None:
    deals = [client.make("deals") for _ in range(3)]
    one, two = (create(client, "contacts", deals=deals)["id"] for _ in range(2))
    cursor = fetch(client, f"/contacts/{one}/associations/deals", None, "?limit=1")["cursor"]
    for path in (
        f"/contacts/{two}/associations/deals",
        f"/contacts/{one}/associations/companies",
        f"/deals/{deals[0]}/associations/contacts",
        "/contacts",
    ):
        assert "cursor" in refused(client.get(path + cursor["nextLink"]), 400)
    for query in ("limit=0", "limit=x", "sort=createdAt", "order=asc", "page=2", "cursor=x"):
        path = f"/contacts/{one}/associations/deals?{query}"
        assert query.partition("=")[0] in refused(client.get(path), 400)


def test_links_that_come_and_go_move_no_other_on_a_walk(client: Client) -> None:
    deals = sorted(client.make("deals") for _ in range(9))
    one = create(client, "contacts", deals=deals)["id"]
    path = f"/contacts/{one}/associations/deals"
    first = fetch(client, path, None, "?limit=3")
    unlink(client, "contacts", one, "deals", deals[0])
    unlink(client, "contacts", one, "deals", deals[4])
    second = fetch(client, path, None, first["cursor"]["nextLink"])
    assert first["results"] + second["results"] == [*deals[:4], *deals[5:7]]
    assert second["total"] == 9


# --- refusals --------------------------------------------------------------------------------


def test_a_link_to_nothing_is_422_naming_its_path(client: Client, resource: str) -> None:
    archived, deal = client.make("deals"), client.make("deals")
    client.delete(f"/deals/{archived}")
    for id in (1, archived, 2**53 - 1, 2**53, 2**64, 10**40, 0, -1):
        associations = {"companies": [], "deals": [deal, id]}
        sent = {"properties": needed(resource), "associations": associations}
        assert "associations.deals[1]" in refused(client.post(f"/{resource}", sent), 422)
    sent = {"inputs": [{"properties": needed(resource)}, sent]}
    message = refused(client.post(f"/{resource}/batch/create", sent), 422)
    assert "inputs[1].associations.deals[1]" in message
    assert linked(client, "deals", deal, resource) == []


def test_linking_with_an_id_that_does_not_exist(client: Client, resource: str) -> None:
    one, archived = client.make(resource), client.make("deals")
    client.delete(f"/deals/{archived}")
    for id in (1, archived, 2**53, 2**64, 10**40, 0):
        path = f"/{resource}/{one}/associations/deals/{id}"
        assert "toId" in refused(client.put(path), 422)
        refused(client.delete(path), 404)
        path = f"/deals/{id}/associations/{resource}/{one}"
        refused(client.put(path), 404)
        refused(client.delete(path), 404)
        refused(client.get(f"/deals/{id}/associations/{resource}"), 404)


def test_a_link_to_itself_is_422(client: Client, resource: str) -> None:
    one, two = client.make(resource), client.make(resource)
    refused(client.put(f"/{resource}/{one}/associations/{resource}/{one}"), 422)
    link(client, resource, one, resource, two)
    assert linked(client, resource, one, resource) == [two]
    assert linked(client, resource, two, resource) == [one]


def test_removing_a_link_that_is_not_there_is_404(client: Client, resource: str) -> None:
    one, two = create(client, resource), client.make("deals", dealname="Other")
    refused(client.delete(f"/{resource}/{one['id']}/associations/deals/{two}"), 404)
    assert read(client, resource, one["id"]) == one


# --- at once ---------------------------------------------------------------------------------


@pytest.fixture
def callers(
    app: flask.Flask, client: Client, monkeypatch: pytest.MonkeyPatch
) -> tuple[Client, Client]:
    """Two callers at once, of whom none may have to give way to a deadlock."""
    monkeypatch.setattr(connection, "_DEADLOCK_TRIES", 1)
    return Client(app, client.account, client.ids), Client(app, client.account, client.ids)


@pytest.mark.databases("sqlite", "postgresql")
def test_a_link_and_an_archive_at_once_leave_no_half_link(
    client: Client, callers: tuple[Client, Client]
) -> None:
    one, two = callers
    for _ in range(12):
        contact, deal = client.make("contacts"), client.make("deals")
        put, gone = at_once(
            partial(one.put, f"/contacts/{contact}/associations/deals/{deal}"),
            partial(two.delete, f"/deals/{deal}"),
        )
        assert (put.status_code, gone.status_code) in ((204, 204), (422, 204))
        assert linked(client, "contacts", contact, "deals") == []


@pytest.mark.databases("sqlite", "postgresql")
def test_the_same_link_from_both_ends_at_once_is_one(
    client: Client, callers: tuple[Client, Client]
) -> None:
    one, two = callers
    for _ in range(12):
        contact, deal = client.make("contacts"), client.make("deals")
        answers = at_once(
            partial(one.put, f"/contacts/{contact}/associations/deals/{deal}"),
            partial(two.put, f"/deals/{deal}/associations/contacts/{contact}"),
        )
        assert [each.status_code for each in answers] == [204, 204]
        assert linked(client, "contacts", contact, "deals") == [deal]


@pytest.mark.databases("sqlite", "postgresql")
def test_links_among_the_same_records_wait_for_each_other(
    client: Client, callers: tuple[Client, Client]
) -> None:
    ids = [client.make("companies") for _ in range(3)]
    orders = [(a, b) for a in ids for b in ids if a != b]

    def link_all(caller: Client, pairs: list[tuple[int, int]]) -> list[int]:
        paths = [f"/companies/{a}/associations/companies/{b}" for a, b in pairs]
        return [caller.put(path).status_code for path in paths]

    answers = at_once(
        partial(link_all, callers[0], orders), partial(link_all, callers[1], orders[::-1])
    )
    assert answers == [[204] * 6] * 2
    assert all(len(linked(client, "companies", id, "companies")) == 2 for id in ids)
