"""Locks between processes that end with the transaction and cost no write."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from crmhub.database.connection import Connection


def hold(tx: Connection, *name: object) -> None:
    """Let nobody else hold the lock of this name until the transaction ends; see `hold_all`."""
    hold_all(tx, [name])


def hold_all(tx: Connection, names: Sequence[Sequence[object]]) -> None:
    """Let nobody else hold the locks of these names until the transaction ends.

    They are taken in the order given; all callers must give theirs in one order of kinds.
    SQLite's one writer at a time holds every lock already. Two names fall on one lock once in
    2^64 times; then two callers wait for each other without need.
    """
    if tx.dialect == "postgresql":
        keys = {f"key_{number}": _key(name) for number, name in enumerate(names)}
        tx.run(f"select {', '.join(f'pg_advisory_xact_lock(:{key})' for key in keys)}", keys)


def _key(name: Sequence[object]) -> int:
    digest = hashlib.sha256("/".join(str(part) for part in name).encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
