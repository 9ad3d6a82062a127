"""The page of the one-time link: a person creates their console user and is signed in."""

from __future__ import annotations

import flask

from crmhub.accounts.passwords import SHORTEST
from crmhub.api.http.addresses import client_address
from crmhub.api.http.authentication import hub
from crmhub.console import sessions
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import done, page, refused, see
from crmhub.errors import HubError, NotFound, Semantic
from crmhub.operations import setup_link, users


@blueprint.get("/setup/<token>")
def setup(token: str) -> flask.Response:
    """Show the form for email and password; the link still works afterwards."""
    try:
        setup_link.check_link(hub(), token)
    except NotFound as exc:
        return _invalid_link(exc)
    return page("setup.html", token=token, email="", shortest=SHORTEST)


@blueprint.post("/setup/<token>")
def create_by_link(token: str) -> flask.Response:
    """Create the user, sign them in, and redirect to the landing page."""
    form = flask.request.form
    email, password = form.get("email", "")[:300], form.get("password", "")
    try:
        if password != form.get("again", ""):
            raise Semantic("The two passwords differ. Type the same password twice.")
        user = setup_link.create_user(hub(), token, email, password)
    except NotFound as exc:
        return _invalid_link(exc)
    except HubError as exc:
        return refused(exc, "setup.html", token=token, email=email, shortest=SHORTEST)
    address = client_address(flask.request, hub().settings.trusted_proxies)
    try:
        session = users.sign_in(
            hub(), user.email, password, address=address, device=sessions.device
        )
    except HubError:
        # The user exists; only the rate limit or a busy hub stands in the way.
        return done(f"The user {user.email} was created. Sign in now.", "console.sign_in")
    sessions.remember(session)
    return see(flask.url_for("console.home"))


def _invalid_link(error: NotFound) -> flask.Response:
    heading = "This link no longer works"
    return refused(error, "error.html", heading=heading, message=error.message)
