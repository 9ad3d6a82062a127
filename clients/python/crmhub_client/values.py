"""From Python values to the hub's JSON: properties, filters, request bodies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict

Value = str | int | float | Decimal | bool | date | datetime | None
Properties = Mapping[str, Value]
"""Property names and values; None and "" clear a property."""

NoteText = str | Sequence[Mapping[str, str]]
"""What a note says: a text, or messages with `from`, `text` and `at`."""

Sort = Literal["createdAt", "updatedAt", "date_added", "date_modified"]
Order = Literal["asc", "desc"]
Operator = Literal[
    "EQ", "NEQ", "GT", "GTE", "LT", "LTE", "IN", "NOT_IN",
    "HAS_PROPERTY", "NOT_HAS_PROPERTY", "CONTAINS_TOKEN", "NOT_CONTAINS_TOKEN",
]  # fmt: skip


class FilterObject(TypedDict):
    """A filter of a search, as it is on the wire."""

    propertyName: str
    operator: Operator
    value: NotRequired[Value]
    values: NotRequired[Sequence[Value]]


Filter = (
    FilterObject | tuple[str, Operator] | tuple[str, Operator, Value] | tuple[str, Operator, Any]
)
"""A filter: `("city", "EQ", "London")`, `("city", "IN", ["London", "Paris"])`,
`("city", "HAS_PROPERTY")`, or a FilterObject."""


def properties_json(properties: Properties) -> dict[str, Any]:
    """Return properties as JSON values. Raises ValueError for a datetime without a time zone."""
    return {name: _value(each) for name, each in properties.items()}


def filter_json(given: Filter) -> dict[str, Any]:
    """Return a filter as JSON."""
    if isinstance(given, tuple):
        shown: dict[str, Any] = {"propertyName": given[0], "operator": given[1]}
        if len(given) == 3:
            shown["values" if given[1] in ("IN", "NOT_IN") else "value"] = given[2]
    else:
        shown = dict(given)
    if "value" in shown:
        shown["value"] = _compared(shown["value"])
    if "values" in shown:
        shown["values"] = [_compared(each) for each in shown["values"]]
    return shown


def time_text(moment: datetime) -> str:
    """Return a time as the hub writes it. Raises ValueError without a time zone."""
    if moment.tzinfo is None:
        raise ValueError("a datetime needs a time zone, such as datetime.now(timezone.utc)")
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode(body: Any) -> bytes:
    """Return a JSON value as bytes. Raises ValueError for NaN and infinity."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _value(value: Value) -> str | int | float | bool | None:
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, date):
        return value.isoformat()
    return format(value, "f") if isinstance(value, Decimal) else value


def _compared(value: Any) -> Any:
    """Return a filter's value as JSON: filters take dates and minutes, no seconds."""
    if isinstance(value, datetime):
        return time_text(value)[:16].replace("T", " ")
    return _value(value)
