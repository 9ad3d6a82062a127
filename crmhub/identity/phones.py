"""One phone number in the notations people and builders write it in.

Messengers hand numbers over as bare international digits (`4915112345678`), people write `00` for
the plus. Neither can be told from a national number in general, so nothing is stored under such a
reading where the account's region allows another one; but who is looked for is looked for under
each.
"""

from __future__ import annotations

import re

from crmhub.adapter.phones import former
from crmhub.properties import values

_NOT_DIGITS = re.compile(r"[^0-9]+", re.ASCII)
_MOST_DIGITS = 15


def readings(text: str, region: str) -> list[str]:
    """Return the numbers a text may mean, the likeliest first, in E.164 if possible.

    `region` is the account's country code, "" for none.
    """
    text = values.number_of(text).strip()
    stored = _stored(text, region)
    plus = _with_country(_digits(text))
    if not plus:
        return [stored]
    return list(dict.fromkeys([stored, plus] if stored.startswith("+") else [plus, stored]))


def forms(number: str, region: str) -> list[str]:
    """Return the texts under which this number may be stored, itself first."""
    plus = _with_country(_digits(number))
    if not plus:
        return [number]
    found = [number]
    for e164 in filter(None, (plus, former(plus))):
        digits = e164[1:]
        # The last is what became of bare digits where they were taken for a national number.
        found += [e164, digits, f"00{digits}", _stored(digits, region)]
    return list(dict.fromkeys(found))


def _stored(text: str, region: str) -> str:
    return values.for_search("phone", text, region=region or None)


def _digits(text: str) -> str:
    return _NOT_DIGITS.sub("", text).removeprefix("00")


def _with_country(digits: str) -> str:
    """Return these digits as an E.164 number with its country code, "" if they are none."""
    if not digits or len(digits) > _MOST_DIGITS:
        return ""
    number = _stored(f"+{digits}", "")
    # Imported here: it is large, and many calls bring no phone.
    import phonenumbers

    try:
        return number if phonenumbers.is_possible_number(phonenumbers.parse(number)) else ""
    except phonenumbers.NumberParseException:
        return ""
