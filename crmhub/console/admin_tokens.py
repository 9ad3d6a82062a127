"""The console's page for the tokens of the admin API: list, create and revoke tokens."""

from __future__ import annotations

from typing import Any

import flask

from crmhub.accounts import admin_tokens as stored
from crmhub.api.http.authentication import hub
from crmhub.console import lifetimes
from crmhub.console.access import needs
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author
from crmhub.errors import HubError
from crmhub.operators.users import console_users as users


@blueprint.get("/tokens")
@needs("people")
def tokens() -> flask.Response:
    return page("tokens/list.html", **_shown())


@blueprint.post("/tokens")
@needs("people")
def tokens_create() -> flask.Response:
    form = flask.request.form
    name, scopes, life = form.get("name", ""), form.getlist("scope"), form.get("life", "")
    try:
        issued = users.create_token(
            hub(), name, scopes=scopes, expires_at=lifetimes.expiry(life), by=author()
        )
    except HubError as exc:
        return refused(exc, "tokens/list.html", **_shown(name, scopes, life))
    return page("tokens/one.html", 201, issued=issued, all_scopes=stored.SCOPES)


@blueprint.post("/tokens/<token_id>/revoke")
@needs("people")
def tokens_revoke(token_id: str) -> flask.Response:
    users.revoke_token(hub(), token_id, by=author())
    return done(f"Token {token_id} is revoked.", "console.tokens")


def _shown(
    name: str = "", scopes: list[str] | None = None, life: str = lifetimes.DEFAULT
) -> dict[str, Any]:
    with hub().database.reading() as db:
        tokens = stored.list_tokens(db)
    return {
        # Valid tokens come first, newest at the top.
        "tokens": sorted(tokens, key=lambda one: (lifetimes.end_reason(one), -one.created_at)),
        "ended": lifetimes.end_reason,
        "is_ending": lifetimes.is_ending,
        "all_scopes": stored.SCOPES,
        "name": name,
        "scopes": scopes or (),
        "lives": lifetimes.CHOICES,
        "life": life,
    }
