"""Who is signed in, and that a POST comes from a form of ours.

The cookie holds the token of a session, of which the database has a digest. Before sign-in it holds
a token of no session, so that the form for signing in is proved like all others: each form carries
a signature of the cookie. The browser's own word on where a POST comes from is asked, too.

A second cookie for each user who has signed in stays when the session ends: by it the browser is
known at the next sign-in (`Limits.sign_in`).

Over https, cookies are named `__Host-…`: no other host of the same domain, and no page that came
over http, can set one of that name. Browsers take the name over https alone.
"""

from __future__ import annotations

import re
from typing import cast

import flask

from crmhub.accounts.users import LONGEST_MS, SignedIn
from crmhub.api.http.addresses import is_https
from crmhub.api.http.authentication import hub
from crmhub.audit import Author
from crmhub.console.blueprint import PREFIX, blueprint
from crmhub.errors import Forbidden, Unauthorized
from crmhub.operations import users
from crmhub.secrets import derive, new_secret, same, sign

COOKIE = "crmhub_console"
_DEVICE = "crmhub_device_"
# As long as browsers keep any cookie, or so.
_DEVICE_S = 365 * 24 * 3600
_HOST = "__Host-"
FIELD = "csrf"
# Endpoints for those who are not signed in.
OPEN = frozenset({"console.static", "console.sign_in", "console.let_in"})
_TOKEN = re.compile(r"[A-Za-z0-9]{43}", re.ASCII)


class NotSignedIn(Unauthorized):
    """Nobody is signed in, or no more."""


@blueprint.before_request
def guard() -> None:
    """Find who is signed in; raises NotSignedIn, and Forbidden for a POST from elsewhere."""
    endpoint = flask.request.endpoint
    # To OPTIONS Flask answers by itself: which methods there are is no secret.
    if endpoint == "console.static" or flask.request.method == "OPTIONS":
        return
    recognise()
    if flask.g.signed_in is None and endpoint not in OPEN:
        raise NotSignedIn("Sign in at /console/sign-in; the session is over, or there was none.")
    if flask.request.method not in ("GET", "HEAD"):
        _demand_our_form()


def recognise() -> None:
    """Find whose session the cookie names, once for a request; raises Unavailable."""
    if "signed_in" in flask.g:
        return
    flask.g.signed_in = None
    flask.g.cookie = given = _cookie()
    if given:
        flask.g.signed_in = users.signed_in(hub(), given)


def _cookie() -> str:
    given = _sent(COOKIE)
    return given if _TOKEN.fullmatch(given) else ""


def _sent(name: str) -> str:
    """Return the cookie of this name, "" without one; in production only one set over https."""
    cookies = flask.request.cookies
    plain = "" if hub().settings.env == "production" else cookies.get(name, "")
    return cookies.get(f"{_HOST}{name}", plain)


def device(user_id: str) -> str:
    """Return the token by which this browser is known to be a user's, "" where it has none."""
    return _sent(f"{_DEVICE}{user_id}")


def _demand_our_form() -> None:
    if not flask.g.cookie:
        raise Forbidden(
            "The browser sent no cookie with this form. Allow cookies for this address; in"
            " production the console is reached over https alone."
        )
    if not _from_here() or not same(flask.request.form.get(FIELD, ""), csrf_token()):
        raise Forbidden(
            "This form is not from a page of this session; nothing was changed."
            " Open the page again, and send it from there."
        )


def _from_here() -> bool:
    """Return whether the browser says that the request is from a page of ours, if it says."""
    site = flask.request.headers.get("Sec-Fetch-Site")
    if site:
        return site in ("same-origin", "none")
    origin = flask.request.headers.get("Origin")
    return origin is None or origin.partition("://")[2] == flask.request.host


def csrf_token() -> str:
    """Return what a form of this session carries; a cookie is set where there is none yet."""
    if not flask.g.cookie:
        flask.g.cookie = flask.g.new_cookie = new_secret()
    key = derive(hub().settings.secret_key, "console")
    return sign(key, flask.g.cookie.encode()).hex()


def remember(session: users.NewSession) -> None:
    """Let the answer set the cookies to this session's token, and to the browser's."""
    flask.g.new_cookie = session.token
    flask.g.new_device = session


def set_cookies(response: flask.Response) -> None:
    """Set the cookies to which this request gave another value."""
    value: str | None = flask.g.get("new_cookie")
    if value is not None:
        _set(response, COOKIE, value, LONGEST_MS // 1000)
    session: users.NewSession | None = flask.g.get("new_device")
    if session is not None:
        _set(response, f"{_DEVICE}{session.user_id}", session.device, _DEVICE_S)


def _set(response: flask.Response, name: str, value: str, seconds: int) -> None:
    of_host = secure()
    response.set_cookie(
        f"{_HOST}{name}" if of_host else name,
        value,
        max_age=seconds,
        # The prefix demands the whole host.
        path="/" if of_host else PREFIX,
        httponly=True,
        samesite="Lax",
        secure=of_host,
    )


def secure() -> bool:
    """Return whether browsers are to come over https alone."""
    settings = hub().settings
    return settings.env == "production" or is_https(flask.request, settings.trusted_proxies)


def signed_in() -> SignedIn:
    """Return who is signed in; not on the pages in OPEN."""
    return cast(SignedIn, flask.g.signed_in)


def author() -> Author:
    """Return who is signed in, as the audit log names them."""
    user = signed_in()
    return Author("user", user.email, user.user_id)
