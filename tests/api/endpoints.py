"""Every endpoint of the running application, so that a new one is tested without being named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import flask

from crmhub.api.http.document import PATHS
from tests.clients import Client

Schema = Mapping[str, Any]
Json = Any

# Methods that a server may pass on, beside one that nobody has ever heard of.
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW")
_PLACEHOLDER = re.compile(r"<(?:[^<>:]+:)?([^<>]+)>")
_API = "/<client_id>/api/v1"
_ADMIN = "/admin/v1"
_CONSOLE = "/console"
_HELPERS = ("/chatbot/", "/crm-api-interface/")
# What stands in a path beside the account's ids and what the document lists; a new name gets `1`.
_USUAL = {"name": "firstname", "path": "index.css"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method and a path of the url map, with what the document says of it."""

    method: str
    rule: str
    operation: Schema = field(default_factory=dict, hash=False, compare=False)
    path_parameters: list[Schema] = field(default_factory=list, hash=False, compare=False)
    document: Schema = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.method} {self.rule}"

    @property
    def of_api(self) -> bool:
        return self.rule.startswith(_API)

    @property
    def of_admin(self) -> bool:
        return self.rule.startswith(_ADMIN)

    @property
    def of_console(self) -> bool:
        return self.rule.startswith(_CONSOLE)

    @property
    def of_helper(self) -> bool:
        return self.rule.startswith(_HELPERS)

    @property
    def of_agents(self) -> bool:
        return self.rule == "/mcp"

    @property
    def documented_path(self) -> str:
        """The path as OpenAPI writes it."""
        return _PLACEHOLDER.sub(r"{\1}", self.rule)

    @property
    def placeholders(self) -> list[str]:
        return _PLACEHOLDER.findall(self.rule)

    def path(self, client: Client, **given: str) -> str:
        """Return the path for this caller; `given` replaces single parts, percent-encoded."""
        listed = {
            each["name"]: resolved(each["schema"], self.document).get("enum")
            for each in self.path_parameters
        }
        values = {
            **_USUAL,
            **{name: words[0] for name, words in listed.items() if words},
            "client_id": client.account.client_id,
            "generated_id": client.ids.generated_id,
            "portal_id": client.ids.portal_id,
            **given,
        }
        return _PLACEHOLDER.sub(lambda match: values.get(match[1], "1"), self.rule)

    @property
    def body_schema(self) -> Schema | None:
        """What the document says of the JSON body; None when the endpoint takes none."""
        content = self.operation.get("requestBody", {}).get("content", {})
        if "application/json" not in content:
            return None
        return resolved(content["application/json"]["schema"], self.document)

    @property
    def query_parameters(self) -> list[Schema]:
        return [each for each in self.operation.get("parameters", ()) if each["in"] == "query"]


def whole_document(app: flask.Flask) -> dict[str, Any]:
    """Return the OpenAPI documents of all parts as one."""
    parts = [app.test_client().get(path).get_json() for path in PATHS.values()]
    whole: dict[str, Any] = {**parts[0], "paths": {}, "tags": [], "components": {}}
    for part in parts:
        whole["paths"] |= part["paths"]
        whole["tags"] += part["tags"]
        for group, shapes in part["components"].items():
            whole["components"].setdefault(group, {}).update(shapes)
    return whole


def endpoints(app: flask.Flask) -> list[Endpoint]:
    """Return every method of every path of the application but HEAD and OPTIONS."""
    document = whole_document(app)
    found = []
    for rule in app.url_map.iter_rules():
        path = document["paths"].get(_PLACEHOLDER.sub(r"{\1}", rule.rule), {})
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            operation = path.get(method.lower(), {})
            parameters = path.get("parameters", [])
            found.append(Endpoint(method, rule.rule, operation, parameters, document))
    return found


def resolved(schema: Schema, document: Schema) -> Schema:
    """Return the schema itself where it is a reference to one of the document's."""
    while "$ref" in schema:
        name = schema["$ref"].removeprefix("#/components/schemas/")
        schema = document["components"]["schemas"][name]
    return schema


def example(schema: Schema, document: Schema) -> Json:
    """Return a least value of the schema: the fewest fields, the smallest of everything."""
    schema = resolved(schema, document)
    if "enum" in schema:
        return schema["enum"][0]
    kind = types_of(schema)[0]
    if kind == "object":
        fields = schema.get("properties", {})
        required = schema.get("required", [])
        missing = max(0, schema.get("minProperties", 0) - len(required))
        others = [name for name in fields if name not in required][:missing]
        return {name: example(fields[name], document) for name in (*required, *others)}
    if kind == "array":
        return [example(schema["items"], document)] if "items" in schema else []
    return {"integer": schema.get("minimum", 1), "number": 1, "boolean": True, "null": None}.get(
        kind, "x"
    )


def types_of(schema: Schema) -> list[str]:
    """Return the JSON types that the schema takes; all of them when it names none."""
    given = schema.get("type", ["string", "number", "boolean", "null", "array", "object"])
    return [given] if isinstance(given, str) else list(given)


def fields_of(schema: Schema, document: Schema) -> Iterator[tuple[tuple[str | int, ...], Schema]]:
    """Yield the path and the schema of every field that `example` holds or could hold."""
    schema = resolved(schema, document)
    for name, inside in schema.get("properties", {}).items():
        yield (name,), resolved(inside, document)
        for path, deeper in fields_of(inside, document):
            yield (name, *path), deeper
    if types_of(schema)[0] == "array" and "items" in schema:
        yield (0,), resolved(schema["items"], document)
        for path, deeper in fields_of(schema["items"], document):
            yield (0, *path), deeper


def replaced(value: Json, path: tuple[str | int, ...], new: Json) -> Json:
    """Return the JSON value with `new` at `path`, which is made where it is missing."""
    if not path:
        return new
    first, *rest = path
    if isinstance(first, int):
        items = value if isinstance(value, list) and value else [None]
        return [replaced(items[0], tuple(rest), new), *items[1:]]
    fields = value if isinstance(value, dict) else {}
    return {**fields, first: replaced(fields.get(first), tuple(rest), new)}
