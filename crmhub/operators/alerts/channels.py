"""The channels on which alerts reach operators: the webhook, and a chat and email for people.

Each alert has one delivery for each channel, so that a channel that fails delays no other one.
People get what begins at about the same time as one message, and in quiet hours only what is
urgent. A webhook gets each alert at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Literal, get_args

import sqlalchemy as sa

from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, one_of
from crmhub.database.tables import event_delivery
from crmhub.events.claiming import (
    ALERTS,
    ALERTS_TO_PEOPLE,
    INSTALLATION,
    IS_OF_SUBSCRIPTION,
    IS_QUEUED,
)
from crmhub.events.schedule import SKEW_MS
from crmhub.settings import Settings
from crmhub.translatable import translatable

Channel = Literal["webhook", "chat", "email"]
NAMES: tuple[Channel, ...] = get_args(Channel)
SUBSCRIPTIONS: Mapping[Channel, str] = {
    "webhook": ALERTS,
    "chat": ALERTS_TO_PEOPLE["chat"],
    "email": ALERTS_TO_PEOPLE["email"],
}
"""The subscription id of the deliveries on each channel."""
TITLES: Mapping[Channel, str] = {
    "webhook": translatable("Webhook"),
    "chat": translatable("Chat"),
    "email": translatable("Email"),
}
URGENT = frozenset({"credentials.refused", "queue.old"})
"""Of these, all leads of an account wait until somebody acts; other alerts can wait for morning."""
GATHER_MS = 15_000
"""So long the first alert of a message to people waits for others."""
GAP_MS = 120_000
"""The shortest time between two messages to people on one channel."""

_d = event_delivery.c
_EARLIEST = Statement(
    sa.select(sa.func.min(_d.run_at)).where(IS_OF_SUBSCRIPTION, IS_QUEUED, _d.lease.is_(None))
)
_LATEST_SENT = Statement(
    sa.select(sa.func.max(_d.finished_at)).where(IS_OF_SUBSCRIPTION, one_of(_d.state, "delivered"))
)


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels that the settings name; `quiet`: from when until when, in `zone`."""

    names: tuple[Channel, ...]
    quiet: tuple[time, time] | None = None
    zone: tzinfo = UTC

    def due(self, tx: Connection, type: str) -> dict[str, int]:
        """Return when an alert of this type is due (ms since 1970), by subscription id."""
        now = tx.now_ms()
        # At once, even if the clock of this machine is a little ahead of the database's.
        return {
            SUBSCRIPTIONS[name]: now - SKEW_MS
            if name == "webhook"
            else self._due_for_people(tx, name, type, now)
            for name in self.names
        }

    def due_now(self, tx: Connection) -> dict[str, int]:
        """Return the same of a message that waits for nothing."""
        return dict.fromkeys((SUBSCRIPTIONS[name] for name in self.names), tx.now_ms() - SKEW_MS)

    def _due_for_people(self, tx: Connection, name: Channel, type: str, now: int) -> int:
        of = {"account_id": INSTALLATION, "subscription_id": SUBSCRIPTIONS[name]}
        due: int = max(now + GATHER_MS, (tx.scalar(_LATEST_SENT, of) or 0) + GAP_MS)
        earliest = tx.scalar(_EARLIEST, of)
        if earliest is not None:
            due = min(due, earliest)
        return due if type in URGENT else max(due, self.quiet_end(now) or 0)

    def quiet_end(self, now: int) -> int | None:
        """Return when the present quiet hours end, None if there are none now."""
        if self.quiet is None:
            return None
        begin, end = self.quiet
        local = datetime.fromtimestamp(now / 1000, UTC).astimezone(self.zone)
        at = local.time().replace(tzinfo=None)
        is_quiet = begin <= at < end if begin < end else at >= begin or at < end
        if not is_quiet:
            return None
        day = local.date() if at < end else local.date() + timedelta(days=1)
        return round(datetime.combine(day, end, self.zone).timestamp() * 1000)


def channels_of(settings: Settings) -> Channels:
    names: list[Channel] = []
    if settings.alert_url:
        names.append("webhook")
    if settings.alert_chat_url:
        names.append("chat")
    if settings.smtp_host:
        names.append("email")
    return Channels(tuple(names), settings.alert_quiet_hours, settings.alert_time_zone)
