"""The different notations of a phone number.

A national number may look like the bare international digits of messengers. So a number is stored
in one reading, by the account's region, but a search tries all possible readings.
"""

from __future__ import annotations

from crmhub.adapter.phone_reading import PhoneText, read_phone, with_extension
from crmhub.adapter.phones import second_form
from crmhub.properties import values


def readings(text: str, region: str) -> list[str]:
    """Return E.164 if possible, likeliest first; a text that is no phone number means itself."""
    phone = read_phone(text)
    if phone is None:
        return [text]
    stored = _stored(text, region)
    plus = with_extension(_with_country(phone), phone.extension)
    if not plus.startswith("+"):
        return [stored]
    return list(dict.fromkeys([stored, plus] if stored.startswith("+") else [plus, stored]))


def forms(number: str, region: str) -> list[str]:
    phone = read_phone(number)
    plus = _with_country(phone) if phone else ""
    if phone is None or not plus:
        return [number]
    found = [number]
    for e164 in filter(None, (plus, second_form(plus))):
        digits = e164[1:]
        # The last form results from bare digits that were read as a national number.
        notations = (e164, digits, f"00{digits}", _stored(digits, region))
        found += [with_extension(each, phone.extension) for each in notations]
    return list(dict.fromkeys(found))


def _stored(text: str, region: str) -> str:
    return values.for_search("phone", text, region=region or None)


def _with_country(phone: PhoneText) -> str:
    if not phone.international:
        return ""
    number = _stored(f"+{phone.international}", "")
    # Imported here, since the module is large and many calls have no phone.
    import phonenumbers

    try:
        return number if phonenumbers.is_possible_number(phonenumbers.parse(number)) else ""
    except phonenumbers.NumberParseException:
        return ""
