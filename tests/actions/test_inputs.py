"""What counts as a variable that a builder did not replace, and how names and phones are read."""

from __future__ import annotations

import pytest

from crmhub.actions.inputs import is_placeholder, split_name
from crmhub.actions.phones import forms, readings
from tests.clocks import in_no_time


@pytest.mark.parametrize(
    "text",
    [
        "{{email}}",
        "{email}",
        "%email%",
        "${email}",
        "{{ contact.email }}",
        " {{email}} ",
        "{{first}} {{last}}",
        "{{first}}{{last}}",
        "{}",
    ],
)
def test_an_unreplaced_variable_is_a_placeholder(text: str) -> None:
    assert is_placeholder(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ann@x.org",
        "Ann {{last}}",
        "{{first}} Lee",
        "100%",
        "50% or 60%",
        '{"a": 1}',
        "{'a': 1}",
        "{",
        "{{email",
        "a%b%",
    ],
)
def test_a_value_is_no_placeholder(text: str) -> None:
    assert not is_placeholder(text)


@pytest.mark.parametrize("part", ["{{a}}", "%a%", "{", "%a", "}", "{a", "% "])
def test_a_long_text_is_told_from_a_placeholder_in_no_time(part: str) -> None:
    assert not is_placeholder(part * 30_000 + "!")


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("Ada", "Ada", ""),
        ("Ada Lovelace", "Ada", "Lovelace"),
        ("  Ada   King  Lovelace ", "Ada", "King Lovelace"),
        ("", "", ""),
    ],
)
def test_a_name_is_its_first_word_and_the_rest(name: str, first: str, last: str) -> None:
    assert split_name(name) == {"firstname": first, "lastname": last}


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("+12025550100", ""),
        ("+1 (202) 555-0100", ""),
        ("001 202 555 0100", ""),
        ("12025550100", ""),
        ("whatsapp:+12025550100", ""),
        ("(202) 555-0100", "US"),
        ("12025550100", "DE"),
    ],
)
def test_every_common_notation_of_a_number_is_read(text: str, region: str) -> None:
    assert "+12025550100" in readings(text, region)


def test_an_older_form_of_a_number_is_read_as_todays() -> None:
    assert "+525512345678" in readings("5215512345678", "")
    assert "+5531987654321" in readings("553187654321", "")


@pytest.mark.parametrize("text", ["abc", "112", "", "9" * 400, "٤٩١٥١١٢٣٤٥٦٧٨", "+", "00"])
def test_what_is_no_number_is_read_as_it_is(text: str) -> None:
    assert readings(text, "") == [text]
    assert forms(text, "") == [text]


@pytest.mark.parametrize("text", ["1" + "\n" * 100_000 + "x", "{" * 100_000, "{a} " * 50_000 + "x"])
def test_no_long_text_takes_long(text: str) -> None:
    with in_no_time():
        assert readings(text, "") == [text]
        assert not is_placeholder(text)


def test_a_number_is_looked_for_in_the_forms_it_may_be_stored_in() -> None:
    assert set(forms("+12025550100", "")) == {"+12025550100", "12025550100", "0012025550100"}
    assert {"+525512345678", "+5215512345678", "5215512345678"} < set(forms("+525512345678", ""))
    assert {"+5531987654321", "+553187654321"} < set(forms("+5531987654321", ""))
