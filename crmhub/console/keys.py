"""The console's page for the API keys of an account: list, create and revoke keys."""

from __future__ import annotations

import time
from typing import Any

import flask

from crmhub.accounts import keys as stored
from crmhub.api.http.authentication import hub
from crmhub.console.account import account_context
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author
from crmhub.errors import HubError
from crmhub.operations import change_account
from crmhub.properties.kinds import KINDS

_DAY_MS = 24 * 3600 * 1000
_LIFETIMES = {"": "never", "30": "in 30 days", "90": "in 90 days", "365": "in a year"}


@blueprint.get("/accounts/<client_id>/keys")
def keys(client_id: str) -> flask.Response:
    """Show the list of an account's API keys."""
    return page("account/keys.html", **_shown(client_id))


@blueprint.post("/accounts/<client_id>/keys")
def keys_create(client_id: str) -> flask.Response:
    """Create an API key, and show it; it cannot be shown again later."""
    form = flask.request.form
    scopes, life = form.getlist("scope"), form.get("life", "")
    expires_at = _now() + int(life) * _DAY_MS if life and life in _LIFETIMES else None
    try:
        issued = change_account.create_key(
            hub(),
            client_id,
            scopes=scopes,
            expires_at=expires_at,
            by=author(),
            # The id comes from the form, so that a form submitted twice creates only one key.
            key_id=form.get("key_id", ""),
        )
    except HubError as exc:
        return refused(exc, "account/keys.html", **_shown(client_id, scopes, life))
    return page("account/key.html", 201, **account_context(client_id), issued=issued)


@blueprint.post("/accounts/<client_id>/keys/<key_id>/revoke")
def keys_revoke(client_id: str, key_id: str) -> flask.Response:
    """Revoke an API key of an account."""
    change_account.revoke_key(hub(), client_id, key_id, by=author())
    return done(f"Key {key_id} is revoked.", "console.keys", client_id=client_id)


def _shown(client_id: str, scopes: list[str] | None = None, life: str = "") -> dict[str, Any]:
    shared = account_context(client_id)
    with hub().database.reading() as db:
        keys = stored.list_keys(db, shared["account"].id)
    return {
        **shared,
        # Valid keys come first, newest at the top.
        "keys": sorted(keys, key=lambda key: (_end_reason(key), -key.created_at)),
        "ended": _end_reason,
        "resources": list(KINDS),
        "all_scopes": stored.SCOPES,
        "scopes": scopes or (),
        "new_id": stored.new_id(),
        "lives": list(_LIFETIMES.items()),
        "life": life,
    }


def _now() -> int:
    return time.time_ns() // 1_000_000


def _end_reason(key: stored.Key) -> str:
    """Return "revoked" or "expired" for an API key that is no longer valid, else ""."""
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= _now() else ""
