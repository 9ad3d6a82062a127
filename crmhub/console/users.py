"""The console's pages for its users: list, invitation, a page per user, and the user's own profile.

A user's profile has the password and the second factor.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import flask
import segno
from flask_babel import LazyString, gettext, lazy_gettext
from markupsafe import Markup

from crmhub.api.http.authentication import hub
from crmhub.console import sessions
from crmhub.console.pages import add_page, done, errors_on, page, typed
from crmhub.console.reader_language import language_choices
from crmhub.console.reader_zone import zone_choices
from crmhub.console.sessions import author, blueprint, for_users, needs, signed_in
from crmhub.console.sign_in import absolute
from crmhub.operators.users import console_users as operating
from crmhub.operators.users import second_factor, signing_in
from crmhub.users.roles import EXPLAINED, Role

_ROLE_CHOICES: Sequence[tuple[Role, LazyString]] = (
    ("owner", lazy_gettext("Owner")),
    ("operator", lazy_gettext("Operator")),
    ("support", lazy_gettext("Support")),
    ("reader", lazy_gettext("Reader")),
)
_SEPARATORS = re.compile(r"[\s,;]+")
_LONGEST_CODE = 60


def _typed() -> dict[str, str]:
    return typed("email", "role", "scope", "accounts")


def _client_ids(given: dict[str, str]) -> list[str] | None:
    """Return the client ids that a form names, None if it says all accounts."""
    if given["scope"] != "some":
        return None
    return [word for word in _SEPARATORS.split(given["accounts"]) if word]


def _list_context() -> dict[str, Any]:
    listed = operating.list_users(hub())
    return {
        "users": listed,
        "client_ids": operating.client_ids_of(hub(), listed),
        "given": {"role": "operator"},
        "roles": _ROLE_CHOICES,
        "explained": {role: gettext(text) for role, text in EXPLAINED.items()},
    }


def _user_context(user_id: str) -> dict[str, Any]:
    user = operating.load_user(hub(), user_id)
    client_ids = operating.client_ids_of(hub(), [user])
    given = {
        "role": user.role,
        "scope": "all" if user.accounts is None else "some",
        "accounts": "\n".join(client_ids.values()),
    }
    return {
        "person": user,
        "client_ids": client_ids,
        "seen": operating.access_version(user),
        "given": given,
        "roles": _ROLE_CHOICES,
        "explained": {role: gettext(text) for role, text in EXPLAINED.items()},
    }


add_page("/users", "users", needs("people"), "users/list.html", _list_context)


@blueprint.post("/users")
@needs("people")
@errors_on("users/list.html", _list_context, _typed)
def users_invite() -> flask.Response:
    given = _typed()
    email, role = given["email"], given["role"]
    token = operating.invite(hub(), email, role=role, client_ids=_client_ids(given), by=author())
    return _show_link(email, token)


def _show_link(email: str, token: str) -> flask.Response:
    link = operating.find_link(hub(), token)
    url = absolute(flask.url_for("console.link", token=token))
    return page("users/link.html", 201, email=email, link=link, url=url)


add_page("/users/<user_id>", "users_one", needs("people"), "users/one.html", _user_context)


def _typed_access() -> dict[str, str]:
    return typed("role", "scope", "accounts")


@blueprint.post("/users/<user_id>")
@needs("people")
@errors_on("users/one.html", _user_context, _typed_access)
def users_change(user_id: str) -> flask.Response:
    email, given = operating.load_user(hub(), user_id).email, _typed_access()
    operating.set_role(
        hub(),
        email,
        given["role"],
        _client_ids(given),
        by=author(),
        expected=flask.request.form.get("seen"),
    )
    return done(gettext("Saved. The user signs in again."), "console.users_one", user_id=user_id)


@blueprint.post("/users/<user_id>/disabled")
@needs("people")
@errors_on("users/one.html", _user_context)
def users_disable(user_id: str) -> flask.Response:
    email, disabled = operating.load_user(hub(), user_id).email, "enable" not in flask.request.form
    operating.set_disabled(hub(), email, disabled, by=author())
    message = (
        gettext("%(email)s is disabled.", email=email)
        if disabled
        else gettext("%(email)s is enabled.", email=email)
    )
    return done(message, "console.users_one", user_id=user_id)


@blueprint.post("/users/<user_id>/link")
@needs("people")
@errors_on("users/one.html", _user_context)
def users_link(user_id: str) -> flask.Response:
    email = operating.load_user(hub(), user_id).email
    return _show_link(email, operating.create_link(hub(), email, by=author()))


@blueprint.post("/users/<user_id>/second-factor")
@needs("people")
def users_reset_second_factor(user_id: str) -> flask.Response:
    email = operating.load_user(hub(), user_id).email
    operating.reset_second_factor(hub(), email, by=author())
    message = gettext("The second factor of %(email)s is off.", email=email)
    return done(message, "console.users_one", user_id=user_id)


@blueprint.post("/users/<user_id>/remove")
@needs("people")
@errors_on("users/one.html", _user_context)
def users_remove(user_id: str) -> flask.Response:
    email = operating.load_user(hub(), user_id).email
    operating.remove_user(hub(), email, by=author())
    return done(gettext("%(email)s is removed.", email=email), "console.users")


# --- the user's own profile --------------------------------------------------------------------


def _profile_context() -> dict[str, Any]:
    user = operating.load_user(hub(), signed_in().user_id)
    return {
        "profile": user,
        "explained": gettext(EXPLAINED[user.role]),
        "client_ids": list(operating.client_ids_of(hub(), [user]).values()),
        "codes_left": second_factor.count_recovery_codes(hub(), user.user_id),
        "zones": zone_choices(),
        "languages": language_choices(),
    }


add_page("/profile", "profile", for_users, "profile/profile.html", _profile_context)


@blueprint.post("/profile/preferences")
@for_users
@errors_on("profile/profile.html", _profile_context)
def profile_preferences() -> flask.Response:
    given = typed("timeZone", "language")
    operating.set_preferences(hub(), signed_in(), given["timeZone"], given["language"], by=author())
    return done(gettext("Saved."), "console.profile")


@blueprint.post("/profile/password")
@for_users
@errors_on("profile/profile.html", _profile_context)
def profile_password() -> flask.Response:
    """The user must enter the present password, and signs in again afterwards."""
    form, email = flask.request.form, signed_in().email
    signing_in.check_password(hub(), email, form.get("present", ""), sessions.browser())
    password = operating.repeated(form.get("password", ""), form.get("again", ""))
    operating.set_password(hub(), email, password, by=author())
    return done(gettext("Your password is changed. Sign in with the new one."), "console.sign_in")


def _second_factor_context() -> dict[str, Any]:
    """Return the template variables of the secret in the form, or of a new one."""
    user, sealed = signed_in(), flask.request.form.get("sealed", "")
    new = second_factor.new_secret(hub(), user.user_id, user.email, sealed=sealed)
    image = segno.make(new.uri, error="m").svg_inline(
        scale=5,
        border=4,
        light="white",
        title=gettext("QR code of the second factor"),
        omitsize=False,
    )
    # segno escapes the title and draws nothing else of the text.
    return {"new": new, "image": Markup(image)}


def _code() -> str:
    return flask.request.form.get("code", "")[:_LONGEST_CODE]


add_page(
    "/profile/second-factor",
    "profile_second_factor",
    for_users,
    "profile/second_factor.html",
    _second_factor_context,
)


@blueprint.post("/profile/second-factor")
@for_users
@errors_on("profile/second_factor.html", _second_factor_context)
def profile_turn_on() -> flask.Response:
    sealed = flask.request.form.get("sealed", "")
    codes = second_factor.turn_on(hub(), signed_in().user_id, sealed, _code())
    return page("profile/recovery_codes.html", 201, codes=codes)


@blueprint.post("/profile/second-factor/off")
@for_users
@errors_on("profile/profile.html", _profile_context)
def profile_turn_off() -> flask.Response:
    second_factor.turn_off(hub(), signed_in().user_id, _code())
    return done(gettext("The second factor is off."), "console.profile")


@blueprint.post("/profile/recovery-codes")
@for_users
@errors_on("profile/profile.html", _profile_context)
def profile_recovery_codes() -> flask.Response:
    codes = second_factor.new_recovery_codes(hub(), signed_in().user_id, _code())
    return page("profile/recovery_codes.html", 201, codes=codes)
