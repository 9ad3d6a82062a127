"""Responses of the console: pages, redirects with a message, and error pages."""

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
"""The pages linked in the header: label, endpoint, and the first segment of their paths."""

# Only this service's own styles and scripts load; Bootstrap draws its arrows with data: URLs.
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    # With no-referrer, a browser would send the Origin "null" with a form.
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
_MESSAGE_COOKIE = "crmhub_console_said"


def page(template: str, status: int = 200, /, **context: Any) -> flask.Response:
    """Render a template in `templates/console/`."""
    text = flask.render_template(
        f"console/{template}",
        user=flask.g.get("signed_in"),
        banner=banner.banner() if flask.g.get("signed_in") else [],
        csrf=_csrf_field,
        said=_pending_message(),
        head=HEAD,
        part=flask.request.path.removeprefix(f"{PREFIX}/").partition("/")[0],
        version=__version__,
        **context,
    )
    response = flask.Response(text, status=status, content_type="text/html; charset=utf-8")
    # A failure with a body of its own.
    flask.g.is_page = True
    if flask.request.cookies.get(_MESSAGE_COOKIE):
        response.delete_cookie(_MESSAGE_COOKIE, path=PREFIX)
    return response


def _csrf_field() -> Markup:
    """Return the hidden field with the CSRF token that every form needs."""
    field = Markup('<input type="hidden" name="{}" value="{}">')
    return field.format(sessions.FIELD, sessions.csrf_token())


def done(message: str, endpoint: str, **values: Any) -> flask.Response:
    """Redirect to a page that shows this message, after a form was processed.

    Reloading that page does not submit the form again.
    """
    banner.forget()
    response = see(flask.url_for(endpoint, **values))
    response.set_cookie(
        _MESSAGE_COOKIE,
        f"{_signature(message)}.{quote(message)}",
        max_age=60,
        path=PREFIX,
        httponly=True,
        samesite="Lax",
        secure=sessions.secure(),
    )
    return response


def see(address: str) -> flask.Response:
    """Return a redirect to another page of the console."""
    return flask.Response(status=303, headers={"Location": address})


def refused(error: HubError, template: str, **context: Any) -> flask.Response:
    """Show the form again with the error's message; raise the error for a client without HTML."""
    if not wants_html():
        raise error
    response = page(template, error.status, error=error.message, **context)
    if "Retry-After" in error.headers:
        response.headers["Retry-After"] = error.headers["Retry-After"]
    return response


def wants_html() -> bool:
    """Return whether the client prefers HTML to JSON, as browsers do."""
    accepted = flask.request.accept_mimetypes
    return accepted.best_match(["application/json", "text/html"]) == "text/html"


def finish(response: flask.Response) -> flask.Response:
    """Set the console's headers on a response, and turn a JSON error into a page for browsers."""
    if not is_ours(flask_proxies.request().path):
        return response
    if response.status_code >= 400 and response.mimetype == "application/json" and wants_html():
        response = _error_page(response)
    response.headers.extend(_HEADERS)
    response.vary.update(["Accept", "Cookie"])
    if flask.request.endpoint != "console.static":
        response.headers["Cache-Control"] = "no-store"
    if sessions.secure():
        response.headers["Strict-Transport-Security"] = f"max-age={_A_YEAR_S}"
    sessions.set_cookies(response)
    return response


def _error_page(failure: flask.Response) -> flask.Response:
    """Return the error page for a JSON error."""
    # On an unknown path no view ran, so the session was not looked up yet.
    with suppress(HubError):
        sessions.recognise()
    body = orjson.loads(failure.data)
    heading = _HEADINGS.get(failure.status_code, "This did not work")
    response = page("error.html", failure.status_code, heading=heading, message=body["message"])
    for name in ("Allow", "Retry-After"):
        if name in failure.headers:
            response.headers[name] = failure.headers[name]
    return response


def ask_to_sign_in(error: NotSignedIn) -> flask.Response:
    """Redirect a browser to the sign-in page; other clients get a JSON error.

    Afterwards the browser returns to the requested page. After a submitted form, the sign-in page
    says that nothing was changed, and leads back to the form.
    """
    if not wants_html():
        return failure(error)
    if flask.request.method not in ("GET", "HEAD"):
        expired = Unauthorized(
            "The session is over, and what you sent changed nothing. Sign in, and send it again."
        )
        return refused(expired, "sign_in.html", back=_referring_page(), email="")
    return see(flask.url_for("console.sign_in", next=flask.request.full_path.rstrip("?")))


def _referring_page() -> str:
    """Return the path of the page that contains the form, or "" if GET cannot open it."""
    # urlsplit would raise for an invalid Referer.
    host, _, rest = (flask.request.referrer or "").partition("://")[2].partition("/")
    path = f"/{rest}"
    routes = flask.current_app.url_map.bind("")
    ours = host == flask.request.host and routes.test(path.partition("?")[0], "GET")
    return path if ours else ""


def _pending_message() -> str:
    """Return the message that the previous response stored in a cookie, or ""."""
    signature, _, text = flask.request.cookies.get(_MESSAGE_COOKIE, "").partition(".")
    text = unquote(text)
    return text if same(signature, _signature(text)) else ""


def _signature(message: str) -> str:
    key = derive(hub().settings.secret_key, "console")
    return sign(key, f"{sessions.COOKIE}:{flask.g.cookie}:{message}".encode()).hex()
