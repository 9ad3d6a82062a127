"""The watch for alerts: a worker stores them, and sends a message when one starts and when it ends.

A change is stored in one transaction with its message, so the message is sent once for each change,
however many workers run and even if one of them is killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.rows import delete_where, upsert_row
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement
from crmhub.database.tables import alert as alert_table
from crmhub.events.recording import record_alert
from crmhub.operators.alerts.alerts import ENDED, STARTED, Alert, current, message_data, with_names
from crmhub.operators.alerts.channels import Channels

# While actions go on failing, a message is sent no more often than this.
_FAILED_AGAIN_MS = 60_000

_STORED_OF_ALL_ACCOUNTS = Statement(with_names(alert_table))
_KEY = ("account_id", "connection_id", "kind")


def update(
    database: Database, *, old_ms: int, send: Channels, public_url: str | None = None
) -> list[Alert]:
    """Update the stored alerts to the present alerts, and return these.

    `old_ms`: a queue whose oldest action waits longer causes an alert. `send`: a message about each
    change is stored for these channels, with links to `public_url`. Raises Unavailable.
    """
    with database.reading() as db:
        alerts = current(db, old_ms=old_ms)
        changed = bool(_changes(db, alerts))
    if changed:
        database.transact(partial(_store_changes, old_ms=old_ms, send=send, public_url=public_url))
    return alerts


def _store_changes(tx: Connection, *, old_ms: int, send: Channels, public_url: str | None) -> None:
    # Another worker at the same time stores the same changes.
    if not tx.try_hold("alerts"):
        return
    for message_type, alert in _changes(tx, current(tx, old_ms=old_ms)):
        key = dict(zip(_KEY, alert.key, strict=True))
        if message_type in ENDED.values():
            delete_where(tx, alert_table, key)
        else:
            told = {"told_of": alert.newest, "told_at": now_ms()}
            upsert_row(tx, alert_table, key, told, {"since": alert.since})
        if send.names:
            subject = "/".join(map(str, alert.key))
            data, due = message_data(alert, public_url), send.due(tx, message_type)
            record_alert(tx, message_type, subject, data, due)


def _changes(db: Connection, alerts: Sequence[Alert]) -> list[tuple[str, Alert]]:
    """Return the type of message for each alert that started, ended or has further failures."""
    stored = {
        (row.account_id, row.connection_id, row.kind): row
        for row in rows_of_several(db, _STORED_OF_ALL_ACCOUNTS)
    }
    changes = []
    for alert in alerts:
        before = stored.pop(alert.key, None)
        failed_again = (
            before is not None
            and alert.kind in ("dead", "events")
            and alert.newest > before.told_of
            and now_ms() >= before.told_at + _FAILED_AGAIN_MS
        )
        if before is None or failed_again:
            changes.append((STARTED[alert.kind], alert))
    for key, row in stored.items():
        ended = Alert(*key, row.since, 0, row.since, row.client_id, row.adapter)
        changes.append((ENDED[ended.kind], ended))
    return changes
