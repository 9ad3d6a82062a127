"""The admin API's routes for an account's event subscriptions and their deliveries."""

from __future__ import annotations

import time
from typing import Any, cast

import flask
import marshmallow as ma
from marshmallow import fields

from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.admin.event_answers import (
    EventDeliveryShown,
    EventSubscriptionShown,
    EventTestShown,
    NewEventSubscriptionShown,
    event_test_shown,
    new_subscription_shown,
)
from crmhub.api.admin.lists import Filled, Listing, PageOf, PageQuery, all_of
from crmhub.api.admin.moments import MomentText
from crmhub.api.field_types import Choice, Items, Strict, Words
from crmhub.api.http.answers import as_json, nothing
from crmhub.api.http.authentication import hub, needs
from crmhub.api.properties import in_path
from crmhub.api.schemas import Shown
from crmhub.errors import BadRequest
from crmhub.events.deliveries import STATES
from crmhub.events.event_types import TYPES
from crmhub.operations import event_subscriptions, event_tests

_ALL = "/accounts/<client_id>/events/subscriptions"
_ONE = f"{_ALL}/<subscription_id>"
_LONGEST_ID = 100
_LONGEST_URL = 2048
_MOST_EVENTS = 100
_PARAMETERS = [in_path("subscription_id", minLength=1, maxLength=_LONGEST_ID)]

# --- inputs ----------------------------------------------------------------------------------


def _some(given: Any) -> None:
    if not given:
        raise ma.ValidationError("is empty; name at least one")


_URL = "The address that gets each event as a POST; https, or in CRMHUB_EGRESS_ALLOW."
_TYPES = {"minItems": 1, "description": "The types of events to deliver."}


class EventSubscriptionInput(Strict):
    """Schema of the address and the types of a new subscription."""

    url = Filled(_URL, _LONGEST_URL, required=True)
    types = Words(TYPES, required=True, validate=_some, metadata=_TYPES)


class EventSubscriptionChange(Strict):
    """Schema of the values of a subscription to change; values that are not sent stay unchanged."""

    url = Filled(_URL, _LONGEST_URL)
    types = Words(TYPES, validate=_some, metadata=_TYPES)
    state = Choice(
        dict.fromkeys(("active", "disabled")),
        metadata={
            "description": "`disabled` fails the events that are not delivered yet. `active` also"
            " activates a subscription that has ended or was switched off."
        },
    )


class EventReplayInput(Strict):
    """Schema of the events to deliver again: those of a period, or those with these ids."""

    since = MomentText("The start of the period, by the time of the event.")
    until = MomentText("The end of the period, which is not included; without it now.")
    event_ids = Items(
        Filled("The id of an event.", _LONGEST_ID),
        data_key="eventIds",
        validate=_some,
        metadata={
            "minItems": 1,
            "maxItems": _MOST_EVENTS,
            "description": "These events, instead of a period.",
        },
    )


class EventDeliveriesQuery(PageQuery):
    """Schema of the query of a list of deliveries."""

    state = Choice(dict.fromkeys(STATES), metadata={"description": "In this state."})


# --- answers ---------------------------------------------------------------------------------


class EventSubscriptionPageShown(PageOf):
    """Schema of the list of all subscriptions of an account, on a single page, oldest first."""

    results = fields.List(fields.Nested(EventSubscriptionShown), required=True)


class EventDeliveryPageShown(PageOf):
    """Schema of a page of deliveries, the newest event first."""

    results = fields.List(fields.Nested(EventDeliveryShown), required=True)


class EventReplayShown(Shown):
    """Schema of the number of events that are delivered again."""

    events = fields.Integer(required=True, metadata={"minimum": 0})


# --- routes ----------------------------------------------------------------------------------


@blueprint.get(_ALL)
@documented(
    "listEventSubscriptions",
    200,
    EventSubscriptionPageShown,
    "List an account's event subscriptions, always on one page",
)
@needs("accounts:read")
def _list(client_id: str) -> flask.Response:
    listed = event_subscriptions.listed(hub(), client_id)
    return all_of(EventSubscriptionShown(many=True).dump(listed))


@blueprint.post(_ALL)
@documented(
    "createEventSubscription",
    201,
    NewEventSubscriptionShown,
    "Subscribe an address to events; the secret is shown this once",
)
@needs("accounts:write")
@blueprint.arguments(EventSubscriptionInput())
def _create(body: dict[str, Any], client_id: str) -> flask.Response:
    made = event_subscriptions.add(
        hub(), client_id, url=body["url"], types=body["types"], by=author()
    )
    return as_json(new_subscription_shown(made), 201)


@blueprint.get(_ONE, parameters=_PARAMETERS)
@documented("getEventSubscription", 200, EventSubscriptionShown, "Read an event subscription")
@needs("accounts:read")
def _get(client_id: str, subscription_id: str) -> flask.Response:
    found = event_subscriptions.find(hub(), client_id, subscription_id)
    return as_json(EventSubscriptionShown().dump(found))


@blueprint.patch(_ONE, parameters=_PARAMETERS)
@documented(
    "updateEventSubscription",
    200,
    EventSubscriptionShown,
    "Change, disable or activate an event subscription",
)
@needs("accounts:write")
@blueprint.arguments(EventSubscriptionChange())
def _change(body: dict[str, Any], client_id: str, subscription_id: str) -> flask.Response:
    changed = event_subscriptions.change(
        hub(),
        client_id,
        subscription_id,
        url=body.get("url"),
        types=body.get("types"),
        state=body.get("state"),
        by=author(),
    )
    return as_json(EventSubscriptionShown().dump(changed))


@blueprint.delete(_ONE, parameters=_PARAMETERS)
@documented(
    "deleteEventSubscription", 204, None, "Remove an event subscription with its deliveries"
)
@needs("accounts:write")
def _remove(client_id: str, subscription_id: str) -> flask.Response:
    event_subscriptions.remove(hub(), client_id, subscription_id, by=author())
    return nothing()


@blueprint.post(f"{_ONE}/test", parameters=_PARAMETERS)
@documented(
    "testEventSubscription", 200, EventTestShown, "Send a test message, and wait for the answer"
)
@needs("accounts:write")
def _test(client_id: str, subscription_id: str) -> flask.Response:
    return as_json(event_test_shown(event_tests.send_test(hub(), client_id, subscription_id)))


@blueprint.post(f"{_ONE}/replay", parameters=_PARAMETERS)
@documented(
    "replayEventSubscription", 200, EventReplayShown, "Deliver events of a period, or some, again"
)
@needs("accounts:write")
@blueprint.arguments(EventReplayInput())
def _replay(body: dict[str, Any], client_id: str, subscription_id: str) -> flask.Response:
    since, ids = body.get("since"), body.get("event_ids")
    if (since is None) == (ids is None) or ("until" in body and since is None):
        raise BadRequest("since: send either since, with until if you like, or eventIds.")
    of = (hub(), client_id, subscription_id)
    if since is None:
        count = event_subscriptions.replay_events(*of, cast(list[str], ids), by=author())
    else:
        # The end is exclusive: an event of this millisecond belongs to the period.
        until = body.get("until", time.time_ns() // 1_000_000 + 1)
        count = event_subscriptions.replay(*of, since=since, until=until, by=author())
    return as_json({"events": count})


@blueprint.get(f"{_ONE}/deliveries", parameters=_PARAMETERS)
@documented(
    "listEventDeliveries",
    200,
    EventDeliveryPageShown,
    "List the deliveries of an event subscription, the newest event first",
)
@needs("accounts:read")
@blueprint.arguments(EventDeliveriesQuery(), location="query")
def _deliveries(query: dict[str, Any], client_id: str, subscription_id: str) -> flask.Response:
    listing = Listing.from_query(f"event deliveries of {client_id} {subscription_id}", query)
    before: Any = tuple(listing.after) if listing.after else None
    found = event_subscriptions.list_deliveries(
        hub(),
        client_id,
        subscription_id,
        state=listing.filters.get("state"),
        before=before,
        limit=listing.limit + 1,
    )
    return listing.page(
        found,
        EventDeliveryShown().dump,
        lambda delivery: [delivery.created_at, delivery.event_id],
    )
