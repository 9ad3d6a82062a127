"""Alerts for operators: refused credentials, old queues, failed actions, late copies of CRMs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import sqlalchemy as sa

from crmhub.accounts.credentials import WARN_MS
from crmhub.database import tables
from crmhub.database.connection import Connection, now_ms
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, one_of, param
from crmhub.database.tables import account, action, api_key, crm_copy, event_subscription, outage
from crmhub.database.tables import alert as alert_table
from crmhub.durations import iso, local_time
from crmhub.operators.actions import attention
from crmhub.operators.actions.attention import Attention
from crmhub.operators.crm.copy_crm import LATE_MS

Kind = Literal["credentials", "queue", "dead", "copies", "keys", "events"]
KINDS: tuple[Kind, ...] = get_args(Kind)

STARTED: Mapping[Kind, str] = {
    "credentials": "credentials.refused",
    "queue": "queue.old",
    "dead": "actions.dead",
    "copies": "copy.behind",
    "keys": "keys.expiring",
    "events": "events.switched_off",
}
"""The type of the message that is sent when an alert starts, by kind of alert."""
ENDED: Mapping[Kind, str] = {
    "credentials": "credentials.accepted",
    "queue": "queue.caught_up",
    "dead": "actions.decided",
    "copies": "copy.caught_up",
    "keys": "keys.settled",
    "events": "events.settled",
}
"""The type of the message that is sent when an alert ends, by kind of alert."""


def with_names(rows: sa.FromClause) -> sa.Select[Any]:
    """Select `rows` with client id and adapter name, by account_id and connection_id."""
    connection = tables.connection.c
    return (
        sa.select(*rows.c, account.c.client_id, connection.adapter)
        .select_from(rows)
        .join(account, account.c.id == rows.c.account_id)
        .join(
            tables.connection,
            sa.and_(
                connection.account_id == rows.c.account_id, connection.id == rows.c.connection_id
            ),
        )
    )


_REFUSED_CREDENTIALS = (
    sa.select(
        outage.c.account_id,
        outage.c.connection_id,
        outage.c.since,
        sa.literal(0).label("actions"),
        outage.c.since.label("newest"),
        sa.literal(0).label("blocked"),
        outage.c.reason,
    )
    .where(outage.c.cause == "credentials", outage.c.failures > 0)
    .subquery("refused")
)
_oldest = attention.WAITING_SINCE
_OLD_QUEUES = (
    sa.select(
        action.c.account_id,
        action.c.connection_id,
        _oldest.label("since"),
        sa.func.count().label("actions"),
        _oldest.label("newest"),
        sa.literal(0).label("blocked"),
    )
    .where(one_of(action.c.state, "running", "queued"))
    .group_by(action.c.account_id, action.c.connection_id)
    .having(_oldest < param("before"))
    .subquery("old")
)
# This query is shared with the pages and the metrics, as text.
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
        _counted.c.failed.label("actions"),
        _counted.c.newest,
        _counted.c.blocked,
    )
    .where(_counted.c.failed > 0)
    .subquery("failed")
)


def _of_accounts(
    rows: sa.Table,
    since: sa.ColumnElement[Any],
    newest: sa.ColumnElement[Any],
    *conditions: sa.ColumnElement[bool],
) -> sa.Subquery:
    """Return one row for each account that is not disabled, with its present connection."""
    return (
        sa.select(
            rows.c.account_id,
            account.c.connection_id,
            since.label("since"),
            sa.func.count().label("actions"),
            newest.label("newest"),
            sa.literal(0).label("blocked"),
        )
        .select_from(rows)
        .join(account, account.c.id == rows.c.account_id)
        .where(*conditions, account.c.disabled_at.is_(None))
        .group_by(rows.c.account_id, account.c.connection_id)
        .subquery("of_accounts")
    )


_late_since = sa.case(
    (crm_copy.c.state == "loading", crm_copy.c.progress_at), else_=crm_copy.c.synced_at
)
# By the conditions of `copy_crm.CopyState.warning`.
_LATE_COPIES = _of_accounts(
    crm_copy,
    sa.func.min(_late_since),
    sa.func.min(_late_since),
    account.c.connection_id == crm_copy.c.connection_id,
    one_of(crm_copy.c.state, "loading", "following"),
    _late_since < param("before"),
    sa.or_(
        sa.and_(crm_copy.c.failures > 0, crm_copy.c.progress_at < param("before")),
        crm_copy.c.run_at < param("before"),
        sa.and_(crm_copy.c.state == "following", crm_copy.c.began_at < param("before")),
    ),
)
# By the conditions of `ends_soon`.
_ENDING_KEYS = _of_accounts(
    api_key,
    sa.func.min(api_key.c.expires_at) - WARN_MS,
    sa.func.min(api_key.c.expires_at),
    api_key.c.revoked_at.is_(None),
    api_key.c.expires_at > param("now"),
    api_key.c.expires_at - param("now") < WARN_MS,
    2 * (api_key.c.expires_at - param("now")) < api_key.c.expires_at - api_key.c.created_at,
)
_SWITCHED_OFF = _of_accounts(
    event_subscription,
    sa.func.min(event_subscription.c.changed_at),
    sa.func.max(event_subscription.c.changed_at),
    one_of(event_subscription.c.state, "switched_off"),
)
_CURRENT_OF_ALL_ACCOUNTS: Mapping[Kind, Statement] = {
    "credentials": Statement(
        with_names(_REFUSED_CREDENTIALS)
        # The credentials of a CRM that the account has left do not matter any more.
        .where(account.c.connection_id == _REFUSED_CREDENTIALS.c.connection_id)
    ),
    "queue": Statement(with_names(_OLD_QUEUES)),
    "dead": Statement(with_names(_FAILED_ACTIONS)),
    "copies": Statement(with_names(_LATE_COPIES)),
    "keys": Statement(with_names(_ENDING_KEYS)),
    "events": Statement(with_names(_SWITCHED_OFF)),
}
_COUNT_OF_ALL_ACCOUNTS = Statement(
    sa.select(alert_table.c.kind, sa.func.count().label("n")).group_by(alert_table.c.kind)
)


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert about one connection of an account.

    `kind` is "credentials" (the CRM cannot be used, because of `reason`), "queue" (actions wait too
    long), "dead" (actions failed), "copies" (the copy of the CRM is late), "keys" (API keys of the
    account expire soon) or "events" (subscriptions to events were switched off). `newest` is the
    time of the newest event, or the expiry of the first key, in ms since 1970. `count` is of
    actions, kinds of records, keys or subscriptions; `blocked` is of the actions behind failed
    ones.
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
    reason: str = ""

    @property
    def key(self) -> tuple[int, int, Kind]:
        return self.account_id, self.connection_id, self.kind

    def in_words(self) -> str:
        """Say what is wrong and what to do, with the machine's local times."""
        since = f"since {local_time(self.since)}"
        is_one = self.count == 1
        if self.kind == "credentials":
            return (
                f"its CRM ({self.adapter}) cannot be used {since}: {self.reason.rstrip('.')}."
                f" `crmhub account check {self.client_id}` tests it."
            )
        if self.kind == "keys":
            at = local_time(self.newest)
            keys = (
                f"1 API key of it expires soon, at {at}"
                if is_one
                else f"{self.count} API keys of it expire soon, the first at {at}"
            )
            return (
                f"{keys}; `crmhub key list {self.client_id}` shows which. Create another one in its"
                " place, and revoke it."
            )
        if self.kind == "events":
            subscriptions = "subscription of it was" if is_one else "subscriptions of it were"
            return (
                f"{self.count} event {subscriptions} switched off {since}, after 5 days in which"
                f" every call has failed; `crmhub events list {self.client_id}` shows why. Activate"
                f" or remove {'it' if is_one else 'them'}."
            )
        if self.kind == "copies":
            kinds = f"{self.count} kind{'s' * (self.count != 1)}"
            return (
                f"the copy of {kinds} of records in {self.adapter} is behind {since};"
                f" `crmhub sync status {self.client_id}` tells why."
            )
        if self.kind == "queue":
            of = "1 action" if is_one else f"the oldest of {self.count} actions"
            return f"{of} for {self.adapter} waits {since}."
        return (
            f"actions for {self.adapter}: {Attention(self.count, self.blocked)},"
            f" {'' if is_one else 'the first '}{since}; `crmhub actions list --state failed"
            f" --account {self.client_id}` tells why. Retry or discard"
            f" {'it' if is_one else 'them'}."
        )


def current(db: Connection, *, old_ms: int) -> list[Alert]:
    """Return the present alerts, the oldest first; a queue is old after `old_ms` ms."""
    now = now_ms()
    params_by_kind: Mapping[Kind, Mapping[str, int]] = {
        "queue": {"before": now - old_ms},
        "keys": {"now": now},
        "copies": {"before": now - LATE_MS},
    }
    alerts = [
        Alert(
            row.account_id,
            row.connection_id,
            kind,
            row.since,
            int(row.actions),
            row.newest,
            row.client_id,
            row.adapter,
            int(row.blocked),
            getattr(row, "reason", ""),
        )
        for kind, statement in _CURRENT_OF_ALL_ACCOUNTS.items()
        for row in rows_of_several(db, statement, params_by_kind.get(kind))
    ]
    return sorted(alerts, key=lambda alert: (alert.since, alert.account_id, alert.kind))


def fix_url(alert: Alert, public_url: str | None) -> str:
    """Return the page of a CRM with refused credentials or a late copy, "" for other alerts."""
    if public_url is None or alert.kind not in ("credentials", "copies"):
        return ""
    return f"{public_url}/console/accounts/{alert.client_id}/crm"


def message_data(alert: Alert, public_url: str | None) -> dict[str, object]:
    """Return what messages and `crmhub alert list --json` say about an alert."""
    if alert.kind == "keys":
        return {
            "clientId": alert.client_id,
            "since": iso(alert.since),
            "keys": alert.count,
            # An alert that has ended is about no key any more.
            "expiresAt": iso(alert.newest) if alert.count else None,
        }
    if alert.kind == "events":
        return {
            "clientId": alert.client_id,
            "since": iso(alert.since),
            "subscriptions": alert.count,
        }
    url = fix_url(alert, public_url)
    is_copy = alert.kind == "copies"
    # Without the CRM's own message: it may quote personal data.
    return {
        "clientId": alert.client_id,
        "adapter": alert.adapter,
        "connectionId": alert.connection_id,
        "since": iso(alert.since),
        **({"kinds": alert.count} if is_copy else _counts(alert)),
        **({"url": url} if url else {}),
    }


def _counts(alert: Alert) -> dict[str, int]:
    return {"actions": alert.count, "blocked": alert.blocked}


def count_by_kind(db: Connection) -> dict[str, int]:
    """Return the number of stored alerts by kind, 0 included."""
    rows = rows_of_several(db, _COUNT_OF_ALL_ACCOUNTS)
    return dict.fromkeys(KINDS, 0) | {row.kind: int(row.n) for row in rows}
