"""What /openapi.json says: each operation with its id, its security, its answers and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from flask_smorest import Blueprint

from crmhub.api.schemas import ErrorSchema

_F = TypeVar("_F", bound=Callable[..., Any])

_ERRORS = {
    400: "Malformed request or invalid parameters",
    401: "Invalid or missing credentials",
    402: "Plan limit reached",
    403: "No permission for the resource",
    404: "Resource not found",
    405: "Method not allowed",
    409: "Conflict with the current state",
    413: "Body too large",
    415: "Body is not JSON",
    422: "Well-formed request with semantic errors",
    429: "Rate limit exceeded",
    500: "Internal server error",
    503: "The hub or its database is away for now",
}

API_KEY: list[dict[str, list[str]]] = [{"ApiKey": []}]


def documents(
    blueprint: Blueprint,
    operation_id: str,
    status: int,
    schema: Any,
    summary: str,
    *,
    security: Sequence[dict[str, list[str]]] = API_KEY,
    errors: Sequence[int] = tuple(_ERRORS),
) -> Callable[[_F], _F]:
    """Document a view: its operation id, what it answers, and every error it can answer."""

    def decorator(view: _F) -> _F:
        described: Any = view
        for code in errors:
            described = blueprint.alt_response(
                code, schema=ErrorSchema, description=_ERRORS[code], success=False
            )(described)
        described = blueprint.response(status, schema, description=summary)(described)
        described = blueprint.doc(
            operationId=operation_id, summary=summary, security=list(security)
        )(described)
        # The wrappers have served: views answer bytes, which smorest would pass on untouched.
        documented: Any = view
        documented._apidoc = described._apidoc
        return view

    return decorator
