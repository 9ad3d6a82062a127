"""Name the lists of allowed values in the OpenAPI document.

So generated clients have one type for a list instead of one for each operation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crmhub.api.http.schemas import INCLUDED, ORDERS, SORTS
from crmhub.properties.kinds import KINDS
from crmhub.properties.values import TYPES
from crmhub.records.search.filters import OPERATORS

_REFERENCE = "#/components/schemas/"
_names: dict[tuple[str, ...], str] = {}


def name_enum(name: str, values: Iterable[str]) -> None:
    """Let the list of these values, in this order, be the schema `name` in the document."""
    _names[tuple(values)] = name


name_enum("SortField", SORTS)
name_enum("SortOrder", ORDERS)
name_enum("RecordKind", KINDS)
name_enum("PipelineKind", [name for name, kind in KINDS.items() if kind.pipeline])
name_enum("FilterOperator", OPERATORS)
name_enum("IncludedField", INCLUDED)
name_enum("PropertyType", TYPES)


def share_enums(document: dict[str, Any]) -> None:
    """Replace each named list of values in the document by a reference to its schema."""
    schemas = document["components"]["schemas"]
    used: dict[str, Any] = {}
    for part in ("paths", "components"):
        document[part] = _shared(document[part], used)
    document["components"]["schemas"] = {**document["components"]["schemas"], **used}
    if clash := used.keys() & schemas.keys():
        raise ValueError(f"two schemas have the name {sorted(clash)}")


def _shared(node: Any, used: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_shared(each, used) for each in node]
    if not isinstance(node, dict):
        return node
    values = node.get("enum")
    name = _names.get(tuple(values)) if isinstance(values, list) else None
    if name is None:
        return {key: _shared(each, used) for key, each in node.items()}
    used[name] = {"type": "string", "enum": values}
    rest = {key: each for key, each in node.items() if key not in ("enum", "type")}
    return {"$ref": _REFERENCE + name, **rest}
