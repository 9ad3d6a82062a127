"""The text that is stored for a value of each property type, and the values that search compares.

`canonical` turns a value into its text, which is never empty; applied twice, it gives the same. Two
more rules concern the index tables:

- A number has at most 15 significant digits, lies between -1e30 and 1e30 (both excluded) and has at
most 30 decimals, so at most 32 characters. Different decimals of 15 digits give different doubles
in the same order, so both databases may compare doubles.

- Case folding (`fold`) is done here: the databases' own functions differ.

The libraries email-validator and phonenumbers are slow to import, so they are imported when needed.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, Literal

from crmhub.adapter.phone_reading import PhoneText, read_phone, with_extension
from crmhub.adapter.phones import current
from crmhub.bounds import MAX_TEXT_LENGTH

TYPES: tuple[str, ...] = (
    "string",
    "text",
    "number",
    "currency",
    "date",
    "datetime",
    "bool",
    "enumeration",
    "multi_enumeration",
    "email",
    "phone",
    "url",
)
NUMBER_TYPES: frozenset[str] = frozenset({"number", "currency"})
DATE_TYPES: frozenset[str] = frozenset({"date", "datetime"})
CHOICE_TYPES: frozenset[str] = frozenset({"bool", "enumeration", "multi_enumeration"})
TEXT_TYPES: frozenset[str] = frozenset(TYPES) - NUMBER_TYPES - DATE_TYPES

MAX_SIGNIFICANT_DIGITS = 15
MAX_MAGNITUDE = 30  # a power of ten: the whole part's digits, and the decimals

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)?)?"
)
# 11 to 13 digits reach from 1653 to 2286. Ten digits would be seconds, eight a date without its
# hyphens and fourteen a time without its signs: read as milliseconds all three would be wrong.
_EPOCH_MS = re.compile(r"-?[0-9]{11,13}")
_SEARCH_DAY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?: (?:[01][0-9]|2[0-3]):[0-5][0-9])?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Characters. Up to here, `unicodedata.normalize` takes at most 8 ms for any text.
_MAX_QUICKLY_NORMALIZED = 1000

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

# Spelled out, since re.IGNORECASE would also take the long s (U+017F) for an s.
_URL_LABEL = r"[0-9A-Za-z_\-\u00a1-\U0010ffff]+"
_URL = re.compile(
    rf"(?:[Hh][Tt][Tt][Pp][Ss]?://(?:[^/?#@]*@)?(?:{_URL_LABEL}(?:\.{_URL_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])"
    rf"|{_URL_LABEL}(?:\.{_URL_LABEL})+\.?)"
    r"(?::[0-9]{1,5})?(?:[/?#].*)?"
)
_BLANK_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


class InvalidValue(ValueError):
    """Error for a value that does not fit its property type; it says what to send."""


class NotScalar(ValueError):
    """Error for a value that is not a JSON string, number, boolean or null."""


@dataclass(frozen=True, slots=True)
class Option:
    """A choice of an enumeration: `value` is stored, `label` is shown to people."""

    value: str
    label: str


class InvalidOptions(InvalidValue):
    """Error for values of a filter, by their index in it, that are not among the options."""

    def __init__(self, wrong: Mapping[int, str], options: Sequence[Option]) -> None:
        super().__init__("not among the options")
        self.wrong = wrong
        self._options = options

    def reason(self, index: int) -> str:
        """Return the error for one of the values."""
        return _wrong_choice([self.wrong[index]], self._options)


_BOOLEANS = (Option("true", "true"), Option("false", "false"))


def canonical(
    type: str,
    value: str,
    *,
    options: Sequence[Option] = (),
    region: str | None = None,
    any_case: bool = False,
) -> str:
    """Return the text in which a property of this type stores a value; raise InvalidValue.

    With `any_case`, upper and lower case of an option's value do not matter. `region` is the
    country, such as "DE", of phone numbers without a country code.
    """
    if not value:
        raise _blank()
    if len(value) > MAX_TEXT_LENGTH:
        raise InvalidValue(f"{len(value)} characters long; send at most {MAX_TEXT_LENGTH}")
    if "\0" in value:
        raise InvalidValue("contains the character U+0000; leave it out")
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        half = f"half a surrogate pair (U+{ord(value[exc.start]):04X})"
        raise InvalidValue(f"contains {half}; send whole characters") from None
    if type == "string" or type == "text":
        return value
    if type == "enumeration":
        return _enumeration(value, options, any_case)
    if type == "multi_enumeration":
        return _multi_enumeration(value, options, any_case)
    if type == "phone":
        return _phone(value, region)
    return _ALONE[type](value)


def from_json(value: object) -> str:
    """Return a JSON string, number, boolean or null ("") as text; raise NotScalar."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float | Decimal):
        return _decimal_text(value)
    if isinstance(value, list | tuple):
        kind = "an array"
    else:
        kind = "an object" if isinstance(value, dict) else "no JSON value"
    raise NotScalar(f"{kind}; send a string, a number, a boolean or null")


def for_search(
    type: str,
    value: str,
    *,
    options: Sequence[Option] = (),
    region: str | None = None,
    any_case: bool = False,
) -> str:
    """Return the text with which EQ and IN compare values of one of TEXT_TYPES.

    It is the `canonical` one; an invalid value stays (an email in lower case), and finds no
    records.
    """
    try:
        return canonical(type, value, options=options, region=region, any_case=any_case)
    except InvalidValue:
        return _lowered(value) if type == "email" else value


def options_for_search(
    type: str, given: Sequence[str], options: Sequence[Option], *, any_case: bool = False
) -> list[str]:
    """Return the options that EQ and IN compare, for one of CHOICE_TYPES; raise InvalidOptions.

    An item of `given` names one option, or several joined by ";". The options are prepared once:
    there may be thousands of both.
    """
    if type == "bool":
        options, any_case = _BOOLEANS, True
    read = _reader(options, any_case)
    chosen: dict[str, None] = {}
    wrong: dict[int, str] = {}
    for index, text in enumerate(given):
        for part in (_parts(text) if type == "multi_enumeration" else [text]) or [text]:
            value = read(part) or read(part.strip())
            if value is None:
                wrong.setdefault(index, part)
            else:
                chosen[value] = None
    if wrong:
        raise InvalidOptions(wrong, options)
    return list(chosen)


def fold(text: str) -> str:
    """Return the text, in NFC, without the differences that CONTAINS_TOKEN ignores.

    These are case (full case folding), composed and decomposed accents, and the dot of the letter
    i, which Turkish distinguishes (`İ`, `I`, `ı`, `i`).
    """
    if text.isascii():
        return text.lower()
    folded = _normalized("NFD", text).casefold()
    return _normalized("NFC", folded.replace("ı", "i").replace("i\u0307", "i"))


def _normalized(form: Literal["NFC", "NFD"], text: str) -> str:
    """Return the text in a Unicode normalization form, in time proportional to its length."""
    if len(text) > _MAX_QUICKLY_NORMALIZED:
        text = _in_canonical_order(text)
    return unicodedata.normalize(form, text)


def _in_canonical_order(text: str) -> str:
    """Return the decomposed text with the accents of each letter in the order of Unicode.

    `unicodedata.normalize` sorts them in quadratic time: 30 s for 65,536 accents of one letter.
    """
    if not any(map(unicodedata.combining, text)):
        return text
    decomposed = "".join(unicodedata.normalize("NFD", character) for character in text)
    pieces = groupby(decomposed, key=lambda character: unicodedata.combining(character) > 0)
    return "".join(
        "".join(sorted(piece, key=unicodedata.combining) if are_accents else piece)
        for are_accents, piece in pieces
    )


def search_number(value: str) -> float:
    """Return a filter's number as the index stores it; raise InvalidValue."""
    return float(_number(value))


def search_day(value: str) -> int:
    """Return a filter's day (YYYY-MM-DD, or with HH:mm) as its `date.toordinal`.

    Raises InvalidValue for any other format, and for a day that does not exist.
    """
    match = _SEARCH_DAY.fullmatch(value)
    if match is None:
        raise InvalidValue(
            f"{_shown(value)} is not a date to compare with; "
            "send YYYY-MM-DD or YYYY-MM-DD HH:mm, such as 2026-01-31 or 2026-01-31 09:30"
        )
    try:
        return date.fromisoformat(match[1]).toordinal()
    except ValueError:
        raise _no_such_day(value) from None


def number_key(value: str) -> float:
    """Return the number that the index stores for the stored text of a number."""
    return float(value)


def day_key(value: str) -> int:
    """Return the ordinal of the day in UTC, for the stored text of a date or datetime."""
    return date.fromisoformat(value[:10]).toordinal()


def _trimmed(value: str) -> str:
    text = value.strip()
    if not text:
        raise _blank()
    return text


def _blank() -> InvalidValue:
    return InvalidValue("blank; send a value")


def _shown(text: str, room: int = 60) -> str:
    """Return a text in quotes, cut to `room` characters and escaped, for an error message."""
    cut = text[:room] + ("…" if len(text) > room else "")
    if not cut.isprintable():
        cut = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return f'"{cut}"'


# Numbers


def _number(value: str) -> str:
    plain = value.isdigit() and value.isascii() and value[0] != "0"
    if plain and len(value) <= MAX_SIGNIFICANT_DIGITS:
        return value
    match = _NUMBER.fullmatch(_trimmed(value))
    if match is None or not (match[2] or match[3]):
        raise InvalidValue(
            f"{_shown(value)} is not a number; send plain decimal text such as -1234.5, "
            "without thousands separators, units or signs of a currency"
        )
    sign, whole, fraction, exponent = match.groups("")
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return "0"
    scale = _power(exponent) - len(fraction) + len(digits) - len(significant)
    if len(significant) > MAX_SIGNIFICANT_DIGITS:
        raise InvalidValue(
            f"{_shown(value)} has {len(significant)} significant digits; "
            f"send at most {MAX_SIGNIFICANT_DIGITS}"
        )
    if len(significant) + scale > MAX_MAGNITUDE:
        raise InvalidValue(
            f"{_shown(value)} is out of range; "
            f"send a number between -1e{MAX_MAGNITUDE} and 1e{MAX_MAGNITUDE}"
        )
    if -scale > MAX_MAGNITUDE:
        raise InvalidValue(f"{_shown(value)} has too many decimals; send at most {MAX_MAGNITUDE}")
    if scale >= 0:
        text = significant + "0" * scale
    else:
        significant = significant.zfill(1 - scale)
        text = f"{significant[:scale]}.{significant[scale:]}"
    return "-" + text if sign == "-" else text


def _power(exponent: str) -> int:
    """Return an exponent; one of more than five digits is 10**6, out of range for any number."""
    digits = exponent.lstrip("+-").lstrip("0")
    power = int(digits or "0") if len(digits) <= 5 else 10**6
    return -power if exponent.startswith("-") else power


def _decimal_text(value: float | Decimal) -> str:
    number = value if isinstance(value, Decimal) else Decimal(repr(value))
    if not number.is_finite():
        raise NotScalar(f"{number} is no JSON number; send a finite one")
    # Beyond every double the zeros would only fill memory, up to 10**18 of them.
    if abs(number.adjusted()) > 400:
        return str(number)
    return f"{number:f}"


# Dates


def _date(value: str) -> str:
    text = _trimmed(value)
    if len(text) == 10 and text[4] == "-" == text[7] and text.isascii():
        try:
            date.fromisoformat(text)
        except ValueError:
            pass  # `_moment` finds the words for it
        else:
            return text
    # The written day counts: in UTC it may be the day before or after.
    return _moment(text, "date", "YYYY-MM-DD, such as 2026-01-31")[0].date().isoformat()


def _datetime(value: str) -> str:
    text = _trimmed(value)
    written, offset = _moment(text, "date and time", "ISO 8601, such as 2026-01-31T09:30:00Z")
    try:
        moment = written - offset
    except OverflowError:
        raise _no_such_day(text) from None
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _moment(text: str, what: str, right: str) -> tuple[datetime, timedelta]:
    """Return the date and time as written, cut to milliseconds, and the offset from UTC.

    `what` is the type, and `right` the valid format, for the error InvalidValue.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        if _EPOCH_MS.fullmatch(text):
            return _EPOCH + timedelta(milliseconds=int(text)), timedelta()
        raise InvalidValue(
            f"{_shown(text)} is not a {what}; send {right} (or milliseconds since 1970)"
        )
    year, month, day, hour, minute, second, fraction, sign, off_hours, off_minutes = match.groups(
        "0"
    )
    try:
        moment = datetime(
            int(year),
            int(month),
            int(day),
            int(hour),
            int(minute),
            int(second),
            int(fraction[:3].ljust(3, "0")) * 1000,
            UTC,
        )
    except ValueError:
        raise _no_such_day(text) from None
    offset = timedelta(hours=int(off_hours), minutes=int(off_minutes))
    return moment, -offset if sign == "-" else offset


def _no_such_day(text: str) -> InvalidValue:
    return InvalidValue(
        f"{_shown(text)} is no day or time of the calendar; "
        "send one that exists, in UTC between the years 0001 and 9999"
    )


# Choices


def _bool(value: str) -> str:
    text = _trimmed(value).lower()
    if text != "true" and text != "false":
        raise InvalidValue(f"{_shown(value)} is not a boolean; send true or false")
    return text


def _enumeration(value: str, options: Sequence[Option], any_case: bool) -> str:
    for option in options:
        if option.value == value:
            return value
    return _choose([_trimmed(value)], options, any_case)[0]


def _multi_enumeration(value: str, options: Sequence[Option], any_case: bool) -> str:
    parts = _parts(value)
    if not parts:
        raise _blank()
    return ";".join(dict.fromkeys(_choose(parts, options, any_case)))


def _parts(value: str) -> list[str]:
    return list(dict.fromkeys(part for piece in value.split(";") if (part := piece.strip())))


def _reader(options: Sequence[Option], any_case: bool) -> Callable[[str], str | None]:
    """Return a function from a text to the value of the option that it names, or None."""
    by_value = {option.value: option.value for option in options}
    if not any_case:
        return by_value.get
    folded = {option.value.casefold(): option.value for option in reversed(options)}
    return lambda part: by_value.get(part) or folded.get(part.casefold())


def _choose(parts: Iterable[str], options: Sequence[Option], any_case: bool) -> list[str]:
    read = _reader(options, any_case)
    chosen = {part: read(part) for part in parts}
    wrong = [part for part, value in chosen.items() if value is None]
    if wrong:
        raise InvalidValue(_wrong_choice(wrong, options))
    return [value for value in chosen.values() if value is not None]


def _wrong_choice(parts: list[str], options: Sequence[Option]) -> str:
    if not options:
        return "the property has no options yet; give it options first"
    parts = parts[:3]
    room = 60 // len(parts)
    faults: list[str] = []
    unknown: list[str] = []
    for part in parts:
        folded = part.casefold()
        labelled = [option.value for option in options if option.label.casefold() == folded]
        written = [option.value for option in options if option.value.casefold() == folded]
        values = " or ".join(_shown(value, 255) for value in (labelled or written)[:3])
        if labelled:
            faults.append(f"{_shown(part, room)} is the label; send the value {values}")
        elif written:
            faults.append(f"{_shown(part, room)} differs in case; send the value {values}")
        else:
            unknown.append(_shown(part, room))
    if unknown:
        verb = "is" if len(unknown) == 1 else "are"
        listed = ", ".join(_shown(option.value) for option in options[:10])
        more = f" and {len(options) - 10} more" if len(options) > 10 else ""
        faults.append(
            f"{', '.join(unknown)} {verb} not among the options; send one of {listed}{more}"
        )
    return "; ".join(faults)


# Addresses


def _lowered(value: str) -> str:
    text = value.strip().lower()
    # No address is longer.
    return unicodedata.normalize("NFC", text) if len(text) <= _MAX_EMAIL else text


def _email(value: str) -> str:
    """Return a valid email address in lower case, without a DNS lookup; raise InvalidValue.

    Domains reserved for tests and local networks (example.test, printer.local) are accepted, one
    without a dot is refused. A Unicode domain is mapped as IDNA demands; Punycode stays.
    """
    text = _lowered(value.strip(_UNSEEN))
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
        f"{_shown(_trimmed(value))} is not an email address; send one such as name@example.com"
    )


def _phone(value: str, region: str | None) -> str:
    """Return a possible phone number in the format E.164, any other one as it is written.

    `region` is the country, such as "DE", of numbers without a country code. Numbers that can only
    be dialled locally stay. An extension is kept behind the number. Raises InvalidValue for
    anything but one phone number.
    """
    text = _trimmed(value)
    phone = read_phone(text)
    if phone is None:
        raise InvalidValue(f"{_shown(text)} is not one phone number; send one such as +12025550123")
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
    if number is None or not _is_possible(number):
        return ""
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def _is_possible(number: Any) -> bool:
    import phonenumbers

    if number is None:
        return False
    reason = phonenumbers.is_possible_number_with_reason(number)
    return bool(reason == phonenumbers.ValidationResult.IS_POSSIBLE)


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


def _url(value: str) -> str:
    text = _trimmed(value)
    if _BLANK_OR_CONTROL.search(text):
        raise InvalidValue(
            f"{_shown(text)} contains a blank or a control character; send a blank as %20"
        )
    if not _URL.fullmatch(text):
        raise InvalidValue(
            f"{_shown(text)} is not a web address; "
            "send one that starts with https:// or http://, or a host such as example.com/page"
        )
    return text


_ALONE: dict[str, Callable[[str], str]] = {
    "number": _number,
    "currency": _number,
    "date": _date,
    "datetime": _datetime,
    "bool": _bool,
    "email": _email,
    "url": _url,
}
