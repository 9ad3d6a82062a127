"""What a search must answer, in plain Python and straight from the contract.

It shares no code with the product: values are read by `decimal`, `datetime` and `str`, and every
filter is tried on every record.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

FilterBody = Mapping[str, Any]

POSITIVE = {
    "NEQ": "EQ",
    "NOT_IN": "IN",
    "NOT_CONTAINS_TOKEN": "CONTAINS_TOKEN",
    "NOT_HAS_PROPERTY": "HAS_PROPERTY",
}
ALIASES = {
    "hs_object_id": "id",
    "createdate": "createdAt",
    "lastmodifieddate": "updatedAt",
}
FIELDS = {"id": "number", "createdAt": "datetime", "updatedAt": "datetime"}
SORTS = {
    "date_modified": "updated_at",
    "updatedAt": "updated_at",
    "date_added": "created_at",
    "createdAt": "created_at",
}
# What the phones of the tests are in E.164: a list, since reading phones is a science.
PHONES = {
    "+49 30 123456": "+4930123456",
    "+4930123456": "+4930123456",
    "+49 (30) 12-34-56": "+4930123456",
    "+1 202-555-0123": "+12025550123",
    "+12025550123": "+12025550123",
    "12345": "12345",
}


@dataclass(frozen=True)
class Stored:
    """A record as it was sent, times in milliseconds."""

    id: int
    created_at: int
    updated_at: int
    properties: Mapping[str, str]


class Oracle:
    """Knows the type of each property and answers searches over a list of records."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types

    def search(
        self,
        records: Sequence[Stored],
        filters: Sequence[FilterBody],
        *,
        sort: str = "date_modified",
        order: str = "desc",
    ) -> list[Stored]:
        """Return the records that pass every filter, in order."""
        passed = [each for each in records if all(self.passes(f, each) for f in filters)]
        passed.sort(key=lambda each: (getattr(each, SORTS[sort]), each.id))
        return passed if order == "asc" else passed[::-1]

    def passes(self, filter: FilterBody, record: Stored) -> bool:
        """Return whether a record satisfies one filter."""
        operator = filter["operator"]
        if operator in POSITIVE:
            return not self.passes({**filter, "operator": POSITIVE[operator]}, record)
        asked: str = filter["propertyName"]
        name = ALIASES.get(asked, asked)
        type = FIELDS.get(name) or self._types[name]
        text = self._text(name, record)
        if not text:
            return False
        if operator == "HAS_PROPERTY":
            return True
        if operator == "CONTAINS_TOKEN":
            return folded(str_of(filter["value"])) in folded(text)
        if operator == "IN":
            return any(same(type, text, str_of(value)) for value in filter["values"])
        if operator == "EQ":
            return same(type, text, str_of(filter["value"]))
        left, right = comparable(type, text), operand(type, str_of(filter["value"]))
        return bool(
            {
                "GT": left > right,
                "GTE": left >= right,
                "LT": left < right,
                "LTE": left <= right,
            }[operator]
        )

    def shown(self, record: Stored) -> dict[str, str]:
        """Return the properties as they must be read back."""
        return {name: canonical(self._types[name], v) for name, v in record.properties.items() if v}

    def _text(self, name: str, record: Stored) -> str:
        if name == "id":
            return str(record.id)
        if name in FIELDS:
            return iso(record.created_at if name == "createdAt" else record.updated_at)
        value = record.properties.get(name, "")
        return value and canonical(self._types[name], value)


def same(type: str, text: str, given: str) -> bool:
    """Return whether a stored canonical text equals the value of an EQ."""
    if type in ("number", "currency", "date", "datetime"):
        return bool(comparable(type, text) == operand(type, given))
    if type == "multi_enumeration":
        return not set(canonical(type, given).split(";")).isdisjoint(text.split(";"))
    try:
        return text == canonical(type, given)
    except ValueError:
        return False


def folded(text: str) -> str:
    """Return what CONTAINS_TOKEN compares: no case, composed accents, one letter i."""
    plain = unicodedata.normalize("NFD", text).casefold()
    return unicodedata.normalize("NFC", plain.replace("ı", "i").replace("i\u0307", "i"))


def comparable(type: str, text: str) -> Any:
    """Return what a stored text is compared as."""
    if type in ("number", "currency"):
        return Decimal(text)
    return date.fromisoformat(text[:10]) if type in ("date", "datetime") else text


def operand(type: str, given: str) -> Any:
    """Return what the value of GT, GTE, LT and LTE is compared as."""
    if type in ("number", "currency"):
        return Decimal(given.strip())
    if type in ("date", "datetime"):
        return date.fromisoformat(given[:10])
    return given.lower() if type == "email" else given


def canonical(type: str, value: str) -> str:
    """Return the form in which a value travels; ValueError where it has none."""
    if type in ("string", "text"):
        return value
    if type in ("number", "currency"):
        number = Decimal(value.strip())
        plain = f"{number:f}"
        plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
        return "0" if number == 0 else plain
    if type == "date":
        return datetime.fromisoformat(value.strip()).date().isoformat()
    if type == "datetime":
        return moment(value).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if type == "bool":
        if value.strip().lower() not in ("true", "false"):
            raise ValueError(value)
        return value.strip().lower()
    if type == "multi_enumeration":
        return ";".join(dict.fromkeys(p.strip() for p in value.split(";") if p.strip()))
    if type == "email":
        return unicodedata.normalize("NFC", value.strip().lower())
    if type == "phone":
        return PHONES.get(value.strip(), value.strip())
    return value.strip()


def moment(value: str) -> datetime:
    """Return a date, or a date and time with its offset, as UTC."""
    given = datetime.fromisoformat(value.strip())
    return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)


def iso(milliseconds: int) -> str:
    """Return a time as records show it."""
    shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return shown.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def str_of(value: Any) -> str:
    """Return a JSON scalar of a filter as the text it stands for."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
