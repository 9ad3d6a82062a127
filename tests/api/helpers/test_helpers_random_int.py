"""getRandomInt: uniform, both ends included, exact; with an account, by its rotation."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from tests.api.helpers.helper_calls import GET_RANDOM_INT, OWN, switch
from tests.clients import Client

LARGEST = 2**53 - 1
both = pytest.mark.parametrize("path", ["", "/{portal}"])


def _pick(client: Client, path: str, smallest: Any, largest: Any) -> Any:
    body = {"min": smallest, "max": largest}
    return client.helper(f"/crm-api-interface/getRandomInt{path}", body)


@both
def test_an_integer_is_answered_as_number_and_as_text(client: Client, path: str) -> None:
    answer = _pick(client, path, 7, 7)
    assert answer.status_code == 200
    assert list(answer.json) == [*OWN, "value", "text"]
    assert answer.json == {
        "status": "ok",
        "message": "",
        "actionId": "",
        "stale": "",
        "refused": "",
        "value": 7,
        "text": "7",
    }


@both
def test_the_largest_range_is_taken(client: Client, path: str) -> None:
    value = _pick(client, path, -LARGEST, LARGEST).json["value"]
    assert -LARGEST <= value <= LARGEST
    assert _pick(client, path, LARGEST, LARGEST).json["value"] == LARGEST


@pytest.mark.parametrize(("smallest", "largest"), [("1", "3"), (" 1 ", "+3"), (1.0, "3.0")])
def test_texts_serve_for_numbers(client: Client, smallest: Any, largest: Any) -> None:
    assert _pick(client, "", smallest, largest).json["value"] in (1, 2, 3)


@pytest.mark.databases("sqlite")
def test_what_is_no_integer_is_refused(client: Client) -> None:
    for path in ["", "/{portal}"]:
        for key in ["min", "max"]:
            for value, status in [
                (1.5, 400),
                ("2.5", 400),
                (1e300, 400),
                (LARGEST + 1, 400),
                (-LARGEST - 1, 400),
                ("9007199254740993", 400),
                ("one", 400),
                ("１", 400),
                ("1_0", 400),
                ("0x10", 400),
                (True, 400),
                ([1], 400),
                ({}, 400),
                ("", 422),
                (None, 422),
                ("{{min}}", 422),
            ]:
                body = {"min": 0, "max": LARGEST, key: value}
                answer = client.helper(f"/crm-api-interface/getRandomInt{path}", body)
                assert (answer.status_code, f"{key}:" in answer.json["message"]) == (status, True)  # type: ignore[index]


@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999", "1.0e5", "9" * 4000])
def test_numbers_of_any_notation_never_break_it(app: flask.Flask, number: str) -> None:
    answer = app.test_client().post(
        "/crm-api-interface/getRandomInt", data=f'{{"min": -5, "max": {number}}}'
    )
    assert answer.status_code in (200, 400)


@both
def test_an_empty_range_is_422_and_a_missing_end_400(client: Client, path: str) -> None:
    assert _pick(client, path, 3, 1).status_code == 422
    for body in ({"min": 1}, {"max": 1}, {}):
        answer = client.helper(f"/crm-api-interface/getRandomInt{path}", body)
        assert answer.status_code == 400


# The rotation of an account.


def _of_account(client: Client, times: int, **more: Any) -> list[int]:
    answers = [client.helper(GET_RANDOM_INT, {"min": 1, "max": 3, **more}) for _ in range(times)]
    return [answer.json["value"] for answer in answers]  # type: ignore[index]


def test_the_rotation_of_the_account_applies_as_soon_as_it_is_set(
    app: flask.Flask, client: Client
) -> None:
    switch(app, client, rotation="round_robin")
    assert _of_account(client, 4) == [1, 2, 3, 1]
    switch(app, client, rotation="weighted:0,2,1")
    assert _of_account(client, 6) == [2, 3, 2, 2, 3, 2]
    assert {_pick(client, "", 1, 1).json["text"] for _ in range(3)} == {"1"}


@pytest.mark.parametrize("key", ["contactId", "contactToken"])
@pytest.mark.parametrize("value", ["481516234214", 18, "chat 18"])
def test_a_sticky_contact_is_told_by_id_or_token(
    app: flask.Flask, client: Client, key: str, value: Any
) -> None:
    switch(app, client, rotation="round_robin+sticky")
    assert _of_account(client, 3, **{key: value}) == [1, 1, 1]
    assert _of_account(client, 3, contactId=None, contactToken=" ") == [2, 3, 1]
    assert _of_account(client, 1, **{key: str(value)}) == [1]


def test_a_form_may_name_the_contact(app: flask.Flask, client: Client) -> None:
    switch(app, client, rotation="round_robin+sticky")
    path = GET_RANDOM_INT.format(portal=client.ids.portal_id)
    sent = {"min": "1", "max": "3", "contactToken": "t"}
    drawn = [app.test_client().post(path, data=sent).get_json()["text"] for _ in range(2)]
    assert drawn == ["1", "1"]
    assert _of_account(client, 2, contactToken="t") == [1, 1]


@pytest.mark.parametrize(
    ("more", "status", "told"),
    [
        ({"contactId": ["1"]}, 400, "contactId: must be a single string, not a list"),
        ({"contactToken": "x" * 256}, 400, "contactToken: is longer than 255 characters"),
        ({"contactToken": "{{token}}"}, 422, "contactToken: the builder sent {{token}}"),
        ({"contactId": "undefined"}, 422, "contactId: the builder sent undefined"),
        ({"max": 4}, 422, "min, max: 1 to 4 are 4 numbers, but the account's rotation has 3"),
    ],
)
def test_what_the_rotation_cannot_serve_is_refused(
    app: flask.Flask, client: Client, more: dict[str, Any], status: int, told: str
) -> None:
    switch(app, client, rotation="weighted:5,3,1+sticky")
    answer = client.helper(GET_RANDOM_INT, {"min": 1, "max": 3, **more})
    assert answer.status_code == status
    assert told in answer.json["message"]  # type: ignore[index]


def test_the_document_names_the_optional_keys(app: flask.Flask) -> None:
    document = app.test_client().get("/openapi.json").get_json()
    schemas = document["components"]["schemas"]
    body = schemas["AccountRandomIntInput"]
    assert set(body["properties"]) == {"min", "max", "contactId", "contactToken"}
    assert sorted(body["required"]) == ["max", "min"]
    assert set(schemas["RandomIntInput"]["properties"]) == {"min", "max"}
