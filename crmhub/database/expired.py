"""Finds expired rows of all accounts; the caller deletes them account by account."""

from __future__ import annotations

import sqlalchemy as sa

from crmhub.database.bulk import Row
from crmhub.database.connection import Database
from crmhub.database.statements import Statement, param


def find_expired(
    database: Database,
    date: sa.Column[int],
    *,
    before: int,
    most: int,
    where: sa.ColumnElement[bool] | None = None,
) -> list[Row]:
    """Return the primary keys of up to `most` rows dated `before` (ms), the oldest first.

    A row is the values of its table's primary key, then its date: who deletes by both leaves rows
    alone that have changed since. `where` is a further condition. Nothing is locked: an engine
    that distributes the accounts locks no rows of several accounts in one statement.
    """
    table = date.table
    condition = (
        sa.and_(date <= param("before"), where) if where is not None else date <= param("before")
    )
    found = Statement(
        sa.select(*table.primary_key, date).where(condition).order_by(date).limit(param("most"))
    )
    with database.reading() as db:
        return [tuple(row) for row in db.rows(found, {"before": before, "most": most})]
