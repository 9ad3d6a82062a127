"""Make the responses of the console: pages, refused forms, redirects with a message, error pages.

What is wrong with a refused form stands at its fields, by the macros of `parts.html`. An error
names fields itself (`HubError.fields`), or its message begins with one: `name: reason`. The first
field with a fault has the focus. What stands at no field of the page stays in the message above the
form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Any, cast
from urllib.parse import quote, unquote

import flask
from flask_babel import LazyString, gettext, lazy_gettext
from markupsafe import Markup
from werkzeug.exceptions import NotFound as WrongPath

from crmhub.api.documents import POLICY
from crmhub.api.http import flask_proxies
from crmhub.api.http.answers import JsonAnswer, failure
from crmhub.api.http.authentication import hub
from crmhub.console import banner, sessions
from crmhub.console.reader_zone import reader_zone
from crmhub.console.sessions import PREFIX, NotSignedIn, View, blueprint, is_ours, may_open
from crmhub.errors import ChangedMeanwhile, HubError, Unauthorized
from crmhub.secrets import derive, same, sign
from crmhub.translatable import translated

HEAD = (
    (lazy_gettext("Overview"), "console.home", ""),
    (lazy_gettext("Accounts"), "console.accounts", "accounts"),
    (lazy_gettext("Activity"), "console.activity", "activity"),
    (lazy_gettext("Audit log"), "console.audit_log", "audit"),
    (lazy_gettext("Users"), "console.users", "users"),
    (lazy_gettext("Hub"), "console.workers", "workers"),
)
"""Label, endpoint, and the first segment of the path."""
_SECTIONS = {
    "records": "accounts",
    "tokens": "users",
    "plans": "workers",
    "alerts": "workers",
    "views": "activity",
}
"""The header's entry for pages whose path has another first segment."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    # With no-referrer, a browser would send the Origin "null" with a form.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_HEADINGS = {
    403: lazy_gettext("Not allowed"),
    404: lazy_gettext("Page not found"),
    429: lazy_gettext("Too many requests"),
    500: lazy_gettext("Something went wrong"),
    503: lazy_gettext("The hub is unavailable"),
}
_A_YEAR_S = 365 * 24 * 3600
_MESSAGE_COOKIE = "crmhub_console_said"
_ALL_SHOWN = {
    True: lazy_gettext("Correct the marked fields."),
    False: lazy_gettext("Not saved. Correct the marked fields."),
}
Show = Callable[..., flask.Response]
_NAMED = re.compile(r"([A-Za-z_][\w.\[\]]{0,60}): (.+)", re.DOTALL)


def page(template: str, status: int = 200, /, **context: Any) -> flask.Response:
    """Render a template of `templates/console/`."""
    user = flask.g.get("signed_in")
    part = flask.request.path.removeprefix(f"{PREFIX}/").partition("/")[0]
    text = flask.render_template(
        f"console/{template}",
        user=user,
        # Whether the user may open the view of an endpoint: pages offer nothing else.
        may=partial(may_open, user),
        # The overview itself lists what needs attention.
        banner=banner.banner(user) if user and flask.request.endpoint != "console.home" else [],
        csrf=_csrf_field,
        said=_pending_message(),
        head=[one for one in HEAD if may_open(user, one[1])],
        part=_SECTIONS.get(part, part),
        zone=reader_zone(),
        **context,
    )
    response = flask.Response(text, status=status, content_type="text/html; charset=utf-8")
    # Tells `failures.in_shape` to keep this page, even if its status is an error.
    flask.g.is_page = True
    if flask.request.cookies.get(_MESSAGE_COOKIE):
        response.delete_cookie(_MESSAGE_COOKIE, path=PREFIX)
    return response


def add_page(
    path: str,
    endpoint: str,
    requires: Callable[[Show], Show],
    template: str,
    context: Callable[..., dict[str, Any]],
) -> None:
    """Register a page whose view only renders `template` with `context(**variables of the path)`.

    `requires`: a declaration of `sessions`, such as `needs("data")`.
    """

    def show(**variables: str) -> flask.Response:
        return page(template, **context(**variables))

    blueprint.add_url_rule(path, endpoint, requires(show))


def fragment(template: str, /, **context: Any) -> flask.Response:
    """Render a part of a page by a template of `templates/console/`."""
    text = flask.render_template(f"console/{template}", **context)
    flask.g.is_page = True
    return flask.Response(text, content_type="text/html; charset=utf-8")


def _csrf_field() -> Markup:
    field = Markup('<input type="hidden" name="{}" value="{}">')
    return field.format(sessions.FIELD, sessions.csrf_token())


def done(message: str | LazyString, endpoint: str, **values: Any) -> flask.Response:
    """Redirect after a processed form; the page of `endpoint` then shows `message` once."""
    banner.forget()
    message = str(message)
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
    return flask.Response(status=303, headers={"Location": address})


def refused(
    error: HubError, template: str, /, at: Mapping[str, str] | None = None, **context: Any
) -> flask.Response:
    """Return the page with a refused form again; each fault stands at its field.

    `at` has form fields by the names in the error that differ. What stands at no field is in the
    message above the form. Raises the error if the client does not prefer HTML.
    """
    if not wants_html():
        raise error
    _set_error(error, at or {})
    context["changed"] = isinstance(error, ChangedMeanwhile)
    whole = message_of(error)
    response = page(template, error.status, error=whole, **context)
    # Only the page knows its fields.
    if (message := _headline(error)) != whole:
        response = page(template, error.status, error=message, **context)
    if "Retry-After" in error.headers:
        response.headers["Retry-After"] = error.headers["Retry-After"]
    return response


def errors_on(
    template: str,
    context: Callable[..., dict[str, Any]],
    read: Callable[[], Mapping[str, Any]] | None = None,
) -> Callable[[View], View]:
    """Declare the page that shows the errors of a view, such as the page whose form it processes.

    `context` returns the template variables of the page for the variables of the path; `at` among
    them is that of `refused`. `read` returns what the form says. The page shows that as `given`
    instead of the present values; if these were changed meanwhile, it shows them, and the
    difference at each field.
    """

    def declare(view: View) -> View:
        @wraps(view)
        def answer(**path: str) -> flask.Response:
            try:
                response: flask.Response = view(**path)
                return response
            except HubError as exc:
                shown = context(**path)
                if read and isinstance(exc, ChangedMeanwhile):
                    _set_differences(exc, read(), shown["given"])
                elif read:
                    shown["given"] = {**shown["given"], **read()}
                return refused(exc, template, **shown)

        return cast(View, answer)

    return declare


def typed(*names: str) -> dict[str, str]:
    """Return the fields of the submitted form, without surrounding blanks; "" for a missing one."""
    return {name: flask.request.form.get(name, "").strip() for name in names}


def set_faults(faults: Mapping[str, str]) -> None:
    flask.g.faults = {name: _sentence(text) for name, text in faults.items()}
    flask.g.shown_faults = []


def message_of(error: HubError) -> str:
    """Return what an error says, in the reader's language where the catalogue has it."""
    return translated(error.message, gettext)


def _set_error(error: HubError, at: Mapping[str, str]) -> None:
    """Show the faults of an error; `at` has form fields by the names in the error that differ."""
    named = _NAMED.fullmatch(message_of(error))
    pairs = [(name, translated(text, gettext)) for name, text in error.fields]
    pairs = pairs or ([(named[1], named[2])] if named else [])
    set_faults({at.get(name, name): text for name, text in reversed(pairs)})


def _set_differences(error: HubError, given: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Let `error` say at each field what the older form said, if that is not the present value."""
    texts = {name: (_text(given[name]), _text(present.get(name, ""))) for name in given}
    error.fields = tuple(
        (
            name,
            gettext(
                "Your form said: %(said)s. The present value is shown.",
                said=typed or gettext("nothing"),
            ),
        )
        for name, (typed, now) in texts.items()
        if typed.split() != now.split()
    )


def _text(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else ", ".join(map(str, value))


def _headline(error: HubError) -> str:
    """Return the message above the form, once the page was made: it omits what fields show."""
    shown, faults = set(flask.g.shown_faults), flask.g.faults
    flask.g.shown_faults = []
    if isinstance(error, ChangedMeanwhile) or not faults or not shown >= faults.keys():
        return message_of(error)
    return str(_ALL_SHOWN[flask.request.method == "GET"])


def fault_of(name: str) -> str:
    fault: str = flask.g.get("faults", {}).get(name, "")
    if fault and name not in flask.g.shown_faults:
        flask.g.shown_faults.append(name)
    return fault


def has_focus(name: str, autofocus: bool = False) -> bool:
    """Return whether the cursor starts in this field: the first faulty one, else by `autofocus`."""
    if not flask.g.get("faults"):
        return autofocus
    return bool(fault_of(name)) and flask.g.shown_faults[0] == name


def _sentence(text: str) -> str:
    ended = text if text.endswith((".", "!", "?")) else f"{text}."
    return f"{ended[:1].upper()}{ended[1:]}"


def wants_html() -> bool:
    """Return whether the client prefers HTML to JSON, as browsers do."""
    accepted = flask.request.accept_mimetypes
    return accepted.best_match(["application/json", "text/html"]) == "text/html"


def finish(response: flask.Response) -> flask.Response:
    """Add headers and cookies to the console's responses; make JSON errors pages for browsers."""
    if not is_ours(flask_proxies.request().path):
        return response
    error = response.error if isinstance(response, JsonAnswer) else None
    if error is not None and wants_html():
        response = _error_page(response, error)
    response.headers.extend(HEADERS)
    if flask.request.endpoint != "console.static" or response.status_code >= 400:
        response.vary.update(["Accept", "Cookie"])
        response.headers["Cache-Control"] = "no-store"
    if sessions.secure():
        response.headers["Strict-Transport-Security"] = f"max-age={_A_YEAR_S}"
    sessions.set_cookies(response)
    return response


def _error_page(failure: flask.Response, error: HubError) -> flask.Response:
    # On an unknown path no view ran, so the session was not looked up yet.
    with suppress(HubError):
        sessions.recognise()
    heading = _HEADINGS.get(failure.status_code) or gettext("The request failed")
    # For an unknown path the JSON message names /openapi.json, which describes no page.
    unknown_path = isinstance(flask.request.routing_exception, WrongPath)
    message = gettext("Check the address.") if unknown_path else message_of(error)
    if flask.request.path.startswith(f"{PREFIX}/connect/"):
        # A customer has no user, and knows no other page.
        response = page("connect/failed.html", failure.status_code, error=message)
    else:
        response = page("error.html", failure.status_code, heading=heading, message=message)
    for name in ("Allow", "Retry-After"):
        if name in failure.headers:
            response.headers[name] = failure.headers[name]
    return response


def ask_to_sign_in(error: NotSignedIn) -> flask.Response:
    """Redirect browsers to the sign-in page, which leads back to the requested page or the form."""
    if not wants_html():
        return failure(error)
    if flask.request.method not in ("GET", "HEAD"):
        expired = Unauthorized(
            "Your session has expired, and nothing was changed. Sign in and submit the form again."
        )
        return refused(expired, "sign_in.html", back=_referring_page(), email="")
    return see(flask.url_for("console.sign_in", next=flask.request.full_path.rstrip("?")))


def _referring_page() -> str:
    """Return the path of the page with the submitted form, "" if GET cannot open it here."""
    # urlsplit would raise for an invalid Referer.
    host, _, rest = (flask.request.referrer or "").partition("://")[2].partition("/")
    path = f"/{rest}"
    routes = flask.current_app.url_map.bind("")
    ours = host == flask.request.host and routes.test(path.partition("?")[0], "GET")
    return path if ours else ""


def _pending_message() -> str:
    """Return the message that `done` stored in a cookie, "" without a valid one."""
    signature, _, text = flask.request.cookies.get(_MESSAGE_COOKIE, "").partition(".")
    text = unquote(text)
    return text if same(signature, _signature(text)) else ""


def _signature(message: str) -> str:
    key = derive(hub().settings.secret_key, "console")
    return sign(key, f"{sessions.COOKIE}:{flask.g.cookie}:{message}".encode()).hex()
