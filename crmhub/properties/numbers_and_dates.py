"""The text that is stored for a number or date, and the values that search compares.

A number has at most 15 significant digits, lies between -1e30 and 1e30 (both excluded) and has at
most 30 decimals, so at most 32 characters. Different decimals of 15 digits give different doubles
in the same order, so both databases may compare doubles.
"""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from crmhub.properties.value_errors import InvalidValue, NotScalar, shown, trimmed
from crmhub.translatable import translatable

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
_DATE, _DATE_FORM = translatable("date"), translatable("YYYY-MM-DD, such as 2026-01-31")
_DATE_AND_TIME = translatable("date and time")
_DATE_AND_TIME_FORM = translatable("ISO 8601, such as 2026-01-31T09:30:00Z")


def number_text(value: str) -> str:
    plain = value.isdigit() and value.isascii() and value[0] != "0"
    if plain and len(value) <= MAX_SIGNIFICANT_DIGITS:
        return value
    match = _NUMBER.fullmatch(trimmed(value))
    if match is None or not (match[2] or match[3]):
        raise InvalidValue(
            "%(value)s is not a number; send plain decimal text such as -1234.5, without"
            " thousands separators, units or signs of a currency",
            value=shown(value),
        )
    sign, whole, fraction, exponent = match.groups("")
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return "0"
    scale = _power(exponent) - len(fraction) + len(digits) - len(significant)
    if len(significant) > MAX_SIGNIFICANT_DIGITS:
        raise InvalidValue(
            "%(value)s has %(digits)s significant digits; send at most %(most)s",
            value=shown(value),
            digits=len(significant),
            most=MAX_SIGNIFICANT_DIGITS,
        )
    if len(significant) + scale > MAX_MAGNITUDE:
        raise InvalidValue(
            "%(value)s is out of range; send a number between -1e%(most)s and 1e%(most)s",
            value=shown(value),
            most=MAX_MAGNITUDE,
        )
    if -scale > MAX_MAGNITUDE:
        raise InvalidValue(
            "%(value)s has too many decimals; send at most %(most)s",
            value=shown(value),
            most=MAX_MAGNITUDE,
        )
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


def decimal_text(value: float | Decimal) -> str:
    number = value if isinstance(value, Decimal) else Decimal(repr(value))
    if not number.is_finite():
        raise NotScalar(f"{number} is no JSON number; send a finite one")
    # Beyond every double the zeros would only fill memory, up to 10**18 of them.
    if abs(number.adjusted()) > 400:
        return str(number)
    return f"{number:f}"


def date_text(value: str) -> str:
    text = trimmed(value)
    # The written day counts: in UTC it may be the day before or after.
    return _day(text) or _moment(text, _DATE, _DATE_FORM)[0].date().isoformat()


def datetime_text(value: str) -> str:
    text = trimmed(value)
    if day := _day(text):
        return f"{day}T00:00:00.000Z"
    written, offset = _moment(text, _DATE_AND_TIME, _DATE_AND_TIME_FORM)
    try:
        moment = written - offset
    except OverflowError:
        raise _no_such_day(text) from None
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _day(text: str) -> str:
    """Return a date written as YYYY-MM-DD, which is what most are; else "" (see `_moment`)."""
    if not (len(text) == 10 and text[4] == "-" == text[7] and text.isascii()):
        return ""
    try:
        date.fromisoformat(text)
    except ValueError:
        return ""
    return text


def _moment(text: str, what: str, right: str) -> tuple[datetime, timedelta]:
    """Return the date and time as written, cut to milliseconds, and the offset from UTC.

    `what` is the type, and `right` the valid format, for the error InvalidValue.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        if _EPOCH_MS.fullmatch(text):
            return _EPOCH + timedelta(milliseconds=int(text)), timedelta()
        raise InvalidValue(
            "%(text)s is not a %(what)s; send %(right)s (or milliseconds since 1970)",
            text=shown(text),
            what=what,
            right=right,
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
        "%(text)s is no day or time of the calendar; send one that exists, in UTC between the"
        " years 0001 and 9999",
        text=shown(text),
    )


def search_number(value: str) -> float:
    """Return a filter's number as the index stores it; raise InvalidValue."""
    return float(number_text(value))


def search_day(value: str) -> int:
    """Return a filter's day (YYYY-MM-DD, or with HH:mm) as its `date.toordinal`.

    Raises InvalidValue for any other format, and for a day that does not exist.
    """
    match = _SEARCH_DAY.fullmatch(value)
    if match is None:
        reason = (
            f"{shown(value)} is not a date to compare with; "
            "send YYYY-MM-DD or YYYY-MM-DD HH:mm, such as 2026-01-31 or 2026-01-31 09:30"
        )
        raise InvalidValue(reason)
    try:
        return date.fromisoformat(match[1]).toordinal()
    except ValueError:
        raise _no_such_day(value) from None


def day_key(value: str) -> int:
    """Return the ordinal of the day in UTC, for the stored text of a date or datetime."""
    return date.fromisoformat(value[:10]).toordinal()
