"""Let pages of an account's `allowed_origins` call its helpers from a browser (CORS).

A preflight has neither the body nor the credentials of the call that it announces. So its account
is the one in the path, or for getProperties and setProperties without an id in the path the only
account of the hub. An unknown id is answered and counted exactly as for a POST.

The origin is no authentication: other programs can send any. The headers for credentials,
X-Webhook-Secret and service-apikey, are not allowed: every visitor of a page could read them.
"""

from __future__ import annotations

import flask

from crmhub.accounts.accounts import Account
from crmhub.api.helpers.callers import account_in_path, found_account
from crmhub.api.http.authentication import hub
from crmhub.api.http.idempotency_key import HEADER, REPLAYED

_ALLOWED_HEADERS = f"Content-Type, {HEADER}"
_SHOWN_HEADERS = f"Retry-After, X-Request-Id, {REPLAYED}"
# Browsers ask again after this time, in seconds. Each answer is checked by itself anyway.
_MAX_AGE = "600"
_WITHOUT_ID = ("/chatbot/getProperties", "/chatbot/setProperties")


def allow_pages(blueprint: flask.Blueprint) -> None:
    """Answer the preflights of the blueprint's helpers, and complete the answers for browsers."""
    blueprint.before_request(_answer_preflight)
    blueprint.after_request(_complete)


def _answer_preflight() -> flask.Response | None:
    """Return the answer to a preflight, 204 also for an origin that is not allowed; else None."""
    request = flask.request
    is_preflight = request.method == "OPTIONS" and "Origin" in request.headers
    if not is_preflight or "Access-Control-Request-Method" not in request.headers:
        return None
    response = flask.Response(status=204)
    del response.headers["Content-Type"]
    response.headers["Vary"] = "Origin"
    account = _account_of_preflight()
    if account is not None and _is_allowed(account):
        response.headers["Access-Control-Allow-Methods"] = "POST"
        response.headers["Access-Control-Allow-Headers"] = _ALLOWED_HEADERS
        response.headers["Access-Control-Max-Age"] = _MAX_AGE
    return response


def _account_of_preflight() -> Account | None:
    if flask.request.view_args:
        return account_in_path(flask.request.view_args)
    if flask.request.path.rstrip("/") not in _WITHOUT_ID:
        return None
    account = hub().directory.only_account()
    return account and found_account(account)


def _complete(response: flask.Response) -> flask.Response:
    """Add the headers that show the answer to a page of an allowed origin."""
    account: Account | None = flask.g.get("helper_account")
    if account is None or not account.switches.allowed_origins:
        return response
    response.headers["Vary"] = "Origin"
    if _is_allowed(account):
        response.headers["Access-Control-Allow-Origin"] = flask.request.headers["Origin"]
        if flask.request.method != "OPTIONS":
            response.headers["Access-Control-Expose-Headers"] = _SHOWN_HEADERS
    return response


def _is_allowed(account: Account) -> bool:
    origin = flask.request.headers.get("Origin", "")
    return bool(origin) and origin in account.switches.allowed_origins.split(",")
