"""The text that is stored for a value of each property type.

`canonical` turns a value into its text, which is never empty; applied twice, it gives the same.
Case folding (`fold`) is done here, since the databases' own functions differ.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Literal, get_args

from crmhub.adapter import PropertyType
from crmhub.bounds import MAX_TEXT_LENGTH
from crmhub.properties.addresses import email_text, lowered_email, phone_text, url_text
from crmhub.properties.numbers_and_dates import (
    date_text,
    datetime_text,
    decimal_text,
    number_text,
)

# Callers of `canonical` and `from_json` catch these errors.
from crmhub.properties.value_errors import InvalidValue as InvalidValue
from crmhub.properties.value_errors import NotScalar as NotScalar
from crmhub.properties.value_errors import blank_value, shown, trimmed
from crmhub.translatable import join_texts, translatable

TYPES: tuple[str, ...] = get_args(PropertyType)
NUMBER_TYPES: frozenset[str] = frozenset({"number", "currency"})
DATE_TYPES: frozenset[str] = frozenset({"date", "datetime"})
CHOICE_TYPES: frozenset[str] = frozenset({"bool", "enumeration", "multi_enumeration"})
TEXT_TYPES: frozenset[str] = frozenset(TYPES) - NUMBER_TYPES - DATE_TYPES

# Characters. Up to here, `unicodedata.normalize` takes at most 8 ms for any text.
_MAX_QUICKLY_NORMALIZED = 1000


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
        raise blank_value()
    if len(value) > MAX_TEXT_LENGTH:
        raise InvalidValue(
            "%(length)s characters long; send at most %(most)s",
            length=len(value),
            most=MAX_TEXT_LENGTH,
        )
    if "\0" in value:
        raise InvalidValue("contains the character U+0000; leave it out")
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise InvalidValue(
            "contains half a surrogate pair (%(half)s); send whole characters",
            half=f"U+{ord(value[exc.start]):04X}",
        ) from None
    if type == "string" or type == "text":
        return value
    if type == "enumeration":
        return _enumeration(value, options, any_case)
    if type == "multi_enumeration":
        return _multi_enumeration(value, options, any_case)
    if type == "phone":
        return phone_text(value, region)
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
        return decimal_text(value)
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
        return lowered_email(value) if type == "email" else value


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


def _bool(value: str) -> str:
    text = trimmed(value).lower()
    if text != "true" and text != "false":
        raise InvalidValue("%(value)s is not a boolean; send true or false", value=shown(value))
    return text


def _enumeration(value: str, options: Sequence[Option], any_case: bool) -> str:
    for option in options:
        if option.value == value:
            return value
    return _choose([trimmed(value)], options, any_case)[0]


def _multi_enumeration(value: str, options: Sequence[Option], any_case: bool) -> str:
    parts = _parts(value)
    if not parts:
        raise blank_value()
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
        return translatable("the property has no options yet; give it options first")
    parts = parts[:3]
    room = 60 // len(parts)
    faults: list[str] = []
    unknown: list[str] = []
    for part in parts:
        folded = part.casefold()
        labelled = [option.value for option in options if option.label.casefold() == folded]
        written = [option.value for option in options if option.value.casefold() == folded]
        values = " or ".join(shown(value, 255) for value in (labelled or written)[:3])
        if labelled:
            faults.append(
                translatable(
                    "%(text)s is the label; send the value %(values)s",
                    text=shown(part, room),
                    values=values,
                )
            )
        elif written:
            faults.append(
                translatable(
                    "%(text)s differs in case; send the value %(values)s",
                    text=shown(part, room),
                    values=values,
                )
            )
        else:
            unknown.append(shown(part, room))
    if unknown:
        shown_options: str = ", ".join(shown(option.value) for option in options[:10])
        if len(options) > 10:
            shown_options = translatable(
                "%(options)s and %(more)s more", options=shown_options, more=len(options) - 10
            )
        said = {"texts": ", ".join(unknown), "options": shown_options}
        faults.append(
            translatable("%(texts)s is not among the options; send one of %(options)s", **said)
            if len(unknown) == 1
            else translatable(
                "%(texts)s are not among the options; send one of %(options)s", **said
            )
        )
    return join_texts("; ", faults)


_ALONE: dict[str, Callable[[str], str]] = {
    "number": number_text,
    "currency": number_text,
    "date": date_text,
    "datetime": datetime_text,
    "bool": _bool,
    "email": email_text,
    "url": url_text,
}
