"""The console's pages for the event subscriptions of an account and for their deliveries."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

import flask
from flask_babel import LazyString, gettext, lazy_gettext, ngettext, pgettext

from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.accounts import account_context
from crmhub.console.pages import add_page, done, errors_on, page
from crmhub.console.sessions import author, blueprint, needs, signed_in
from crmhub.console.template_filters import now_ms
from crmhub.console.visibility import visible_text, visible_url
from crmhub.errors import BadRequest
from crmhub.events.deliveries import STATES, State
from crmhub.events.event_types import EVERY_TYPE, PATTERNS, TYPES, expand
from crmhub.events.subscriptions import Subscription
from crmhub.operators.events import event_subscriptions
from crmhub.operators.events.resources import state_of
from crmhub.properties.kinds import KINDS
from crmhub.queue.hidden_values import HIDDEN

_ALL = "/accounts/<client_id>/events"
_ONE = f"{_ALL}/<subscription_id>"
_PAGE_SIZE = 8
_PILLS = {
    "": lazy_gettext("All"),
    "queued": lazy_gettext("Queued"),
    "delivered": lazy_gettext("Delivered"),
    "failed": lazy_gettext("Failed"),
}
_NO_DELIVERIES = {
    "queued": lazy_gettext("No queued deliveries"),
    "delivered": lazy_gettext("No delivered deliveries"),
    "failed": lazy_gettext("No failed deliveries"),
}
_STATE_WORDS = {
    "active": lazy_gettext("active"),
    "failing": lazy_gettext("failing"),
    "disabled": lazy_gettext("disabled"),
    "ended": lazy_gettext("ended"),
    "switched off": lazy_gettext("switched off"),
}
_TONES = {"active": "good", "failing": "late", "ended": "bad", "switched off": "bad"}
_DELIVERY_TONES = {"delivered": "good", "failed": "bad", "queued": ""}
_DONE: dict[Literal["active", "disabled"], LazyString] = {
    "active": lazy_gettext("The subscription is active."),
    "disabled": lazy_gettext(
        "The subscription is disabled. Events that were not delivered have failed."
    ),
}
_LONGEST_DATA = 4_000
_RECORD = re.compile(rf"({'|'.join(KINDS)}):([0-9]+)")
_CALLS = re.compile(r"calls:[0-9]+:(.+)", re.DOTALL)
_OF_CALLS = re.compile(r"\A(?:lead\.|\w+\.failed\Z)")
_TITLES = {
    "contact": lazy_gettext("Contacts"),
    "deal": lazy_gettext("Deals"),
    "company": lazy_gettext("Companies"),
    "ticket": lazy_gettext("Tickets"),
    "association": lazy_gettext("Associations"),
    "note": lazy_gettext("Note"),
    "connection": lazy_gettext("CRM connection"),
}
# By type of the bots' calls, or by what happened to the subject of another type.
_LABELS = {
    "lead.*": lazy_gettext("lead all"),
    "lead.accepted": lazy_gettext("lead accepted"),
    "lead.stored": lazy_gettext("lead stored"),
    "lead.failed": lazy_gettext("lead failed"),
    "deal.failed": lazy_gettext("deal failed"),
    "ticket.failed": lazy_gettext("ticket failed"),
    "*": lazy_gettext("all"),
    "created": lazy_gettext("created"),
    "updated": lazy_gettext("updated"),
    "archived": lazy_gettext("archived"),
    "merged": lazy_gettext("merged"),
    "stage_changed": lazy_gettext("stage changed"),
    "changed": lazy_gettext("changed"),
    "assigned": lazy_gettext("assigned"),
    "failing": lazy_gettext("failing"),
    "recovered": lazy_gettext("recovered"),
}


def _form(client_id: str) -> dict[str, Any]:
    return {
        **account_context(client_id),
        "groups": _grouped_types(),
        "every_type": EVERY_TYPE,
        "at": {"types": "type"},
    }


def _grouped_types() -> Mapping[str, list[tuple[str, str]]]:
    """Return pairs of type or pattern and label by the title of their group, patterns first."""
    # An owner of the hub has another word in other languages.
    titles = {**_TITLES, "owner": pgettext("contact", "Owner")}
    groups: dict[str, list[tuple[str, str]]] = {}
    for name in (*PATTERNS, *TYPES):
        subject, _, what = name.partition(".")
        is_call = _OF_CALLS.match(name)
        title = gettext("Bots' calls") if is_call else str(titles[subject])
        groups.setdefault(title, []).append((name, str(_LABELS[name if is_call else what])))
    return groups


def _typed() -> dict[str, Any]:
    form = flask.request.form
    types = tuple(form.getlist("type"))
    types = (EVERY_TYPE,) if EVERY_TYPE in types else types
    return {"url": form.get("url", "").strip(), "types": types}


def _gets_all_types(subscription: Subscription) -> bool:
    """Return whether a subscription gets all types of events, by their names or by patterns."""
    return expand(subscription.types) == TYPES


def _list_context(client_id: str) -> dict[str, Any]:
    listed = event_subscriptions.listed(hub(), client_id)
    return {
        **_form(client_id),
        "subscriptions": [
            (each, state_of(each), visible_url(each), visible_text(each.reason)) for each in listed
        ],
        "gets_all_types": _gets_all_types,
        "tones": _TONES,
        "state_words": _STATE_WORDS,
        "given": {"url": "", "types": ()},
    }


add_page(_ALL, "events", needs("activity"), "account/events.html", _list_context)


@blueprint.post(_ALL)
@needs("change")
@errors_on("account/events.html", _list_context, _typed)
def events_add(client_id: str) -> flask.Response:
    made = event_subscriptions.add(hub(), client_id, **_typed(), by=author())
    return page("account/event_secret.html", 201, **account_context(client_id), made=made)


def _change_context(client_id: str, subscription_id: str) -> dict[str, Any]:
    found = event_subscriptions.find(hub(), client_id, subscription_id)
    return {
        **_form(client_id),
        "subscription": found,
        "given": {"url": found.url, "types": found.types},
        "seen": event_subscriptions.target_version(found),
    }


add_page(
    f"{_ONE}/change", "events_form", needs("change"), "account/event_change.html", _change_context
)


@blueprint.post(f"{_ONE}/change")
@needs("change")
@errors_on("account/event_change.html", _change_context, _typed)
def events_change(client_id: str, subscription_id: str) -> flask.Response:
    event_subscriptions.change(
        hub(),
        client_id,
        subscription_id,
        **_typed(),
        by=author(),
        expected=flask.request.form.get("seen"),
    )
    return _done(gettext("Saved. The secret stays the same."), client_id, subscription_id)


@blueprint.post(f"{_ONE}/state")
@needs("change")
def events_state(client_id: str, subscription_id: str) -> flask.Response:
    given = flask.request.form.get("state", "")
    state = next((state for state in _DONE if state == given), None)
    if state is None:
        raise BadRequest("state: choose active or disabled.")
    event_subscriptions.change(hub(), client_id, subscription_id, state=state, by=author())
    return _done(_DONE[state], client_id, subscription_id)


@blueprint.post(f"{_ONE}/remove")
@needs("change")
def events_remove(client_id: str, subscription_id: str) -> flask.Response:
    event_subscriptions.remove(hub(), client_id, subscription_id, by=author())
    message = gettext("The subscription is removed.")
    return done(message, "console.events", client_id=client_id)


def _done(message: str | LazyString, client_id: str, subscription_id: str) -> flask.Response:
    of = {"client_id": client_id, "subscription_id": subscription_id}
    return done(message, "console.events_one", **of)


# --- one subscription and its deliveries ---------------------------------------------------------


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
        "given": {},
        **account_context(client_id),
        "subscription": subscription,
        "gets_all_types": _gets_all_types(subscription),
        "word": state_of(subscription),
        "tones": _TONES,
        "state_words": _STATE_WORDS,
        "url": visible_url(subscription),
        "reason": visible_text(subscription.reason),
        "deliveries": [_row(client_id, delivery) for delivery in shown],
        "delivery_tones": _DELIVERY_TONES,
        "state": state or "",
        "states": _PILLS,
        "no_deliveries": _NO_DELIVERIES,
        "after": after,
        "next": shown[-1] if len(found) > _PAGE_SIZE else None,
    }


def _row(client_id: str, delivery: Any) -> dict[str, Any]:
    next_at = delivery.next_attempt_at
    return {
        # Its time has come; it waits for a worker, a former event, or the address to answer.
        "is_due": next_at is not None and next_at <= now_ms(),
        "delivery": delivery,
        "subject": _visible_subject(delivery.subject),
        "url": _subject_url(client_id, delivery.subject),
        "data": _visible_data(delivery),
        "reason": visible_text(delivery.reason),
    }


def _visible_subject(subject: str) -> str:
    """Return what an event is about; users who see no personal data see ids of records only."""
    if _RECORD.fullmatch(subject):
        return subject
    if signed_in().may("data"):
        calls = _CALLS.fullmatch(subject)
        return gettext("calls for %(contact)s", contact=calls[1]) if calls else subject
    return f"{subject.partition(':')[0]}:{HIDDEN}"


def _subject_url(client_id: str, subject: str) -> str:
    """Return the page of the event's record or calls; "" if there is none or the user may not."""
    may_see_data = signed_in().may("data")
    if may_see_data and (record := _RECORD.fullmatch(subject)):
        kind, id = record[1], record[2]
        return flask.url_for("console.records_one", client_id=client_id, kind=kind, id=id)
    if may_see_data and (calls := _CALLS.fullmatch(subject)):
        return flask.url_for("console.activity", account=client_id, contact=calls[1])
    return ""


def _visible_data(delivery: Any) -> str:
    if not signed_in().may("data"):
        return HIDDEN
    text = json.dumps(json.loads(delivery.data), ensure_ascii=False, indent=2)
    return text if len(text) <= _LONGEST_DATA else f"{text[:_LONGEST_DATA]}…"


def _cursor() -> tuple[int, str] | None:
    """Return time and id of the last event on the previous page, None on the first page."""
    args = flask.request.args
    created_at = list_filters.parse_id(args.get("after", ""), digits=15)
    return None if created_at is None else (created_at, list_filters.text(args.get("event", "")))


add_page(_ONE, "events_one", needs("activity"), "account/event.html", _deliveries_context)


@blueprint.post(f"{_ONE}/test")
@needs("decide")
def events_test(client_id: str, subscription_id: str) -> flask.Response:
    sent = event_subscriptions.test(hub(), client_id, subscription_id)
    reason = visible_text(sent.attempt.reason)
    context = _deliveries_context(client_id, subscription_id)
    return page("account/event.html", **context, test=sent, test_reason=reason)


def _typed_period() -> dict[str, str]:
    form = flask.request.form
    return {name: list_filters.text(form[name]) for name in ("since", "until") if name in form}


@blueprint.post(f"{_ONE}/replay")
@needs("decide")
@errors_on("account/event.html", _deliveries_context, _typed_period)
def events_replay(client_id: str, subscription_id: str) -> flask.Response:
    given = _typed_period()
    since = list_filters.moment(given, "since", "From")
    until = list_filters.moment(given, "until", "Until")
    if not since or not until:
        missing = [name for name, at in (("since", since), ("until", until)) if not at]
        message = gettext("Enter a time.")
        raise BadRequest(message, fields=[(name, message) for name in missing])
    count = event_subscriptions.replay(
        hub(), client_id, subscription_id, since=since, until=until, by=author()
    )
    return _replayed(client_id, subscription_id, count)


@blueprint.post(f"{_ONE}/replay-events")
@needs("decide")
@errors_on("account/event.html", _deliveries_context)
def events_replay_chosen(client_id: str, subscription_id: str) -> flask.Response:
    ids = flask.request.form.getlist("id")
    if not ids:
        raise BadRequest("Select at least one event.")
    count = event_subscriptions.replay(
        hub(), client_id, subscription_id, event_ids=ids[:_PAGE_SIZE], by=author()
    )
    return _replayed(client_id, subscription_id, count)


def _replayed(client_id: str, subscription_id: str, count: int) -> flask.Response:
    message = ngettext(
        "%(count)s event will be delivered again.",
        "%(count)s events will be delivered again.",
        count,
        count=f"{count:,}",
    )
    return _done(message, client_id, subscription_id)
