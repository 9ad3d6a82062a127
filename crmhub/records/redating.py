"""Corrects the time in index rows when their record has not changed for five minutes.

Searches are correct before that, too, but slower (`index_behind`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import orjson
import sqlalchemy as sa

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import index_behind, records
from crmhub.properties import catalogue as catalogues
from crmhub.properties.catalogue import Catalogue, Catalogues
from crmhub.properties.kinds import BY_CODE
from crmhub.records.index import BEHIND, DATE, DATED, NO_DOCUMENT, whole

# A conversation changes a contact several times, within minutes.
_QUIET_MS = 300_000
# Whoever wants to change one of them waits for them all.
_AT_ONCE = 100

_Key = tuple[int, int, int]
# Behind the rows of account 0, which let PostgreSQL plan look-ups by id: accounts count from 1.
_BEFORE_ALL: _Key = (1, 0, 0)

_behind = index_behind.c
_key = (_behind.account_id, _behind.kind, _behind.id)
_NEXT_OF_ALL_ACCOUNTS = Statement(
    sa.select(*_key)
    .where(
        sa.tuple_(*_key) > sa.tuple_(param("account_id"), param("kind"), param("id")),
        _behind.updated_at < param("before"),
    )
    .order_by(*_key)
    .limit(param("most"))
)
_LOCK = Statement(
    sa.select(
        records.c.id,
        records.c.updated_at,
        sa.cast(records.c.properties, sa.Text).label("properties"),
    )
    .where(
        records.c.account_id == param("account_id"),
        records.c.kind == param("kind"),
        in_list(records.c.id, "ids"),
    )
    # Who is being changed at this moment is not waited for.
    .with_for_update(key_share=True, skip_locked=True)
)


class Redating:
    """Of the workers that run it on the same database, one works."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._catalogues = Catalogues(database)
        self._last = _BEFORE_ALL

    def run(self, seconds: float, *, quiet_ms: int = _QUIET_MS) -> bool:
        """Work for about `seconds`, but not on records changed within `quiet_ms`.

        Returns False if none is left; True also while another worker runs the job.
        """
        until = time.monotonic() + seconds
        while keys := self._next(now_ms() - quiet_ms):
            for (account_id, kind), some in groupby(keys, key=lambda key: key[:2]):
                if not self._date(account_id, kind, [id for *_, id in some]):
                    return True
            self._last = keys[-1]
            if time.monotonic() >= until:
                return True
        self._last = _BEFORE_ALL
        return False

    def _next(self, before: int) -> list[_Key]:
        with self._database.reading() as connection:
            last = dict(zip(("account_id", "kind", "id"), self._last, strict=True))
            which = {"before": before, "most": _AT_ONCE}
            return connection.rows(_NEXT_OF_ALL_ACCOUNTS, last | which)

    def _date(self, account_id: int, kind: int, ids: Sequence[int]) -> bool:
        """Skip locked records. Returns False if another worker is running the job."""

        def correct(tx: Connection) -> bool:
            if not tx.try_hold("redating"):
                return False
            version, _ = catalogues.hold(tx, account_id)
            catalogue = self._catalogues.get(account_id, BY_CODE[kind], version=version)
            found = tx.rows(_LOCK, {"account_id": account_id, "kind": kind, "ids": ids})
            dated, done = _dated(catalogue, found)
            for table, key in DATED.items():
                tx.update(table, DATE, key, dated[table])
            tx.delete("index_behind", BEHIND, [(account_id, kind, id) for id in done])
            return True

        return self._database.transact(correct)


def _dated(catalogue: Catalogue, found: Sequence[Any]) -> tuple[dict[str, list[Row]], list[int]]:
    """Return rows of time and key by index table, and the ids, without unreadable records."""
    dated: dict[str, list[Row]] = {table: [] for table in DATED}
    done = []
    for record in found:
        try:
            rows = whole(catalogue, {record.id: orjson.loads(record.properties)})
        except NO_DOCUMENT:
            continue
        for table, key in DATED.items():
            dated[table] += [(record.updated_at, *row[: len(key)]) for row in rows[table]]
        done.append(record.id)
    return dated, done
