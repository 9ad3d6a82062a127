"""The admin API's routes for an account's event subscriptions and their deliveries."""

from __future__ import annotations

from typing import Any

import flask
from marshmallow import fields

from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.admin.event_answers import (
    EventDeliveryShown,
    EventSubscriptionShown,
    NewEventSubscriptionShown,
    event_subscription_shown,
    new_subscription_shown,
)
from crmhub.api.admin.lists import Listing, PageQuery, all_of
from crmhub.api.http.answers import as_json, nothing
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.field_types import Choice
from crmhub.api.http.schemas import PageOf
from crmhub.api.public.event_subscriptions import (
    ReplayInput,
    ReplayShown,
    SubscriptionChange,
    SubscriptionInput,
    TestShown,
    replay,
    test_shown,
)
from crmhub.api.public.properties import in_path
from crmhub.events.deliveries import STATES
from crmhub.operators.events import event_subscriptions

_ALL = "/accounts/<client_id>/events/subscriptions"
_ONE = f"{_ALL}/<subscription_id>"
_PARAMETERS = [in_path("subscription_id", minLength=1, maxLength=100)]

# --- inputs and answers ----------------------------------------------------------------------


class EventDeliveriesQuery(PageQuery):
    state = Choice(STATES, metadata={"description": "In this state."})


class EventSubscriptionPageShown(PageOf):
    results = fields.List(fields.Nested(EventSubscriptionShown), required=True)


class EventDeliveryPageShown(PageOf):
    results = fields.List(fields.Nested(EventDeliveryShown), required=True)


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
    return all_of([event_subscription_shown(each) for each in listed])


@blueprint.post(_ALL)
@documented(
    "createEventSubscription",
    201,
    NewEventSubscriptionShown,
    "Subscribe an address to events; the secret is shown this once",
)
@needs("accounts:write")
@blueprint.arguments(SubscriptionInput())
def _create(body: dict[str, Any], client_id: str) -> flask.Response:
    made = event_subscriptions.add(hub(), client_id, **body, by=author())
    return as_json(new_subscription_shown(made), 201)


@blueprint.get(_ONE, parameters=_PARAMETERS)
@documented("getEventSubscription", 200, EventSubscriptionShown, "Read an event subscription")
@needs("accounts:read")
def _get(client_id: str, subscription_id: str) -> flask.Response:
    found = event_subscriptions.find(hub(), client_id, subscription_id)
    return as_json(event_subscription_shown(found))


@blueprint.patch(_ONE, parameters=_PARAMETERS)
@documented(
    "updateEventSubscription",
    200,
    EventSubscriptionShown,
    "Change, disable or activate an event subscription",
)
@needs("accounts:write")
@blueprint.arguments(SubscriptionChange())
def _change(body: dict[str, Any], client_id: str, subscription_id: str) -> flask.Response:
    changed = event_subscriptions.change(hub(), client_id, subscription_id, **body, by=author())
    return as_json(event_subscription_shown(changed))


@blueprint.delete(_ONE, parameters=_PARAMETERS)
@documented(
    "deleteEventSubscription", 204, None, "Remove an event subscription with its deliveries"
)
@needs("accounts:write")
def _remove(client_id: str, subscription_id: str) -> flask.Response:
    event_subscriptions.remove(hub(), client_id, subscription_id, by=author())
    return nothing()


@blueprint.post(f"{_ONE}/test", parameters=_PARAMETERS)
@documented("testEventSubscription", 200, TestShown, "Send a test message, and wait for the answer")
@needs("accounts:write")
def _test(client_id: str, subscription_id: str) -> flask.Response:
    return as_json(test_shown(event_subscriptions.test(hub(), client_id, subscription_id)))


@blueprint.post(f"{_ONE}/replay", parameters=_PARAMETERS)
@documented(
    "replayEventSubscription", 200, ReplayShown, "Deliver events of a period, or some, again"
)
@needs("accounts:write")
@blueprint.arguments(ReplayInput())
def _replay(body: dict[str, Any], client_id: str, subscription_id: str) -> flask.Response:
    return replay(body, client_id, subscription_id, by=author())


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
