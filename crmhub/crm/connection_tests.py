"""The last test of a connection to a CRM, and since when the connection has its settings."""

from __future__ import annotations

import sqlalchemy as sa

from crmhub.database import tables
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param, params

LONGEST_ERROR = 500
_connection = tables.connection.c
_IS_CONNECTION = sa.and_(
    _connection.account_id == param("account_id"), _connection.id == param("id")
)
_NOTE_TEST = Statement(
    sa.update(tables.connection).where(_IS_CONNECTION).values(params("tested_at", "test_error"))
)
_NOTE_SETTINGS = Statement(
    sa.update(tables.connection)
    .where(_IS_CONNECTION)
    .values(params("settings_at", "tested_at", "test_error"))
)


def note_test(tx: Connection, account_id: int, connection_id: int, error: str) -> None:
    tx.run(
        _NOTE_TEST,
        {
            "account_id": account_id,
            "id": connection_id,
            "tested_at": now_ms(),
            "test_error": error[:LONGEST_ERROR],
        },
    )


def note_settings(tx: Connection, account_id: int, connection_id: int, *, tested: bool) -> None:
    now = now_ms()
    tx.run(
        _NOTE_SETTINGS,
        {
            "account_id": account_id,
            "id": connection_id,
            "settings_at": now,
            "tested_at": now if tested else None,
            "test_error": "" if tested else None,
        },
    )
