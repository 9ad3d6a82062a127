"""The console's page of one event subscription: its state, a test, deliveries and replays."""

from __future__ import annotations

import time
from typing import Any

import flask

from crmhub.api.http.authentication import hub
from crmhub.console import event_words, list_filters
from crmhub.console.access import needs
from crmhub.console.account import account_context
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import done, page, refused
from crmhub.console.people import visible_text
from crmhub.console.sessions import author
from crmhub.console.template_filters import counted
from crmhub.errors import BadRequest, HubError
from crmhub.events.deliveries import STATES, Delivery, State
from crmhub.operators.events import event_subscriptions

_ONE = "/accounts/<client_id>/events/<subscription_id>"
_PAGE_SIZE = 8
_PILLS = {"": "All", "queued": "Queued", "delivered": "Delivered", "failed": "Failed"}


@blueprint.get(_ONE)
@needs("activity")
def events_one(client_id: str, subscription_id: str) -> flask.Response:
    return page("account/event.html", **_context(client_id, subscription_id))


@blueprint.post(f"{_ONE}/test")
@needs("decide")
def events_test(client_id: str, subscription_id: str) -> flask.Response:
    sent = event_subscriptions.test(hub(), client_id, subscription_id)
    reason = visible_text(sent.attempt.reason)
    context = _context(client_id, subscription_id)
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
        context = _context(client_id, subscription_id)
        return refused(exc, "account/event.html", **context, given=given)
    return _replayed(client_id, subscription_id, count)


@blueprint.post(f"{_ONE}/replay-events")
@needs("decide")
def events_replay_chosen(client_id: str, subscription_id: str) -> flask.Response:
    ids = flask.request.form.getlist("id")
    try:
        if not ids:
            raise BadRequest("Select at least one event.")
        count = event_subscriptions.replay_events(
            hub(), client_id, subscription_id, ids[:_PAGE_SIZE], by=author()
        )
    except HubError as exc:
        return refused(exc, "account/event.html", **_context(client_id, subscription_id))
    return _replayed(client_id, subscription_id, count)


def _replayed(client_id: str, subscription_id: str, count: int) -> flask.Response:
    message = f"{counted(count, 'event')} will be delivered again."
    of = {"client_id": client_id, "subscription_id": subscription_id}
    return done(message, "console.events_one", **of)


def _context(client_id: str, subscription_id: str) -> dict[str, Any]:
    subscription = event_subscriptions.find(hub(), client_id, subscription_id)
    state: State | None = next(
        (name for name in STATES if name == flask.request.args.get("state")), None
    )
    after = _cursor()
    found = event_subscriptions.list_deliveries(
        hub(), client_id, subscription_id, state=state, before=after, limit=_PAGE_SIZE + 1
    )
    shown = found[:_PAGE_SIZE]
    return {
        **account_context(client_id),
        "subscription": subscription,
        "gets_all_types": event_words.gets_all_types(subscription),
        "word": event_words.state_of(subscription),
        "tones": event_words.TONES,
        "url": event_words.visible_url(subscription),
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
    created_at = args.get("after", "")
    if not (created_at.isascii() and created_at.isdigit() and len(created_at) < 16):
        return None
    return int(created_at), list_filters.text(args.get("event", ""))
