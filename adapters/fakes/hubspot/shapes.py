"""The forms of request bodies: the keys and types of HubSpot's OpenAPI files.

A form is a type, a tuple of allowed texts, a list with the form of its items, or an object with the
forms of its values by key. A key that ends in `?` may be left out; `*` stands for all keys.
"""

from __future__ import annotations

from typing import Any

from adapters.fakes.hubspot.answers import Refused
from adapters.fakes.hubspot.searching import OPERATORS

_TEXTS = {"*": str}
_LINK = {
    "to": {"id": str},
    "types": [
        {
            "associationCategory": (
                "HUBSPOT_DEFINED",
                "INTEGRATOR_DEFINED",
                "USER_DEFINED",
                "WORK",
            ),
            "associationTypeId": int,
        }
    ],
}
_NEW = {"properties": _TEXTS, "associations": [_LINK]}
_TRACE = {"objectWriteTraceId?": str}
CREATE = _NEW
UPDATE = {"properties": _TEXTS}
MERGE = {"primaryObjectId": str, "objectIdToMerge": str}
BATCH_CREATE = {"inputs": [{**_NEW, **_TRACE}]}
BATCH_UPDATE = {"inputs": [{"id": str, "properties": _TEXTS, "idProperty?": str, **_TRACE}]}
BATCH_READ = {
    "inputs": [{"id": str}],
    "properties": [str],
    "propertiesWithHistory": [()],  # The fake keeps no history.
    "idProperty?": str,
}
LINKS_BATCH_READ = {"inputs": [{"id": str, "after?": str}]}
_FILTER = {"propertyName": str, "operator": OPERATORS, "value?": str, "values?": [str]}
SEARCH = {
    "filterGroups": [{"filters": [_FILTER]}],
    "properties": [str],
    "sorts": [str],
    "limit": int,
    "after": str,
}
PROPERTY_BATCH_READ = {
    "inputs": [{"name": str}],
    "archived": bool,
    "dataSensitivity": ("non_sensitive", "sensitive", "highly_sensitive"),
}


def check(value: Any, form: Any, where: str = "") -> None:
    """Raise Refused with status 400 for a value that does not have a form; `where` is its path."""
    match form:
        case type():
            right = isinstance(value, form) and not (form is int and isinstance(value, bool))
        case tuple():
            right = value in form
        case list():
            right = isinstance(value, list)
        case _:
            right = isinstance(value, dict)
    if not right:
        expected = form.__name__ if isinstance(form, type) else f"{form}"
        raise _invalid(f"{where or 'the body'} must be {expected}")
    if isinstance(form, list):
        for place, item in enumerate(value):
            check(item, form[0], f"{where}[{place}]")
    if isinstance(form, dict):
        _check_object(value, form, f"{where}." if where else "")


def _check_object(value: dict[str, Any], form: dict[str, Any], inside: str) -> None:
    forms = {key.removesuffix("?"): one for key, one in form.items()}
    if unknown := sorted(value.keys() - forms.keys() if "*" not in form else ()):
        raise _invalid(f'unknown field "{inside}{unknown[0]}"')
    lacking = sorted(form.keys() - value.keys() - {"*"})
    if names := [inside + key for key in lacking if not key.endswith("?")]:
        raise _invalid(f"some of required attributes are not set [{', '.join(names)}]")
    for key, item in value.items():
        check(item, forms.get(key, form.get("*")), inside + key)


def _invalid(why: str) -> Refused:
    return Refused(400, f"Invalid input JSON: {why}")
