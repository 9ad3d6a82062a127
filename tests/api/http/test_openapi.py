"""What the OpenAPI documents promise: they describe every endpoint, and nothing else.

`/openapi.json` is about the public API and the helpers, `/openapi-admin.json` about the admin API.
The rules hold for every operation that there is, so that a new one is held against them, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import flask
import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from crmhub.api.http.document import PATHS
from crmhub.api.http.document_schemas import name_for_kinds
from crmhub.api.http.documentation import written_descriptions
from crmhub.properties.kinds import KINDS
from tests.api.endpoints import Endpoint, endpoints, whole_document

# The document has nothing to do with the database.
pytestmark = pytest.mark.databases("sqlite")

Schema = dict[str, Any]
METHODS = {"get", "put", "post", "delete", "patch"}
DOCUMENTED_APART = (
    "/healthz",
    "/readyz",
    "/metrics",
    *PATHS.values(),
    "/docs",
    "/console",
    # The Model Context Protocol describes itself, by tools/list.
    "/mcp",
    # The CRM's own webhooks.
    "/crm-changes",
    "/bootstrap/static/",
)


# The first words of operation ids, by method. The last word of a path may be one as well.
VERBS = {
    "get": {"get", "list", "preview"},
    "post": {"create", "search", "read", "update", "upsert", "archive", "set", "get", "preview"}
    | {"test", "replay", "assign", "add"},
    "put": {"set", "associate", "enrol"},
    "patch": {"update"},
    "delete": {"delete", "archive", "revoke", "dissociate", "unenrol"},
}


@pytest.fixture
def document(app: flask.Flask) -> Schema:
    """Both documents as one."""
    return whole_document(app)


@pytest.fixture(params=PATHS)
def part(app: flask.Flask, request: pytest.FixtureRequest) -> Schema:
    """Each document in turn."""
    answer = app.test_client().get(PATHS[request.param])
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


def test_it_is_valid_openapi_3_1(part: Schema) -> None:
    assert part["openapi"].startswith("3.1.")
    assert [str(each) for each in OPENAPI_31_VALIDATOR.iter_errors(part)] == []


def test_every_schema_is_valid_json_schema(part: Schema) -> None:
    schemas = [
        *part["components"]["schemas"].values(),
        *(node["schema"] for _, node in everything(part["paths"]) if "schema" in node),
    ]
    for schema in schemas:
        jsonschema_rs.meta.validate(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
        )


def test_every_reference_leads_somewhere_and_every_component_is_used(part: Schema) -> None:
    used = {node["$ref"] for _, node in everything(part) if isinstance(node.get("$ref"), str)}
    given = {
        f"#/components/{kind}/{name}"
        for kind, components in part["components"].items()
        # These are named by `security`.
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


def test_an_operation_id_is_a_verb_and_a_noun(document: Schema) -> None:
    for path, method, operation in operations(document):
        id = operation["operationId"]
        parts = re.fullmatch(r"([a-z]+)(?:[A-Z][a-z]+)+", id)
        assert parts, id
        last = path.rpartition("/")[2]
        assert parts[1] in VERBS[method] | {last}, id


def test_an_operation_id_of_records_names_their_kind(document: Schema) -> None:
    for _, _, operation in operations(document):
        if (kind := KINDS.get(operation["tags"][0])) is not None:
            names = (kind.singular.capitalize(), kind.name.capitalize())
            assert operation["operationId"].endswith(names)


def test_every_operation_has_a_summary_and_a_tag_that_is_described(document: Schema) -> None:
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    for _, _, operation in operations(document):
        assert operation["summary"]
        assert len(operation["description"]) > 30, operation["operationId"]
        assert [tags[tag] for tag in operation["tags"]]


def test_no_description_is_of_an_operation_that_is_not(document: Schema) -> None:
    """A forgotten one would stay in the file for ever."""
    ids = {operation["operationId"] for _, _, operation in operations(document)}
    assert written_descriptions().keys() - ids == set()


def test_every_operation_has_examples_of_what_is_sent_and_answered(document: Schema) -> None:
    for path, method, operation in operations(document):
        id = operation["operationId"]
        for parameter in document["paths"][path].get("parameters", ()):
            assert "example" in parameter, (path, parameter["name"])
        bodies = [operation[name] for name in ("requestBody",) if name in operation]
        bodies += [each for s, each in operation["responses"].items() if s in ("200", "201")]
        assert method == "get" or bodies or "204" in operation["responses"], id
        for body in bodies:
            assert "example" in body["content"]["application/json"], id


def test_no_parameter_has_a_default_where_a_cursor_decides(document: Schema) -> None:
    decided = {"limit", "sort", "order", "include", "properties", "cursor"}
    for path, _, operation in operations(document):
        names = {each["name"] for each in operation.get("parameters", ())}
        for parameter in operation.get("parameters", ()):
            if "cursor" in names:
                assert "default" not in parameter["schema"], (path, parameter["name"])
    for name, schema in document["components"]["schemas"].items():
        fields = schema.get("properties", {})
        if "cursor" in fields:
            for field in decided & fields.keys():
                assert "default" not in fields[field], (name, field)


def test_every_body_is_json(document: Schema) -> None:
    for path, node in everything(document):
        if "content" in node and not path.endswith(("properties", "example")):
            assert list(node["content"]) == ["application/json"], path


def test_schemas_have_the_names_of_what_they_are(document: Schema) -> None:
    names = document["components"]["schemas"]
    assert [name for name in names if not re.fullmatch(r"(?:[A-Z][a-z]+)+", name)] == []
    assert [name for name in names if "Record" in name] == ["RecordKind"]
    for kind in KINDS.values():
        one = kind.singular.capitalize()
        assert {one, f"{one}Page", f"Listed{one}", f"Upserted{one}", f"{one}Input"} <= names.keys()
        answer = document["paths"][f"/{{client_id}}/api/v1/{kind.name}"]["post"]["responses"]["201"]
        schema = answer["content"]["application/json"]["schema"]
        assert schema == {"$ref": f"#/components/schemas/{one}"}


def test_a_schema_of_records_has_a_name_for_each_kind(document: Schema) -> None:
    """Also one that later versions add, and whose name does not contain `Record`."""
    found = {
        "paths": {
            "/contacts": {
                "post": {"tags": ["contacts"], "answer": {"$ref": "#/components/schemas/Partial"}}
            }
        },
        "components": {
            "schemas": {
                "Partial": {"items": {"$ref": "#/components/schemas/Record"}},
                "Record": {"type": "object"},
            }
        },
    }
    name_for_kinds(found)
    assert found["paths"]["/contacts"]["post"]["answer"] == {  # type: ignore[index]
        "$ref": "#/components/schemas/ContactPartial"
    }
    assert found["components"]["schemas"] == {
        "ContactPartial": {"items": {"$ref": "#/components/schemas/Contact"}},
        "Contact": {"type": "object"},
    }


@pytest.mark.parametrize(
    ("headers", "url"),
    [
        ({"Host": "hub.example.com"}, "http://hub.example.com"),
        ({"Host": "localhost:8080"}, "http://127.0.0.1:8080"),
        ({"Host": "[::1]:8080"}, "http://[::1]:8080"),
        # Nobody but a trusted proxy may say that.
        ({"Host": "hub.example.com", "X-Forwarded-Proto": "https"}, "http://hub.example.com"),
    ],
)
def test_the_server_is_the_one_that_was_asked(
    app: flask.Flask, headers: dict[str, str], url: str
) -> None:
    for path in PATHS.values():
        answer = app.test_client().get(path, headers=headers).get_json()
        assert answer["servers"] == [{"url": url}]


def test_the_server_is_the_public_address_where_it_is_set(
    app: flask.Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = app.extensions["crmhub"]
    public = replace(hub, settings=replace(hub.settings, public_url="https://hub.example.com/"))
    monkeypatch.setitem(app.extensions, "crmhub", public)
    answer = app.test_client().get("/openapi.json").get_json()
    assert answer["servers"] == [{"url": "https://hub.example.com"}]


def test_every_operation_says_who_may_call_it(document: Schema) -> None:
    for path, _, operation in operations(document):
        if path.startswith("/{client_id}/api/v1/"):
            assert operation["security"] == [{"ApiKey": []}], path
        elif path.startswith("/admin/v1/"):
            assert operation["security"] == [{"AdminToken": []}], path
            assert operation["tags"] == ["Admin"], path
        else:
            # Builders cannot log in.
            assert operation["security"] == [], path
    schemes = document["components"]["securitySchemes"]
    assert {"type": "apiKey", "in": "header", "name": "service-apikey"}.items() <= schemes[
        "ApiKey"
    ].items()
    assert {"type": "http", "scheme": "bearer"}.items() <= schemes["AdminToken"].items()


def test_every_part_of_a_path_is_described(document: Schema) -> None:
    for path, item in document["paths"].items():
        described = {each["name"]: each for each in item.get("parameters", ())}
        assert set(described) == set(re.findall(r"{(\w+)}", path))
        for parameter in described.values():
            assert parameter["required"], path
            assert parameter["description"], (path, parameter["name"])
            assert followed(document, parameter["schema"])["type"], (path, parameter["name"])


def test_every_query_parameter_is_described(document: Schema) -> None:
    for path, _, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], (path, parameter["name"])
            if parameter["schema"].get("type") == "array":
                assert (parameter["style"], parameter["explode"]) == ("form", False)


def test_bodies_and_answers_have_names(document: Schema) -> None:
    for path, node in everything(document["paths"]):
        if path.endswith("/content/application~1json") or "/content/" not in path:
            continue
        schema = node.get("schema")
        if schema is not None:
            # A batch has another answer with ?partial=true.
            for each in schema.get("oneOf", [schema]):
                named = each.get("items", each) if each.get("type") == "array" else each
                assert "$ref" in named, path


def test_every_error_is_the_one_error(document: Schema) -> None:
    errors = 0
    for id, status, response in responses(document):
        if status.startswith("2") or status == "304":
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
        "BadRequestError", "UnauthorizedError", "LimitExceededError", "ForbiddenError",
        "NotFoundError", "ConflictError", "SemanticError", "ManyRequestError", "InternalError",
    }  # fmt: skip


def test_every_operation_names_the_errors_it_can_answer(document: Schema) -> None:
    for path, method, operation in operations(document):
        named = set(operation["responses"])
        assert {"400", "429", "500", "503"} <= named, (path, method)
        # This helper is about no account.
        assert ("401" in named) == (operation["operationId"] != "getRandomInt")
        if path.startswith(("/{client_id}/", "/admin/")) and "Scope:" in operation["description"]:
            assert "403" in named, (path, method)
        if method == "get":
            assert not named & {"402", "409", "413"}, (path, method)
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
    assert (schemas["limit"]["minimum"], schemas["limit"]["maximum"]) == (1, 100)
    assert set(followed(document, schemas["sort"])["enum"]) == {
        "archivedAt",
        "date_modified",
        "date_added",
        "createdAt",
        "updatedAt",
    }
    assert set(followed(document, schemas["order"])["enum"]) == {"desc", "asc"}
    words = {each["name"]: each["description"] for each in parameters}
    assert "20" in words["limit"]
    assert "date_modified by default" in words["sort"]
    assert "desc by default" in words["order"]
    components = document["components"]["schemas"]
    assert len(components["FilterOperator"]["enum"]) == 12
    assert components["ContactSearch"]["properties"]["filters"]["maxItems"] == 50
    assert components["Filter"]["properties"]["values"]["maxItems"] == 500
    assert components["ContactBatchCreate"]["properties"]["inputs"]["maxItems"] == 100


def test_switches_of_a_query_are_booleans(document: Schema) -> None:
    found = {
        (parameter["name"], parameter["schema"]["type"])
        for _, _, operation in operations(document)
        for parameter in operation.get("parameters", ())
        if parameter["name"] in ("partial", "force")
    }
    assert found == {("partial", "boolean"), ("force", "boolean")}


def test_values_of_properties_are_strings(document: Schema) -> None:
    components = document["components"]["schemas"]
    maps = {
        f"{name}.{field}": shape["additionalProperties"]["type"]
        for name, schema in components.items()
        for field, shape in schema.get("properties", {}).items()
        if field in ("properties", "props") and "additionalProperties" in shape
    }
    assert {"Contact.properties", "DealInput.properties", "TicketChange.properties"} <= maps.keys()
    assert {"SetPropertiesInput.props", "NewForContactInput.properties"} <= maps.keys()
    assert set(maps.values()) == {"string"}, maps
    of_filters = components["Filter"]["properties"]
    # null counts as no value.
    assert of_filters["value"]["type"] == ["string", "null"]
    assert of_filters["values"]["items"]["type"] == "string"


def test_a_client_made_of_the_document_is_not_named_as_the_package_of_the_hub(
    document: Schema,
) -> None:
    """Generators name a client after the title: `crmhub` would be crmhub-client, as ours."""
    assert document["info"]["title"] in ("crmhub API", "crmhub admin API")


def test_the_document_needs_no_key_and_stays_the_same(app: flask.Flask) -> None:
    http = app.test_client()
    for path in PATHS.values():
        assert http.get(path).data == http.get(path).data
