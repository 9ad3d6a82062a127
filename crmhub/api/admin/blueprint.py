"""The blueprint on which all routes of the admin API are registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from crmhub.api.admin.callers import PREFIX
from crmhub.api.http.blueprint import Blueprint
from crmhub.api.http.documentation import ADMIN_TOKEN, documents

# Errors of operations that know their account and conflict with nothing, without and with a body.
WITHOUT_BODY = (400, 401, 403, 404, 429, 500, 503)
WITH_BODY = (400, 401, 403, 404, 413, 415, 422, 429, 500, 503)
_F = TypeVar("_F", bound=Callable[..., Any])

blueprint = Blueprint(
    "Admin",
    __name__,
    url_prefix=PREFIX,
    description="For operators, with a token that `crmhub admin token create` makes.",
)


def documented(
    operation_id: str, status: int, schema: Any, summary: str, **options: Any
) -> Callable[[_F], _F]:
    """Return the decorator `documents` with the admin token as the security scheme."""
    return documents(operation_id, status, schema, summary, security=ADMIN_TOKEN, **options)
