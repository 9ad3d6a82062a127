"""What the console answers: pages, redirects with a word on the next page, errors as pages."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

import flask
import orjson
from markupsafe import Markup

from crmhub import __version__
from crmhub.api.http import flask_proxies
from crmhub.api.http.answers import failure
from crmhub.api.http.authentication import hub
from crmhub.console import banner, sessions
from crmhub.console.blueprint import PREFIX, is_ours
from crmhub.console.sessions import NotSignedIn
from crmhub.errors import HubError, Unauthorized
from crmhub.secrets import derive, same, sign

HEAD = (
    ("Accounts", "console.accounts", "accounts"),
    ("Activity", "console.activity", "activity"),
    ("Audit log", "console.audit_log", "audit"),
)
"""The pages that the head names: label, endpoint, and the first part of the paths behind it."""

# Styles and scripts come from files of this service alone; Bootstrap draws its arrows with data:.
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    # Not no-referrer: a browser would then say "null" where a form comes from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_HEADINGS = {
    403: "This was refused",
    404: "Nothing is here",
    429: "Too many calls",
    500: "Something went wrong",
    503: "The hub is not ready",
}
_A_YEAR_S = 365 * 24 * 3600
_SAID = "crmhub_console_said"


def page(template: str, status: int = 200, /, **context: Any) -> flask.Response:
    """Return a page made from a template of `templates/console/`."""
    text = flask.render_template(
        f"console/{template}",
        user=flask.g.get("signed_in"),
        banner=banner.banner() if flask.g.get("signed_in") else [],
        csrf=_csrf,
        said=_said(),
        head=HEAD,
        part=flask.request.path.removeprefix(f"{PREFIX}/").partition("/")[0],
        version=__version__,
        **context,
    )
    response = flask.Response(text, status=status, content_type="text/html; charset=utf-8")
    # A failure with a body of its own.
    flask.g.is_page = True
    if flask.request.cookies.get(_SAID):
        response.delete_cookie(_SAID, path=PREFIX)
    return response


def _csrf() -> Markup:
    """Return what stands in every form that posts."""
    field = Markup('<input type="hidden" name="{}" value="{}">')
    return field.format(sessions.FIELD, sessions.csrf_token())


def done(said: str, endpoint: str, **values: Any) -> flask.Response:
    """Return the answer to a form that has done its work: a redirect to a page that says so.

    A page loaded again sends no form again.
    """
    banner.forget()
    response = see(flask.url_for(endpoint, **values))
    response.set_cookie(
        _SAID,
        f"{_signature(said)}.{quote(said)}",
        max_age=60,
        path=PREFIX,
        httponly=True,
        samesite="Lax",
        secure=sessions.secure(),
    )
    return response


def see(address: str) -> flask.Response:
    """Return a redirect to another page of ours."""
    return flask.Response(status=303, headers={"Location": address})


def refused(error: HubError, template: str, **context: Any) -> flask.Response:
    """Return a form once more with what is wrong, as `error`; raises it for who reads no HTML."""
    if not wants_html():
        raise error
    shown = page(template, error.status, error=error.message, **context)
    if "Retry-After" in error.headers:
        shown.headers["Retry-After"] = error.headers["Retry-After"]
    return shown


def wants_html() -> bool:
    """Return whether the caller would rather read HTML than JSON, as browsers do."""
    accepted = flask.request.accept_mimetypes
    return accepted.best_match(["application/json", "text/html"]) == "text/html"


def finish(response: flask.Response) -> flask.Response:
    """Give an answer under /console its headers; a failure becomes a page where one is wanted."""
    if not is_ours(flask_proxies.request().path):
        return response
    if response.status_code >= 400 and response.mimetype == "application/json" and wants_html():
        response = _as_page(response)
    response.headers.extend(_HEADERS)
    response.vary.update(["Accept", "Cookie"])
    if flask.request.endpoint != "console.static":
        response.headers["Cache-Control"] = "no-store"
    if sessions.secure():
        response.headers["Strict-Transport-Security"] = f"max-age={_A_YEAR_S}"
    sessions.set_cookies(response)
    return response


def _as_page(failed: flask.Response) -> flask.Response:
    """Return a failure as a page for people."""
    # Of a path that is none there was no view to be guarded: nobody has looked who asks.
    with suppress(HubError):
        sessions.recognise()
    told = orjson.loads(failed.data)
    heading = _HEADINGS.get(failed.status_code, "This did not work")
    shown = page("error.html", failed.status_code, heading=heading, message=told["message"])
    for name in ("Allow", "Retry-After"):
        if name in failed.headers:
            shown.headers[name] = failed.headers[name]
    return shown


def ask_to_sign_in(error: NotSignedIn) -> flask.Response:
    """Lead a browser to the form for signing in, and back afterwards; others are told.

    Who has sent a form is told that it was not taken, and led back to the page that it is on.
    """
    if not wants_html():
        return failure(error)
    if flask.request.method not in ("GET", "HEAD"):
        over = Unauthorized(
            "The session is over, and what you sent changed nothing. Sign in, and send it again."
        )
        return refused(over, "sign_in.html", back=_page_before(), email="")
    return see(flask.url_for("console.sign_in", next=flask.request.full_path.rstrip("?")))


def _page_before() -> str:
    """Return the page of ours that a form was sent from, "" where that is no page to open."""
    # Not by urlsplit, which raises for addresses that are none.
    host, _, rest = (flask.request.referrer or "").partition("://")[2].partition("/")
    path = f"/{rest}"
    routes = flask.current_app.url_map.bind("")
    ours = host == flask.request.host and routes.test(path.partition("?")[0], "GET")
    return path if ours else ""


def _said() -> str:
    """Return what the answer before has to say, if anything."""
    signature, _, text = flask.request.cookies.get(_SAID, "").partition(".")
    text = unquote(text)
    return text if same(signature, _signature(text)) else ""


def _signature(said: str) -> str:
    key = derive(hub().settings.secret_key, "console")
    return sign(key, f"{sessions.COOKIE}:{flask.g.cookie}:{said}".encode()).hex()
