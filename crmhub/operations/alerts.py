"""What operators should know at once: credentials that are refused, old queues, failed actions.

A worker looks every few seconds at what is the matter and compares it with what was the matter
before. A change is written down in one transaction with the message that tells of it, so however
many workers look, and whenever one of them is killed, each change is told of once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from crmhub.database.connection import (
    Connection,
    Database,
    now_ms,
)
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
    moment = now_ms()
    found = [
        *_of(
            db,
            "credentials",
            "select account_id, connection_id, since, 0 as n, since as newest, 0 as blocked"
            " from outage where cause = 'credentials' and failures > 0",
            {},
        ),
        *_of(
            db,
            "queue",
            "select account_id, connection_id, min(created_at) as since, count(*) as n,"
            " min(created_at) as newest, 0 as blocked from action"
            " where state in ('running', 'queued')"
            " group by account_id, connection_id having min(created_at) < :before",
            {"before": moment - old_ms},
        ),
        *_of(
            db,
            "dead",
            "select account_id, connection_id, since, failed as n, newest, blocked"
            f" from ({attention.BY_CONNECTION}) counted where failed > 0",
            {},
        ),
    ]
    return sorted(found, key=lambda one: (one.since, one.account_id, one.kind))


def _of(db: Connection, kind: Kind, select: str, params: Mapping[str, int]) -> Iterator[Alert]:
    rows = db.rows(
        "select f.account_id, f.connection_id, f.since, f.n, f.newest, a.client_id, c.adapter,"
        " f.blocked"
        f" from ({select}) f join account a on a.id = f.account_id"
        " join connection c on c.account_id = f.account_id and c.id = f.connection_id"
        # Of a CRM that the account has left, credentials are nobody's concern any more.
        + (" where a.connection_id = f.connection_id" if kind == "credentials" else ""),
        params,
    )
    for account_id, connection_id, since, n, newest, client_id, adapter, blocked in rows:
        of = (account_id, connection_id)
        yield Alert(*of, kind, since, int(n), newest, client_id, adapter, int(blocked))


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
            for type, alert in changes:
                _keep(tx, alert, ended=type in ENDS.values())
                if tell:
                    outbox.add(tx, type, _told(alert))

    database.transact(work)
    return found


def _changes(db: Connection, found: Sequence[Alert]) -> list[tuple[str, Alert]]:
    """Return the types of the messages that are due, each with what it is about."""
    rows = db.rows(
        "select t.account_id, t.connection_id, t.kind, t.since, t.told_of, t.told_at, a.client_id,"
        " c.adapter from alert t join account a on a.id = t.account_id"
        " join connection c on c.account_id = t.account_id and c.id = t.connection_id"
    )
    known = {(row[0], row[1], row[2]): row for row in rows}
    changes = []
    for each in found:
        before = known.pop((each.account_id, each.connection_id, each.kind), None)
        again = (
            before is not None
            and each.kind == "dead"
            and each.newest > before[4]
            and now_ms() >= before[5] + _DEAD_AGAIN_MS
        )
        if before is None or again:
            changes.append((BEGINS[each.kind], each))
    for account_id, connection_id, kind, since, *_, client_id, adapter in known.values():
        over = Alert(account_id, connection_id, kind, since, 0, since, client_id, adapter)
        changes.append((ENDS[over.kind], over))
    return changes


def _keep(tx: Connection, alert: Alert, *, ended: bool) -> None:
    of = {"account": alert.account_id, "connection": alert.connection_id, "kind": alert.kind}
    if ended:
        tx.run(
            "delete from alert where account_id = :account and connection_id = :connection"
            " and kind = :kind",
            of,
        )
        return
    tx.run(
        "insert into alert (account_id, connection_id, kind, since, told_of, told_at)"
        " values (:account, :connection, :kind, :since, :newest, :now)"
        " on conflict (account_id, connection_id, kind) do update set told_of = excluded.told_of,"
        " told_at = excluded.told_at",
        of | {"since": alert.since, "newest": alert.newest, "now": now_ms()},
    )


def _told(alert: Alert) -> dict[str, object]:
    # No word of the CRM's own: it may quote what somebody has sent.
    return {
        "clientId": alert.client_id,
        "adapter": alert.adapter,
        "connectionId": alert.connection_id,
        "since": iso(alert.since),
        "actions": alert.count,
        "blocked": alert.blocked,
    }


def counts(db: Connection) -> dict[str, int]:
    """Return how much is the matter, by kind, as a worker has seen it last."""
    rows = db.rows("select kind, count(*) from alert group by kind")
    return dict.fromkeys(KINDS, 0) | {kind: int(n) for kind, n in rows}
