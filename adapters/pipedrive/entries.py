"""The lists in which a person of Pipedrive has several emails and phones.

The hub's email and phone are the primary entries, its mobile number the one labelled `mobile`.
Pipedrive replaces a list as a whole, so a new value is written together with all other entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crmhub.adapter.phones import has_number, same

PRIMARY = ""
MOBILE = "mobile"
LISTED: Mapping[str, tuple[str, str]] = {
    "email": ("emails", PRIMARY),
    "phone": ("phones", PRIMARY),
    "mobilephone": ("phones", MOBILE),
}
"""The properties that are entries of a list: the list, and the label of the entry or PRIMARY."""


def values(record: Mapping[str, Any], name: str) -> list[str]:
    listed = record.get(name)
    texts = [
        entry.get("value") if isinstance(entry, dict) else entry
        for entry in (listed if isinstance(listed, list) else [])
    ]
    return [text for text in texts if isinstance(text, str) and text]


def value(record: Mapping[str, Any], name: str) -> str:
    listed, label = LISTED[name]
    entry = _chosen(_entries(record, listed), label)
    return entry["value"] if entry else ""


def has_email(record: Mapping[str, Any], email: str) -> bool:
    return any(text.lower() == email for text in values(record, "emails"))


def has_phone(record: Mapping[str, Any], phone: str) -> bool:
    numbers = {str(i): text for i, text in enumerate(values(record, "phones"))}
    return has_number(numbers, phone, tuple(numbers))


def stand_in(record: Mapping[str, Any]) -> str:
    """Pipedrive requires a name: use the email, or else the phone; "" without both."""
    return next((value(record, name) for name in LISTED if value(record, name)), "")


def written(record: Mapping[str, Any], properties: Mapping[str, str]) -> dict[str, Any]:
    """Return those lists of a person (a new one is {}) that get new values.

    A value that the person has becomes primary (or the mobile number). A new phone becomes primary
    beside the former ones; a new email replaces the primary one, which it corrects.
    """
    lists: dict[str, Any] = {}
    for name, (listed, label) in LISTED.items():
        if name in properties:
            entries = lists.get(listed) or _entries(record, listed)
            lists[listed] = _with(entries, name, label, properties[name].strip())
    return lists


def _with(entries: list[dict[str, Any]], name: str, label: str, text: str) -> list[dict[str, Any]]:
    present = _chosen(entries, label)
    if not text:
        entries = [entry for entry in entries if entry is not present]
    elif chosen := next((entry for entry in entries if _is_same(name, text, entry["value"])), None):
        chosen |= {"label": label} if label else {"primary": True}
        present = chosen
    elif present and name != "phone":
        present["value"] = text
    else:
        present = {"value": text, "primary": not label, "label": label or "work"}
        entries = [*entries, present]
    if label == PRIMARY and text:
        for entry in entries:
            entry["primary"] = entry is present
    if entries and not any(entry.get("primary") for entry in entries):
        entries[0]["primary"] = True
    return entries


def _is_same(name: str, text: str, stored: str) -> bool:
    return text.lower() == stored.lower() if name == "email" else same(text, stored)


def _entries(record: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    listed = record.get(name)
    return [
        dict(entry)
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("value"), str) and entry["value"]
    ]


def _chosen(entries: list[dict[str, Any]], label: str) -> dict[str, Any] | None:
    if label:
        return next((entry for entry in entries if entry.get("label") == label), None)
    primary = next((entry for entry in entries if entry.get("primary")), None)
    return primary or (entries[0] if entries else None)
