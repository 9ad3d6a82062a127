"""The different notations of a phone number.

A national number may look like the bare international digits of messengers. So a number is stored
in one reading, by the account's region, but a search tries all possible readings.
"""

from __future__ import annotations

from crmhub.adapter.phone_reading import PhoneText, read_phone, split_extension, with_extension
from crmhub.adapter.phones import second_form
from crmhub.properties import addresses, values


def readings(text: str, region: str, *, doubtful: bool = False) -> list[str]:
    """Return E.164 if possible, likeliest first; a text that is no phone number means itself.

    `doubtful`: also the number of the region that the digits may be, which may be somebody else's.
    """
    phone = read_phone(text)
    if phone is None:
        return [text]
    stored = addresses.phone_text(text, region or None, of_bot=True)
    plus = with_extension(_with_country(phone), phone.extension)
    if not plus.startswith("+"):
        return [stored]
    found = [stored, plus] if stored.startswith("+") else [plus, stored]
    return list(dict.fromkeys(found + _nationals(phone, plus, region, doubtful)))


def forms(number: str, region: str, *, doubtful: bool = False) -> list[str]:
    """Return the notations in which a number may be stored; `doubtful` as in `readings`."""
    phone = read_phone(number)
    plus = _with_country(phone) if phone else ""
    if phone is None or not plus:
        return [number]
    found = [number]
    for e164 in filter(None, (plus, second_form(plus))):
        notations = (e164, e164[1:], f"00{e164[1:]}")
        found += [with_extension(each, phone.extension) for each in notations]
        found += _nationals(phone, e164, region, doubtful)
    return list(dict.fromkeys(found))


def _nationals(phone: PhoneText, e164: str, region: str, doubtful: bool) -> list[str]:
    """Return the number of the region as which the digits of a messenger may have been stored."""
    number = addresses.national_text(split_extension(e164)[0][1:], region, valid=doubtful)
    return [with_extension(number, phone.extension)] if number else []


def _with_country(phone: PhoneText) -> str:
    if not phone.international:
        return ""
    number = values.for_search("phone", f"+{phone.international}")
    # Imported here, since the module is large and many calls have no phone.
    import phonenumbers

    try:
        return number if phonenumbers.is_possible_number(phonenumbers.parse(number)) else ""
    except phonenumbers.NumberParseException:
        return ""
