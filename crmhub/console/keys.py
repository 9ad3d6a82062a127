"""The console's page for the API keys of an account: list, create and revoke keys."""

from __future__ import annotations

from typing import Any

import flask

from crmhub.accounts import keys as stored
from crmhub.api.http.authentication import hub
from crmhub.console import lifetimes
from crmhub.console.access import needs
from crmhub.console.account import account_context
from crmhub.console.blueprint import blueprint
from crmhub.console.event_words import visible_url
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author
from crmhub.errors import HubError, Semantic
from crmhub.events import subscriptions
from crmhub.operators.accounts import change_account


@blueprint.get("/accounts/<client_id>/keys")
@needs("data")
def keys(client_id: str) -> flask.Response:
    return page("account/keys.html", **_shown(client_id))


@blueprint.post("/accounts/<client_id>/keys")
@needs("change")
def keys_create(client_id: str) -> flask.Response:
    form = flask.request.form
    name, scopes = form.get("name", "").strip(), form.getlist("scope")
    # Without a choice, the default: no key lives for ever by mistake.
    life = form.get("life", lifetimes.DEFAULT)
    try:
        if not name:
            raise Semantic("name: say what the key is for, such as the program that uses it.")
        issued = change_account.create_key(
            hub(),
            client_id,
            name=name,
            scopes=scopes,
            expires_at=lifetimes.expiry(life),
            by=author(),
            # The id comes from the form, so that a form submitted twice creates only one key.
            key_id=form.get("key_id", ""),
        )
    except HubError as exc:
        return refused(exc, "account/keys.html", **_shown(client_id, name, scopes, life))
    context = {"issued": issued, "all_scopes": stored.SCOPES}
    return page("account/key.html", 201, **account_context(client_id), **context)


@blueprint.post("/accounts/<client_id>/keys/<key_id>/revoke")
@needs("change")
def keys_revoke(client_id: str, key_id: str) -> flask.Response:
    change_account.revoke_key(hub(), client_id, key_id, by=author())
    return done(f"Key {key_id} is revoked.", "console.keys", client_id=client_id)


def _shown(
    client_id: str, name: str = "", scopes: list[str] | None = None, life: str = lifetimes.DEFAULT
) -> dict[str, Any]:
    shared = account_context(client_id)
    with hub().database.reading() as db:
        keys = stored.list_keys(db, shared["account"].id)
        active = [
            each
            for each in subscriptions.listed(db, shared["account"].id)
            if each.state == "active"
        ]
    return {
        **shared,
        # Which events end with a key.
        "ends_with": {
            key.key_id: [visible_url(each) for each in active if each.key_id == key.key_id]
            for key in keys
        },
        # Valid keys come first, newest at the top.
        "keys": sorted(keys, key=lambda key: (lifetimes.end_reason(key), -key.created_at)),
        "ended": lifetimes.end_reason,
        "is_ending": lifetimes.is_ending,
        "resources": list(dict.fromkeys(scope.partition(":")[0] for scope in stored.SCOPES)),
        "all_scopes": stored.SCOPES,
        "name": name,
        "scopes": scopes or (),
        "new_id": stored.new_id(),
        "lives": lifetimes.CHOICES,
        "life": life,
    }
