"""Dates, numbers, emails, and words for yes and no, as people write them in their country."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType

# Countries that write the month before the day, by Unicode's CLDR.
_MONTH_FIRST = frozenset(("AS", "FM", "GU", "MH", "MP", "PA", "PH", "PR", "PW", "UM", "US", "VI"))
# Countries that write both orders, or only dates that begin with the year.
_NO_ORDER = frozenset(("CA", "CN", "HU", "IR", "JP", "KP", "KR", "LT", "MN", "TW"))
# Countries that write a comma before the decimals, by Unicode's CLDR.
_DECIMAL_COMMA = frozenset(
    (
        *("AL", "AM", "AO", "AR", "AT", "AZ", "BA", "BE", "BG", "BO", "BR", "BY", "CL", "CO", "CR"),
        *("CV", "CZ", "DE", "DK", "DZ", "EC", "EE", "ES", "FI", "FR", "GE", "GR", "HR", "HU", "ID"),
        *("IS", "IT", "KZ", "LT", "LU", "LV", "MA", "MD", "ME", "MK", "MZ", "NL", "NO", "PL", "PT"),
        *("PY", "RO", "RS", "RU", "SE", "SI", "SK", "TN", "TR", "UA", "UY", "VE", "VN"),
    )
)
_LONGEST = 40
_LONGEST_EMAIL = 500
_SPACES = " \u00a0\u202f\u2009'’"
_CURRENCY = (
    rf"(?:[{_SPACES}]*(?:[A-Z]{{0,3}}[$€£¥₡₲₹₺₽]"
    rf"|ARS|BRL|CHF|CLP|COP|EUR|GBP|MXN|PEN|USD|UYU))?[{_SPACES}]*"
)


def _number_pattern(decimal: str, group: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<sign>[+-]?){_CURRENCY}"
        rf"(?P<whole>[1-9][0-9]{{0,2}}(?P<group>[{group}{_SPACES}])[0-9]{{3}}"
        rf"(?:(?P=group)[0-9]{{3}})*|[0-9]+)"
        rf"(?:{re.escape(decimal)}(?P<decimals>[0-9]+))?{_CURRENCY}"
    )


_NUMBERS = {".": _number_pattern(".", ","), ",": _number_pattern(",", ".")}
# As mail programs and chats write an address: mailto:…, Email: …, <…>, Name <…>, or with signs of
# a sentence. A hyphen or an equals sign right behind the label may belong to the address.
_EMAIL_LABEL = (
    r"(?:(?:e-?mail|mail|correo|correio)(?: (?:address|electr[oó]nico|eletr[oô]nico))?"
    r"(?:\s{0,3}[:：]\s{0,3}|\s{1,3}(?:[-–—=]\s{1,3})?))?"
)
_EMAIL = re.compile(
    rf'{_EMAIL_LABEL}(?:[^@<>]*<)?["(¡¿]*+(?:mailto:)?([^\s"<>()@]+@[^\s"<>()@]+?)"?>?[.,;:!?)]*',
    re.IGNORECASE,
)
# Chats write [a@b.co](mailto:a@b.co), web pages mailto:a@b.co?subject=…, Outlook 'a@b.co'.
_WRAPPED_EMAIL = re.compile(
    r"(?:\[[^\[\]]*\]\()?mailto:([^\s?()]+)(?:\?[^\s()]*)?\)?|['‘’“”`]([^\s'‘’“”`]+)['‘’“”`]",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"(?:([0-9]{1,2}) ?([./-]) ?([0-9]{1,2}) ?\2 ?([0-9]{4})"
    r"|([0-9]{4}) ?([./-]) ?([0-9]{1,2}) ?\6 ?([0-9]{1,2}))\.?"
    r"(?:(?:, ?| |T)([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?: ?([AaPp])\.?[Mm]\.?)?)?"
)

# Words for "true" and "false", from chats and spreadsheets; each must be unique in its language.
_WORDS: Mapping[str, tuple[str, str]] = {
    "en": ("true yes 1 on y", "false no 0 off n"),
    "bg": ("да истина", "не лъжа"),
    "ca": ("sí s cert vertader veritat", "no n fals"),
    "cs": ("ano a pravda", "ne n nepravda"),
    "da": ("ja j sand sandt", "nej n falsk"),
    "de": ("ja j wahr", "nein n falsch"),
    "el": ("ναι αληθής", "όχι ψευδής"),
    "es": ("sí s verdadero", "no n falso"),
    "et": ("jah tõene", "ei väär"),
    "fi": ("kyllä joo k tosi", "ei e epätosi"),
    "fr": ("oui o vrai", "non n faux"),
    "hr": ("da d istina", "ne n laž"),
    "hu": ("igen i igaz", "nem n hamis"),
    "id": ("ya y benar", "tidak salah"),
    "it": ("sì s vero", "no n falso"),
    "ja": ("はい", "いいえ"),
    "ko": ("네 예", "아니요 아니오"),
    "lt": ("taip t tiesa", "ne n netiesa"),
    "lv": ("jā patiess", "nē aplams"),
    "nb": ("ja j sann sant", "nei n usann"),
    "nl": ("ja j waar", "nee n onwaar"),
    "pl": ("tak t prawda", "nie n fałsz"),
    "pt": ("sim s verdadeiro", "não n falso"),
    "ro": ("da d adevărat", "nu n fals"),
    "ru": ("да д истина", "нет н ложь"),
    "sk": ("áno a pravda", "nie n nepravda"),
    "sl": ("da d resnično", "ne n neresnično"),
    "sv": ("ja j sant", "nej n falskt"),
    "tr": ("evet e doğru", "hayır h yanlış"),
    "uk": ("так істина", "ні хибність"),
    "zh": ("是的 是 对", "不是 否 不"),
}
LANGUAGES: tuple[str, ...] = tuple(_WORDS)
"""The languages whose words for yes and no are known, by their ISO 639-1 codes."""


# Letters with a stroke, and ı, are no letter with an accent to Unicode.
_PLAIN = str.maketrans("đħıłø", "dhilo")


def without_accents(text: str) -> str:
    """Return a text in lower case, without accents and the dots of i that Turkish tells apart."""
    decomposed = unicodedata.normalize("NFD", text.casefold()).translate(_PLAIN)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


_TRUTH: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        language: {
            without_accents(word): value
            for value, words in zip(("true", "false"), both, strict=True)
            for word in words.split()
        }
        for language, both in _WORDS.items()
    }
)


# A single letter may have another meaning in another language; a sign such as 是 is a word.
_FIRST_IDEOGRAPH = "\u4e00"
_ANYWHERE: Mapping[str, str] = MappingProxyType(
    {
        word: value
        for words in _TRUTH.values()
        for word, value in words.items()
        if len(word) > 1 or not word.isalpha() or word >= _FIRST_IDEOGRAPH
    }
)


def truth_in_any_language(text: str) -> str:
    """Return "true" or "false" for a word that means it in one of the languages, "" otherwise."""
    return _ANYWHERE.get(without_accents(text.strip()), "") if len(text) <= _LONGEST else ""


def read_number(text: str, decimal: str) -> str | None:
    """Return plain decimal text; None if the number has another form."""
    match = _NUMBERS[decimal].fullmatch(text.strip())
    if match is None:
        return None
    whole = "".join(filter(str.isdigit, match["whole"]))
    return f"{match['sign']}{whole}" + (f".{match['decimals']}" if match["decimals"] else "")


INVISIBLE = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters that show nothing: the fillers of Hangul, and the blank of Braille."""


def is_invisible(text: str) -> bool:
    """Return whether a text has no visible character: blanks alone, U+200B and the like."""
    return all(
        sign.isspace() or sign in INVISIBLE or unicodedata.category(sign) == "Cf" for sign in text
    )


def read_email(text: str) -> str:
    """Return the address in a text that contains one and nothing else, other texts unchanged."""
    if len(text) > _LONGEST_EMAIL:
        return text
    # Web pages put U+200B where an address may be wrapped.
    shown = text.replace("\u200b", "").strip()
    if wrapped := _WRAPPED_EMAIL.fullmatch(shown):
        shown = wrapped[1] or wrapped[2]
    match = _EMAIL.fullmatch(shown)
    return match[1] if match else text


@dataclass(frozen=True, slots=True)
class Reading:
    """Country and language may be "": then only what has one meaning in all countries is read."""

    region: str = ""
    language: str = ""

    @property
    def day_order(self) -> str:
        """The order of day and month: "dmy", "mdy", or "" if it is unknown."""
        if not self.region or self.region in _NO_ORDER:
            return ""
        return "mdy" if self.region in _MONTH_FIRST else "dmy"

    def truth(self, text: str) -> str:
        """English words are understood in every language; "" for any other text."""
        if len(text) > _LONGEST:
            return ""
        word = without_accents(text.strip(" .!¡"))
        return _TRUTH["en"].get(word) or _TRUTH.get(self.language, {}).get(word, "")

    def numbers(self, text: str) -> list[str]:
        """Return plain decimal text: two if a separator may be one of thousands or of decimals.

        Without a country the list is empty. A plain number such as `1.234` is ambiguous only in a
        country that writes a comma before the decimals; `1.2340` is the unambiguous form. No
        program writes a currency, so `R$ 1.234` has one meaning there.
        """
        if not self.region or len(text) > _LONGEST:
            return []
        point, comma = read_number(text, "."), read_number(text, ",")
        has_comma = self.region in _DECIMAL_COMMA
        if point == text and not has_comma:
            return [text]
        if point != text and has_comma and comma and "." not in comma:
            return [comma]
        found = sorted({one for one in (point, comma) if one}, key=lambda one: "." in one)
        return [found[0], f"{found[1]}0"] if len(found) > 1 and has_comma else found

    def moments(self, text: str) -> list[str]:
        """Return `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS`: two if the order is unknown, else one or
        none.

        If the country's order of day and month is impossible, the other order is read.
        """
        match = _DATE.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None:
            return []
        first, _, second, year, early_year, _, month, day, *time = match.groups()
        pairs = [(month, day)]
        if early_year is None:
            pairs = [(second, first), (first, second)]
            if self.day_order == "mdy":
                pairs.reverse()
        days = [one for pair in pairs if (one := _day(year or early_year, *pair))]
        days = list(dict.fromkeys(days))[: 1 if self.day_order else 2]
        clock = _clock(*time)
        return [] if clock is None else [f"{one}{clock}" for one in days]


def _day(year: str, month: str, day: str) -> str:
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return ""


def _clock(hour: str | None, minute: str, second: str | None, half: str | None) -> str | None:
    """Return a time of day as `THH:MM:SS`, "" without one; None if there is no such time."""
    if hour is None:
        return ""
    number = int(hour)
    if half:
        if not 1 <= number <= 12:
            return None
        number = number % 12 + 12 * (half in "Pp")
    is_time = number < 24 and int(minute) < 60 and int(second or 0) < 60
    return f"T{number:02}:{minute}:{second or '00'}" if is_time else None
