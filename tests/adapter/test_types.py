"""One form for each type: as text, and as JSON."""

from __future__ import annotations

from typing import Any

from crmhub.adapter import Choice, Described, PropertyType
from crmhub.adapter.coercion import coerced
from crmhub.adapter.types import FORMS, from_html, to_html, to_json, to_text
from tests.loops import for_each


@for_each("name", FORMS)
def test_the_example_has_the_form_that_values_are_converted_to(name: PropertyType) -> None:
    example = FORMS[name].example
    options = tuple(Choice(one, one) for one in example.split(";")) if "enum" in name else ()
    assert coerced(Described("x", "X", name, options), example) == example


@for_each("name", FORMS)
def test_the_example_comes_back_from_json(name: PropertyType) -> None:
    example = FORMS[name].example
    assert to_text(to_json(name, example)) == example
    assert to_text(to_json(name, "")) == ""


@for_each(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (12, "12"),
        (12.0, "12"),
        (1e21, "1000000000000000000000"),
        (1.5e-7, "0.00000015"),
        (["a", 1, None], "a;1;"),
        ("a", "a"),
    ],
)
def test_a_json_value_is_a_text(value: Any, text: str) -> None:
    assert to_text(value) == text


@for_each(
    ("name", "text", "value"),
    [
        ("number", "12", 12),
        ("currency", "-1.5", -1.5),
        ("bool", "false", False),
        ("text", "1", "1"),
    ],
)
def test_a_text_is_the_json_value_of_its_type(name: PropertyType, text: str, value: Any) -> None:
    assert to_json(name, text) == value
    assert type(to_json(name, text)) is type(value)


@for_each(
    "text",
    [
        "",
        "It is broken.",
        "one\ntwo\n\nthree",
        "<b>&amp;</b> 1 < 2",
        "blanks  inside",
        "'\"é👩🏽‍🚀",
    ],
)
def test_a_text_comes_back_from_html(text: str) -> None:
    assert from_html(to_html(text)) == text


def test_html_is_read_as_the_text_that_people_see() -> None:
    markup = '<div class="o">Dear <b>Ann</b>,<br/></div><p>it&nbsp;works &lt;3</p>'
    assert from_html(markup) == "Dear Ann,\n\nit\xa0works <3"
    assert to_html("<script>x</script>") == "<p>&lt;script&gt;x&lt;/script&gt;</p>"
