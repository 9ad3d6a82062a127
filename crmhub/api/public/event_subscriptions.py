"""The public API's routes for subscriptions to events (`/events/subscriptions`)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import flask
import marshmallow as ma
from marshmallow import fields, validate

from crmhub.accounts.directory import Caller
from crmhub.api.http.answers import as_json, nothing
from crmhub.api.http.authentication import account, hub, needs
from crmhub.api.http.blueprint import Blueprint, writes
from crmhub.api.http.documentation import documents
from crmhub.api.http.field_types import Choice, Items, Strict, Text, Words
from crmhub.api.http.idempotency_key import Rebuild
from crmhub.api.http.schemas import CountedPage, Shown
from crmhub.api.public.properties import all_of, in_path
from crmhub.audit import Author
from crmhub.bounds import MAX_BATCH_INPUTS
from crmhub.durations import iso
from crmhub.errors import Semantic
from crmhub.events.event_types import CHOICES, check_scopes
from crmhub.events.subscriptions import Subscription
from crmhub.operators.events import event_subscriptions
from crmhub.operators.events.event_subscriptions import TestResult

_SCOPE = "events:write"
_STATES = ("active", "disabled", "ended", "switched_off")

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

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> str:
        return iso(value)

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


class SubscriptionShown(Shown):
    id = fields.String(required=True)
    url = fields.String(required=True)
    types = fields.List(fields.String(validate=validate.OneOf(CHOICES)), required=True)
    state = fields.String(required=True, validate=validate.OneOf(_STATES))
    reason = fields.String(
        required=True,
        metadata={"description": "Why it is not active, or what was wrong with the last call."},
    )
    key_id = fields.String(
        data_key="keyId",
        required=True,
        allow_none=True,
        metadata={
            "description": "The API key with which it ends: a revoked or expired key disables it."
            " null: an operator made it, and it ends with no key."
        },
    )
    created_at = Moment(data_key="createdAt", required=True, metadata=_MOMENT)
    changed_at = Moment(data_key="updatedAt", required=True, metadata=_MOMENT)


class NewSubscriptionShown(SubscriptionShown):
    secret = fields.String(
        required=True,
        metadata={
            "description": "Shown only here. `whsec_` and base64, by Standard Webhooks; empty in"
            " the answer to a repeated Idempotency-Key."
        },
    )


class SubscriptionPageShown(CountedPage):
    results = fields.List(fields.Nested(SubscriptionShown), required=True)


class TestShown(Shown):
    __test__ = False

    event_id = fields.String(data_key="eventId", required=True)
    delivered = fields.Boolean(attribute="attempt.succeeded", required=True)
    status = fields.Integer(
        attribute="attempt.status",
        required=True,
        allow_none=True,
        metadata={"description": "The HTTP status of the answer; null without an answer."},
    )
    message = fields.String(
        attribute="attempt.reason",
        required=True,
        metadata={"description": "What was wrong; empty if nothing was."},
    )
    duration_ms = fields.Integer(data_key="durationMs", required=True, metadata={"minimum": 0})


class ReplayShown(Shown):
    events = fields.Integer(required=True, metadata={"minimum": 0})


def subscription_shown(subscription: Subscription) -> dict[str, Any]:
    shown: dict[str, Any] = SubscriptionShown().dump(subscription)
    return shown


def test_shown(test: TestResult) -> dict[str, Any]:
    shown: dict[str, Any] = TestShown().dump(test)
    return shown


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
@documents("listSubscriptions", 200, SubscriptionPageShown, "List all subscriptions")
@needs(_SCOPE)
def _list() -> flask.Response:
    found = event_subscriptions.listed(hub(), account().client_id)
    return all_of([subscription_shown(each) for each in found])


@blueprint.post("")
@documents("createSubscription", 201, NewSubscriptionShown, "Subscribe to events")
@writes(_SCOPE, _NO_SECRET, before=_check_url)
@blueprint.arguments(SubscriptionInput)
def _create(body: dict[str, Any]) -> flask.Response:
    made = event_subscriptions.add(
        hub(), account().client_id, **body, by=_by(), url_is_checked=True
    )
    return as_json({**subscription_shown(made.subscription), "secret": made.secret}, 201)


@blueprint.get(_PATH, parameters=_ONE)
@documents("getSubscription", 200, SubscriptionShown, "Read a subscription")
@needs(_SCOPE)
def _get(subscription_id: str) -> flask.Response:
    return as_json(subscription_shown(event_subscriptions.find(*_of(subscription_id))))


@blueprint.patch(_PATH, parameters=_ONE)
@documents("updateSubscription", 200, SubscriptionShown, "Change a subscription")
@needs(_SCOPE)
@blueprint.arguments(SubscriptionChange)
def _update(body: dict[str, Any], subscription_id: str) -> flask.Response:
    changed = event_subscriptions.change(
        *_of(subscription_id), **body, by=_by(), caller=flask.g.caller
    )
    return as_json(subscription_shown(changed))


@blueprint.delete(_PATH, parameters=_ONE)
@documents("deleteSubscription", 204, None, "Delete a subscription with its deliveries")
@needs(_SCOPE)
def _delete(subscription_id: str) -> flask.Response:
    event_subscriptions.remove(*_of(subscription_id), by=_by())
    return nothing()


@blueprint.post(f"{_PATH}/test", parameters=_ONE)
@documents("testSubscription", 200, TestShown, "Send a test message now, and wait for the answer")
@needs(_SCOPE)
def _test(subscription_id: str) -> flask.Response:
    return as_json(test_shown(event_subscriptions.test(*_of(subscription_id))))


@blueprint.post(f"{_PATH}/replay", parameters=_ONE)
@documents("replayEvents", 200, ReplayShown, "Deliver events of a period, or some, again")
@writes(_SCOPE, Rebuild(lambda shown: shown, lambda kept: kept))
@blueprint.arguments(ReplayInput)
def _replay(body: dict[str, Any], subscription_id: str) -> flask.Response:
    return replay(body, account().client_id, subscription_id, by=_by(), caller=flask.g.caller)


def replay(
    body: dict[str, Any],
    client_id: str,
    subscription_id: str,
    *,
    by: Author,
    caller: Caller | None = None,
) -> flask.Response:
    """Replay the events that a `ReplayInput` names; return the answer with their number.

    Raises Semantic unless it names either a period or events, and NotFound.
    """
    ids, since = body.get("event_ids"), body.get("since")
    if bool(ids) == (since is not None) or ("until" in body and since is None):
        raise Semantic("since: send either a period (since, until) or eventIds.")
    of = (hub(), client_id, subscription_id)
    who: Any = {"by": by, "caller": caller}
    if since is None:
        count = event_subscriptions.replay_events(*of, ids or [], **who)
    else:
        count = event_subscriptions.replay(*of, since=since, until=body.get("until"), **who)
    return as_json({"events": count})
