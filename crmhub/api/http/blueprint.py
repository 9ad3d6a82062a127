"""Routes of the API: one function before each view checks the scope and reads the input."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

import flask
import marshmallow as ma

from crmhub.api.http import flask_proxies
from crmhub.api.http.authentication import lacks_scope
from crmhub.api.http.idempotency_key import HEADER, Rebuild, once
from crmhub.api.http.reading import UnsupportedMediaType, json_body, problems_of
from crmhub.errors import BadRequest, NotFound, listed
from crmhub.properties.kinds import Kind

# A name or an IPv4 address, or an IPv6 one in brackets, and a port.
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%!$&'()*+;=-]+)(?::[0-9]{0,5})?")
_View = TypeVar("_View", bound=Callable[..., Any])
Check = Callable[..., None]


def query(req: flask.Request) -> dict[str, str]:
    """Return the query parameters; raises BadRequest for a repeated name or invalid UTF-8."""
    if not req.query_string:
        return {}
    try:
        # Werkzeug would keep undecodable bytes as they were sent: %FF.
        unquote_to_bytes(req.query_string).decode()
    except UnicodeDecodeError:
        raise BadRequest("The query string is not UTF-8; send UTF-8, percent-encoded.") from None
    for name, given in req.args.lists():
        if len(given) > 1:
            raise BadRequest(f"{name[:100]}: is given {len(given)} times; send it once.")
        if "\0" in given[0]:
            raise BadRequest(f"{name[:100]}: holds the character U+0000; leave it out.")
    return dict(req.args)


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


class Needs(NamedTuple):
    scope: str = ""
    kinds: Mapping[str, Kind] = {}
    inputs: Sequence[Input] = ()
    rebuild: Rebuild | None = None
    before: Check | None = None
    refuses_query: bool = False


_NOTHING = Needs()


def check_request(request: flask.Request) -> str:
    """Check the parts of a request that all routes check in the same way, and the caller's scope.
    Return the scope, "" if the route needs none.

    Raises BadRequest for U+0000 in the path, a missing or invalid Host header, and query parameters
    that the route does not have; UnsupportedMediaType for a compressed body; NotFound for a kind of
    records that the route does not have; Forbidden.
    """
    environ = request.environ
    if "\0" in request.path:
        # No id or name contains it, and PostgreSQL refuses it.
        raise BadRequest("The path holds the character U+0000; leave it out.")
    if not _is_host(environ.get("HTTP_HOST", ""), environ.get("SERVER_PROTOCOL", "")):
        raise BadRequest("Host: send one header Host that names the service, such as hub.example.")
    encoding = environ.get("HTTP_CONTENT_ENCODING")
    if encoding and encoding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            f"Content-Encoding: {encoding[:60]} is not taken; send the body uncompressed, without"
            " this header."
        )
    view: Any = flask_proxies.app().view_functions.get(request.endpoint or "")
    needs: Needs = getattr(view, "needs", _NOTHING)
    # A lone & is a query string without parameters.
    if request.query_string and needs.refuses_query and (sent := query(request)):
        stray = "is not known here; this request takes no parameters"
        raise BadRequest(listed([(name[:100], stray) for name in sent]))
    if request.method == "OPTIONS":
        # Flask answers it without the view.
        return ""
    scope = needs.scope
    if needs.kinds:
        path: dict[str, Any] = request.view_args or {}
        resource = path.pop("resource")
        if resource not in needs.kinds:
            kinds = " or ".join(needs.kinds)
            raise NotFound(f"There are no {resource[:60]!r} here; send {kinds}.")
        path["kind"], scope = needs.kinds[resource], scope.format(resource=resource)
    if scope and scope not in (caller := flask_proxies.g().caller).scopes:
        raise lacks_scope(caller, scope)
    return scope


@lru_cache(maxsize=256)
def _is_host(host: str, protocol: str) -> bool:
    """Return whether the Host header is valid (RFC 9112, 3.2); only HTTP/1.0 requests may lack it.

    The server has joined repeated headers with commas, which makes them invalid.
    """
    return _HOST.fullmatch(host) is not None or (not host and protocol in ("HTTP/1.0", "HTTP/1"))


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
        """`parameters`: the OpenAPI objects of the path parameters."""
        endpoint = endpoint or view_func.__name__
        if any(route.endpoint == endpoint for route in self.routes):
            # Modules that share a blueprint have views of the same name.
            endpoint = f"{endpoint}_{len(self.routes)}"
        methods = options.get("methods", ["GET"])
        noted = {name: value for name, value in vars(view_func).items() if name in Needs._fields}
        needs = Needs(**noted)
        has_query = any(one.location == "query" for one in needs.inputs)
        needs = needs._replace(
            rebuild=needs.rebuild if "POST" in methods else None,
            refuses_query="/v1" in (self.url_prefix or "") and not has_query,
        )
        # A helper reads its input itself.
        view = _reading(view_func, needs) if needs.inputs or needs.rebuild else view_func
        view.needs = needs
        super().add_url_rule(rule, endpoint, view, provide_automatic_options, **options)
        self.routes.append(Route(endpoint, view, methods, parameters))

    def tag_of(self, path: str) -> str:
        """By default, all routes have the same tag."""
        return next(iter(self.tags))

    def arguments(
        self, schema: ma.Schema | type[ma.Schema], *, location: str = "json"
    ) -> Callable[[_View], _View]:
        """Pass the input, loaded by the schema, to a view; `location` is `json` or `query`."""
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
    """Marshmallow skips such fields if `partial` names them, which saves time."""
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
    """Like `needs`. With `rebuild`, a POST takes an Idempotency-Key. `before` gets the view's
    inputs before the view's transaction is opened."""

    def decorator(view: _View) -> _View:
        noted: Any = view
        noted.scope, noted.rebuild, noted.before = scope, rebuild, before
        return view

    return decorator


def of_kind(
    right: str, kinds: Mapping[str, Kind], rebuild: Rebuild | None = None
) -> Callable[[_View], _View]:
    """Turn a view's path parameter `resource`, a key of `kinds`, into its argument `kind`. The
    scope is `{resource}:{right}`."""

    def decorator(view: _View) -> _View:
        noted: Any = writes(f"{{resource}}:{right}", rebuild)(view)
        noted.kinds = kinds
        return view

    return decorator


def _reading(view: Callable[..., Any], needs: Needs) -> Any:
    """Return a view that reads the inputs of `view`, within the limits of an Idempotency-Key."""

    @wraps(view)
    def read(**path: Any) -> Any:
        if needs.before is not None:
            needs.before(*[one.read() for one in needs.inputs])
        if needs.rebuild is None or HEADER not in flask_proxies.request().headers:
            return view(*[one.read() for one in needs.inputs], **path)
        return once(needs.rebuild, lambda: view(*[one.read() for one in needs.inputs], **path))

    return read
