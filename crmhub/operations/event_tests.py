"""Test messages of event subscriptions, with the time that the answer took."""

from __future__ import annotations

import time
from dataclasses import dataclass

from crmhub.hub import Hub
from crmhub.operations import event_subscriptions
from crmhub.operations.event_subscriptions import TestResult


@dataclass(frozen=True, slots=True)
class TimedTest:
    """The outcome of a test message, and how long the call took."""

    result: TestResult
    duration_ms: int


def send_test(hub: Hub, client_id: str, id: str) -> TimedTest:
    """Send a test message to a subscription's address, and wait at most 10 s for the answer.

    Raises NotFound, and Internal if the secret cannot be decrypted.
    """
    began = time.monotonic()
    result = event_subscriptions.test(hub, client_id, id)
    return TimedTest(result, round((time.monotonic() - began) * 1000))
