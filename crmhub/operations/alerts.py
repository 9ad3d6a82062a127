"""What operators should know at once: credentials that are refused, old queues, failed actions.

A worker looks every few seconds at what is the matter and compares it with what was the matter
before. A change is written down in one transaction with the message that tells of it, so however
many workers look, and whenever one of them is killed, each change is told of once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import sqlalchemy as sa

from crmhub.database import tables
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.statements import Statement, one_of, param, params
from crmhub.database.tables import account, action, alert, outage
from crmhub.errors import Unavailable
from crmhub.hub import Hub
from crmhub.journal import attention, outbox
from crmhub.journal.attention import Attention
from crmhub.records.search.filters import iso

Kind = Literal["credentials", "queue", "dead"]
KINDS: tuple[Kind, ...] = get_args(Kind)

BEGINS: Mapping[Kind, str] = {
    "credentials": "credentials.refused",
    "queue": "queue.old",
    "dead": "actions.dead",
}
ENDS: Mapping[Kind, str] = {
    "credentials": "credentials.accepted",
    "queue": "queue.caught_up",
    "dead": "actions.decided",
}
"""The types of the messages, when something begins to be the matter and when it no longer is."""

# What goes on dying is told of no more often than this.
_DEAD_AGAIN_MS = 60_000
_LOOK_EVERY_S = 5.0
# Looking takes a tenth of the time at most, however long the journal is.
_PAUSES = 9
_log = logging.getLogger("crmhub.alerts")


def _connections(of: sa.FromClause, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Return the query of rows of connections, with the account's and the CRM's names."""
    its = tables.connection.c
    return (
        sa.select(*columns, account.c.client_id, its.adapter)
        .select_from(of)
        .join(account, account.c.id == of.c.account_id)
        .join(
            tables.connection,
            sa.and_(its.account_id == of.c.account_id, its.id == of.c.connection_id),
        )
    )


_REFUSED_CREDENTIALS = (
    sa.select(
        outage.c.account_id,
        outage.c.connection_id,
        outage.c.since,
        sa.literal(0).label("n"),
        outage.c.since.label("newest"),
        sa.literal(0).label("blocked"),
    )
    .where(outage.c.cause == "credentials", outage.c.failures > 0)
    .subquery("refused")
)
_oldest = sa.func.min(action.c.created_at)
_OLD_QUEUES = (
    sa.select(
        action.c.account_id,
        action.c.connection_id,
        _oldest.label("since"),
        sa.func.count().label("n"),
        _oldest.label("newest"),
        sa.literal(0).label("blocked"),
    )
    .where(one_of(action.c.state, "running", "queued"))
    .group_by(action.c.account_id, action.c.connection_id)
    .having(_oldest < param("before"))
    .subquery("old")
)
# The count of all pages is text.
_counted = (
    sa.text(attention.BY_CONNECTION)
    .columns(
        *map(sa.column, ("account_id", "connection_id", "failed", "blocked", "since", "newest"))
    )
    .subquery("counted")
)
_FAILED_ACTIONS = (
    sa.select(
        _counted.c.account_id,
        _counted.c.connection_id,
        _counted.c.since,
        _counted.c.failed.label("n"),
        _counted.c.newest,
        _counted.c.blocked,
    )
    .where(_counted.c.failed > 0)
    .subquery("failed")
)
_NOW_OF_ALL_ACCOUNTS: Mapping[Kind, Statement] = {
    "credentials": Statement(
        _connections(_REFUSED_CREDENTIALS, *_REFUSED_CREDENTIALS.c)
        # Of a CRM that the account has left, credentials are nobody's concern any more.
        .where(account.c.connection_id == _REFUSED_CREDENTIALS.c.connection_id)
    ),
    "queue": Statement(_connections(_OLD_QUEUES, *_OLD_QUEUES.c)),
    "dead": Statement(_connections(_FAILED_ACTIONS, *_FAILED_ACTIONS.c)),
}
_ACTIVE_OF_ALL_ACCOUNTS = Statement(_connections(alert, *alert.c))
_COUNT_OF_ALL_ACCOUNTS = Statement(
    sa.select(alert.c.kind, sa.func.count().label("n")).group_by(alert.c.kind)
)
_KEY = ("account_id", "connection_id", "kind")
_BEGIN = Statement(
    lambda insert: (
        insert(alert)
        .values(params(*_KEY, "since", "told_of", "told_at"))
        .on_conflict_do_update(index_elements=_KEY, set_=params("told_of", "told_at"))
    )
)
_END = Statement(
    sa.delete(alert).where(
        alert.c.account_id == param("account_id"),
        alert.c.connection_id == param("connection_id"),
        alert.c.kind == param("kind"),
    )
)


@dataclass(frozen=True, slots=True)
class Alert:
    """What is the matter with a connection of an account.

    `since` is when it began (ms), `count` how many actions wait or failed, `newest` the moment up
    to which there is something to tell of, `blocked` how many are blocked behind failed ones.
    """

    account_id: int
    connection_id: int
    kind: Kind
    since: int
    count: int
    newest: int
    client_id: str
    adapter: str
    blocked: int = 0

    def in_words(self) -> str:
        """Say what is the matter and what to do."""
        since = f"since {iso(self.since)[:16].replace('T', ' ')} UTC"
        if self.kind == "credentials":
            return (
                f"its CRM ({self.adapter}) refuses the credentials {since}; `crmhub account check"
                f" {self.client_id}` tells why."
            )
        if self.kind == "queue":
            actions = f"{self.count} action{'s' * (self.count != 1)} for {self.adapter}"
            return f"the oldest of {actions} waits {since}."
        return (
            f"actions for {self.adapter}: {Attention(self.count, self.blocked)}, the first {since};"
            f" `crmhub actions list --state dead --account {self.client_id}` tells why. Retry or"
            " discard them."
        )


def watch(hub: Hub, stopping: threading.Event) -> None:
    """Look and send every few seconds until `stopping` is set."""
    settings = hub.settings
    while not stopping.is_set():
        began = time.monotonic()
        try:
            look(
                hub.database,
                old_ms=settings.alert_queue_age,
                tell=settings.alert_url is not None,
            )
            took = time.monotonic() - began
            if settings.alert_url and settings.alert_secret:
                outbox.send_due(
                    hub.database, hub.egress, settings.alert_url, settings.alert_secret, stopping
                )
        except Unavailable as exc:
            _log.warning("Nothing can be told of now: %s", exc.message)
            took = 0.0
        # A bug of ours must not end the watch: nobody would notice that nothing is told any more.
        except Exception:
            _log.exception("The watch for alerts failed.")
            took = 0.0
        stopping.wait(max(_LOOK_EVERY_S, _PAUSES * took))


def now(db: Connection, *, old_ms: int) -> list[Alert]:
    """Return what is the matter at this moment; a queue is old when its oldest action is."""
    before: Mapping[Kind, Mapping[str, int]] = {"queue": {"before": now_ms() - old_ms}}
    found = [
        Alert(
            row.account_id,
            row.connection_id,
            kind,
            row.since,
            int(row.n),
            row.newest,
            row.client_id,
            row.adapter,
            int(row.blocked),
        )
        for kind, statement in _NOW_OF_ALL_ACCOUNTS.items()
        for row in db.rows(statement, before.get(kind))
    ]
    return sorted(found, key=lambda one: (one.since, one.account_id, one.kind))


def look(database: Database, *, old_ms: int, tell: bool) -> list[Alert]:
    """Write down what has changed, with messages for the outbox when `tell`; return what is.

    Costs no write when nothing has changed. Raises Unavailable.
    """
    with database.reading() as db:
        found = now(db, old_ms=old_ms)
        if not _changes(db, found):
            return found

    def work(tx: Connection) -> None:
        # Another worker that looks at the same time writes the same down.
        if tx.try_hold("alerts"):
            changes = _changes(tx, now(tx, old_ms=old_ms))
            for type, changed in changes:
                _keep(tx, changed, ended=type in ENDS.values())
                if tell:
                    outbox.add(tx, type, _told(changed))

    database.transact(work)
    return found


def _changes(db: Connection, found: Sequence[Alert]) -> list[tuple[str, Alert]]:
    """Return the types of the messages that are due, each with what it is about."""
    rows = db.rows(_ACTIVE_OF_ALL_ACCOUNTS)
    known = {(row.account_id, row.connection_id, row.kind): row for row in rows}
    changes = []
    for each in found:
        before = known.pop((each.account_id, each.connection_id, each.kind), None)
        again = (
            before is not None
            and each.kind == "dead"
            and each.newest > before.told_of
            and now_ms() >= before.told_at + _DEAD_AGAIN_MS
        )
        if before is None or again:
            changes.append((BEGINS[each.kind], each))
    for row in known.values():
        of = (row.account_id, row.connection_id, row.kind)
        over = Alert(*of, row.since, 0, row.since, row.client_id, row.adapter)
        changes.append((ENDS[over.kind], over))
    return changes


def _keep(tx: Connection, active: Alert, *, ended: bool) -> None:
    key = {
        "account_id": active.account_id,
        "connection_id": active.connection_id,
        "kind": active.kind,
    }
    if ended:
        tx.run(_END, key)
        return
    row = {"since": active.since, "told_of": active.newest, "told_at": now_ms()}
    tx.run(_BEGIN, key | row)


def _told(changed: Alert) -> dict[str, object]:
    # No word of the CRM's own: it may quote what somebody has sent.
    return {
        "clientId": changed.client_id,
        "adapter": changed.adapter,
        "connectionId": changed.connection_id,
        "since": iso(changed.since),
        "actions": changed.count,
        "blocked": changed.blocked,
    }


def counts(db: Connection) -> dict[str, int]:
    """Return how much is the matter, by kind, as a worker has seen it last."""
    rows = db.rows(_COUNT_OF_ALL_ACCOUNTS)
    return dict.fromkeys(KINDS, 0) | {row.kind: int(row.n) for row in rows}
