"""Advisory locks between processes, released at the end of the transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from crmhub.database.connection import Connection


def hold(tx: Connection, *name: object) -> None:
    hold_all(tx, [name])


def hold_all(tx: Connection, names: Sequence[Sequence[object]]) -> None:
    """All callers must take kinds of locks in the same order. Does nothing on SQLite."""
    if tx.dialect == "postgresql":
        keys = {f"key_{number}": _key(name) for number, name in enumerate(names)}
        tx.run(f"select {', '.join(f'pg_advisory_xact_lock(:{key})' for key in keys)}", keys)


def _key(name: Sequence[object]) -> int:
    digest = hashlib.sha256("/".join(str(part) for part in name).encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
