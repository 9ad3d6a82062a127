"""The parts of the OpenAPI document: the public API with the helpers, and the admin API."""

from __future__ import annotations

import re
from typing import Any

import orjson

_ADMIN = "/admin/"
_REFERENCE = re.compile(r'"\$ref":"#/components/(\w+)/([^"]+)"')


def part_of(whole: dict[str, Any], part: str) -> dict[str, Any]:
    """Return the document with only the operations of `part`, and the components they use."""
    paths = {
        path: operations
        for path, operations in whole["paths"].items()
        if path.startswith(_ADMIN) == (part == "admin")
    }
    operations = [
        operation
        for item in paths.values()
        for operation in item.values()
        if isinstance(operation, dict)
    ]
    tags = {tag for operation in operations for tag in operation["tags"]}
    found: set[tuple[str, str]] = {
        ("securitySchemes", name)
        for operation in operations
        for security in operation["security"]
        for name in security
    }
    unread: list[Any] = [paths]
    while unread:
        for group, name in _REFERENCE.findall(orjson.dumps(unread.pop()).decode()):
            if (group, name) not in found:
                found.add((group, name))
                unread.append(whole["components"][group][name])
    components = {
        group: {name: shape for name, shape in shapes.items() if (group, name) in found}
        for group, shapes in whole["components"].items()
    }
    return {
        **whole,
        "paths": paths,
        "tags": [tag for tag in whole["tags"] if tag["name"] in tags],
        "components": components,
    }
