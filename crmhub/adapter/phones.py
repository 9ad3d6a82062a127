"""One phone number in the notations that CRMs keep it in, for adapters that must look one up."""

from __future__ import annotations

import re
from typing import Any

_NOT_DIGITS = re.compile(r"[^0-9]+", re.ASCII)
_MEXICO, _BRAZIL = 52, 55
_TEN_DIGITS = 10**10
# Area code and subscriber; what begins with 2 to 5 is a landline, whose numbers did not change.
_BRAZILIAN_MOBILE = re.compile(r"[1-9][1-9][6-9][0-9]{7}", re.ASCII)
_BRAZILIAN_E164 = re.compile(r"\+55([1-9][1-9])9([6-9][0-9]{7})", re.ASCII)
_MEXICAN_E164 = re.compile(r"\+52([2-9][0-9]{9})", re.ASCII)
_BARE = re.compile(r"[0-9 ().\-/]+", re.ASCII)


def notations(number: str) -> list[str]:
    """Return the ways in which a number may be stored, the likeliest first.

    `number` is in E.164 where the hub could read it; anything else comes back alone.
    """
    parsed = _parsed(number, None)
    if parsed is None or parsed.extension:
        return [number]
    import phonenumbers
    from phonenumbers import PhoneNumberFormat

    national = phonenumbers.national_significant_number(parsed)
    digits = _NOT_DIGITS.sub("", phonenumbers.format_number(parsed, PhoneNumberFormat.E164))
    forms = [number, digits, f"00{digits}"]
    forms += [
        phonenumbers.format_number(parsed, form)
        for form in (PhoneNumberFormat.INTERNATIONAL, PhoneNumberFormat.NATIONAL)
    ]
    forms += [_NOT_DIGITS.sub("", forms[-1]), national]
    older = former(number)
    forms += [older, older[1:]] if older else []
    return list(dict.fromkeys(forms))


def current(parsed: Any) -> Any:
    """Return a parsed number as it is dialled today, which may be the number itself.

    Mexico dropped the 1 before mobile numbers (IFT, from 3 August 2019), Brazil has put a 9 before
    them (Anatel, done in November 2016). Numbers that WhatsApp knew before keep the older form.
    """
    # As an integer: a Mexican number has ten digits, a Brazilian mobile eleven.
    digits = parsed.national_number
    if parsed.country_code == _MEXICO and digits // _TEN_DIGITS == 1:
        return _with_national(parsed, digits - _TEN_DIGITS)
    if parsed.country_code == _BRAZIL and _BRAZILIAN_MOBILE.fullmatch(str(digits)):
        area, subscriber = divmod(digits, 10**8)
        return _with_national(parsed, area * 10**9 + 9 * 10**8 + subscriber)
    return parsed


def former(number: str) -> str:
    """Return the older form of a number in E.164, see `current`; "" where there was none."""
    mexican = _MEXICAN_E164.fullmatch(number)
    if mexican:
        return f"+521{mexican[1]}"
    brazilian = _BRAZILIAN_E164.fullmatch(number)
    return f"+55{brazilian[1]}{brazilian[2]}" if brazilian else ""


def _with_national(parsed: Any, digits: int) -> Any:
    from phonenumbers import PhoneNumber

    return PhoneNumber(parsed.country_code, digits, parsed.extension)


def nationals(number: str) -> list[str]:
    """Return the digits of a number in E.164 without its country code, as of today and before.

    Of anything else there are none.
    """
    parsed = _parsed(number, None)
    if parsed is None:
        return []
    import phonenumbers

    digits = phonenumbers.national_significant_number(parsed)
    older = former(number).removeprefix(f"+{parsed.country_code}")
    return [digits, older] if older else [digits]


def same(number: str, stored: str) -> bool:
    """Return whether `stored`, in any notation, is this number and no other.

    A stored number without a country code is taken for one of the country that `number` is of,
    or for one whose plus (or 00) was left out.
    """
    if number == stored:
        return True
    wanted = _parsed(number, None)
    if wanted is None:
        return False
    import phonenumbers

    country = phonenumbers.region_code_for_number(
        wanted
    ) or phonenumbers.region_code_for_country_code(wanted.country_code)
    readings = [_parsed(stored, country)]
    # With a plus or words in it (an extension) it is not the digits alone that count.
    if _BARE.fullmatch(stored):
        readings.append(_parsed(f"+{_NOT_DIGITS.sub('', stored).removeprefix('00')}", None))
    return _identity(wanted) in [_identity(found) for found in readings if found is not None]


def _identity(parsed: Any) -> tuple[int, str, str]:
    import phonenumbers

    # Not `national_number`: the zero that numbers in Italy start with is no part of it.
    significant = phonenumbers.national_significant_number(parsed)
    return parsed.country_code, significant, parsed.extension or ""


def _parsed(number: str, country: str | None) -> Any:
    # Imported here: it is large, and many calls bring no phone.
    import phonenumbers

    try:
        return current(phonenumbers.parse(number, country))
    except phonenumbers.NumberParseException:
        return None
