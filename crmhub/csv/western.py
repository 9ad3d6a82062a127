"""Whether text that was read as cp1252 is certainly a language of Western Europe.

Each word must have the letters of one language, none of them where other encodings have letters: of
a Czech `Ondřej` in cp1250, cp1252 makes `Ondøej`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_LONGEST_WORD = 60
_LETTER = r"A-Za-z\x80-\U0010ffff"
_BEFORE, _AFTER = f"(?<![{_LETTER}])", f"(?![{_LETTER}])"
_WORD = re.compile(f"[{_LETTER}]+")
_QUOTED = re.compile(
    rf"{_BEFORE}(?:“(?=\w)([^“”„]*)”|„(?=\w)([^“”„]*)[“”]|‚(?=\w)([^‘’‚]*)‘|«(?=\s?\w)([^«»]*)»"
    rf"|¿(?=\w)([^¿?]*\?)|¡(?=\w)([^¡!]*!)){_AFTER}"
)
# Signs as Western text has them; each of them is a letter in some other encoding.
_SIGN = re.compile(
    rf"(?<=[\d(])[ \xa0]?[€£]{_AFTER}|{_BEFORE}[€£](?=[ \xa0]?\d)|(?<=\d)[ \xa0]?°C?{_AFTER}"
    rf"|(?<![^\s\d])[–—](?![^\s\d])|{_BEFORE}m[²³]{_AFTER}|(?<=\d)\xa0(?=[\d€£%])"
    rf"|(?<=\w )à(?= )|{_BEFORE}[DdLl]’(?=[A-ZÉ][a-z]|[aeiouéô]\w{{3}})"
)
_LANGUAGES = tuple(
    frozenset(letters)
    for letters in (
        "äöüßé",  # German
        "âçéèëîïôœûü",  # French
        "áéíñóúü",  # Spanish
        "áâãçéíóôõú",  # Portuguese
        "áéëóöü",  # Dutch
        "øåéöü",  # Danish, Norwegian
        "åäöé",  # Swedish, Finnish
    )
)
_C = "[bcdfghjklmnprstvxz]"
_PLACES = re.compile(
    r"(?:[a-z]|ó|(?<!^)[éô]|^é(?=[cltqg])|ü(?!$)|(?<!^)ö|^ö(?![aeiouyr])"
    r"|(?<![aeiouäöü])á|(?<=[^aeu]i)á(?=n$)|í(?![eiu])|(?<![aeiouy])ú|(?<=a)ú(?=[ln])"
    r"|(?<=[aeiouáéíóú])ñ(?=[aeiouáéíóú])|(?<=ch)â|(?<=[ao])î(?=t)|(?<=^n)î|(?<=ao)û|(?<=[aeiou])ë"
    rf"|(?<=[ao])ï(?=[cdlmns])|(?<=[sc])œ(?=u)|(?<={_C})è(?={_C}{{1,2}}es?$)|(?<=i)è(?=[rv]e)|(?<=r)è(?=s$)"
    r"|(?<=[aeo]n)ç(?=[ao])|ç(?=[ãõ])|ã(?=o)|(?<!i)ã(?=e)|õ(?=e)|(?<![aeiouy])ä(?!e)|(?<=[aeiouäöü])ß(?![au])"
    rf"|(?<![aeiouyäöø])å(?![aeiouy])|(?<={_C})ø(?!val|bit)(?={_C})|^ø(?={_C}))+"
)
_CAPITALS = re.compile(r"(?:[a-zäéáúüíñß]|ö(?=[hltw]|sch))+")
_SMALL_INITIAL = re.compile("é[cltqg]|üb")
_PAIR = re.compile(r"áñ|úñ|íñ|ç[ãõ]|[äöü]ß|ää|öö")
_PAIRS = re.compile(r"(?=([^a-z]{2}))")


def find_foreign(text: str) -> Iterator[str]:
    text = _QUOTED.sub(lambda match: f" {''.join(filter(None, match.groups()))} ", text)
    for match in _WORD.finditer(_SIGN.sub(" ", text)):
        if not match[0].isascii() and not _is_western(match[0]):
            yield match[0]


@lru_cache(maxsize=20_000)
def _is_western(word: str) -> bool:
    lower = word.lower()
    accents = [letter for letter in lower if not letter.isascii()]
    if word.isupper():
        has_case = _CAPITALS.fullmatch(lower) is not None
    elif word.islower():
        # A capital of another encoding may look like a small letter.
        has_case = word[0] < "ß" or _SMALL_INITIAL.match(word) is not None
    else:
        has_case = word == word.capitalize()
    return (
        has_case
        and 2 < len(word) <= _LONGEST_WORD
        and 2 * len(accents) <= len(word) + 1
        and any(language.issuperset(accents) for language in _LANGUAGES)
        and all(_PAIR.fullmatch(pair) for pair in _PAIRS.findall(lower))
        and _PLACES.fullmatch(lower) is not None
    )
