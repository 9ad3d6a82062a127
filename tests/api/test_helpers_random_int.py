"""getRandomInt: uniform, both ends included, exact."""

from __future__ import annotations

from collections import Counter
from typing import Any

import flask
import pytest

from tests.api.helper_calls import OWN
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
def test_every_number_of_the_range_comes_about_as_often(client: Client, path: str) -> None:
    seen = Counter(_pick(client, path, -1, 2).json["value"] for _ in range(800))
    assert sorted(seen) == [-1, 0, 1, 2]
    # Beyond six standard deviations: once in a billion runs.
    assert all(120 < n < 280 for n in seen.values())


@both
def test_the_largest_range_is_taken(client: Client, path: str) -> None:
    value = _pick(client, path, -LARGEST, LARGEST).json["value"]
    assert -LARGEST <= value <= LARGEST
    assert _pick(client, path, LARGEST, LARGEST).json["value"] == LARGEST


@pytest.mark.parametrize(("smallest", "largest"), [("1", "3"), (" 1 ", "+3"), (1.0, "3.0")])
def test_texts_serve_for_numbers(client: Client, smallest: Any, largest: Any) -> None:
    assert _pick(client, "", smallest, largest).json["value"] in (1, 2, 3)


@both
@pytest.mark.parametrize("key", ["min", "max"])
@pytest.mark.parametrize(
    ("value", "status"),
    [
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
    ],
)
def test_what_is_no_integer_is_refused(
    client: Client, path: str, key: str, value: Any, status: int
) -> None:
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
