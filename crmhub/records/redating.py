"""Dates the index rows of changed records anew, so that searches find all they need there.

A change moves the index rows of what it changes, and no others: those stay behind, and when the
record was changed stands in `index_behind`. Once nobody has changed it for a while, all its rows
are dated at once. Searches are right without that, and take longer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby

import orjson

from crmhub.database.bulk import Row
from crmhub.database.connection import (
    Connection,
    Database,
    now_ms,
)
from crmhub.properties import catalogue as catalogues
from crmhub.properties.catalogue import Catalogue, Catalogues
from crmhub.properties.kinds import BY_CODE
from crmhub.records.index import BEHIND, DATE, DATED, NO_DOCUMENT, whole

# A conversation changes a contact several times, within minutes.
_QUIET_MS = 300_000
# Whoever wants to change one of them waits for them all.
_AT_ONCE = 100

_Key = tuple[int, int, int]
# Behind the rows of account 0, which is none: accounts count from 1.
_BEFORE_ALL: _Key = (1, 0, 0)


class Redating:
    """Works off `index_behind`, a little at a time: in the order of its key, then from its start.

    Any number may work on a database: one at a time does, and the others have nothing to do.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._catalogues = Catalogues(database)
        self._last = _BEFORE_ALL

    def run(self, seconds: float, *, quiet_ms: int = _QUIET_MS) -> bool:
        """Date the rows of what has not changed for so long; return whether more waits.

        It takes about so many seconds, if there is as much to do. Raises Unavailable.
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
            rows: list[_Key] = connection.rows(
                "select account_id, kind, id from index_behind"
                " where (account_id, kind, id) > (:account, :kind, :id) and updated_at < :before"
                " order by account_id, kind, id limit :most",
                {
                    **dict(zip(("account", "kind", "id"), self._last, strict=True)),
                    "before": before,
                    "most": _AT_ONCE,
                },
            )
            return rows

    def _date(self, account_id: int, kind: int, ids: Sequence[int]) -> bool:
        """Date the rows of these records, and return whether nobody else is at it."""

        def work(tx: Connection) -> bool:
            if not tx.try_hold("redating"):
                return False
            version = catalogues.hold(tx, account_id)
            catalogue = self._catalogues.get(account_id, BY_CODE[kind], version=version)
            among, params = tx.among("id", "ids", ids)
            of = f"account_id = :account and kind = :kind and {among}"
            params |= {"account": account_id, "kind": kind}
            # Who is being changed at this moment is not waited for.
            skip = " for no key update skip locked" if tx.dialect == "postgresql" else ""
            found = tx.rows(
                f"select id, updated_at, cast(properties as text) from records where {of}{skip}",
                params,
            )
            dated, done = _dated(catalogue, found)
            for table, key in DATED.items():
                tx.update(table, DATE, key, dated[table])
            tx.delete("index_behind", BEHIND, [(account_id, kind, id) for id in done])
            return True

        return self._database.transact(work)


def _dated(catalogue: Catalogue, found: Sequence[Row]) -> tuple[dict[str, list[Row]], list[int]]:
    """Return the date and the key of each row of the records, by table, and the records' ids.

    Records that cannot be read are left out: they stay behind, and doctor names them.
    """
    dated: dict[str, list[Row]] = {table: [] for table in DATED}
    done = []
    for id, updated_at, text in found:
        try:
            rows = whole(catalogue, {id: orjson.loads(text)})
        except NO_DOCUMENT:
            continue
        for table, key in DATED.items():
            dated[table] += [(updated_at, *row[: len(key)]) for row in rows[table]]
        done.append(id)
    return dated, done
