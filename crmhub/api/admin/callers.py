"""Authentication of the admin API by a bearer token.

The token is checked before the route, so that under /admin/v1 a request without a valid token is
answered 401 even where 404, 405 or 400 would apply.
"""

from __future__ import annotations

import re

import flask

from crmhub.accounts.directory import Operator
from crmhub.api.http.authentication import count_auth_failure, hub
from crmhub.audit import Author
from crmhub.errors import Unauthorized

PREFIX = "/admin/v1"
_UNDER = re.compile(rf"{PREFIX}(?:/|$)")


class NoToken(Unauthorized):
    """The error for a missing, unknown, expired or revoked admin token."""

    @property
    def headers(self) -> dict[str, str]:
        # RFC 9110, 11.6.1: a 401 says how to log in.
        return {"WWW-Authenticate": "Bearer"}


def authenticate(request: flask.Request) -> None:
    """Authenticate a request if its path is under /admin/v1.

    Raises Unauthorized, and TooManyRequests after too many wrong tokens from this address.
    """
    if not _UNDER.match(request.path):
        return
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise NoToken("Send an admin token in the header Authorization: Bearer …")
    operator = hub().directory.by_admin_token(token.strip())
    if operator is None:
        wrong = NoToken(
            "Authorization: this is no live admin token; `crmhub admin token create` makes one."
        )
        raise count_auth_failure(wrong, "the token")
    flask.g.caller = operator
    hub().database.bind_all_accounts()


def author() -> Author:
    """Return the request's admin token as the author of audit log entries; only under /admin/v1."""
    caller: Operator = flask.g.caller
    return Author("token", caller.name, caller.token_id)
