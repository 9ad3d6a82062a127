"""The blueprint with all routes of the admin API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from crmhub.api.admin.callers import PREFIX
from crmhub.api.http.documentation import ADMIN_TOKEN, documents
from crmhub.api.http.reading import Blueprint

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
    """Document a view of the admin API; the arguments are those of `documents`."""
    return documents(operation_id, status, schema, summary, security=ADMIN_TOKEN, **options)
