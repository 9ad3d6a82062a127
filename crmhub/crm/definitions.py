"""Definitions that adapters have read of their CRMs, shared by all processes (`crm_definition`).

A row belongs to one connection, and is deleted when the connection gets other settings. Rows hold
property definitions and pipelines, no data of contacts.
"""

from __future__ import annotations

import logging

from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.rows import delete_where, find_row, upsert_row
from crmhub.database.tables import crm_definition
from crmhub.errors import Unavailable

_log = logging.getLogger(__name__)

LONGEST = 4_000_000
"""The greatest length of a definition that is shared, in characters."""


class CrmDefinitions:
    """The shared definitions of one connection, see `adapter.context.Shared`.

    With `anew`, `load` finds nothing, so that every definition is read again. While the hub's
    database is unavailable, nothing is shared.
    """

    def __init__(
        self, database: Database, account_id: int, connection_id: int, *, anew: bool = False
    ) -> None:
        self._database = database
        self._key = {"account_id": account_id, "connection_id": connection_id}
        self._anew = anew

    def load(self, name: str) -> tuple[float, str] | None:
        """Return the age of a definition in seconds, and its text; None if there is none."""
        if self._anew:
            return None
        try:
            with self._database.reading() as db:
                row = find_row(db, crm_definition, self._key | {"name": name})
        except Unavailable as exc:
            _log.warning("A CRM's definitions could not be taken over: %s", exc.message)
            return None
        # After the clock was set back the age of a row is not known.
        if row is None or row.loaded_at > now_ms():
            return None
        return (now_ms() - row.loaded_at) / 1000, row.text

    def save(self, name: str, text: str) -> None:
        """Store a definition that was loaded now; a text that is too long is not stored."""
        if len(text) <= LONGEST:
            key, values = self._key | {"name": name}, {"text": text, "loaded_at": now_ms()}
            try:
                self._database.transact(lambda tx: upsert_row(tx, crm_definition, key, values))
            except Unavailable as exc:
                _log.warning("A CRM's definitions could not be shared: %s", exc.message)


def forget(tx: Connection, account_id: int, connection_id: int) -> None:
    connection = {"account_id": account_id, "connection_id": connection_id}
    delete_where(tx, crm_definition, connection)
