"""The text that is stored for an email address, a phone number or a web address.

The libraries email-validator and phonenumbers are slow to import, so they are imported when needed.
"""

import re
import unicodedata
from typing import Any

from crmhub.adapter.phone_reading import PhoneText, read_phone, with_extension
from crmhub.adapter.phones import current
from crmhub.properties.value_errors import InvalidValue, shown, trimmed

# Every address this takes is a valid one to email-validator too, which costs 20 times as much.
# A label whose third and fourth characters are hyphens (xn--…) is left to it.
_PLAIN_EMAIL = re.compile(
    r"(?=.{1,254}\Z)(?=[^@]{1,64}@)"
    r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*@"
    r"(?:(?!..--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{1,63}"
)
_MAX_EMAIL = 320

# Invisible characters that are copied along with an address.
_UNSEEN = (
    " \t\r\n\u00a0\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060"
    "\u2066\u2067\u2068\u2069\ufeff"
)
# Shorter ones are what is left of a national number whose first digits look like its country's.
_FEWEST_WITH_COUNTRY = 10
_ARGENTINA = 54

# Spelled out, since re.IGNORECASE would also take the long s (U+017F) for an s.
_URL_LABEL = r"[0-9A-Za-z_\-\u00a1-\U0010ffff]+"
_URL = re.compile(
    rf"(?:[Hh][Tt][Tt][Pp][Ss]?://(?:[^/?#@]*@)?(?:{_URL_LABEL}(?:\.{_URL_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])"
    rf"|{_URL_LABEL}(?:\.{_URL_LABEL})+\.?)"
    r"(?::[0-9]{1,5})?(?:[/?#].*)?"
)
_BLANK_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


def lowered_email(value: str) -> str:
    text = value.strip().lower()
    # No address is longer.
    return unicodedata.normalize("NFC", text) if len(text) <= _MAX_EMAIL else text


def email_text(value: str) -> str:
    """Return a valid email address in lower case, without a DNS lookup; raise InvalidValue.

    Domains reserved for tests and local networks (example.test, printer.local) are accepted, one
    without a dot is refused. A Unicode domain is mapped as IDNA demands; Punycode stays.
    """
    text = lowered_email(value.strip(_UNSEEN))
    if _PLAIN_EMAIL.fullmatch(text):
        return text
    local, _, domain = text.rpartition("@")
    if len(text) <= _MAX_EMAIL:
        from email_validator import EmailNotValidError, validate_email

        # The suffix hides a reserved domain from the library, whose list of them is global.
        suffix = ".com"
        try:
            valid = validate_email(text + suffix, check_deliverability=False, strict=True)
        except EmailNotValidError:
            pass
        else:
            domain = domain if domain.isascii() else valid.domain.removesuffix(suffix)
            if "." in domain and not domain[-1].isdigit():
                return f"{local}@{domain}"
    raise InvalidValue(
        "%(text)s is not an email address; send one such as name@example.com",
        text=shown(trimmed(value)),
    )


def phone_text(value: str, region: str | None) -> str:
    """Return a possible phone number in the format E.164, any other one as it is written.

    `region` is the country, such as "DE", of numbers without a country code. Numbers that can only
    be dialled locally stay. An extension is kept behind the number. Raises InvalidValue for
    anything but one phone number.
    """
    text = trimmed(value)
    phone = read_phone(text)
    if phone is None:
        raise InvalidValue(
            "%(text)s is not one phone number; send one such as +12025550123", text=shown(text)
        )
    number = _e164(phone, region)
    # Parsing must be stable: a number that parses differently again is not trusted.
    if number and number != phone.number and _e164(read_phone(number), region) != number:
        number = ""
    return with_extension(number or phone.number, phone.extension)


def _e164(phone: PhoneText | None, region: str | None) -> str:
    import phonenumbers

    if phone is None:
        return ""
    number = None
    if phone.plus or phone.digits.startswith("00"):
        # 00 stands for the plus, also where another prefix is dialled.
        number = _parsed(f"+{phone.international}", None)
    if not phone.plus and not _is_possible(number):
        national = _parsed(phone.digits, region)
        number = _with_country(phone.digits, national) or national if region else None
        if _lacks_area(number):
            return ""
    if number is None or not _is_possible(number):
        return ""
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def _is_possible(number: Any) -> bool:
    import phonenumbers

    if number is None:
        return False
    reason = phonenumbers.is_possible_number_with_reason(number)
    return bool(reason == phonenumbers.ValidationResult.IS_POSSIBLE)


def _lacks_area(number: Any) -> bool:
    """Return whether a national number can be dialled only within its area, which is not known.

    Its length may be possible for another one: 98765-4321 in Brazil, 15 6677-3399 in Argentina.
    """
    import phonenumbers
    from phonenumbers import PhoneNumberType, ValidationResult

    if number is None or phonenumbers.is_valid_number(number):
        return False
    if number.country_code == _ARGENTINA and str(number.national_number).startswith("15"):
        return True
    reason = phonenumbers.is_possible_number_for_type_with_reason(
        number, PhoneNumberType.FIXED_LINE_OR_MOBILE
    )
    return bool(reason == ValidationResult.IS_POSSIBLE_LOCAL_ONLY)


def _with_country(digits: str, number: Any) -> Any:
    """Return `digits` parsed with a country code, if `number`, parsed in the region, is wrong.

    A messenger sends mobile numbers like this, but national numbers of the region (DE, ID) may
    begin with the same digits. None if `number` may be right.
    """
    import phonenumbers
    from phonenumbers import PhoneNumberType

    if (
        number is None
        or len(digits) < _FEWEST_WITH_COUNTRY
        or not digits.startswith(str(number.country_code))
        or phonenumbers.national_significant_number(number) != digits
    ):
        return None
    whole = _parsed(f"+{digits}", None)
    if whole is None:
        return None
    if phonenumbers.is_possible_number(number):
        sure = phonenumbers.number_type(whole) == PhoneNumberType.MOBILE
    else:
        sure = phonenumbers.is_valid_number(whole)
    return whole if sure else None


def _parsed(text: str, region: str | None) -> Any:
    import phonenumbers

    try:
        return current(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        return None


def url_text(value: str) -> str:
    text = trimmed(value)
    if _BLANK_OR_CONTROL.search(text):
        raise InvalidValue(
            "%(text)s contains a blank or a control character; send a blank as %%20",
            text=shown(text),
        )
    if not _URL.fullmatch(text):
        raise InvalidValue(
            "%(text)s is not a web address; send one that starts with https:// or http://, or a"
            " host such as example.com/page",
            text=shown(text),
        )
    return text
