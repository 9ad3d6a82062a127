"""Build the OpenAPI documents of all views: /openapi.json, and /openapi-admin.json for admins."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flask
import orjson
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from apispec.ext.marshmallow.common import resolve_schema_cls
from apispec.ext.marshmallow.openapi import OpenAPIConverter
from flask_smorest.spec import FlaskPlugin

from crmhub import __version__
from crmhub.api.http import addresses, flask_proxies
from crmhub.api.http.authentication import hub
from crmhub.api.http.document_components import PATH_PARAMETERS, add_components
from crmhub.api.http.document_samples import add_samples
from crmhub.api.http.document_schemas import name_for_kinds, reached, share_enums
from crmhub.api.http.documentation import operation
from crmhub.api.http.field_types import Joined
from crmhub.api.http.static_files import StaticFile

if TYPE_CHECKING:
    from crmhub.api.http.blueprint import Blueprint

PATHS: Mapping[str, str] = {"public": "/openapi.json", "admin": "/openapi-admin.json"}
"""Where each part of the document is served."""
# Each takes about a megabyte.
_MOST_FILES = 8
_TITLES = {"public": "crmhub API", "admin": "crmhub admin API"}
_DESCRIPTIONS = {
    "public": "The hub between chatbots and integrators and the CRMs: the public API for contacts,"
    " deals, companies and tickets, and the webhook helpers for chatbot builders.\n\n"
    "The public API takes an API key of the account in the header `service-apikey`. Helpers are"
    " called without a key; the id in their path stands for the account.\n\n"
    "Every error has the same body, the schema `Error`.",
    "admin": "For operators: accounts, their keys, their CRM, and what helpers have accepted.\n\n"
    "Every request takes an admin token as `Authorization: Bearer …`;"
    " `crmhub admin token create` makes one.\n\n"
    "Every error has the same body, the schema `Error`.",
}

# `python -m tests.made_examples` records it, from the hub's own answers.
_EXAMPLES = Path(__file__).with_name("examples.json")
_JSON = "application/json"
# Of query parameters, by name; an empty cursor is the first page.
_QUERY: dict[str, Any] = {
    "limit": 20,
    "cursor": "",
    "sort": "createdAt",
    "order": "asc",
    "updatedSince": "2026-11-01T00:00:00.000Z",
    "createdSince": "2026-11-01T00:00:00+01:00",
}
# Of the parameter `properties`, by tag.
_PROPERTIES = {
    "contacts": ["email", "firstname"],
    "companies": ["name", "domain"],
    "deals": ["dealname", "amount"],
    "tickets": ["subject", "content"],
}


class Document:
    """The OpenAPI descriptions of all views, served in two documents (PATHS)."""

    def __init__(self, app: flask.Flask) -> None:
        self._app = app
        self._blueprints: list[Blueprint] = []
        self._written: dict[str, bytes] = {}
        self._files: dict[tuple[str, str], StaticFile] = {}
        pages = flask.Blueprint("api-docs", __name__)
        for part, path in PATHS.items():
            pages.add_url_rule(path, f"openapi_json_{part}", self.view(part))
        app.register_blueprint(pages)

    def register_blueprint(self, blueprint: Blueprint) -> None:
        self._app.register_blueprint(blueprint)
        self._blueprints.append(blueprint)

    def view(self, part: str, server: str = "") -> Callable[[], flask.Response]:
        """`server`: the service's address in the document, "" for the one that the caller used."""

        def openapi_json() -> flask.Response:
            return self._file(part, server or _server()).response(flask.request)

        return openapi_json

    def _file(self, part: str, server: str) -> StaticFile:
        # Made once for each address: callers may make up many of them.
        key = (part, server)
        found = self._files.get(key)
        if found is None:
            if part not in self._written:
                self._written[part] = orjson.dumps(self._document(part))
            if len(self._files) >= _MOST_FILES:
                self._files.clear()
            servers = orjson.dumps({"servers": [{"url": server}]})
            text = servers[:-1] + b"," + self._written[part][1:]
            found = self._files[key] = StaticFile.of(text, "application/json")
        return found

    def _document(self, part: str) -> dict[str, Any]:
        # A copy, since what follows changes it.
        whole = deepcopy(self._described().to_dict())
        name_for_kinds(whole)
        _add_examples(whole)
        add_samples(whole)
        share_enums(whole)
        found = _part_of(whole, part)
        found["info"] = {
            "title": _TITLES[part],
            "version": __version__,
            "description": _DESCRIPTIONS[part],
            "contact": {"name": "The operator of this hub"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        }
        return found

    def _described(self) -> APISpec:
        """Takes as long as the rest of the app, so it is made for the first request."""
        schemas = MarshmallowPlugin(schema_name_resolver=_schema_name)
        schemas.Converter = _Schemas
        spec = APISpec("crmhub", __version__, "3.1.0", plugins=[_Paths(), schemas])
        converter: Any = schemas.converter
        converter.add_parameter_attribute_function(_joined_by_commas)
        add_components(spec)
        for blueprint in self._blueprints:
            self._describe(spec, blueprint)
        return spec

    def _describe(self, spec: APISpec, blueprint: Blueprint) -> None:
        for route in blueprint.routes:
            rule = next(self._app.url_map.iter_rules(f"{blueprint.name}.{route.endpoint}"))
            path = FlaskPlugin.flaskpath2openapi(rule.rule)
            operations = {
                method.lower(): operation(
                    route.view, method.lower(), path=path, tag=blueprint.tag_of(path)
                )
                for method in route.methods
            }
            parameters = [dict(each) for each in route.parameters]
            spec.path(rule=rule, operations=operations, parameters=parameters)
        for name, description in blueprint.tags.items():
            spec.tag({"name": name, "description": description})


def _server() -> str:
    settings, request = hub().settings, flask_proxies.request()
    if settings.public_url:
        return settings.public_url.rstrip("/")
    scheme = "https" if addresses.is_https(request, settings.trusted_proxies) else "http"
    host = request.host
    if scheme == "http" and host.partition(":")[0] == "localhost":
        # Node.js may take localhost for ::1, where the service does not listen by default.
        host = "127.0.0.1" + host.removeprefix("localhost")
    return f"{scheme}://{host}"


class _Schemas(OpenAPIConverter):
    def schema2jsonschema(self, schema: Any) -> dict[str, Any]:
        least, any_of = getattr(schema, "least_fields", 0), getattr(schema, "any_of_fields", ())
        shape: dict[str, Any] = super().schema2jsonschema(schema)  # type: ignore[no-untyped-call]
        shape |= {"minProperties": least} if least else {}
        return shape | ({"anyOf": [{"required": [name]} for name in any_of]} if any_of else {})


class _Paths(FlaskPlugin):
    def rule_to_params(self, rule: Any) -> list[dict[str, Any]]:
        return [
            {**found, **PATH_PARAMETERS.get(found["name"], {})}
            for found in super().rule_to_params(rule)
        ]


def _joined_by_commas(_converter: Any, field: Any, **_: Any) -> dict[str, Any]:
    return {"style": "form", "explode": False} if isinstance(field, Joined) else {}


def _schema_name(schema: Any) -> str:
    found: Any = resolve_schema_cls(schema)
    name: str = vars(found).get("document_name", found.__name__)
    return name.removesuffix("Schema").removesuffix("Shown")


def _part_of(whole: dict[str, Any], part: str) -> dict[str, Any]:
    paths = {
        path: operations
        for path, operations in whole["paths"].items()
        if path.startswith("/admin/") == (part == "admin")
    }
    operations = [
        operation
        for item in paths.values()
        for operation in item.values()
        if isinstance(operation, dict)
    ]
    tags = {tag for operation in operations for tag in operation["tags"]}
    found = {*reached(paths, whole["components"])}
    found |= {
        ("securitySchemes", name)
        for operation in operations
        for security in operation["security"]
        for name in security
    }
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


def _add_examples(document: dict[str, Any]) -> None:
    examples: dict[str, dict[str, Any]] = json.loads(_EXAMPLES.read_text("utf-8"))
    for item in document["paths"].values():
        for described in (item, *item.values()):
            if not isinstance(described, dict):
                continue
            example = examples.get(described.get("operationId", ""), {})
            if "request" in example:
                described["requestBody"]["content"][_JSON]["example"] = example["request"]
            if "answer" in example:
                answers = {str(example["status"]): example["answer"], **example.get("others", {})}
                for status, answer in answers.items():
                    described["responses"][status]["content"][_JSON]["example"] = answer
            for parameter in described.get("parameters", ()):
                schema, name = parameter["schema"], parameter["name"]
                if "example" not in parameter and parameter["in"] == "path" and "enum" in schema:
                    parameter["example"] = schema["enum"][0]
                if parameter["in"] == "query" and name in _QUERY:
                    parameter.setdefault("example", _QUERY[name])
                if parameter["in"] == "query" and name == "properties":
                    parameter["example"] = _PROPERTIES[described["tags"][0]]
