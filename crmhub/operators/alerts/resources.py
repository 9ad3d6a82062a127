"""Test messages of alerts, as operators see and send them."""

from __future__ import annotations

from crmhub.operators.resources import WITHOUT_BODY, Column, Resource, Verb

_HERE = "crmhub.operators.alerts.alert_tests"
OUTCOME = Resource(
    "AlertTestOutcome",
    (
        Column("channel", words="crmhub.operators.alerts.channels:NAMES"),
        Column("state", words=f"{_HERE}:STATES"),
        Column("message", "text", "What happened, and what to do about it."),
    ),
)
ALERT_TEST = Resource(
    "AlertTest",
    (
        Column("testId", of="id"),
        Column("sentAt", "moment"),
        Column("outcomes", OUTCOME, "One for each channel that is set.", many=True),
    ),
)
VERBS = (
    Verb(
        operation="createAlertTest",
        route="POST /alerts/tests",
        scope="accounts:write",
        status=201,
        errors=(*WITHOUT_BODY, 422),
        does=f"{_HERE}:start_test",
        summary="Let a worker send a test message on each channel of alerts",
        shows=ALERT_TEST,
    ),
    Verb(
        operation="getAlertTest",
        route="GET /alerts/tests/<test>",
        scope="accounts:read",
        does=f"{_HERE}:find_test",
        summary="Read what came of a test message",
        shows=ALERT_TEST,
    ),
)
