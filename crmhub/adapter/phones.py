"""The notations in which a CRM may store a phone number, for adapters that search by phone."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from crmhub.adapter.values import Contact

PHONES = ("phone", "mobilephone")
_NOT_DIGITS = re.compile(r"[^0-9]+", re.ASCII)
_MEXICO, _BRAZIL = 52, 55
_TEN_DIGITS = 10**10
# Area code and subscriber number; those from 2 to 5 are landlines, whose numbers did not change.
_BRAZILIAN_MOBILE = re.compile(r"[1-9][1-9][6-9][0-9]{7}", re.ASCII)
_BRAZILIAN_E164 = re.compile(r"\+55([1-9][1-9])9([6-9][0-9]{7})", re.ASCII)
_MEXICAN_E164 = re.compile(r"\+52([2-9][0-9]{9})", re.ASCII)
_BARE = re.compile(r"[0-9 ().\-/]+", re.ASCII)


def notations(number: str) -> list[str]:
    """Return the notations in which a CRM may store this phone number, the likeliest first.

    If `number` is not in E.164, or has an extension, the list contains only `number`.
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
    """Return a phone number in the present numbering plan of its country.

    Most numbers are returned unchanged. `parsed` and the result are `phonenumbers.PhoneNumber`.
    Mexico removed the 1 before mobile numbers (IFT, 3 August 2019); Brazil added a 9 before them
    (Anatel, completed in November 2016). WhatsApp still uses the former format for older numbers.
    """
    # Integer arithmetic: a Mexican number has ten digits, a Brazilian mobile eleven.
    digits = parsed.national_number
    if parsed.country_code == _MEXICO and digits // _TEN_DIGITS == 1:
        return _with_national(parsed, digits - _TEN_DIGITS)
    if parsed.country_code == _BRAZIL and _BRAZILIAN_MOBILE.fullmatch(str(digits)):
        area, subscriber = divmod(digits, 10**8)
        return _with_national(parsed, area * 10**9 + 9 * 10**8 + subscriber)
    return parsed


def former(number: str) -> str:
    """Return a Mexican or Brazilian phone number in the format before its country changed it.

    `number` and the result are in E.164; `current` explains the changes. Return "" if the number
    has no former format.
    """
    mexican = _MEXICAN_E164.fullmatch(number)
    if mexican:
        return f"+521{mexican[1]}"
    brazilian = _BRAZILIAN_E164.fullmatch(number)
    return f"+55{brazilian[1]}{brazilian[2]}" if brazilian else ""


def _with_national(parsed: Any, digits: int) -> Any:
    from phonenumbers import PhoneNumber

    return PhoneNumber(parsed.country_code, digits, parsed.extension)


def nationals(number: str) -> list[str]:
    """Return the digits of an E.164 number without its country code, in one or two formats.

    The first item is in the present format of the country; the second, if there is one, in its
    former format. The list is empty if `number` is not in E.164.
    """
    parsed = _parsed(number, None)
    if parsed is None:
        return []
    import phonenumbers

    digits = phonenumbers.national_significant_number(parsed)
    older = former(number).removeprefix(f"+{parsed.country_code}")
    return [digits, older] if older else [digits]


def same(number: str, stored: str) -> bool:
    """Return whether `stored`, in any notation, is the phone number `number` (in E.164).

    If `stored` has no country code, two readings are tried: a number of the same country as
    `number`, and an international number without its leading plus or 00.
    """
    if number == stored:
        return True
    parsed_number = _parsed(number, None)
    if parsed_number is None:
        return False
    import phonenumbers

    country = phonenumbers.region_code_for_number(
        parsed_number
    ) or phonenumbers.region_code_for_country_code(parsed_number.country_code)
    readings = [_parsed(stored, country)]
    # Numbers with a plus or an extension must not be read by their digits alone.
    if _BARE.fullmatch(stored):
        readings.append(_parsed(f"+{_NOT_DIGITS.sub('', stored).removeprefix('00')}", None))
    return _identity(parsed_number) in [
        _identity(reading) for reading in readings if reading is not None
    ]


def has_number(values: Mapping[str, Any], phone: str, names: Sequence[str] = PHONES) -> bool:
    """Return whether one of the properties `names` holds `phone` (in E.164), in any notation."""
    numbers = (str(values[name]) for name in names if values.get(name))
    return any(_ends_alike(phone, number) and same(phone, number) for number in numbers)


def oldest_holders(
    ids_by_phone: Mapping[str, Sequence[str]], contacts: Sequence[Contact], names: Collection[str]
) -> dict[str, Contact]:
    """Return, by phone, the first contact that really has it; leave out phones of nobody.

    `ids_by_phone` are the ids that a search has found, the oldest first; `contacts` were read by
    these ids with the properties `PHONES`, and are returned with the properties `names` only. A
    contact that was merged after the search indexed it comes back under another id, and is tried
    last.
    """
    by_id = {contact.id: contact for contact in contacts}
    searched = {id for ids in ids_by_phone.values() for id in ids}
    merged = [contact.id for contact in contacts if contact.id not in searched]
    oldest: dict[str, Contact] = {}
    for phone, ids in ids_by_phone.items():
        for contact in (by_id[id] for id in (*ids, *merged) if id in by_id):
            if has_number(contact.properties, phone):
                only = {n: v for n, v in contact.properties.items() if n in names}
                oldest.setdefault(phone, replace(contact, properties=only))
    return oldest


def _ends_alike(phone: str, stored: str) -> bool:
    """Return whether two phone numbers may be equal: a fast test before the slow comparison.

    The test compares the last four digits. The result is also True if `stored` contains letters or
    characters outside ASCII, which only the slow comparison can handle.
    """
    if not stored.isascii() or any(map(str.isalpha, stored)):
        return True
    return _NOT_DIGITS.sub("", stored)[-4:] == _NOT_DIGITS.sub("", phone)[-4:]


def _identity(parsed: Any) -> tuple[int, str, str]:
    import phonenumbers

    # `national_number` would drop the leading zero of Italian numbers.
    significant = phonenumbers.national_significant_number(parsed)
    return parsed.country_code, significant, parsed.extension or ""


def _parsed(number: str, country: str | None) -> Any:
    # Imported here because it is large and many calls have no phone.
    import phonenumbers

    try:
        return current(phonenumbers.parse(number, country))
    except phonenumbers.NumberParseException:
        return None
