"""Queries by which operators, alerts and metrics look at several accounts at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crmhub.database.connection import Connection
from crmhub.database.statements import Statement


def rows_of_several(
    db: Connection, statement: Statement, params: Mapping[str, Any] | None = None
) -> list[Any]:
    """Every other query names one account by a bound value."""
    return db.rows(statement, params)
