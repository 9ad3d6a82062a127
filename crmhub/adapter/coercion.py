"""Convert values as people write them to the format that a CRM property accepts.

Only unambiguous values are converted: `yes` for a checkbox, a label that only one option has, a
number with thousands separators. The problem of an ambiguous value, such as `1,234`, names the
values to send instead.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Protocol

from crmhub.adapter.errors import Problem, Rejected
from crmhub.adapter.reading import Reading, read_email
from crmhub.adapter.values import Described
from crmhub.translatable import translatable

_PLAIN = Reading()
_RECORDS = {
    "contacts": translatable("contacts"),
    "deals": translatable("deals"),
    "companies": translatable("companies"),
    "tickets": translatable("tickets"),
}
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
    properties: Mapping[str, str],
    definitions: Mapping[str, Described],
    *,
    of: str,
    reading: Reading = _PLAIN,
) -> dict[str, str]:
    """Raises Rejected for all misfits; `of`: the kind of record. A blank value clears."""
    converted: dict[str, str] = {}
    problems: list[Problem] = []
    for name, text in properties.items():
        described = definitions.get(name)
        if described is None:
            problems.append(
                Problem(
                    name,
                    translatable(
                        "%(records)s have no such property in the CRM", records=_RECORDS.get(of, of)
                    ),
                )
            )
        elif described.read_only:
            problems.append(
                Problem(name, translatable("the CRM sets this property itself; leave it out"))
            )
        else:
            try:
                converted[name] = coerced(described, text, reading)
            except Misfit as exc:
                problems.append(Problem(name, str(exc), exc.options))
    if problems:
        raise Rejected(problems)
    return converted


class Misfit(ValueError):
    """A value is invalid for its property; `options` lists up to 20 values that it accepts."""

    def __init__(self, reason: str, options: Iterable[str] = ()) -> None:
        super().__init__(reason)
        self.options = tuple(options)


class Unclear(Misfit):
    """A value that must be refused, not passed on: it has two readings, or is a list."""


class _Option(Protocol):
    @property
    def value(self) -> str: ...

    @property
    def label(self) -> str: ...


class Definition(Protocol):
    @property
    def type(self) -> str: ...

    @property
    def options(self) -> Sequence[_Option]: ...


def coerced(described: Definition, text: str, reading: Reading = _PLAIN) -> str:
    """Return numbers without exponent and separators, dates as `YYYY-MM-DD`, datetimes as ISO 8601
    in UTC with milliseconds, `true` or `false`, and options' internal values, joined by `;`.

    Blank text is `""`. Raises Misfit, and its subclass Unclear for a text with two readings.
    """
    if isinstance(text, Listed) and described.type != "multi_enumeration":
        raise Unclear(translatable("is an array or an object; send one value"))
    if not text.strip():
        return ""
    match described.type:
        case "enumeration":
            return Options(described.options).one(text) if described.options else text.strip()
        case "multi_enumeration":
            return Options(described.options).several(_listed(text))
        case "bool":
            return _boolean(described.options, text.strip(), reading)
        case "number" | "currency":
            return _number(text.strip(), reading, is_typed=isinstance(text, TypedNumber))
        case "email":
            return read_email(text)
        case "date":
            # Keep the written day: in UTC it may be the day before or after.
            return _moment(text.strip(), reading).date().isoformat()
        case "datetime":
            moment = _in_utc(_moment(text.strip(), reading))
            return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return text


class Listed(str):
    """Several values that a caller sent as a list, joined by ";"; only options can be several."""

    __slots__ = ()


class TypedNumber(str):
    """A number such as `1.234` from a bot: a person may have typed it, and mean thousands."""

    __slots__ = ()


def sent_text(value: str | Sequence[str] | None) -> str:
    return value or "" if value is None or isinstance(value, str) else ";".join(value)


def _listed(text: str) -> str:
    """Return a JSON list that a builder sent as text joined by ";", another text unchanged."""
    if not text.lstrip().startswith("["):
        return text
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return ";".join(values) if all(isinstance(value, str) for value in values) else text


class Options:
    def __init__(self, options: Iterable[_Option]) -> None:
        self._options = tuple(options)
        self._values = {option.value for option in self._options}
        self._meanings: dict[str, set[str]] = {}

    def one(self, text: str) -> str:
        return self._only(text, self._find(text))

    def several(self, text: str) -> str:
        """Separated by ";", or by commas if each part names an option; joined by ";"."""
        parts = [part for piece in text.split(";") if (part := piece.strip())]
        if not parts:
            raise Misfit(translatable('names no option; send values joined by ";"'))
        if not self._options:
            return ";".join(dict.fromkeys(parts))
        return ";".join(dict.fromkeys(value for part in parts for value in self._split(part)))

    def _find(self, text: str) -> set[str]:
        exact = text if text in self._values else text.strip()
        if exact in self._values:
            return {exact}
        if not self._meanings:
            for option in self._options:
                for written in (option.label, option.value):
                    self._meanings.setdefault(_folded(written), set()).add(option.value)
        return self._meanings.get(_folded(text), set())

    def _split(self, text: str) -> Iterable[str]:
        found = self._find(text)
        if text in self._values or "," not in text:
            return [self._only(text, found)]
        parts = {part: self._find(part) for each in text.split(",") if (part := each.strip())}
        if not any(parts.values()) or (found and not all(parts.values())):
            return [self._only(text, found)]
        values = list(dict.fromkeys(self._only(part, named) for part, named in parts.items()))
        if found and found != set(values):
            readings = (*sorted(found), ";".join(values))
            reason = translatable(
                "%(text)s may mean one option or several; send %(options)s",
                text=_quoted(text),
                options=_either([_quoted(one) for one in readings]),
            )
            raise Unclear(reason, readings)
        return values

    def _only(self, text: str, found: set[str]) -> str:
        if len(found) == 1:
            return next(iter(found))
        values = sorted(found) or [option.value for option in self._options]
        shown = ", ".join(_quoted(value) for value in values[:_MOST_OPTIONS])
        options: str = shown
        if len(values) > _MOST_OPTIONS:
            options = translatable("%(options)s or another of its options", options=shown)
        said = {"text": _quoted(text), "options": options}
        if found:
            reason = translatable("%(text)s may mean several options; send %(options)s", **said)
            raise Unclear(reason, values[:_MOST_OPTIONS])
        reason = translatable("%(text)s is not among the options; send %(options)s", **said)
        raise Misfit(reason, values[:_MOST_OPTIONS])


def _either(readings: Sequence[str]) -> str:
    """Return the values to send instead of an ambiguous one, of which there are several."""
    first, *others = readings
    one: str = first
    for other in others:
        one = translatable("%(one)s or %(other)s", one=one, other=other)
    return one


def _folded(text: str) -> str:
    # Normalization takes quadratic time in the number of combining accents.
    if len(text) <= _LONGEST_OPTION:
        text = unicodedata.normalize("NFC", text)
    return text.strip().casefold()


def _quoted(text: str) -> str:
    cut = text[:_SHOWN] + ("…" if len(text) > _SHOWN else "")
    return f'"{"".join(c if c.isprintable() else "�" for c in cut)}"'


def _boolean(options: Iterable[_Option], text: str, reading: Reading) -> str:
    folded = _folded(text)
    labelled = {option.value for option in options if _folded(option.label) == folded}
    for value in ("true", "false"):
        if folded == value or labelled == {value}:
            return value
    if not labelled and (value := reading.truth(text)):
        return value
    raise Misfit(translatable('is neither "true" nor "false"'), ("true", "false"))


def _number(text: str, reading: Reading, *, is_typed: bool) -> str:
    readings = reading.numbers(text) if is_typed or not _NUMBER.fullmatch(text) else []
    if not readings and _ONE_COMMA.fullmatch(text):
        readings = [text.replace(",", ""), text.replace(",", ".")]
    if len(readings) > 1:
        reason = translatable("may mean two numbers; send %(readings)s", readings=_either(readings))
        raise Unclear(reason, readings)
    text = readings[0] if readings else text
    if grouped := _GROUPED.fullmatch(text):
        text = text.replace(grouped[1], "")
    if not _NUMBER.fullmatch(text):
        raise Misfit(translatable("is not a number; send digits, with a point before the decimals"))
    plain = f"{Decimal(text):f}" if len(text) <= _LONGEST_NUMBER else text
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    if len(plain) > _LONGEST_NUMBER:
        raise Misfit(
            translatable(
                "is too long for a number; send at most %(most)s characters", most=_LONGEST_NUMBER
            )
        )
    return "0" if plain in ("-0", "") else plain


def _moment(text: str, reading: Reading) -> datetime:
    """Parse a date, a date with time (UTC without an offset), or milliseconds since 1970."""
    if _COMPACT_TIME.fullmatch(text):
        raise Unclear(translatable("may be milliseconds or a date; send YYYY-MM-DDTHH:MM:SSZ"))
    if _EPOCH_MS.fullmatch(text):
        return _EPOCH + timedelta(milliseconds=int(text))
    written = reading.moments(text)
    if len(written) > 1:
        reason = translatable("may mean two dates; send %(readings)s", readings=_either(written))
        raise Unclear(reason, written)
    text = written[0] if written else text.upper()
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
    return Misfit(translatable("is not a date; send YYYY-MM-DD, or YYYY-MM-DDTHH:MM:SSZ"))
