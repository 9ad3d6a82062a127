"""The examples of the OpenAPI document: requests, and what the hub answers to them.

`python -m tests.made_examples` sends the requests and writes examples.json; a test fails when the
hub answers otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("examples.json")
_JSON = "application/json"
# Of query parameters, by name; an empty cursor is the first page.
_QUERY: dict[str, Any] = {"limit": 20, "cursor": "", "sort": "createdAt", "order": "asc"}
# Of the parameter `properties`, by tag.
_PROPERTIES = {
    "contacts": ["email", "firstname"],
    "companies": ["name", "domain"],
    "deals": ["dealname", "amount"],
    "tickets": ["subject", "content"],
}


def add_examples(document: dict[str, Any]) -> None:
    """Add examples: to the JSON body and the answer of each operation, and to its parameters."""
    examples: dict[str, dict[str, Any]] = json.loads(_FILE.read_text("utf-8"))
    for item in document["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict) and (
                example := examples.get(operation.get("operationId", ""))
            ):
                _add(operation, example)

    for item in document["paths"].values():
        for operation in (item, *item.values()):
            if isinstance(operation, dict):
                _add_to_parameters(operation)


def _add_to_parameters(operation: dict[str, Any]) -> None:
    for parameter in operation.get("parameters", ()):
        schema, name = parameter["schema"], parameter["name"]
        if "example" not in parameter and parameter["in"] == "path" and "enum" in schema:
            parameter["example"] = schema["enum"][0]
        if parameter["in"] == "query" and name in _QUERY:
            parameter.setdefault("example", _QUERY[name])
        if parameter["in"] == "query" and name == "properties":
            parameter["example"] = _PROPERTIES[operation["tags"][0]]


def _add(operation: dict[str, Any], example: dict[str, Any]) -> None:
    if "request" in example:
        operation["requestBody"]["content"][_JSON]["example"] = example["request"]
    if "answer" in example:
        answers = {str(example["status"]): example["answer"], **example.get("others", {})}
        for status, answer in answers.items():
            operation["responses"][status]["content"][_JSON]["example"] = answer
