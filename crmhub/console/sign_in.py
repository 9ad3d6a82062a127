"""The console's sign-in pages and sign-out.

A user signs in with a password or with the OpenID Connect provider, and then with a code if they
have a second factor.
"""

from __future__ import annotations

import re
from typing import Any

import flask

from crmhub.api.http.addresses import is_https
from crmhub.api.http.authentication import hub
from crmhub.console import sessions
from crmhub.console.access import for_users, open_to_all
from crmhub.console.blueprint import PREFIX, blueprint
from crmhub.console.pages import done, page, refused, see
from crmhub.errors import HubError, Unauthorized
from crmhub.operators.users import openid_sign_in, signing_in
from crmhub.operators.users.signing_in import CodeNeeded, NewSession

# A path of the console, which no browser can read as another host.
_CONSOLE_PATH = re.compile(rf"{PREFIX}(?:[/?][\x21-\x5b\x5d-\x7e]*)?", re.ASCII)
_LONGEST_PATH = 1_000


@blueprint.get("/sign-in")
@open_to_all
def sign_in() -> flask.Response:
    back = safe_path(flask.request.args.get("next", ""))
    if flask.g.signed_in is not None:
        return see(back)
    return page("sign_in.html", back=back, email="", **_choices())


@blueprint.post("/sign-in")
@open_to_all
def let_in() -> flask.Response:
    """Sign a user in with a password; one with a second factor is asked for a code first."""
    form = flask.request.form
    email, back = form.get("email", "")[:300], safe_path(form.get("next", ""))
    try:
        result = signing_in.sign_in(hub(), email, form.get("password", ""), sessions.browser())
    except HubError as exc:
        return refused(exc, "sign_in.html", back=back, email=email, **_choices())
    return _go_on(result, back)


def _choices() -> dict[str, Any]:
    return {"provider": hub().openid is not None}


def _go_on(result: NewSession | CodeNeeded, back: str) -> flask.Response:
    if isinstance(result, CodeNeeded):
        return page("sign_in_code.html", back=back, step=result.token)
    sessions.remember(result)
    return see(back)


@blueprint.post("/sign-in/code")
@open_to_all
def enter_code() -> flask.Response:
    form = flask.request.form
    step, back = form.get("step", "")[:300], safe_path(form.get("next", ""))
    try:
        session = signing_in.enter_code(hub(), step, form.get("code", "")[:60], sessions.browser())
    except HubError as exc:
        return refused(exc, "sign_in_code.html", back=back, step=step)
    return _go_on(session, back)


@blueprint.post("/sign-out")
@for_users
def sign_out() -> flask.Response:
    signing_in.sign_out(hub(), flask.g.cookie)
    return done("You are signed out.", "console.sign_in")


# --- OpenID Connect ----------------------------------------------------------------------------


@blueprint.get("/sign-in/provider")
@open_to_all
def ask_provider() -> flask.Response:
    back = safe_path(flask.request.args.get("next", ""))
    # The state is bound to the browser's cookie; this creates the cookie if there is none.
    sessions.csrf_token()
    try:
        url = openid_sign_in.start(
            hub(), sessions.browser(), redirect_uri=_redirect_uri(), back=back
        )
    except HubError as exc:
        return refused(exc, "sign_in.html", back=back, email="", **_choices())
    return flask.Response(status=303, headers={"Location": url})


@blueprint.get("/sign-in/provider/back")
@open_to_all
def return_from_provider() -> flask.Response:
    args = flask.request.args
    try:
        if "code" not in args:
            raise Unauthorized("The provider did not sign you in. Try again, or use a password.")
        finished = openid_sign_in.finish(
            hub(),
            sessions.browser(),
            state=args.get("state", ""),
            code=args["code"],
            redirect_uri=_redirect_uri(),
        )
    except HubError as exc:
        return refused(exc, "sign_in.html", back=safe_path(""), email="", **_choices())
    return _go_on(finished.result, finished.back)


def _redirect_uri() -> str:
    """Return the URL of `return_from_provider`; a provider refuses an unknown host."""
    return absolute(flask.url_for("console.return_from_provider"))


def absolute(path: str) -> str:
    https = is_https(flask.request, hub().settings.trusted_proxies)
    return f"{'https' if https else 'http'}://{flask.request.host}{path}"


def safe_path(path: str) -> str:
    """Return a path of the console, or that of the landing page for any other text."""
    safe = len(path) <= _LONGEST_PATH and _CONSOLE_PATH.fullmatch(path)
    return path if safe else flask.url_for("console.home")
