"""The console's page behind a one-time link, at which a user chooses a password."""

from __future__ import annotations

import flask

from crmhub.api.http.authentication import hub
from crmhub.console.access import open_to_all
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import done, page, refused
from crmhub.errors import HubError
from crmhub.operators.users import console_users as users

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
