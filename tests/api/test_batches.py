"""Batches: 1 to 100 inputs, all or nothing, every failing one named."""

from __future__ import annotations

from functools import partial
from typing import Any

import flask
import pytest

from tests.api.refusals import refused
from tests.catalogue_properties import define
from tests.clients import Client, needed, open_client
from tests.pages import fetch, total
from tests.records.meanwhile import at_once

TEXT = {"contacts": "city", "deals": "hs_next_step", "companies": "city", "tickets": "content"}
WHOLE = ["id", "properties", "associations", "createdAt", "updatedAt"]
VERBS = ("create", "read", "update", "upsert", "archive")
STATUS = {"create": 201, "read": 200, "update": 200, "upsert": 200, "archive": 204}


def item(resource: str, **properties: Any) -> dict[str, Any]:
    return {"properties": {**needed(resource), **properties}}


def batch(client: Client, resource: str, verb: str, inputs: Any, **more: Any) -> Any:
    """Send a batch, which must work, and return its answer."""
    answer = client.post(f"/{resource}/batch/{verb}", {"inputs": inputs, **more})
    assert answer.status_code == STATUS[verb], answer.text
    return answer.get_json() if answer.data else None


def refusal(client: Client, resource: str, verb: str, inputs: Any, *statuses: int) -> str:
    answer = client.post(f"/{resource}/batch/{verb}", {"inputs": inputs})
    return refused(answer, *statuses)


def everything(client: Client, resource: str) -> Any:
    query = "?limit=100&include=associations,createdAt,updatedAt"
    return fetch(client, f"/{resource}", None, query)["results"]


# --- create ----------------------------------------------------------------------------------


def test_create_answers_the_records_in_the_order_of_the_inputs(
    client: Client, resource: str
) -> None:
    created = batch(
        client, resource, "create", [item(resource, **{TEXT[resource]: f"{n}"}) for n in range(100)]
    )
    assert [each["properties"][TEXT[resource]] for each in created] == [f"{n}" for n in range(100)]
    assert all(list(each) == WHOLE for each in created)
    assert len({each["id"] for each in created}) == total(client, resource) == 100
    assert client.get(f"/{resource}/{created[7]['id']}").get_json() == created[7]


def test_each_item_may_be_linked(client: Client, resource: str) -> None:
    deal, company = client.make("deals"), client.make("companies")
    links = {"deals": [deal], "companies": [company, company]}
    one, two = batch(
        client,
        resource,
        "create",
        [{**item(resource), "associations": links}, {**item(resource), "associations": {}}],
    )
    assert one["associations"] == {"deals": [deal], "companies": [company]}
    assert two["associations"] == {"deals": [], "companies": []}


@pytest.mark.databases("sqlite")
def test_a_batch_has_1_to_100_inputs(client: Client, resource: str) -> None:
    for verb in VERBS:
        body: Any
        wrong: Any
        for body in ({}, {"inputs": None}, {"inputs": {}}, {"inputs": "x"}, {"inputs": []}):
            assert "inputs" in refused(client.post(f"/{resource}/batch/{verb}", body), 400)
        assert "100" in refusal(client, resource, verb, [{}] * 101, 400)
        for wrong in (None, 1, "x", []):
            assert "inputs[0]" in refusal(client, resource, verb, [wrong], 400)
        refused(client.post(f"/{resource}/batch/{verb}", {"inputs": [{}], "atomic": False}), 400)


def test_one_bad_input_writes_nothing_and_every_bad_one_is_named(
    client: Client, resource: str
) -> None:
    name = next(iter(needed(resource)))
    good = [item(resource) for _ in range(5)]
    bad: Any
    for bad, status in (
        ({"properties": {}}, 422),
        (item(resource, no_such_property="x"), 422),
        ({**item(resource), "associations": {"deals": [1]}}, 422),
        ({"associations": {}}, 400),
        (item(resource, **{name: []}), 400),
        ({**item(resource), "id": 1}, 400),
        ({**item(resource), "associations": {"deals": ["1"]}}, 400),
        ({**item(resource), "associations": {"leads": [1]}}, 400),
    ):
        inputs = [good[0], bad, good[1], good[2], bad]
        message = refusal(client, resource, "create", inputs, status)
        assert "inputs[1]" in message
        assert "inputs[4]" in message
        assert not any(f"inputs[{n}]" in message for n in (0, 2, 3))
    assert total(client, resource) == 0


def test_an_input_that_lacks_something_is_named_beside_one_that_is_wrong(
    client: Client, resource: str
) -> None:
    unknown = item(resource, no_such_property="x")
    message = refusal(
        client, resource, "create", [{"properties": {}}, item(resource), unknown], 422
    )
    first, last = message.index("inputs[0].properties."), message.index("inputs[2].properties.")
    assert first < last
    assert "inputs[1]" not in message
    assert total(client, resource) == 0


def test_a_duplicate_is_409_with_its_index_and_the_existing_id(client: Client) -> None:
    one, two = (client.make(email=f"{n}@example.com") for n in "12")
    inputs = [item("contacts", email=f"{each}@example.com") for each in ("new", "1", "newer", "2")]
    message = refusal(client, "contacts", "create", inputs, 409)
    assert "inputs[1].properties.email" in message
    assert "inputs[3].properties.email" in message
    assert message.endswith((f"Existing ID: {one}", f"Existing ID: {two}"))
    assert total(client, "contacts") == 2


def test_twice_in_a_batch_is_409_naming_both_indexes(client: Client) -> None:
    emails = ["a@example.com", "b@example.com", "A@example.com", "b@EXAMPLE.com"]
    message = refusal(
        client, "contacts", "create", [item("contacts", email=each) for each in emails], 409
    )
    assert all(f"inputs[{n}].properties.email" in message for n in range(4))
    assert total(client, "contacts") == 0


def test_a_whole_batch_may_lack_the_unique_property(client: Client) -> None:
    assert len(batch(client, "contacts", "create", [item("contacts", email="")] * 3)) == 3


# --- read ------------------------------------------------------------------------------------


def test_read_answers_in_order_and_leaves_out_what_is_not_found(
    client: Client, other: Client, resource: str
) -> None:
    a, b, c = (client.make(resource) for _ in range(3))
    unknown = [1, 2**53 - 1, 2**53, 2**70, 0, -5, other.make(resource)]
    client.delete(f"/{resource}/{c}")
    found = batch(client, resource, "read", [{"id": id} for id in (b, *unknown, c, a, b)])
    assert [each["id"] for each in found] == [b, a]
    assert found[0] == client.get(f"/{resource}/{b}").get_json()
    assert batch(client, resource, "read", [{"id": c}]) == []


def test_read_narrows_the_properties(client: Client, resource: str) -> None:
    name = next(iter(needed(resource)))
    id = client.make(resource, **{TEXT[resource]: "x"})
    [found] = batch(client, resource, "read", [{"id": id}], properties=[TEXT[resource], "nothing"])
    assert found["properties"] == {TEXT[resource]: "x"}
    [found] = batch(client, resource, "read", [{"id": id}], properties=[name])
    assert found["properties"] == needed(resource)
    assert list(found) == WHOLE


def test_read_finds_by_a_unique_property(client: Client, resource: str) -> None:
    define(client, resource, "code", "number", unique=True)
    one, two = (client.make(resource, code=f"{n}") for n in (7, 8))
    inputs = [{"id": "8.0"}, {"id": 7}, {"id": "9"}, {"id": "no number"}, {"id": 7.0}]
    found = batch(client, resource, "read", inputs, idProperty="code")
    assert [each["id"] for each in found] == [two, one]
    for name in (TEXT[resource], "nothing", "id", ""):
        body = {"inputs": [{"id": "7"}], "idProperty": name}
        assert "idProperty" in refused(client.post(f"/{resource}/batch/read", body), 400)


def test_what_a_read_lacks_is_said_in_words(client: Client) -> None:
    body = {"inputs": [{}, {"id": None}], "properties": None}
    message = refused(client.post("/contacts/batch/read", body), 400)
    assert "inputs[0].id: is missing; send the id of a record" in message
    assert "inputs[1].id: is missing; send the id of a record" in message
    assert "properties: must be an array of strings, not null" in message


# --- update ----------------------------------------------------------------------------------


def test_update_changes_each_record_and_answers_in_order(client: Client, resource: str) -> None:
    name = TEXT[resource]
    a, b, c = batch(client, resource, "create", [item(resource, **{name: "x"})] * 3)
    inputs = [
        {"id": c["id"], "properties": {name: "new"}},
        {"id": a["id"], "properties": {name: None}},
        {"id": b["id"], "properties": {name: "x"}},
    ]
    new_c, new_a, same_b = batch(client, resource, "update", inputs)
    assert new_c["properties"] == {**c["properties"], name: "new"}
    assert name not in new_a["properties"]
    assert same_b == b
    assert min(new_a["updatedAt"], new_c["updatedAt"]) > a["updatedAt"]
    assert client.get(f"/{resource}/{a['id']}").get_json() == new_a


def test_an_update_with_one_bad_input_does_nothing(client: Client, resource: str) -> None:
    name, must = TEXT[resource], next(iter(needed(resource)))
    ids = [each["id"] for each in batch(client, resource, "create", [item(resource)] * 4)]
    before = everything(client, resource)
    bad: Any
    for bad, status in (
        ({"id": ids[1], "properties": {must: ""}}, 422),
        ({"id": ids[1], "properties": {"no_such_property": "x"}}, 422),
        ({"id": 12345, "properties": {}}, 404),
        ({"id": ids[1]}, 400),
        ({"properties": {}}, 400),
        ({"id": str(ids[1]), "properties": {}}, 400),
        ({"id": ids[1], "properties": {name: {}}}, 400),
        ({"id": ids[1], "properties": {}, "associations": []}, 400),
    ):
        inputs = [{"id": ids[0], "properties": {name: "new"}}, bad]
        assert "inputs[1]" in refusal(client, resource, "update", inputs, status)
    assert everything(client, resource) == before


@pytest.mark.parametrize("verb", ["update", "archive"])
def test_every_unknown_id_is_named_and_nothing_is_done(
    client: Client, resource: str, verb: str
) -> None:
    ids = [each["id"] for each in batch(client, resource, "create", [item(resource)] * 3)]
    more = {"properties": {TEXT[resource]: "x"}} if verb == "update" else {}
    before = everything(client, resource)
    unknown = [1, 2**60, 2**53 - 1]
    inputs = [{"id": id, **more} for id in (ids[0], unknown[0], ids[1], unknown[1], unknown[2])]
    message = refusal(client, resource, verb, inputs, 404)
    assert all(f"inputs[{n}].id" in message for n in (1, 3, 4))
    assert not any(f"inputs[{n}]" in message for n in (0, 2))
    assert everything(client, resource) == before


def test_a_record_stands_once_in_an_update(client: Client, resource: str) -> None:
    id = client.make(resource)
    inputs = [{"id": id, "properties": {TEXT[resource]: f"{n}"}} for n in range(2)]
    message = refusal(client, resource, "update", inputs, 400)
    assert "inputs[0]" in message
    assert "inputs[1]" in message


def test_unique_values_may_be_swapped_in_one_update(client: Client) -> None:
    a, b, c = (client.make(email=f"{n}@example.com") for n in "abc")
    inputs = [
        {"id": id, "properties": {"email": f"{n}@example.com"}}
        for id, n in ((a, "b"), (b, "c"), (c, "a"))
    ]
    changed = batch(client, "contacts", "update", inputs)
    assert [each["properties"]["email"][0] for each in changed] == ["b", "c", "a"]
    found = client.get("/contacts/a@example.com?idProperty=email").get_json()
    assert found["id"] == c
    assert refusal(client, "contacts", "create", [item("contacts", email="b@example.com")], 409)


def test_an_update_to_a_taken_value_is_409_with_its_index(client: Client) -> None:
    a, b, c = (client.make(email=f"{n}@example.com") for n in "abc")
    inputs: Any = [
        {"id": a, "properties": {"city": "Rome"}},
        {"id": b, "properties": {"email": "c@example.com"}},
    ]
    message = refusal(client, "contacts", "update", inputs, 409)
    assert "inputs[1].properties.email" in message
    assert message.endswith(f"Existing ID: {c}")
    inputs = [{"id": id, "properties": {"email": "new@example.com"}} for id in (a, b)]
    message = refusal(client, "contacts", "update", inputs, 409)
    assert "inputs[0].properties.email" in message
    assert "inputs[1].properties.email" in message
    assert "city" not in client.get(f"/contacts/{a}").get_json()["properties"]


# --- upsert ----------------------------------------------------------------------------------


def upsert(value: Any, by: str = "email", **properties: Any) -> dict[str, Any]:
    return {"idProperty": by, "id": value, "properties": properties}


def test_upsert_changes_what_there_is_and_creates_the_rest(client: Client) -> None:
    ada = client.make(email="ada@example.com", city="Rome")
    inputs = [
        upsert("new@example.com", city="Oslo"),
        upsert(" ADA@example.com", lastname="Lovelace"),
        upsert("third@example.com", email="Third@example.com"),
    ]
    new, changed, third = batch(client, "contacts", "upsert", inputs)
    assert [each["new"] for each in (new, changed, third)] == [True, False, True]
    assert [*new] == [*WHOLE, "new"]
    assert changed["id"] == ada
    assert changed["properties"] == {
        "firstname": "Ada",
        "lastname": "Lovelace",
        "city": "Rome",
        "email": "ada@example.com",
    }
    assert new["properties"] == {"email": "new@example.com", "city": "Oslo"}
    assert third["properties"] == {"email": "third@example.com"}
    again = batch(client, "contacts", "upsert", inputs)
    assert [each.pop("new") for each in again] == [False] * 3
    assert again == [client.get(f"/contacts/{each['id']}").get_json() for each in again]
    assert again[1]["updatedAt"] == changed["updatedAt"]
    assert total(client, "contacts") == 3


def test_upsert_works_by_any_unique_property(client: Client, resource: str) -> None:
    define(client, resource, "code", "number", unique=True)
    name = TEXT[resource]
    first = batch(client, resource, "upsert", [upsert("007", "code", **needed(resource))])
    second = batch(client, resource, "upsert", [upsert(7, "code", **{name: "x"})])
    assert (first[0]["new"], second[0]["new"]) == (True, False)
    assert second[0]["id"] == first[0]["id"]
    assert second[0]["properties"]["code"] == "7"


def test_upsert_with_one_bad_input_does_nothing(client: Client) -> None:
    client.make(email="ada@example.com")
    taken = client.make(email="taken@example.com")
    define(client, "contacts", "code", unique=True)
    client.make(email="coded@example.com", code="c")
    before = everything(client, "contacts")
    good = upsert("ada@example.com", city="Rome"), upsert("new@example.com", city="Rome")
    for bad, status in (
        (upsert("x@example.com", email="y@example.com"), 422),
        (upsert("x@example.com", email=""), 422),
        (upsert("no address"), 422),
        (upsert(""), 422),
        (upsert(None), 422),
        (upsert("x@example.com", no_such_property="x"), 422),
        (upsert("new2", "code", email="taken@example.com"), 409),
        (upsert("c", "code", email="taken@example.com"), 409),
        (upsert("new2", "code"), 422),
        (upsert("Rome", "city"), 400),
        (upsert(1, "id"), 400),
        (upsert([]), 400),
        ({"id": "x@example.com", "properties": {}}, 400),
        ({"idProperty": "email", "properties": {}}, 400),
        ({"idProperty": "email", "id": "x@example.com"}, 400),
    ):
        answer = client.post("/contacts/batch/upsert", {"inputs": [*good, bad]})
        message = refused(answer, status)
        assert "inputs[2]" in message, bad
        if status == 409:
            assert message.endswith(f"Existing ID: {taken}")
    assert everything(client, "contacts") == before


def test_every_input_of_an_upsert_that_lacks_something_is_named(client: Client) -> None:
    define(client, "companies", "code", unique=True)
    client.make("companies", code="old")
    inputs = [upsert("new", "code"), upsert("old", "code", name=""), upsert("newer", "code")]
    message = refusal(client, "companies", "upsert", inputs, 422)
    reason = "a company needs this property"
    assert message == "; ".join(f"inputs[{n}].properties.name: {reason}" for n in range(3))


def test_the_id_of_an_upsert_is_named_where_it_was_sent(client: Client) -> None:
    inputs = [upsert("no address", city="Rome"), upsert("none", email="none")]
    message = refusal(client, "contacts", "upsert", inputs, 422)
    assert 'inputs[0].id: "no address" is not an email address' in message
    assert 'inputs[1].properties.email: "none" is not an email address' in message


def test_every_input_of_an_upsert_by_no_unique_property_is_named(client: Client) -> None:
    inputs = [upsert("Rome", "city"), upsert("a@example.com", city="Rome"), upsert(1, "id")]
    message = refusal(client, "contacts", "upsert", inputs, 400)
    reason = "not a unique property of contacts; send one of email"
    assert message == "; ".join(f"inputs[{n}].idProperty: {reason}" for n in (0, 2))


def test_a_value_stands_once_in_an_upsert(client: Client) -> None:
    client.make(email="ada@example.com")
    for email, status in (("ada@example.com", (400, 409)), ("new@example.com", (409,))):
        inputs = [upsert(email, city="Rome"), upsert(email.upper(), city="Oslo")]
        message = refusal(client, "contacts", "upsert", inputs, *status)
        assert "inputs[0]" in message
        assert "inputs[1]" in message
    assert total(client, "contacts") == 1


@pytest.mark.databases("sqlite", "postgresql")
def test_upserts_of_the_same_value_at_once_make_one_record(
    client: Client, app: flask.Flask
) -> None:
    inputs = [upsert(f"{n}@example.com", city="Rome") for n in "abc"]
    callers = [Client(app, client.account, client.ids) for _ in range(8)]
    answers = at_once(*(partial(batch, each, "contacts", "upsert", inputs) for each in callers))
    assert len({tuple(each["id"] for each in answer) for answer in answers}) == 1
    assert [sum(answer[n]["new"] for answer in answers) for n in range(3)] == [1, 1, 1]
    assert total(client, "contacts") == 3


# --- archive ---------------------------------------------------------------------------------


def test_archive_takes_all_of_them(client: Client, resource: str) -> None:
    created = batch(client, resource, "create", [item(resource)] * 5)
    ids = [each["id"] for each in created]
    assert batch(client, resource, "archive", [{"id": id} for id in ids[:3]]) is None
    assert {each["id"] for each in everything(client, resource)} == set(ids[3:])
    refusal(client, resource, "archive", [{"id": ids[0]}], 404)


# --- plans -----------------------------------------------------------------------------------


def test_a_full_plan_is_402_and_nothing_is_written(app: flask.Flask) -> None:
    client = open_client(app, plan="free")
    batch(client, "deals", "create", [item("deals")] * 99)
    message = refusal(client, "deals", "create", [item("deals")] * 2, 402)
    assert "100" in message
    assert total(client, "deals") == 99
    last = client.make("deals")
    refused(client.post("/deals", item("deals")), 402)
    assert client.make("tickets")
    client.delete(f"/deals/{last}")
    assert client.make("deals")
    assert total(client, "deals") == 100


def test_a_full_plan_stops_upserts_that_create(app: flask.Flask) -> None:
    client = open_client(app, plan="free")
    define(client, "deals", "code", unique=True)
    batch(client, "deals", "create", [item("deals", code=f"{n}") for n in range(100)])
    known = [upsert(f"{n}", "code", amount="5") for n in range(3)]
    refusal(client, "deals", "upsert", [*known, upsert("new", "code", dealname="x")], 402)
    assert "amount" not in everything(client, "deals")[0]["properties"]
    assert [each["new"] for each in batch(client, "deals", "upsert", known)] == [False] * 3


@pytest.mark.databases("sqlite", "postgresql")
def test_creates_at_once_never_exceed_the_plan(app: flask.Flask) -> None:
    client = open_client(app, plan="free")
    batch(client, "deals", "create", [item("deals")] * 40)
    callers = [Client(app, client.account, client.ids) for _ in range(8)]
    body = {"inputs": [item("deals")] * 20}
    answers = at_once(*(partial(each.post, "/deals/batch/create", body) for each in callers))
    assert sorted(each.status_code for each in answers) == [201] * 3 + [402] * 5
    assert total(client, "deals") == 100
    assert client.get("/usage").status_code == 200
