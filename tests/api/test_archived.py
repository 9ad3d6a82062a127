"""Archived records: listed with `archived=true`, and restored."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import flask
import pytest

from crmhub.database import expired
from crmhub.database.connection import now_ms
from crmhub.database.expired import ARCHIVED_MS
from crmhub.durations import iso
from crmhub.hub import Hub
from crmhub.records.archived import _BY_ARCHIVAL
from tests.api.refusals import refused
from tests.api.test_associations import EMPTY, create, linked, read
from tests.clients import Client, needed, open_client
from tests.events.receivers import subscribe
from tests.events.test_record_events import written
from tests.pages import fetch, walk
from tests.queue.working import change, rows
from tests.records.meanwhile import at_once
from tests.records.test_merging import sound
from tests.records.times import set_times

ARCHIVED = "?archived=true"


def archive(client: Client, resource: str, *ids: int) -> None:
    for id in ids:
        assert client.delete(f"/{resource}/{id}").status_code == 204


def restore(client: Client, resource: str, id: int) -> Any:
    answer = client.post(f"/{resource}/{id}/restore", None)
    assert answer.status_code == 200, answer.text
    return answer.get_json()


def age(hub: Hub, client: Client, id: int, ms: int) -> None:
    """Let a record have been archived so long ago."""
    at = "archived_at = :at where id = :record"
    change(hub, client, at, "archived_record", at=now_ms() - ms, record=id)


# --- the list --------------------------------------------------------------------------------


def test_archived_records_are_listed_with_the_time(client: Client, resource: str) -> None:
    made = [create(client, resource) for _ in range(3)]
    archive(client, resource, made[0]["id"], made[2]["id"])
    page = fetch(client, f"/{resource}{ARCHIVED}")
    assert page["total"] == 2
    newest, oldest = page["results"]
    assert [newest["id"], oldest["id"]] == [made[2]["id"], made[0]["id"]]
    assert list(newest) == ["id", "properties", "archivedAt"]
    assert newest["properties"] == made[2]["properties"]
    assert made[2]["updatedAt"] <= newest["archivedAt"]
    for link in ("", "?archived=false"):
        assert [each["id"] for each in fetch(client, f"/{resource}{link}")["results"]] == [
            made[1]["id"]
        ]


def test_archived_records_are_listed_like_others(client: Client) -> None:
    deal = client.make("deals")
    one = create(client, "contacts", deals=[deal])
    client.patch(f"/contacts/{one['id']}", {"properties": {"city": "Rome"}})
    one = read(client, "contacts", one["id"])
    archive(client, "contacts", one["id"])
    query = "&properties=city,email&include=associations,createdAt,updatedAt"
    [shown] = fetch(client, f"/contacts{ARCHIVED}{query}")["results"]
    del shown["archivedAt"]
    assert shown == {**one, "properties": {"city": "Rome"}}


@pytest.mark.parametrize(
    ("sort", "order"), [*product(("date_modified", "createdAt", "archivedAt"), ("asc", "desc"))]
)
def test_a_walk_through_archived_records(client: Client, sort: str, order: str) -> None:
    inputs = [{"properties": needed("deals")} for _ in range(12)]
    made = client.post("/deals/batch/create", {"inputs": inputs}).get_json()
    ids = [each["id"] for each in made]
    for id in ids[3:6]:
        client.patch(f"/deals/{id}", {"properties": {"amount": "1"}})
    for id in (*ids[4:11], *ids[:4]):
        archive(client, "deals", id)
    field = "updatedAt" if sort == "date_modified" else sort
    params = {"archived": "true", "sort": sort, "order": order, "limit": 4}
    if field != "archivedAt":
        params["include"] = field
    found = walk(client, "/deals", **params)
    keys = [(each[field], each["id"]) for each in found]
    assert keys == sorted(keys, reverse=order == "desc")
    assert sorted(each["id"] for each in found) == sorted(ids[:11])
    assert all("archivedAt" in each for each in found)


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("sort", ["updatedAt", "archivedAt"])
def test_archived_records_are_narrowed_by_their_times(hub: Hub, client: Client, sort: str) -> None:
    ids = [client.make() for _ in range(6)]
    begin = 1_780_000_000_000
    set_times(hub, client, "contacts", ids, [(begin, begin + n) for n in range(6)])
    archive(client, "contacts", *reversed(ids))
    params = {"archived": "true", "sort": sort, "order": "asc", "limit": 2, "include": "updatedAt"}
    found = walk(client, "/contacts", **params, updatedSince=iso(begin + 2))
    assert sorted(each["id"] for each in found) == ids[2:]
    assert {each["id"]: each["updatedAt"] for each in found} == {
        id: iso(begin + n) for n, id in enumerate(ids) if n >= 2
    }
    keys = [(each[sort], each["id"]) for each in found]
    assert keys == sorted(keys)
    assert fetch(client, f"/contacts{ARCHIVED}&createdSince={iso(begin + 1)}")["total"] == 0
    link = fetch(client, f"/contacts{ARCHIVED}&limit=1&updatedSince={iso(begin)}")["cursor"]
    other = client.get(f"/contacts{link['nextLink']}&updatedSince={iso(begin + 1)}")
    assert "updatedSince" in refused(other, 400)


def test_only_archived_records_are_sorted_by_their_archival(client: Client) -> None:
    for link in ("?sort=archivedAt", "?sort=archivedAt&archived=false"):
        assert "archived=true" in refused(client.get(f"/contacts{link}"), 400)
    body: dict[str, Any] = {"filters": []}
    refused(client.post("/contacts/search?sort=archivedAt", body), 400)
    refused(client.post("/contacts/search", {**body, "sort": "archivedAt"}), 400)


def test_what_is_restored_or_archived_on_a_walk_moves_no_other(client: Client) -> None:
    ids = [client.make() for _ in range(7)]
    archive(client, "contacts", *ids[:6])
    first = fetch(client, "/contacts", None, f"{ARCHIVED}&sort=createdAt&order=asc&limit=2")
    restore(client, "contacts", ids[0])
    restore(client, "contacts", ids[3])
    archive(client, "contacts", ids[6])
    rest = fetch(client, "/contacts", None, f"{first['cursor']['nextLink']}&limit=100")
    assert [each["id"] for each in rest["results"]] == [ids[2], *ids[4:]]
    assert (rest["total"], rest["hasMore"]) == (6, False)


def test_a_page_of_large_archived_records_ends_early(client: Client) -> None:
    value = {f"p{n}": "x" * 65_000 for n in range(2)}
    for name in value:
        client.post("/properties/contacts", {"name": name, "type": "text"})
    ids = [client.make(**value) for _ in range(34)]
    archive(client, "contacts", *ids)
    first = fetch(client, f"/contacts{ARCHIVED}&limit=100")
    assert (first["total"], first["hasMore"]) == (34, True)
    found = walk(client, "/contacts", archived="true", limit=100)
    assert {each["id"]: each["properties"]["p1"] for each in found} == dict.fromkeys(
        ids, value["p1"]
    )


def test_archived_takes_true_and_false_and_only_in_lists(client: Client, resource: str) -> None:
    for value in ("", "1", "True", "yes", "null"):
        assert "archived" in refused(client.get(f"/{resource}?archived={value}"), 400)
    id = client.make(resource)
    filters: dict[str, Any] = {"filters": []}
    refused(client.post(f"/{resource}/search{ARCHIVED}", filters), 400)
    refused(client.post(f"/{resource}/search", {**filters, "archived": True}), 400)
    refused(client.get(f"/{resource}/{id}{ARCHIVED}"), 400)


def test_a_cursor_of_one_list_is_none_of_the_other(client: Client) -> None:
    ids = [client.make() for _ in range(6)]
    archive(client, "contacts", *ids[:3])
    links = [
        fetch(client, f"/contacts?limit=2&archived={archived}")["cursor"]["nextLink"]
        for archived in ("false", "true")
    ]
    for link in (f"{links[0]}&archived=true", f"{links[1]}&archived=false"):
        assert "cursor" in refused(client.get(f"/contacts{link}"), 400)
    for change_ in ("sort=createdAt", "order=asc"):
        assert "cursor" in refused(client.get(f"/contacts{links[1]}&{change_}"), 400)
    refused(client.post(f"/contacts/search{links[1]}", {"filters": []}), 400)
    refused(client.get(f"/deals{links[1]}"), 400)
    assert fetch(client, f"/contacts{links[1]}&archived=true")["results"]


def test_what_was_archived_90_days_ago_is_gone(hub: Hub, client: Client) -> None:
    company, old, young = client.make("companies"), client.make(), client.make()
    for id in (old, young):
        client.put(f"/contacts/{id}/associations/companies/{company}")
    archive(client, "contacts", old, young)
    age(hub, client, old, ARCHIVED_MS)
    age(hub, client, young, ARCHIVED_MS - 600_000)
    page = fetch(client, f"/contacts{ARCHIVED}")
    assert (page["total"], [each["id"] for each in page["results"]]) == (1, [young])
    refused(client.post(f"/contacts/{old}/restore", None), 404)
    with hub.database.across_accounts():
        while expired.delete_expired(hub.database, expired.ARCHIVED):
            pass
    assert rows(hub, client, "id", "archived_record") == [(young,)]
    ends = rows(hub, client, "from_id, to_id", "archived_association")
    assert sorted(ends) == sorted([(young, company), (company, young)])
    assert restore(client, "contacts", young)["associations"] == {**EMPTY, "companies": [company]}
    assert rows(hub, client, "from_id", "archived_association") == []


# PostgreSQL's plan depends on the size of the table.
@pytest.mark.databases("sqlite")
def test_archived_records_are_read_by_an_index(hub: Hub) -> None:
    with hub.database.reading() as db:
        [*steps] = db.rows(
            "explain query plan select id from archived_record where account_id = 1 and kind = 1"
            " and archived_at > 5 and (updated_at, id) < (5, 5) order by updated_at desc, id desc"
        )
        [*moments] = db.rows(
            f"explain query plan select id from {_BY_ARCHIVAL} where account_id = :account"
            " and kind = :kind and archived_at > 5 and (updated_at, id) < (5, 5)"
            " order by updated_at desc, id desc",
            {"account": 1, "kind": 1},
        )
    assert "archived_moment" in str(moments)
    assert "TEMP B-TREE" not in str(moments)
    assert "archived_updated" in str(steps)
    assert "TEMP B-TREE" not in str(steps)


# --- restoring -------------------------------------------------------------------------------


def test_a_restored_record_is_as_it_was(hub: Hub, client: Client, resource: str) -> None:
    friends = {to: [client.make(to)] for to in ("contacts", "deals", "companies", "tickets")}
    one = create(client, resource, **friends)
    archive(client, resource, one["id"])
    subscribe(hub, client, "*")
    answer = client.post(f"/{resource}/{one['id']}/restore", None)
    restored = answer.get_json()
    assert answer.status_code == 200
    assert restored["updatedAt"] > one["updatedAt"]
    assert {**restored, "updatedAt": one["updatedAt"]} == one
    assert read(client, resource, one["id"]) == restored
    assert answer.headers["ETag"] == client.get(f"/{resource}/{one['id']}").headers["ETag"]
    for to, ids in friends.items():
        assert linked(client, to, ids[0], resource) == [one["id"]]
    [(created, data), *others] = written(hub, client)
    assert (created.partition(".")[2], data["restored"]) == ("created", True)
    assert data["properties"] == one["properties"]
    assert [each for each, _ in others] == ["association.changed"] * 4
    assert fetch(client, f"/{resource}{ARCHIVED}")["results"] == []
    sound(hub, client)


def test_restoring_what_is_not_archived(client: Client, resource: str) -> None:
    live = client.make(resource)
    refused(client.post(f"/{resource}/1/restore", None), 404)
    refused(client.post(f"/{resource}/{2**53}/restore", None), 404)
    refused(client.post(f"/{resource}/x/restore", None), 400)
    assert "not archived" in refused(client.post(f"/{resource}/{live}/restore", None), 409)
    archive(client, resource, live)
    restore(client, resource, live)
    assert "not archived" in refused(client.post(f"/{resource}/{live}/restore", None), 409)


def test_a_unique_value_taken_meanwhile_is_named(client: Client) -> None:
    gone = client.make(email="ada@example.com")
    archive(client, "contacts", gone)
    taken = client.make(email="ada@example.com")
    answer = client.post(f"/contacts/{gone}/restore", None)
    assert refused(answer, 409).endswith(f"Existing ID: {taken}")
    assert answer.headers["Location"] == f"{client.base}/contacts/{taken}"
    client.patch(f"/contacts/{taken}", {"properties": {"email": "other@example.com"}})
    restore(client, "contacts", gone)
    refused(client.post("/contacts", {"properties": {"email": "ada@example.com"}}), 409)


@pytest.mark.parametrize("first", [0, 1])
def test_links_between_archived_records_come_back_with_the_second(
    hub: Hub, client: Client, first: int
) -> None:
    company = client.make("companies")
    contact = create(client, "contacts", companies=[company])["id"]
    archive(client, "contacts", contact)
    archive(client, "companies", company)
    both = [("contacts", contact), ("companies", company)]
    one, two = both[first], both[1 - first]
    assert restore(client, *one)["associations"] == EMPTY
    assert restore(client, *two)["associations"][one[0]] == [one[1]]
    assert rows(hub, client, "from_id", "archived_association") == []
    sound(hub, client)


def test_a_restored_deal_does_not_change_its_stage(client: Client) -> None:
    stages = [{"id": "s1", "label": "One"}, {"id": "s2", "label": "Two"}]
    body = {"id": "p1", "label": "Sales", "stages": stages}
    assert client.post("/pipelines/deals", body).status_code == 201
    deal = client.make("deals", pipeline="p1", dealstage="s2")
    archive(client, "deals", deal)
    client.patch("/pipelines/deals/p1", {"stages": stages[:1]})
    message = refused(client.post(f"/deals/{deal}/restore", None), 409)
    assert "dealstage 's2' does not exist" in message
    client.patch("/pipelines/deals/p1", {"stages": stages})
    assert restore(client, "deals", deal)["properties"]["dealstage"] == "s2"
    archive(client, "deals", deal)
    client.delete("/pipelines/deals/p1")
    assert "pipeline 'p1'" in refused(client.post(f"/deals/{deal}/restore", None), 409)


def test_values_without_a_property_or_option_are_left_out(hub: Hub, client: Client) -> None:
    colour = {"name": "colour", "type": "enumeration"}
    options = [{"value": value, "label": value} for value in ("red", "blue")]
    client.post("/properties/contacts", {**colour, "options": options})
    client.post("/properties/contacts", {"name": "code", "type": "string"})
    id = client.make(colour="red", code="7", city="Rome")
    archive(client, "contacts", id)
    client.patch("/properties/contacts/colour", {"options": options[1:]})
    client.delete("/properties/contacts/code?force=true")
    restored = restore(client, "contacts", id)
    assert restored["properties"] == needed("contacts") | {"city": "Rome"}
    sound(hub, client)


def test_a_full_plan_refuses_a_restore(app: flask.Flask, hub: Hub) -> None:
    client = open_client(app, plan="free")
    inputs = [{"properties": needed("deals")} for _ in range(100)]
    ids = [each["id"] for each in client.post("/deals/batch/create", {"inputs": inputs}).json]
    archive(client, "deals", ids[0])
    extra = client.make("deals")
    refused(client.post(f"/deals/{ids[0]}/restore", None), 402)
    assert client.get("/usage").json["resources"]["deals"]["used"] == 100
    archive(client, "deals", extra)
    restore(client, "deals", ids[0])
    assert client.get("/usage").json["resources"]["deals"]["used"] == 100
    sound(hub, client)


def test_a_restore_with_a_key_is_done_once(client: Client) -> None:
    id = client.make()
    archive(client, "contacts", id)
    again = {"headers": {"Idempotency-Key": "restore-1"}}
    first, second = (client.post(f"/contacts/{id}/restore", None, **again) for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 200)
    assert second.json == first.json
    assert second.headers["Idempotent-Replayed"] == "true"


@pytest.mark.databases("sqlite", "postgresql")
def test_linked_records_restored_at_once_are_linked(
    app: flask.Flask, hub: Hub, client: Client
) -> None:
    callers = [Client(app, client.account, client.ids) for _ in range(2)]
    for _ in range(8):
        company = client.make("companies")
        contact = create(client, "contacts", companies=[company])["id"]
        archive(client, "contacts", contact)
        archive(client, "companies", company)
        at_once(
            partial(restore, callers[0], "contacts", contact),
            partial(restore, callers[1], "companies", company),
        )
        assert linked(client, "contacts", contact, "companies") == [company]
    sound(hub, client)


@pytest.mark.databases("sqlite", "postgresql")
def test_a_record_restored_twice_at_once_is_one(app: flask.Flask, hub: Hub, client: Client) -> None:
    callers = [Client(app, client.account, client.ids) for _ in range(2)]
    for _ in range(8):
        id = client.make(email="ada@example.com")
        archive(client, "contacts", id)
        path = f"/contacts/{id}/restore"
        answers = at_once(*(partial(caller.post, path, None) for caller in callers))
        assert sorted(each.status_code for each in answers) == [200, 409]
        archive(client, "contacts", id)
    sound(hub, client)
