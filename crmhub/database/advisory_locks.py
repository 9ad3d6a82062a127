"""Advisory locks between processes, which are released when the transaction ends.

Taking a lock writes nothing to the database.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from crmhub.database.connection import Connection


def hold(tx: Connection, *name: object) -> None:
    """Take the lock with this name until the transaction ends.

    While another transaction has the lock, the call waits. `name` may have several parts, such as a
    kind and an id. On SQLite, which has a single writer, this does nothing.
    """
    hold_all(tx, [name])


def hold_all(tx: Connection, names: Sequence[Sequence[object]]) -> None:
    """Take the locks with these names, in the given order, until the transaction ends.

    While another transaction has one of the locks, the call waits. To avoid deadlocks, all callers
    must take different kinds of locks in the same order. On SQLite, which has a single writer, this
    does nothing. Two different names use the same lock with a probability of 1 in 2^64; then a
    transaction may wait needlessly.
    """
    if tx.dialect == "postgresql":
        keys = {f"key_{number}": _key(name) for number, name in enumerate(names)}
        tx.run(f"select {', '.join(f'pg_advisory_xact_lock(:{key})' for key in keys)}", keys)


def _key(name: Sequence[object]) -> int:
    digest = hashlib.sha256("/".join(str(part) for part in name).encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
