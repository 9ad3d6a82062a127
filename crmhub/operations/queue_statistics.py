"""How much work waits in the journal, as operators watch it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Database, now_ms
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.database.tables import account as account_table
from crmhub.database.tables import action, outage
from crmhub.journal import attention
from crmhub.journal.attention import Attention
from crmhub.metrics import Gauge
from crmhub.operations import alerts

_STATES = ("queued", "running")
# Looking takes a tenth of the time at most, however often somebody asks.
_PAUSES = 9
_LONGEST_PAUSE_S = 5.0
_log = logging.getLogger("crmhub.metrics")

# The words of a partial index, in its order: SQLite compares them one by one.
_UNFINISHED = one_of(action.c.state, "running", "queued")
_COUNT_OF_ACCOUNTS = Statement(
    sa.select(action.c.account_id, sa.func.count().label("n"))
    .where(_UNFINISHED, in_list(action.c.account_id, "account_ids"))
    .group_by(action.c.account_id)
)
_OUTAGE = Statement(
    sa.select(outage.c.since, outage.c.until, outage.c.reason).where(
        outage.c.account_id == param("account_id"),
        outage.c.connection_id == param("connection_id"),
        outage.c.failures > 0,
    )
)
# Answered by its index alone.
_COUNT_OF_ALL_ACCOUNTS = Statement(
    sa.select(
        action.c.state,
        sa.func.count().label("n"),
        sa.func.min(action.c.created_at).label("oldest"),
    )
    .where(_UNFINISHED)
    .group_by(action.c.state)
)
# An account's former connection may never be tried again: nobody would see it come back.
_OUTAGES_OF_ALL_ACCOUNTS = Statement(
    sa.select(sa.func.count())
    .select_from(outage)
    .join(
        account_table,
        sa.and_(
            account_table.c.id == outage.c.account_id,
            account_table.c.connection_id == outage.c.connection_id,
        ),
    )
    .where(outage.c.failures > 0)
)


class Backlog:
    """What a database's journal holds that is not done."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._seen: list[Gauge] = []
        self._look_at = 0.0

    def gauges(self) -> list[Gauge]:
        """Return what waits, for how long, how many connections are away; and `database_up`.

        That alone, as 0, when the database is away. What is done or refused costs nothing.
        """
        with self._lock:
            began = time.monotonic()
            if began >= self._look_at:
                self._seen = self._look()
                ended = time.monotonic()
                self._look_at = ended + min(_PAUSES * (ended - began), _LONGEST_PAUSE_S)
            return self._seen

    def _look(self) -> list[Gauge]:
        try:
            seen, up = _seen(self._database), 1
        # Away, or without a schema yet, of which each driver has a word of its own: whoever looks
        # after the service needs the other metrics then more than ever.
        except Exception as exc:
            _log.warning("Metrics without those of the journal: %s.", type(exc).__name__)
            seen, up = [], 0
        return [*seen, Gauge("database_up", "Whether the journal could be read.", {"": up})]


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many actions of an account wait for an attempt, and how many for a person."""

    queued: int
    attention: Attention


def waiting(database: Database, account_ids: Sequence[int]) -> dict[int, Waiting]:
    """Return what waits of each of these accounts; what is done costs nothing."""
    if not account_ids:
        return {}
    with database.reading() as connection:
        rows = connection.rows(_COUNT_OF_ACCOUNTS, {"account_ids": account_ids})
        queued = {row.account_id: row.n for row in rows}
        needs = attention.of_accounts(connection, account_ids)
    return {id: Waiting(queued.get(id, 0), needs[id]) for id in account_ids}


@dataclass(frozen=True, slots=True)
class Away:
    """Why an account's CRM is left alone for now: since when, until when (ms), and its words."""

    since: int
    until: int
    reason: str


def away(database: Database, account: Account) -> Away | None:
    """Return why actions of the account wait as a whole, None when they do not."""
    with database.reading() as connection:
        here = {"account_id": account.id, "connection_id": account.connection.id}
        row = connection.row(_OUTAGE, here)
    return None if row is None else Away(row.since, row.until, row.reason)


def _seen(database: Database) -> list[Gauge]:
    with database.reading() as connection:
        found = connection.rows(_COUNT_OF_ALL_ACCOUNTS)
        needs = attention.of_all(connection)
        away = connection.scalar(_OUTAGES_OF_ALL_ACCOUNTS)
        alerted = alerts.counts(connection)
    counts = dict.fromkeys(_STATES, 0) | {row.state: row.n for row in found}
    counts |= {"dead": needs.failed, "parked": needs.blocked}
    oldest = next((row.oldest for row in found if row.state == "queued"), None)
    age = 0.0 if oldest is None else max(0.0, (now_ms() - oldest) / 1000)
    return [
        Gauge("actions", "Actions that are not done, by state.", counts, label="state"),
        Gauge("oldest_queued_action_age_seconds", "Age of the oldest queued one.", {"": age}),
        Gauge("alerts", "What operators are alerted of, by kind.", alerted, label="kind"),
        Gauge("connections_away", "Connections whose CRM is thought to be away.", {"": away}),
    ]
