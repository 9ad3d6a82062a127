"""Validate property values, and convert them to the format in which HubSpot stores them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from adapters.fakes.hubspot.answers import WrongValue, iso

_EMAIL = re.compile(r"[^@\s,;:<>()\"\\]+@[a-z0-9-]+(\.[a-z0-9-]+)+", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_DAY_MS = 86_400_000
_LONGEST = 65_536


def stored(definition: Mapping[str, Any], given: str) -> str | WrongValue:
    """Return a property value in HubSpot's stored format; for an invalid value, a WrongValue.

    `given` must not be blank. Ids of owners, pipelines and stages are not checked here, since they
    depend on the account.
    """
    value, name = given.strip(), definition["name"]
    match definition["type"]:
        case "string" | "phone_number":
            return _text(definition, value)
        case _ if definition["externalOptions"]:
            return value
        case "number":
            if _NUMBER.fullmatch(value):
                return value
            return WrongValue(name, "INVALID_INTEGER", f"{value} was not a valid number.")
        case "datetime":
            if (at := moment(value)) is not None:
                return iso(at)
            return WrongValue(name, "INVALID_LONG", f"{value} was not a valid long.")
        case "date":
            return _date(name, value)
    return _options(definition, value)


def _text(definition: Mapping[str, Any], value: str) -> str | WrongValue:
    name = definition["name"]
    if len(value) > _LONGEST:
        return WrongValue(name, "PROPERTY_VALUE_TOO_LONG", f"is longer than {_LONGEST}")
    if definition.get("textDisplayHint") != "email":
        return value
    if not _EMAIL.fullmatch(value):
        return WrongValue(name, "INVALID_EMAIL", f"Email address {value} is invalid")
    return value.lower()


def _date(name: str, value: str) -> str | WrongValue:
    """Return a date such as 2026-01-31; a time must be midnight UTC (HubSpot's guide)."""
    at = moment(value)
    if at is None:
        return WrongValue(name, "INVALID_DATE", f"{value} was not a valid date.")
    if at % _DAY_MS:
        why = f"{value} is at {iso(at)[11:23]} UTC, not midnight!"
        return WrongValue(name, "INVALID_DATE", why)
    return iso(at)[:10]


def _options(definition: Mapping[str, Any], value: str) -> str | WrongValue:
    """Return the value of an option, or values of several checkboxes, joined by ";".

    Values must have the exact case; the labels of options are not valid.
    """
    options = definition["options"]
    many = definition["fieldType"] == "checkbox"
    parts = [part for part in value.split(";") if part] if many else [value]
    for part in parts:
        if part not in [option["value"] for option in options]:
            listed = ", ".join(f'label: "{o["label"]}" value: "{o["value"]}"' for o in options)
            why = f"{part} was not one of the allowed options: [{listed}]"
            return WrongValue(definition["name"], "INVALID_OPTION", why)
    return ";".join(dict.fromkeys(parts))


def moment(value: str) -> int | None:
    """Convert a time, given as milliseconds since 1970 or in ISO 8601, to ms since 1970.

    Returns None for any other text. This includes nine or ten digits, which would be seconds:
    HubSpot refuses seconds since version 2026-09.
    """
    if re.fullmatch(r"-?[0-9]+", value):
        return None if len(value.lstrip("-")) in (9, 10) or len(value) > 15 else int(value)
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    if len(value) > 10 and parsed.tzinfo is None:
        return None
    return round(parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp() * 1000)


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
