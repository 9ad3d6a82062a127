"""Validators of request bodies: they accept the keys and types of HubSpot's OpenAPI files.

A validator is a function that takes a JSON value and the value's path in the body, and returns the
value. The validator raises Refused with status 400 for a value that it does not accept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adapters.fakes.hubspot.answers import Refused

Check = Callable[[Any, str], Any]


def _bad(where: str, expected: str) -> Refused:
    return Refused(400, f"Invalid input JSON: {where or 'the body'} must be {expected}")


def text(value: Any, where: str) -> str:
    """Return `value` if it is a string, else raise Refused with status 400.

    `where` is the path of the value in the request body.
    """
    if not isinstance(value, str):
        raise _bad(where, "a string")
    return value


def integer(value: Any, where: str) -> int:
    """Return `value` if it is an integer, else raise Refused with status 400.

    `where` is the path of the value in the request body.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise _bad(where, "an integer")
    return value


def flag(value: Any, where: str) -> bool:
    """Return `value` if it is a boolean, else raise Refused with status 400.

    `where` is the path of the value in the request body.
    """
    if not isinstance(value, bool):
        raise _bad(where, "true or false")
    return value


def texts(value: Any, where: str) -> dict[str, str]:
    """Return `value` if it is a JSON object that has only strings as values.

    Otherwise raise Refused with status 400. `where` is the path of the value in the request body.
    """
    if not isinstance(value, dict):
        raise _bad(where, "an object")
    return {name: text(item, f"{where}.{name}") for name, item in value.items()}


def each(check: Check) -> Check:
    """Return a validator for a list; the validator `check` must accept each item of the list."""

    def checked(value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise _bad(where, "a list")
        return [check(item, f"{where}[{place}]") for place, item in enumerate(value)]

    return checked


def one_of(*allowed: str) -> Check:
    """Return a validator that accepts only the strings `allowed`."""

    def checked(value: Any, where: str) -> str:
        if value not in allowed:
            raise _bad(where, "one of " + ", ".join(allowed))
        return str(value)

    return checked


def shape(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Return a validator for a JSON object.

    The object must have all keys of `required`. Further keys must be keys of `optional`. Both
    mappings contain, for each key, the validator of its value.
    """
    allowed_keys = {**required, **(optional or {})}

    def checked(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _bad(where, "an object")
        inside = f"{where}." if where else ""
        if unknown := sorted(set(value) - set(allowed_keys)):
            raise Refused(400, f'Invalid input JSON: unknown field "{inside}{unknown[0]}"')
        if lacking := sorted(set(required) - set(value)):
            raise Refused(
                400,
                "Invalid input JSON: some of required attributes are not set "
                f"[{', '.join(inside + name for name in lacking)}]",
            )
        return {name: allowed_keys[name](given, inside + name) for name, given in value.items()}

    return checked


_TYPE = shape(
    {
        "associationCategory": one_of(
            "HUBSPOT_DEFINED", "INTEGRATOR_DEFINED", "USER_DEFINED", "WORK"
        ),
        "associationTypeId": integer,
    }
)
_REFERENCE = shape({"id": text})
ASSOCIATION_TYPES = each(_TYPE)
ASSOCIATIONS = each(shape({"to": _REFERENCE, "types": ASSOCIATION_TYPES}))

CREATE = shape({"properties": texts, "associations": ASSOCIATIONS})
UPDATE = shape({"properties": texts})
MERGE = shape({"primaryObjectId": text, "objectIdToMerge": text})
GDPR_DELETE = shape({"objectId": text}, {"idProperty": text})

_TRACED = {"objectWriteTraceId": text}
_CHANGED = shape({"id": text, "properties": texts}, {"idProperty": text, **_TRACED})
BATCH_CREATE = shape(
    {"inputs": each(shape({"properties": texts, "associations": ASSOCIATIONS}, _TRACED))}
)
BATCH_UPDATE = BATCH_UPSERT = shape({"inputs": each(_CHANGED)})
BATCH_ARCHIVE = shape({"inputs": each(_REFERENCE)})
BATCH_READ = shape(
    {
        "inputs": each(_REFERENCE),
        "properties": each(text),
        "propertiesWithHistory": each(text),
    },
    {"idProperty": text},
)

OPERATORS = (
    "BETWEEN",
    "CONTAINS_TOKEN",
    "EQ",
    "GT",
    "GTE",
    "HAS_PROPERTY",
    "IN",
    "LT",
    "LTE",
    "NEQ",
    "NOT_CONTAINS_TOKEN",
    "NOT_HAS_PROPERTY",
    "NOT_IN",
)
_FILTER = shape(
    {"propertyName": text, "operator": one_of(*OPERATORS)},
    {"value": text, "highValue": text, "values": each(text)},
)
SEARCH = shape(
    {
        "filterGroups": each(shape({"filters": each(_FILTER)})),
        "properties": each(text),
        "sorts": each(text),
        "limit": integer,
        "after": text,
    },
    {"query": text},
)

_OPTION = shape(
    {"label": text, "value": text, "displayOrder": integer, "hidden": flag}, {"description": text}
)
_TYPES = one_of("bool", "date", "datetime", "enumeration", "number", "phone_number", "string")
_FIELD_TYPES = one_of(
    "booleancheckbox",
    "calculation_equation",
    "checkbox",
    "date",
    "file",
    "html",
    "number",
    "phonenumber",
    "radio",
    "select",
    "text",
    "textarea",
)
_DEFINITION = {
    "calculationFormula": text,
    "currencyPropertyName": text,
    "description": text,
    "displayOrder": integer,
    "formField": flag,
    "hidden": flag,
    "numberDisplayHint": text,
    "options": each(_OPTION),
    "showCurrencySymbol": flag,
    "textDisplayHint": text,
}
_SENSITIVITIES = one_of("non_sensitive", "sensitive", "highly_sensitive")
PROPERTY_CREATE = shape(
    {"name": text, "label": text, "type": _TYPES, "fieldType": _FIELD_TYPES, "groupName": text},
    {
        **_DEFINITION,
        "dataSensitivity": _SENSITIVITIES,
        "externalOptions": flag,
        "hasUniqueValue": flag,
        "referencedObjectType": text,
    },
)
PROPERTY_UPDATE = shape(
    {}, {**_DEFINITION, "label": text, "type": _TYPES, "fieldType": _FIELD_TYPES, "groupName": text}
)
PROPERTY_NAMES = each(shape({"name": text}))
PROPERTY_BATCH_CREATE = shape({"inputs": each(PROPERTY_CREATE)})
PROPERTY_BATCH_ARCHIVE = shape({"inputs": PROPERTY_NAMES})
PROPERTY_BATCH_READ = shape(
    {"inputs": PROPERTY_NAMES, "archived": flag, "dataSensitivity": _SENSITIVITIES},
)
GROUP_CREATE = shape({"name": text, "label": text}, {"displayOrder": integer})

_STAGE = {"label": text, "displayOrder": integer, "metadata": texts}
STAGE_CREATE = shape(_STAGE, {"stageId": text})
STAGE_UPDATE = shape(
    {"metadata": texts}, {"label": text, "displayOrder": integer, "archived": flag}
)
PIPELINE_CREATE = shape(
    {"label": text, "displayOrder": integer, "stages": each(STAGE_CREATE)}, {"pipelineId": text}
)
PIPELINE_UPDATE = shape({}, {"label": text, "displayOrder": integer, "archived": flag})

PAIRS = shape({"inputs": each(shape({"from": _REFERENCE, "to": _REFERENCE}))})
PAIRS_WITH_TYPES = shape(
    {"inputs": each(shape({"from": _REFERENCE, "to": _REFERENCE, "types": ASSOCIATION_TYPES}))}
)
LINKS_ARCHIVE = shape({"inputs": each(shape({"from": _REFERENCE, "to": each(_REFERENCE)}))})
LINKS_READ = shape({"inputs": each(shape({"id": text}, {"after": text}))})
