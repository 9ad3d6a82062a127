"""Find the account for which a webhook helper is called, and authenticate the call.

Chatbot builders cannot log in: an unguessable id in the path identifies the account, and an account
may also require its webhook secret. Failures count by address, and after too many further ones get
429; successful calls are never refused for this.

Pages of an account's `allowed_origins` may call its helpers from a browser (CORS). A preflight has
neither the body nor the credentials of the call that it announces. So its account is the one in the
path, or for getProperties and setProperties without an id in the path the only account of the hub.
An unknown id is answered and counted exactly as for a POST. The origin is no authentication: other
programs can send any. The headers for credentials, X-Webhook-Secret and service-apikey, are not
allowed: every visitor of a page could read them.
"""

from __future__ import annotations

from collections.abc import Mapping

import flask

from crmhub.accounts.accounts import Account
from crmhub.accounts.webhook_ids import Purpose
from crmhub.api.helpers.bodies import HelperBody, Said, load, read_body
from crmhub.api.http.authentication import HEADER, SECRET, count_auth_failure, hub
from crmhub.api.http.idempotency_key import HEADER as IDEMPOTENCY_KEY
from crmhub.api.http.idempotency_key import REPLAYED
from crmhub.errors import Forbidden, HubError, NotFound, Unauthorized
from crmhub.helpers.inputs import filled
from crmhub.identity import bindings

_ALLOWED_HEADERS = f"Content-Type, {IDEMPOTENCY_KEY}"
_SHOWN_HEADERS = f"Retry-After, X-Request-Id, {REPLAYED}"
# Browsers ask again after this time, in seconds. Each answer is checked by itself anyway.
_MAX_AGE = "600"
_WITHOUT_ID = ("/chatbot/getProperties", "/chatbot/setProperties")


class _TokenBody(HelperBody):
    contact_token = Said(data_key="contactToken", required=True, numbers=True, short=True)


def find_account(ids: Mapping[str, str], scope: str) -> Account:
    """Return the account of a call, and check its webhook secret if required.

    `ids`: the `generated_id` or `portal_id` in the path, if any. With `scope`, the webhook secret
    or an API key with this scope may identify the account; without an id, so may being the only
    account of the hub, and the contactToken if only one account with the switch `bare_tokens` has
    it. From now on, the request's thread works for the account. Raises NotFound, Unauthorized,
    Forbidden without `scope`, and TooManyRequests after too many failures.
    """
    account = _find_by_headers(scope) if scope else None
    # An alias is no secret, so a call with it always needs the webhook secret.
    needs_secret = False
    if ids:
        named, purpose = _find_by_path(ids)
        if account is not None and account.id != named.id:
            raise _missed(Unauthorized(f"{SECRET} or {HEADER}: not of the account in the path."))
        account, needs_secret = named, purpose == "alias"
    account = account or hub().directory.only_account() or _find_by_token()
    flask.g.helper_account = account
    if secret := flask.request.headers.get(SECRET):
        owner = hub().directory.by_secret(secret)
        if owner is None or owner.id != account.id:
            raise _missed(Unauthorized(f"{SECRET}: not the secret of this account."))
    elif needs_secret or account.switches.require_secret:
        raise _missed(Unauthorized(f"Send the account's webhook secret in the header {SECRET}."))
    hub().database.bind_account(account.id)
    return account


def _find_by_path(ids: Mapping[str, str]) -> tuple[Account, Purpose]:
    [(name, value)] = ids.items()
    # Builders may copy an id with a blank or a line break after it.
    found = hub().directory.by_webhook_id(value.strip())
    if found is None:
        raise _missed(NotFound(f"{name}: no account has it; send the one issued for the account."))
    right = "generated_id" if found[1] == "generated" else "portal_id"
    if name != right:
        raise _missed(NotFound(f"{name}: this is the account's {right}; send its {name} here."))
    # Kept before it is authenticated: browsers must be able to read the refusal, too.
    flask.g.helper_account = found[0]
    return found


def _find_by_headers(scope: str) -> Account | None:
    secret, key = flask.request.headers.get(SECRET), flask.request.headers.get(HEADER)
    account = None
    if secret:
        account = hub().directory.by_secret(secret)
        if account is None:
            raise _missed(Unauthorized(f"{SECRET}: no account has this secret."))
    if key:
        caller = hub().directory.by_api_key(key)
        if caller is None or (account is not None and account.id != caller.account.id):
            raise _missed(Unauthorized(f"{HEADER}: not a live key of this account."))
        if scope not in caller.scopes:
            raise Forbidden(f"This key lacks the scope {scope}; create one that has it.")
        account = caller.account
    return account


def _find_by_token() -> Account:
    token = filled(load(_TokenBody(), read_body())["contact_token"], "contactToken")
    holders = [
        account
        for account_id in bindings.accounts_of_token(hub().database, token)
        if (account := hub().directory.by_id(account_id)) is not None
        and account.switches.bare_tokens
        and not account.disabled
    ]
    if len(holders) != 1:
        raise _missed(
            NotFound(
                "contactToken: it does not tell which account is meant; post to"
                " %(path)s/<generated_id> with the account's generated_id.",
                path=flask.request.path.rstrip("/"),
            )
        )
    return holders[0]


def _missed(error: HubError) -> HubError:
    return count_auth_failure(error, "the id in the path")


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
    account = None
    if request.view_args:
        account, _ = _find_by_path(request.view_args)
    elif request.path.rstrip("/") in _WITHOUT_ID:
        account = flask.g.helper_account = hub().directory.only_account()
    if account is not None and _is_allowed(account):
        response.headers["Access-Control-Allow-Methods"] = "POST"
        response.headers["Access-Control-Allow-Headers"] = _ALLOWED_HEADERS
        response.headers["Access-Control-Max-Age"] = _MAX_AGE
    return response


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
