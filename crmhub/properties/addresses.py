"""The text that is stored for an email address, a phone number or a web address.

The libraries email-validator and phonenumbers are slow to import, so they are imported when needed.
"""

import re
import unicodedata
from typing import Any

from crmhub.adapter.phone_reading import PhoneText, read_phone, with_extension
from crmhub.adapter.phones import current
from crmhub.errors import shortened
from crmhub.properties.value_errors import InvalidValue, shown, trimmed
from crmhub.translatable import translatable

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
_FEWEST_DIGITS, _MOST_DIGITS = 7, 15
# National numbers have fewer digits, unless they begin with a 0 and a carrier's digits.
_LONGEST_NATIONAL = 14
_MEXICO, _ARGENTINA, _BRAZIL = 52, 54, 55
# PhoneNumberType: MOBILE, FIXED_LINE_OR_MOBILE; and FIXED_LINE.
_MOBILES = (1, 2)
_LINES = (0, *_MOBILES)

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


def phone_text(value: str, region: str | None, *, of_bot: bool = False) -> str:
    """Return a possible phone number in the format E.164, any other one as it is written.

    `region` is the country, such as "DE", of numbers without a country code. Numbers that can only
    be dialled locally stay. An extension is kept behind the number. Digits alone that a bot sends
    (`of_bot`) come from a messenger, with their country code; in a file they are rather a number of
    the region whose zero a spreadsheet has dropped. Raises InvalidValue for anything but one phone
    number.
    """
    text = trimmed(value)
    phone = read_phone(text)
    if phone is None:
        raise InvalidValue(
            "%(text)s is not one phone number; send one such as +12025550123", text=shown(text)
        )
    number = _e164(phone, region, of_bot=of_bot)
    # Parsing must be stable: a number that parses differently again is not trusted.
    if number and number != phone.number and _e164(read_phone(number), region) != number:
        number = ""
    return with_extension(number or phone.number, phone.extension)


def national_text(digits: str, region: str, *, valid: bool) -> str:
    """Return digits as a possible number of the region, in E.164; "" if there is none.

    Without `valid`, only one that the region does not have, as earlier versions have stored.
    """
    import phonenumbers

    number = _parsed(digits, region or None)
    if not _is_possible(number) or _lacks_area(number):
        return ""
    if not valid and phonenumbers.is_valid_number(number):
        return ""
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def _e164(phone: PhoneText | None, region: str | None, *, of_bot: bool = False) -> str:
    import phonenumbers

    if phone is None:
        return ""
    number = None
    if phone.plus or phone.digits.startswith("00"):
        # 00 stands for the plus, also where another prefix is dialled.
        number = _parsed(f"+{phone.international}", None)
    if not phone.plus and not _is_possible(number):
        national = _parsed(phone.digits, region)
        number = _with_country(phone, national, of_bot=of_bot) or national if region else None
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


def _with_country(phone: PhoneText, national: Any, *, of_bot: bool) -> Any:
    """Return a number without a plus parsed with its country code; None if `national` is likelier.

    `national` is the number parsed in the region, None if it cannot be. Messengers send a number as
    its digits alone, of any country, but national numbers may begin with the same digits.
    """
    import phonenumbers
    from phonenumbers import PhoneNumberType

    digits = phone.digits
    if len(digits) < _FEWEST_WITH_COUNTRY or digits.startswith("0"):
        return None
    whole = _parsed(f"+{digits}", None)
    if whole is None or not phonenumbers.is_valid_number(whole):
        return None
    is_mobile = phonenumbers.number_type(whole) in _MOBILES
    if national is None:
        return whole if phone.is_bare and _is_line(whole, digits) else None
    significant = phonenumbers.national_significant_number(national)
    if digits.startswith(str(national.country_code)):
        sure = phonenumbers.number_type(whole) == PhoneNumberType.MOBILE
        is_own = significant == digits and (sure or not phonenumbers.is_possible_number(national))
        return whole if is_own else None
    if not phone.is_bare or not _is_line(whole, digits):
        return None
    # Within Mexico nobody dials the former prefixes without a zero.
    is_former = national.country_code == _MEXICO and significant != digits
    if is_former or not phonenumbers.is_valid_number(national):
        return whole
    if not of_bot or not is_mobile or significant != digits:
        return None
    return whole if _is_written_otherwise(national) else None


def _is_line(whole: Any, digits: str) -> bool:
    """Return whether all the digits are a landline or mobile number; parsing may drop a prefix."""
    import phonenumbers

    kept = f"{whole.country_code}{phonenumbers.national_significant_number(whole)}"
    # `current` has changed the number of digits of their former mobiles.
    is_same = kept == digits or whole.country_code in (_MEXICO, _BRAZIL)
    return is_same and phonenumbers.number_type(whole) in _LINES


def _is_written_otherwise(national: Any) -> bool:
    """Return whether people write a zero before the number, or it is none of a person."""
    import phonenumbers
    from phonenumbers import PhoneNumberType

    kind = phonenumbers.number_type(national)
    if kind != PhoneNumberType.FIXED_LINE:
        return kind not in _LINES
    written = phonenumbers.format_number(national, phonenumbers.PhoneNumberFormat.NATIONAL)
    return bool(written.lstrip("(").startswith("0"))


def _parsed(text: str, region: str | None) -> Any:
    import phonenumbers

    try:
        return current(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        return None


def phone_fault(text: str) -> str:
    """Return the error message for a text that cannot be a phone number, else ""."""
    if not is_junk_phone(text):
        return ""
    return translatable(
        '"%(text)s" is not a possible phone number; send one such as +12025550123',
        text=shortened(text.strip()),
    )


def is_junk_phone(text: str) -> bool:
    """Return whether a text cannot be a phone number: a dummy, or anything beside one number."""
    phone = read_phone(text)
    if phone is None:
        return True
    with_plus, digits = phone.plus, phone.digits
    if not with_plus and digits.startswith("00"):
        digits = digits[2:]
    if not _FEWEST_DIGITS <= len(digits) <= _MOST_DIGITS or len(set(digits)) == 1:
        return True
    import phonenumbers

    try:
        parsed = current(phonenumbers.parse(f"+{digits}"))
    except phonenumbers.NumberParseException:
        return with_plus
    repeated = len(set(phonenumbers.national_significant_number(parsed))) == 1
    if with_plus:
        return repeated or not phonenumbers.is_possible_number(parsed)
    # Without a plus the number may lack a country code, so only a full-length number is checked.
    reason = phonenumbers.is_possible_number_with_reason(parsed)
    if reason == phonenumbers.ValidationResult.TOO_LONG:
        return len(digits) >= _LONGEST_NATIONAL and not digits.startswith("0")
    return repeated and reason == phonenumbers.ValidationResult.IS_POSSIBLE


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
