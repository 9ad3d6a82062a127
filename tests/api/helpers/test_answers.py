"""What is cut so that an answer stays small: never within a character, and never unseen."""

from __future__ import annotations

import orjson
import pytest

from crmhub.api.helpers.answers import cut, joined


@pytest.mark.parametrize("unit", ["a", "ü", "😀", '"', "\\", "\n", "a,", "<"])
@pytest.mark.parametrize("room", [10, 100, 700])
def test_a_text_is_cut_to_the_bytes_it_takes_in_json(unit: str, room: int) -> None:
    text = unit * 2000
    short = cut(text, room)
    assert len(orjson.dumps(short)) - 2 <= room
    assert len(orjson.dumps(short)) - 2 > room - 20
    assert text.startswith(short.removesuffix("…"))
    assert short.endswith("…")


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
