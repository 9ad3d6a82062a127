"""The console's sign-in pages, sign-out, and the pages of one-time links.

A user signs in with a password or with the OpenID Connect provider, and then with a code if they
have a second factor. A one-time link lets a person choose a password, or create the first user.
"""

from __future__ import annotations

import re
from typing import Any

import flask
from flask_babel import gettext

from crmhub.api.http.addresses import is_https
from crmhub.api.http.authentication import hub
from crmhub.console import sessions
from crmhub.console.pages import add_page, done, errors_on, message_of, page, refused, see
from crmhub.console.sessions import PREFIX, blueprint, for_users, open_to_all
from crmhub.errors import NotFound, Unauthorized
from crmhub.operators.users import console_users as users
from crmhub.operators.users import openid_sign_in, setup_link, signing_in
from crmhub.operators.users.signing_in import CodeNeeded, NewSession
from crmhub.users.passwords import SHORTEST

# A path of the console, which no browser can read as another host.
_CONSOLE_PATH = re.compile(rf"{PREFIX}(?:[/?][\x21-\x5b\x5d-\x7e]*)?", re.ASCII)
_LONGEST_PATH = 1_000
_LONGEST_EMAIL = 300
_LONGEST_TOKEN = 100


def safe_path(path: str) -> str:
    """Return a path of the console, or that of the landing page for any other text."""
    safe = len(path) <= _LONGEST_PATH and _CONSOLE_PATH.fullmatch(path)
    return path if safe else flask.url_for("console.home")


def _typed_email() -> str:
    return flask.request.form.get("email", "")[:_LONGEST_EMAIL]


def _back() -> str:
    """Return the path to open after the sign-in."""
    return safe_path(flask.request.form.get("next") or flask.request.args.get("next", ""))


def _context() -> dict[str, Any]:
    return {"back": _back(), "email": _typed_email(), "provider": hub().openid is not None}


@blueprint.get("/sign-in")
@open_to_all
def sign_in() -> flask.Response:
    if flask.g.signed_in is not None:
        return see(_back())
    return page("sign_in.html", **_context())


@blueprint.post("/sign-in")
@open_to_all
@errors_on("sign_in.html", _context)
def let_in() -> flask.Response:
    """Sign a user in with a password; one with a second factor is asked for a code first."""
    password = flask.request.form.get("password", "")
    return _go_on(signing_in.sign_in(hub(), _typed_email(), password, sessions.browser()), _back())


def _go_on(result: NewSession | CodeNeeded, back: str) -> flask.Response:
    if isinstance(result, CodeNeeded):
        return page("sign_in_code.html", back=back, step=result.token)
    sessions.remember(result)
    return see(back)


def _code_context() -> dict[str, Any]:
    return {"back": _back(), "step": flask.request.form.get("step", "")[:300]}


@blueprint.post("/sign-in/code")
@open_to_all
@errors_on("sign_in_code.html", _code_context)
def enter_code() -> flask.Response:
    step, code = _code_context()["step"], flask.request.form.get("code", "")[:60]
    return _go_on(signing_in.enter_code(hub(), step, code, sessions.browser()), _back())


@blueprint.post("/sign-out")
@for_users
def sign_out() -> flask.Response:
    signing_in.sign_out(hub(), flask.g.cookie)
    return done(gettext("You are signed out."), "console.sign_in")


# --- OpenID Connect ----------------------------------------------------------------------------


@blueprint.get("/sign-in/provider")
@open_to_all
@errors_on("sign_in.html", _context)
def ask_provider() -> flask.Response:
    # The state is bound to the browser's cookie; this creates the cookie if there is none.
    sessions.csrf_token()
    url = openid_sign_in.start(
        hub(), sessions.browser(), redirect_uri=_redirect_uri(), back=_back()
    )
    return flask.Response(status=303, headers={"Location": url})


@blueprint.get("/sign-in/provider/back")
@open_to_all
@errors_on("sign_in.html", _context)
def return_from_provider() -> flask.Response:
    args = flask.request.args
    if "code" not in args:
        raise Unauthorized("The provider did not sign you in. Try again, or use a password.")
    finished = openid_sign_in.finish(
        hub(),
        sessions.browser(),
        state=args.get("state", ""),
        code=args["code"],
        redirect_uri=_redirect_uri(),
    )
    return _go_on(finished.result, finished.back)


def _redirect_uri() -> str:
    """Return the URL of `return_from_provider`; a provider refuses an unknown host."""
    return absolute(flask.url_for("console.return_from_provider"))


def absolute(path: str) -> str:
    https = is_https(flask.request, hub().settings.trusted_proxies)
    return f"{'https' if https else 'http'}://{flask.request.host}{path}"


# --- one-time links ------------------------------------------------------------------------------


def _link_context(token: str) -> dict[str, Any]:
    found = users.find_link(hub(), token[:_LONGEST_TOKEN])
    return {"link": found, "provider": hub().openid is not None}


# Opening must not use up the link, since mail programs preview links.
add_page("/join/<token>", "link", open_to_all, "link.html", _link_context)


@blueprint.post("/join/<token>")
@open_to_all
@errors_on("link.html", _link_context)
def link_use(token: str) -> flask.Response:
    users.use_link(hub(), token[:_LONGEST_TOKEN], _new_password())
    return done(gettext("Your password is set. Sign in with it."), "console.sign_in")


def _new_password() -> str:
    form = flask.request.form
    return users.repeated(form.get("password", ""), form.get("again", ""))


def _setup_context(token: str) -> dict[str, Any]:
    return {"token": token, "email": _typed_email(), "shortest": SHORTEST}


@blueprint.get("/setup/<token>")
@open_to_all
def setup(token: str) -> flask.Response:
    """Show the form for email and password; the link still works afterwards."""
    try:
        setup_link.check_link(hub(), token)
    except NotFound as exc:
        return _invalid_link(exc)
    return page("setup.html", **_setup_context(token))


@blueprint.post("/setup/<token>")
@open_to_all
@errors_on("setup.html", _setup_context)
def create_by_link(token: str) -> flask.Response:
    try:
        session = setup_link.create_user(hub(), token, _typed_email(), _new_password())
    except NotFound as exc:
        return _invalid_link(exc)
    sessions.remember(session)
    return see(flask.url_for("console.home"))


def _invalid_link(error: NotFound) -> flask.Response:
    heading = gettext("This link no longer works")
    return refused(error, "error.html", heading=heading, message=message_of(error))
