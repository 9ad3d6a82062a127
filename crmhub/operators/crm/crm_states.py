"""The state of each CRM of accounts: what the last calls and tests have shown.

A CRM counts as connected only if an action succeeded, or a test passed, since it got its settings,
and nothing has failed since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter import BadConfig
from crmhub.database import tables
from crmhub.database.connection import Connection, now_ms
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, in_list, one_of
from crmhub.database.tables import account as account_table
from crmhub.database.tables import action, outage
from crmhub.hub import Hub
from crmhub.operators.actions import attention
from crmhub.operators.actions.attention import Attention

Word = Literal[
    "disabled", "unusable", "refused", "failing", "test failed", "behind", "connected", "own",
    "untested",
]  # fmt: skip

# The newest actions of an account in which a success is looked for.
_LOOKED_AT = 20
_MAX_OUTAGES = 100
_a, _o, _crm = action.c, outage.c, tables.connection.c
_UNFINISHED = one_of(_a.state, "running", "queued")
_CONNECTIONS = Statement(
    sa.select(
        _crm.account_id,
        _crm.id,
        _crm.adapter,
        _crm.settings_at,
        _crm.tested_at,
        _crm.test_error,
    )
    .where(in_list(_crm.account_id, "account_ids"))
    .order_by(_crm.account_id, _crm.id)
)
_newest = (
    sa.select(_a.connection_id, _a.state, _a.finished_at)
    .where(_a.account_id == account_table.c.id)
    .order_by(_a.id.desc())
    .limit(_LOOKED_AT)
    .correlate(account_table)
    .subquery("newest")
)
_LAST_SUCCESS = Statement(
    sa.select(
        account_table.c.id,
        sa.select(sa.func.max(_newest.c.finished_at))
        .where(
            one_of(_newest.c.state, "done"),
            _newest.c.connection_id == account_table.c.connection_id,
        )
        .scalar_subquery()
        .label("at"),
    ).where(in_list(account_table.c.id, "account_ids"))
)
_QUEUED = Statement(
    sa.select(
        _a.account_id,
        _a.connection_id,
        sa.func.count().label("n"),
        attention.WAITING_SINCE.label("oldest"),
    )
    .where(_UNFINISHED, in_list(_a.account_id, "account_ids"))
    .group_by(_a.account_id, _a.connection_id)
)
_OUTAGES = Statement(
    sa.select(_o.account_id, _o.connection_id, _o.since, _o.until, _o.reason, _o.cause).where(
        in_list(_o.account_id, "account_ids"), _o.failures > 0
    )
)
# A former CRM without work is never called again, so that its outage would never end.
_OUTAGES_OF_ALL_ACCOUNTS = Statement(
    sa.select(
        _o.account_id,
        account_table.c.client_id,
        account_table.c.name,
        (account_table.c.connection_id != _o.connection_id).label("former"),
        _crm.adapter.label("title"),
        _o.since,
        _o.reason,
        (_o.cause == "credentials").label("refused"),
    )
    .join_from(outage, account_table, account_table.c.id == _o.account_id)
    .join(
        tables.connection,
        sa.and_(_crm.account_id == _o.account_id, _crm.id == _o.connection_id),
    )
    .where(
        _o.failures > 0,
        account_table.c.disabled_at.is_(None),
        sa.or_(
            account_table.c.connection_id == _o.connection_id,
            sa.exists(
                sa.select(sa.literal_column("1"))
                .where(
                    _a.account_id == _o.account_id,
                    _a.connection_id == _o.connection_id,
                    _UNFINISHED,
                )
                .correlate(outage)
            ),
        ),
    )
    .order_by(_o.since, _o.account_id, _o.connection_id)
    .limit(_MAX_OUTAGES)
)


@dataclass(frozen=True, slots=True)
class CrmState:
    """`former`: the account uses another CRM now. `reason`: what is wrong, or "".

    `word`: "disabled" (the account), "unusable" (the adapter cannot be used), "refused" (the CRM
    refuses the credentials), "failing" (it is unavailable), "test failed", "behind" (its queue is
    old), "connected", "own" (the hub itself stores the records) or "untested". `since`: when this
    began or was last seen (ms since 1970), 0 if unknown.
    """

    adapter: str
    title: str
    word: Word
    since: int = 0
    reason: str = ""
    queued: int = 0
    attention: Attention = field(default_factory=Attention)
    former: bool = False

    @property
    def is_down(self) -> bool:
        return self.word in ("unusable", "refused", "failing", "test failed")


def states_of(hub: Hub, db: Connection, accounts: Sequence[Account]) -> dict[int, list[CrmState]]:
    """Return the states by account id: the present CRM, then former ones with actions left."""
    if not accounts:
        return {}
    given = {"account_ids": [account.id for account in accounts]}
    queued, outages = (
        {(row.account_id, row.connection_id): row for row in rows_of_several(db, statement, given)}
        for statement in (_QUEUED, _OUTAGES)
    )
    needs = attention.of_connections(db, given["account_ids"])
    successes = {row.id: row.at or 0 for row in rows_of_several(db, _LAST_SUCCESS, given)}
    by_account: dict[int, list[CrmState]] = {account.id: [] for account in accounts}
    present = {account.id: account for account in accounts}
    for row in rows_of_several(db, _CONNECTIONS, given):
        account, key = present[row.account_id], (row.account_id, row.id)
        former = row.id != account.connection.id
        if former and key not in queued and key not in needs:
            continue
        queue = queued.get(key)
        word, since, reason = _judge(
            hub, account, row, outages.get(key), queue, 0 if former else successes[account.id]
        )
        title, count = hub.registry.title(row.adapter), queue.n if queue else 0
        urgent = needs.get(key, Attention())
        state = CrmState(row.adapter, title, word, since, reason, count, urgent, former)
        by_account[account.id].insert(len(by_account[account.id]) if former else 0, state)
    return by_account


def _judge(
    hub: Hub, account: Account, connection: Any, out: Any, queue: Any, success_at: int
) -> tuple[Word, int, str]:
    """Return the word, time and reason of a CRM's state; `out` and `queue` may be None."""
    if account.disabled:
        return "disabled", 0, ""
    try:
        remote = hub.registry.load(connection.adapter).remote
    except BadConfig as exc:
        return "unusable", 0, exc.message
    if out is not None:
        return ("refused" if out.cause == "credentials" else "failing"), out.since, out.reason
    tested_at, settings_at = connection.tested_at or 0, connection.settings_at or 0
    if success_at <= settings_at:
        success_at = 0
    if connection.test_error and tested_at > success_at:
        return "test failed", tested_at, connection.test_error
    if queue is not None and queue.oldest < now_ms() - hub.settings.alert_queue_age:
        return "behind", queue.oldest, ""
    if not remote:
        return "own", 0, ""
    seen_at = max(success_at, 0 if connection.test_error else tested_at)
    return ("connected", seen_at, "") if seen_at else ("untested", 0, "")


def down(hub: Hub, db: Connection) -> list[Any]:
    """Return the unavailable CRMs of all accounts, the longest outage first; at most 100.

    Disabled accounts are left out, and former CRMs without unfinished actions. `since` is in ms
    since 1970; `refused`: the CRM refuses the credentials.
    """
    rows = rows_of_several(db, _OUTAGES_OF_ALL_ACCOUNTS)
    return [row._replace(title=hub.registry.title(row.title)) for row in rows]
