"""Authentication of the public API: the API key in `service-apikey`, rate limits and scopes.

The key is checked before the route, so that under /<client_id>/api/v1 a wrong key is answered 401
even where 404, 405 or 400 would apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar
from wsgiref.types import WSGIEnvironment

import flask

from crmhub.accounts.accounts import Account
from crmhub.accounts.directory import Caller, Operator
from crmhub.accounts.limits import RateStatus
from crmhub.api.http import flask_proxies
from crmhub.api.http.addresses import client_address
from crmhub.errors import Forbidden, HubError, TooManyRequests, Unauthorized
from crmhub.hub import Hub
from crmhub.queue.slots import too_many_at_once

HEADER = "service-apikey"
SECRET = "X-Webhook-Secret"
# A WSGI environ key that our server sets: this request's turn at the gate (`queue.slots`) that
# limits how many requests the app works on.
TURN = "crmhub.turn"
# A WSGI environ key that our server sets: so many calls of this account wait already that this one
# is refused.
CROWDED = "crmhub.crowded"
# A WSGI environ key: the id of the account whose share of the threads this request uses, None if
# no thread was free. The app releases it at the end of the request.
PLACE = "crmhub.place"
PUBLIC_API = re.compile(r"/([^/]+)/api/v1(?:/|$)")
"""Pattern for the beginning of the public API's paths; its group is the client id."""
# For a plan without a limit, because every answer has the RateLimit headers.
_NO_LIMIT = RateStatus(limit=10**9, remaining=10**9)
_NO_SUCH_KEY = (
    "The API key is missing or not valid for this account; "
    "send a live key of the account in the header service-apikey."
)
_F = TypeVar("_F", bound=Callable[..., object])


def hub() -> Hub:
    it: Hub = flask_proxies.app().extensions["crmhub"]
    return it


def account() -> Account:
    caller: Caller = flask_proxies.g().caller
    return caller.account


def authenticate(request: flask.Request, client_id: str) -> None:
    """Authenticate a request to the public API, count it, and take a server thread for it.

    Raises Unauthorized, and TooManyRequests as `admit`.
    """
    here, g = hub(), flask_proxies.g()
    # Until the account is found: an answer without these headers would mean no limit.
    default = here.plans["default"].rate_limit
    g.rate = RateStatus(default.count, default.count) if default else _NO_LIMIT
    if request.environ.get(CROWDED):
        raise too_many_at_once()
    key = request.headers.get(HEADER, "")
    if not key:
        raise Unauthorized(f"Send the account's API key in the header {HEADER}.")
    caller = here.directory.by_api_key(key)
    if caller is None or caller.account.client_id != client_id:
        # The same words for every reason, so that nobody learns which accounts exist.
        raise count_auth_failure(Unauthorized(_NO_SUCH_KEY), "the key")
    admit(request, caller)


def count_auth_failure(error: HubError, what: str) -> HubError:
    """Count a failed authentication of the caller's address; return the error to raise.

    After too many failures this is TooManyRequests, which tells to check `what`.
    """
    here = hub()
    address = client_address(flask.request, here.settings.trusted_proxies)
    peer = flask.request.remote_addr or ""
    status = here.limits.miss(address, proxy=peer if peer != address else "")
    if status.allowed:
        return error
    return TooManyRequests(
        "Too many calls from this address found no account or had a wrong key or token;"
        f" check {what} and try again in {status.retry_after} s.",
        retry_after=status.retry_after,
    )


def admit(request: flask.Request, caller: Caller) -> None:
    """Count a request of an authenticated caller, and take a server thread for it.

    Raises TooManyRequests above the rate limit or while the account uses all threads of its share.
    """
    here, g = hub(), flask_proxies.g()
    g.caller = caller
    here.database.bind_account(caller.account.id)
    rate = here.limits.hit(caller)
    g.rate = rate if rate.limit is not None else _NO_LIMIT
    if not rate.allowed:
        raise TooManyRequests(
            f"More than {rate.limit} requests in the window of the account's plan;"
            f" try again in {rate.retry_after} s.",
            retry_after=rate.retry_after,
        )
    if not take_place(request.environ, here, caller.account):
        raise too_many_at_once()


def take_place(environ: WSGIEnvironment, here: Hub, account: Account) -> bool:
    """Take a thread of the account's share for this request; False if none is free.

    A second call for the same request returns the first result. The app releases the thread.
    """
    if PLACE not in environ:
        free = here.shares.take(account.id, environ.get(TURN))
        environ[PLACE] = account.id if free else None
    return environ[PLACE] is not None


def lacks_scope(caller: Caller | Operator, scope: str) -> Forbidden:
    return Forbidden(f"This {caller.credential} lacks the scope {scope}; create one that has it.")


def needs(scope: str) -> Callable[[_F], _F]:
    """Let a view raise Forbidden for callers without this scope."""

    def decorator(view: _F) -> _F:
        noted: Any = view
        # `blueprint` checks it, and the OpenAPI document names it.
        noted.scope = scope
        return view

    return decorator
