"""The CRMs that an account has left, whose settings and credentials are kept for 30 days."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.accounts.accounts import Account, ConnectionInfo, load_connection
from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.expired import find_expired
from crmhub.database.statements import Statement, one_of, param
from crmhub.database.tables import action, connection, past_connection
from crmhub.errors import NotFound

KEPT_MS = 30 * 24 * 3600 * 1000
"""For how many milliseconds the settings and credentials of a CRM are kept."""

_past = past_connection.c
_REMEMBER = Statement(
    sa.insert(past_connection).values(
        account_id=param("account_id"), connection_id=param("id"), left_at=param("left_at")
    )
)
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
_FORGET = Statement(
    sa.delete(past_connection).where(
        _past.account_id == param("account_id"),
        _past.connection_id == param("id"),
        _past.left_at == param("left_at"),
    )
)
_EMPTY = Statement(
    sa.update(connection)
    .where(connection.c.account_id == param("account_id"), connection.c.id == param("id"))
    .values(settings="{}", credentials="", field_map="{}")
)
# A worker or an operator may still finish these actions in the former CRM.
_HAS_UNFINISHED = (
    sa.exists()
    .where(
        action.c.account_id == _past.account_id,
        action.c.connection_id == _past.connection_id,
        one_of(action.c.state, "running", "queued", "dead", "parked"),
    )
    .correlate(past_connection)
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
        key = {"account_id": account.id, "id": left.id}
        tx.run(_REMEMBER, key | {"left_at": now_ms()})


def kept(db: Connection, account_id: int) -> list[PastConnection]:
    """Return the account's past connections whose settings are kept, the last one first."""
    rows = db.rows(_KEPT, {"account_id": account_id, "since": now_ms() - KEPT_MS})
    return [PastConnection(row.connection_id, row.adapter, row.left_at) for row in rows]


def load_kept(db: Connection, account_id: int, connection_id: int) -> ConnectionInfo:
    """Return a past connection of the account; raises NotFound if it is not kept any more."""
    if connection_id not in [past.id for past in kept(db, account_id)]:
        raise NotFound("These settings of a former CRM are not kept any more.")
    return load_connection(db, account_id, connection_id)


def delete_expired(database: Database, *, most: int = 1000) -> int:
    """Delete what is kept of up to `most` connections left 30 days ago; return their number.

    A connection with unfinished actions keeps it.
    """
    before = now_ms() - KEPT_MS
    old = find_expired(database, _past.left_at, before=before, most=most, where=~_HAS_UNFINISHED)
    return database.transact(lambda tx: sum(_delete(tx, row) for row in old))


def _delete(tx: Connection, row: Row) -> int:
    account_id, connection_id, left_at = row
    key = {"account_id": account_id, "id": connection_id}
    deleted = tx.run(_FORGET, key | {"left_at": left_at})
    if deleted:
        tx.run(_EMPTY, key)
    return deleted
