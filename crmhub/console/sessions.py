"""The console's blueprint: sign-in sessions, what a view requires, forms' protection against CSRF.

Every view declares with `open_to_all`, `for_users` or `needs` what it requires: nothing, a session,
or a right of the user's role. `guard` refuses a view that declares nothing. A view whose path names
an account or an action can be opened only by users who see this account.

The session cookie contains a token, and the database contains its digest. Before sign-in the token
belongs to no session, so that the sign-in form is protected like all other forms. Each form
contains a signature of the cookie. A POST is also refused if the browser's header Sec-Fetch-Site or
Origin names another site.

A device cookie for each user outlives the session. It identifies the browser at the next sign-in
(`Limits.sign_in`).

Over https, the names of cookies begin with `__Host-`. Browsers let only pages of this host that
were loaded over https set such cookies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import flask
from werkzeug.exceptions import RequestEntityTooLarge

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.api.http.addresses import client_address, is_https
from crmhub.api.http.authentication import hub
from crmhub.audit import Author
from crmhub.errors import BadRequest, Forbidden, HubError, NotFound, Unauthorized
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.action_queries import Wanted
from crmhub.operators.users import signing_in
from crmhub.operators.users.signing_in import Browser, NewSession
from crmhub.secrets import derive, new_secret, same, sign
from crmhub.translatable import translatable
from crmhub.users.roles import Right
from crmhub.users.user_sessions import LONGEST_MS, SignedIn

PREFIX = "/console"
MAX_UPLOAD_BYTES = 20 * 1024 * 1024
"""For a CSV file with its form."""
_UPLOAD = re.compile(rf"{PREFIX}/accounts/[^/]+/imports")

blueprint = flask.Blueprint(
    "console",
    __name__,
    url_prefix=PREFIX,
    template_folder="templates",
    static_folder="static",
)

COOKIE = "crmhub_console"
_DEVICE_COOKIE = "crmhub_device_"
# About the longest time that browsers keep a cookie.
_DEVICE_S = 365 * 24 * 3600
_HOST_PREFIX = "__Host-"
FIELD = "csrf"
_TOKEN = re.compile(r"[A-Za-z0-9]{43}", re.ASCII)
View = TypeVar("View", bound=Callable[..., Any])
_ACCESS = "console_access"


def is_ours(path: str) -> bool:
    """Return whether a path is `/console` or below; `/console-2/api/v1` belongs to an account."""
    return path.startswith(PREFIX) and path[len(PREFIX) :][:1] in ("", "/")


def is_upload(method: str, path: str) -> bool:
    return method == "POST" and _UPLOAD.fullmatch(path) is not None


class NotSignedIn(Unauthorized):
    """The request has no session, or an expired one."""


class FileTooLarge(HubError):
    status = 413
    category = "BadRequestError"


@dataclass(frozen=True, slots=True)
class Access:
    """What a view requires of the user who opens it; `right`: None for any role."""

    session: bool = True
    right: Right | None = None
    all_accounts: bool = False

    def allows(self, user: SignedIn | None) -> bool:
        """`user`: None is a caller without a session."""
        if user is None:
            return not self.session
        return (self.right is None or user.may(self.right)) and not (
            self.all_accounts and user.accounts is not None
        )


def _declare(access: Access) -> Callable[[View], View]:
    def declare(view: View) -> View:
        setattr(view, _ACCESS, access)
        return view

    return declare


for_users = _declare(Access())
open_to_all = _declare(Access(session=False))


def needs(right: Right, *, all_accounts: bool = False) -> Callable[[View], View]:
    """Require a right, and with `all_accounts` a user who sees all accounts."""
    return _declare(Access(right=right, all_accounts=all_accounts))


def access_of(endpoint: str) -> Access | None:
    """Return what the view of an endpoint declares, None if nothing."""
    access: Access | None = getattr(flask.current_app.view_functions[endpoint], _ACCESS, None)
    return access


def may_open(user: SignedIn | None, endpoint: str) -> bool:
    """Return whether a user may open the view of an endpoint, as far as roles decide it."""
    access = access_of(endpoint)
    return access is not None and access.allows(user)


@blueprint.before_request
def guard() -> None:
    """Check the session, the user's rights and the CSRF token before each view of the console.

    Raises NotSignedIn, Forbidden, NotFound for an account that the user does not see, or BadRequest
    for a form with U+0000.
    """
    endpoint = flask.request.endpoint
    # Flask answers OPTIONS itself, and the list of methods is no secret.
    if endpoint == "console.static" or flask.request.method == "OPTIONS":
        return
    recognise()
    access = access_of(endpoint) if endpoint else None
    if flask.g.signed_in is None and (access is None or access.session):
        raise NotSignedIn("Sign in at /console/sign-in: there is no session, or it has expired.")
    # A view that declares nothing is refused, rather than open to everybody by mistake.
    if access is None or not access.allows(flask.g.signed_in):
        raise Forbidden("Your role does not allow this. Ask an owner of this hub.")
    if is_upload(flask.request.method, flask.request.path):
        _read_upload()
    if flask.request.method not in ("GET", "HEAD"):
        _require_console_form()
    _require_visible(flask.request.view_args or {})


def _require_visible(view_args: Mapping[str, str]) -> None:
    """Raise NotFound if the path names an account that the user does not see, or its action."""
    user: SignedIn | None = flask.g.signed_in
    if user is None or user.accounts is None:
        return
    if client_id := view_args.get("client_id"):
        load_account(client_id)
    if action_id := view_args.get("action_id"):
        wanted = Wanted(ids=(action_id,), account_ids=user.accounts)
        if not action_queries.listed(hub().database, wanted, limit=1):
            # The same message as for an action that does not exist.
            raise NotFound("There is no action %(id)s.", id=action_id[:60])


def load_account(client_id: str) -> Account:
    account = hub().load_account(client_id)
    if not signed_in().sees(account.id):
        # The same message as for an account that does not exist.
        raise accounts.unknown(client_id)
    return account


def _read_upload() -> None:
    """Read a form with a file, which may be longer than other bodies."""
    flask.request.max_content_length = MAX_UPLOAD_BYTES
    try:
        # Parses the body, which is then stored in the request.
        _ = flask.request.form
    except RequestEntityTooLarge:
        raise FileTooLarge(
            translatable(
                "The file is larger than %(size)s MiB. Divide it, or import it with the command"
                " crmhub import."
            ),
            size=MAX_UPLOAD_BYTES >> 20,
        ) from None


def recognise() -> None:
    """Find the session of the request's cookie, once a request; store it in `flask.g.signed_in`."""
    if "signed_in" in flask.g:
        return
    token = _cookie_value(COOKIE)
    flask.g.cookie = token if _TOKEN.fullmatch(token) else ""
    flask.g.signed_in = signing_in.signed_in(hub(), token) if flask.g.cookie else None
    if flask.g.signed_in is not None:
        hub().database.bind_all_accounts()


def _cookie_value(name: str) -> str:
    """Return the value of a cookie, or ""; in production, only of one set over https."""
    cookies = flask.request.cookies
    plain = "" if hub().settings.env == "production" else cookies.get(name, "")
    return cookies.get(f"{_HOST_PREFIX}{name}", plain)


def device(user_id: str) -> str:
    """Return the token by which a sign-in of the user recognises this browser, or ""."""
    return _cookie_value(f"{_DEVICE_COOKIE}{user_id}")


def browser() -> Browser:
    address = client_address(flask.request, hub().settings.trusted_proxies)
    return Browser(address, flask.g.cookie, device)


def _require_console_form() -> None:
    if not flask.g.cookie:
        raise Forbidden(
            "The browser sent no cookie with this form. Allow cookies for this address; in"
            " production the console needs https."
        )
    if not _is_same_origin() or not same(flask.request.form.get(FIELD, ""), csrf_token()):
        raise Forbidden(
            "This form belongs to another session. Nothing was changed."
            " Reload the page and submit it again."
        )
    # No value that a form can set contains it, and PostgreSQL refuses it.
    if any("\0" in text for pair in flask.request.form.items(multi=True) for text in pair):
        raise BadRequest("The form holds the character U+0000. Leave it out, and submit again.")


def _is_same_origin() -> bool:
    """Return whether a page of this host sent the request, or the browser does not say."""
    site = flask.request.headers.get("Sec-Fetch-Site")
    if site:
        return site in ("same-origin", "none")
    origin = flask.request.headers.get("Origin")
    return origin is None or origin.partition("://")[2] == flask.request.host


def csrf_token() -> str:
    """Return the token for the forms of this session, with a new cookie if there is none."""
    if not flask.g.cookie:
        flask.g.cookie = flask.g.new_cookie = new_secret()
    key = derive(hub().settings.secret_key, "console")
    return sign(key, flask.g.cookie.encode()).hex()


def remember(session: NewSession) -> None:
    """Make the response to this request set the session cookie and the device cookie."""
    flask.g.new_cookie = session.token
    flask.g.new_device = session


def set_cookies(response: flask.Response) -> None:
    """Add the cookies that were created or changed during this request."""
    value: str | None = flask.g.get("new_cookie")
    if value is not None:
        _set_cookie(response, COOKIE, value, LONGEST_MS // 1000)
    session: NewSession | None = flask.g.get("new_device")
    if session is not None:
        _set_cookie(response, f"{_DEVICE_COOKIE}{session.user_id}", session.device, _DEVICE_S)


def _set_cookie(response: flask.Response, name: str, value: str, seconds: int) -> None:
    is_secure = secure()
    response.set_cookie(
        f"{_HOST_PREFIX}{name}" if is_secure else name,
        value,
        max_age=seconds,
        # The prefix requires the path /.
        path="/" if is_secure else PREFIX,
        httponly=True,
        samesite="Lax",
        secure=is_secure,
    )


def secure() -> bool:
    settings = hub().settings
    return settings.env == "production" or is_https(flask.request, settings.trusted_proxies)


def signed_in() -> SignedIn:
    return cast(SignedIn, flask.g.signed_in)


def visible_accounts() -> frozenset[int] | None:
    """Return the ids of the accounts that the signed-in user sees, None for all accounts."""
    return signed_in().accounts


def author() -> Author:
    user = signed_in()
    return Author("user", user.email, user.user_id)
