"""What the property types promise: one canonical text each, and words for what does not fit."""

import json
import subprocess
import sys
from decimal import Decimal

import email_validator
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from crmhub.properties.addresses import phone_text
from crmhub.properties.numbers_and_dates import day_key, search_day, search_number
from crmhub.properties.values import (
    DATE_TYPES,
    NUMBER_TYPES,
    TEXT_TYPES,
    TYPES,
    InvalidValue,
    NotScalar,
    Option,
    canonical,
    fold,
    for_search,
    from_json,
)
from tests.clocks import in_no_time

SIZES = (Option("s", "Small"), Option("m", "Medium"), Option("XL", "Extra large"))
REGIONS = (None, "AR", "BR", "DE", "ES", "GB", "IT", "MX", "US")

# The first value of a type may pay for the import of its library.
unhurried = settings(deadline=None)

anything = st.text(st.characters(exclude_categories=()), min_size=1, max_size=80)
amounts = st.tuples(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(-30, 15))


def refusal(type, value, **how):
    """Return the message with which a value is refused."""
    with pytest.raises(InvalidValue) as caught:
        canonical(type, value, **how)
    return str(caught.value)


def attempt(type, value, **how):
    """Return the canonical text and no message, or no text and the message."""
    try:
        return canonical(type, value, **how), ""
    except InvalidValue as refused:
        return "", str(refused)


def test_each_type_compares_as_number_date_or_text():
    assert set(TYPES) == NUMBER_TYPES | DATE_TYPES | TEXT_TYPES
    assert len(TYPES) == len(NUMBER_TYPES) + len(DATE_TYPES) + len(TEXT_TYPES)


# Every type


@pytest.mark.parametrize("type", TYPES)
@unhurried
@given(value=anything, region=st.sampled_from(REGIONS), any_case=st.booleans())
def test_any_text_becomes_a_stable_value_or_a_refusal_that_can_be_sent(
    type, value, region, any_case
):
    how = {"options": SIZES, "region": region, "any_case": any_case}
    text, message = attempt(type, value, **how)
    assert message.isprintable()
    assert message or (text and canonical(type, text, **how) == text)


def test_no_type_takes_nothing_nul_surrogates_or_too_much():
    for type in TYPES:
        for value in ["", "a\0b", "\ud83d", "x\udc00", "1" * 65_537]:
            refusal(type, value, options=(Option(value, value),))


def test_blanks_alone_are_no_value():
    for type in sorted(set(TYPES) - {"string", "text"}):
        assert "blank" in refusal(type, " \t\u00a0", options=SIZES)


def test_a_refusal_shows_little_of_the_value():
    for type in sorted(set(TYPES) - {"string", "text", "phone"}):
        value = "(§)" * 1000
        message = refusal(type, value, options=SIZES)
        assert value[:50] in message, type
        assert value[:61] not in message, type


def test_text_is_kept_as_it_was_sent():
    for type in ["string", "text"]:
        for value in [" as it is\r\n", " ", "e\u0301", "👍", "x" * 65_536]:
            assert canonical(type, value) == value


# Numbers


def test_a_number_is_plain_decimal_text():
    for type in sorted(NUMBER_TYPES):
        for sent, text in [
            ("0", "0"),
            ("7", "7"),
            ("007", "7"),
            ("-0", "0"),
            ("-0.00", "0"),
            ("0e99999", "0"),
            ("+1", "1"),
            (" 1250.00\n", "1250"),
            ("1.50", "1.5"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-00.250", "-0.25"),
            ("1e3", "1000"),
            ("1.5E+3", "1500"),
            ("12345e-3", "12.345"),
            ("100e-2", "1"),
            ("0.1e1", "1"),
            ("1e-30", "0." + "0" * 29 + "1"),
            ("1e29", "1" + "0" * 29),
            ("0" * 50 + "1", "1"),
            ("1" + "0" * 5000 + "e-5000", "1"),
            ("123456789012345", "123456789012345"),
            ("123456789012345000", "123456789012345000"),
            ("-0.000123456789012345", "-0.000123456789012345"),
        ]:
            assert canonical(type, sent) == text


def test_only_plain_ascii_decimals_are_numbers():
    for value in [
        *("abc", "1,234", "1 234", "1_000", "0x1F", "inf", "-Infinity", "nan", "１２", "٣", "²"),
        *("1.2.3", "--1", "+-1", ".", "-", "e5", "1e", "1e+", "1e5.5", "$5", "5 EUR", "1\n2"),
    ]:
        assert "plain decimal text such as -1234.5" in refusal("number", value)


def test_sixteen_significant_digits_are_too_many():
    for value in ["1234567890123456", "0.30000000000000004", "-1.000000000000001"]:
        assert "at most 15" in refusal("number", value)


def test_numbers_end_before_1e30():
    for value in ["1e30", "-1e30", "1e400", "1e" + "9" * 5000]:
        assert "between -1e30 and 1e30" in refusal("number", value)


def test_a_small_number_is_refused_rather_than_rounded_to_zero():
    for value in ["1e-31", "1.5e-30", "-1e-400", "1e-" + "9" * 5000]:
        assert "too many decimals; send at most 30" in refusal("number", value)


@given(amounts)
def test_a_number_keeps_its_value(amount):
    digits, exponent = amount
    text = canonical("number", f"{digits}e{exponent}")
    assert Decimal(text) == Decimal(f"{digits}e{exponent}")
    assert "e" not in text.lower()


@given(amounts, amounts)
@example((999999999999999, -15), (1, 0))
@example((900719925474099, 0), (900719925474099, 1))
def test_the_index_orders_numbers_as_decimals(one, other):
    first, second = (canonical("number", f"{digits}e{power}") for digits, power in (one, other))
    assert (float(first) < float(second)) == (Decimal(first) < Decimal(second))
    assert (float(first) == float(second)) == (first == second)


@given(amounts)
def test_neighbours_in_the_fifteenth_digit_stay_apart(amount):
    digits, power = amount
    assume(digits < 10**15 - 1)
    less, more = (canonical("number", f"{n}e{power}") for n in (digits, digits + 1))
    assert float(less) < float(more)


@given(amounts)
def test_a_filter_finds_the_number_however_it_is_written(amount):
    digits, power = amount
    written = f"{digits}e{power}"
    assert search_number(written) == float(canonical("number", written))
    assert search_number(f" {Decimal(written):f}") == search_number(written)


def test_a_filter_on_a_number_needs_one():
    for value in ["", "abc", "2026-01-31", "1e31", "12345678901234567"]:
        with pytest.raises(InvalidValue):
            search_number(value)


# Dates


def test_a_date_is_the_written_day():
    for sent, text in [
        ("2026-01-31", "2026-01-31"),
        (" 2026-01-31 ", "2026-01-31"),
        ("0001-01-01", "0001-01-01"),
        ("9999-12-31", "9999-12-31"),
        ("2024-02-29", "2024-02-29"),
        ("2026-01-31T23:30:00Z", "2026-01-31"),
        ("2026-01-31T23:30:00-05:00", "2026-01-31"),
        ("2026-01-31 00:30:00+02:00", "2026-01-31"),
        ("0001-01-01T00:00:00+13:00", "0001-01-01"),
        ("9999-12-31T23:59:59-12:00", "9999-12-31"),
        ("1769817600000", "2026-01-31"),
        ("1769898600000", "2026-01-31"),
        ("-315619200000", "1960-01-01"),
    ]:
        assert canonical("date", sent) == text


def test_a_datetime_is_iso_in_utc_with_milliseconds():
    for sent, text in [
        ("2026-01-31", "2026-01-31T00:00:00.000Z"),
        ("2026-01-31 09:30", "2026-01-31T09:30:00.000Z"),
        ("2026-01-31 09:30:15", "2026-01-31T09:30:15.000Z"),
        ("2026-01-31 09:30:15.5", "2026-01-31T09:30:15.500Z"),
        ("2026-01-31T09:30", "2026-01-31T09:30:00.000Z"),
        ("2026-01-31T09:30Z", "2026-01-31T09:30:00.000Z"),
        ("2026-01-31t09:30:15z", "2026-01-31T09:30:15.000Z"),
        ("2026-01-31T09:30:15.1239999Z", "2026-01-31T09:30:15.123Z"),
        ("2026-01-31T09:30:15.999999999+02:00", "2026-01-31T07:30:15.999Z"),
        ("2026-01-31T22:30:00-0330", "2026-02-01T02:00:00.000Z"),
        ("2026-01-31T09:30:00+02", "2026-01-31T07:30:00.000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ("1769851815123", "2026-01-31T09:30:15.123Z"),
        ("10000000000", "1970-04-26T17:46:40.000Z"),
        ("-9999999999999", "1653-02-10T06:13:20.001Z"),
    ]:
        assert canonical("datetime", sent) == text


def test_other_notations_of_a_date_are_not_guessed():
    for type in sorted(DATE_TYPES):
        for value in [
            *(
                "31.01.2026",
                "1/31/2026",
                "2026-1-31",
                "2026/01/31",
                "20260131",
                "26-01-31",
                "today",
            ),
            *(
                "2026-W05-6",
                "2026-031",
                "２０２６-01-31",
                "2026-01-31T",
                "2026-01-31T9:30",
                "2026-01",
            ),
            *("2026-01-31T09", "2026-01-31T09:30 Z", "2026-01-31T09:30:00+24:00", "12026-01-31"),
            *("2026-01-31T09:30:00+0", "2026-01-31T09:30:00 02:00", "2026-01-31Z", "1.5e12"),
            *("-1", "1769817600", "20260131093000", "1769817600000.0"),
        ]:
            assert "2026-01-31" in refusal(type, value).removeprefix(f'"{value}"')


def test_a_date_must_exist_between_the_years_1_and_9999():
    for type in sorted(DATE_TYPES):
        for value in [
            *("2026-02-30", "2025-02-29", "2026-13-01", "2026-00-10", "0000-01-01"),
            *("2026-01-31T24:00:00Z", "2026-01-31T09:60:00Z", "2026-06-30T23:59:60Z"),
        ]:
            assert "no day or time of the calendar" in refusal(type, value)
    for value in ("0001-01-01T00:00:00+00:01", "9999-12-31T23:59:00-00:01"):
        assert "no day or time of the calendar" in refusal("datetime", value)


@given(st.datetimes())
def test_a_datetime_is_cut_to_milliseconds_and_indexed_by_its_day(moment):
    text = canonical("datetime", moment.isoformat())
    assert text == moment.isoformat(timespec="milliseconds") + "Z"
    assert day_key(text) == moment.toordinal() == day_key(canonical("date", text))


def test_a_filter_compares_the_day_alone():
    for value in ["2026-01-31", "2026-01-31 00:00", "2026-01-31 23:59"]:
        assert search_day(value) == day_key("2026-01-31") == day_key("2026-01-31T09:30:00.000Z")


@given(st.dates(), st.dates())
def test_days_are_ordered_as_the_calendar_is(one, other):
    assert (search_day(str(one)) < search_day(str(other))) == (one < other)


def test_a_filter_on_a_date_is_formatted_exactly():
    for value in [
        *("", " 2026-01-31", "2026-01-31\n", "2026-01-31T09:30", "2026-01-31 09:30:00"),
        *("2026-01-31 9:30", "2026-01-31 24:00", "2026-01-31 09:60", "2026-01-31Z", "20260131"),
        *("２０２６-０１-３１", "2026-01-31  09:30", "1769817600000", "2026-02-30", "0000-01-01"),
    ]:
        with pytest.raises(InvalidValue):
            search_day(value)


# Choices


def test_a_boolean_is_taken_in_any_case():
    for sent in ["true", "True", "TRUE", " tRuE "]:
        assert canonical("bool", sent) == "true"
        assert canonical("bool", "FALSE") == "false", sent


def test_only_true_and_false_are_booleans():
    for value in ["yes", "no", "1", "0", "on", "t", "falſe"]:
        assert "send true or false" in refusal("bool", value)


def test_an_enumeration_takes_the_internal_value():
    assert canonical("enumeration", "XL", options=SIZES) == "XL"
    assert canonical("enumeration", " s ", options=SIZES) == "s"


def test_of_a_label_the_value_to_send_is_named():
    for label in ["Extra large", "extra large", "EXTRA LARGE"]:
        message = refusal("enumeration", label, options=SIZES)
        assert message == f'"{label}" is the label; send the value "XL"'


def test_of_a_label_that_two_options_have_both_values_are_named():
    twins = (Option("a", "Same"), Option("b", "Same"))
    assert refusal("enumeration", "same", options=twins).endswith('"a" or "b"')


def test_the_case_of_a_value_matters_unless_the_property_says_otherwise():
    assert refusal("enumeration", "xl", options=SIZES).endswith('send the value "XL"')
    assert canonical("enumeration", "xl", options=SIZES, any_case=True) == "XL"
    assert canonical("multi_enumeration", "xl;S;XL", options=SIZES, any_case=True) == "XL;s"


def test_an_exact_value_wins_over_one_in_another_case():
    both = (Option("ab", "Lower"), Option("AB", "Upper"))
    assert canonical("enumeration", "AB", options=both, any_case=True) == "AB"
    assert canonical("enumeration", "Ab", options=both, any_case=True) == "ab"
    assert canonical("multi_enumeration", "AB;ab", options=both, any_case=True) == "AB;ab"


def test_an_unknown_choice_is_answered_with_up_to_ten_options():
    many = tuple(Option(f"v{n}", f"Label {n}") for n in range(12))
    message = refusal("enumeration", "x", options=many)
    assert '"v0", "v1"' in message
    assert '"v9" and 2 more' in message
    assert "v10" not in message


def test_without_options_there_is_nothing_to_choose():
    for type in ["enumeration", "multi_enumeration"]:
        assert "no options yet" in refusal(type, "x")


def test_several_choices_are_joined_once_each_in_the_order_given():
    for sent, text in [
        ("s", "s"),
        ("XL;s", "XL;s"),
        (" s ; m ", "s;m"),
        ("m;s;m;s", "m;s"),
        (";;s;", "s"),
    ]:
        assert canonical("multi_enumeration", sent, options=SIZES) == text


def test_several_wrong_choices_are_named_together():
    message = refusal("multi_enumeration", "s;Medium;huge;tiny", options=SIZES)
    assert '"Medium" is the label; send the value "m"' in message
    assert '"huge", "tiny" are not among the options' in message


def test_separators_alone_choose_nothing():
    assert "blank" in refusal("multi_enumeration", " ; ;", options=SIZES)


# Addresses


def test_an_email_is_trimmed_and_lower_cased():
    for sent, text in [
        (" Ada@Example.COM ", "ada@example.com"),
        ("\ufeffada@example.com\u200b \u200b\n", "ada@example.com"),
        ("\u202aada@example.com\u202c\u200f", "ada@example.com"),
        ("a@b.c", "a@b.c"),
        ("a@example.test", "a@example.test"),
        ("zoë@example.test", "zoë@example.test"),
        ("a@printer.local", "a@printer.local"),
        ("first.last+tag@sub.example.co.uk", "first.last+tag@sub.example.co.uk"),
        ("o'neil_1@x-y.example", "o'neil_1@x-y.example"),
        ("JOSE\u0301@Bücher.example", "josé@bücher.example"),
        ("a@XN--Bcher-KVA.example", "a@xn--bcher-kva.example"),
        ("a@ＥＸＡＭＰＬＥ．com", "a@example.com"),
        ("用户@例子.广告", "用户@例子.广告"),
        ("a" * 64 + "@example.com", "a" * 64 + "@example.com"),
    ]:
        assert canonical("email", sent) == text


def test_what_is_no_email_address_is_refused():
    for value in [
        *("ada", "@example.com", "ada@", "a@b", "a@localhost", "a@1.2.3.4", "a@[1.2.3.4]"),
        *("a..b@x.com", ".a@x.com", "a.@x.com", "a@x..com", "a@.com", "a@x.com.", "a@-x.com"),
        *("a b@x.com", "a@x y.com", "Ada <a@x.com>", "a@x.com, b@x.com", "a@@x.com", '"a b"@x.com'),
        *("a@x_y.com", "a@ab--cd.com", "a@xn--zzzz99.com", "a" * 65 + "@x.com", "a@x.com\nb"),
        *("a@" + "x" * 64 + ".com", "a@" + "x." * 130 + "com", "mailto:a@x.com, ", "{{email}}"),
        "a\u200b@x.com",
    ]:
        assert "send one such as name@example.com" in refusal("email", value)


labels = st.text("abX0-_.", min_size=1, max_size=8)


@unhurried
@given(local=labels, domain=st.lists(labels, min_size=1, max_size=4))
@example(local="a", domain=["x--y", "com"])
@example(local="a", domain=["ab--c", "com"])
@example(local="a", domain=["example", "c0"])
def test_no_email_is_taken_that_email_validator_refuses(local, domain):
    address, _ = attempt("email", f"{local}@{'.'.join(domain)}")
    if address:
        valid = email_validator.validate_email(address, check_deliverability=False, strict=True)
        assert valid.normalized == address


@unhurried
@given(
    local=st.text("aÄİßΣ\u0301é", min_size=1, max_size=6),
    domain=st.text("aÄßΣέ１。.-x", min_size=1, max_size=8),
)
@example(local="ΑΣ", domain="ΑΣ")
@example(local="İ", domain="ＡＢ。x")
@example(local="a", domain="ß")
def test_an_email_in_unicode_is_stable(local, domain):
    text, _ = attempt("email", f"{local}@{domain}.example")
    if text:
        assert text == text.lower() == canonical("email", text)


def test_a_phone_number_is_written_as_e164():
    for sent, region, text in [
        ("+49 30 123456", None, "+4930123456"),
        ("(+49) 30/123456", None, "+4930123456"),
        ("+49 (0) 30 123456", "US", "+4930123456"),
        ("030 / 12 34 56", "DE", "+4930123456"),
        ("0049 30 123456", "DE", "+4930123456"),
        ("(202) 555-0123", "US", "+12025550123"),
        ("202.555.0123", "US", "+12025550123"),
        ("+39 06 1234567", None, "+39061234567"),
        ("+５５ １１ ９８７６５-４３２１", None, "+5511987654321"),
        ("\u202a+49 30 123456\u202c", None, "+4930123456"),
        ("\u00a0+49\u00a030\u2011123456", None, "+4930123456"),
        ("whatsapp:+5511987654321", None, "+5511987654321"),
        ("tel:+55-11-98765-4321", "US", "+5511987654321"),
        ("5511987654321@c.us", None, "+5511987654321"),
        ("https://wa.me/5511987654321", "DE", "+5511987654321"),
        ("wa.me/5511987654321", None, "+5511987654321"),
        ("+5511987654321.0", None, "+5511987654321"),
        ("5511987654321:7@s.whatsapp.net", "US", "+5511987654321"),
        # As WhatsApp still has them: before Mexico's 1 fell away, and Brazil's 9 was put in.
        ("whatsapp:+5215512345678", None, "+525512345678"),
        ("+52 1 55 1234 5678", "US", "+525512345678"),
        ("5215512345678", "MX", "+525512345678"),
        ("044 55 1234 5678", "MX", "+525512345678"),
        ("045 55 1234 5678", "MX", "+525512345678"),
        ("553187654321@c.us", None, "+5531987654321"),
        ("553187654321", "BR", "+5531987654321"),
        ("(31) 8765-4321", "BR", "+5531987654321"),
        ("(31) 3333-4444", "BR", "+553133334444"),
        ("5491123456789", "AR", "+5491123456789"),
        ("011 15 2345-6789", "AR", "+5491123456789"),
        ("+54 11 2345-6789", None, "+541123456789"),
        # Could be national numbers by their length, but who writes those leaves out no zero.
        ("4915112345678", "DE", "+4915112345678"),
        ("62 812 3456 7890", "ID", "+6281234567890"),
        ("278363351", "ZA", "+27278363351"),
        ("53487307", "CU", "+5353487307"),
        # A messenger sends the digits of a mobile of any country.
        ("12025550123", "BR", "+12025550123"),
        ("971501234567", "IN", "+971501234567"),
        ("4915112345678", "AT", "+4915112345678"),
        ("8613123456789", "JP", "+8613123456789"),
        ("16465550123", "MX", "+16465550123"),
        ("56987654321", "AR", "+56987654321"),
        ("905012345678", "BR", "+905012345678"),
        # National numbers without the zero, as spreadsheets write them, and where none is dialled.
        ("15112345678", "DE", "+4915112345678"),
        ("3012345678", "DE", "+493012345678"),
        ("81234567890", "ID", "+6281234567890"),
        ("4741234567", "BR", "+554741234567"),
        ("4798765432", "US", "+14798765432"),
        ("13012345678", "CN", "+8613012345678"),
        ("84951234567", "RU", "+74951234567"),
        ("41791234568", "DE", "+4941791234568"),  # 04179 1234568, without its zero
        ("18604195555", "IN", "+9118604195555"),
        ("5080750428", "JP", "+815080750428"),  # +508 has no numbers of this length
        ("\u202a12025550123\u202c", "BR", "+12025550123"),
        ("090ー1234ー5008", "JP", "+819012345008"),
        # Where 00 is not dialled, or before the digits of a carrier.
        ("0055 11 98765-4321", "BR", "+5511987654321"),
        ("0061 412 345 678", "AU", "+61412345678"),
        ("001 202 555 0123", "US", "+12025550123"),
    ]:
        assert canonical("phone", sent, region=region) == text


def test_the_digits_of_a_bot_are_a_foreign_mobile_before_an_unlikely_number_of_the_region():
    for digits, region, text in [
        ("41791234568", "DE", "+41791234568"),  # people write 04179 1234568
        ("4179 1234568", "DE", "+4941791234568"),
        ("34612345678", "IT", "+34612345678"),  # in Italy a mailbox
        ("821020000000", "AT", "+821020000000"),
        ("15112345678", "DE", "+4915112345678"),
        ("4798765432", "US", "+14798765432"),
        ("84951234567", "RU", "+74951234567"),
        ("5080750428", "JP", "+815080750428"),
    ]:
        assert phone_text(digits, region, of_bot=True) == text


def test_a_phone_number_without_a_country_stays_as_it_is_written():
    for sent, region in [
        ("030 123456", None),  # of which country?
        ("555-0123", "US"),  # without its area code
        ("110", "DE"),
        ("+999 123456", None),
        ("030 123456", "nowhere"),
        ("98765-4321", "BR"),  # its length is that of a special number
        ("3333-4444", "BR"),
        ("9876 5432", "AU"),
        ("15 6677-3399", "AR"),  # a mobile of the caller's own area
        ("2025550123", None),
    ]:
        assert canonical("phone", f" {sent} ", region=region) == sent
        assert canonical("phone", f"tel:{sent}", region=region) == sent


def test_two_zeros_stand_for_the_plus_in_every_region():
    for region in [None, "DE", "US", "BR", "AU", "JP"]:
        assert canonical("phone", "0049 30 123456", region=region) == "+4930123456"
        assert canonical("phone", "0034600111222", region=region) == "+34600111222"
    assert canonical("phone", "0011 61 412 345 678", region="AU") == "+61412345678"


def test_an_extension_stays_with_its_number():
    for sent in [
        "+1 202 555 0123 ext. 5",
        "+1 (202) 555-0123 x5",
        "001 202 555 0123 Ext 5",
        "+12025550123;ext=5",
        "+12025550123,,5",
        "+1 202-555-0123 #5",
        "+1 202-555-0123 (extension 5)",
        "tel:+1-202-555-0123;ext=5",
        "+1 202 555 0123 ~5",
    ]:
        assert canonical("phone", sent) == "+12025550123 ext. 5"
    assert canonical("phone", "030 123456 x 12") == "030 123456 ext. 12"
    assert canonical("phone", "030 123456 x 12", region="DE") == "+4930123456 ext. 12"


def test_a_text_that_is_more_than_one_phone_number_is_refused():
    for value in [
        "030 123456 home",  # would be dialled as …4663
        "Mobile: +34600111222",
        "+34600111222 (WhatsApp)",
        "1-800-FLOWERS",
        "0301234/0305678",
        "030 1234567/8",
        "030 1234, 030 5678",
        "+49 30 123456 or +49 30 654321",
        "+34600111222 +34600111333",
        "600111222 600111333",
        "(202) 555-0123 (202) 555-0124",
        "+34600111222\n+34600111333",
        "+34600111222,12",
        "5511987654321@example.com",
        "5511987654321@lid",
        "5511987654321@g.us",
        "5511987654321@newsletter",
        "5511987654321@broadcast",
        "status@broadcast",
        "https://t.me/+34600111222",
        "https://example.com/34600111222",
        "https://wa.me/message/ABC123",
        "3.46E+11",
        "3,46E+11",
        "5e11",
        "3.4600111222E+10",
        "3.4600111222",
        "34600111222.5",
        "346,001,112,220",
        *("1990-12-31", "31.12.1990", "12/31/1990", "31-12-1990", "2024/05/12"),
        "1" * 100,
    ]:
        assert "is not one phone number; send one such as +" in refusal("phone", value), value


def test_a_phone_number_has_a_digit():
    for value in ["none", "n/a", "+", "---"]:
        assert "send one such as +" in refusal("phone", value)


def test_no_long_value_takes_long():
    for type, value in [
        ("phone", "(" * 65_000 + "1x"),
        ("phone", "1/" * 32_000 + "x"),
        ("email", "a" + "\u0301\u0316" * 200_000 + "@example.com"),
        ("url", "a." * 32_000 + "!"),
    ]:
        with in_no_time():
            assert for_search(type, value) == value


@unhurried
@given(
    st.text("00112345678901234567890+ -()/.x", min_size=1, max_size=20), st.sampled_from(REGIONS)
)
@example("+49 00 30 1234", "DE")
@example("0000 49 30 123456", "BR")
def test_a_phone_number_is_stable(value, region):
    text, _ = attempt("phone", value, region=region)
    assume(text)
    assert canonical("phone", text, region=region) == text


def test_a_url_is_kept_as_given():
    for value in [
        *("https://example.com", "HTTP://Example.com/A?b=c#d", "http://localhost:8080/x"),
        *("example.com", "www.example.com/path", "example.com:8080/a", "bücher.example/ü"),
        *("https://user:pw@example.com/", "http://[::1]:80/", "https://例子.广告", "a_b.example"),
    ]:
        assert canonical("url", f" {value}\n") == value


def test_what_is_no_web_address_is_refused():
    for value in [
        *("javascript:alert(1)", "JAVASCRIPT://example.com/%0aalert(1)", "data:text/html,x"),
        *("ftp://example.com", "mailto:a@example.com", "//example.com", "/path", "example"),
        *("https://", "https:///x", "http:example.com", "https://example.com:port", "a.b:1x"),
        *("javascript:x@example.com", "https://ex ample.com", "https://example.com/a b"),
        *("java\nscript:alert(1)", "example.com/\x7f", "https://example.com/\u2028x"),
        *("<b>.example", "httpſ://example.com"),
    ]:
        assert "send" in refusal("url", value)


def test_nothing_slow_is_imported_before_it_is_needed():
    code = (
        "import sys; from crmhub.properties import values;"
        "values.canonical('email', 'ada@example.com');"
        "print([m for m in ('email_validator', 'phonenumbers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# From JSON


def test_a_json_scalar_is_read_as_its_text():
    for value, text in [
        ("007", "007"),
        ("", ""),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-12, "-12"),
        (2**70, "1180591620717411303424"),
        (1.5, "1.5"),
        (1e21, "1000000000000000000000"),
        (1e-7, "0.0000001"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E+3"), "1000"),
        (Decimal("123456789.123456789123456789123456789"), "123456789.123456789123456789123456789"),
    ]:
        assert from_json(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_json_float_is_plain_and_exact(value):
    text = from_json(value)
    assert "e" not in text
    assert float(text) == value


def test_a_json_number_with_a_huge_exponent_stays_short():
    for literal in ["1e999999999", "1e-999999999", "0e999999999"]:
        text = from_json(json.loads(literal, parse_float=Decimal))
        assert len(text) < 20, literal
        assert Decimal(text) == Decimal(literal)


def test_an_array_an_object_or_nan_is_no_value():
    for value in [[], ["a"], {}, {"a": 1}, float("nan"), Decimal("Infinity")]:
        with pytest.raises(NotScalar) as caught:
            from_json(value)
        assert not isinstance(caught.value, InvalidValue), value


# For search


def test_equality_compares_canonical_text_where_there_is_one():
    for type, value, text in [
        ("email", " Ada@Example.COM", "ada@example.com"),
        ("email", " Not An Address ", "not an address"),
        ("phone", "(202) 555-0123", "+12025550123"),
        ("phone", "none ", "none "),
        ("bool", "TRUE", "true"),
        ("bool", "Yes", "Yes"),
        ("enumeration", "XL", "XL"),
        ("enumeration", "Extra large", "Extra large"),
        ("multi_enumeration", "s; m", "s;m"),
        ("url", " javascript:x", " javascript:x"),
        ("string", " As It Is ", " As It Is "),
    ]:
        assert for_search(type, value, options=SIZES, region="US") == text


def test_equality_takes_a_priority_in_any_case():
    assert for_search("enumeration", "xl", options=SIZES, any_case=True) == "XL"


def test_contains_ignores_case_in_all_of_unicode():
    for one, other in [
        ("STRASSE", "Straße"),
        ("ΟΔΟΣ", "οδος"),
        ("ÀÉ", "àé"),
        ("Жук", "жУК"),
        ("%_", "%_"),
    ]:
        assert fold(one) == fold(other)


@given(st.text(), st.text(), st.text())
@example("Ο", "Σ", "ΑΣ")
def test_a_part_of_a_text_is_found_in_it_whatever_the_case(before, part, after):
    assert fold(part) in fold(before + part + after)
