"""The helpers in the OpenAPI document: what is answered is what is described."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from tests.api.helper_calls import BODIES, GET_PROPERTIES, body_for
from tests.clients import Client


def _operations(app: flask.Flask) -> dict[str, Any]:
    document = app.test_client().get("/openapi.json").json
    assert document is not None
    prefixes = ("/chatbot/", "/crm-api-interface/")
    return {
        path: (methods, document)
        for path, methods in document["paths"].items()
        if path.startswith(prefixes)
    }


def test_every_helper_has_its_name_and_its_security(app: flask.Flask) -> None:
    found = {}
    for methods, _ in _operations(app).values():
        [operation] = [each for method, each in methods.items() if method != "parameters"]
        found[operation["operationId"]] = [list(each) for each in operation["security"]]
    by_path = [[], ["WebhookSecret"]]
    assert found == {
        "createLead": by_path,
        "getProperties": [*by_path, ["ApiKey"]],
        "getPropertiesOfAccount": [*by_path, ["ApiKey"]],
        "setProperties": [*by_path, ["ApiKey"]],
        "setPropertiesOfAccount": [*by_path, ["ApiKey"]],
        "getType": by_path,
        "getRandomInt": [[]],
        "getRandomIntOfAccount": by_path,
        "createDealForContact": by_path,
        "createTicketForContact": by_path,
    }


@pytest.mark.parametrize("path", list(BODIES))
def test_an_answer_has_the_keys_that_are_described(
    app: flask.Flask, client: Client, path: str
) -> None:
    described = path.format(generated="{generated_id}", portal="{portal_id}")
    methods, document = _operations(app)[described]
    content = methods["post"]["responses"]["200"]["content"]["application/json"]
    name = content["schema"]["$ref"].rpartition("/")[2]
    schema = document["components"]["schemas"][name]
    answer = client.helper(path, body_for(client, path)).json
    assert set(schema["required"]) <= set(answer)  # type: ignore[arg-type]
    if path != GET_PROPERTIES:
        assert set(answer) <= set(schema["properties"])  # type: ignore[arg-type]


@pytest.mark.parametrize("path", list(BODIES))
def test_a_body_is_described_as_json_and_as_a_form(app: flask.Flask, path: str) -> None:
    described = path.format(generated="{generated_id}", portal="{portal_id}")
    methods, document = _operations(app)[described]
    content = methods["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", "application/x-www-form-urlencoded"}
    for media in content.values():
        name = media["schema"]["$ref"].rpartition("/")[2]
        assert set(document["components"]["schemas"][name]["properties"]) >= set(BODIES[path])
