"""The console's pages for the event subscriptions of an account: list, add, change and remove."""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

import flask

from crmhub.api.http.authentication import hub
from crmhub.console.access import needs
from crmhub.console.account import account_context
from crmhub.console.blueprint import blueprint
from crmhub.console.event_words import TONES, gets_all_types, grouped_types, state_of, visible_url
from crmhub.console.field_faults import set_differences
from crmhub.console.pages import done, page, refused
from crmhub.console.people import visible_text
from crmhub.console.sessions import author
from crmhub.errors import BadRequest, ChangedMeanwhile, HubError
from crmhub.events.event_types import EVERY_TYPE, expand
from crmhub.operators.events import event_subscriptions

_ALL = "/accounts/<client_id>/events"
_ONE = f"{_ALL}/<subscription_id>"
_EVERY_TYPE = "all"
# The form fields of what errors name otherwise.
_FIELDS = {"types": "type"}
_Settable = Literal["active", "disabled"]
_DONE = {
    "active": "The subscription is active.",
    "disabled": "The subscription is disabled. Events that were not delivered have failed.",
}


@blueprint.get(_ALL)
@needs("activity")
def events(client_id: str) -> flask.Response:
    return page("account/events.html", **_listed(client_id))


@blueprint.post(_ALL)
@needs("change")
def events_add(client_id: str) -> flask.Response:
    url, types = _given()
    try:
        made = event_subscriptions.add(hub(), client_id, url=url, types=types, by=author())
    except HubError as exc:
        context = _listed(client_id, url, types)
        return refused(exc, "account/events.html", at=_FIELDS, **context)
    return page("account/event_secret.html", 201, **account_context(client_id), made=made)


@blueprint.get(f"{_ONE}/change")
@needs("change")
def events_form(client_id: str, subscription_id: str) -> flask.Response:
    return page("account/event_change.html", **_change_context(client_id, subscription_id))


@blueprint.post(f"{_ONE}/change")
@needs("change")
def events_change(client_id: str, subscription_id: str) -> flask.Response:
    url, types = _given()
    present = event_subscriptions.find(hub(), client_id, subscription_id).types
    try:
        event_subscriptions.change(
            hub(),
            client_id,
            subscription_id,
            url=url,
            # The form shows the types of a pattern one by one.
            types=None if expand(types) == expand(present) else types,
            by=author(),
            expected=flask.request.form.get("seen"),
        )
    except ChangedMeanwhile as exc:
        context = _change_context(client_id, subscription_id)
        given = {"url": url, "type": ", ".join(types)}
        set_differences(exc, given, {"url": context["url"], "type": ", ".join(context["types"])})
        return refused(exc, "account/event_change.html", **context)
    except HubError as exc:
        context = _change_context(client_id, subscription_id) | {"url": url, "types": types}
        return refused(exc, "account/event_change.html", at=_FIELDS, **context)
    of = {"client_id": client_id, "subscription_id": subscription_id}
    return done("Saved. The secret stays the same.", "console.events_one", **of)


@blueprint.post(f"{_ONE}/state")
@needs("change")
def events_state(client_id: str, subscription_id: str) -> flask.Response:
    state = flask.request.form.get("state", "")
    if state not in get_args(_Settable):
        raise BadRequest("state: choose active or disabled.")
    settable = cast(_Settable, state)
    event_subscriptions.change(hub(), client_id, subscription_id, state=settable, by=author())
    of = {"client_id": client_id, "subscription_id": subscription_id}
    return done(_DONE[state], "console.events_one", **of)


@blueprint.post(f"{_ONE}/remove")
@needs("change")
def events_remove(client_id: str, subscription_id: str) -> flask.Response:
    event_subscriptions.remove(hub(), client_id, subscription_id, by=author())
    return done("The subscription is removed.", "console.events", client_id=client_id)


def _given() -> tuple[str, tuple[str, ...]]:
    form = flask.request.form
    types = tuple(form.getlist("type"))
    return form.get("url", "").strip(), (EVERY_TYPE,) if _EVERY_TYPE in types else types


def _listed(client_id: str, url: str = "", types: tuple[str, ...] = ()) -> dict[str, Any]:
    listed = event_subscriptions.listed(hub(), client_id)
    return {
        **_form(client_id),
        "subscriptions": [
            (each, state_of(each), visible_url(each), visible_text(each.reason)) for each in listed
        ],
        "gets_all_types": gets_all_types,
        "tones": TONES,
        "url": url,
        "types": types,
    }


def _change_context(client_id: str, subscription_id: str) -> dict[str, Any]:
    found = event_subscriptions.find(hub(), client_id, subscription_id)
    return {
        **_form(client_id),
        "subscription": found,
        "url": found.url,
        "types": expand(found.types),
        "seen": event_subscriptions.target_version(found),
    }


def _form(client_id: str) -> dict[str, Any]:
    return {**account_context(client_id), "groups": grouped_types(), "every_type": _EVERY_TYPE}
