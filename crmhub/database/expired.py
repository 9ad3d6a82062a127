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
    """Return up to `most` rows whose `date` is `before` (ms since 1970) or earlier, oldest first.

    Each row has the primary key, then the date: deleting by all of them spares a row whose date has
    changed. Citus cannot lock rows of several accounts in one statement.
    """
    table = date.table
    found = sa.select(*table.primary_key, date).where(date <= param("before"))
    found = found if where is None else found.where(where)
    statement = Statement(found.order_by(date).limit(param("most")))
    with database.reading() as db:
        return [tuple(row) for row in db.rows(statement, {"before": before, "most": most})]
