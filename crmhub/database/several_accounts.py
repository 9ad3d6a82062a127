"""Queries that look at several accounts at once, by operators, alerts, metrics and workers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection, Database
from crmhub.database.distribution import accounts_by_node
from crmhub.database.drivers import NodeAway
from crmhub.database.statements import Built, Statement, in_list

Only = Callable[[sa.FromClause], sa.ColumnElement[bool]]

# How long a node that did not answer is not asked again, since it may take seconds to fail.
_PAUSE_S = 10.0
_log = logging.getLogger(__name__)


def rows_of_several(
    db: Connection, statement: Statement, params: Mapping[str, Any] | None = None
) -> list[Any]:
    """Every other query names one account by a bound value."""
    return db.rows(statement, params)


class AvailableRows:
    """A query for rows of all accounts, without those on unavailable nodes of Citus.

    `build` must give each table of accounts the condition that its argument returns for it.
    """

    def __init__(self, build: Callable[[Only], Built]) -> None:
        self._of_all = Statement(build(lambda _: sa.true()))
        self._of_some = Statement(build(lambda table: in_list(table.c.account_id, "accounts")))

    def read(self, database: Database, params: Mapping[str, Any]) -> list[Any]:
        """Raises Unavailable if no node answers."""
        if time.monotonic() >= database.all_nodes_at:
            with database.reading() as db:
                try:
                    rows = db.rows(self._of_all, params)
                except NodeAway:
                    if database.in_transaction:
                        raise
                    database.all_nodes_at = time.monotonic() + _PAUSE_S
                    database.paused_nodes = frozenset()
                else:
                    database.paused_nodes = frozenset()
                    return rows
        return self._read_by_node(database, params)

    def _read_by_node(self, database: Database, params: Mapping[str, Any]) -> list[Any]:
        with database.reading() as db:
            accounts_of = accounts_by_node(db)
        rows: list[Any] = []
        failed: NodeAway | None = None
        for node in accounts_of.keys() - database.paused_nodes:
            with database.reading() as db:
                try:
                    rows += db.rows(self._of_some, {**params, "accounts": accounts_of[node]})
                except NodeAway as exc:
                    failed = exc
                    database.paused_nodes |= {node}
                    _log.warning("A node of the database is unavailable: %s", exc.__cause__)
        if failed and accounts_of.keys() <= database.paused_nodes:
            raise failed
        return rows
