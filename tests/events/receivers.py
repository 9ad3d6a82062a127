"""Receivers of events in tests: an HTTP server that notes what it gets and answers as told."""

from __future__ import annotations

from crmhub.hub import Hub
from crmhub.operations import event_subscriptions
from crmhub.operations.event_subscriptions import NewSubscription
from tests.clients import TESTS, Client

HOOK = "http://127.0.0.1:9/secret-path/"
"""An address at which nobody listens."""


def subscribe(hub: Hub, client: Client, *types: str, url: str = HOOK) -> NewSubscription:
    """Subscribe the client's account to these types of events."""
    return event_subscriptions.add(hub, client.account.client_id, url=url, types=types, by=TESTS)
