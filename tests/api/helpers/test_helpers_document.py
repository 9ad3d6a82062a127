"""The helpers in the OpenAPI document: what is answered is what is described."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from crmhub.api.helpers.answers import FORMATS
from crmhub.api.helpers.schemas import SHAPES
from tests.api.helpers.helper_calls import (
    BODIES,
    CREATE_DEAL,
    CREATE_LEAD,
    CREATE_TICKET,
    GET_PROPERTIES,
    SET_PROPERTIES,
    body_for,
)
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


def test_every_helper_has_its_name_and_says_what_may_identify_the_account(
    app: flask.Flask,
) -> None:
    found = {}
    for methods, _ in _operations(app).values():
        operation = methods["post"]
        # Builders cannot log in, so a generated client needs no credentials.
        assert operation["security"] == []
        headers = {each["name"] for each in operation["parameters"] if each["in"] == "header"}
        found[operation["operationId"]] = headers - {"Idempotency-Key"}
    secret, any_of = {"X-Webhook-Secret"}, {"X-Webhook-Secret", "service-apikey"}
    assert found == {
        "createLead": secret,
        "getProperties": any_of,
        "getPropertiesOfAccount": any_of,
        "setProperties": any_of,
        "setPropertiesOfAccount": any_of,
        "getType": secret,
        "getRandomInt": set(),
        "getRandomIntOfAccount": secret,
        "createDealForContact": secret,
        "createTicketForContact": secret,
        "addNote": secret,
        "addNoteById": secret,
        "createTaskForContact": secret,
        "assignOwner": secret,
    }


def test_every_form_of_an_answer_is_described(app: flask.Flask) -> None:
    assert ["flat", *SHAPES] == list(FORMATS)
    for methods, document in _operations(app).values():
        [form] = [each for each in methods["post"]["parameters"] if each["name"] == "format"]
        assert form["schema"] == {"$ref": "#/components/schemas/AnswerFormat"}
        assert document["components"]["schemas"]["AnswerFormat"]["enum"] == list(FORMATS)


@pytest.mark.databases("sqlite")
def test_an_answer_has_the_keys_that_are_described(app: flask.Flask, client: Client) -> None:
    for path in list(BODIES):
        described = path.format(generated="{generated_id}", portal="{portal_id}")
        methods, document = _operations(app)[described]
        content = methods["post"]["responses"]["200"]["content"]["application/json"]
        name = content["schema"]["oneOf"][0]["$ref"].rpartition("/")[2]
        schema = document["components"]["schemas"][name]
        answer = client.helper(path, body_for(client, path)).json
        assert set(schema["required"]) <= set(answer), path  # type: ignore[arg-type]
        if path != GET_PROPERTIES:
            assert set(answer) <= set(schema["properties"]), path  # type: ignore[arg-type]


@pytest.mark.databases("sqlite")
def test_a_body_is_described_as_json_alone(app: flask.Flask) -> None:
    """A client has one function for each helper; forms are taken all the same."""
    for path in list(BODIES):
        described = path.format(generated="{generated_id}", portal="{portal_id}")
        methods, document = _operations(app)[described]
        content = methods["post"]["requestBody"]["content"]
        assert set(content) == {"application/json"}, path
        name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert set(document["components"]["schemas"][name]["properties"]) >= set(BODIES[path])


@pytest.mark.databases("sqlite")
def test_a_helper_that_writes_may_be_queued_and_takes_an_idempotency_key(app: flask.Flask) -> None:
    for path in list(BODIES):
        described = path.format(generated="{generated_id}", portal="{portal_id}")
        methods, _ = _operations(app)[described]
        responses, taken = methods["post"]["responses"], methods["post"].get("parameters", [])
        keys = [
            each for each in taken if (each["in"], each["name"]) == ("header", "Idempotency-Key")
        ]
        if path not in (CREATE_LEAD, SET_PROPERTIES, CREATE_DEAL, CREATE_TICKET):
            assert "202" not in responses, path
            assert keys == [], path
            return
        queued, done = (responses[status]["content"] for status in ("202", "200"))
        assert queued["application/json"]["schema"] == done["application/json"]["schema"], path
        assert "Idempotent-Replayed" in responses["200"]["headers"], path
        assert responses["202"]["headers"] == responses["200"]["headers"], path
        assert len(keys) == 1, path
