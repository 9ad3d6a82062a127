"""Name the schemas of records after their kind: `Contact`, `ContactPage`, `UpsertedContact`.

The routes of all kinds share their schemas, whose names contain `Record`. In the document each kind
has its own, so that generated clients have a type for each kind.
"""

from __future__ import annotations

import re
from typing import Any

from crmhub.properties.kinds import KINDS

_REFERENCE = "#/components/schemas/"
_METHODS = ("get", "put", "post", "patch", "delete")
# Not the beginning of another word.
_RECORD = re.compile("Record(?![a-z])")


def name_for_kinds(document: dict[str, Any]) -> None:
    """Replace, in the operations of each kind (their tag), the schemas of records by this kind's.

    A schema belongs to a kind if its name contains `Record`, or if it refers to such a schema:
    `RecordPage` becomes `ContactPage`, and a schema `Partial` of records `ContactPartial`.
    """
    schemas = document["components"]["schemas"]
    of_records = _of_records(schemas)
    made: dict[str, Any] = {}
    for item in document["paths"].values():
        for method in _METHODS:
            operation = item.get(method)
            if operation is None or operation["tags"][0] not in KINDS:
                continue
            one = KINDS[operation["tags"][0]].singular.capitalize()
            names = {name: name_of(name, one) for name in of_records}
            item[method] = _renamed(operation, names)
            for name in _reached(operation, schemas) & of_records:
                made[names[name]] = _renamed(schemas[name], names)
    others = {name: shape for name, shape in schemas.items() if name not in of_records}
    kept = {**made, **{name: schemas[name] for name in of_records}, **others}
    used = _reached(document["paths"], kept)
    document["components"]["schemas"] = {
        name: shape for name, shape in kept.items() if name in used or name in others
    }


def name_of(name: str, one: str) -> str:
    return _RECORD.sub(one, name) if _RECORD.search(name) else f"{one}{name}"


def _of_records(schemas: dict[str, Any]) -> set[str]:
    return {
        name
        for name in schemas
        if any(_RECORD.search(each) for each in {name} | _reached(schemas[name], schemas))
    }


def _reached(node: Any, schemas: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    unread = [node]
    while unread:
        each = unread.pop()
        if isinstance(each, dict):
            reference = each.get("$ref")
            if isinstance(reference, str) and reference.startswith(_REFERENCE):
                name = reference.removeprefix(_REFERENCE)
                if name not in found:
                    found.add(name)
                    unread.append(schemas[name])
            unread.extend(each.values())
        elif isinstance(each, list):
            unread.extend(each)
    return found


def _renamed(node: Any, names: dict[str, str]) -> Any:
    if isinstance(node, list):
        return [_renamed(each, names) for each in node]
    if not isinstance(node, dict):
        return node
    copy = {key: _renamed(each, names) for key, each in node.items()}
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith(_REFERENCE):
        name = reference.removeprefix(_REFERENCE)
        copy["$ref"] = _REFERENCE + names.get(name, name)
    return copy
