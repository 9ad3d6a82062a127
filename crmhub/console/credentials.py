"""The console's pages for credentials: the API keys of an account, and tokens of the admin API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import flask
from flask_babel import gettext, lazy_gettext

from crmhub.accounts import admin_tokens
from crmhub.accounts import keys as api_keys
from crmhub.api.http.authentication import hub
from crmhub.console.accounts import account_context
from crmhub.console.pages import add_page, done, errors_on, page
from crmhub.console.sessions import author, blueprint, needs
from crmhub.console.template_filters import end_reason, now_ms
from crmhub.console.visibility import visible_url
from crmhub.errors import Semantic
from crmhub.events import subscriptions
from crmhub.operators.accounts import change_account
from crmhub.operators.users import console_users
from crmhub.properties.kinds import KINDS
from crmhub.translatable import translatable

_DAY_MS = 24 * 3600 * 1000
# In days, or "" for never.
_LIVES = (
    ("30", lazy_gettext("in 30 days")),
    ("90", lazy_gettext("in 90 days")),
    ("365", lazy_gettext("in a year")),
    ("", lazy_gettext("never")),
)
_DEFAULT_LIFE = "365"
_RESOURCES = (*KINDS, translatable("events"))
_EMPTY_FORM: dict[str, Any] = {"name": "", "scopes": (), "life": _DEFAULT_LIFE}


def _typed() -> dict[str, Any]:
    form = flask.request.form
    life = form.get("life", _DEFAULT_LIFE)
    return {"name": form.get("name", "").strip(), "scopes": form.getlist("scope"), "life": life}


def _expiry(choice: str) -> int | None:
    """Return the expiry of a choice, in ms since 1970, None for never.

    Other text means the default, so that no key lives for ever by mistake.
    """
    known = choice if choice in dict(_LIVES) else _DEFAULT_LIFE
    return now_ms() + int(known) * _DAY_MS if known else None


def _sort_credentials(credentials: Sequence[Any]) -> list[Any]:
    """Return valid credentials first, newest at the top."""
    return sorted(credentials, key=lambda one: (end_reason(one), -one.created_at))


def _keys_context(client_id: str) -> dict[str, Any]:
    shared = account_context(client_id)
    with hub().database.reading() as db:
        keys = api_keys.list_keys(db, shared["account"].id)
        listed = subscriptions.listed(db, shared["account"].id)
    active = [each for each in listed if each.state == "active"]
    return {
        **shared,
        # Which events end with a key.
        "ends_with": {
            key.key_id: [visible_url(each) for each in active if each.key_id == key.key_id]
            for key in keys
        },
        "keys": _sort_credentials(keys),
        "resources": [(name, gettext(name)) for name in _RESOURCES],
        "all_scopes": api_keys.SCOPES,
        "given": _EMPTY_FORM,
        "new_id": api_keys.new_id(),
        "lives": _LIVES,
    }


add_page("/accounts/<client_id>/keys", "keys", needs("data"), "account/keys.html", _keys_context)


@blueprint.post("/accounts/<client_id>/keys")
@needs("change")
@errors_on("account/keys.html", _keys_context, _typed)
def keys_create(client_id: str) -> flask.Response:
    given = _typed()
    if not given["name"]:
        raise Semantic("name: say what the key is for, such as the program that uses it.")
    issued = change_account.create_key(
        hub(),
        client_id,
        name=given["name"],
        scopes=given["scopes"],
        expires_at=_expiry(given["life"]),
        by=author(),
        # The id comes from the form, so that a form submitted twice creates only one key.
        key_id=flask.request.form.get("key_id", ""),
    )
    context = {
        "issued": issued,
        "all_scopes": api_keys.SCOPES,
        "mcp": _mcp_settings(issued.api_key),
    }
    return page("account/key.html", 201, **account_context(client_id), **context)


def _mcp_settings(api_key: str) -> str:
    headers = {"Authorization": f"Bearer {api_key}"}
    server = {"url": f"{flask.request.url_root}mcp", "headers": headers}
    return json.dumps({"mcpServers": {"crmhub": server}})


@blueprint.post("/accounts/<client_id>/keys/<key_id>/revoke")
@needs("change")
def keys_revoke(client_id: str, key_id: str) -> flask.Response:
    change_account.revoke_key(hub(), client_id, key_id, by=author())
    message = gettext("Key %(key)s is revoked.", key=key_id)
    return done(message, "console.keys", client_id=client_id)


# --- tokens of the admin API -------------------------------------------------------------------


def _tokens_context() -> dict[str, Any]:
    with hub().database.reading() as db:
        listed = admin_tokens.list_tokens(db)
    return {
        "tokens": _sort_credentials(listed),
        "all_scopes": admin_tokens.SCOPES,
        "given": _EMPTY_FORM,
        "lives": _LIVES,
    }


add_page("/tokens", "tokens", needs("people"), "tokens/list.html", _tokens_context)


@blueprint.post("/tokens")
@needs("people")
@errors_on("tokens/list.html", _tokens_context, _typed)
def tokens_create() -> flask.Response:
    given = _typed()
    issued = console_users.create_token(
        hub(),
        given["name"],
        scopes=given["scopes"],
        expires_at=_expiry(given["life"]),
        by=author(),
    )
    return page("tokens/one.html", 201, issued=issued, all_scopes=admin_tokens.SCOPES)


@blueprint.post("/tokens/<token_id>/revoke")
@needs("people")
def tokens_revoke(token_id: str) -> flask.Response:
    console_users.revoke_token(hub(), token_id, by=author())
    return done(gettext("Token %(token)s is revoked.", token=token_id), "console.tokens")
