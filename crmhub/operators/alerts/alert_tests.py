"""Test messages on every channel of alerts, and what came of them.

A worker sends them like alerts, or a command at once. Each test has its entry in the audit log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import sqlalchemy as sa

from crmhub import audit
from crmhub.audit import Author
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, param
from crmhub.database.tables import event, event_delivery
from crmhub.errors import NotFound, Semantic
from crmhub.events.claiming import INSTALLATION
from crmhub.events.recording import record_alert
from crmhub.events.sending import Attempt
from crmhub.hub import Hub
from crmhub.operators.alerts.alert_texts import TEST
from crmhub.operators.alerts.channels import (
    SUBSCRIPTIONS,
    TITLES,
    Channel,
    Channels,
    channels_of,
)
from crmhub.operators.alerts.messages_to_people import send
from crmhub.translatable import translatable

State = Literal["waiting", "accepted", "failed"]
STATES: tuple[State, ...] = get_args(State)
NOTHING_SET = translatable(
    "No channel for alerts is set. Set CRMHUB_ALERT_CHAT_URL, CRMHUB_ALERT_URL with"
    " CRMHUB_ALERT_SECRET, or CRMHUB_SMTP_HOST with CRMHUB_ALERT_EMAIL_TO and"
    " CRMHUB_ALERT_EMAIL_FROM, and start crmhub again."
)

_SUBJECT = "test"
_STATE: dict[str, State] = {"delivered": "accepted", "failed": "failed"}
_SAID = {
    "waiting": translatable("A worker sends it within a few seconds."),
    "accepted": translatable("Accepted."),
}
_CHANNELS: dict[str, Channel] = {id: name for name, id in SUBSCRIPTIONS.items()}
_e, _d = event.c, event_delivery.c
_TESTS = Statement(
    sa.select(_e.id, _e.created_at, _d.subscription_id, _d.state, _d.reason)
    .join(event_delivery, sa.and_(_d.account_id == _e.account_id, _d.event_id == _e.id))
    .where(
        _e.account_id == param("account_id"),
        _d.account_id == param("account_id"),
        _e.subject == param("subject"),
    )
    .order_by(_e.id.desc())
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a test message on one channel; `message` says it in plain words."""

    channel: Channel
    state: State
    message: str

    @property
    def title(self) -> str:
        return TITLES[self.channel]


@dataclass(frozen=True, slots=True)
class AlertTest:
    """A test message; `sent_at` is in ms since 1970."""

    id: str
    sent_at: int
    outcomes: Sequence[Outcome]

    @property
    def is_waiting(self) -> bool:
        return any(one.state == "waiting" for one in self.outcomes)


def start_test(hub: Hub, *, by: Author) -> AlertTest:
    """Let a worker send a test message on each channel, now and once.

    Raises Semantic if no channel is set.
    """
    channels = _require_channels(hub)

    def record(tx: Connection) -> str:
        # In the past: a test that fails is not sent again.
        id = record_alert(tx, TEST, _SUBJECT, {}, channels.due_now(tx), longest_ms=-1)
        _note(tx, by, channels, id)
        return id

    return find_test(hub.database, hub.database.transact(record))


def send_tests(hub: Hub, *, by: Author) -> Iterator[tuple[Channel, Attempt]]:
    """Send a test message on each channel now, and yield what came of each.

    Raises Semantic if no channel is set.
    """
    channels = _require_channels(hub)
    hub.database.transact(lambda tx: _note(tx, by, channels))
    for name in channels.names:
        yield name, send(hub, name, [(TEST, {})])


def _require_channels(hub: Hub) -> Channels:
    channels = channels_of(hub.settings)
    if not channels.names:
        raise Semantic(NOTHING_SET)
    return channels


def _note(tx: Connection, by: Author, channels: Channels, id: str = "") -> None:
    audit.note(tx, by, "test", "alerts", id, after={"channels": list(channels.names)})


def find_test(database: Database, test: str) -> AlertTest:
    """Raises NotFound: an outcome is kept for at least 7 days, unless another test replaces it."""
    rows = [row for row in _rows(database) if row.id == test]
    if not rows:
        raise NotFound("There is no test of alerts %(test)s; start another one.", test=test)
    return _read(rows)


def last_test(database: Database) -> AlertTest | None:
    rows = _rows(database)
    return _read([row for row in rows if row.id == rows[0].id]) if rows else None


def _rows(database: Database) -> list[Any]:
    with database.reading() as db:
        return db.rows(_TESTS, {"account_id": INSTALLATION, "subject": _SUBJECT})


def _read(rows: Sequence[Any]) -> AlertTest:
    outcomes = []
    for row in sorted(rows, key=lambda row: list(_CHANNELS).index(row.subscription_id)):
        state = _STATE.get(row.state, "waiting")
        outcomes.append(Outcome(_CHANNELS[row.subscription_id], state, row.reason or _SAID[state]))
    return AlertTest(rows[0].id, rows[0].created_at, outcomes)
