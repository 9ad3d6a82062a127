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


def add_examples(document: dict[str, Any]) -> None:
    """Add the example of each operation that has one: to its JSON body, and to its answers."""
    examples: dict[str, dict[str, Any]] = json.loads(_FILE.read_text("utf-8"))
    for item in document["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict) and (
                example := examples.get(operation.get("operationId", ""))
            ):
                _add(operation, example)


def _add(operation: dict[str, Any], example: dict[str, Any]) -> None:
    if "request" in example:
        operation["requestBody"]["content"][_JSON]["example"] = example["request"]
    if "answer" in example:
        answers = {str(example["status"]): example["answer"], **example.get("others", {})}
        for status, answer in answers.items():
            operation["responses"][status]["content"][_JSON]["example"] = answer
