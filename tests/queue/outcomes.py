"""Outcomes of attempts that tests record themselves."""

from __future__ import annotations

from collections.abc import Callable

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection
from crmhub.hub import Hub
from crmhub.queue import outcomes
from crmhub.queue.models import Entry, Outcome


def open_circuit(hub: Hub, account: Account, reason: str, word: str = "") -> None:
    """Open the circuit breaker of the account's connection for a reason."""
    outcomes.open_circuit(hub.database, account, Outcome("queued", word, away=reason))


def finish(
    hub: Hub,
    entry: Entry,
    outcome: Outcome,
    extra_writes: Callable[[Connection], None],
    account: Account | None = None,
) -> bool:
    """Record the outcome of an attempt; return whether its lease was still held."""
    (held,) = outcomes.finish(hub.database, [(entry, outcome, extra_writes)], account)
    return held
