"""Validate property values, and convert them to the format in which HubSpot stores them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from adapters.fakes.hubspot.answers import WrongValue, iso

_EMAIL = re.compile(r"[^@\s,;:<>()\"\\]+@[a-z0-9-]+(\.[a-z0-9-]+)+", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?")
_DAY_MS = 86_400_000
_LONGEST = 65_536

_Definition = dict[str, Any]


def stored(definition: _Definition, given: str) -> str | WrongValue:
    """Return a property value in HubSpot's stored format; for an invalid value, a WrongValue.

    `definition` is the property's definition. `given` is the value, which must not be blank. Ids of
    owners, pipelines and stages are not checked here, since they depend on the account.
    """
    value = given.strip()
    if definition["type"] == "string":
        return _text(definition, value)
    if definition["externalOptions"]:
        return value
    return _OF_TYPE[definition["type"]](definition, value)


def _wrong(definition: _Definition, code: str, message: str) -> WrongValue:
    return WrongValue(definition["name"], code, message)


def _text(definition: _Definition, value: str) -> str | WrongValue:
    if len(value) > _LONGEST:
        return _wrong(definition, "PROPERTY_VALUE_TOO_LONG", f"is longer than {_LONGEST}")
    if definition.get("textDisplayHint") != "email":
        return value
    if not _EMAIL.fullmatch(value):
        return _wrong(definition, "INVALID_EMAIL", f"Email address {value} is invalid")
    return value.lower()


def _number(definition: _Definition, value: str) -> str | WrongValue:
    if _NUMBER.fullmatch(value) and value.isascii():
        return value
    return _wrong(definition, "INVALID_INTEGER", f"{value} was not a valid number.")


def _datetime(definition: _Definition, value: str) -> str | WrongValue:
    at = moment(value)
    if at is None:
        return _wrong(definition, "INVALID_LONG", f"{value} was not a valid long.")
    return iso(at)


def _date(definition: _Definition, value: str) -> str | WrongValue:
    """Return a date in the stored format, such as 2026-01-31; for an invalid date, a WrongValue.

    A date with a time is valid only at midnight UTC (HubSpot's guide to properties).
    """
    at = moment(value)
    if at is None:
        return _wrong(definition, "INVALID_DATE", f"{value} was not a valid date.")
    if at % _DAY_MS:
        return _wrong(
            definition, "INVALID_DATE", f"{value} is at {iso(at)[11:23]} UTC, not midnight!"
        )
    return iso(at)[:10]


def moment(value: str) -> int | None:
    """Convert a time, given as milliseconds since 1970 or in ISO 8601, to ms since 1970.

    Returns None for any other text. This includes nine or ten digits, which would be seconds:
    HubSpot refuses seconds since version 2026-09.
    """
    if re.fullmatch(r"-?\d+", value) and value.isascii():
        return None if len(value.lstrip("-")) in (9, 10) or len(value) > 15 else int(value)
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    if len(value) > 10 and parsed.tzinfo is None:
        return None
    return round(parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp() * 1000)


def _bool(definition: _Definition, value: str) -> str | WrongValue:
    return value if value in ("true", "false") else _no_option(definition, value)


def _enumeration(definition: _Definition, value: str) -> str | WrongValue:
    """Return an option's value in the stored format; for an invalid value, a WrongValue.

    A property of several checkboxes may have several values, joined by ";". Values must have the
    exact case; the labels of options are not valid.
    """
    allowed = {option["value"] for option in definition["options"]}
    many = definition["fieldType"] == "checkbox"
    parts = [part for part in value.split(";") if part] if many else [value]
    for part in parts:
        if part not in allowed:
            return _no_option(definition, part)
    return ";".join(dict.fromkeys(parts))


def _no_option(definition: _Definition, value: str) -> WrongValue:
    listed = ", ".join(
        f'label: "{option["label"]}" value: "{option["value"]}"' for option in definition["options"]
    )
    return _wrong(
        definition, "INVALID_OPTION", f"{value} was not one of the allowed options: [{listed}]"
    )


_OF_TYPE: dict[str, Callable[[_Definition, str], str | WrongValue]] = {
    "number": _number,
    "datetime": _datetime,
    "date": _date,
    "bool": _bool,
    "enumeration": _enumeration,
    "phone_number": _text,
}


def searchable_phone(value: str) -> str:
    """Return the digits of a phone number without its country code.

    HubSpot's properties hs_searchable_calculated_* contain phone numbers in this format.
    """
    # Imported here because its tables are large, and most fakes never handle a phone number.
    import phonenumbers

    digits = re.sub(r"\D", "", value)
    if not value.strip().startswith("+"):
        return digits.lstrip("0")
    try:
        return str(phonenumbers.national_significant_number(phonenumbers.parse(value)))
    except phonenumbers.NumberParseException:
        return digits
