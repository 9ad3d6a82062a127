"""The reasons why an unfinished action waits, and the number of actions that it blocks."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.database import tables
from crmhub.database.connection import Database
from crmhub.database.statements import Statement, count_of, one_of, param
from crmhub.database.tables import account, outage
from crmhub.operators.actions.action_queries import Summary

_a = tables.action.c
_own = tables.action.alias("own")
_crm = tables.connection.c
_CONNECTION = Statement(
    sa.select((_crm.id != account.c.connection_id).label("left"), outage.c.reason, outage.c.until)
    .join_from(tables.connection, account, account.c.id == _crm.account_id)
    .outerjoin(
        outage,
        sa.and_(outage.c.account_id == _crm.account_id, outage.c.connection_id == _crm.id),
    )
    .where(_crm.account_id == param("account_id"), _crm.id == param("connection_id"))
)
_TURN = Statement(
    sa.select(_a.id)
    .join_from(
        _own,
        tables.action,
        sa.and_(
            _a.account_id == _own.c.account_id,
            _a.person == _own.c.person,
            one_of(_a.state, "running", "queued"),
            _a.id < _own.c.id,
        ),
    )
    .where(
        _own.c.account_id == param("account_id"),
        _own.c.id == param("id"),
        one_of(_own.c.state, "running", "queued"),
    )
    .order_by(_a.id)
    .limit(1)
)
_BLOCKED = count_of(
    tables.action,
    _a.account_id == param("account_id"),
    _a.behind == param("id"),
    one_of(_a.state, "parked"),
)


@dataclass(frozen=True, slots=True)
class Standing:
    """`left`: the account has switched to another CRM.

    `turn`: the earlier action that must end first, or "". `away`: why the whole connection waits
    until `until` (ms since 1970), or "". `blocked`: the number of actions that wait for it.
    """

    left: bool
    turn: str
    away: str
    until: int
    blocked: int


def standing(database: Database, action: Summary) -> Standing:
    of = {
        "account_id": action.account_id,
        "id": action.id,
        "connection_id": action.connection_id,
    }
    with database.reading() as db:
        here = db.row(_CONNECTION, of)
        turn = db.scalar(_TURN, of)
        blocked = db.scalar(_BLOCKED, of)
    return Standing(bool(here.left), turn or "", here.reason or "", here.until or 0, int(blocked))
