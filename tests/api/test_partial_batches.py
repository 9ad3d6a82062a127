"""Batches with `?partial=true`: what is good is stored, each other input has an error."""

from __future__ import annotations

from functools import partial
from typing import Any

import flask
import pytest

from crmhub.accounts.changes import set_switches
from crmhub.bounds import MAX_KEPT_ANSWER_BYTES
from crmhub.database.drivers import Deadlocked
from crmhub.errors import Unavailable
from crmhub.hub import Hub
from crmhub.records import writing
from tests.api.refusals import refused
from tests.catalogue_properties import define
from tests.clients import Client, needed, open_client
from tests.pages import fetch, total
from tests.records.meanwhile import at_once

TEXT = {"contacts": "city", "deals": "hs_next_step", "companies": "city", "tickets": "content"}


def item(resource: str = "contacts", /, **properties: Any) -> dict[str, Any]:
    return {"properties": {**needed(resource), **properties}}


def email(name: str, **properties: Any) -> dict[str, Any]:
    return item(email=f"{name}@example.com", **properties)


def upsert(value: Any, by: str = "email", **properties: Any) -> dict[str, Any]:
    return {"idProperty": by, "id": value, "properties": properties}


def send(client: Client, verb: str, inputs: Any, resource: str = "contacts", **options: Any) -> Any:
    return client.post(f"/{resource}/batch/{verb}?partial=true", {"inputs": inputs}, **options)


def stored(client: Client, verb: str, inputs: Any, resource: str = "contacts") -> Any:
    """Send a partial batch of which an input is refused; return its records and errors."""
    answer = send(client, verb, inputs, resource)
    assert answer.status_code == 207, answer.text
    body = answer.get_json()
    assert list(body) == ["results", "errors"]
    assert len(body["results"]) + len(body["errors"]) == len(inputs)
    for each in body["results"]:
        shown = client.get(f"/{resource}/{each['id']}").get_json()
        assert {**each, "new": None} == {**shown, "new": None}
    return body["results"], body["errors"]


def brief(errors: Any) -> list[tuple[int, str, int | None]]:
    return [(each["index"], each["category"], each.get("existingId")) for each in errors]


def test_nothing_wrong_has_the_usual_status_and_no_errors(client: Client, resource: str) -> None:
    created = send(client, "create", [item(resource)] * 3, resource)
    assert created.status_code == 201
    assert created.get_json()["errors"] == []
    ids = [each["id"] for each in created.get_json()["results"]]
    changes = [{"id": id, "properties": {TEXT[resource]: "x"}} for id in ids]
    updated = send(client, "update", changes, resource)
    assert updated.status_code == 200
    assert [each["properties"][TEXT[resource]] for each in updated.get_json()["results"]] == [
        "x"
    ] * 3
    define(client, resource, "code", unique=True)
    upserted = send(client, "upsert", [upsert("a", "code", **needed(resource))], resource)
    assert upserted.status_code == 200
    assert upserted.get_json()["results"][0]["new"] is True
    assert upserted.get_json()["errors"] == []


def test_without_partial_the_answer_stays_as_it_was(client: Client) -> None:
    for query in ("", "?partial=false"):
        answer = client.post(f"/contacts/batch/create{query}", {"inputs": [item()]})
        assert answer.status_code == 201
        assert isinstance(answer.get_json(), list)
        bad = {"inputs": [item(), item(no_such_property="x")]}
        refused(client.post(f"/contacts/batch/create{query}", bad), 422)
    assert total(client) == 2


def test_partial_is_true_or_false_and_unknown_elsewhere(client: Client) -> None:
    body = {"inputs": [item()]}
    for word in ("1", "yes", "", "TRUE"):
        answer = client.post(f"/contacts/batch/create?partial={word}", body)
        assert "partial: must be true or false" in refused(answer, 400)
    for path in ("/contacts/batch/read", "/contacts/batch/archive", "/contacts"):
        answer = client.post(f"{path}?partial=true", {"inputs": [{"id": 1}]})
        assert "partial" in refused(answer, 400)
    assert total(client) == 0


def test_create_stores_the_good_inputs_in_their_order(client: Client, resource: str) -> None:
    name = TEXT[resource]
    inputs = [
        item(resource, **{name: "0"}),
        {"properties": {}},
        item(resource, **{name: "2"}),
        item(resource, no_such_property="x"),
        item(resource, **{name: "4"}),
    ]
    results, errors = stored(client, "create", inputs, resource)
    assert [each["properties"][name] for each in results] == ["0", "2", "4"]
    assert brief(errors) == [(1, "SemanticError", None), (3, "SemanticError", None)]
    assert errors[1]["message"].startswith("inputs[3].properties.no_such_property: ")
    assert total(client, resource) == 3


def test_duplicates_name_the_record_that_has_the_value(client: Client) -> None:
    old = client.make(email="old@example.com")
    inputs = [email("new"), email("old"), email("NEW"), email("newer"), email("old")]
    results, errors = stored(client, "create", inputs)
    assert [each["properties"]["email"][:5] for each in results] == ["new@e", "newer"]
    new = results[0]["id"]
    assert brief(errors) == [
        (1, "ConflictError", old),
        (2, "ConflictError", new),
        (4, "ConflictError", old),
    ]
    assert errors[0]["message"] == (
        f"inputs[1].properties.email: another contact, {old}, has this value. Existing ID: {old}"
    )
    assert errors[1]["message"].startswith(
        "inputs[2].properties.email: the same value as inputs[0].properties.email"
    )


def test_a_duplicate_of_a_refused_input_is_stored(client: Client) -> None:
    bad_link = {**email("twin"), "associations": {"deals": [1]}}
    results, errors = stored(client, "create", [bad_link, email("twin"), email("twin", no="x")])
    assert [each["properties"]["email"] for each in results] == ["twin@example.com"]
    assert brief(errors) == [(0, "SemanticError", None), (2, "SemanticError", None)]
    assert errors[0]["message"].startswith("inputs[0].associations.deals[0]: there is no deal 1")


def test_links_of_good_inputs_are_stored(client: Client, resource: str) -> None:
    deal = client.make("deals")
    inputs = [
        {**item(resource), "associations": {"deals": [deal]}},
        {**item(resource), "associations": {"deals": [deal, 2**53]}},
    ]
    results, errors = stored(client, "create", inputs, resource)
    assert results[0]["associations"]["deals"] == [deal]
    assert brief(errors) == [(1, "SemanticError", None)]
    linked = client.get(f"/deals/{deal}/associations/{resource}").get_json()["results"]
    assert linked == [results[0]["id"]]


def test_all_inputs_may_be_refused(client: Client, resource: str) -> None:
    assert stored(client, "create", [item(resource, no="x")] * 2, resource)[0] == []
    define(client, resource, "code", unique=True)
    changes = [{"id": id, "properties": {}} for id in (1, 2**53 - 1)]
    assert stored(client, "update", changes, resource)[0] == []
    assert stored(client, "upsert", [upsert("x", "code", no="x")], resource)[0] == []
    assert total(client, resource) == 0


def test_the_plan_stores_what_fits(app: flask.Flask) -> None:
    client = open_client(app, plan="free")
    assert send(client, "create", [item("deals")] * 98, "deals").status_code == 201
    bad = item("deals", no="x")
    results, errors = stored(client, "create", [bad, *[item("deals")] * 4], "deals")
    assert len(results) == 2
    assert [(i, category) for i, category, _ in brief(errors)] == [
        (0, "SemanticError"),
        (3, "LimitExceededError"),
        (4, "LimitExceededError"),
    ]
    assert errors[1]["message"].startswith("inputs[3]: the plan allows 100 deals")
    assert total(client, "deals") == 100
    assert stored(client, "create", [item("deals")], "deals")[0] == []


def test_a_full_plan_refuses_the_new_records_of_upserts_alone(app: flask.Flask) -> None:
    client = open_client(app, plan="free")
    define(client, "deals", "code", unique=True)
    inputs = [item("deals", code=f"{n}") for n in range(99)]
    assert send(client, "create", inputs, "deals").status_code == 201
    sent = [upsert(code, "code", dealname="x") for code in ("new", "5", "newer", "6")]
    results, errors = stored(client, "upsert", sent, "deals")
    assert [each["new"] for each in results] == [True, False, False]
    assert brief(errors) == [(2, "LimitExceededError", None)]


@pytest.mark.databases("sqlite", "postgresql")
def test_creates_at_once_fill_the_plan_exactly(app: flask.Flask) -> None:
    client = open_client(app, plan="free")
    assert send(client, "create", [item("deals")] * 50, "deals").status_code == 201
    callers = [Client(app, client.account, client.ids) for _ in range(6)]
    calls = [partial(send, each, "create", [item("deals")] * 15, "deals") for each in callers]
    answers = at_once(*calls)
    bodies = [each.get_json() for each in answers]
    assert {each.status_code for each in answers} == {201, 207}
    assert sum(len(each["results"]) for each in bodies) == 50
    assert sum(len(each["errors"]) for each in bodies) == 40
    assert total(client, "deals") == 100


def test_an_unknown_id_is_404_of_its_input(client: Client, other: Client, resource: str) -> None:
    id, gone, name = client.make(resource), client.make(resource), TEXT[resource]
    client.delete(f"/{resource}/{gone}")
    ids = [1, id, 2**60, other.make(resource), gone]
    changes = [{"id": each, "properties": {name: "x"}} for each in ids]
    results, errors = stored(client, "update", changes, resource)
    assert [each["id"] for each in results] == [id]
    assert brief(errors) == [(n, "NotFoundError", None) for n in (0, 2, 3, 4)]
    assert errors[0]["message"].startswith("inputs[0].id: there is no ")


def test_an_update_stores_the_good_changes(client: Client, resource: str) -> None:
    name, must = TEXT[resource], next(iter(needed(resource)))
    a, b, c = (client.make(resource, **{name: "old"}) for _ in "abc")
    changes = [
        {"id": a, "properties": {name: "new"}},
        {"id": b, "properties": {must: ""}},
        {"id": c, "properties": {name: None}},
        {"id": a, "properties": {name: "newer"}},
    ]
    results, errors = stored(client, "update", changes, resource)
    assert [each["id"] for each in results] == [a, c]
    assert results[0]["properties"][name] == "new"
    assert name not in results[1]["properties"]
    assert brief(errors) == [(1, "SemanticError", None), (3, "BadRequestError", None)]
    assert errors[1]["message"] == "inputs[3].id: the same record as inputs[0].id; send each once."


def test_a_refused_change_keeps_its_value_from_the_others(client: Client) -> None:
    a, b, c, d = (client.make(email=f"{n}@example.com") for n in "abcd")
    changes: Any = [
        {"id": a, "properties": {"email": "b@example.com"}},
        {"id": b, "properties": {"email": "c@example.com"}},
        {"id": c, "properties": {"email": "new@example.com", "no": "x"}},
        {"id": d, "properties": {"city": "Rome"}},
    ]
    results, errors = stored(client, "update", changes)
    assert [each["id"] for each in results] == [d]
    assert brief(errors) == [
        (0, "ConflictError", b),
        (1, "ConflictError", c),
        (2, "SemanticError", None),
    ]


def test_upsert_stores_the_good_inputs(client: Client) -> None:
    define(client, "contacts", "code", unique=True)
    ada = client.make(email="ada@example.com", code="1")
    taken = client.make(email="taken@example.com")
    inputs = [
        upsert("new@example.com", city="Oslo"),
        upsert("no address"),
        upsert("ada@example.com", city="Rome"),
        upsert("1", "code", city="Bonn"),
        upsert("2", "code", email="taken@example.com"),
        upsert("Rome", "city"),
        upsert("new@example.com", city="Bern"),
        upsert("3", "code"),
        upsert("x@example.com", email="y@example.com"),
    ]
    results, errors = stored(client, "upsert", inputs)
    assert [(each["new"], each["properties"]["city"]) for each in results] == [
        (True, "Oslo"),
        (False, "Rome"),
    ]
    assert results[1]["id"] == ada
    assert brief(errors) == [
        (1, "SemanticError", None),
        (3, "BadRequestError", None),
        (4, "ConflictError", taken),
        (5, "BadRequestError", None),
        (6, "ConflictError", results[0]["id"]),
        (7, "SemanticError", None),
        (8, "SemanticError", None),
    ]


@pytest.mark.databases("sqlite", "postgresql")
def test_two_batches_at_once_share_their_unique_values(client: Client, app: flask.Flask) -> None:
    inputs = [email(f"{n}") for n in range(30)]
    orders = [inputs, inputs[::-1], inputs[10:] + inputs[:10], inputs]
    callers = [Client(app, client.account, client.ids) for _ in orders]
    calls = [partial(send, c, "create", o) for c, o in zip(callers, orders, strict=True)]
    bodies = [each.get_json() for each in at_once(*calls)]
    ids = {each["id"] for body in bodies for each in body["results"]}
    assert len(ids) == total(client) == 30
    assert {each["existingId"] for body in bodies for each in body["errors"]} <= ids
    assert sum(len(body["errors"]) for body in bodies) == 90


@pytest.mark.databases("sqlite", "postgresql")
def test_upserts_at_once_make_each_record_once(client: Client, app: flask.Flask) -> None:
    inputs = [*[upsert(f"{n}@example.com", city="Rome") for n in range(20)], upsert("bad")]
    callers = [Client(app, client.account, client.ids) for _ in range(4)]
    bodies = [
        each.get_json() for each in at_once(*(partial(send, c, "upsert", inputs) for c in callers))
    ]
    assert [len(body["results"]) for body in bodies] == [20] * 4
    assert sum(each["new"] for body in bodies for each in body["results"]) == 20
    assert total(client) == 20


def test_a_database_fault_stores_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes of an upsert are written before its new records."""
    client.make(email="old@example.com")

    def fail(*_: Any, **__: Any) -> Any:
        raise Unavailable("The database is gone.")

    monkeypatch.setattr(writing, "create", fail)
    inputs = [upsert("old@example.com", city="Rome"), upsert("new@example.com"), upsert("bad")]
    refused(send(client, "upsert", inputs), 503)
    monkeypatch.undo()
    [old] = fetch(client, "/contacts")["results"]
    assert "city" not in old["properties"]


def test_a_deadlock_is_tried_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.make(email="old@example.com")
    create, attempts = writing.create, []

    def deadlock(*args: Any, **kwargs: Any) -> Any:
        attempts.append(1)
        if len(attempts) == 1:
            raise Deadlocked("The database is busy with conflicting writes; try again.")
        return create(*args, **kwargs)

    monkeypatch.setattr(writing, "create", deadlock)
    inputs = [upsert("old@example.com", city="Rome"), upsert("new@example.com"), upsert("bad")]
    results, errors = stored(client, "upsert", inputs)
    assert [each["new"] for each in results] == [False, True]
    assert [each["index"] for each in errors] == [2]
    assert len(attempts) == 2


def test_a_repeated_key_repeats_the_answer(client: Client) -> None:
    inputs = [email("a"), email("a"), item(no="x")]
    headers = {"Idempotency-Key": "k"}
    first = send(client, "create", inputs, headers=headers)
    again = send(client, "create", inputs, headers=headers)
    assert (first.status_code, again.status_code) == (207, 207)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.get_json() == first.get_json()
    assert total(client) == 1
    whole = client.post("/contacts/batch/create", {"inputs": inputs}, headers=headers)
    assert "Idempotency-Key" in refused(whole, 422)


def test_a_long_answer_is_repeated_with_the_records_present_values(
    client: Client, resource: str
) -> None:
    name = TEXT[resource]
    inputs = [item(resource, **{name: "x" * 2000}) for _ in range(60)]
    wrong = {f"no_{n}_{'x' * 80}": "x" for n in range(40)}
    inputs += [item(resource, **wrong) for _ in range(40)]
    headers = {"Idempotency-Key": "k"}
    first = send(client, "create", inputs, resource, headers=headers)
    assert len(first.data) > MAX_KEPT_ANSWER_BYTES
    again = send(client, "create", inputs, resource, headers=headers)
    assert again.status_code == 207
    assert again.get_json() == first.get_json()
    assert total(client, resource) == 60


def test_errors_alone_are_never_longer_than_a_kept_answer(client: Client) -> None:
    wrong = {f"no_{n}_é{chr(34) * 80}": "x" for n in range(30)}
    body = send(client, "create", [item(**wrong)] * 100)
    assert body.status_code == 207
    assert len(body.data) < MAX_KEPT_ANSWER_BYTES
    assert all(each["message"].endswith("…") for each in body.get_json()["errors"])


def test_unknown_properties_are_defined_where_the_account_wants_it(
    client: Client, app: flask.Flask
) -> None:
    hub: Hub = app.extensions["crmhub"]
    switch = {"auto_define_properties": True}
    hub.database.transact(lambda tx: set_switches(tx, client.account.id, switch, hub.plans))
    client.make(email="a@example.com")
    results, errors = stored(client, "create", [email("a"), email("b", shoe_size="42")])
    assert results[0]["properties"]["shoe_size"] == "42"
    assert [each["index"] for each in errors] == [0]
