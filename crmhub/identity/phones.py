"""The different notations of a phone number.

Messengers write bare international digits (`4915112345678`), people write `00` for the plus. A
national number may look the same. So a number is stored in one reading, by the account's region,
but a search tries all possible readings.
"""

from __future__ import annotations

import re

from crmhub.adapter.phones import former
from crmhub.properties import values

_NOT_DIGITS = re.compile(r"[^0-9]+", re.ASCII)
_MOST_DIGITS = 15


def readings(text: str, region: str) -> list[str]:
    """Return the phone numbers that a text may mean, the likeliest first.

    The numbers are in E.164 (`+4915112345678`) if possible. `region`: the account's two-letter
    country code, "" if it has none.
    """
    text = values.number_of(text).strip()
    stored = _stored(text, region)
    plus = _with_country(_digits(text))
    if not plus:
        return [stored]
    return list(dict.fromkeys([stored, plus] if stored.startswith("+") else [plus, stored]))


def forms(number: str, region: str) -> list[str]:
    """Return all notations in which the same phone number may be stored, `number` itself first.

    `region`: the account's two-letter country code, "" if it has none.
    """
    plus = _with_country(_digits(number))
    if not plus:
        return [number]
    found = [number]
    for e164 in filter(None, (plus, former(plus))):
        digits = e164[1:]
        # The last form results from bare digits that were read as a national number.
        found += [e164, digits, f"00{digits}", _stored(digits, region)]
    return list(dict.fromkeys(found))


def _stored(text: str, region: str) -> str:
    return values.for_search("phone", text, region=region or None)


def _digits(text: str) -> str:
    return _NOT_DIGITS.sub("", text).removeprefix("00")


def _with_country(digits: str) -> str:
    """Return digits that begin with a country code as an E.164 number, "" if that is impossible."""
    if not digits or len(digits) > _MOST_DIGITS:
        return ""
    number = _stored(f"+{digits}", "")
    # Imported here, since the module is large and many calls have no phone.
    import phonenumbers

    try:
        return number if phonenumbers.is_possible_number(phonenumbers.parse(number)) else ""
    except phonenumbers.NumberParseException:
        return ""
