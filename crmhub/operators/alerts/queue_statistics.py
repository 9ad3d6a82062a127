"""Statistics of the queue for operators: waiting actions, outages, and gauges of the metrics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Database, now_ms
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.database.tables import account as account_table
from crmhub.database.tables import action, crm_copy, outage
from crmhub.metrics import Gauge
from crmhub.operators.actions import attention
from crmhub.operators.actions.attention import Attention
from crmhub.operators.alerts import alerts
from crmhub.properties.kinds import BY_CODE

_STATES = ("queued", "running")
_COPY_STATES = ("loading", "following")
# The queries take at most a tenth of the time, however often the metrics are read.
_PAUSE_FACTOR = 9
_LONGEST_PAUSE_S = 5.0
_log = logging.getLogger("crmhub.metrics")

# As in the condition of a partial index, in its order: SQLite compares the words one by one.
_UNFINISHED = one_of(action.c.state, "running", "queued")
_COUNT_OF_ACCOUNTS = Statement(
    sa.select(action.c.account_id, sa.func.count().label("n"))
    .where(_UNFINISHED, in_list(action.c.account_id, "account_ids"))
    .group_by(action.c.account_id)
)
_OUTAGE = Statement(
    sa.select(outage.c.since, outage.c.until, outage.c.reason, outage.c.cause).where(
        outage.c.account_id == param("account_id"),
        outage.c.connection_id == param("connection_id"),
        outage.c.failures > 0,
    )
)
# The index alone answers this.
_COUNT_OF_ALL_ACCOUNTS = Statement(
    sa.select(
        action.c.state,
        sa.func.count().label("n"),
        attention.WAITING_SINCE.label("oldest"),
    )
    .where(_UNFINISHED)
    .group_by(action.c.state)
)
# Without former connections: they may never be called again, so their outage would never end.
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


# An absent kind, and a copy that is being deleted, have no age.
_COPIES_OF_ALL_ACCOUNTS = Statement(
    sa.select(
        crm_copy.c.kind,
        crm_copy.c.state,
        sa.func.count().label("n"),
        sa.func.min(crm_copy.c.synced_at).label("synced_at"),
    )
    .join_from(crm_copy, account_table, account_table.c.id == crm_copy.c.account_id)
    .where(
        account_table.c.connection_id == crm_copy.c.connection_id,
        account_table.c.disabled_at.is_(None),
        one_of(crm_copy.c.state, *_COPY_STATES),
    )
    .group_by(crm_copy.c.kind, crm_copy.c.state)
)


class QueueGauges:
    """The gauges of the queue, cached so that the queries take at most a tenth of the time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._gauges: list[Gauge] = []
        self._next_query_at = 0.0

    def gauges(self) -> list[Gauge]:
        """Return the gauges; without a database only `database_up`, with the value 0."""
        with self._lock:
            began = time.monotonic()
            if began >= self._next_query_at:
                self._gauges = self._query()
                ended = time.monotonic()
                pause = min(_PAUSE_FACTOR * (ended - began), _LONGEST_PAUSE_S)
                self._next_query_at = ended + pause
            return self._gauges

    def _query(self) -> list[Gauge]:
        try:
            with self._database.across_accounts():
                gauges, up = _gauges(self._database), 1
        # Each driver has its own error for a missing schema, and the other metrics must be
        # readable above all when the database fails.
        except Exception as exc:
            _log.warning("Metrics without those of the journal: %s.", type(exc).__name__)
            gauges, up = [], 0
        return [*gauges, Gauge("database_up", "Whether the journal could be read.", {"": up})]


@dataclass(frozen=True, slots=True)
class Waiting:
    queued: int
    attention: Attention


def waiting(database: Database, account_ids: Sequence[int]) -> dict[int, Waiting]:
    if not account_ids:
        return {}
    with database.reading() as connection:
        rows = rows_of_several(connection, _COUNT_OF_ACCOUNTS, {"account_ids": account_ids})
        queued = {row.account_id: row.n for row in rows}
        needs = attention.of_accounts(connection, account_ids)
    return {id: Waiting(queued.get(id, 0), needs[id]) for id in account_ids}


def outage_of(database: Database, account: Account) -> Any:
    """Return the present outage of the account's CRM, during which its queue is paused, or None.

    `until` is the next attempt. Times are in ms since 1970.
    """
    key = {"account_id": account.id, "connection_id": account.connection.id}
    with database.reading() as connection:
        return connection.row(_OUTAGE, key)


def _gauges(database: Database) -> list[Gauge]:
    with database.reading() as connection:
        rows = rows_of_several(connection, _COUNT_OF_ALL_ACCOUNTS)
        needs = attention.of_all(connection)
        [outages] = rows_of_several(connection, _OUTAGES_OF_ALL_ACCOUNTS)
        alerted = alerts.count_by_kind(connection)
        copies = rows_of_several(connection, _COPIES_OF_ALL_ACCOUNTS)
    counts = dict.fromkeys(_STATES, 0) | {row.state: row.n for row in rows}
    counts |= {"dead": needs.failed, "parked": needs.blocked}
    oldest = next((row.oldest for row in rows if row.state == "queued"), None)
    age = 0.0 if oldest is None else max(0.0, (now_ms() - oldest) / 1000)
    return [
        Gauge("actions", "Actions that are not done, by state.", counts, label="state"),
        Gauge("oldest_queued_action_age_seconds", "Age of the oldest queued one.", {"": age}),
        Gauge("alerts", "What operators are alerted of, by kind.", alerted, label="kind"),
        Gauge("connections_away", "Connections whose CRM is thought to be away.", {"": outages[0]}),
        *_copy_gauges(copies),
    ]


def _copy_gauges(copies: Sequence[Any]) -> list[Gauge]:
    states = dict.fromkeys(_COPY_STATES, 0)
    ages: dict[str, float] = {}
    now = now_ms()
    for row in copies:
        states[row.state] += row.n
        if row.synced_at is not None:
            name, age = BY_CODE[row.kind].name, max(0.0, (now - row.synced_at) / 1000)
            ages[name] = max(ages.get(name, 0.0), age)
    return [
        Gauge("copies", "Kinds of records that are copied, by state.", states, label="state"),
        Gauge(
            "copy_age_seconds",
            "Age of the copy that is furthest behind its CRM, by kind of record.",
            ages,
            label="kind",
        ),
    ]
