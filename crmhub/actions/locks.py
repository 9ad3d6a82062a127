"""Locks between processes that end with the transaction and cost no write."""

from __future__ import annotations

import hashlib

from crmhub.db import Connection


def hold(tx: Connection, *name: object) -> None:
    """Let nobody else hold the lock of this name until the transaction ends.

    SQLite's one writer at a time holds every lock already. Two names fall on one lock once in
    2^64 times; then two callers wait for each other without need.
    """
    if tx.dialect == "postgresql":
        digest = hashlib.sha256("/".join(str(part) for part in name).encode()).digest()
        key = int.from_bytes(digest[:8], signed=True)
        tx.run("select pg_advisory_xact_lock(:key)", {"key": key})
