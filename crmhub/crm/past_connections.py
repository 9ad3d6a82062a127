"""The CRMs that an account has left, whose settings and credentials are kept for 30 days."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.accounts.accounts import Account, ConnectionInfo, load_connection
from crmhub.database.connection import Connection, now_ms
from crmhub.database.expired import PAST_CONNECTIONS_MS
from crmhub.database.rows import insert_row
from crmhub.database.statements import Statement, param
from crmhub.database.tables import connection, past_connection
from crmhub.errors import NotFound

_past = past_connection.c
_KEPT = Statement(
    sa.select(_past.connection_id, _past.left_at, connection.c.adapter)
    .join_from(
        past_connection,
        connection,
        sa.and_(
            connection.c.account_id == _past.account_id, connection.c.id == _past.connection_id
        ),
    )
    .where(_past.account_id == param("account_id"), _past.left_at > param("since"))
    .order_by(_past.left_at.desc(), _past.connection_id.desc())
)


@dataclass(frozen=True, slots=True)
class PastConnection:
    """A connection that an account has left at `left_at` (ms since 1970), for another CRM."""

    id: int
    adapter: str
    left_at: int


def remember(tx: Connection, account: Account) -> None:
    """Note that the account leaves its present connection now, if anything was configured."""
    left = account.connection
    if left.settings or left.credentials or left.field_map:
        key = {"account_id": account.id, "connection_id": left.id}
        insert_row(tx, past_connection, key | {"left_at": now_ms()})


def kept(db: Connection, account_id: int) -> list[PastConnection]:
    """Return the account's past connections whose settings are kept, the last one first."""
    rows = db.rows(_KEPT, {"account_id": account_id, "since": now_ms() - PAST_CONNECTIONS_MS})
    return [PastConnection(row.connection_id, row.adapter, row.left_at) for row in rows]


def load_kept(db: Connection, account_id: int, connection_id: int) -> ConnectionInfo:
    """Return a past connection of the account; raises NotFound if it is not kept any more."""
    if connection_id not in [past.id for past in kept(db, account_id)]:
        raise NotFound("These settings of a former CRM are not kept any more.")
    return load_connection(db, account_id, connection_id)
