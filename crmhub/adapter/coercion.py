"""Convert values as people write them to the format that a CRM property accepts.

Only unambiguous values are converted: `yes` for a checkbox, a label that only one option has, a
number with thousands separators. An ambiguous value such as `1,234` is a problem whose text names
the values to send instead.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from crmhub.adapter.errors import Problem, Rejected
from crmhub.adapter.values import Choice, Described

_TRUE = frozenset({"true", "yes", "1", "on"})
_FALSE = frozenset({"false", "no", "0", "off"})
_GROUPED = re.compile(r"[+-]?\d{1,3}([, '’\u00a0\u202f])\d{3}(?:\1\d{3})*(?:\.\d+)?", re.ASCII)
_ONE_COMMA = re.compile(r"[+-]?\d{1,3},\d{3}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?", re.ASCII)
_LONGEST_NUMBER = 50
# 11 to 13 digits are times from 1653 to 2286. 10 digits are seconds; 14 digits are YYYYMMDDHHMMSS.
_EPOCH_MS = re.compile(r"-?\d{11,13}", re.ASCII)
_COMPACT_TIME = re.compile(
    r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{8}", re.ASCII)
_TIME = re.compile(
    r"(?:\d{4}-\d\d-\d\d|\d{8})[T ]\d\d(?::?\d\d){1,2}(?:[.,]\d+)?(?: ?(?:Z|[+-]\d\d(?::?\d\d)?))?",
    re.ASCII,
)
_LONGEST_OPTION = 1000
_SHOWN = 60
_MOST_OPTIONS = 20


def fitted(
    properties: Mapping[str, str], definitions: Mapping[str, Described], *, of: str
) -> dict[str, str]:
    """Return the properties, with each value converted to the type of its property.

    `definitions` contains the CRM's property definitions by name. `of` names the kind of record in
    error messages, such as "contacts". A blank value becomes `""`, which clears the property.
    Raises Rejected with a problem for each unknown or read-only property and each invalid value.
    """
    converted: dict[str, str] = {}
    problems: list[Problem] = []
    for name, text in properties.items():
        described = definitions.get(name)
        if described is None:
            problems.append(Problem(name, f"{of} have no such property in the CRM"))
        elif described.read_only:
            problems.append(Problem(name, "the CRM sets this property itself; leave it out"))
        else:
            try:
                converted[name] = coerced(described, text)
            except Misfit as exc:
                problems.append(Problem(name, str(exc), exc.options))
    if problems:
        raise Rejected(problems)
    return converted


class Misfit(ValueError):
    """A value is invalid for its property; the message tells why.

    `options` lists up to 20 values that the property accepts.
    """

    def __init__(self, reason: str, options: Iterable[str] = ()) -> None:
        super().__init__(reason)
        self.options = tuple(options)


def coerced(described: Described, text: str) -> str:
    """Return the value `text` converted to the type of a property; `described` is its definition.

    Numbers are returned without exponent and separators, dates as `YYYY-MM-DD`, datetimes as ISO
    8601 in UTC with milliseconds, and booleans as `true` or `false`. Options are returned as their
    internal values, several options joined by `;`. Blank text is returned as `""`. Raises Misfit
    for an invalid value.
    """
    if not text.strip():
        return ""
    match described.type:
        case "enumeration":
            return next(_chosen(described.options, [text])) if described.options else text.strip()
        case "multi_enumeration":
            return _several(described.options, text)
        case "bool":
            return _boolean(described.options, text.strip())
        case "number" | "currency":
            return _number(text.strip())
        case "date":
            # Keep the written day: in UTC it may be the day before or after.
            return _moment(text.strip()).date().isoformat()
        case "datetime":
            moment = _in_utc(_moment(text.strip()))
            return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return text


def _several(options: tuple[Choice, ...], text: str) -> str:
    parts = dict.fromkeys(part.strip() for part in text.split(";") if part.strip())
    if not parts:
        raise Misfit('names no option; send values joined by ";"')
    if options:
        parts = dict.fromkeys(_chosen(options, parts))
    return ";".join(parts)


def _chosen(options: tuple[Choice, ...], texts: Iterable[str]) -> Iterator[str]:
    """For each of `texts`, yield the internal value of the option that the text names.

    A text names an option by its exact value, or else by its value or label in any case. Raises
    Misfit if a text names no option, or more than one.
    """
    values = {option.value for option in options}
    meanings: dict[str, set[str]] = {}
    for text in texts:
        exact = text if text in values else text.strip()
        if exact in values:
            yield exact
            continue
        if not meanings:
            for option in options:
                for written in (option.label, option.value):
                    meanings.setdefault(_folded(written), set()).add(option.value)
        yield _single_option(options, text, meanings.get(_folded(text), set()))


def _single_option(options: tuple[Choice, ...], text: str, matches: set[str]) -> str:
    if len(matches) == 1:
        return next(iter(matches))
    values = sorted(matches) or [option.value for option in options]
    shown = ", ".join(_quoted(value) for value in values[:_MOST_OPTIONS])
    more = " or another of its options" if len(values) > _MOST_OPTIONS else ""
    why = "may mean several options" if matches else "is not among the options"
    raise Misfit(f"{_quoted(text)} {why}; send {shown}{more}", values[:_MOST_OPTIONS])


def _folded(text: str) -> str:
    # Normalization takes quadratic time in the number of combining accents.
    if len(text) <= _LONGEST_OPTION:
        text = unicodedata.normalize("NFC", text)
    return text.strip().casefold()


def _quoted(text: str) -> str:
    cut = text[:_SHOWN] + ("…" if len(text) > _SHOWN else "")
    return f'"{"".join(c if c.isprintable() else "�" for c in cut)}"'


def _boolean(options: tuple[Choice, ...], text: str) -> str:
    folded = _folded(text)
    labelled = {option.value for option in options if _folded(option.label) == folded}
    for value, words in (("true", _TRUE), ("false", _FALSE)):
        if folded == value or labelled == {value} or (not labelled and folded in words):
            return value
    raise Misfit('is neither "true" nor "false"', ("true", "false"))


def _number(text: str) -> str:
    if _ONE_COMMA.fullmatch(text):
        readings = (text.replace(",", ""), text.replace(",", "."))
        raise Misfit(f"may mean two numbers; send {' or '.join(readings)}", readings)
    if grouped := _GROUPED.fullmatch(text):
        text = text.replace(grouped[1], "")
    if not _NUMBER.fullmatch(text):
        raise Misfit("is not a number; send digits, with a point before the decimals")
    plain = f"{Decimal(text):f}" if len(text) <= _LONGEST_NUMBER else text
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    if len(plain) > _LONGEST_NUMBER:
        raise Misfit(f"is too long for a number; send at most {_LONGEST_NUMBER} characters")
    return "0" if plain in ("-0", "") else plain


def _moment(text: str) -> datetime:
    """Parse a date, a date with time, or milliseconds since 1970; return a datetime with time zone.

    A time without offset is read as UTC. Raises Misfit if the text has another format.
    """
    if _COMPACT_TIME.fullmatch(text):
        raise Misfit("may be milliseconds or a date; send YYYY-MM-DDTHH:MM:SSZ")
    if _EPOCH_MS.fullmatch(text):
        return _EPOCH + timedelta(milliseconds=int(text))
    text = text.upper()
    try:
        if _DATE.fullmatch(text):
            day = date.fromisoformat(text)
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        if _TIME.fullmatch(text):
            moment = datetime.fromisoformat(text[:11] + text[11:].replace(" ", ""))
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        pass
    raise _no_moment()


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise _no_moment() from None


def _no_moment() -> Misfit:
    return Misfit("is not a date; send YYYY-MM-DD, or YYYY-MM-DDTHH:MM:SSZ")
