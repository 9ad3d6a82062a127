"""The console's pages for the event subscriptions of an account and for their deliveries."""

from __future__ import annotations

import time
from typing import Any, Literal, cast, get_args

import flask

from crmhub.api.http.authentication import hub
from crmhub.console import event_words, list_filters
from crmhub.console.access import needs
from crmhub.console.account import account_context
from crmhub.console.blueprint import blueprint
from crmhub.console.event_words import TONES, gets_all_types, grouped_types, state_of, visible_url
from crmhub.console.field_faults import set_differences
from crmhub.console.pages import done, page, refused
from crmhub.console.people import visible_text
from crmhub.console.sessions import author
from crmhub.console.template_filters import counted
from crmhub.errors import BadRequest, ChangedMeanwhile, HubError
from crmhub.events.deliveries import STATES, Delivery, State
from crmhub.events.event_types import EVERY_TYPE, expand
from crmhub.operators.events import event_subscriptions

_ALL = "/accounts/<client_id>/events"
_ONE = f"{_ALL}/<subscription_id>"
_EVERY_TYPE = "all"
_PAGE_SIZE = 8
_PILLS = {"": "All", "queued": "Queued", "delivered": "Delivered", "failed": "Failed"}
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


# --- one subscription and its deliveries ---------------------------------------------------------


@blueprint.get(_ONE)
@needs("activity")
def events_one(client_id: str, subscription_id: str) -> flask.Response:
    return page("account/event.html", **_deliveries_context(client_id, subscription_id))


@blueprint.post(f"{_ONE}/test")
@needs("decide")
def events_test(client_id: str, subscription_id: str) -> flask.Response:
    sent = event_subscriptions.test(hub(), client_id, subscription_id)
    reason = visible_text(sent.attempt.reason)
    context = _deliveries_context(client_id, subscription_id)
    return page("account/event.html", **context, test=sent, test_reason=reason)


@blueprint.post(f"{_ONE}/replay")
@needs("decide")
def events_replay(client_id: str, subscription_id: str) -> flask.Response:
    given = {name: list_filters.text(value) for name, value in flask.request.form.items()}
    try:
        since = list_filters.moment(given, "since", "From")
        until = list_filters.moment(given, "until", "Until")
        if not since or not until:
            missing = [name for name, at in (("since", since), ("until", until)) if not at]
            message = "Enter a time."
            raise BadRequest(message, fields=[(name, message) for name in missing])
        count = event_subscriptions.replay(
            hub(), client_id, subscription_id, since=since, until=until, by=author()
        )
    except HubError as exc:
        context = _deliveries_context(client_id, subscription_id)
        return refused(exc, "account/event.html", **context, given=given)
    return _replayed(client_id, subscription_id, count)


@blueprint.post(f"{_ONE}/replay-events")
@needs("decide")
def events_replay_chosen(client_id: str, subscription_id: str) -> flask.Response:
    ids = flask.request.form.getlist("id")
    try:
        if not ids:
            raise BadRequest("Select at least one event.")
        count = event_subscriptions.replay(
            hub(), client_id, subscription_id, event_ids=ids[:_PAGE_SIZE], by=author()
        )
    except HubError as exc:
        return refused(exc, "account/event.html", **_deliveries_context(client_id, subscription_id))
    return _replayed(client_id, subscription_id, count)


def _replayed(client_id: str, subscription_id: str, count: int) -> flask.Response:
    message = f"{counted(count, 'event')} will be delivered again."
    of = {"client_id": client_id, "subscription_id": subscription_id}
    return done(message, "console.events_one", **of)


def _deliveries_context(client_id: str, subscription_id: str) -> dict[str, Any]:
    subscription = event_subscriptions.find(hub(), client_id, subscription_id)
    state: State | None = next(
        (name for name in STATES if name == flask.request.args.get("state")), None
    )
    after = _cursor()
    found = event_subscriptions.list_deliveries(
        hub(), client_id, subscription_id, state=state, after=after, limit=_PAGE_SIZE + 1
    )
    shown = found[:_PAGE_SIZE]
    return {
        **account_context(client_id),
        "subscription": subscription,
        "gets_all_types": gets_all_types(subscription),
        "word": state_of(subscription),
        "tones": TONES,
        "url": visible_url(subscription),
        "reason": visible_text(subscription.reason),
        "deliveries": [_row(client_id, delivery) for delivery in shown],
        "delivery_tones": event_words.DELIVERY_TONES,
        "state": state or "",
        "states": _PILLS,
        "after": after,
        "next": shown[-1] if len(found) > _PAGE_SIZE else None,
    }


def _row(client_id: str, delivery: Delivery) -> dict[str, Any]:
    next_at = delivery.next_attempt_at
    return {
        # Its time has come; it waits for a worker, a former event, or the address to answer.
        "is_due": next_at is not None and next_at <= time.time_ns() // 1_000_000,
        "delivery": delivery,
        "subject": event_words.visible_subject(delivery),
        "url": event_words.subject_url(client_id, delivery),
        "data": event_words.visible_data(delivery),
        "reason": visible_text(delivery.reason),
    }


def _cursor() -> tuple[int, str] | None:
    """Return time and id of the last event on the previous page, None on the first page."""
    args = flask.request.args
    created_at = list_filters.parse_id(args.get("after", ""), digits=15)
    return None if created_at is None else (created_at, list_filters.text(args.get("event", "")))
