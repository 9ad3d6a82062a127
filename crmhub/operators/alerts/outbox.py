"""Messages to the operator's webhook, by Standard Webhooks (https://www.standardwebhooks.com).

A message whose answer is lost is sent again, with the same `webhook-id`.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from typing import Any

import requests
import sqlalchemy as sa

from crmhub import metrics
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import outbox
from crmhub.egress import Egress
from crmhub.queue.schedule import DELAYS_S
from crmhub.records.search.filters import iso
from crmhub.secrets import BASE36, WebhookSecret, token

_SECONDS = 10.0
# Longer than a call takes; if a worker dies, another one sends the message after this.
_LEASE_MS = 30_000
_AT_ONCE = 20
_o = outbox.c
_IS_MESSAGE = _o.id == param("id")
_ADD = Statement(
    sa.insert(outbox).values(
        **params("id", "body", "created_at", "run_at"), tries=sa.literal_column("0")
    )
)
_DUE = Statement(
    sa.select(_o.id, _o.body, _o.tries, _o.run_at)
    .where(_o.run_at <= param("now"))
    .order_by(_o.created_at, _o.id)
    .limit(_AT_ONCE)
)
_CLAIM = Statement(
    sa.update(outbox).where(_IS_MESSAGE, _o.run_at == param("was")).values(params("run_at"))
)
_AGAIN = Statement(
    sa.update(outbox).where(_IS_MESSAGE).values(tries=_o.tries + 1, run_at=param("run_at"))
)
_DELETE = Statement(sa.delete(outbox).where(_IS_MESSAGE))
_log = logging.getLogger("crmhub.outbox")


def message(type: str, data: Mapping[str, object]) -> tuple[str, str]:
    """Return the id and the JSON body of a new message."""
    told = {"type": type, "timestamp": iso(now_ms()), "data": data}
    return f"msg_{token(128, BASE36)}", json.dumps(told, ensure_ascii=False)


def add(tx: Connection, type: str, data: Mapping[str, object]) -> None:
    id, body = message(type, data)
    now = now_ms()
    tx.run(_ADD, {"id": id, "body": body, "created_at": now, "run_at": now})


def send_due(
    database: Database,
    egress: Egress,
    url: str,
    secret: WebhookSecret,
    stopping: threading.Event | None = None,
) -> int:
    """Send the due messages, the oldest first; return how many the webhook accepted.

    A failed message is retried after the journal's retry delays, and deleted after the last one.
    Raises Unavailable if the database is unavailable.
    """
    with database.reading() as db:
        due = db.rows(_DUE, {"now": now_ms()})
    taken = 0
    for row in due:
        if stopping is not None and stopping.is_set():
            break
        if not _run(database, _CLAIM, id=row.id, was=row.run_at, run_at=now_ms() + _LEASE_MS):
            continue
        wrong = send(egress, url, secret, row.id, row.body)
        metrics.alert_sent("failed" if wrong else "taken")
        if wrong and row.tries < len(DELAYS_S):
            _log.warning("Try %s of message %s failed: %s", row.tries + 1, row.id, wrong)
            _run(database, _AGAIN, id=row.id, run_at=now_ms() + DELAYS_S[row.tries] * 1000)
            continue
        if wrong:
            _log.error("Message %s was given up after %s tries: %s", row.id, row.tries + 1, wrong)
        taken += not wrong
        _run(database, _DELETE, id=row.id)
    return taken


def _run(database: Database, statement: Statement, **values: Any) -> int:
    return database.transact(lambda tx: tx.run(statement, values))


def send(egress: Egress, url: str, secret: WebhookSecret, id: str, body: str) -> str:
    """Send one message once; return the error, "" after an HTTP status of 2xx."""
    content = body.encode()
    try:
        answer = egress.post(
            url,
            data=content,
            headers={
                "Content-Type": "application/json",
                **secret.headers(id, now_ms() // 1000, content),
            },
            timeout=_SECONDS,
        )
    except requests.RequestException as exc:
        return str(exc)
    if not 200 <= answer.status_code < 300:
        return f"it answered {answer.status_code}"
    return ""
