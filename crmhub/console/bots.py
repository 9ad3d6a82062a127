"""What builders of bots need of an account: addresses to copy, snippets, webhook ids."""

from __future__ import annotations

from typing import Any, cast, get_args

import flask

from crmhub.accounts.webhook_ids import WEEK_MS, Rotatable
from crmhub.api.http.addresses import is_https
from crmhub.api.http.authentication import hub
from crmhub.console.account import about
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import page
from crmhub.console.sessions import author
from crmhub.console.snippets import BUILDERS, HELPERS, Helper
from crmhub.errors import BadRequest
from crmhub.operations import change_account
from crmhub.operations.change_account import Detail

_DAY_MS = 24 * 3600 * 1000
_KEPT = {
    "7d": ("for a week", WEEK_MS),
    "1d": ("for a day", _DAY_MS),
    "30d": ("for 30 days", 30 * _DAY_MS),
    "0": ("not at all: it ends now", 0),
}
_WHAT: dict[Rotatable, str] = {
    "generated": "Generated id",
    "portal": "Portal id",
    "secret": "Webhook secret",
}


@blueprint.get("/accounts/<client_id>/bots")
def bots(client_id: str) -> flask.Response:
    """Show the helpers' addresses, and one of them as builders take it."""
    shared = about(client_id)
    found: Detail = shared["detail"]
    named = flask.request.args.get("helper", "")
    helper = next((one for one in HELPERS if one.name == named), HELPERS[0])
    secret = found.account.switches.require_secret
    url = _url(helper, found)
    return page(
        "account/bots.html",
        **shared,
        addresses=[(one, _url(one, found)) for one in HELPERS],
        helper=helper,
        snippets=[(name, use, make(helper, url, secret=secret)) for name, use, make in BUILDERS],
        ids=[(_WHAT[what], _ids(found, what)) for what in get_args(Rotatable)[:2]],
        alias=_ids(found, "alias"),
        what=list(_WHAT.items()),
        kept=[(name, label) for name, (label, _) in _KEPT.items()],
    )


@blueprint.post("/accounts/<client_id>/bots/rotate")
def bots_rotate(client_id: str) -> flask.Response:
    """Replace an id or the secret, and show the new one: a secret this once."""
    what, kept = flask.request.form.get("what", ""), flask.request.form.get("kept", "")
    if what not in get_args(Rotatable) or kept not in _KEPT:
        raise BadRequest("what, kept: choose what to replace, and how long the old one is valid.")
    rotatable = cast(Rotatable, what)
    value, until = change_account.rotate(
        hub(), client_id, rotatable, keep_ms=_KEPT[kept][1], by=author()
    )
    return page(
        "account/rotated.html",
        **about(client_id),
        what=rotatable,
        label=_WHAT[rotatable],
        value=value,
        until=until if _KEPT[kept][1] else None,
    )


def _url(helper: Helper, found: Detail) -> str:
    """Return a helper's address, as this page was reached."""
    https = is_https(flask.request, hub().settings.trusted_proxies)
    ids = {one: _ids(found, one)[0].value for one in ("generated", "portal")}
    return f"{'https' if https else 'http'}://{flask.request.host}{helper.path.format(**ids)}"


def _ids(found: Detail, purpose: str) -> list[Any]:
    return [one for one in found.ids if one.purpose == purpose]
