"""getProperties and setProperties: one flat answer, the good values stored, the others named."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from crmhub.hub import Hub
from tests.api.helpers.helper_calls import (
    GET_PROPERTIES,
    OWN,
    SET_PROPERTIES,
    known,
    stored,
    switch,
)
from tests.clients import Client
from tests.queue.working import rows


def _get(client: Client, *names: str, token: str = "t") -> Any:
    answer = client.helper(GET_PROPERTIES, {"contactToken": token, "props": list(names)})
    assert answer.status_code == 200, answer.text
    return answer.json


def _set(client: Client, properties: dict[str, Any], token: str = "t") -> Any:
    answer = client.helper(SET_PROPERTIES, {"contactToken": token, "props": properties})
    assert answer.status_code == 200, answer.text
    return answer.json


def test_each_asked_name_is_a_key(client: Client) -> None:
    known(client, phone="+12025550100")
    answer = _get(client, "email", "phone", "city")
    assert list(answer) == [*OWN, "email", "phone", "city", "properties", "missing"]
    assert answer == {
        "status": "ok",
        "message": "",
        "actionId": "",
        "stale": "",
        "refused": "",
        "email": "ann@x.org",
        "phone": "+12025550100",
        "city": "",
        "properties": {"email": "ann@x.org", "phone": "+12025550100", "city": ""},
        "missing": "",
    }


@pytest.mark.parametrize("text", ["email, name", "email,name,", " email ,, name"])
def test_names_may_be_one_text_with_commas(client: Client, text: str) -> None:
    known(client)
    answer = client.helper(GET_PROPERTIES, {"contactToken": "t", "props": text}).json
    assert answer["properties"] == {"email": "ann@x.org", "name": "Ann Lee"}  # type: ignore[index]


def test_unknown_names_are_empty_and_named(client: Client) -> None:
    known(client)
    answer = _get(client, "shoe_size", "email", "Bad Name")
    assert answer["shoe_size"] == ""
    assert answer["missing"] == "shoe_size,Bad Name"


def test_a_long_name_is_kept_and_answered_in_a_hundred_characters(hub: Hub, client: Client) -> None:
    known(client)
    for long in ("x" * 100_000, f"{{{{{'y' * 50_000}}}}}", "é " * 60_000):
        answer = _get(client, long, "email")
        assert answer["email"] == "ann@x.org"
        assert max(map(len, (*answer, *answer["properties"], answer["missing"]))) <= 100
        assert len(str(answer)) < 2_000
        changed = _set(client, {long: "1", "city": "Rome"})
        assert 0 < len(changed["refused"]) <= 100
        assert len(str(changed)) < 2_000
    kept = rows(hub, client, "request, reason, result")
    assert max(len(str(row)) for row in kept) < 2_000
    one = "z" * 100
    assert one in _get(client, one)


def test_first_and_last_name_are_read_as_name(client: Client) -> None:
    known(client, name="Ada King Lovelace")
    answer = _get(client, "name")
    assert answer["name"] == "Ada King Lovelace"
    assert answer["properties"] == {"name": "Ada King Lovelace"}


def test_the_fields_of_the_record_are_known_by_hubspots_names(client: Client) -> None:
    contact_id = known(client)
    record = client.get(f"/contacts/{contact_id}").json
    answer = _get(client, "hs_object_id", "createdate", "lastmodifieddate")
    assert answer["properties"] == {
        "hs_object_id": contact_id,
        "createdate": record["createdAt"],  # type: ignore[index]
        "lastmodifieddate": record["updatedAt"],  # type: ignore[index]
    }


def test_fifty_names_are_the_most(client: Client) -> None:
    known(client)
    assert _get(client, *(f"p{i}" for i in range(50)))["p49"] == ""
    for path, props in (
        (GET_PROPERTIES, [f"p{i}" for i in range(51)]),
        (SET_PROPERTIES, {f"p{i}": "1" for i in range(51)}),
    ):
        answer = client.helper(path, {"contactToken": "t", "props": props})
        assert (answer.status_code, "at most 50" in answer.text) == (400, True)


def test_the_hubs_own_keys_stay_under_2000_bytes_and_values_are_whole(client: Client) -> None:
    known(client)
    names = [f"n{i}_{'x' * 90}" for i in range(50)]
    answer = client.helper(GET_PROPERTIES, {"contactToken": "t", "props": names})
    own = {key: answer.json[key] for key in (*OWN, "missing")}  # type: ignore[index]
    assert len(str(own).encode()) < 2000
    assert own["missing"].endswith("x,…")
    long = "ü" * 60_000
    _set(client, {"message_of_the_day": long})
    assert _get(client, "message_of_the_day")["message_of_the_day"] == long
    bad = {f"Bad {i} {'ü' * 200}": "1" for i in range(49)}
    answer = client.helper(SET_PROPERTIES, {"contactToken": "t", "props": {**bad, "city": "Rome"}})
    assert answer.status_code == 200
    assert len(answer.get_data()) < 2000
    assert answer.json["refused"].endswith(",…")  # type: ignore[index]


@pytest.mark.parametrize("path", [GET_PROPERTIES, SET_PROPERTIES])
def test_a_conversation_without_a_contact_is_404(client: Client, path: str) -> None:
    props = ["email"] if path == GET_PROPERTIES else {"city": "Rome"}
    answer = client.helper(path, {"contactToken": "nobody", "props": props})
    assert (answer.status_code, "createLead" in answer.text) == (404, True)


@pytest.mark.parametrize("path", [GET_PROPERTIES, SET_PROPERTIES])
def test_a_contact_that_is_gone_is_404(client: Client, path: str) -> None:
    client.delete(f"/contacts/{known(client)}")
    props = ["email"] if path == GET_PROPERTIES else {"city": "Rome"}
    answer = client.helper(path, {"contactToken": "t", "props": props})
    assert (answer.status_code, "contactToken" in answer.text) == (404, True)


@pytest.mark.databases("sqlite")
def test_names_that_cannot_be_are_refused(client: Client) -> None:
    for props, status in [
        (5, 400),
        (None, 400),
        ("", 422),
        (" , ", 422),
        ({}, 400),
        ([5], 400),
        ([["email"]], 400),
        ([None], 400),
        ([], 422),
        ([""], 422),
        (["email", " "], 422),
    ]:
        known(client)
        answer = client.helper(GET_PROPERTIES, {"contactToken": "t", "props": props})
        assert (answer.status_code, "props" in answer.json["message"]) == (status, True), props  # type: ignore[index]


def test_named_properties_change_and_blank_ones_are_cleared(client: Client) -> None:
    contact_id = known(client, phone="+12025550100")
    answer = _set(client, {"city": "Rome", "phone": "", "hs_lead_status": None})
    assert list(answer) == [*OWN, "contactId"]
    assert answer == {
        "status": "updated",
        "message": "",
        "actionId": answer["actionId"],
        "stale": "",
        "refused": "",
        "contactId": contact_id,
    }
    assert stored(client, contact_id) == {
        "firstname": "Ann",
        "lastname": "Lee",
        "email": "ann@x.org",
        "city": "Rome",
    }


def test_values_that_are_there_already_are_unchanged(client: Client) -> None:
    known(client)
    _set(client, {"city": "Rome"})
    assert _set(client, {"city": "Rome"})["status"] == "unchanged"


def test_numbers_and_booleans_are_taken_as_text(client: Client) -> None:
    contact_id = known(client)
    _set(client, {"shoe_size": 38.5, "vip": True})
    assert stored(client, contact_id)["shoe_size"] == "38.5"
    assert stored(client, contact_id)["vip"] == "true"


def test_name_sets_first_and_last_name(client: Client) -> None:
    contact_id = known(client)
    _set(client, {"name": "Ada Lovelace"})
    assert stored(client, contact_id)["lastname"] == "Lovelace"
    assert _get(client, "name")["name"] == "Ada Lovelace"


def test_an_unknown_option_is_refused_with_the_values_to_send_and_the_rest_is_stored(
    client: Client,
) -> None:
    contact_id = known(client)
    answer = _set(client, {"lifecyclestage": "Reader", "city": "Rome"})
    assert (answer["status"], answer["refused"]) == ("updated", "lifecyclestage")
    assert 'send one of "subscriber"' in answer["message"]
    assert stored(client, contact_id)["city"] == "Rome"


def test_a_value_that_is_too_long_is_refused_alone(client: Client) -> None:
    known(client)
    answer = _set(client, {"city": "x" * 65_537, "state": "Lazio"})
    assert (answer["status"], answer["refused"]) == ("updated", "city")
    assert "65536" in answer["message"]
    assert len(str(answer)) < 2000
    assert _get(client, "city", "state")["properties"] == {"city": "", "state": "Lazio"}


def test_an_email_of_another_contact_is_refused(client: Client) -> None:
    known(client, "other", email="ben@x.org")
    known(client)
    answer = _set(client, {"email": "ben@x.org", "city": "Rome"})
    assert (answer["status"], answer["refused"]) == ("updated", "email")


@pytest.mark.databases("sqlite")
def test_a_call_of_which_nothing_can_be_stored_is_refused(client: Client) -> None:
    for props, status in [
        ({"lifecyclestage": "Nobody"}, 422),
        ({"city": "{{city}}"}, 422),
        ({}, 422),
        ({"city": ["Rome"]}, 422),
        ({"city": {"a": 1}}, 422),
        (["city"], 400),
        ("city", 400),
        (5, 400),
        (None, 400),
    ]:
        contact_id = known(client)
        before = stored(client, contact_id)
        answer = client.helper(SET_PROPERTIES, {"contactToken": "t", "props": props})
        assert answer.status_code == status, props
        assert stored(client, contact_id) == before, props


def test_the_last_of_what_a_contact_must_have_is_not_cleared(client: Client) -> None:
    contact_id = known(client)
    answer = _set(client, {"email": "", "firstname": "", "lastname": ""})
    assert (answer["status"], answer["refused"]) == ("updated", "email")
    assert stored(client, contact_id) == {"email": "ann@x.org"}


def test_a_strict_account_stores_all_or_nothing(app: flask.Flask, client: Client) -> None:
    contact_id = known(client)
    switch(app, client, strict="true")
    for props in ({"city": "Rome", "lifecyclestage": "Nobody"}, {"city": "Rome", "zip": "{{z}}"}):
        answer = client.helper(SET_PROPERTIES, {"contactToken": "t", "props": props})
        assert answer.status_code == 422
    assert "city" not in stored(client, contact_id)
