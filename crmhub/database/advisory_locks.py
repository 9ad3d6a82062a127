"""Advisory locks between processes, which last until a transaction ends and write nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from crmhub.database.connection import Connection


def hold(tx: Connection, *name: object) -> None:
    """Take the lock with this name and keep it until the transaction ends.

    `name` may have several parts, such as a kind and an id. See `hold_all`.
    """
    hold_all(tx, [name])


def hold_all(tx: Connection, names: Sequence[Sequence[object]]) -> None:
    """Take the locks with these names, in the given order, until the transaction ends.

    To avoid deadlocks, all callers must take different kinds of locks in the same order. On SQLite,
    which has a single writer, this does nothing. Two names use the same lock once in 2^64 times;
    then one transaction waits for the other needlessly.
    """
    if tx.dialect == "postgresql":
        keys = {f"key_{number}": _key(name) for number, name in enumerate(names)}
        tx.run(f"select {', '.join(f'pg_advisory_xact_lock(:{key})' for key in keys)}", keys)


def _key(name: Sequence[object]) -> int:
    digest = hashlib.sha256("/".join(str(part) for part in name).encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
