"""The notations in which a CRM may store a phone number, for adapters that search by phone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from crmhub.adapter.phone_reading import ARGENTINE, line_of, read_phone, split_extension

PHONES = ("phone", "mobilephone")
_NOT_DIGITS = re.compile(r"[^0-9]+", re.ASCII)
_MEXICO, _BRAZIL = 52, 55
_TEN_DIGITS = 10**10
_MEXICAN_PREFIXES = (1, 44, 45)
# Area code and subscriber number; those from 2 to 5 are landlines, whose numbers did not change.
_BRAZILIAN_MOBILE = re.compile(r"[1-9][1-9][6-9][0-9]{7}", re.ASCII)
_BRAZILIAN_E164 = re.compile(r"\+55([1-9][1-9])9([6-9][0-9]{7})", re.ASCII)
_MEXICAN_E164 = re.compile(r"\+52([2-9][0-9]{9})", re.ASCII)
_E164 = re.compile(r"\+[0-9]{1,15}", re.ASCII)
# Nine digits or fewer cannot hold a country code and a national number.
_BARE = re.compile(r"[1-9][0-9]{9,14}", re.ASCII)
_MARKS = (" ext. ", " ext ", " x", "x", ";ext=")
_WORDS_BEFORE = re.compile(r"\A[^\d+\uff0b]+")


def notations(number: str) -> list[str]:
    """Return the likeliest first; `number` is E.164, maybe with ` ext. `, or bare digits."""
    if (plus := with_plus(number)) != number:
        return list(dict.fromkeys([number, *notations(plus)]))
    e164, extension = split_extension(number)
    parsed = _parsed(e164, None)
    if parsed is None or not _E164.fullmatch(e164):
        return [number]
    import phonenumbers
    from phonenumbers import PhoneNumberFormat

    international, national = (
        phonenumbers.format_number(parsed, form)
        for form in (PhoneNumberFormat.INTERNATIONAL, PhoneNumberFormat.NATIONAL)
    )
    if extension:
        written = ((one, mark) for one in (e164, international, national) for mark in _MARKS)
        return list(dict.fromkeys([number, *(f"{one}{mark}{extension}" for one, mark in written)]))
    significant = phonenumbers.national_significant_number(parsed)
    digits = _NOT_DIGITS.sub("", phonenumbers.format_number(parsed, PhoneNumberFormat.E164))
    forms = [number, digits, f"00{digits}", international, national]
    forms += [_NOT_DIGITS.sub("", national), significant]
    other = second_form(number)
    forms += [other, other[1:]] if other else []
    return list(dict.fromkeys(forms))


def current(parsed: Any) -> Any:
    """Return a `phonenumbers.PhoneNumber` in the present numbering plan of its country.

    Mexico removed the 1 before mobile numbers, and the 044 or 045 before them within the country
    (IFT, 3 August 2019); Brazil added a 9 (Anatel, until November 2016). WhatsApp still uses the
    former format for older numbers.
    """
    # Integer arithmetic: a Mexican number has ten digits, a Brazilian mobile eleven.
    digits = parsed.national_number
    if parsed.country_code == _MEXICO and digits // _TEN_DIGITS in _MEXICAN_PREFIXES:
        return _with_national(parsed, digits % _TEN_DIGITS)
    if parsed.country_code == _BRAZIL and _BRAZILIAN_MOBILE.fullmatch(str(digits)):
        area, subscriber = divmod(digits, 10**8)
        return _with_national(parsed, area * 10**9 + 9 * 10**8 + subscriber)
    return parsed


def second_form(number: str) -> str:
    """Return the second form (E.164) of a Mexican, Brazilian or Argentine number, or "".

    The form before the country's change (`current`); in Argentina, with or without the 9.
    """
    if mexican := _MEXICAN_E164.fullmatch(number):
        return f"+521{mexican[1]}"
    if argentine := ARGENTINE.fullmatch(number):
        return f"+54{'' if argentine[1] else '9'}{argentine[2]}"
    brazilian = _BRAZILIAN_E164.fullmatch(number)
    return f"+55{brazilian[1]}{brazilian[2]}" if brazilian else ""


def with_plus(number: str) -> str:
    """Return bare digits that are a valid number in E.164, other texts unchanged."""
    if not _BARE.fullmatch(number):
        return number
    import phonenumbers

    parsed = _parsed(f"+{number}", None)
    if parsed is None or not phonenumbers.is_valid_number(parsed):
        return number
    return str(phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164))


def identity_of(number: str) -> str:
    """Return the form that all notations of a number (E.164 or bare digits) have in common."""
    return line_of(with_plus(number))


def _with_national(parsed: Any, digits: int) -> Any:
    from phonenumbers import PhoneNumber

    return PhoneNumber(parsed.country_code, digits)


def nationals(number: str) -> list[str]:
    """Return the number without its country code, first in the present format, then in the second.

    Empty for a text that is neither E.164 nor bare digits, and for one with an extension.
    """
    number = with_plus(number)
    parsed = _parsed(number, None) if _E164.fullmatch(number) else None
    if parsed is None:
        return []
    import phonenumbers

    digits = phonenumbers.national_significant_number(parsed)
    other = second_form(number).removeprefix(f"+{parsed.country_code}")
    return [digits, other] if other else [digits]


def same(number: str, stored: str) -> bool:
    """Return whether `stored`, in any notation, is `number`: E.164 or bare digits.

    Without a country code, `stored` is read as of the same country, and as international without
    plus or 00. Extensions must be equal; words before the number are skipped.
    """
    if number == stored:
        return True
    known = read_phone(with_plus(number))
    text = read_phone(stored) or read_phone(_WORDS_BEFORE.sub("", stored))
    if known is None or not known.plus or text is None or text.extension != known.extension:
        return False
    parsed_number = _parsed(f"+{known.digits}", None)
    if parsed_number is None:
        return False
    readings = [_parsed(f"+{text.international}", None)]
    if not text.plus:
        import phonenumbers

        country = phonenumbers.region_code_for_number(
            parsed_number
        ) or phonenumbers.region_code_for_country_code(parsed_number.country_code)
        readings.append(_parsed(text.digits, country))
    return _line(parsed_number) in [_line(reading) for reading in readings if reading is not None]


def is_no_change(stored: str, sent: str) -> bool:
    """A stored number without a country code is never as good as another notation of it."""
    return stored.startswith("+") and same(stored, sent)


def is_ambiguous(sent: str) -> bool:
    text = read_phone(sent)
    if text is None:
        return False
    has_country = text.plus or text.digits.startswith("00")
    return not has_country or bool(second_form(f"+{text.international}"))


def has_number(values: Mapping[str, Any], phone: str, names: Sequence[str] = PHONES) -> bool:
    numbers = (str(values[name]) for name in names if values.get(name))
    return any(_ends_alike(phone, number) and same(phone, number) for number in numbers)


def _ends_alike(phone: str, stored: str) -> bool:
    """Compare the last four digits, before the slow comparison; True for letters, which need it."""
    if not stored.isascii() or any(map(str.isalpha, stored)):
        return True
    return _NOT_DIGITS.sub("", stored)[-4:] == _NOT_DIGITS.sub("", phone)[-4:]


def _line(parsed: Any) -> str:
    import phonenumbers

    # `national_number` would drop the leading zero of Italian numbers.
    significant = phonenumbers.national_significant_number(parsed)
    return line_of(f"+{parsed.country_code}{significant}")


def _parsed(number: str, country: str | None) -> Any:
    # Imported here because it is large and many calls have no phone.
    import phonenumbers

    try:
        return current(phonenumbers.parse(number, country))
    except phonenumbers.NumberParseException:
        return None
