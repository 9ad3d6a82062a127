"""Send alerts to people: all that are due on a channel are one message.

A worker has a thread for each channel, so that an unavailable mail server delays neither another
channel nor a lead. A message is sent again until it is accepted, for up to a day; after a crash in
the moment of sending it may come twice.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from crmhub import metrics
from crmhub.database.connection import now_ms
from crmhub.events import claiming, messages, outcomes, sending
from crmhub.events.claiming import ALERTS_TO_PEOPLE, INSTALLATION, DueSubscription
from crmhub.events.sending import Attempt
from crmhub.hub import Hub
from crmhub.operators.alerts.alert_texts import Text, write
from crmhub.operators.alerts.channels import Channel, channels_of
from crmhub.operators.alerts.email import send_email

# All that waits, as far as one message can have it.
_MOST = 500
_log = logging.getLogger("crmhub.alerts")


def jobs(hub: Hub) -> list[Callable[[], None]]:
    """Return a function for each channel to people, which sends what is due."""
    names = channels_of(hub.settings).names
    return [partial(_send_due, hub, name) for name in names if name != "webhook"]


def _send_due(hub: Hub, channel: Literal["chat", "email"]) -> None:
    """Raises Unavailable."""
    id = ALERTS_TO_PEOPLE[channel]
    if not claiming.has_due_alerts(hub.database, id):
        return
    found = claiming.claim(hub.database, DueSubscription(INSTALLATION, id), most=_MOST)
    claimed = found[1] if found else []
    if not claimed:
        return
    ordered = sorted(claimed, key=lambda one: one.created_at)
    attempt = send(hub, channel, [(one.type, json.loads(one.data)) for one in ordered])
    next_at = outcomes.finish_together(hub.database, claimed, attempt)
    metrics.alert_sent("taken" if attempt.succeeded else "failed")
    if attempt.note:
        _log.warning("A message by %s: %s", channel, attempt.note)
    if not attempt.succeeded:
        again = "is sent again" if next_at is not None else "was given up"
        _log.warning("A message by %s %s: %s", channel, again, attempt.reason)


def send(hub: Hub, channel: Channel, alerts: Sequence[tuple[str, Mapping[str, Any]]]) -> Attempt:
    """Send `alerts` now, and return what came of it; the webhook gets the first of them."""
    settings = hub.settings
    if channel == "webhook":
        type, data = alerts[0]
        now = now_ms()
        body = messages.alert_body(type=type, created_at=now, data=json.dumps(data))
        assert settings.alert_url
        assert settings.alert_secret
        id = messages.new_id(now)
        return sending.send(hub.egress, settings.alert_url, settings.alert_secret, id, body)
    text = write(
        alerts,
        zone=settings.alert_time_zone,
        title_of=hub.registry.title,
        public_url=settings.public_url,
    )
    if channel == "email":
        return send_email(hub.egress, settings, text)
    return _send_chat(hub, text)


def _send_chat(hub: Hub, text: Text) -> Attempt:
    shown = text.body if text.body.startswith(text.title) else f"{text.title}\n{text.body}"
    assert hub.settings.alert_chat_url
    body = json.dumps({"text": f"crmhub: {shown}"}).encode()
    return sending.post(hub.egress, hub.settings.alert_chat_url, body, {})
