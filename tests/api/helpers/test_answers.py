"""What is cut so that an answer stays small: never within a character, and never unseen."""

from __future__ import annotations

import orjson

from crmhub.api.helpers.answers import cut, joined
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from tests.clients import TESTS, Client


def test_a_text_is_cut_to_the_bytes_it_takes_in_json() -> None:
    for unit in ["a", "ü", "😀", '"', "\\", "\n", "a,", "<"]:
        for room in [10, 100, 700]:
            text = unit * 2000
            short = cut(text, room)
            assert len(orjson.dumps(short)) - 2 <= room
            assert len(orjson.dumps(short)) - 2 > room - 20
            assert text.startswith(short.removesuffix("…")), (unit, room)
            assert short.endswith("…"), (unit, room)


def test_a_text_that_fits_is_left_as_it_is() -> None:
    assert cut("ü" * 50, 100) == "ü" * 50


def test_names_are_joined_once_each_and_cut_between_names() -> None:
    assert joined(["b", "a", "b"]) == "b,a"
    names = [f"name_{i}" for i in range(200)]
    text = joined(names, 100)
    assert len(text.encode()) <= 100
    assert text.endswith(",…")
    assert set(text.split(",")) <= {*names, "…"}


def test_a_name_too_long_for_the_room_is_cut() -> None:
    assert joined(["x" * 600, "y"], 100).startswith("xxx")
    assert len(joined(["x" * 600, "y"], 100).encode()) <= 100


def test_chatfuel_is_answered_as_attributes(client: Client) -> None:
    lead = {"contactToken": "chat-17", "name": "Ada Lovelace", "email": "ada@example.com"}
    answer = client.helper("/chatbot/createLead/{generated}?format=chatfuel", lead)
    assert list(answer.json) == ["set_attributes"]
    assert answer.json["set_attributes"]["status"] == "created"
    asked = {"contactToken": "chat-17", "props": ["firstname"]}
    path = "/chatbot/getProperties/{generated}?format="
    read = client.helper(f"{path}chatfuel", asked).json["set_attributes"]
    assert (read["firstname"], "properties" in read) == ("Ada", False)
    assert client.helper(f"{path}flat", asked).json["properties"] == {"firstname": "Ada"}
    assert client.helper(f"{path}xml", asked).status_code == 400


def test_a_soft_error_has_the_form_of_an_answer(client: Client, hub: Hub) -> None:
    change_account.change(hub, client.account.client_id, {"soft_errors": "true"}, by=TESTS)
    answer = client.helper("/chatbot/createLead/{generated}?format=chatfuel", {})
    assert answer.status_code == 200
    assert answer.json["set_attributes"]["status"] == "error"
