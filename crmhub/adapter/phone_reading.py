"""Read a text that is one phone number, and nothing else.

Digits are never joined across two numbers, a number and its extension, or a number and words. So a
text with anything beside one number, such as `4915112345678@lid` or `3.46E+11`, is no phone number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Characters that are copied along with a number.
_INVISIBLE = r"\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"

# Argentina dials a mobile with a 9 from abroad, and any line without it: +54 9 11 …, +54 11 ….
ARGENTINE = re.compile(r"\+54(9?)([1-8][0-9]{9})", re.ASCII)
"""An Argentine number in E.164."""

# A longer text is no number; this also bounds the time of the expressions below.
_LONGEST = 100
_MOST_DIGITS = 15
_BLANK = rf" \t\u00a0\u2000-\u200a\u202f\u205f\u3000{_INVISIBLE}"
# U+30FC is the key of a Japanese keyboard where others have the hyphen.
_DASH = r"\-\u2010-\u2015\u2212\uff0d\u30fc"
_FILL = rf"\d{_BLANK}{_DASH}.()\[\]\uff08\uff09"
_NUMBER = re.compile(rf"[{_BLANK}(\[\uff08]*+([+\uff0b]?)([{_FILL}]++(?:/[{_FILL}]++)?)")
_EXTENSION = re.compile(
    rf"[{_BLANK},;]*(?:,,|(?:ext(?:n|ensi[oóô]n|ens[aã]o)?|int(?:erno)?|anexo|ramal|poste|durchwahl"
    rf"|доб|x|[#~\uff03\uff5e])[.:=]?)[{_BLANK}]*(\d{{1,9}})#?\)?",
    re.IGNORECASE,
)
_BEFORE_EXTENSION = " ext. "
# Facebook's lead forms write p:+12025550123. A label that says which phone it is (Mobile, Fax) is
# none of these: the number belongs into another property, or to somebody else.
_SCHEME = re.compile(
    rf"(?:(?:tel|sms|callto|whatsapp|p):|(?:t[eé]l(?:[eé](?:fono|fone?|phone))?|phone|fone|whatsapp)"
    rf"[{_BLANK}]*(?:[:：]|\.:?|[{_DASH}](?=[{_BLANK}])))",
    re.IGNORECASE,
)
# With the number of a device: 12025550123:7@s.whatsapp.net.
_OF_WHATSAPP = re.compile(
    r"\+?([0-9]{7,15})(?:[._][0-9]{1,3})?(?::[0-9]{1,5})?@(?:c\.us|s\.whatsapp\.net)",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"(?:(?:https?://)?(?:(?:www\.)?wa\.me/|(?:api|web)\.whatsapp\.com/send/?\?phone=)"
    r"|whatsapp://send/?\?phone=)(?:\+|%2B)?([0-9]{7,15})/?(?:[?&]\S*)?",
    re.IGNORECASE,
)
# As programs write a number that they take for a decimal one: 12025550123.0, 1.2025550123.
_WHOLE_DECIMAL = re.compile(r"(\+?\d{7,15})\.0")
_DECIMAL = re.compile(r"[1-9]\.\d{5,}|.*\d{7}\.\d{1,2}")
# A day is no phone: people who share a birthday would share it.
_YEAR, _MONTH, _DAY = "(?:19|20)[0-9]{2}", "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
_DATE = re.compile(
    rf"{_YEAR}([-./]){_MONTH}\1{_DAY}|{_DAY}([-./]){_MONTH}\2{_YEAR}|{_MONTH}([-./]){_DAY}\3{_YEAR}"
)
# Dialled within the country only: +34 (0) 600 … In some countries every number begins with a zero.
_TRUNK_ZERO = re.compile(
    rf"\A((?:00)?(?!39|378|225|24[12])[1-9]\d{{0,2}}[{_BLANK}{_DASH}.]*)[(\[\uff08]0[)\]\uff09]"
)
_SEPARATOR = re.compile(r"[/(\[\uff08]")
_INVISIBLES = re.compile(f"[{_INVISIBLE}]")
_LONG_RUN = re.compile(r"\d{7,}")
_FEWEST_BEFORE_EXTENSION = 5
# The most digits, without and with a country code, that a slash or a bracket may follow.
_AREA, _AREA_WITH_COUNTRY = 6, 9


@dataclass(frozen=True, slots=True)
class PhoneText:
    """`number`: without link, messenger and extension. `plus`: has a country code for sure."""

    number: str
    digits: str
    plus: bool
    extension: str = ""

    @property
    def is_bare(self) -> bool:
        """Whether the number is written as digits alone, as messengers send it."""
        shown = _INVISIBLES.sub("", self.number)
        return shown.isdecimal() and _digits(shown) == self.digits

    @property
    def international(self) -> str:
        """The digits after a plus or 00, or bare digits; "" if they cannot be international."""
        digits = self.digits if self.plus else self.digits.removeprefix("00")
        return digits if len(digits) <= _MOST_DIGITS and not digits.startswith("0") else ""


def read_phone(text: str) -> PhoneText | None:
    """Links (`tel:`, `whatsapp:`, `wa.me/`) and WhatsApp ids are numbers, even impossible ones."""
    text = text.strip().rstrip(",;")
    if len(text) > _LONGEST:
        return None
    if whatsapp := _LINK.fullmatch(text):
        return PhoneText(f"+{whatsapp[1]}", whatsapp[1], plus=True)
    scheme = _SCHEME.match(text)
    text = text[scheme.end() :].strip() if scheme else text
    if whatsapp := _OF_WHATSAPP.fullmatch(text):
        return PhoneText(f"+{whatsapp[1]}", whatsapp[1], plus=True)
    if decimal := _WHOLE_DECIMAL.fullmatch(text):
        text = decimal[1]
    match = _NUMBER.match(text)
    if match is None or _DATE.fullmatch(text):
        return None
    plus, number, rest = bool(match[1]), match[2], text[match.end() :]
    digits = _digits(_TRUNK_ZERO.sub(r"\1", number))
    if not digits or _DECIMAL.fullmatch(text) or _may_be_two(number, plus=plus):
        return None
    if not rest:
        return PhoneText(text, digits, plus)
    extension = _EXTENSION.fullmatch(rest)
    if extension is None or len(digits) < _FEWEST_BEFORE_EXTENSION:
        return None
    return PhoneText(match[0].rstrip(" \t\u00a0-("), digits, plus, _digits(extension[1]))


def _may_be_two(number: str, *, plus: bool) -> bool:
    """Return whether digits and separators may be two numbers, such as `0301234/0305678`."""
    digits = _digits(number)
    with_country = plus or digits.startswith("00")
    # "+49 (0) 30 …" has a digit more than the number.
    most = _MOST_DIGITS + (1 if plus else 3 if with_country else 0)
    if len(digits) > most or len(_LONG_RUN.findall(number)) > 1:
        return True
    area = _AREA_WITH_COUNTRY if with_country else _AREA
    parts = ((one, _digits(number[one.end() :])) for one in _SEPARATOR.finditer(number))
    return any(
        len(_digits(number[: one.start()])) > area or (one[0] == "/" and after.startswith("0"))
        for one, after in parts
        if after
    )


def _digits(text: str) -> str:
    return "".join(str(int(character)) for character in text if character.isdecimal())


def with_extension(number: str, extension: str) -> str:
    return f"{number}{_BEFORE_EXTENSION}{extension}" if extension else number


def split_extension(number: str) -> tuple[str, str]:
    before, _, extension = number.partition(_BEFORE_EXTENSION)
    return before, extension


def line_of(number: str) -> str:
    """Return the form that is the same for both forms of an Argentine number in E.164."""
    e164, extension = split_extension(number)
    argentine = ARGENTINE.fullmatch(e164)
    return with_extension(f"+54{argentine[2]}", extension) if argentine else number
