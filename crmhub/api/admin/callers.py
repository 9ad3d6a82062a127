"""Authentication of the admin API by bearer token.

It runs before routing errors are raised, so that under /admin/v1 a request without a valid token
is always answered 401, and never 404, 405 or 400.
"""

from __future__ import annotations

import re

import flask

from crmhub.accounts.directory import Operator
from crmhub.api.http.auth_failures import count_auth_failure
from crmhub.api.http.authentication import hub
from crmhub.audit import Author
from crmhub.errors import Unauthorized

PREFIX = "/admin/v1"
_UNDER = re.compile(rf"{PREFIX}(?:/|$)")


class NoToken(Unauthorized):
    """The admin token is missing, unknown, expired or revoked."""

    @property
    def headers(self) -> dict[str, str]:
        # RFC 9110, 11.6.1: a 401 says how to log in.
        return {"WWW-Authenticate": "Bearer"}


def authenticate(request: flask.Request) -> None:
    """Authenticate a request to the admin API; raises Unauthorized and TooManyRequests."""
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


def author() -> Author:
    """Return the authenticated operator as the author in the audit log; only under /admin/v1."""
    caller: Operator = flask.g.caller
    return Author("token", caller.name, caller.token_id)
