"""Record ids, taken from blocks of numbers that each process reserves for itself.

Ids have gaps and no order. Blocks start at random, so that accounts and kinds hardly share ids.
"""

from __future__ import annotations

import random
import threading
from collections import OrderedDict

import sqlalchemy as sa

from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import id_block

_BLOCK = 200
_LOWEST, _HIGHEST = 10**10, 10**12
_MOST_BLOCKS = 10_000

_block = id_block.c
_TAKE = Statement(
    sa.update(id_block)
    .where(_block.account_id == param("account_id"), _block.kind == param("kind"))
    .values(next_id=_block.next_id + param("size"))
    .returning((_block.next_id - param("size")).label("first"))
)
_BEGIN = Statement(
    lambda insert: (
        insert(id_block).values(params("account_id", "kind", "next_id")).on_conflict_do_nothing()
    )
)


class Ids:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._blocks: OrderedDict[tuple[int, int], tuple[int, int]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, account_id: int, kind: int, n: int) -> range:
        """A new block is reserved in the thread's transaction or one of its own; other processes
        that need a block of this account and kind wait for its end."""
        owner = (account_id, kind)
        with self._lock:
            start, end = self._blocks.get(owner, (0, 0))
            if end - start >= n:
                self._blocks[owner] = (start + n, end)
                return range(start, start + n)
        size = max(n, _BLOCK)
        first = self._database.transact(lambda tx: reserve(tx, account_id, kind, size))
        # A rollback gives the block back to the database: until then it is not ours to keep.
        self._database.after_commit(lambda: self._keep(owner, first + n, first + size))
        return range(first, first + n)

    def _keep(self, owner: tuple[int, int], start: int, end: int) -> None:
        with self._lock:
            # What another thread has just reserved, or the rest of the last block, is given up.
            self._blocks[owner] = (start, end)
            self._blocks.move_to_end(owner)
            while len(self._blocks) > _MOST_BLOCKS:
                self._blocks.popitem(last=False)


def reserve(tx: Connection, account_id: int, kind: int, size: int) -> int:
    """Return the first id."""
    owner = {"account_id": account_id, "kind": kind}
    first: int | None = tx.scalar(_TAKE, owner | {"size": size})
    if first is None:
        start = random.SystemRandom().randrange(_LOWEST, _HIGHEST)
        tx.run(_BEGIN, owner | {"next_id": start})
        first = tx.scalar(_TAKE, owner | {"size": size})
    assert first is not None
    return first
