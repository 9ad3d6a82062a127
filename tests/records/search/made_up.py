"""Made-up records and filters, for searches whose answer the oracle knows.

Values are drawn from what has gone wrong somewhere: wildcards, letters whose case folds to
something longer, characters beyond 16 bits, texts that differ behind their 255th character,
numbers in several notations, moments beside midnight. A filter's value is mostly one of a
record's, whole, cut or in another case, so that something is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from crmhub.bounds import MAX_PART_LENGTH
from tests.records.search.oracle import PHONES

TYPES = {
    "p_string": "string",
    "p_text": "text",
    "p_number": "number",
    "p_currency": "currency",
    "p_date": "date",
    "p_datetime": "datetime",
    "p_bool": "bool",
    "p_choice": "enumeration",
    "p_choices": "multi_enumeration",
    "p_email": "email",
    "p_phone": "phone",
    "p_url": "url",
}
# `firstname` puts each record into one of three groups, whose times follow each other.
GROUP = "firstname"
OPTIONS = ("red", "Red", "g_een", "blau%", "weiß", "sehr lang und mit Leerzeichen")
OPERATORS = (
    "EQ", "NEQ", "GT", "GTE", "LT", "LTE", "IN", "NOT_IN", "HAS_PROPERTY", "NOT_HAS_PROPERTY",
    "CONTAINS_TOKEN", "NOT_CONTAINS_TOKEN",
)  # fmt: skip
CHOSEN = ("EQ", "NEQ", "IN", "NOT_IN")
LISTS, BARE = ("IN", "NOT_IN"), ("HAS_PROPERTY", "NOT_HAS_PROPERTY")
PARTS = ("CONTAINS_TOKEN", "NOT_CONTAINS_TOKEN")

TRICKY = [
    *"aAbB%_\\ '\"*?[]^.;:,\t\n",
    *("ß", "ẞ", "ss", "ſ", "ŉ", "ﬃ"),
    *("İ", "i", "I", "ı", "i̇"),
    *("ǅ", "ǆ", "Ǆ", "Σ", "ς", "σ", "Ω", "\u2126", "\u212a", "ΐ", "ᾷ"),
    *("Ꭰ", "ꭰ", "Ᏸ", "ᏸ"),
    *("é", "e\u0301", "É"),
    *("😀", "👩‍👩‍👧", "𐐀", "𐐨", "\uffff", "\U00010000", "\U0010ffff", "\u200b", "\x01"),
]
WORDS = [
    *("100%", "100", "a_b", "aXb", "a\\b", "Straße", "STRASSE", "ὈΔΥΣΣΕΎΣ"),
    *("null", "NULL", "{}", '"', "0", "-"),
]
_PREFIX = 255

short_texts = st.one_of(
    st.sampled_from(WORDS), st.lists(st.sampled_from(TRICKY), min_size=1, max_size=4).map("".join)
)
long_texts = st.builds(
    lambda start, n, end: start * n + end,
    st.sampled_from(["x", "ß", "😀", "İ"]),
    st.sampled_from([_PREFIX - 1, _PREFIX, _PREFIX + 1]),
    st.sampled_from(["", "a", "b", "B", "%", "\\", "ß", "😀"]),
)
texts = st.one_of(short_texts, short_texts, long_texts)

NUMBERS = [
    *("1e3", "1000", "1000.000", "+1000", "007", "7", "-0", "0", "0.0", "-7", "-7.50", "-7.5"),
    *(".5", "0.5", "1.", "5E-1", "999999999999999", "-999999999999999", "99999999999999.9"),
    *("0.1", "0.10", "0.2", "0.3", "1e-30", "-1e-30", "123456789012345e-30", "1e29"),
]
numbers = st.one_of(
    st.sampled_from(NUMBERS),
    st.builds(
        lambda digits, power: f"{digits}e{power}",
        st.integers(-(10**15) + 1, 10**15 - 1),
        st.integers(-30, 14),
    ),
)

DAYS = [
    *("2026-01-30", "2026-01-31", "2026-02-01", "2024-02-29", "1969-12-31", "1970-01-01"),
    *("0001-01-01", "9999-12-31"),
]
MOMENTS = [
    "2026-01-31T23:59:59.999Z",
    "2026-02-01T00:00:00Z",
    "2026-01-31T23:30:00-02:00",
    "2026-02-01T01:00:00+02:00",
    "2026-02-01T00:00:00.001+00:00",
    "2026-01-31 12:00",
    "1969-12-31T23:59:59.999Z",
    "1970-01-01T00:00:00.000Z",
]
_DAY = 86_400_000
# Around 1 February 2026, 00:00 UTC, with many that are the same.
MIDNIGHT = 1_769_904_000_000
times = st.sampled_from(
    [MIDNIGHT - _DAY, MIDNIGHT - 1, MIDNIGHT, MIDNIGHT + 1, MIDNIGHT + 5, MIDNIGHT + _DAY - 1]
)

emails = st.sampled_from(
    ["a@example.com", "A@Example.com", " b_c@example.com ", "b%c@example.com", "JÜRGEN@example.com"]
)
urls = st.sampled_from(
    ["https://example.com/a_b", "https://example.com/A%20b", "example.com", " Example.com/ß "]
)
many_options = st.lists(st.sampled_from(OPTIONS), min_size=1, max_size=3).map("; ".join)

VALUES: dict[str, st.SearchStrategy[str]] = {
    "string": texts,
    "text": texts,
    "number": numbers,
    "currency": numbers,
    "date": st.sampled_from(DAYS + MOMENTS),
    "datetime": st.sampled_from(DAYS + MOMENTS),
    "bool": st.sampled_from(["true", "false", "TRUE", " False "]),
    "enumeration": st.sampled_from(OPTIONS),
    "multi_enumeration": many_options,
    "email": emails,
    "phone": st.sampled_from(list(PHONES)),
    "url": urls,
}
_days_asked = st.builds(
    lambda day, time: day + time, st.sampled_from(DAYS), st.sampled_from(["", " 00:00", " 23:59"])
)
# What a filter may ask for apart from the values that records have.
_asked: dict[str, st.SearchStrategy[Any]] = {
    **VALUES,
    "number": st.one_of(numbers, st.integers(-10, 2000), st.booleans().map(int)),
    "date": _days_asked,
    "datetime": _days_asked,
    "bool": st.one_of(st.booleans(), st.sampled_from(["true", " False", "TRUE"])),
}
_asked["currency"] = _asked["number"]

properties = st.fixed_dictionaries({}, optional={n: VALUES[t] for n, t in TYPES.items()})


def _changed(draw: st.DrawFn, text: str) -> str:
    """Return a text, or a part of it, or nearly the same."""
    how = draw(st.integers(0, 6))
    start = draw(st.integers(0, max(0, len(text) - 1)))
    if how == 0:
        text = text[start:]
    elif how == 1:
        text = text[: start + 1]
    elif how == 2:
        text = text.swapcase()
    elif how == 3:
        text = text.upper()
    elif how == 4:
        text += draw(st.sampled_from(TRICKY))
    return text


def _one(draw: st.DrawFn, name: str, operator: str, sent: Sequence[dict[str, str]]) -> Any:
    """Return one value that a filter may have."""
    type = TYPES.get(name, "string")
    known = [each[name] for each in sent if each.get(name)]
    whole = operator not in PARTS and type in ("number", "currency", "date", "datetime")
    if operator in CHOSEN and type in ("bool", "enumeration", "multi_enumeration"):
        return draw(_asked[type])
    if whole and (type in ("date", "datetime") or not known or draw(st.booleans())):
        return draw(_asked[type])
    if whole:
        return draw(st.sampled_from(known))
    if not known or draw(st.integers(0, 3)) == 0:
        return draw(_asked.get(type, texts))
    one = draw(st.sampled_from(known))
    # A phone that was changed might still be read as a number, which is more than the oracle can.
    return one if type == "phone" and operator not in PARTS else _changed(draw, one)


_GROUPS = st.sampled_from(["g0", "g2"])


@st.composite
def filters_on(draw: st.DrawFn, sent: Sequence[dict[str, str]], ids: Sequence[int]) -> Any:
    """Give one to three filters, mostly on one name, for records that were `sent`, under `ids`."""
    if draw(st.integers(0, 3)) == 0:
        return [{"propertyName": GROUP, "operator": "NEQ", "value": draw(_GROUPS)}]
    name = draw(_NAMES)
    names = [name, *draw(st.lists(st.one_of(st.just(name), _NAMES), max_size=2))]
    return [_filter(draw, each, sent, ids) for each in names]


_NAMES = st.one_of(
    st.sampled_from([GROUP, *TYPES]),
    st.sampled_from([*TYPES, "id", "hs_object_id"]),
    st.sampled_from(["createdAt", "createdate", "updatedAt", "lastmodifieddate"]),
)


def _filter(draw: st.DrawFn, name: str, sent: Sequence[dict[str, str]], ids: Sequence[int]) -> Any:
    operator = draw(st.sampled_from(OPERATORS))
    if operator in BARE:
        return {"propertyName": name, "operator": operator}
    if name in ("id", "hs_object_id"):
        values = draw(st.lists(_ids(ids), min_size=1, max_size=3))
    elif name in ("createdAt", "createdate", "updatedAt", "lastmodifieddate"):
        part = ["2026-02", "t00:00:00", "T23:59:59.999z", "1Z", "%", "2026"]
        one = st.sampled_from(part) if operator in PARTS else _days_asked
        values = draw(st.lists(one, min_size=1, max_size=3))
    else:
        n = draw(st.integers(1, 4)) if operator in LISTS else 1
        values = [_one(draw, name, operator, sent) for _ in range(n)]
    values = [" " if each == "" else each for each in values]
    if operator in LISTS:
        return {"propertyName": name, "operator": operator, "values": values}
    value = values[0]
    if operator in PARTS and isinstance(value, str):
        value = value[-MAX_PART_LENGTH:]
    return {"propertyName": name, "operator": operator, "value": value}


def _ids(ids: Sequence[int]) -> st.SearchStrategy[Any]:
    known = st.sampled_from(list(ids))
    return st.one_of(
        known,
        known.map(str),
        known.map(lambda id: f"{id}.5"),
        known.map(lambda id: f"{id}.0"),
        known.map(lambda id: str(id)[-2:]),
        st.sampled_from(["0", "-1", "1e10", "1e29", "-1e29", "999999999999999", "0.5"]),
    )
