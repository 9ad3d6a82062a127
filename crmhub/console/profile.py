"""The console's page of the signed-in user: password, second factor, role and accounts."""

from __future__ import annotations

from typing import Any

import flask
import segno
from markupsafe import Markup

from crmhub.api.http.authentication import hub
from crmhub.console import sessions
from crmhub.console.access import for_users
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author, signed_in
from crmhub.errors import HubError
from crmhub.operators.users import console_users as users
from crmhub.operators.users import second_factor, signing_in
from crmhub.users.roles import EXPLAINED

_LONGEST_CODE = 60


@blueprint.get("/profile")
@for_users
def profile() -> flask.Response:
    return page("profile/profile.html", **_shown())


@blueprint.post("/profile/password")
@for_users
def profile_password() -> flask.Response:
    """The user must enter the present password, and signs in again afterwards."""
    form, email = flask.request.form, signed_in().email
    try:
        signing_in.check_password(hub(), email, form.get("present", ""), sessions.browser())
        password = users.repeated(form.get("password", ""), form.get("again", ""))
        users.set_password(hub(), email, password, by=author())
    except HubError as exc:
        return refused(exc, "profile/profile.html", **_shown())
    return done("Your password is changed. Sign in with the new one.", "console.sign_in")


# --- the second factor -------------------------------------------------------------------------


@blueprint.get("/profile/second-factor")
@for_users
def profile_second_factor() -> flask.Response:
    return page("profile/second_factor.html", **_new_secret(""))


@blueprint.post("/profile/second-factor")
@for_users
def profile_turn_on() -> flask.Response:
    form, user_id = flask.request.form, signed_in().user_id
    sealed = form.get("sealed", "")
    try:
        codes = second_factor.turn_on(hub(), user_id, sealed, _code())
    except HubError as exc:
        return refused(exc, "profile/second_factor.html", **_new_secret(sealed))
    return page("profile/recovery_codes.html", 201, codes=codes)


@blueprint.post("/profile/second-factor/off")
@for_users
def profile_turn_off() -> flask.Response:
    try:
        second_factor.turn_off(hub(), signed_in().user_id, _code())
    except HubError as exc:
        return refused(exc, "profile/profile.html", **_shown())
    return done("The second factor is off.", "console.profile")


@blueprint.post("/profile/recovery-codes")
@for_users
def profile_recovery_codes() -> flask.Response:
    try:
        codes = second_factor.new_recovery_codes(hub(), signed_in().user_id, _code())
    except HubError as exc:
        return refused(exc, "profile/profile.html", **_shown())
    return page("profile/recovery_codes.html", 201, codes=codes)


def _code() -> str:
    return flask.request.form.get("code", "")[:_LONGEST_CODE]


def _shown() -> dict[str, Any]:
    user = users.load_user(hub(), signed_in().user_id)
    return {
        "profile": user,
        "explained": EXPLAINED[user.role],
        "client_ids": list(users.client_ids_of(hub(), [user]).values()),
        "codes_left": second_factor.count_recovery_codes(hub(), user.user_id),
    }


def _new_secret(sealed: str) -> dict[str, Any]:
    """Return the template variables of a new secret, or of the one in `sealed`."""
    user = signed_in()
    new = second_factor.new_secret(hub(), user.user_id, user.email, sealed=sealed)
    image = segno.make(new.uri, error="m").svg_inline(
        scale=5, border=4, light="white", title="QR code of the second factor", omitsize=False
    )
    # segno escapes the title and draws nothing else of the text.
    return {"new": new, "image": Markup(image)}
