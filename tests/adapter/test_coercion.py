"""Values as people write them, in the form a CRM takes: one meaning, or a problem."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import get_args
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crmhub.adapter import Choice, Described, Problem, PropertyType, Rejected, coercion
from crmhub.adapter.coercion import Misfit, TypedNumber, Unclear, coerced, fitted
from crmhub.adapter.reading import Reading
from tests.clocks import in_no_time
from tests.loops import for_each

SIZES = (Choice("s", "Small"), Choice("m", "Medium"), Choice("M-1", "Café"), Choice("x", "Other"))


def make_property(type: PropertyType, *options: Choice, **more: bool) -> Described:
    return Described("field", "Field", type, options, **more)


def of_type(type: PropertyType, text: str, *options: Choice, region: str = "") -> str:
    return coerced(make_property(type, *options), text, Reading(region))


GOOD: dict[PropertyType, dict[str, str]] = {
    "number": {
        "0": "0",
        "-0": "0",
        "-0.00": "0",
        "0e99": "0",
        "+7": "7",
        "007": "7",
        " 12 ": "12",
        "1.50": "1.5",
        "100": "100",
        ".5": "0.5",
        "5.": "5",
        "1e3": "1000",
        "1.5E-3": "0.0015",
        "1,234,567": "1234567",
        "1,234.50": "1234.5",
        "1 234": "1234",
        "1\u00a0234\u00a0567": "1234567",
        "1'234": "1234",
        "-1,234,567.5": "-1234567.5",
        "9" * 50: "9" * 50,
    },
    "currency": {"1500": "1500", "0.10": "0.1"},
    "bool": {"true": "true", "Yes": "true", "1": "true", "ON": "true", "no": "false", "0": "false"},
    "date": {
        "2026-11-21": "2026-11-21",
        "20261121": "2026-11-21",
        "2026-1-1": "2026-01-01",
        "21.11.2026": "2026-11-21",
        "11/21/2026": "2026-11-21",
        "2026/11/21": "2026-11-21",
        "21-11-2026 10:30": "2026-11-21",
        "1899-12-31": "1899-12-31",
        "0001-01-01": "0001-01-01",
        "9999-12-31": "9999-12-31",
        "2024-02-29": "2024-02-29",
        "2026-11-21T23:30:00-05:00": "2026-11-21",
        "2026-11-21 00:30:00+05:00": "2026-11-21",
        "1795219200000": "2026-11-21",
        "-86400000000": "1967-04-07",
    },
    "datetime": {
        "2026-11-21": "2026-11-21T00:00:00.000Z",
        "2026-11-21 10:00": "2026-11-21T10:00:00.000Z",
        "2026-11-21T10:00:00Z": "2026-11-21T10:00:00.000Z",
        "2026-11-21t10:00:00.5z": "2026-11-21T10:00:00.500Z",
        "2026-11-21T10:00:00.123456+05:30": "2026-11-21T04:30:00.123Z",
        "2026-11-21 10:00:00 +0200": "2026-11-21T08:00:00.000Z",
        "20261121T100000Z": "2026-11-21T10:00:00.000Z",
        "1795255200000": "2026-11-21T10:00:00.000Z",
        "63072000000": "1972-01-01T00:00:00.000Z",
        "1000-01-01": "1000-01-01T00:00:00.000Z",
    },
    "string": {"  as it is ": "  as it is ", "１": "１"},
    "email": {
        "Ada@Example.com": "Ada@Example.com",
        "mailto:ada@example.com": "ada@example.com",
        "ada@\u200bexample.com": "ada@example.com",
        "[ada@example.com](mailto:ada@example.com)": "ada@example.com",
        "mailto:ada@example.com?subject=Hi%20there": "ada@example.com",
        "'ada@example.com'": "ada@example.com",
        "’ada@example.com’": "ada@example.com",
        "o'ada@example.com": "o'ada@example.com",
        "<ada@example.com>": "ada@example.com",
        '"Lovelace, Ada" <ada@example.com>': "ada@example.com",
        '"ada@example.com"': "ada@example.com",
        "ada@example.com.": "ada@example.com",
        "ada@example.com;": "ada@example.com",
        "¡ada@example.com!": "ada@example.com",
        "(ada@example.com)": "ada@example.com",
        "Email: ada@example.com": "ada@example.com",
        "E-Mail - ada@example.com": "ada@example.com",
        "correo electrónico：<ada@example.com>": "ada@example.com",
        "mail ada@example.com.": "ada@example.com",
        "e-mail:ada@example.com": "ada@example.com",
        "email-ada@example.com": "email-ada@example.com",
        "mail=ada@example.com": "mail=ada@example.com",
        "mailada@example.com": "mailada@example.com",
        "email@example.com": "email@example.com",
        "Bob's email: ada@example.com": "Bob's email: ada@example.com",
        "a@example.com, b@example.com": "a@example.com, b@example.com",
        "Ada <a@example.com>, Bob <b@example.com>": "Ada <a@example.com>, Bob <b@example.com>",
        "Ada, ada@example.com": "Ada, ada@example.com",
    },
    "enumeration": {"anything": "anything", " padded ": "padded"},
    "multi_enumeration": {"a;b": "a;b", " a ; b;a;;": "a;b"},
}
BAD: dict[PropertyType, list[str]] = {
    "number": [
        *("abc", "1.2.3", "--1", "1-", "0x10", "1_000", "NaN", "inf", "-Infinity", "1e", "e5"),
        *("１２", "٣", "²", "½", "1,23", "12,34,567", "1,234 567", "€5", "5 %", "1e100", "1 2"),
        *("1.234.567", "1,234", "-0,500", "1e99", "9" * 51, "1" * 100_000, "0." + "0" * 60 + "1"),
    ],
    "bool": ["maybe", "2", "１", "truefalse", "y e s"],
    "date": [
        *(
            "31.02.2026",
            "02/30/2026",
            "05/06/2026",
            "05/06/26",
            "2026-13-01",
            "2026-02-30",
            "2023-02-29",
            "10000-01-01",
        ),
        *("tomorrow", "2026", "1795255200", "12345678901234", "２０２６-11-21"),
        *("2026-W47-6", "0000-01-01", "-2026-01-01", "202611211000", "20261121100000"),
    ],
    "datetime": [
        *("2026-11-21x10:00", "2026-11-21T25:00", "2026-11-21T23:59:60Z", "2026-11-21T10"),
        *("2026-11-21T10:00+25:00", "2026-11-21T10:00 Berlin", "10:00", "197601021200"),
        *("0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "2026-11-21T10:00:٠٠"),
    ],
    "multi_enumeration": [";", " ; ;"],
}


@for_each("type", GOOD)
def test_a_value_with_one_meaning_is_brought_into_its_form(type: PropertyType) -> None:
    for text, expected in GOOD[type].items():
        assert of_type(type, text) == expected, text[:30]
        assert of_type(type, expected) == expected, text[:30]


def misfit(type: PropertyType, text: str) -> str:
    """Return what is said of a text that does not fit."""
    with pytest.raises(Misfit) as caught:
        pytest.fail(f"{text[:30]!r} became {of_type(type, text)!r}")
    return str(caught.value)


@for_each("type", BAD)
def test_a_value_with_no_meaning_or_two_is_a_misfit(type: PropertyType) -> None:
    for text in BAD[type]:
        told = misfit(type, text)
        assert "send" in told or type == "bool", text[:30]
        assert len(told) < 200, text[:30]


@for_each("type", get_args(PropertyType))
def test_blank_clears(type: PropertyType) -> None:
    assert [of_type(type, blank, *SIZES) for blank in ("", " ", "\t\n")] == ["", "", ""]


def test_a_number_that_may_be_two_names_both() -> None:
    with pytest.raises(Misfit, match=r"send 1234 or 1\.234") as caught:
        of_type("number", "1,234")
    assert caught.value.options == ("1234", "1.234")


def test_a_number_is_read_as_its_country_writes_it() -> None:
    for region, text, number in [
        ("BR", "R$ 1.234,56", "1234.56"),
        ("BR", "R$ 1.234", "1234"),
        ("BR", "1,5", "1.5"),
        ("ES", "1.234.567 €", "1234567"),
        ("DE", "-1 234,50", "-1234.5"),
        ("DE", "1250.5", "1250.5"),
        ("DE", "1.2340", "1.234"),
        ("DE", "0.125", "0.125"),
        ("US", "$1,234.50", "1234.5"),
        ("US", TypedNumber("1.234"), "1.234"),
        ("BR", "1.234", "1.234"),  # of a program
        ("", "1.234", "1.234"),
    ]:
        assert of_type("currency", text, region=region) == number, text


@for_each("text", ["1.234", "1,234", "R$ 1,234"])
def test_a_typed_number_of_a_country_with_decimal_commas_may_be_two(text: str) -> None:
    with pytest.raises(Unclear) as caught:
        of_type("number", TypedNumber(text), region="BR")
    assert caught.value.options == ("1234", "1.2340")
    assert {of_type("number", one, region="BR") for one in caught.value.options} == {
        "1234",
        "1.234",
    }


# Options.


@for_each(
    ("text", "value"),
    [
        ("s", "s"),
        (" S ", "s"),
        ("small", "s"),
        ("MEDIUM", "m"),
        ("m-1", "M-1"),
        ("CAFE\u0301", "M-1"),
    ],
)
def test_an_option_is_known_by_value_and_label(text: str, value: str) -> None:
    assert of_type("enumeration", text, *SIZES) == value


def test_several_options_are_each_chosen_once() -> None:
    assert of_type("multi_enumeration", "Medium; s ;m;small", *SIZES) == "m;s"


def test_many_parts_of_many_options_fold_each_of_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = Mock(side_effect=coercion._folded)
    monkeypatch.setattr(coercion, "_folded", folded)
    options = [Choice(f"value {n}", f"Label {n}") for n in range(100)]
    parts = [f"label {n}" for n in range(100)] + [f"LABEL {n}" for n in range(100)]
    chosen = of_type("multi_enumeration", ";".join(parts), *options)
    assert chosen == ";".join(option.value for option in options)
    assert folded.call_count == 2 * len(options) + len(parts)


def test_a_value_counts_before_another_options_label() -> None:
    crossed = (Choice("1", "2"), Choice("2", "1"))
    assert of_type("enumeration", "1", *crossed) == "1"


def test_a_value_with_blanks_around_it_can_be_sent() -> None:
    odd = (Choice(" a", "First"), Choice("a", "Second"))
    assert [of_type("enumeration", text, *odd) for text in (" a", "a", "first")] == [
        " a",
        "a",
        " a",
    ]


def test_a_label_of_two_options_is_a_misfit_that_names_them() -> None:
    twins = (Choice("n1", "North"), Choice("s", "South"), Choice("n2", "north"))
    with pytest.raises(Misfit) as caught:
        of_type("enumeration", "NORTH", *twins)
    assert str(caught.value) == '"NORTH" may mean several options; send "n1", "n2"'
    assert caught.value.options == ("n1", "n2")


def test_an_unknown_option_is_told_what_there_is() -> None:
    with pytest.raises(Misfit) as caught:
        of_type("multi_enumeration", "s;huge", *SIZES)
    assert str(caught.value) == '"huge" is not among the options; send "s", "m", "M-1", "x"'
    assert caught.value.options == ("s", "m", "M-1", "x")


def test_a_message_stays_short_whatever_there_is() -> None:
    many = tuple(Choice(f"{n}{'v' * 3000}", "label") for n in range(500))
    with pytest.raises(Misfit) as caught:
        of_type("enumeration", "x\n\x1b" * 50_000, *many)
    assert len(str(caught.value)) < 1_600
    assert str(caught.value).isprintable()
    assert len(caught.value.options) == 20


@for_each("type", ["bool", "enumeration", "multi_enumeration"])
def test_no_long_text_takes_long(type: PropertyType) -> None:
    with in_no_time(), pytest.raises(Misfit):
        of_type(type, "a" + "\u0301\u0316" * 200_000, *SIZES)


def test_an_option_that_is_named_again_and_again_takes_no_longer() -> None:
    many = tuple(Choice(str(n), f"Label {n}") for n in range(2_000))
    with in_no_time():
        assert of_type("multi_enumeration", "label 1999;" * 50_000, *many) == "1999"


@for_each(("text", "value"), [("Sí", "true"), ("NO", "false"), ("true", "true")])
def test_a_boolean_is_known_by_its_labels(text: str, value: str) -> None:
    assert of_type("bool", text, Choice("true", "Sí"), Choice("false", "No")) == value


# All of a record.


def test_every_property_is_fitted() -> None:
    known = {"n": make_property("number"), "b": make_property("bool")}
    assert fitted({"n": "1e2", "b": "yes"}, known, of="contacts") == {"n": "100", "b": "true"}


def test_every_problem_is_named_at_once() -> None:
    known = {"n": make_property("number"), "r": make_property("string", read_only=True)}
    with pytest.raises(Rejected) as caught:
        fitted({"n": "x", "r": "1", "u": "1", "b": ""}, known, of="deals")
    assert [problem.name for problem in caught.value.problems] == ["n", "r", "u", "b"]
    assert caught.value.problems[2] == Problem("u", "deals have no such property in the CRM")


# For any text.

FORMS: dict[str, str] = {
    "number": r"-?\d{1,50}(\.\d{1,48})?",
    "currency": r"-?\d{1,50}(\.\d{1,48})?",
    "bool": "true|false",
    "date": r"\d{4}-\d\d-\d\d",
    "datetime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
}
TEXTS = st.one_of(
    st.text(max_size=30),
    st.text("0123456789+-.,eE' ", max_size=30),
    st.text("0123456789-:TtZz +.", max_size=30),
    st.from_regex(r"\A-?\d{8,14}\Z"),
    st.decimals().map(str),
    st.datetimes().map(str),
    st.datetimes(timezones=st.timezones()).map(lambda moment: moment.isoformat()),
    st.sampled_from([text for values in GOOD.values() for text in values]),
)


@given(st.sampled_from(get_args(PropertyType)), TEXTS)
def test_what_is_coerced_stays(type: PropertyType, text: str) -> None:
    try:
        once = of_type(type, text)
    except Misfit:
        return
    assert of_type(type, once) == once
    assert once == "" or re.fullmatch(FORMS.get(type, "(?s:.*)"), once, re.ASCII)


@given(st.datetimes())
def test_any_moment_means_itself(moment: datetime) -> None:
    whole = moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
    assert datetime.fromisoformat(of_type("datetime", f"{moment.isoformat()}Z")) == whole
    assert of_type("date", moment.date().isoformat()) == moment.date().isoformat()


OPTION_TEXT = st.text(
    st.characters(exclude_characters=";", exclude_categories=("Cs",)), min_size=1, max_size=4
).filter(str.strip)
# Blanks around a part of several are no part of it, so values that differ in them alone are one.
OPTIONS = st.lists(
    st.builds(Choice, OPTION_TEXT, OPTION_TEXT),
    min_size=1,
    max_size=6,
    unique_by=lambda option: option.value.strip(),
)


@given(OPTIONS, st.data())
def test_only_options_come_out(options: list[Choice], data: st.DataObject) -> None:
    words = [word for option in options for word in (option.value, option.label)]
    chosen = data.draw(st.lists(st.sampled_from(words) | OPTION_TEXT, min_size=1, max_size=4))
    try:
        once = of_type("multi_enumeration", ";".join(chosen), *options)
    except Misfit:
        return
    assert {part.strip() for part in once.split(";")} <= {one.value.strip() for one in options}
    assert of_type("multi_enumeration", once, *options) == once
