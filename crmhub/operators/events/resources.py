"""An account's event subscriptions and their deliveries, and what operators do with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crmhub.operators.resources import Argument, Column, Resource, Verb, inside

if TYPE_CHECKING:
    from crmhub.hub import Hub

_OPERATIONS = "crmhub.operators.events.event_subscriptions"
_TYPES = "crmhub.events.event_types:CHOICES"
_ALL = "/accounts/<client_id>/events/subscriptions"
_ONE = f"{_ALL}/<subscription_id>"


def state_of(subscription: Any) -> str:
    """Return the state in the words of pages and tables: "failing" if the last call has failed."""
    if subscription.state == "active" and subscription.failing_since:
        return "failing"
    state: str = subscription.state
    return state.replace("_", " ")


def _of_which_url(hub: Hub, client_id: str, subscription_id: str) -> str:
    from crmhub.operators.events import event_subscriptions

    found = event_subscriptions.find(hub, client_id, subscription_id)
    return f"Remove the subscription of {found.url}?"


_SUBSCRIPTION = (
    Column("id", title="Id"),
    Column("url", title="URL", shorten=3),
    Column("types", "words", words=_TYPES),
    Column("", of=state_of, title="State"),
    Column("state", words="crmhub.events.subscriptions:STATES"),
    Column("", "moment", of=lambda it: it.failing_since or it.changed_at, title="Since"),
    Column(
        "reason",
        "text",
        "Why it is not active, or what was wrong with the last call.",
        "Reason",
        shorten=1,
    ),
    Column("", "words", of="types", title="Types", shorten=2),
    Column(
        "keyId",
        "text",
        "The API key with which it ends: a revoked or expired key disables it. null: an"
        " operator made it, and it ends with no key.",
        null=True,
    ),
    Column("createdAt", "moment"),
    Column("updatedAt", "moment", of="changed_at"),
)
SUBSCRIPTION = Resource("Subscription", _SUBSCRIPTION)
EVENT_SUBSCRIPTION = Resource(
    "EventSubscription",
    (
        *_SUBSCRIPTION,
        Column("failures", "number", "Failed calls since the last success.", least=0),
        Column("failingSince", "moment", "The first of these calls; null: none.", null=True),
    ),
)
_SECRET = Column(
    "secret",
    "text",
    "Shown only here. `whsec_` and base64, by Standard Webhooks; empty in the answer to a"
    " repeated Idempotency-Key.",
    "Secret",
)


def _new(columns: Iterable[Column]) -> tuple[Column, ...]:
    shown = (each for each in columns if each.wire or each.of == "types")
    titles = {"id": "Subscription", "reason": ""}
    named = (replace(each, title=titles.get(each.wire, each.title)) for each in shown)
    return (*inside("subscription", named), _SECRET)


NEW_SUBSCRIPTION = Resource("NewSubscription", _new(_SUBSCRIPTION))
NEW_EVENT_SUBSCRIPTION = Resource("NewEventSubscription", _new(EVENT_SUBSCRIPTION.columns))
TEST = Resource(
    "Test",
    (
        Column("eventId"),
        Column("delivered", "flag", of="attempt.succeeded"),
        Column(
            "status",
            "number",
            "The HTTP status of the answer; null without an answer.",
            of="attempt.status",
            null=True,
        ),
        Column("message", "text", "What was wrong; empty if nothing was.", of="attempt.reason"),
        Column("durationMs", "number", least=0),
    ),
)
REPLAY = Resource("Replay", (Column("events", "number", of=lambda count: count, least=0),))
DELIVERY = Resource(
    "EventDelivery",
    (
        Column("eventId", title="Event"),
        Column("type", title="Type"),
        Column("subject", "text", "What the event is about, such as `contacts:17`.", "Subject"),
        Column("", "moment", of="created_at", title="Created"),
        Column("state", words="crmhub.events.deliveries:STATES", title="State"),
        Column("attempts", "number", least=0, title="Attempts"),
        Column(
            "status",
            "number",
            "The HTTP status of the last answer; null without an answer.",
            null=True,
        ),
        Column("", "moment", of="next_attempt_at", title="Next attempt", never="–"),
        Column("reason", "text", "What was wrong with the last attempt.", "Reason", shorten=1),
        Column("createdAt", "moment"),
        Column("nextAttemptAt", "moment", "null: none.", null=True),
        Column("finishedAt", "moment", "null: none.", null=True),
    ),
)

_CHOSEN_TYPES = Argument(
    "types",
    "words",
    "A type of event, such as contact.created, or contact.*; `all`: all types.",
    "--type",
    "TYPE",
    spelled={"*": "all"},
)
LIST = Verb(
    operation="listEventSubscriptions",
    route=f"GET {_ALL}",
    scope="accounts:read",
    command="list",
    does=f"{_OPERATIONS}:listed",
    summary="List an account's event subscriptions, without their secrets",
    shows=EVENT_SUBSCRIPTION,
    many=True,
)
ADD = Verb(
    operation="createEventSubscription",
    route=f"POST {_ALL}",
    scope="accounts:write",
    status=201,
    command="add",
    does=f"{_OPERATIONS}:add",
    summary="Subscribe a URL to events, and show the secret, only once",
    help="Each event is a POST to the URL, signed with the secret by Standard Webhooks.",
    input="SubscriptionInput",
    arguments=(Argument("url", option="", required=True), _CHOSEN_TYPES),
    shows=NEW_EVENT_SUBSCRIPTION,
    after="The secret is not shown again: store it now.",
)
GET = Verb(
    operation="getEventSubscription",
    route=f"GET {_ONE}",
    scope="accounts:read",
    does=f"{_OPERATIONS}:find",
    summary="Read an event subscription",
    shows=EVENT_SUBSCRIPTION,
)
CHANGE = Verb(
    operation="updateEventSubscription",
    route=f"PATCH {_ONE}",
    scope="accounts:write",
    does=f"{_OPERATIONS}:change",
    summary="Change, disable or activate an event subscription",
    input="SubscriptionChange",
    shows=EVENT_SUBSCRIPTION,
)
REMOVE = Verb(
    operation="deleteEventSubscription",
    route=f"DELETE {_ONE}",
    scope="accounts:write",
    command="remove",
    does=f"{_OPERATIONS}:remove",
    summary="Remove an event subscription with its deliveries",
    help="This cannot be undone.",
    confirm=_of_which_url,
    says="Subscription {subscription_id} is removed.",
)
TRY = Verb(
    operation="testEventSubscription",
    route=f"POST {_ONE}/test",
    scope="accounts:write",
    does=f"{_OPERATIONS}:test",
    summary="Send a test message, and wait for the answer",
    shows=TEST,
)
DELIVER_AGAIN = Verb(
    operation="replayEventSubscription",
    route=f"POST {_ONE}/replay",
    scope="accounts:write",
    does=f"{_OPERATIONS}:replay",
    summary="Deliver events of a period, or some, again",
    input="ReplayInput",
    shows=REPLAY,
)
DELIVERIES = Verb(
    operation="listEventDeliveries",
    route=f"GET {_ONE}/deliveries",
    scope="accounts:read",
    command="deliveries",
    does=f"{_OPERATIONS}:list_deliveries",
    summary="List the deliveries of an event subscription, the newest event first",
    input="EventDeliveriesQuery",
    arguments=(
        Argument(
            "state",
            "choice",
            "In this state.",
            "--state",
            words="crmhub.events.deliveries:STATES",
            default="all",
        ),
    ),
    shows=DELIVERY,
    many=True,
    place=lambda delivery: [delivery.created_at, delivery.event_id],
)
VERBS = (LIST, ADD, GET, CHANGE, REMOVE, TRY, DELIVER_AGAIN, DELIVERIES)
