"""Values without content that builders send: they identify nobody and overwrite nothing.

A builder that has no value for a variable sends the variable itself (such as `{{email}}`), a word
that programs print for a missing value (such as `null`), or a dummy such as `0`. Which texts count
as empty depends on the value:

- Idempotency-Key (`is_unfilled_key`): a text that contains a variable, a word for a missing value
  in any case, `0`, `-`, `N/A`, and a bare `@x`, `[x]` or `<x>`.
- contactToken, contactId (`is_unfilled_id`): the same, other words for nothing, and a text without
  a letter, a digit but 0, or a symbol; also with a messenger's words around it, as in `0@c.us`.
- email, contactnumber and numbers (`find_in_key`): a text that contains a variable, and a word for
  a missing value.
- name (`filled_words`): each word that is a variable or a word for a missing value, at its ends
  also `-` and `N/A`, at its beginning `0`, and the whole name if it has no letter.
- phone numbers (`crmhub.properties.addresses.is_junk_phone`): any text that cannot be one.
- a note (`is_unfilled`): a text of variables only, and a word for a missing value.
- any other property (`find_in_text`): the same, and a longer text with a variable that cannot be
  anything else.

`FORMS` are the notations of variables. All patterns are bounded and not nested, so that the longest
value takes milliseconds.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from crmhub.adapter.reading import INVISIBLE

# The name of a variable begins with a letter of any alphabet or _.
_NAME = r"[^\W\d][\w.\-]{0,99}"
_WORDS_OF_NAME = r"[^\W\d][\w.\- |/]{0,99}"
# Windows writes GUIDs in braces, and a GUID may be a real id.
_NO_GUID = r"(?![0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-)"


@dataclass(frozen=True, slots=True)
class Form:
    """`counts`: `text` (inside of any value), `key` (inside of an id, email, number or name),
    `whole` (a whole value) or `id` (a whole id); each includes the later ones.
    """

    example: str
    counts: Literal["text", "key", "whole", "id"]
    pattern: str


FORMS: tuple[Form, ...] = (
    Form("{{x}}", "text", r"\{\{[^{}]{0,200}\}\}"),
    Form("${x}", "text", r"\$\{[^{}]{0,200}\}"),
    Form("#{x}", "text", r"#\{[^{}]{0,200}\}"),
    Form("@{x}", "text", r"@\{[^{}]{0,200}\}"),
    Form("{$x}", "text", r"\{\$[^\W\d][^{}]{0,99}\}"),
    Form("{!x}", "text", r"\{!\$?[^\W\d][^{}]{0,99}\}"),
    Form("[[x]]", "text", r"\[\[[^\W\d][^\[\]]{0,99}\]\]"),
    Form("<<x>>", "text", r"<<[^\W\d][^<>]{0,99}>>"),
    Form("¿·@x·?", "text", r"¿·@[^·?\n]{1,100}·\?"),
    Form(
        "$contact.x",
        "text",
        r"(?<![\w$])\$(?:contact|assignee|system|session|conversation|intent|page|flow|request"
        rf"|vars)\.{_NAME}",
    ),
    Form("*|x|*", "text", r"\*\|[^|*\n]{1,100}\|\*"),
    Form("%%x%%", "text", rf"(?<![^\W_])%%{_NAME}%%(?![^\W_])"),
    Form("##x##", "text", rf"(?<![\w#])##{_NAME}##(?![\w#])"),
    Form("[showVar=x]", "text", r"\[showVar=[^\[\]]{1,100}\]"),
    Form("<%= x %>", "text", r"<%[=-]?\s{0,3}[^\W\d][^<>%\n]{0,99}%>"),
    Form("{% x %}", "text", r"\{%\s{0,3}[^\W\d][^{}%\n]{0,99}%\}"),
    Form("<? $x ?>", "text", r"<\?\s{0,3}\$[^<>\n]{1,100}\?>"),
    # Spreadsheets write {=SUM(A1:A3)}.
    Form("{=Any:x}", "text", r"\{=[A-Za-z]{3,30}:[\w.:\-]{1,99}\}"),
    Form("%7B%7Bx%7D%7D", "text", r"(?:%7[Bb]){2}[^%{}<>\n]{1,100}(?:%7[Dd]){2}"),
    # Single braces and percent signs have other uses, so these forms must be separate words and
    # contain one name.
    Form("{x}", "text", rf"(?<![\w\\{{]){{{_NO_GUID}{_NAME}}}(?![\w}}])"),
    Form("%x%", "text", rf"(?<![^\W_])%{_NAME}%(?![^\W_])"),
    Form("{x y}", "key", rf"\{{{_NO_GUID}\s{{0,3}}{_WORDS_OF_NAME}\}}"),
    Form("{1}", "key", r"\{\s{0,3}(?:[0-9]{1,2}(?:\.[\w.\- ]{1,99})?\s{0,3})?\}"),
    Form(
        "@contact.x",
        "key",
        rf"(?<![\w@])@(?:contact|results?|fields|urns|globals|input|trigger|flow)\.{_NAME}",
    ),
    Form("@(x)", "key", r"(?<![\w@])@\([^\n]{1,200}\)"),
    Form("%x y%", "key", rf"(?<![^\W_])%{_WORDS_OF_NAME}%(?![^\W_])"),
    Form("$x.y", "whole", rf"\$[^\W\d]\w{{0,99}}\.{_NAME}"),
    Form("#x.y", "whole", rf"#[^\W\d][\w\-]{{0,99}}\.{_NAME}"),
    Form("$x$", "whole", rf"\${_NAME}\$"),
    Form("@x", "id", rf"@{_WORDS_OF_NAME}"),
    Form("$x", "id", rf"\${_NAME}"),
    Form("#x#", "id", rf"#{_NAME}#"),
    Form("[x]", "id", rf"\[{_NO_GUID}{_WORDS_OF_NAME}\]"),
    Form("<x>", "id", rf"<{_NO_GUID}{_WORDS_OF_NAME}>"),
)


def _any_of(*counts: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one.pattern})" for one in FORMS if one.counts in counts))


_IN_TEXT = _any_of("text")
_IN_KEY = _any_of("text", "key")
_WHOLE = _any_of("whole")
_WHOLE_ID = _any_of("whole", "id")

UNREADABLE = "\ufffd"
"""U+FFFD, which stands for characters that cannot be read."""

# Words that programs print for a missing value. In another case they may be names.
_NOTHING = frozenset({"undefined", "null", "None", "NaN", "[object Object]", UNREADABLE})
_OBJECT = "[object Object]"
_NO_KEY = frozenset(word.casefold() for word in _NOTHING) | {"0", "-", "n/a"}
_NO_ID = _NO_KEY | {
    "n.a.", "na", "nil", "false", "#n/a", "#ref!", "#value!", "#name?", "#null!", "#error!",
}  # fmt: skip
# What a messenger writes before and behind the number that is its id.
_BEFORE_NUMBER = re.compile(
    r"(?:(?:https?://)?wa\.me/"
    r"|(?:whatsapp|wa|tel|sms|messenger|facebook|fb|instagram|ig|telegram|tg|viber|line):)?\+?"
)
_BEHIND_NUMBER = ("@c.us", "@s.whatsapp.net")
_WORDS_FOR_NO_ID = frozenset({"undefined", "null", "none", "nan"})
# What never occurs in a real id, not even as a part: JavaScript's words for a missing value, as in
# channel:undefined, and behind a prefix, at the end, other words and variables, as in wa-null.
_PRINTED_IN_ID = re.compile(
    r"(?<![^\W_])undefined(?![^\W_])|\[object Object\]"
    rf"|[\W_](?:null|None|NaN|\${_NAME}|\[{_NO_GUID}{_WORDS_OF_NAME}\]|<{_WORDS_OF_NAME}>)$"
    # A variable that was cut off.
    r"|\{\{[^{}]{1,99}$"
)
_JSON_OF_NOTHING = re.compile(r'\{\s{0,9}"[^"]{0,99}":\s{0,9}null\s{0,9}\}')
# A whole name in the notation of variables. Names of people may have brackets or a dollar sign.
_NAMED = "(?:name|nombre|nome|user|contact|first|last)"
_BRACKETED = rf"[\w.\- ]{{0,40}}{_NAMED}[\w.\- ]{{0,40}}"
_VARIABLES_OF_NAME = re.compile(
    rf"(?:\s{{0,3}}(?:\[{_BRACKETED}\]|<{_BRACKETED}>|\$\w{{0,40}}{_NAMED}\w{{0,40}})){{1,9}}",
    re.IGNORECASE,
)
# A whole name; in another case than `_NOTHING` only as a whole, since "Null" is a surname.
_NO_NAME = frozenset({"undefined", "null", "none", "n/a", "n.a.", "#n/a"})
_DUMMY_WORDS = frozenset({"n/a", "#n/a"})
_SEPARATORS = re.compile(r"[\W_]+")


def is_unfilled(text: str) -> bool:
    """Return whether a text has only variables, or is a word such as `null`."""
    return text.strip() in _NOTHING or has_only_variables(text)


def has_only_variables(text: str) -> bool:
    whole = text.strip()
    if _WHOLE.fullmatch(whole):
        return True
    return bool(whole) and not _IN_KEY.sub("", whole).strip()


def find_in_text(text: str) -> str:
    """Return a variable in a property's value, or all of it if it `is_unfilled`, or ""."""
    whole = text.strip()
    if is_unfilled(whole):
        return whole
    found = _IN_TEXT.search(whole)
    return found[0] if found else ""


def find_in_key(text: str) -> str:
    """Return a variable in an email or number, or a whole word such as `null`, or ""."""
    whole = text.strip()
    if whole in _NOTHING or _WHOLE.fullmatch(whole):
        return whole
    found = _IN_KEY.search(whole)
    return found[0] if found else ""


def is_unfilled_id(text: str) -> bool:
    core = _BEFORE_NUMBER.sub("", text.strip().casefold(), count=1)
    for end in _BEHIND_NUMBER:
        core = core.removesuffix(end)
    return (
        core in _NO_ID
        or not any(map(_distinguishes, core))
        or _JSON_OF_NOTHING.fullmatch(core) is not None
        or is_unfilled_key(text)
    )


def is_unfilled_key(text: str) -> bool:
    whole = text.strip()
    words = {word for word in _SEPARATORS.split(whole.casefold()) if word}
    return bool(
        whole.casefold() in _NO_KEY
        or (words and words <= _WORDS_FOR_NO_ID)
        or _PRINTED_IN_ID.search(whole)
        or _WHOLE_ID.fullmatch(whole)
        or _IN_KEY.search(whole)
    )


def _distinguishes(sign: str) -> bool:
    """Return whether a character of an id may distinguish people; punctuation and 0 do not."""
    return sign != "0" and (sign.isalnum() or _is_symbol(sign)) and sign not in INVISIBLE


def _is_symbol(sign: str) -> bool:
    return sign != UNREADABLE and unicodedata.category(sign) == "So"


def filled_words(name: str) -> list[str]:
    """Return "" in place of each variable; only "" for nobody's name, such as `0` or `N/A`."""
    # U+0000 cannot occur in the text of a helper call.
    marked = _IN_KEY.sub("\0", name.replace(_OBJECT, "\0"))
    words = [
        "" if "\0" in word or word in _NOTHING or _WHOLE.fullmatch(word) else word
        for word in marked.split()
    ]
    is_nobody = name.strip().casefold() in _NO_NAME or _VARIABLES_OF_NAME.fullmatch(name.strip())
    if is_nobody or not any(map(_is_name, words)):
        return [""] * len(words)
    # "Person 0" may be a name, "0 Smith" is a last name.
    for places, dummies in ((range(len(words)), "0"), (range(len(words) - 1, -1, -1), "")):
        for place in places:
            word = words[place]
            if _is_name(word) or (word[:1].isdecimal() and word != dummies):
                break
            words[place] = ""
    return words


def _is_name(word: str) -> bool:
    """Return whether a word has a letter, or a symbol such as a heart, as messengers' names may."""
    if word.casefold() in _DUMMY_WORDS:
        return False
    return any((c.isalpha() or _is_symbol(c)) and c not in INVISIBLE for c in word)
