"""The console's pages for its users: list, invitation, and a page per user."""

from __future__ import annotations

import re
from typing import Any

import flask

from crmhub.api.http.authentication import hub
from crmhub.console.access import needs
from crmhub.console.blueprint import blueprint
from crmhub.console.field_faults import set_differences
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author
from crmhub.console.sign_in import absolute
from crmhub.errors import ChangedMeanwhile, HubError
from crmhub.operators.users import console_users as operating
from crmhub.users.roles import EXPLAINED, ROLES
from crmhub.users.users import User

_ROLE_CHOICES = [(role, role.capitalize()) for role in ROLES]
_SEPARATORS = re.compile(r"[\s,;]+")


@blueprint.get("/users")
@needs("people")
def users() -> flask.Response:
    return page("users/list.html", **_list_context())


@blueprint.post("/users")
@needs("people")
def users_invite() -> flask.Response:
    form = flask.request.form
    given = {name: form.get(name, "").strip() for name in ("email", "role", "scope", "accounts")}
    try:
        token = operating.invite(
            hub(),
            given["email"],
            role=given["role"],
            client_ids=_client_ids(given),
            by=author(),
        )
    except HubError as exc:
        return refused(exc, "users/list.html", **_list_context(given))
    return _show_link(given["email"], token)


@blueprint.get("/users/<user_id>")
@needs("people")
def users_one(user_id: str) -> flask.Response:
    return page("users/one.html", **_user_context(operating.load_user(hub(), user_id)))


@blueprint.post("/users/<user_id>")
@needs("people")
def users_change(user_id: str) -> flask.Response:
    user, form = operating.load_user(hub(), user_id), flask.request.form
    given = {name: form.get(name, "").strip() for name in ("role", "scope", "accounts")}
    try:
        operating.set_role(
            hub(),
            user.email,
            given["role"],
            _client_ids(given),
            by=author(),
            expected=form.get("seen"),
        )
    except ChangedMeanwhile as exc:
        context = _user_context(operating.load_user(hub(), user_id))
        set_differences(exc, given, context["given"])
        return refused(exc, "users/one.html", **context)
    except HubError as exc:
        return refused(exc, "users/one.html", **{**_user_context(user), "given": given})
    return done("Saved. The user signs in again.", "console.users_one", user_id=user_id)


@blueprint.post("/users/<user_id>/disabled")
@needs("people")
def users_disable(user_id: str) -> flask.Response:
    user, disabled = operating.load_user(hub(), user_id), "enable" not in flask.request.form
    try:
        operating.set_disabled(hub(), user.email, disabled, by=author())
    except HubError as exc:
        return refused(exc, "users/one.html", **_user_context(user))
    message = f"{user.email} is {'disabled' if disabled else 'enabled'}."
    return done(message, "console.users_one", user_id=user_id)


@blueprint.post("/users/<user_id>/link")
@needs("people")
def users_link(user_id: str) -> flask.Response:
    user = operating.load_user(hub(), user_id)
    try:
        token = operating.create_link(hub(), user.email, by=author())
    except HubError as exc:
        return refused(exc, "users/one.html", **_user_context(user))
    return _show_link(user.email, token)


@blueprint.post("/users/<user_id>/second-factor")
@needs("people")
def users_reset_second_factor(user_id: str) -> flask.Response:
    user = operating.load_user(hub(), user_id)
    operating.reset_second_factor(hub(), user.email, by=author())
    message = f"The second factor of {user.email} is off."
    return done(message, "console.users_one", user_id=user_id)


@blueprint.post("/users/<user_id>/remove")
@needs("people")
def users_remove(user_id: str) -> flask.Response:
    user = operating.load_user(hub(), user_id)
    try:
        operating.remove_user(hub(), user.email, by=author())
    except HubError as exc:
        return refused(exc, "users/one.html", **_user_context(user))
    return done(f"{user.email} is removed.", "console.users")


def _show_link(email: str, token: str) -> flask.Response:
    link = operating.find_link(hub(), token)
    url = absolute(flask.url_for("console.link", token=token))
    return page("users/link.html", 201, email=email, link=link, url=url)


def _client_ids(given: dict[str, str]) -> list[str] | None:
    """Return the client ids that a form names, None if it says all accounts."""
    if given["scope"] != "some":
        return None
    return [word for word in _SEPARATORS.split(given["accounts"]) if word]


def _list_context(given: dict[str, str] | None = None) -> dict[str, Any]:
    listed = operating.list_users(hub())
    return {
        "users": listed,
        "client_ids": operating.client_ids_of(hub(), listed),
        "given": given or {"role": "operator"},
        "roles": _ROLE_CHOICES,
        "explained": EXPLAINED,
    }


def _user_context(user: User) -> dict[str, Any]:
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
        "explained": EXPLAINED,
    }
