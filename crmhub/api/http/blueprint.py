"""Routes of the API: one function before each view checks the scope and reads the input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import flask
import marshmallow as ma

from crmhub.api.http import flask_proxies
from crmhub.api.http.authentication import lacks_scope
from crmhub.api.http.idempotency_key import HEADER, Rebuild, once
from crmhub.api.http.reading import json_body, problems_of, query
from crmhub.errors import BadRequest, NotFound, listed
from crmhub.properties.kinds import Kind

_View = TypeVar("_View", bound=Callable[..., Any])
Check = Callable[..., None]


class Input(NamedTuple):
    """An input of a view; `absent` are the dotted paths of its optional fields without default."""

    location: str
    schema: ma.Schema
    absent: list[str]
    may_be_empty: bool

    def read(self) -> Any:
        request = flask_proxies.request()
        given = query(request) if self.location == "query" else json_body(request)
        # Most requests have no query, and loading an empty one gives {} if no field needs a value.
        if self.may_be_empty and not given:
            return {}
        try:
            return self.schema.load(given, partial=self.absent)
        except ma.ValidationError as exc:
            messages = exc.normalized_messages()  # type: ignore[no-untyped-call]
            raise BadRequest(listed(problems_of(messages))) from None


class Route(NamedTuple):
    """A route, stored for the OpenAPI document; `parameters` describe the path parameters."""

    endpoint: str
    view: Callable[..., Any]
    methods: Sequence[str]
    parameters: Sequence[Mapping[str, Any]]


class Blueprint(flask.Blueprint):
    """A Flask blueprint whose routes check the scope, read the input, and are documented.

    Under /api/v1 and /admin/v1, a view without query arguments refuses query parameters.
    """

    def __init__(self, name: str, import_name: str, *, url_prefix: str, description: str) -> None:
        super().__init__(name, import_name, url_prefix=url_prefix)
        self.tags: dict[str, str] = {name: description}
        """The tags of the routes in the OpenAPI document, with their descriptions."""
        self.routes: list[Route] = []
        """The registered routes, in the order of the OpenAPI document."""
        self._refuses_queries = "/v1" in url_prefix

    def add_url_rule(
        self,
        rule: str,
        endpoint: str | None = None,
        view_func: Any = None,
        provide_automatic_options: bool | None = None,
        *,
        parameters: Sequence[Mapping[str, Any]] = (),
        **options: Any,
    ) -> None:
        """Register a route; `parameters` are the OpenAPI objects of the path parameters."""
        endpoint = endpoint or view_func.__name__
        if any(route.endpoint == endpoint for route in self.routes):
            # Modules that share a blueprint have views of the same name.
            endpoint = f"{endpoint}_{len(self.routes)}"
        methods = options.get("methods", ["GET"])
        view = _checked(view_func, takes_key="POST" in methods)
        if self._refuses_queries and not any(one.location == "query" for one in view.inputs):
            view.refuses_query = True
        super().add_url_rule(rule, endpoint, view, provide_automatic_options, **options)
        self.routes.append(Route(endpoint, view, methods, parameters))

    def tag_of(self, path: str) -> str:
        """Return the tag of the route with this path; by default, all routes have the same one."""
        return next(iter(self.tags))

    def arguments(
        self, schema: ma.Schema | type[ma.Schema], *, location: str = "json"
    ) -> Callable[[_View], _View]:
        """Return a decorator that passes the input, loaded by the schema, to a view.

        `location` is `json` for the body or `query` for the query string. The view raises
        BadRequest with every value that does not match the schema.
        """
        loader = schema() if isinstance(schema, type) else schema
        may_be_empty = location == "query" and all(
            not field.required and field.load_default is ma.missing
            for field in loader.load_fields.values()
        )
        read = Input(location, loader, _may_be_absent(loader), may_be_empty)

        def decorator(view: _View) -> _View:
            noted: Any = view
            noted.inputs = [read, *getattr(view, "inputs", ())]
            return view

        return decorator


def _may_be_absent(schema: ma.Schema, inside: str = "") -> list[str]:
    """Return the dotted paths of a schema's optional fields without a default value.

    Marshmallow skips these fields if they are absent and named in `partial`, which saves time.
    """
    names = []
    for name, field in schema.load_fields.items():
        if not field.required and field.load_default is ma.missing:
            names.append(f"{inside}{name}")
        inner = field.inner if isinstance(field, ma.fields.List) else field
        if isinstance(inner, ma.fields.Nested):
            names += _may_be_absent(inner.schema, f"{inside}{name}.")
    return names


def writes(
    scope: str, rebuild: Rebuild | None = None, *, before: Check | None = None
) -> Callable[[_View], _View]:
    """Return a decorator for views, as `needs`. With `rebuild`, a POST takes an Idempotency-Key.

    `before` gets the view's inputs before the view's transaction is opened.
    """

    def decorator(view: _View) -> _View:
        noted: Any = view
        noted.scope, noted.rebuild, noted.before = scope, rebuild, before
        return view

    return decorator


def of_kind(
    right: str, kinds: Mapping[str, Kind], rebuild: Rebuild | None = None
) -> Callable[[_View], _View]:
    """Return a decorator that turns a view's path parameter `resource` into its argument `kind`.

    The view raises NotFound if `resource` is not a key of `kinds`, and Forbidden without the scope
    `{resource}:{right}`.
    """

    def decorator(view: _View) -> _View:
        noted: Any = writes(f"{{resource}}:{right}", rebuild)(view)
        noted.kinds = kinds
        return view

    return decorator


def _checked(view: Any, *, takes_key: bool) -> Any:
    """Return a view that checks the scope and reads the inputs that its decorators have noted."""
    inputs: Sequence[Input] = getattr(view, "inputs", ())
    scope: str = getattr(view, "scope", "")
    kinds: Mapping[str, Kind] = getattr(view, "kinds", {})
    rebuild: Rebuild | None = getattr(view, "rebuild", None) if takes_key else None
    before: Check | None = getattr(view, "before", None)

    @wraps(view)
    def checked(**path: Any) -> Any:
        needed = scope
        if kinds:
            resource = path.pop("resource")
            if resource not in kinds:
                raise NotFound(f"There are no {resource[:60]!r} here; send {' or '.join(kinds)}.")
            path["kind"], needed = kinds[resource], scope.format(resource=resource)
        if needed and needed not in (caller := flask_proxies.g().caller).scopes:
            raise lacks_scope(caller, needed)
        if before is not None:
            before(*[one.read() for one in inputs])
        if rebuild is not None and HEADER in flask_proxies.request().headers:
            return once(rebuild, lambda: view(*[one.read() for one in inputs], **path))
        return view(*[one.read() for one in inputs], **path)

    noted: Any = checked
    noted.inputs, noted.rebuild = inputs, rebuild
    return checked
