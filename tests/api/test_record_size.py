"""All values of a record together have at most 131,072 characters."""

from __future__ import annotations

from typing import Any

import pytest

from crmhub.bounds import MAX_RECORD_LENGTH, MAX_TEXT_LENGTH
from crmhub.properties import validation
from tests.api.helpers.helper_calls import CREATE_DEAL, SET_PROPERTIES, known, stored
from tests.api.refusals import refused
from tests.catalogue_properties import define
from tests.clients import Client

LONGEST = "x" * MAX_TEXT_LENGTH
FULL = {"address": LONGEST, "city": LONGEST[3:], "firstname": "Ada"}


def length(record: Any) -> int:
    return sum(map(len, record["properties"].values()))


def assert_names(message: str, *paths: str) -> None:
    for path in paths:
        assert f"{path}: with it the values of the record have" in message
    assert message.count("with it the values") == len(paths)
    assert f"{MAX_RECORD_LENGTH} are allowed; shorten it, or clear other properties" in message


def test_a_record_has_at_most_so_many_characters(client: Client) -> None:
    answer = client.post("/contacts", {"properties": FULL})
    assert (answer.status_code, length(answer.json)) == (201, MAX_RECORD_LENGTH)
    message = refused(client.post("/contacts", {"properties": FULL | {"zip": "1"}}), 422)
    assert_names(message, "properties.address")
    assert "131073 characters" in message


def test_a_longer_value_is_refused_by_name(client: Client) -> None:
    id, body = client.make(), {"properties": {"city": f"{LONGEST}x"}}
    for answer in (client.post("/contacts", body), client.patch(f"/contacts/{id}", body)):
        assert refused(answer, 422).startswith("properties.city: 65537 characters long")


def test_what_a_change_makes_of_a_record_counts(client: Client) -> None:
    id = client.make(**FULL)
    message = refused(client.patch(f"/contacts/{id}", {"properties": {"zip": "1"}}), 422)
    assert_names(message, "properties.zip")
    swap = {"properties": {"zip": "1", "firstname": "Al"}}
    assert client.patch(f"/contacts/{id}", swap).status_code == 200
    assert length(client.get(f"/contacts/{id}").json) == MAX_RECORD_LENGTH


def test_a_batch_names_each_input(client: Client) -> None:
    first, second = client.make(**FULL), client.make()
    over, fine = {"zip": "1"}, {"zip": "2"}
    inputs: list[Any] = [{"properties": FULL | over}, {"properties": FULL}]
    answer = client.post("/contacts/batch/create", {"inputs": inputs})
    assert_names(refused(answer, 422), "inputs[0].properties.address")
    inputs = [{"id": second, "properties": fine}, {"id": first, "properties": over}]
    answer = client.post("/contacts/batch/update", {"inputs": inputs})
    assert_names(refused(answer, 422), "inputs[1].properties.zip")
    assert client.get(f"/contacts/{second}").json["properties"] == {"firstname": "Ada"}  # type: ignore[index]


def test_an_upsert_counts_new_and_changed_records(client: Client) -> None:
    define(client, "contacts", "code", unique=True)
    client.make(code="old", **FULL | {"city": LONGEST[6:]})
    for code, properties, path in (
        ("old", {"zip": "1"}, "inputs[0].properties.zip"),
        ("new", FULL, "inputs[0].properties.address"),
    ):
        upsert = {"idProperty": "code", "id": code, "properties": properties}
        answer = client.post("/contacts/batch/upsert", {"inputs": [upsert]})
        assert_names(refused(answer, 422), path)


def test_as_many_values_are_named_as_are_too_much(client: Client) -> None:
    id = client.make(**FULL)
    sent = {"zip": "1" * 2000, "state": "2" * 1000, "city": "", "address": LONGEST}
    answer = client.patch(f"/contacts/{id}", {"properties": {**sent, "jobtitle": LONGEST}})
    assert_names(refused(answer, 422), "properties.jobtitle")
    del sent["city"]
    message = refused(client.patch(f"/contacts/{id}", {"properties": sent}), 422)
    assert_names(message, "properties.zip", "properties.state")


def test_a_record_that_is_longer_may_stay_and_shrink(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(validation, "MAX_RECORD_LENGTH", 10**9)
        id = client.make(**FULL, jobtitle="x" * 500)
    path = f"/contacts/{id}"
    assert length(client.get(path).json) == MAX_RECORD_LENGTH + 500
    assert client.patch(path, {"properties": {"jobtitle": "x" * 400}}).status_code == 200
    assert client.patch(path, {"properties": {"firstname": "Bob"}}).status_code == 200
    answer = client.patch(path, {"properties": {"firstname": "Anna"}})
    assert_names(refused(answer, 422), "properties.firstname")
    assert length(client.get(path).json) == MAX_RECORD_LENGTH + 400


def test_a_helper_stores_what_fits_and_names_the_rest(client: Client) -> None:
    contact_id = known(client)
    props = {"city": LONGEST, "state": LONGEST, "jobtitle": "Countess"}
    answer: Any = client.helper(SET_PROPERTIES, {"contactToken": "t", "props": props})
    assert (answer.status_code, answer.json["refused"]) == (200, "city")
    assert "131072 are allowed" in answer.json["message"]
    values = stored(client, contact_id)
    assert (values["state"], values["jobtitle"]) == (LONGEST, "Countess")
    assert "city" not in values


def test_a_deal_of_a_helper_stores_what_fits(client: Client) -> None:
    deal = {"dealname": "A deal", "notes": LONGEST, "description": LONGEST}
    body = {"contactId": known(client), "properties": deal}
    answer: Any = client.helper(CREATE_DEAL, body)
    assert (answer.status_code, answer.json["status"]) == (200, "created")
    assert answer.json["refused"] in ("notes", "description")
