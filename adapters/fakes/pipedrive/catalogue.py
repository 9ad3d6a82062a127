"""The fields of people and deals in the fake Pipedrive, as /personFields and /dealFields list them.

The keys of custom fields are 40 hexadecimal digits that differ between companies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

Field = dict[str, Any]
"""A field in Pipedrive's format."""

CUSTOM_TYPES = (
    *("varchar", "varchar_auto", "text", "double", "monetary", "enum", "set", "user", "org"),
    *("people", "phone", "date", "daterange", "time", "timerange", "address"),
)
_LABELS = ((1, "Customer"), (2, "Hot lead"))
_STATUSES = (("open", "Open"), ("won", "Won"), ("lost", "Lost"))
_OWN: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "persons": (
        ("name", "Name", "varchar"),
        ("label_ids", "Labels", "set"),
        ("phone", "Phone", "phone"),
        ("email", "Email", "varchar"),
        ("first_name", "First name", "varchar"),
        ("last_name", "Last name", "varchar"),
        ("owner_id", "Owner", "user"),
        ("org_id", "Organization", "org"),
        ("add_time", "Person created", "date"),
        ("update_time", "Update time", "date"),
        ("visible_to", "Visible to", "visible_to"),
        ("picture_id", "Profile picture", "picture"),
    ),
    "deals": (
        ("title", "Title", "varchar"),
        ("value", "Value", "monetary"),
        ("currency", "Currency", "varchar"),
        ("label_ids", "Label", "set"),
        ("pipeline_id", "Pipeline", "double"),
        ("stage_id", "Stage", "stage"),
        ("status", "Status", "status"),
        ("owner_id", "Owner", "user"),
        ("person_id", "Contact person", "people"),
        ("org_id", "Organization", "org"),
        ("expected_close_date", "Expected close date", "date"),
        ("probability", "Probability", "int"),
        ("lost_reason", "Lost reason", "varchar_options"),
        ("channel", "Source channel", "enum"),
        ("channel_id", "Source channel ID", "varchar"),
        ("origin", "Source origin", "varchar"),
        ("add_time", "Deal created", "date"),
        ("update_time", "Update time", "date"),
        ("visible_to", "Visible to", "visible_to"),
    ),
}
_ON_DEMAND = {
    "persons": (("open_deals_count", "Open deals", "int"), ("notes_count", "Notes", "int")),
    "deals": (("activities_count", "Total activities", "int"),),
}
# The custom fields of a new company: name, type and labels of the options.
_CUSTOM: Mapping[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "persons": (
        ("Interest", "enum", ("Low", "High")),
        ("Topics", "set", ("News", "Offers")),
        ("Score", "double", ()),
        ("Budget", "monetary", ()),
        ("Anniversary", "date", ()),
        ("Remarks", "text", ()),
        ("Job", "varchar", ()),
        ("Home", "address", ()),
        ("Call at", "time", ()),
    ),
    "deals": (
        ("Priority", "enum", ("Low", "High")),
        ("Fee", "monetary", ()),
        ("Description", "text", ()),
    ),
}


def key_of(kind: str, name: str) -> str:
    """Return the key of a custom field of persons or deals, 40 hexadecimal digits."""
    return hashlib.sha1(f"{kind} {name}".encode(), usedforsecurity=False).hexdigest()


def fields_of(kind: str) -> dict[str, Field]:
    """Return the fields of persons or deals in a new company, by their code."""
    fields = {code: _own(code, name, type_) for code, name, type_ in _OWN[kind]}
    for code, name, type_ in _ON_DEMAND[kind]:
        fields[code] = _own(code, name, type_) | {"is_optional_response_field": True}
    made = (custom(kind, *one) for one in _CUSTOM[kind])
    return fields | {one["field_code"]: one for one in made}


def custom(kind: str, name: str, type_: str, labels: tuple[str, ...] = ()) -> Field:
    """Return a custom field of persons or deals; its option ids are unique in the company.

    Raises ValueError for a type that Pipedrive does not have.
    """
    if type_ not in CUSTOM_TYPES:
        raise ValueError(f"{type_}: a custom field is one of {', '.join(CUSTOM_TYPES)}")
    code = key_of(kind, name)
    first = int(code[:4], 16)
    options = [{"id": first + i, "label": label} for i, label in enumerate(labels)]
    return _field(code, name, type_, options or None) | {"is_custom_field": True}


def _own(code: str, name: str, type_: str) -> Field:
    listed = {"label_ids": _LABELS, "status": _STATUSES}.get(code)
    options = [{"id": id_, "label": label} for id_, label in listed] if listed else None
    return _field(code, name, type_, options)


def _field(code: str, name: str, type_: str, options: list[Any] | None) -> Field:
    return {
        "field_name": name,
        "field_code": code,
        "description": None,
        "field_type": type_,
        "options": options,
        "subfields": None,
        "is_custom_field": False,
        "is_optional_response_field": False,
    }
