"""The public API's routes for subscriptions to events (`/events/subscriptions`)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import flask
import marshmallow as ma

from crmhub.api.http.answers import as_json, nothing
from crmhub.api.http.authentication import account, hub, needs
from crmhub.api.http.blueprint import Blueprint, writes
from crmhub.api.http.documentation import documents
from crmhub.api.http.field_types import Choice, Items, Strict, Text, Words
from crmhub.api.http.idempotency_key import Rebuild
from crmhub.api.http.resource_schemas import counted_page_of, schema_of, shown
from crmhub.api.public.properties import all_of, in_path
from crmhub.audit import Author
from crmhub.bounds import MAX_BATCH_INPUTS
from crmhub.events.event_types import CHOICES, check_scopes
from crmhub.operators.events import event_subscriptions, resources

_SCOPE = "events:write"

# --- shapes ----------------------------------------------------------------------------------

_URL = {
    "minLength": 1,
    "maxLength": 2048,
    "description": "An https address, which gets each event as a POST.",
}
_TYPES = {
    "minItems": 1,
    "uniqueItems": True,
    "description": "The types of events to get; `*`: all, `contact.*`: those of contacts. Beside"
    " `events:write` they need the scope of what they contain: `<resource>:read`, for `lead.*` and"
    " `association.*` `contacts:read`.",
}


class SubscriptionInput(Strict):
    url = Text(required=True, metadata=_URL)
    types = Words(CHOICES, required=True, metadata=_TYPES)


class SubscriptionChange(Strict):
    url = Text(metadata=_URL)
    types = Words(CHOICES, metadata=_TYPES)
    state = Choice(
        ("active", "disabled"),
        metadata={
            "description": "`active` also activates a subscription that has ended or was switched"
            " off. `disabled` fails the events that were not delivered yet."
        },
    )


class Moment(Text):
    """Field for a time in ISO 8601, in Python ms since 1970; without a zone it is UTC."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            moment = datetime.fromisoformat(text)
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return round(zoned.timestamp() * 1000)
        except (ValueError, OverflowError):
            raise ma.ValidationError("must be a time such as 2026-11-26T08:00:00Z") from None


_MOMENT = {"format": "date-time"}


class ReplayInput(Strict):
    since = Moment(metadata=_MOMENT | {"description": "The first moment of the period."})
    until = Moment(metadata=_MOMENT | {"description": "The end of the period; now by default."})
    event_ids = Items(
        Text(),
        data_key="eventIds",
        metadata={
            "minItems": 1,
            "maxItems": MAX_BATCH_INPUTS,
            "description": "Ids of events (`webhook-id`), instead of a period.",
        },
    )


_PAGE_SHOWN = counted_page_of(resources.SUBSCRIPTION)
_SUBSCRIPTION_SHOWN = schema_of(resources.SUBSCRIPTION)
_NEW_SUBSCRIPTION_SHOWN = schema_of(resources.NEW_SUBSCRIPTION)
_TEST_SHOWN = schema_of(resources.TEST)
_REPLAY_SHOWN = schema_of(resources.REPLAY)

# --- routes ----------------------------------------------------------------------------------

blueprint = Blueprint(
    "events",
    __name__,
    url_prefix="/<client_id>/api/v1/events/subscriptions",
    description="Who is told of which events. Each request needs the scope events:write.",
)

_ONE = [in_path("subscription_id", minLength=1, maxLength=100)]
_PATH = "/<subscription_id>"


def _by() -> Author:
    return Author("key", "an API key", flask.g.caller.key_id)


def _of(subscription_id: str) -> tuple[Any, str, str]:
    return hub(), account().client_id, subscription_id


# Stored for a repeated Idempotency-Key without the secret.
_NO_SECRET = Rebuild(lambda shown: {**shown, "secret": ""}, lambda kept: kept, always=True)


def _check_url(body: dict[str, Any]) -> None:
    """Before the transaction, since the check resolves the host name."""
    check_scopes(body["types"], flask.g.caller.scopes)
    event_subscriptions.check_url(hub(), body["url"])


@blueprint.get("")
@documents("listSubscriptions", 200, _PAGE_SHOWN, "List all subscriptions")
@needs(_SCOPE)
def _list() -> flask.Response:
    found = event_subscriptions.listed(hub(), account().client_id)
    return all_of(shown(resources.SUBSCRIPTION, found, many=True))


@blueprint.post("")
@documents("createSubscription", 201, _NEW_SUBSCRIPTION_SHOWN, "Subscribe to events")
@writes(_SCOPE, _NO_SECRET, before=_check_url)
@blueprint.arguments(SubscriptionInput)
def _create(body: dict[str, Any]) -> flask.Response:
    made = event_subscriptions.add(
        hub(), account().client_id, **body, by=_by(), url_is_checked=True
    )
    return as_json(shown(resources.NEW_SUBSCRIPTION, made), 201)


@blueprint.get(_PATH, parameters=_ONE)
@documents("getSubscription", 200, _SUBSCRIPTION_SHOWN, "Read a subscription")
@needs(_SCOPE)
def _get(subscription_id: str) -> flask.Response:
    found = event_subscriptions.find(*_of(subscription_id))
    return as_json(shown(resources.SUBSCRIPTION, found))


@blueprint.patch(_PATH, parameters=_ONE)
@documents("updateSubscription", 200, _SUBSCRIPTION_SHOWN, "Change a subscription")
@needs(_SCOPE)
@blueprint.arguments(SubscriptionChange)
def _update(body: dict[str, Any], subscription_id: str) -> flask.Response:
    changed = event_subscriptions.change(
        *_of(subscription_id), **body, by=_by(), caller=flask.g.caller
    )
    return as_json(shown(resources.SUBSCRIPTION, changed))


@blueprint.delete(_PATH, parameters=_ONE)
@documents("deleteSubscription", 204, None, "Delete a subscription with its deliveries")
@needs(_SCOPE)
def _delete(subscription_id: str) -> flask.Response:
    event_subscriptions.remove(*_of(subscription_id), by=_by())
    return nothing()


@blueprint.post(f"{_PATH}/test", parameters=_ONE)
@documents(
    "testSubscription",
    200,
    _TEST_SHOWN,
    "Send a test message now, and wait for the answer",
)
@needs(_SCOPE)
def _test(subscription_id: str) -> flask.Response:
    return as_json(shown(resources.TEST, event_subscriptions.test(*_of(subscription_id))))


@blueprint.post(f"{_PATH}/replay", parameters=_ONE)
@documents("replayEvents", 200, _REPLAY_SHOWN, "Deliver events of a period, or some, again")
@writes(_SCOPE, Rebuild(lambda shown: shown, lambda kept: kept))
@blueprint.arguments(ReplayInput)
def _replay(body: dict[str, Any], subscription_id: str) -> flask.Response:
    count = event_subscriptions.replay(
        *_of(subscription_id), **body, by=_by(), caller=flask.g.caller
    )
    return as_json(shown(resources.REPLAY, count))
