"""Schemas and functions that make the JSON of event subscriptions and their deliveries.

The admin API answers with this JSON, and `crmhub events … --json` prints it.
"""

from __future__ import annotations

from typing import Any

from marshmallow import fields, validate

from crmhub.api.http.schemas import MOMENT, Moment, Shown
from crmhub.api.public.event_subscriptions import (
    NewSubscriptionShown,
    SubscriptionShown,
    subscription_shown,
)
from crmhub.durations import iso
from crmhub.events.deliveries import STATES
from crmhub.events.subscriptions import Subscription
from crmhub.operators.events.event_subscriptions import NewSubscription

_NONE = {"description": "null: none."}
_FAILURES = {"minimum": 0, "description": "Failed calls since the last success."}
_FAILING = {**MOMENT, "description": "The first of these calls; null: none."}


class EventSubscriptionShown(SubscriptionShown):
    failures = fields.Integer(required=True, metadata=_FAILURES)
    failing_since = fields.String(
        data_key="failingSince", required=True, allow_none=True, metadata=_FAILING
    )


class NewEventSubscriptionShown(NewSubscriptionShown, EventSubscriptionShown):
    """Schema of a new subscription, with the secret that signs its messages."""


class EventDeliveryShown(Shown):
    event_id = fields.String(data_key="eventId", required=True)
    type = fields.String(required=True)
    subject = fields.String(
        required=True, metadata={"description": "What the event is about, such as `contacts:17`."}
    )
    state = fields.String(required=True, validate=validate.OneOf(STATES))
    attempts = fields.Integer(required=True, metadata={"minimum": 0})
    status = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "The HTTP status of the last answer; null without an answer."},
    )
    reason = fields.String(
        required=True, metadata={"description": "What was wrong with the last attempt."}
    )
    created_at = Moment(data_key="createdAt", required=True)
    next_attempt_at = Moment(
        data_key="nextAttemptAt", required=True, allow_none=True, metadata=_NONE
    )
    finished_at = Moment(data_key="finishedAt", required=True, allow_none=True, metadata=_NONE)


def event_subscription_shown(subscription: Subscription) -> dict[str, Any]:
    since = subscription.failing_since
    return {
        **subscription_shown(subscription),
        "failures": subscription.failures,
        "failingSince": None if since is None else iso(since),
    }


def new_subscription_shown(made: NewSubscription) -> dict[str, Any]:
    return {**event_subscription_shown(made.subscription), "secret": made.secret}
