"""The page of the one-time link: a person creates their console user and is signed in."""

from __future__ import annotations

import flask

from crmhub.api.http.authentication import hub
from crmhub.console import sessions
from crmhub.console.access import open_to_all
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import page, refused, see
from crmhub.errors import HubError, NotFound
from crmhub.operators.users import setup_link
from crmhub.operators.users.console_users import repeated
from crmhub.users.passwords import SHORTEST


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
        repeated(password, form.get("again", ""))
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
