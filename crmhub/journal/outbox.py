"""Messages to the operator's webhook, sent until they are taken: Standard Webhooks
(https://www.standardwebhooks.com).

A message comes at least once: one whose answer was lost is sent again under the same `webhook-id`.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from typing import Any

import requests

from crmhub import metrics
from crmhub.database.connection import (
    Connection,
    Database,
    now_ms,
)
from crmhub.egress import Egress
from crmhub.journal.schedule import DELAYS_S
from crmhub.records.search.filters import iso
from crmhub.secrets import BASE36, WebhookSecret, token

_SECONDS = 10.0
# Longer than a call takes: who was killed meanwhile leaves the message to another worker.
_LEASE_MS = 30_000
_AT_ONCE = 20
_CLAIM = "update outbox set run_at = :until where id = :id and run_at = :was"
_AGAIN = "update outbox set tries = tries + 1, run_at = :at where id = :id"
_FORGET = "delete from outbox where id = :id"
_log = logging.getLogger("crmhub.outbox")


def message(type: str, data: Mapping[str, object]) -> tuple[str, str]:
    """Return the id and the body of a message."""
    told = {"type": type, "timestamp": iso(now_ms()), "data": data}
    return f"msg_{token(128, BASE36)}", json.dumps(told, ensure_ascii=False)


def add(tx: Connection, type: str, data: Mapping[str, object]) -> None:
    """Put a message into the outbox, in the transaction of what it tells of."""
    id, body = message(type, data)
    tx.run(
        "insert into outbox (id, body, created_at, tries, run_at)"
        " values (:id, :body, :now, 0, :now)",
        {"id": id, "body": body, "now": now_ms()},
    )


def send_due(
    database: Database,
    egress: Egress,
    url: str,
    secret: WebhookSecret,
    stopping: threading.Event | None = None,
) -> int:
    """Send what is due, the oldest first, until `stopping`; return how many messages were taken.

    After the last try (the delays are those of the journal) a message is given up with a line in
    the log. Raises Unavailable.
    """
    with database.reading() as db:
        due = db.rows(
            "select id, body, tries, run_at from outbox where run_at <= :now"
            " order by created_at, id limit :most",
            {"now": now_ms(), "most": _AT_ONCE},
        )
    taken = 0
    for id, body, tries, run_at in due:
        if stopping is not None and stopping.is_set():
            break
        if not _run(database, _CLAIM, id=id, was=run_at, until=now_ms() + _LEASE_MS):
            continue
        wrong = send(egress, url, secret, id, body)
        metrics.alert_sent("failed" if wrong else "taken")
        if wrong and tries < len(DELAYS_S):
            _log.warning("Try %s of message %s failed: %s", tries + 1, id, wrong)
            _run(database, _AGAIN, id=id, at=now_ms() + DELAYS_S[tries] * 1000)
            continue
        if wrong:
            _log.error("Message %s was given up after %s tries: %s", id, tries + 1, wrong)
        taken += not wrong
        _run(database, _FORGET, id=id)
    return taken


def _run(database: Database, sql: str, **params: Any) -> int:
    return database.transact(lambda tx: tx.run(sql, params))


def send(egress: Egress, url: str, secret: WebhookSecret, id: str, body: str) -> str:
    """Send a message once and return what is wrong, in words; "" when it was taken (2xx)."""
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
