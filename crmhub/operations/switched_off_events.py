"""Event subscriptions that were switched off because their addresses failed for days."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.database.connection import Connection
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, one_of
from crmhub.database.tables import account, event_subscription

_MOST = 100
_s = event_subscription.c
_OF_ALL_ACCOUNTS = Statement(
    sa.select(_s.account_id, account.c.client_id, _s.id, _s.reason, _s.changed_at)
    .join_from(event_subscription, account, account.c.id == _s.account_id)
    .where(one_of(_s.state, "switched_off"), account.c.disabled_at.is_(None))
    .order_by(_s.changed_at, _s.account_id, _s.id)
    .limit(_MOST)
)


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """A subscription that was switched off, why, and since when (ms since 1970)."""

    account_id: int
    client_id: str
    subscription_id: str
    reason: str
    since: int


def find_switched_off(db: Connection) -> list[SwitchedOff]:
    """Return the subscriptions of all accounts that were switched off, the first 100.

    The one that was switched off first comes first. Disabled accounts are left out.
    """
    return [
        SwitchedOff(row.account_id, row.client_id, row.id, row.reason, row.changed_at)
        for row in rows_of_several(db, _OF_ALL_ACCOUNTS)
    ]
