"""What pages show of event subscriptions and deliveries, as far as the user's role allows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import flask

from crmhub.console.sessions import signed_in
from crmhub.events.deliveries import Delivery
from crmhub.events.event_types import TYPES, expand
from crmhub.events.subscriptions import Subscription
from crmhub.operators.actions.personal_data import HIDDEN
from crmhub.properties.kinds import KINDS

TONES = {"active": "good", "failing": "late", "ended": "bad", "switched off": "bad"}
DELIVERY_TONES = {"delivered": "good", "failed": "bad", "queued": ""}
_LONGEST_DATA = 4_000
_RECORD = re.compile(rf"({'|'.join(KINDS)}):([0-9]+)")
_CALLS = re.compile(r"calls:[0-9]+:(.+)", re.DOTALL)
_OF_CALLS = re.compile(r"\A(?:lead\.|\w+\.failed\Z)")


def state_of(subscription: Subscription) -> str:
    """Return the state in the words of the pages: "failing" if the last call has failed."""
    if subscription.state == "active" and subscription.failing_since:
        return "failing"
    return subscription.state.replace("_", " ")


def gets_all_types(subscription: Subscription) -> bool:
    """Return whether a subscription gets all types of events, by their names or by patterns."""
    return expand(subscription.types) == TYPES


def visible_url(subscription: Subscription) -> str:
    """Hide the URL's path, which may contain a secret, from users who may not change."""
    if signed_in().may("change"):
        return subscription.url
    parts = urlsplit(subscription.url)
    return f"{parts.scheme}://{parts.netloc}/…"


def visible_subject(delivery: Delivery) -> str:
    """Return what an event is about; users who see no personal data see ids of records only."""
    if _RECORD.fullmatch(delivery.subject):
        return delivery.subject
    if signed_in().may("data"):
        calls = _CALLS.fullmatch(delivery.subject)
        return f"calls for {calls[1]}" if calls else delivery.subject
    return f"{delivery.subject.partition(':')[0]}:{HIDDEN}"


def subject_url(client_id: str, delivery: Delivery) -> str:
    """Return the page of the event's record or calls; "" if there is none or the user may not."""
    may_see_data = signed_in().may("data")
    if may_see_data and (record := _RECORD.fullmatch(delivery.subject)):
        kind, id = record[1], record[2]
        return flask.url_for("console.records_one", client_id=client_id, kind=kind, id=id)
    if may_see_data and (calls := _CALLS.fullmatch(delivery.subject)):
        return flask.url_for("console.activity", account=client_id, contact=calls[1])
    return ""


def visible_data(delivery: Delivery) -> str:
    if not signed_in().may("data"):
        return HIDDEN
    text = json.dumps(json.loads(delivery.data), ensure_ascii=False, indent=2)
    return text if len(text) <= _LONGEST_DATA else f"{text[:_LONGEST_DATA]}…"


def grouped_types() -> Mapping[str, list[tuple[str, str]]]:
    """Return pairs of type and label by the title of their group."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name in TYPES:
        subject, _, what = name.partition(".")
        title = _TITLES.get(subject, subject.capitalize())
        label = what.replace("_", " ")
        if _OF_CALLS.match(name):
            title, label = "Bots' calls", name.replace(".", " ")
        groups.setdefault(title, []).append((name, label))
    return groups


_TITLES = {
    **{kind.singular: kind.name.capitalize() for kind in KINDS.values()},
    "association": "Associations",
    "connection": "CRM connection",
}
