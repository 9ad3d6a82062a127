"""Texts keep their template and values, and stay the same English texts."""

from __future__ import annotations

import ast
import copy
import json
import re
from datetime import date
from decimal import Decimal
from pathlib import Path

import orjson
import pytest

import crmhub
from crmhub.errors import NotFound, Semantic, listed
from crmhub.queue.models import as_result, dump_result
from crmhub.translatable import (
    Text,
    from_stored,
    in_language,
    join_texts,
    named,
    to_stored,
    translatable,
    translated,
)

WORDS = {
    "bad": "malo",
    "%(one)s is %(how)s at 100%%": "%(how)s al 100%% es %(one)s",
    "and %(hidden)s more": "y %(hidden)s más",
}


def spanish(text: str) -> str:
    return translated(text, lambda english: WORDS.get(english, english))


def sample(one: str = "x") -> Text:
    return translatable("%(one)s is %(how)s at 100%%", one=one, how=translatable("bad"))


def test_a_text_is_the_english_one_wherever_it_is_used() -> None:
    text = sample()
    assert text == "x is bad at 100%"
    assert json.dumps(text) == '"x is bad at 100%"' == orjson.dumps(text).decode()
    assert spanish(text) == "malo al 100% es x"
    # Exceptions and dataclasses copy it.
    assert spanish(str(ValueError(text))) == spanish(copy.deepcopy(text)) == "malo al 100% es x"


@pytest.mark.parametrize("value", ["%", "%(how)s", "%s %d", "100%%", "{how}", "bad"])
def test_a_value_is_neither_a_template_nor_translated(value: str) -> None:
    assert sample(value) == f"{value} is bad at 100%"
    assert spanish(sample(value)) == f"malo al 100% es {value}"
    assert spanish(named(value, "bad")) == f"{value}: malo"
    assert NotFound("there is no %(name)s", name=value).message == f"there is no {value}"


@pytest.mark.parametrize("text", ["50 % of it", "%(name)s", "100%"])
def test_a_text_without_values_is_not_formatted(text: str) -> None:
    assert Semantic(text).message == translatable(text) == text
    assert spanish(translatable(text)) == spanish(text) == text


def test_lists_are_translated_part_by_part() -> None:
    problems = [("a", "bad"), ("", sample()), *[("b", "bad")] * 20]
    assert listed(problems[:2]) == "a: bad; x is bad at 100%"
    assert spanish(listed(problems[:2])) == "a: malo; malo al 100% es x"
    assert listed(problems).endswith("; b: bad; and 2 more")
    assert spanish(listed(problems)).endswith("; b: malo; y 2 más")
    assert spanish(join_texts(". ", ["bad", "else"])) == "malo. else"
    assert listed([]) == spanish(listed([])) == ""


def test_a_stored_text_can_still_be_translated() -> None:
    text = sample()
    assert spanish(from_stored(json.loads(json.dumps(to_stored(text))), text)) == spanish(text)
    result = {"message": sample(), "refused": [{"name": "a", "reason": sample("y")}]}
    stored = as_result(dump_result(result))
    assert stored == result
    assert spanish(stored["message"]) == "malo al 100% es x"
    assert spanish(stored["refused"][0]["reason"]) == "malo al 100% es y"
    assert dump_result({"message": "plain"}) == '{"message": "plain"}'
    assert as_result('{"message": "of an older version"}') == {"message": "of an older version"}


def test_a_value_without_a_form_in_json_is_stored_as_it_is_shown() -> None:
    text = translatable(
        "%(hours)s hours before %(day)s", hours=Decimal("1.50"), day=date(2026, 5, 1)
    )
    assert from_stored(json.loads(json.dumps(to_stored(text))), "") == ""
    assert isinstance(from_stored(json.loads(json.dumps(to_stored(text))), str(text)), Text)


@pytest.mark.parametrize(
    "stored",
    [
        None,
        5,
        {},
        [],
        ["%(one)s is bad"],
        ["%(one)s is bad", {}, {}],
        ["%(one)s is bad", {}],
        ["%(one)d is bad", {"one": "x"}],
        ["%(one)s is bad %", {"one": "x"}],
        ["%(one)s is bad", ["x"]],
        [["%(one)s"], {"one": "x"}],
        ["another text", {}],
        "another text",
    ],
)
def test_a_stored_text_that_does_not_say_the_same_is_left_in_english(stored: object) -> None:
    assert spanish(from_stored(stored, "x is bad")) == "x is bad"
    result = {"message": "x is bad", "texts": {"x is bad": stored}}
    assert as_result(json.dumps(result)) == {"message": "x is bad"}


def test_a_language_without_a_catalogue_is_english() -> None:
    for language in ("", "en", "de", "../es"):
        assert in_language(sample(), language) == sample()


def test_each_template_has_its_values() -> None:
    wrong = []
    for path in Path(crmhub.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            match call:
                case ast.Call(func=ast.Name(id="translatable" | "lazy_gettext"), keywords=[]):
                    # A template that gets its values later.
                    continue
                case ast.Call(args=[ast.Constant(value=str(template))], keywords=[*keywords]):
                    names = set(re.findall(r"%\((\w+)\)s", template))
                    given = {one.arg for one in keywords}
                    # `**values` is not followed.
                    if names and None not in given and not names <= given:
                        wrong.append(f"{path.name}:{call.lineno} {sorted(names - given)}")
    assert wrong == []
