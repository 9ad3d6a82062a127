"""The pages of one-time links: choose a password, or create the first console user."""

from __future__ import annotations

import flask

from crmhub.api.http.authentication import hub
from crmhub.console import sessions
from crmhub.console.access import open_to_all
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import done, page, refused, see
from crmhub.errors import HubError, NotFound
from crmhub.operators.users import console_users as users
from crmhub.operators.users import setup_link
from crmhub.users.passwords import SHORTEST

_LONGEST = 100


@blueprint.get("/join/<token>")
@open_to_all
def link(token: str) -> flask.Response:
    """Show the form; opening must not use up the link, since mail programs preview links."""
    found = users.find_link(hub(), token[:_LONGEST])
    return page("link.html", link=found, provider=hub().openid is not None)


@blueprint.post("/join/<token>")
@open_to_all
def link_use(token: str) -> flask.Response:
    found = users.find_link(hub(), token[:_LONGEST])
    password, again = (flask.request.form.get(name, "") for name in ("password", "again"))
    try:
        users.use_link(hub(), token[:_LONGEST], users.repeated(password, again))
    except HubError as exc:
        return refused(exc, "link.html", link=found, provider=hub().openid is not None)
    return done("Your password is set. Sign in with it.", "console.sign_in")


@blueprint.get("/setup/<token>")
@open_to_all
def setup(token: str) -> flask.Response:
    """Show the form for email and password; the link still works afterwards."""
    try:
        setup_link.check_link(hub(), token)
    except NotFound as exc:
        return _invalid_link(exc)
    return page("setup.html", token=token, email="", shortest=SHORTEST)


@blueprint.post("/setup/<token>")
@open_to_all
def create_by_link(token: str) -> flask.Response:
    form = flask.request.form
    email, password = form.get("email", "")[:300], form.get("password", "")
    try:
        users.repeated(password, form.get("again", ""))
        session = setup_link.create_user(hub(), token, email, password)
    except NotFound as exc:
        return _invalid_link(exc)
    except HubError as exc:
        return refused(exc, "setup.html", token=token, email=email, shortest=SHORTEST)
    sessions.remember(session)
    return see(flask.url_for("console.home"))


def _invalid_link(error: NotFound) -> flask.Response:
    heading = "This link no longer works"
    return refused(error, "error.html", heading=heading, message=error.message)
