"""What is cut so that an answer stays small: never within a character, and never unseen."""

from __future__ import annotations

import orjson

from crmhub.api.helpers.answers import cut, joined


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
