"""Find the account for which a webhook helper is called, and authenticate the call.

Chatbot builders cannot log in: an unguessable id in the path identifies the account, and an account
may also require its webhook secret. Failures count by address, and after too many further ones get
429; successful calls are never refused for this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import flask

from crmhub.accounts.accounts import Account
from crmhub.accounts.webhook_ids import Purpose
from crmhub.api.http.authentication import HEADER, SECRET, count_auth_failure, hub
from crmhub.errors import Forbidden, HubError, NotFound, Unauthorized
from crmhub.identity import bindings

_GENERATED: tuple[str, tuple[Purpose, ...]] = ("generated_id", ("generated",))
_PORTAL: tuple[str, tuple[Purpose, ...]] = ("portal_id", ("portal", "alias"))


def of_generated_id(generated_id: str) -> Account:
    """Return the account with this `generated_id`; check the webhook secret if required.

    Raises NotFound, Unauthorized, and TooManyRequests after too many failures.
    """
    account, _ = _by_path(generated_id, *_GENERATED)
    return _proved(account)


def of_portal_id(portal_id: str) -> Account:
    """Return the account with this `portal_id` or alias, as `of_generated_id`.

    An alias is no secret, so a call with it always needs the webhook secret.
    """
    account, purpose = _by_path(portal_id, *_PORTAL)
    return _proved(account, always=purpose == "alias")


def of_conversation(generated_id: str | None, token: Callable[[], str], *, scope: str) -> Account:
    """Return the account of a call whose path may lack the `generated_id` (then None).

    It is that of the id, or of the webhook secret or an API key with `scope` in the headers, or the
    only one of the hub, or the only one with the switch `bare_tokens` that has the contactToken,
    which `token` returns. Raises as `of_generated_id`, and Forbidden without `scope`.
    """
    account = _by_headers(scope)
    if generated_id is not None:
        named, _ = _by_path(generated_id, *_GENERATED)
        if account is not None and account.id != named.id:
            raise _missed(Unauthorized(f"{SECRET} or {HEADER}: not of the account in the path."))
        account = named
    return _proved(account or hub().directory.only_account() or _by_token(token()))


def account_in_path(ids: Mapping[str, str]) -> Account:
    """Return the account of the webhook id in a path, without a check of the webhook secret."""
    name, purposes = _GENERATED if "generated_id" in ids else _PORTAL
    account, _ = _by_path(ids[name], name, purposes)
    return account


def found_account(account: Account) -> Account:
    """Return the account, and keep it in `flask.g`: the helper's answer depends on it.

    It may not be authenticated yet: browsers must be able to read the refusal, too.
    """
    flask.g.helper_account = account
    return account


def _by_path(value: str, name: str, purposes: tuple[Purpose, ...]) -> tuple[Account, Purpose]:
    # Builders may copy an id with a blank or a line break after it.
    found = hub().directory.by_webhook_id(value.strip())
    if found is None:
        raise _missed(NotFound(f"{name}: no account has it; send the one issued for the account."))
    if found[1] not in purposes:
        other = "generated_id" if found[1] == "generated" else "portal_id"
        raise _missed(NotFound(f"{name}: this is the account's {other}; send its {name} here."))
    found_account(found[0])
    return found


def _by_headers(scope: str) -> Account | None:
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


def _by_token(token: str) -> Account:
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
                f" {flask.request.path.rstrip('/')}/<generated_id> with the account's generated_id."
            )
        )
    return holders[0]


def _proved(account: Account, *, always: bool = False) -> Account:
    """Return the account after a check of the webhook secret, with `always` a required one.

    From now on, the request's thread works for this account.
    """
    found_account(account)
    secret = flask.request.headers.get(SECRET)
    if secret:
        owner = hub().directory.by_secret(secret)
        if owner is None or owner.id != account.id:
            raise _missed(Unauthorized(f"{SECRET}: not the secret of this account."))
    elif always or account.switches.require_secret:
        raise _missed(Unauthorized(f"Send the account's webhook secret in the header {SECRET}."))
    hub().database.bind_account(account.id)
    return account


def _missed(error: HubError) -> HubError:
    return count_auth_failure(error, "the id in the path")
