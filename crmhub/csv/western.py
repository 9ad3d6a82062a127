"""Whether text that was read as cp1252 is certainly a language of Western Europe.

Any 8-bit encoding decodes almost any file, so each word must have the letters of one Western
language, each letter between letters where that language has it, and no sign inside of a word. Of a
Czech `Ondřej` in cp1250, cp1252 makes `Ondøej`: Danish has ø, but not between d and e.
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
    rf"{_BEFORE}(?:“(?=\w)([^“”„]*)”|„(?=\w)([^“”„]*)[“”]|‘(?=\w)([^‘’‚]*)’|‚(?=\w)([^‘’‚]*)‘"
    rf"|«(?=\s?\w)([^«»]*)»){_AFTER}"
)
_MAX_NESTED_QUOTES = 3
# Signs as Western text has them; each of them is a letter in some other encoding.
_SIGN = re.compile(
    rf"(?<=[\d(])[ \xa0]?[€£]{_AFTER}|{_BEFORE}[€£](?=[ \xa0]?\d)|(?<=[a-z] )€(?=[\s,;)\"]|$)"
    r"|(?<![^\s\d,;\"])[–—](?![^\s\d,;\"])|(?<![^\s,;\"])•(?=\s)"
    rf"|(?<=\d)[ \xa0]?°C?{_AFTER}|{_BEFORE}[Nn]°(?=[ \d])"
    rf"|(?<=\d)[ºª]{_AFTER}|{_BEFORE}(?:[Nn]\.?º|[DM]\.?ª){_AFTER}"
    rf"|(?<=\d) ?[½¼¾]{_AFTER}|{_BEFORE}[kcd]?m[²³]{_AFTER}"
    rf"|(?<=\d) ?× ?(?=\d)|{_BEFORE}[±§] ?(?=\d)"
    rf"|{_BEFORE}¿(?=[^¿?]*\?)|{_BEFORE}¡(?=[^¡!]*!)"
    r"|(?<=[\d,.])\xa0(?=[\d€£%])|(?<=[a-z\d] )[àè](?= [A-Za-z\d])"
    rf"|{_BEFORE}(?:[DdLlO]|[Dd]ell|[Nn]ell|[Dd]all)’"
    r"(?=[A-ZÀ-Þ][a-zà-ÿ]|[aeiouhàâéèêîôœ][a-zß-ÿ]{3})"
)
_LANGUAGES = tuple(
    frozenset(letters)
    for letters in (
        "äöüßé",  # German
        "àâæçéèêëîïôœùûü",  # French
        "áéíñóúü",  # Spanish
        "áâãàçéêíóôõúü",  # Portuguese
        "àèéìíòóù",  # Italian
        "áéèêëïóöü",  # Dutch
        "æøåéèêóôöü",  # Danish, Norwegian
        "åäöéüáà",  # Swedish, Finnish
        "áéíóúýðþæö",  # Icelandic
        "çöü",  # Turkish and others, whose further letters cp1252 lacks
    )
)
_C = "[bcdfghjklmnprstvxz]"
_LETTERS = re.compile(
    r"(?:[a-zéüó]|(?<!^)[ôö]|^ö(?=z|h|st|r[gntej]|l(?!h)|[bdfkm])"
    r"|(?<![aeiouäöü])á|(?<=[^aeu]i)á(?=n$|nd|s$|t)|(?<=[gjqs]u)á(?=[rnl])"
    r"|í(?![eiu])|(?<=^d)í(?=ez$)|(?<![aeiouy])ú|(?<=a)ú(?=[lnjdm])"
    r"|(?<!n)(?<!^)ñ(?=[aeiouáéíóúü])|^ñ(?=u[ñb]|a[nc]|o)"
    r"|à$|(?<=ch)â|(?<=gr)â|â(?=ng|nia|ndi|ncia|nica|mar|mbi|t[eri]|ques|le$)|ê(?=te$|tre|qu|n|m|v"
    r"|r|s$|che)|(?<=for)ê|(?<=[ao])î(?=[nt])|^î(?=les?$)|(?<=o)û|(?<=br)û(?=l)|(?<=^s)û(?=re?s?$)"
    rf"|(?<={_C})è(?=s$|{_C}{{1,3}}e|g?que|gue)|(?<=[a-z]i)è(?=[rgvcdlt]r?l?e)|(?<=su)è(?=de|$)"
    r"|(?<=[fsm])è$|(?<=[gr]r)è$|^è(?=ve)|(?<=[aeiou])ë|(?<=[aeou])ï(?=[cdlmnst]|qu|re)|œ(?=u|il)"
    r"|(?<=[aeiou]n)ç(?=[aouáóúâ])|(?<=[bgm]ar)ç(?=on?$)|ç(?=[ãõ])|^ç(?=[aeiouö])|(?<=en)ç$"
    r"|(?<=^a)ç(?=o)|(?<=fa)ç(?=ad)|(?<=le)ç(?=on)|ã(?=o)|(?<!i)ã(?=e)|õ(?=e)"
    r"|(?<=[uol][nlrv]ed)ì$|(?<=rted)ì$|(?<=nerd)ì$|(?<=rl)ì$|(?<=[bcdfglmnprstvz])ò$|(?<=^pu)ò$"
    r"|(?<=^o)ù$|(?<=^pi)ù$|(?<=^ges)ù$"
    r"|(?<![aeiouy])ä(?!e)|(?<=m)ä(?=en)|(?<=^[gb]e)ä|(?<=[aeiouyäöü])ß(?![au])"
    rf"|(?<![aeiouyäöåæø])å(?![aeiouy])|(?<=[bcdfghjklmnprstv])æ(?={_C}+(?!\w*[aiu]s$))|^æ(?=[grsv])"
    rf"|(?<={_C})ø(?!val|bit)(?={_C}|y)|(?<=[a-z]{_C})ø$|^ø(?={_C}|[yi])|(?<=^[bhmrs])ø(?=e(?:d|gh)?$)"
    r"|(?<=[jms])ø(?=en)|[ýðþ](?=\w*[áíúóæ])|(?<=[áíúóæ])[ýðþ]|(?<=[áíúóæ]\w)[ðþ])+"
)
# In capitals, other letters are those of DOS: its Í, Ë and È are Ö, Ó and Ô in cp1252.
_CAPITALS = re.compile(
    r"(?:[a-zäéáúüåøíâãõèêàñß]|(?<![aeiou])ó|ë(?=l)|ö(?=h|r[gnt]|ll|t[tz]|w|der|sch)|(?<=[bs]j)ö)+"
)
_MIXED_CASE = re.compile(
    r".[À-ÞŒŠŽŸ]|^[^A-Z]*+[A-Z].*[À-Þ]|[A-Z][ß-ÿ][A-Z]|[A-Z]{2}[ß-ÿ]|[ß-ÿ][A-Z]{2}|^[A-Z](?!á)[ß-ÿ]$"
)
# A capital of another encoding may look like a small letter.
_SMALL_INITIAL = re.compile(
    "[äöóíúñ]|ü[bp]|é(?:c[horl]|t[aué]|qu|l[eèé]|v[eé]n|ga|di|xi)|être|âg|ág|ár|år|ås|øy|ø[nsv]"
)
_SHORT = frozenset(("él", "öl", "ås", "år", "øy"))
_PAIR = re.compile(
    "[áéíóú]ñ|ñ[áéíóú]|ç[ãõáóúâ]|[äöü]ß|ää|öö|éé|[þðý][áéíóúæö]|[áéíóúæö][þðý]|[a-z].|.[a-z]"
)


def find_foreign(text: str) -> Iterator[str]:
    """Yield the words of a text, read as cp1252, that may be in another encoding."""
    for _ in range(_MAX_NESTED_QUOTES):
        text = _QUOTED.sub(lambda match: f" {''.join(filter(None, match.groups()))} ", text)
    for match in _WORD.finditer(_SIGN.sub(" ", text)):
        if not match[0].isascii() and not _is_western(match[0]):
            yield match[0]


@lru_cache(maxsize=20_000)
def _is_western(word: str) -> bool:
    lower = word.lower()
    accents = [letter for letter in lower if not letter.isascii()]
    if not 1 < len(word) <= _LONGEST_WORD or 2 * len(accents) > len(word) + 1:
        return False
    if word.isupper():
        if len(word) == 2 or not _CAPITALS.fullmatch(lower):
            return False
    elif _MIXED_CASE.search(word):
        return False
    if word[0] >= "ß" and not _SMALL_INITIAL.match(word):
        return False
    if len(word) == 2 and not word[0].isascii() and lower not in _SHORT:
        return False
    return (
        any(language.issuperset(accents) for language in _LANGUAGES)
        and all(_PAIR.fullmatch(lower[at : at + 2]) for at in range(len(lower) - 1))
        and _LETTERS.fullmatch(lower) is not None
    )
