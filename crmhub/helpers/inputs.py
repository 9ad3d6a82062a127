"""Checks of the values that callers send to helpers, and the messages for invalid ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from crmhub.accounts.field_maps import WHOLE_NAME
from crmhub.adapter import Problem
from crmhub.adapter.coercion import Listed, TypedNumber
from crmhub.adapter.phones import PHONES
from crmhub.adapter.reading import is_invisible
from crmhub.errors import Semantic, shortened
from crmhub.identity.placeholders import (
    filled_words,
    find_in_key,
    find_in_text,
    is_unfilled_id,
)
from crmhub.properties import addresses
from crmhub.properties.value_errors import InvalidValue
from crmhub.translatable import named, translatable

NOT_ONE = translatable("is an array or an object; send one value")
_LONGEST_NAME = 100
# Titles stay with the first name, so that a greeting by it is not "Hello Dr.".
_TITLE = re.compile(
    r"(?:dra?|mrs?|ms|mx|sra?|srt[ao]|profa?|mme|mlle|herrn?|frau)\.?|(?:ing|lic|arq|abg|eng|miss)\.",
    re.IGNORECASE,
)
# The first word behind a comma that begins no first name, and words of companies and jobs.
_SUFFIX = re.compile(
    r"(?:jr|sr|esq|i{2,3}|iv|ph\.? ?d|m\.?d|mba|cpa|dds|rn|m\.?sc|b\.?sc|m\.?a|b\.?a|filho|neto"
    r"|j[uú]nior)\.?",
    re.IGNORECASE,
)
_NO_NAME = re.compile(r"[\d&+/@]|\A(?:gmbh|inc|llc|ltda?|corp|co|ag|s\.?[al])\.?\Z", re.IGNORECASE)
_MOST_WORDS_BESIDE_COMMA = 4
MAY_HAVE_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
"""A number whose point may stand before decimals, or between thousands."""

# Parameters that identify a person: an unreplaced variable would merge many people.
_IDS = frozenset({"contactToken", "contactId"})


def filled(value: str, where: str) -> str:
    """Raises Semantic, with the parameter's name `where`, if blank or an unreplaced variable."""
    text = value.strip()
    if not text:
        raise Semantic(named(where, translatable("it is blank; send a value")))
    if is_unfilled_id(text) if where in _IDS else find_in_key(text):
        raise Semantic(named(where, unfilled(text)))
    return text


def unfilled(text: str) -> str:
    return translatable(
        "the builder sent %(text)s instead of its value; check the variable's name",
        text=shortened(text),
    )


def short_name(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


Sent = Mapping[str, str | list[str] | None]
"""Property values by name, as a bot sent them.

A list has several options. None stands for an object, or for a list of something else than values.
"""


def usable(
    sent: Sent,
    checks: Mapping[str, Callable[[str], str]] | None = None,
    *,
    region: str | None = None,
) -> tuple[dict[str, str], list[Problem]]:
    """Return the storable values, and the problems of others by `checks` or `text_fault`.

    `region`: read phones as of this country, "" for none; None to leave them as they are.
    """
    good: dict[str, str] = {}
    problems: list[Problem] = []
    for name, value in sent.items():
        check = (checks or {}).get(name, text_fault)
        if value is None:
            problems.append(Problem(name, NOT_ONE))
            continue
        texts = [value] if isinstance(value, str) else value
        faults = [fault for each in texts if each.strip() and (fault := check(each))]
        if faults:
            problems.append(Problem(name, faults[0]))
        else:
            good[name] = _marked(value)
    for name in PHONES if region is not None else ():
        if text := good.get(name, "").strip():
            try:
                good[name] = addresses.phone_text(text, region or None, of_bot=True)
            except InvalidValue as exc:
                del good[name]
                problems.append(Problem(name, str(exc)))
    return good, problems


def _marked(value: str | list[str]) -> str:
    if isinstance(value, list):
        return Listed(";".join(value))
    return TypedNumber(value) if MAY_HAVE_THOUSANDS.fullmatch(value.strip()) else value


# Check functions: they return the error message for a value, "" if it can be stored.


def text_fault(text: str) -> str:
    if text.strip() and is_invisible(text):
        return translatable("the value has no visible character; send one that has")
    found = find_in_text(text)
    return unfilled(found) if found else ""


def key_fault(text: str) -> str:
    return unfilled(text.strip()) if find_in_key(text) else ""


def phone_fault(text: str) -> str:
    return key_fault(text) or addresses.phone_fault(text)


def name_fault(text: str) -> str:
    """Return the error message for a name that has no usable word, else ""."""
    words = filled_words(text)
    return "" if not words or any(words) else unfilled(text.strip())


def name_part_fault(text: str) -> str:
    # A surname; programs print null.
    return text_fault(text) or (name_fault(text) if text.strip() != "Null" else "")


def whole_name_fault(text: str) -> str:
    """Return the error message for a name of which not all words are usable, else ""."""
    return "" if all(filled_words(text)) else unfilled(text.strip())


PHONE_FAULTS: Mapping[str, Callable[[str], str]] = dict.fromkeys(
    (*PHONES, "fax", "hs_whatsapp_phone_number"), phone_fault
)
"""The check functions of the contact properties with phone numbers, by property name."""


def phones_of(sent: Sent) -> dict[str, str]:
    return {name: text for name in PHONES if isinstance(text := sent.get(name), str) and text}


def name_properties(name: str, *, whole: bool) -> dict[str, str]:
    """Return a name without unreplaced variables, as `name` or else as first and last name.

    The first name is the first word with the titles before it, or what stands behind the only
    comma, as in `Lima, Ana`; the last name may be blank.
    """
    words = filled_words(name)
    if whole:
        return {WHOLE_NAME: " ".join(filter(None, words))}
    if not words:
        return {"firstname": "", "lastname": ""}
    first_words, last_words = _parts_at_comma(name) or _parts_of(words)
    first, last = (" ".join(filter(None, each)) for each in (first_words, last_words))
    parts = {"firstname": first} if first else {}
    # A single usable word means that there is no last name; an unreplaced variable does not.
    if last or (first and not last_words):
        parts["lastname"] = last
    return parts


def _parts_at_comma(name: str) -> tuple[list[str], list[str]] | None:
    """Return the words of the first and last name of `Last, First`; None for another form."""
    last, comma, first = name.strip().partition(",")
    if not comma or "," in first:
        return None
    parts = filled_words(first), filled_words(last)
    if not all(0 < len(part) <= _MOST_WORDS_BESIDE_COMMA for part in parts):
        return None
    first_words = [word for word in parts[0] if word]
    is_name = bool(first_words) and first_words[0][0].isalpha()
    if not is_name or _SUFFIX.fullmatch(first_words[0]) or any(map(_NO_NAME.search, first_words)):
        return None
    return parts


def _parts_of(words: list[str]) -> tuple[list[str], list[str]]:
    titles = next((n for n, word in enumerate(words) if not _TITLE.fullmatch(word)), len(words))
    # Of "Dr. Lima" nobody knows whether it is the first or the last name.
    split = titles + 1 if titles and len(words) > titles + 1 else 1
    return words[:split], words[split:]
