"""The blueprint on which all routes of the admin API are registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from werkzeug.routing import BaseConverter

from crmhub.api.admin.callers import PREFIX
from crmhub.api.http.blueprint import Blueprint
from crmhub.api.http.documentation import ADMIN_TOKEN, documents

_F = TypeVar("_F", bound=Callable[..., Any])

blueprint = Blueprint(
    "Admin",
    __name__,
    url_prefix=PREFIX,
    description="For operators, with a token that `crmhub admin token create` makes.",
)


class ActionId(BaseConverter):
    """URL converter for action ids; it skips `retry` and `discard`, which are other routes."""

    regex = r"(?!(?:retry|discard)\Z)[^/]+"
    # Without this, Werkzeug would not accept the path with a slash at its end.
    part_isolating = True


def documented(
    operation_id: str, status: int, schema: Any, summary: str, **options: Any
) -> Callable[[_F], _F]:
    """Return the decorator `documents` with the admin token as the security scheme."""
    return documents(operation_id, status, schema, summary, security=ADMIN_TOKEN, **options)
