"""How names and phones are read, and which properties of a call can be stored."""

from __future__ import annotations

import pytest

from crmhub.helpers.inputs import (
    PHONE_FAULTS,
    name_fault,
    name_part_fault,
    name_properties,
    usable,
    whole_name_fault,
)
from crmhub.identity.phones import forms, readings
from tests.clocks import in_no_time


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("Ada", "Ada", ""),
        ("Ada Lovelace", "Ada", "Lovelace"),
        ("  Ada   King  Lovelace ", "Ada", "King Lovelace"),
        ("", "", ""),
        ("Lima, Ana", "Ana", "Lima"),
        ("García Márquez,Gabriel José", "Gabriel José", "García Márquez"),
        ("de la Cruz, Juan", "Juan", "de la Cruz"),
        ("Lima, Ana 🌸", "Ana 🌸", "Lima"),
        ("Lima, Dra. Ana", "Dra. Ana", "Lima"),
        ("Sammy Davis, Jr.", "Sammy", "Davis, Jr."),
        ("Ana Lima, PhD", "Ana", "Lima, PhD"),
        ("Smith, John Jr.", "John Jr.", "Smith"),
        ("Meier, Sohn GmbH", "Meier,", "Sohn GmbH"),
        ("Ana Lima, 30", "Ana", "Lima, 30"),
        ("Lima, Ana, Madrid", "Lima,", "Ana, Madrid"),
        ("Müller, Schmidt & Partner", "Müller,", "Schmidt & Partner"),
        ("Ana Lima,", "Ana", "Lima,"),
        ("Dr. Ana Lima", "Dr. Ana", "Lima"),
        ("Herr Prof. Dr. Max Muster", "Herr Prof. Dr. Max", "Muster"),
        ("Sra. Ana María Lima", "Sra. Ana", "María Lima"),
        ("Dr. Lima", "Dr.", "Lima"),
        ("Dr.", "Dr.", ""),
        ("Drake Bell", "Drake", "Bell"),
        ("Ing Chen", "Ing", "Chen"),
    ],
)
def test_a_name_is_its_first_word_and_the_rest(name: str, first: str, last: str) -> None:
    assert name_properties(name, whole=False) == {"firstname": first, "lastname": last}


@pytest.mark.parametrize(
    ("name", "parts", "joined"),
    [
        ("Ada {{last name}}", {"firstname": "Ada"}, "Ada"),
        ("{{first}} Smith", {"lastname": "Smith"}, "Smith"),
        ("Ada undefined", {"firstname": "Ada"}, "Ada"),
        ("Ada {{middle}} Lovelace", {"firstname": "Ada", "lastname": "Lovelace"}, "Ada Lovelace"),
        ("Jennifer Null", {"firstname": "Jennifer", "lastname": "Null"}, "Jennifer Null"),
        ("{{last}}, Ana", {"firstname": "Ana"}, "Ana"),
        ("Lima, {{first}}", {"firstname": "Lima,"}, "Lima,"),
        ("{{name}}", {}, ""),
        ("undefined undefined", {}, ""),
    ],
)
def test_half_a_name_keeps_its_good_half_and_its_place(
    name: str, parts: dict[str, str], joined: str
) -> None:
    assert name_properties(name, whole=False) == parts
    assert name_properties(name, whole=True) == {"name": joined}


def test_a_name_needs_one_word_and_a_whole_name_all_of_them() -> None:
    for name, half, whole in (
        ("Ada Lovelace", True, True),
        ("Ada {{last}}", True, False),
        ("null null", False, False),
        ("", True, True),
    ):
        assert (not name_fault(name), not whole_name_fault(name)) == (half, whole)


def test_a_surname_may_be_null() -> None:
    for name in ("Null", "Lima"):
        assert not name_part_fault(name)
    for name in ("null", "NULL", "0", "N/A", "{{last}}"):
        assert name_part_fault(name)


def test_what_shows_nothing_is_no_value() -> None:
    good, problems = usable({"city": "\u200b", "zip": " ", "state": "\u3164\u2800"})
    assert good == {"zip": " "}
    assert [one.name for one in problems] == ["city", "state"]


def test_each_property_is_checked_by_itself() -> None:
    sent = {"city": "{{city}}", "zip": "0", "phone": "0", "mobilephone": "", "tags": None}
    good, problems = usable(sent, PHONE_FAULTS)
    assert good == {"zip": "0", "mobilephone": ""}
    assert {one.name: one.reason.split(";")[0] for one in problems} == {
        "city": "the builder sent {{city}} instead of its value",
        "phone": '"0" is not a possible phone number',
        "tags": "is an array or an object",
    }


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
        ("https://wa.me/12025550100", "DE"),
        ("12025550100@s.whatsapp.net", ""),
        ("١٢٠٢٥٥٥٠١٠٠", ""),
    ],
)
def test_every_common_notation_of_a_number_is_read(text: str, region: str) -> None:
    assert "+12025550100" in readings(text, region)


def test_an_older_form_of_a_number_is_read_as_todays() -> None:
    assert "+525512345678" in readings("5215512345678", "")
    assert "+5531987654321" in readings("553187654321", "")


@pytest.mark.parametrize("text", ["abc", "112", "", "9" * 400, "+", "00"])
def test_what_is_no_number_is_read_as_it_is(text: str) -> None:
    assert readings(text, "") == [text]
    assert forms(text, "") == [text]


@pytest.mark.parametrize("text", ["1" + "\n" * 100_000 + "x", "{" * 100_000, "{a} " * 50_000 + "x"])
def test_no_long_text_takes_long(text: str) -> None:
    with in_no_time():
        assert readings(text, "") == [text]


def test_a_number_is_looked_for_in_the_forms_it_may_be_stored_in() -> None:
    assert set(forms("+12025550100", "")) == {"+12025550100", "12025550100", "0012025550100"}
    assert {"+525512345678", "+5215512345678", "5215512345678"} < set(forms("+525512345678", ""))
    assert {"+5531987654321", "+553187654321"} < set(forms("+5531987654321", ""))
    assert {"+541166773399", "+5491166773399"} < set(forms("+541166773399", ""))
    assert {"+541166773399", "+5491166773399"} < set(forms("+5491166773399", ""))


def test_an_extension_is_never_joined_to_its_number() -> None:
    for text in ["+49 30 12345678 ext. 12", "0049 30 12345678x12", "493012345678;ext=12"]:
        for number in readings(text, ""):
            assert "+493012345678 ext. 12" in forms(number, "")
            assert all(form.endswith(" ext. 12") for form in forms(number, ""))
