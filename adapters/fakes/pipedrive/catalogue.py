"""The fields of records in the fake Pipedrive, and what a write may give them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from adapters.fakes.fields import Check, Field, each, integer, matching, number, short

Definition = dict[str, Any]
"""A field as /personFields, /organizationFields and /dealFields list it."""

DATE = matching(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
_TIME = matching(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?")
_CURRENCY = matching(r"[A-Z]{3}")
_LINE, _TEXT = short(255), short(65_000)
_STATUSES = {"open": "Open", "won": "Won", "lost": "Lost"}
_LABELS = {1: "Customer", 2: "Hot lead"}
_INDUSTRIES = {11: "Farming", 12: "Trade"}


def _entries(value: Any) -> str:
    if why := each(_entry)(value):
        return why
    several = sum(entry.get("primary", False) for entry in value) > 1
    return "only one entry may be primary" if several else ""


def _entry(value: Any) -> str:
    if not isinstance(value, dict) or not value.keys() <= {"value", "primary", "label"}:
        return "must be an object with value, primary and label"
    if _LINE(value.get("value")) or not value["value"]:
        return "needs a value"
    if not isinstance(value.get("primary", False), bool) or _LINE(value.get("label", "")):
        return "has a boolean as primary, a string as label"
    return ""


def _participant(value: Any) -> str:
    named = isinstance(value, dict) and value.keys() <= {"person_id", "primary"}
    return integer(value.get("person_id")) if named else "must be an object with person_id"


def _address(value: Any) -> str:
    named = isinstance(value, dict) and isinstance(value.get("value"), str)
    return "" if named else "must be an object with value"


_OF_ALL = {
    "owner_id": Field(check=integer),
    "visible_to": Field(check=integer),
    "label_ids": Field(check=each(integer)),
}
_ORGANIZATION = {"org_id": Field(check=integer, to="organizations")}
OWN: Mapping[str, Mapping[str, Field]] = {
    "persons": {
        "name": Field(check=_LINE),
        "emails": Field(check=_entries),
        "phones": Field(check=_entries),
        **_ORGANIZATION,
        **_OF_ALL,
    },
    "organizations": {
        "name": Field(check=_LINE),
        "address": Field(check=_address),
        "website": Field(check=_LINE),
        "industry": Field(check=integer, options=tuple(_INDUSTRIES)),
        "annual_revenue": Field(check=integer),
        "employee_count": Field(check=integer),
        **_OF_ALL,
    },
    "deals": {
        "title": Field(check=_LINE),
        "person_id": Field(check=integer, to="persons"),
        "pipeline_id": Field(check=integer),
        "stage_id": Field(check=integer),
        "value": Field(check=number),
        "currency": Field(check=_CURRENCY),
        "status": Field(options=tuple(_STATUSES)),
        "probability": Field(check=number),
        "lost_reason": Field(check=_LINE),
        "expected_close_date": Field(check=DATE),
        "channel_id": Field(check=_LINE),
        **_ORGANIZATION,
        **_OF_ALL,
    },
}
"""What a write may contain beside `custom_fields`."""
_LINKS = {name: Field(check=integer) for name in ("person_id", "deal_id", "org_id")}
_MOMENT = matching(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
ADDED: Mapping[str, Mapping[str, Field]] = {
    "notes": {"content": Field(check=_TEXT), "add_time": Field(check=_MOMENT), **_LINKS},
    "activities": {
        "subject": Field(check=_LINE),
        "type": Field(check=_LINE),
        "owner_id": Field(check=integer),
        "due_date": Field(check=DATE),
        "due_time": Field(check=_TIME),
        "note": Field(check=_TEXT),
        "participants": Field(check=each(_participant)),
        "deal_id": Field(check=integer),
        "org_id": Field(check=integer),
    },
}
"""What a new note or activity may contain."""
# What the lists tell: name, type, and options by their ids.
_LISTED: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "persons": {
        "name": ("Name", "varchar"),
        "label_ids": ("Labels", "set"),
        "phone": ("Phone", "phone"),
        "email": ("Email", "varchar"),
        "first_name": ("First name", "varchar"),
        "last_name": ("Last name", "varchar"),
        "owner_id": ("Owner", "user"),
        "org_id": ("Organization", "org"),
        "add_time": ("Person created", "date"),
        "update_time": ("Update time", "date"),
        "visible_to": ("Visible to", "visible_to"),
        "picture_id": ("Profile picture", "picture"),
        "open_deals_count": ("Open deals", "int"),
        "notes_count": ("Notes", "int"),
    },
    "organizations": {
        "name": ("Name", "varchar"),
        "label_ids": ("Labels", "set"),
        "address": ("Address", "address"),
        "website": ("Website", "varchar"),
        "industry": ("Industry", "enum"),
        "annual_revenue": ("Annual revenue", "double"),
        "employee_count": ("Number of employees", "int"),
        "owner_id": ("Owner", "user"),
        "add_time": ("Organization created", "date"),
        "update_time": ("Update time", "date"),
        "visible_to": ("Visible to", "visible_to"),
        "people_count": ("People", "int"),
    },
    "deals": {
        "title": ("Title", "varchar"),
        "value": ("Value", "monetary"),
        "currency": ("Currency", "varchar"),
        "label_ids": ("Label", "set"),
        "pipeline_id": ("Pipeline", "double"),
        "stage_id": ("Stage", "stage"),
        "status": ("Status", "status"),
        "owner_id": ("Owner", "user"),
        "person_id": ("Contact person", "people"),
        "org_id": ("Organization", "org"),
        "expected_close_date": ("Expected close date", "date"),
        "probability": ("Probability", "int"),
        "lost_reason": ("Lost reason", "varchar_options"),
        "channel": ("Source channel", "enum"),
        "channel_id": ("Source channel ID", "varchar"),
        "origin": ("Source origin", "varchar"),
        "add_time": ("Deal created", "date"),
        "update_time": ("Update time", "date"),
        "visible_to": ("Visible to", "visible_to"),
        "activities_count": ("Total activities", "int"),
    },
}
_OPTIONS: Mapping[str, Mapping[Any, str]] = {
    "label_ids": _LABELS,
    "status": _STATUSES,
    "industry": _INDUSTRIES,
}
# The custom fields of a new company: name, type and labels of the options.
_CUSTOM: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "persons": (
        ("Interest", "enum", "Low", "High"),
        ("Topics", "set", "News", "Offers"),
        ("Score", "double"),
        ("Budget", "monetary"),
        ("Anniversary", "date"),
        ("Remarks", "text"),
        ("Job", "varchar"),
        ("Home", "address"),
        ("Call at", "time"),
    ),
    "deals": (
        ("Priority", "enum", "Low", "High"),
        ("Fee", "monetary"),
        ("Description", "text"),
    ),
    "organizations": (("Segment", "enum", "Small", "Large"),),
}


def key_of(kind: str, name: str) -> str:
    """Return the key of a custom field: 40 hexadecimal digits, which differ between companies."""
    return hashlib.sha1(f"{kind} {name}".encode(), usedforsecurity=False).hexdigest()


def definitions(kind: str) -> dict[str, Definition]:
    """Return the fields of persons or deals in a new company, by their code."""
    own = [
        _definition(code, name, type_, _OPTIONS.get(code, {}))
        | {"is_optional_response_field": code.endswith("_count")}
        for code, (name, type_) in _LISTED[kind].items()
    ]
    made = [custom(kind, *one) for one in _CUSTOM[kind]]
    return {one["field_code"]: one for one in own + made}


def custom(kind: str, name: str, type_: str, *labels: str) -> Definition:
    """Return a custom field of persons or deals; its option ids are unique in the company."""
    code = key_of(kind, name)
    options = dict(enumerate(labels, int(code[:4], 16)))
    return _definition(code, name, type_, options) | {"is_custom_field": True}


def _definition(code: str, name: str, type_: str, options: Mapping[Any, str]) -> Definition:
    return {
        "field_name": name,
        "field_code": code,
        "description": None,
        "field_type": type_,
        "options": [{"id": id_, "label": label} for id_, label in options.items()] or None,
        "subfields": None,
        "is_custom_field": False,
        "is_optional_response_field": False,
    }


def check_of(definition: Definition) -> Check:
    """Return the check of the values of a custom field."""
    match definition["field_type"]:
        case "enum":
            return _option(definition)
        case "set":
            several = each(_option(definition))
            return lambda value: several(value) or ("" if value else "must not be empty")
    return _CHECKS.get(definition["field_type"], lambda value: "this fake does not write such")


def _option(definition: Definition) -> Check:
    ids = {option["id"] for option in definition["options"] or ()}
    return lambda value: integer(value) or ("" if value in ids else "is no option of the field")


def _object(**needed: Check) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, dict) or value.keys() != needed.keys():
            return f"must be an object with {', '.join(needed)}"
        return next((f"{n} {why}" for n, one in needed.items() if (why := one(value[n]))), "")

    return check


_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("varchar", "varchar_auto", "phone"), _LINE),
    **dict.fromkeys(("user", "org", "people"), integer),
    "text": _TEXT,
    "double": number,
    "date": DATE,
    "monetary": _object(value=number, currency=_CURRENCY),
    "address": _object(value=_LINE),
    "time": _object(value=_TIME, timezone_name=_LINE),
}
