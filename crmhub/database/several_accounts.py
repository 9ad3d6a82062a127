"""Queries by which operators look at several accounts at once.

Every other query names one account by a bound value. Those of this function are for operators and
their pages, for alerts and for metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crmhub.database.connection import Connection
from crmhub.database.statements import Statement


def rows_of_several(
    db: Connection, statement: Statement, params: Mapping[str, Any] | None = None
) -> list[Any]:
    """Run a query on the rows of several accounts, or of all; return its rows."""
    return db.rows(statement, params)
