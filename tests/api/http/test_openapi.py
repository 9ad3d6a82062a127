"""What /openapi.json promises: a valid document of every endpoint, and nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import flask
import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from tests.api.endpoints import Endpoint, endpoints

Schema = dict[str, Any]
METHODS = {"get", "put", "post", "delete", "patch"}
DOCUMENTED_APART = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/console",
    # The Model Context Protocol describes itself, by tools/list.
    "/mcp",
    "/bootstrap/static/",
)


@pytest.fixture
def document(app: flask.Flask) -> Schema:
    answer = app.test_client().get("/openapi.json")
    assert (answer.status_code, answer.mimetype) == (200, "application/json")
    found: Schema = answer.get_json()
    return found


def operations(document: Schema) -> Iterator[tuple[str, str, Schema]]:
    """Yield path, method and operation."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method in METHODS:
                yield path, method, operation


def responses(document: Schema) -> Iterator[tuple[str, str, Schema]]:
    """Yield the operation's id, the status and the response."""
    for _, _, operation in operations(document):
        for status, response in operation["responses"].items():
            yield operation["operationId"], status, followed(document, response)


def followed(document: Schema, thing: Schema) -> Schema:
    """Return what a reference points to, or the thing itself."""
    if "$ref" in thing:
        _, kind, name = thing["$ref"].removeprefix("#/").split("/")
        found: Schema = document["components"][kind][name]
        return found
    return thing


def everything(node: Any, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield every object of the document with its path."""
    if isinstance(node, dict):
        yield path, node
        for key, child in node.items():
            yield from everything(child, f"{path}/{key}")
    if isinstance(node, list):
        for i, child in enumerate(node):
            yield from everything(child, f"{path}/{i}")


def test_it_is_valid_openapi_3_1(document: Schema) -> None:
    assert document["openapi"].startswith("3.1.")
    assert [str(each) for each in OPENAPI_31_VALIDATOR.iter_errors(document)] == []


def test_every_schema_is_valid_json_schema(document: Schema) -> None:
    schemas = [
        *document["components"]["schemas"].values(),
        *(node["schema"] for _, node in everything(document["paths"]) if "schema" in node),
    ]
    for schema in schemas:
        jsonschema_rs.meta.validate(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
        )


def test_every_reference_leads_somewhere_and_every_component_is_used(document: Schema) -> None:
    used = {node["$ref"] for _, node in everything(document) if isinstance(node.get("$ref"), str)}
    given = {
        f"#/components/{kind}/{name}"
        for kind, components in document["components"].items()
        if kind != "securitySchemes"
        for name in components
    }
    assert used == given


def test_every_endpoint_is_in_the_document_and_nothing_else(
    app: flask.Flask, document: Schema
) -> None:
    served = {
        (each.documented_path, each.method.lower())
        for each in endpoints(app)
        if each.rule != "/" and not each.rule.startswith(DOCUMENTED_APART)
    }
    assert {(path, method) for path, method, _ in operations(document)} == served


def test_every_public_path_is_of_the_api_or_a_helper(app: flask.Flask) -> None:
    def known(endpoint: Endpoint) -> bool:
        apart = endpoint.rule.startswith((*DOCUMENTED_APART, "/admin/"))
        return endpoint.of_api or endpoint.of_helper or apart or endpoint.rule == "/"

    assert [each for each in endpoints(app) if not known(each)] == []


def test_every_operation_has_an_id_of_its_own(document: Schema) -> None:
    ids = Counter(operation["operationId"] for _, _, operation in operations(document))
    assert [id for id, n in ids.items() if n > 1] == []
    assert [id for id in ids if not re.fullmatch(r"[a-z][A-Za-z]*", id)] == []


def test_every_operation_has_a_summary_and_a_tag_that_is_described(document: Schema) -> None:
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    for _, _, operation in operations(document):
        assert operation["summary"]
        assert [tags[tag] for tag in operation["tags"]]


def test_every_operation_says_who_may_call_it(document: Schema) -> None:
    for path, _, operation in operations(document):
        if path.startswith("/{client_id}/api/v1/"):
            assert operation["security"] == [{"ApiKey": []}], path
        elif path.startswith("/admin/v1/"):
            assert operation["security"] == [{"AdminToken": []}], path
            assert operation["tags"] == ["Admin"], path
        else:
            # Without anything, since builders cannot log in; with the secret where it is demanded.
            assert {} in operation["security"], path
    schemes = document["components"]["securitySchemes"]
    assert schemes["ApiKey"] == {"type": "apiKey", "in": "header", "name": "service-apikey"}
    assert schemes["AdminToken"] == {"type": "http", "scheme": "bearer"}
    assert schemes["WebhookSecret"]["name"] == "X-Webhook-Secret"


def test_every_part_of_a_path_is_described(document: Schema) -> None:
    for path, item in document["paths"].items():
        described = {each["name"]: each for each in item.get("parameters", ())}
        assert set(described) == set(re.findall(r"{(\w+)}", path))
        for parameter in described.values():
            assert parameter["required"], path
            assert parameter["description"], (path, parameter["name"])
            assert parameter["schema"].get("type"), (path, parameter["name"])


def test_every_query_parameter_is_described(document: Schema) -> None:
    for path, _, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], (path, parameter["name"])
            if parameter["schema"]["type"] == "array":
                assert (parameter["style"], parameter["explode"]) == ("form", False)


def test_bodies_and_answers_have_names(document: Schema) -> None:
    for path, node in everything(document["paths"]):
        if path.endswith("/content/application~1json") or "/content/" not in path:
            continue
        schema = node.get("schema")
        if schema is not None:
            named = schema.get("items", schema) if schema.get("type") == "array" else schema
            assert "$ref" in named, path


def test_every_error_is_the_one_error(document: Schema) -> None:
    errors = 0
    for id, status, response in responses(document):
        if status.startswith("2"):
            continue
        errors += 1
        schema = response["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/Error"}, (id, status)
    assert errors > 500
    error = document["components"]["schemas"]["Error"]
    assert set(error["required"]) == {"category", "message", "timestamp", "status"}
    assert error["additionalProperties"] is False
    assert error["properties"]["status"]["enum"] == ["error"]
    assert set(error["properties"]["category"]["enum"]) == {
        "BadRequestError",
        "UnauthorizedError",
        "LimitExceededError",
        "ForbiddenError",
        "NotFoundError",
        "ConflictError",
        "SemanticError",
        "ManyRequestError",
        "InternalError",
    }


def test_every_operation_names_the_errors_it_can_answer(document: Schema) -> None:
    for path, method, operation in operations(document):
        named = set(operation["responses"])
        assert {"400", "401", "429", "500", "503"} <= named, (path, method)
        if path.startswith(("/{client_id}/", "/admin/")):
            assert "403" in named, (path, method)
        if "requestBody" in operation:
            assert {"413", "422"} <= named, (path, method)


def test_every_answer_names_its_headers(document: Schema) -> None:
    for id, status, response in responses(document):
        headers = response["headers"]
        assert "X-Request-Id" in headers, (id, status)
        if status in ("429", "503"):
            assert "Retry-After" in headers, (id, status)
    for path, _, operation in operations(document):
        if path.startswith("/{client_id}/api/v1/"):
            for response in operation["responses"].values():
                headers = followed(document, response)["headers"]
                assert {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} <= set(headers)


def test_the_limits_of_the_specification_are_in_it(document: Schema) -> None:
    parameters = document["paths"]["/{client_id}/api/v1/contacts"]["get"]["parameters"]
    schemas = {each["name"]: each["schema"] for each in parameters}
    assert {k: schemas["limit"][k] for k in ("minimum", "maximum", "default")} == {
        "minimum": 1,
        "maximum": 100,
        "default": 20,
    }
    assert schemas["sort"]["default"] == "date_modified"
    assert set(schemas["sort"]["enum"]) == {
        "date_modified",
        "date_added",
        "createdAt",
        "updatedAt",
    }
    assert (schemas["order"]["default"], set(schemas["order"]["enum"])) == ("desc", {"desc", "asc"})
    components = document["components"]["schemas"]
    assert len(components["FilterInput"]["properties"]["operator"]["enum"]) == 12
    assert components["SearchInput"]["properties"]["filters"]["maxItems"] == 50
    assert components["FilterInput"]["properties"]["values"]["maxItems"] == 500
    assert components["BatchCreate"]["properties"]["inputs"]["maxItems"] == 100


def test_the_document_needs_no_key_and_stays_the_same(app: flask.Flask) -> None:
    http = app.test_client()
    assert http.get("/openapi.json").data == http.get("/openapi.json").data
