"""One phone number in the notations that CRMs keep it in, for adapters that must look one up."""

from __future__ import annotations

import re
from typing import Any

_NOT_DIGITS = re.compile(r"[^0-9]+", re.ASCII)
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
    return list(dict.fromkeys(forms))


def national(number: str) -> str:
    """Return the digits of a number in E.164 without its country code, "" when it is not one."""
    parsed = _parsed(number, None)
    if parsed is None:
        return ""
    import phonenumbers

    return phonenumbers.national_significant_number(parsed)


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
        return phonenumbers.parse(number, country)
    except phonenumbers.NumberParseException:
        return None
