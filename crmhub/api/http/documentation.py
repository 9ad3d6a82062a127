"""Build the OpenAPI document /openapi.json from the descriptions of all views."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import flask
import orjson
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from apispec.ext.marshmallow.common import resolve_schema_cls
from flask_smorest.spec import FlaskPlugin

from crmhub import __version__
from crmhub.api.field_types import Joined
from crmhub.api.http.authentication import HEADER, SECRET
from crmhub.api.http.document_parts import part_of
from crmhub.api.http.examples import add_examples
from crmhub.api.http.idempotency_key import HEADER as IDEMPOTENCY
from crmhub.api.http.idempotency_key import KEY, REPLAYED
from crmhub.api.http.static_files import StaticFile
from crmhub.api.schemas import HIGHEST_ID, ErrorSchema
from crmhub.properties.kinds import KINDS

if TYPE_CHECKING:
    from crmhub.api.http.reading import Blueprint

_F = TypeVar("_F", bound=Callable[..., Any])
Shape = Mapping[str, Any]

API_KEY: list[dict[str, list[str]]] = [{"ApiKey": []}]
ADMIN_TOKEN: list[dict[str, list[str]]] = [{"AdminToken": []}]

# The name and the description of the response of each status.
_ERRORS = {
    400: ("BadRequest", "Malformed request or invalid parameters"),
    401: ("Unauthorized", "Invalid or missing credentials"),
    402: ("LimitExceeded", "Plan limit reached"),
    403: ("Forbidden", "No permission for the resource"),
    404: ("NotFound", "Resource not found"),
    409: ("Conflict", "Conflict with the current state"),
    413: ("TooLarge", "Body larger than 1 MiB"),
    415: ("NotJson", "Body that does not say it is JSON, or is compressed"),
    422: ("Semantic", "Well-formed request with semantic errors"),
    429: ("TooManyRequests", "Rate limit exceeded"),
    500: ("Internal", "Internal server error"),
    503: ("Unavailable", "The hub or its database is away for now"),
}
_ANYWHERE = (400, 401, 403, 404, 429, 500, 503)
_OF_METHOD = {"get": (), "put": (409, 422), "delete": (409,)}
_OF_BODIES = (402, 409, 413, 415, 422)
# Errors that are stored under an Idempotency-Key.
_STORED = (400, 402, 404, 409, 415, 422)

_SECONDS = {"type": "integer", "minimum": 0}
_HEADERS: dict[str, Shape] = {
    "X-Request-Id": {
        "description": "Names the request in the hub's logs; yours, when you sent a good one.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
    },
    "RateLimit-Limit": {
        "description": "Requests that the window allows (under /api/v1).",
        "schema": {"type": "integer", "minimum": 1},
    },
    "RateLimit-Remaining": {
        "description": "Requests left in the window (under /api/v1).",
        "schema": {"type": "integer", "minimum": 0},
    },
    "RateLimit-Reset": {
        "description": "Seconds until the window gives something back (under /api/v1).",
        "schema": _SECONDS,
    },
    "Retry-After": {
        "description": "Seconds after which to try again.",
        "schema": {**_SECONDS, "minimum": 1},
    },
    "Location": {
        "description": "The path of the record that has the unique value already.",
        "schema": {"type": "string"},
    },
    "ETag": {
        "description": "The version of the record's properties, for If-Match.",
        "schema": {"type": "string", "pattern": '^"[0-9]+"$'},
    },
    REPLAYED: {
        "description": f"This is the first answer to the request with this {IDEMPOTENCY}, again.",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
_ALWAYS = ("X-Request-Id",)
_UNDER_API = ("X-Request-Id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")

IF_MATCH = {
    "in": "header",
    "name": "If-Match",
    "description": "Only when the record's ETag is one of these; else 409.",
    "required": False,
    "schema": {"type": "string", "pattern": r'^(\*|"[0-9]{1,9}"( *, *"[0-9]{1,9}")*)$'},
}

IDEMPOTENCY_KEY = {
    "in": "header",
    "name": IDEMPOTENCY,
    "description": "Names the request for 24 hours: sent again, it is not carried out again but"
    " answered as the first time, unless that was 429 or 5xx. Another request: 422. While the"
    " first one still runs: 409.",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": f"^{KEY}$"},
}

ID_OR_VALUE = {
    "in": "path",
    "name": "id",
    "description": "The record's id; with idProperty a value of that property, but for one that"
    ' holds a slash or is "search": that is read by batch/read.',
    "required": True,
    "schema": {"type": "string", "minLength": 1},
}

_ID = {"type": "integer", "minimum": 1, "maximum": HIGHEST_ID}
_ISSUED = {"type": "string", "minLength": 1, "maxLength": 64}
_PATH_PARAMETERS: dict[str, Shape] = {
    "client_id": {
        "description": "The account; in the public API the one that the key belongs to.",
        "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$"},
    },
    "id": {"description": "The record's id.", "schema": _ID},
    "to": {
        "description": "The kind of the records at the other end.",
        "schema": {"type": "string", "enum": list(KINDS)},
    },
    "to_id": {"description": "The id of the record at the other end.", "schema": _ID},
    "resource": {"description": "The kind of records."},
    "name": {"description": "The property's name."},
    "pipeline_id": {"description": "The pipeline's id."},
    "workflow_id": {"description": "The workflow's id, any text."},
    "contact_id": {"description": "The contact's id in the account's CRM."},
    "other_id": {"description": "The other contact's id in the account's CRM."},
    "key_id": {"description": "The key's id, which is no secret."},
    "adapter_name": {"description": "The adapter's name."},
    "action_id": {"description": "The action's id, as a helper answered it."},
    "generated_id": {"description": "The id issued for the account.", "schema": _ISSUED},
    "portal_id": {"description": "The id issued for the account.", "schema": _ISSUED},
}


@dataclass(frozen=True, slots=True)
class Documented:
    """The OpenAPI description of a view, as `documents` stores it in `view.documented`."""

    operation_id: str
    status: int
    schema: Any
    summary: str
    security: Sequence[dict[str, list[str]]]
    others: Mapping[int, str]
    headers: Sequence[str]
    parameters: Sequence[Shape]
    errors: Sequence[int]
    takes_key: bool
    body: Shape | None

    def responses(self) -> dict[int, dict[str, Any]]:
        """Return the OpenAPI objects of all answers except errors, by status."""
        words = {self.status: self.summary, **self.others}
        return {status: self._response(words[status]) for status in words}

    def _response(self, words: str) -> dict[str, Any]:
        shape: dict[str, Any] = {"description": words, "headers": _headers(self.headers)}
        if self.schema is not None:
            shape["content"] = {"application/json": {"schema": self.schema}}
        return shape


class Document:
    """The OpenAPI document of all views, served at /openapi.json."""

    def __init__(self, app: flask.Flask) -> None:
        self._app = app
        self._written: dict[str, StaticFile] = {}
        schemas = MarshmallowPlugin(schema_name_resolver=_schema_name)
        self._spec = APISpec(
            "crmhub",
            __version__,
            "3.1.0",
            plugins=[_Paths(), schemas],
            info={
                "description": "The hub between chatbots and integrators and the CRMs.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
        )
        converter: Any = schemas.converter
        converter.add_parameter_attribute_function(_joined_by_commas)
        self._add_components()
        pages = flask.Blueprint("api-docs", __name__)
        pages.add_url_rule("/openapi.json", "openapi_json", self.view())
        app.register_blueprint(pages)

    def _add_components(self) -> None:
        components = self._spec.components
        components.security_scheme("ApiKey", {"type": "apiKey", "in": "header", "name": HEADER})
        components.security_scheme(
            "WebhookSecret", {"type": "apiKey", "in": "header", "name": SECRET}
        )
        components.security_scheme("AdminToken", {"type": "http", "scheme": "bearer"})
        for name, shape in _HEADERS.items():
            components.header(name, dict(shape))
        for status, (name, words) in _ERRORS.items():
            carried = [*_UNDER_API]
            carried += ["Retry-After"] if status in (409, 429, 503) else []
            carried += ["Location"] if status == 409 else []
            carried += [REPLAYED] if status in _STORED else []
            components.response(
                name,
                {
                    "description": words,
                    "headers": _headers(carried),
                    "content": {"application/json": {"schema": ErrorSchema}},
                },
            )

    def register_blueprint(self, blueprint: Blueprint) -> None:
        """Register a blueprint with the app, and add its views to the document."""
        self._app.register_blueprint(blueprint)
        for route in blueprint.routes:
            rule = next(self._app.url_map.iter_rules(f"{blueprint.name}.{route.endpoint}"))
            operations = {
                method.lower(): _operation(route.view, method.lower(), blueprint.name)
                for method in route.methods
            }
            parameters = [dict(each) for each in route.parameters]
            self._spec.path(rule=rule, operations=operations, parameters=parameters)
        self._spec.tag({"name": blueprint.name, "description": blueprint.description})

    def view(self, part: str = "") -> Callable[[], flask.Response]:
        """Return a view of the document: of `part` (see `part_of`), or of all operations for ""."""

        def openapi_json() -> flask.Response:
            # Written once: it never changes, and everyone may request it.
            if part not in self._written:
                whole = self._spec.to_dict()
                add_examples(whole)
                written = orjson.dumps(part_of(whole, part) if part else whole)
                self._written[part] = StaticFile.of(written, "application/json")
            return self._written[part].response(flask.request)

        return openapi_json


def documents(
    operation_id: str,
    status: int,
    schema: Any,
    summary: str,
    *,
    security: Sequence[dict[str, list[str]]] = API_KEY,
    others: Mapping[int, str] | None = None,
    headers: Sequence[str] = (),
    parameters: Sequence[Shape] = (),
    errors: Sequence[int] = (),
    body: Shape | None = None,
) -> Callable[[_F], _F]:
    """Return a decorator that describes a view for the OpenAPI document.

    `status`, `schema` and `summary` describe the usual answer. `others` maps further statuses with
    the same schema to their descriptions. `headers` are response headers besides those of all
    answers. `parameters` and `body` are OpenAPI objects of inputs that the view reads without a
    schema. `errors` are the possible error statuses; by default they follow from method and body.
    """
    carried = (*(_UNDER_API if security is API_KEY else _ALWAYS), *headers)

    def decorator(view: _F) -> _F:
        documented: Any = view
        documented.documented = Documented(
            operation_id,
            status,
            schema,
            summary,
            security,
            others or {},
            carried,
            parameters,
            errors,
            getattr(view, "takes_key", False),
            body,
        )
        return view

    return decorator


def _operation(view: Any, method: str, tag: str) -> dict[str, Any]:
    """Return the OpenAPI object of a view for an HTTP method.

    The object is a deep copy, because apispec changes it.
    """
    documented: Documented = view.documented
    reads: Mapping[str, Any] = dict(getattr(view, "reads", ()))
    doc: dict[str, Any] = {}
    if "query" in reads:
        doc["parameters"] = [{"in": "query", "schema": reads["query"]}]
    doc["responses"] = documented.responses()
    if "json" in reads:
        content = {"application/json": {"schema": reads["json"]}}
        doc["requestBody"] = {"required": True, "content": content}
    _add_errors(doc, documented, method)
    doc.update(_words(view), tags=[tag])
    doc["operationId"], doc["summary"] = documented.operation_id, documented.summary
    doc["security"] = list(documented.security)
    if documented.body is not None:
        doc["requestBody"] = documented.body
    return deepcopy(doc)


def _add_errors(doc: dict[str, Any], documented: Documented, method: str) -> None:
    """Add error answers and header parameters to `doc`, the OpenAPI object of an operation."""
    of_body = _OF_BODIES if "requestBody" in doc else ()
    possible = {*_ANYWHERE, *_OF_METHOD.get(method, ()), *of_body}
    succeeding = doc["responses"]
    errors = {str(status): _ERRORS[status][0] for status in documented.errors or sorted(possible)}
    doc["responses"] = {**succeeding, **errors}
    read = [*documented.parameters]
    if documented.takes_key and method == "post":
        read.append(IDEMPOTENCY_KEY)
        for each in succeeding.values():
            each["headers"].update(_headers([REPLAYED]))
    if read:
        doc.setdefault("parameters", []).extend(read)


def _words(view: Callable[..., Any]) -> dict[str, str]:
    """Return a view's key `description` for its OpenAPI object; {} without a description.

    The description is the view's docstring without the first paragraph.
    """
    _, _, below = (inspect.getdoc(view) or "").partition("\n\n")
    return {"description": below} if below else {}


class _Paths(FlaskPlugin):
    """An apispec plugin that describes path parameters by `_PATH_PARAMETERS`."""

    def rule_to_params(self, rule: Any) -> list[dict[str, Any]]:
        return [
            {**found, **_PATH_PARAMETERS.get(found["name"], {})}
            for found in super().rule_to_params(rule)
        ]


def _headers(names: Iterable[str]) -> dict[str, Shape]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _joined_by_commas(_converter: Any, field: Any, **_: Any) -> dict[str, Any]:
    return {"style": "form", "explode": False} if isinstance(field, Joined) else {}


def _schema_name(schema: Any) -> str:
    found: Any = resolve_schema_cls(schema)
    name: str = found.__name__
    return name.removesuffix("Schema").removesuffix("Shown")
