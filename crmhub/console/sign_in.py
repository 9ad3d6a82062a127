"""The console's sign-in page and sign-out."""

from __future__ import annotations

import re

import flask

from crmhub.api.http.addresses import client_address
from crmhub.api.http.authentication import hub
from crmhub.console import sessions
from crmhub.console.blueprint import PREFIX, blueprint
from crmhub.console.pages import done, page, refused, see
from crmhub.errors import HubError
from crmhub.operations import users

# A path of the console, which no browser can read as another host.
_CONSOLE_PATH = re.compile(rf"{PREFIX}(?:[/?][\x21-\x5b\x5d-\x7e]*)?", re.ASCII)


@blueprint.get("/sign-in")
def sign_in() -> flask.Response:
    """Show the sign-in form; a signed-in user is redirected instead."""
    back = _safe_path(flask.request.args.get("next", ""))
    if flask.g.signed_in is not None:
        return see(back)
    return page("sign_in.html", back=back, email="")


@blueprint.post("/sign-in")
def let_in() -> flask.Response:
    """Sign a user in with email and password, and redirect to the page requested before."""
    form = flask.request.form
    email, back = form.get("email", "")[:300], _safe_path(form.get("next", ""))
    address = client_address(flask.request, hub().settings.trusted_proxies)
    try:
        session = users.sign_in(
            hub(), email, form.get("password", ""), address=address, device=sessions.device
        )
    except HubError as exc:
        return refused(exc, "sign_in.html", back=back, email=email)
    sessions.remember(session)
    return see(back)


@blueprint.post("/sign-out")
def sign_out() -> flask.Response:
    """End the user's session, and redirect to the sign-in page."""
    users.sign_out(hub(), flask.g.cookie)
    return done("You are signed out.", "console.sign_in")


def _safe_path(path: str) -> str:
    return path if _CONSOLE_PATH.fullmatch(path) else flask.url_for("console.home")
