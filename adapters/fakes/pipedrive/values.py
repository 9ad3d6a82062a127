"""The validation of the JSON that creates or changes a person or a deal in the fake Pipedrive.

Types are strict: no text is taken for a number, and null clears a value. An unknown custom field
refuses the whole write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from adapters.fakes.pipedrive.answers import Refused, invalid
from adapters.fakes.pipedrive.catalogue import Field

LONGEST_LINE, _LONGEST_TEXT = 255, 65_000
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", re.ASCII)
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)
_ENTRY = {"value", "primary", "label"}
_SYNCED = ("im", "postal_address", "notes", "birthday", "job_title")
_Check = Callable[[Any], str]
"""Returns why a value is refused, or "" if it is accepted."""


def _text(value: Any, most: int = LONGEST_LINE) -> str:
    if not isinstance(value, str):
        return "must be a string"
    return f"must have at most {most} characters" if len(value) > most else ""


def _number(value: Any) -> str:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if plain else "must be a number"


def _integer(value: Any) -> str:
    return "" if isinstance(value, int) and not isinstance(value, bool) else "must be an integer"


def _integers(value: Any) -> str:
    whole = isinstance(value, list) and not any(map(_integer, value))
    return "" if whole else "must be an array of integers"


def _matches(pattern: re.Pattern[str]) -> _Check:
    def check(value: Any) -> str:
        fits = isinstance(value, str) and pattern.fullmatch(value)
        return "" if fits else f"must match {pattern.pattern}"

    return check


def _entries(value: Any) -> str:
    if not isinstance(value, list):
        return "must be an array"
    for entry in value:
        if not isinstance(entry, dict) or not entry.keys() <= _ENTRY:
            return "must contain objects with value, primary and label"
        if _text(entry.get("value")) or not entry["value"]:
            return "an entry needs a value"
        if not isinstance(entry.get("primary", False), bool) or _text(entry.get("label", "")):
            return "an entry's primary is a boolean, its label a string"
    several = sum(entry.get("primary", False) for entry in value) > 1
    return "only one entry may be primary" if several else ""


def _status(value: Any) -> str:
    return "" if value in ("open", "won", "lost") else "must be one of open, won, lost"


_OF_ALL: Mapping[str, _Check] = {
    "owner_id": _integer,
    "org_id": _integer,
    "visible_to": _integer,
    "label_ids": _integers,
}
OWN: Mapping[str, Mapping[str, _Check]] = {
    "persons": {"name": _text, "emails": _entries, "phones": _entries, **_OF_ALL},
    "deals": {
        "title": _text,
        "person_id": _integer,
        "pipeline_id": _integer,
        "stage_id": _integer,
        "value": _number,
        "currency": _matches(_CURRENCY),
        "status": _status,
        "probability": _number,
        "lost_reason": _text,
        "expected_close_date": _matches(_DATE),
        "channel_id": _text,
        **_OF_ALL,
    },
}
"""What a write may contain beside `custom_fields`, with the check of each value."""


def _option(field: Field) -> _Check:
    ids = {option["id"] for option in field["options"] or ()}
    return lambda value: _integer(value) or ("" if value in ids else "is no option of the field")


def _options(field: Field) -> _Check:
    one = _option(field)

    def check(value: Any) -> str:
        if not isinstance(value, list) or not value:
            return "must be an array of option ids that is not empty"
        return next((fault for fault in map(one, value) if fault), "")

    return check


def _object(value: Any, needed: Mapping[str, _Check]) -> str:
    if not isinstance(value, dict) or value.keys() != needed.keys():
        return f"must be an object with {', '.join(needed)}"
    return next((f"{n} {why}" for n, check in needed.items() if (why := check(value[n]))), "")


def _of_custom(field: Field) -> _Check:
    match field["field_type"]:
        case "varchar" | "varchar_auto" | "phone":
            return _text
        case "text":
            return lambda value: _text(value, _LONGEST_TEXT)
        case "double":
            return _number
        case "user" | "org" | "people":
            return _integer
        case "date":
            return _matches(_DATE)
        case "enum":
            return _option(field)
        case "set":
            return _options(field)
        case "monetary":
            return lambda value: _object(value, {"value": _number, "currency": _matches(_CURRENCY)})
        case "address":
            return lambda value: _object(value, {"value": _text})
        case "time":
            return lambda value: _object(value, {"value": _matches(_TIME), "timezone_name": _text})
    return lambda value: "this fake does not write such a field"


def check(
    kind: str, body: Any, fields: Mapping[str, Field], *, synced: bool, names_field: bool
) -> None:
    """Raise Refused for a body that Pipedrive does not take.

    `kind` is persons or deals, and `fields` its fields. Without contact sync (`synced`), some
    fields of people do not exist. `names_field` says whether the refusal of a custom field has
    `field_code`.
    """
    if not isinstance(body, dict):
        raise invalid("body", "must be an object")
    if kind == "persons" and not synced and (given := body.keys() & {*_SYNCED}):
        raise Refused(403, f"{sorted(given)[0]} exists with contact sync only")
    for name, value in body.items():
        if name == "custom_fields":
            continue
        if name not in OWN[kind]:
            raise invalid(name, "is not allowed")
        clearable = name not in ("name", "title", "emails", "phones")
        if why := "" if value is None and clearable else OWN[kind][name](value):
            raise invalid(name, why)
    if not isinstance(custom := body.get("custom_fields", {}), dict):
        raise Refused(500, "Internal Server Error", code="ERR_UNKNOWN")
    for key, value in custom.items():
        field = fields.get(key)
        named = {"field_code": key} if names_field else {}
        if field is None or not field["is_custom_field"]:
            raise invalid(f"custom_fields.{key}", "is not allowed", **named)
        if value is not None and (why := _of_custom(field)(value)):
            raise invalid(f"custom_fields.{key}", why, **named)
