"""Name the schemas of the OpenAPI document, so that generated clients have types of these names.

The routes of all kinds of records share their schemas, whose names contain `Record`; in the
document each kind has its own: `Contact`, `ContactPage`, `UpsertedContact`. Lists of allowed values
that several operations have become one schema each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from crmhub.api.http.schemas import INCLUDED, LIST_SORTS, ORDERS, SORTS
from crmhub.properties.kinds import KINDS
from crmhub.properties.values import TYPES
from crmhub.records.search.filters import OPERATORS

_SCHEMAS = "#/components/schemas/"
_METHODS = ("get", "put", "post", "patch", "delete")
# Not the beginning of another word.
_RECORD = re.compile("Record(?![a-z])")
_enums: dict[tuple[str, ...], str] = {}


def name_for_kinds(document: dict[str, Any]) -> None:
    """Replace, in the operations of each kind (their tag), the schemas of records by this kind's.

    A schema belongs to a kind if its name contains `Record`, or if it refers to such a schema:
    `RecordPage` becomes `ContactPage`, and a schema `Partial` of records `ContactPartial`.
    """
    components = document["components"]
    schemas = components["schemas"]
    of_records = {
        name
        for name, shape in schemas.items()
        if any(_RECORD.search(each) for each in (name, *_schemas_in(shape, components)))
    }
    made: dict[str, Any] = {}
    for item in document["paths"].values():
        for method in _METHODS:
            operation = item.get(method)
            if operation is None or operation["tags"][0] not in KINDS:
                continue
            one = KINDS[operation["tags"][0]].singular.capitalize()
            names = {
                name: _RECORD.sub(one, name) if _RECORD.search(name) else f"{one}{name}"
                for name in of_records
            }
            item[method] = _renamed(operation, names)
            for name in _schemas_in(operation, components):
                if name in of_records:
                    made[names[name]] = _renamed(schemas[name], names)
    components["schemas"] = kept = made | schemas
    used = {*_schemas_in(document["paths"], components)}
    components["schemas"] = {
        name: shape for name, shape in kept.items() if name in used or name not in of_records
    }


def _schemas_in(node: Any, components: dict[str, Any]) -> list[str]:
    return [name for group, name in reached(node, components) if group == "schemas"]


def reached(node: Any, components: dict[str, Any]) -> list[tuple[str, str]]:
    """The components (group, name) to which a part of the document refers, also indirectly."""
    found: dict[tuple[str, str], None] = {}
    unread = [node]
    while unread:
        for reference in _references(unread.pop()):
            group, name = reference.split("/")[-2:]
            if (group, name) not in found:
                found[group, name] = None
                unread.append(components[group][name])
    return list(found)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(reference := node.get("$ref"), str):
            yield reference
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _references(each)


def _renamed(node: Any, names: dict[str, str]) -> Any:
    def rename(part: dict[str, Any]) -> dict[str, Any]:
        name = str(part.get("$ref", "")).removeprefix(_SCHEMAS)
        return part | {"$ref": _SCHEMAS + names[name]} if name in names else part

    return _rewritten(node, rename)


def _rewritten(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy in which `change` has replaced each object, the inner ones first."""
    if isinstance(node, list):
        return [_rewritten(each, change) for each in node]
    if not isinstance(node, dict):
        return node
    return change({key: _rewritten(each, change) for key, each in node.items()})


def name_enum(name: str, values: Iterable[str]) -> None:
    """Let the list of these values, in this order, be the schema `name` in the document."""
    _enums[tuple(values)] = name


name_enum("SortField", SORTS)
name_enum("ListSortField", LIST_SORTS)
name_enum("SortOrder", ORDERS)
name_enum("RecordKind", KINDS)
name_enum("PipelineKind", [name for name, kind in KINDS.items() if kind.pipeline])
name_enum("FilterOperator", OPERATORS)
name_enum("IncludedField", INCLUDED)
name_enum("PropertyType", TYPES)


def share_enums(document: dict[str, Any]) -> None:
    """Replace each named list of values in the document by a reference to its schema."""
    used: dict[str, Any] = {}

    def share(part: dict[str, Any]) -> dict[str, Any]:
        values = part.get("enum")
        name = _enums.get(tuple(values)) if isinstance(values, list) else None
        if name is None:
            return part
        used[name] = {"type": "string", "enum": values}
        rest = {key: each for key, each in part.items() if key not in ("enum", "type")}
        return {"$ref": _SCHEMAS + name, **rest}

    for group in ("paths", "components"):
        document[group] = _rewritten(document[group], share)
    schemas = document["components"]["schemas"]
    if clash := used.keys() & schemas.keys():
        raise ValueError(f"two schemas have the name {sorted(clash)}")
    schemas.update(used)
