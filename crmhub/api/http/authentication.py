"""Who calls the public API: the key in `service-apikey`, its limits and its scopes.

Runs before routing fails, so that under /<client_id>/api/v1 a 401 comes before 404, 405 and 400.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast
from wsgiref.types import WSGIEnvironment

import flask

from crmhub.accounts.accounts import Account
from crmhub.accounts.directory import Caller, Operator
from crmhub.accounts.limits import RateStatus
from crmhub.api.http import flask_proxies
from crmhub.api.http.auth_failures import missed
from crmhub.errors import Forbidden, TooManyRequests, Unauthorized
from crmhub.hub import Hub
from crmhub.journal.slots import too_many_at_once

HEADER = "service-apikey"
SECRET = "X-Webhook-Secret"
# In the environ of WSGI, where the server says it: the gate (`actions.slots`) of the requests that
# the app works on, which this one has passed.
TURN = "crmhub.turn"
# In the environ of WSGI: whose share the request has a place of, None where there was none. The app
# gives it back at the end of the request.
PLACE = "crmhub.place"
PUBLIC_API = re.compile(r"/([^/]+)/api/v1(?:/|$)")
"""The paths of the public API, with the client id."""
# What is told of a plan without a limit: every answer carries the headers.
_NO_LIMIT = RateStatus(limit=10**9, remaining=10**9)
_NO_SUCH_KEY = (
    "The API key is missing or not valid for this account; "
    "send a live key of the account in the header service-apikey."
)
_F = TypeVar("_F", bound=Callable[..., object])


def hub() -> Hub:
    """Return the hub of the running app."""
    it: Hub = flask_proxies.app().extensions["crmhub"]
    return it


def account() -> Account:
    """Return the account of the caller; only under /<client_id>/api/v1."""
    caller: Caller = flask_proxies.g().caller
    return caller.account


def authenticate(request: flask.Request, client_id: str) -> None:
    """Find the caller of a request to the public API, count the request, take a place for it.

    Raises Unauthorized, TooManyRequests.
    """
    here, g = hub(), flask_proxies.g()
    # Until the account is known; an answer without headers would say that there is none.
    default = here.plans["default"].rate_limit
    g.rate = RateStatus(default.count, default.count) if default else _NO_LIMIT
    key = request.headers.get(HEADER, "")
    if not key:
        raise Unauthorized(f"Send the account's API key in the header {HEADER}.")
    caller = here.directory.by_api_key(key)
    if caller is None or caller.account.client_id != client_id:
        # The same words for every reason, so that nobody learns which accounts exist.
        raise missed(Unauthorized(_NO_SUCH_KEY), "the key")
    g.caller = caller
    rate = here.limits.hit(caller)
    g.rate = rate if rate.limit is not None else _NO_LIMIT
    if not rate.allowed:
        raise TooManyRequests(
            f"More than {rate.limit} requests in the window of the account's plan;"
            f" try again in {rate.retry_after} s.",
            retry_after=rate.retry_after,
        )
    if not here.shares.take(caller.account.id, request.environ.get(TURN)):
        raise too_many_at_once()
    request.environ[PLACE] = caller.account.id


def take_place(environ: WSGIEnvironment, here: Hub, account: Account) -> bool:
    """Take a place of the account's share of the threads; return whether there was one.

    A second call for the same request returns the same.
    """
    if PLACE not in environ:
        free = here.shares.take(account.id, environ.get(TURN))
        environ[PLACE] = account.id if free else None
    return environ[PLACE] is not None


def lacks_scope(caller: Caller | Operator, scope: str) -> Forbidden:
    """Return the error for a caller whose key or token lacks `scope`."""
    return Forbidden(f"This {caller.credential} lacks the scope {scope}; create one that has it.")


def needs(scope: str) -> Callable[[_F], _F]:
    """Return a decorator for a view: callers without `scope` get Forbidden."""

    def decorator(view: _F) -> _F:
        @wraps(view)
        def wrapper(*args: object, **kwargs: object) -> object:
            caller = flask_proxies.g().caller
            if scope not in caller.scopes:
                raise lacks_scope(caller, scope)
            return view(*args, **kwargs)

        return cast(_F, wrapper)

    return decorator
