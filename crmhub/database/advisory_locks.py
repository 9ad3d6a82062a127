"""Advisory locks between processes, which end with the transaction and cost no write."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from crmhub.database.connection import Connection


def hold(tx: Connection, *name: object) -> None:
    """Hold the lock with this name until the transaction ends; see `hold_all`."""
    hold_all(tx, [name])


def hold_all(tx: Connection, names: Sequence[Sequence[object]]) -> None:
    """Hold the locks with these names until the transaction ends.

    They are taken in the given order; all callers must use one order of kinds. SQLite's single
    writer needs no lock. Two names share a lock once in 2^64 times; their holders then wait for
    each other needlessly.
    """
    if tx.dialect == "postgresql":
        keys = {f"key_{number}": _key(name) for number, name in enumerate(names)}
        tx.run(f"select {', '.join(f'pg_advisory_xact_lock(:{key})' for key in keys)}", keys)


def _key(name: Sequence[object]) -> int:
    digest = hashlib.sha256("/".join(str(part) for part in name).encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
