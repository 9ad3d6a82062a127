"""The examples of the OpenAPI document are what the hub really takes and answers."""

from __future__ import annotations

import json

import flask
import jsonschema_rs
import pytest

from tests import made_examples
from tests.api.endpoints import whole_document

pytestmark = pytest.mark.databases("sqlite")


def test_the_hub_answers_as_the_examples_say() -> None:
    assert made_examples.record() == json.loads(made_examples.FILE.read_text("utf-8")), (
        "python -m tests.made_examples writes them anew"
    )


def test_examples_fit_the_document(app: flask.Flask) -> None:
    document = whole_document(app)
    shown = 0
    for item in document["paths"].values():
        for operation in item.values():
            if not isinstance(operation, dict):
                continue
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for body in bodies:
                content = body.get("content", {}).get("application/json", {})
                if "example" in content:
                    schema = {**content["schema"], "components": document["components"]}
                    assert not list(jsonschema_rs.iter_errors(schema, content["example"])), (
                        operation["operationId"]
                    )
                    shown += 1
    assert shown > 100
