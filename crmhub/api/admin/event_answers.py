"""Schemas and functions that make the JSON of event subscriptions and their deliveries.

The admin API answers with this JSON, and `crmhub events … --json` prints it.
"""

from __future__ import annotations

from typing import Any, get_args

from marshmallow import fields, validate

from crmhub.api.schemas import Moment, Shown
from crmhub.events import deliveries, subscriptions
from crmhub.events.event_types import TYPES
from crmhub.operations.event_subscriptions import NewSubscription
from crmhub.operations.event_tests import TimedTest

_NONE = {"description": "null: none."}


class EventSubscriptionShown(Shown):
    """Schema of a subscription to events, without its secret."""

    id = fields.String(required=True)
    url = fields.String(required=True)
    types = fields.List(fields.String(validate=validate.OneOf(TYPES)), required=True)
    state = fields.String(
        required=True,
        validate=validate.OneOf(get_args(subscriptions.State)),
        metadata={
            "description": "`disabled` by a person, `ended` by an answer 410, `switched_off` after"
            " 5 days of failures."
        },
    )
    reason = fields.String(
        required=True,
        metadata={"description": "Why it is not active, or what was wrong with the last call."},
    )
    failures = fields.Integer(
        required=True,
        metadata={"minimum": 0, "description": "Failed calls since the last success."},
    )
    failing_since = Moment(data_key="failingSince", required=True, allow_none=True, metadata=_NONE)
    created_at = Moment(data_key="createdAt", required=True)
    changed_at = Moment(data_key="updatedAt", required=True)


class NewEventSubscriptionShown(EventSubscriptionShown):
    """Schema of a new subscription, with the secret that signs its messages."""

    secret = fields.String(
        required=True, metadata={"description": "Shown this once; `whsec_` and base64."}
    )


class EventTestShown(Shown):
    """Schema of the outcome of a test message."""

    __test__ = False

    event_id = fields.String(data_key="eventId", required=True)
    delivered = fields.Boolean(required=True)
    status = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "The HTTP status of the answer; null without an answer."},
    )
    message = fields.String(
        required=True, metadata={"description": "What was wrong; empty if nothing was."}
    )
    duration_ms = fields.Integer(data_key="durationMs", required=True, metadata={"minimum": 0})


class EventDeliveryShown(Shown):
    """Schema of the delivery of one event to a subscription, without the event's data."""

    event_id = fields.String(data_key="eventId", required=True)
    type = fields.String(required=True)
    subject = fields.String(
        required=True, metadata={"description": "What the event is about, such as `contacts:17`."}
    )
    state = fields.String(required=True, validate=validate.OneOf(deliveries.STATES))
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


def new_subscription_shown(made: NewSubscription) -> dict[str, Any]:
    """Return the JSON of a new subscription with its secret."""
    return {**EventSubscriptionShown().dump(made.subscription), "secret": made.secret}


def event_test_shown(test: TimedTest) -> dict[str, Any]:
    """Return the JSON of the outcome of a test message."""
    attempt = test.result.attempt
    return {
        "eventId": test.result.event_id,
        "delivered": attempt.succeeded,
        "status": attempt.status,
        "message": attempt.reason,
        "durationMs": test.duration_ms,
    }
