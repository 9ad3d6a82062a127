"""Phones as CRMs keep them: every notation is known again, and nobody else's number is."""

from __future__ import annotations

import phonenumbers
from hypothesis import given
from hypothesis import strategies as st
from phonenumbers import PhoneNumberFormat, PhoneNumberType

from crmhub.adapter.phone_reading import read_phone
from crmhub.adapter.phones import nationals, notations, same
from tests.loops import for_each

KINDS = (PhoneNumberType.FIXED_LINE, PhoneNumberType.MOBILE)


def e164(parsed: phonenumbers.PhoneNumber) -> str:
    return phonenumbers.format_number(parsed, PhoneNumberFormat.E164)


EXAMPLES = {
    region: e164(found)
    for region in sorted(phonenumbers.SUPPORTED_REGIONS)
    if (found := phonenumbers.example_number_for_type(region, PhoneNumberType.MOBILE))
}


@for_each(
    ("number", "forms"),
    [
        (
            "+12025550199",
            "+12025550199|12025550199|0012025550199|+1 202-555-0199|(202) 555-0199|2025550199",
        ),
        (
            "+493012345678",
            "+493012345678|493012345678|00493012345678|+49 30 12345678|030 12345678"
            "|03012345678|3012345678",
        ),
        (
            "+34612345678",
            "+34612345678|34612345678|0034612345678|+34 612 34 56 78|612 34 56 78|612345678",
        ),
        (
            "+390612345678",
            "+390612345678|390612345678|00390612345678|+39 06 1234 5678|06 1234 5678|0612345678",
        ),
        (
            "+5511961234567",
            "+5511961234567|5511961234567|005511961234567|+55 11 96123-4567|(11) 96123-4567"
            "|11961234567|+551161234567|551161234567",
        ),
        (
            "+541166773399",
            "+541166773399|541166773399|00541166773399|+54 11 6677-3399|011 6677-3399"
            "|01166773399|1166773399|+5491166773399|5491166773399",
        ),
        (
            "+12025550199 ext. 5",
            "+12025550199 ext. 5|+12025550199 ext 5|+12025550199 x5|+12025550199x5"
            "|+12025550199;ext=5|+1 202-555-0199 ext. 5|+1 202-555-0199 ext 5|+1 202-555-0199 x5"
            "|+1 202-555-0199x5|+1 202-555-0199;ext=5|(202) 555-0199 ext. 5|(202) 555-0199 ext 5"
            "|(202) 555-0199 x5|(202) 555-0199x5|(202) 555-0199;ext=5",
        ),
        (
            "+525512345678",
            "+525512345678|525512345678|00525512345678|+52 55 1234 5678|55 1234 5678"
            "|5512345678|+5215512345678|5215512345678",
        ),
    ],
)
def test_the_notations_of_a_number(number: str, forms: str) -> None:
    assert notations(number) == forms.split("|")


@for_each(
    "number",
    [
        "",
        "+",
        "110",
        "0301234567",
        "call me",
        "+999123456789",
        "+4930123456;ext=7",
        "+" + "1" * 300,
    ],
)
def test_what_is_no_number_has_one_notation(number: str) -> None:
    assert notations(number) == [number]


@for_each(
    ("number", "digits"),
    [
        ("+12025550199", ["2025550199"]),
        ("+493012345678", ["3012345678"]),
        ("+390612345678", ["0612345678"]),
        ("+5511961234567", ["11961234567", "1161234567"]),
        ("+525512345678", ["5512345678", "15512345678"]),
        ("+541166773399", ["1166773399", "91166773399"]),
        ("+12025550199 ext. 5", []),
        ("0301234567", []),
        ("", []),
    ],
)
def test_the_digits_without_the_country(number: str, digits: list[str]) -> None:
    assert nationals(number) == digits


NOTATIONS = [
    ("+12025550199", "(202) 555-0199"),
    ("+12025550199", "1-202-555-0199"),
    ("+12025550199", "001 202 555 0199"),
    ("+12025550199", "+1.202.555.0199"),
    ("+493012345678", "030/123 456-78"),
    ("+493012345678", "+49 (0)30 12345678"),
    ("+493012345678", "0049 30 12345678"),
    ("+493012345678", "493012345678"),
    ("+390612345678", "06 1234 5678"),
    ("+5511961234567", "(11) 96123-4567"),
    ("+5511961234567", "5511961234567"),
    ("+5511961234567", "(11) 6123-4567"),
    ("+5511961234567", "+55 11 6123-4567"),
    ("+551161234567", "5511961234567"),
    ("+525512345678", "+52 1 55 1234 5678"),
    ("+525512345678", "5215512345678"),
    ("+34612345678", "612 34 56 78"),
    ("+34612345678", "Mobile: +34 612 34 56 78"),
    ("+34612345678", "34612345678@c.us"),
    ("+541166773399", "+54 9 11 6677-3399"),
    ("+5491166773399", "+54 11 6677-3399"),
    ("+5491166773399", "011 15 6677-3399"),
    ("+12025550199 ext. 5", "(202) 555-0199 x5"),
    ("+12025550199 ext. 5", "+1 202-555-0199;ext=5"),
    ("+442079460958", "(0)20 7946 0958"),
    ("+442079460958", "tel:+44-20-7946-0958"),
    # Of the right length, but in no use: what tests and films are full of.
    ("+15555550100", "(555) 555-0100"),
]


def test_a_number_is_known_in_any_notation() -> None:
    assert [pair for pair in NOTATIONS if not same(*pair)] == []


DECOYS = [
    ("+12025550199", "+442025550199"),
    ("+12025550199", "555-0199"),
    ("+12025550199", "5550199"),
    ("+12025550199", "+12025550198"),
    ("+12025550199", "+120255501990"),
    ("+12025550199", "(202) 555-0199 ext. 5"),
    ("+12025550199", "+34 2025550199"),
    # The zero makes it a line in Rome; without it, it is a mobile.
    ("+390612345678", "+39 612345678"),
    ("+39612345678", "+39 0612345678"),
    # Read as digits alone, the extension would belong to the number.
    ("+4930123456785", "+49 30 12345678 ext. 5"),
    ("+4930123456785", "+49 30 12345678;ext=5"),
    ("+493012345678", "+43 3012345678"),
    ("+493012345678", "12345678"),
    ("+493012345678", "+49 40 12345678"),
    ("+34612345678", "+34 912345678"),
    ("+12025550199 ext. 5", "+1 202 555 0199"),
    ("+12025550199 ext. 5", "+1 202 555 0199 ext. 6"),
    ("+12025550199", "12025550199@lid"),
    ("+12025550199", "+1 202 555 0199 or +1 202 555 0198"),
    ("+12025550199", "1.2025550199E+10"),
    ("+541166773399", "+54 9 11 6677-3398"),
    ("+5511961234567", "(21) 96123-4567"),
    ("+5511931234567", "(11) 3123-4567"),
    ("+12025550199", ""),
    ("+12025550199", "+"),
    ("+12025550199", "n/a"),
    ("+12025550199", "1" * 300),
    ("110", "+49110"),
    ("0301234567", "+49301234567"),
    ("", "0"),
]


def test_a_decoy_is_not_taken_for_the_number() -> None:
    assert [pair for pair in DECOYS if same(*pair)] == []


@for_each("garbage", ["", "call me", "110", "+"])
def test_the_same_text_is_the_same(garbage: str) -> None:
    assert same(garbage, garbage)


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """Return a valid number of any country: an example whose last digits are drawn anew."""
    region = draw(st.sampled_from(sorted(phonenumbers.SUPPORTED_REGIONS)))
    example = phonenumbers.example_number_for_type(region, draw(st.sampled_from(KINDS)))
    if example is None:
        return EXAMPLES["DE"]
    number = e164(example)[:-3] + draw(st.text("0123456789", min_size=3, max_size=3))
    return number if phonenumbers.is_valid_number(phonenumbers.parse(number)) else e164(example)


@given(numbers())
def test_every_notation_is_the_number(number: str) -> None:
    assert [form for form in notations(number) if not same(number, form)] == []


@given(numbers(), numbers())
def test_a_number_with_its_country_is_no_other(one: str, other: str) -> None:
    written = (other, other[1:], f"00{other[1:]}")
    assert [same(one, form) for form in written] == [one == other] * 3


@given(numbers(), st.integers(1, 9))
def test_a_neighbour_is_never_the_number(number: str, step: int) -> None:
    neighbour = number[:-1] + str((int(number[-1]) + step) % 10)
    assert [form for form in notations(neighbour) if same(number, form)] == []


@given(numbers(), st.text(max_size=40))
def test_any_text_can_be_compared(number: str, text: str) -> None:
    same(number, text)
    same(text, number)
    nationals(text)
    assert notations(text)[0] == text


@for_each(
    ("text", "digits"),
    [
        ("p:+12025550199", "12025550199"),
        ("callto:+12025550199", "12025550199"),
        ("Tel: +12025550199", "12025550199"),
        ("Tel.: +12025550199", "12025550199"),
        ("Tel. 030 1234567", "0301234567"),
        ("WhatsApp : +34 600 11 12 22", "34600111222"),
        ("Phone - +34600111222", "34600111222"),
        ("Teléfono: 600 111 222", "600111222"),
        ("Telefon：+49 30 1234567", "49301234567"),
        ("https://wa.me/34600111222?text=Hello%20there", "34600111222"),
        ("https://api.whatsapp.com/send?phone=%2B34600111222&text=Hello", "34600111222"),
        ("whatsapp://send?phone=34600111222", "34600111222"),
        ("+34600111222,", "34600111222"),
        ("+34600111222;", "34600111222"),
        ("+34 (0) 600 111 222", "34600111222"),
        ("0034 (0)600 111 222", "0034600111222"),
        ("+39 (0)6 698 12345", "390669812345"),
        ("+225 (0)7 01 23 45 67", "2250701234567"),
    ],
)
def test_a_number_is_read_without_link_scheme_and_trunk_zero(text: str, digits: str) -> None:
    phone = read_phone(text)
    assert phone is not None
    assert phone.digits == digits
