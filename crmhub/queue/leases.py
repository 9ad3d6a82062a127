"""Leases: locks between processes that need no open database connection while they are held.

A lease is a row with an expiry time by the database's clock. The lease of a process that died
expires, and another process takes it over. The row stores only a hash of the lease's key, since a
key may be a phone number.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import random
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from crmhub import errors
from crmhub.adapter import NotYet
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import delete_where
from crmhub.database.statements import Insert, Statement, param, params
from crmhub.database.tables import lease
from crmhub.secrets import BASE36
from crmhub.secrets import token as random_token

Params = Mapping[str, Any]

_FIRST_POLL, _SLOWEST_POLL = 0.0075, 0.1
# After this many turns in a row, a process lets other processes try.
_TURNS = 10
# Releases after which expired leases of the connection are deleted.
_SWEEP = 100
_COME_BACK = 1.0
_log = logging.getLogger(__name__)

_l = lease.c
_ended = lease.alias("ended").c
_KEY_COLUMNS = ("account_id", "connection_id", "key")
_HERE = sa.and_(_l.account_id == param("account_id"), _l.connection_id == param("connection_id"))
_EXPIRES_AT = Statement(sa.select(_l.expires_at).where(_HERE, _l.key == param("key")))
# Locked in the order of the keys, since two processes may delete at the same time.
_SWEEP_ENDED = Statement(
    sa.delete(lease).where(
        _HERE,
        _l.key.in_(
            sa.select(_ended.key)
            .where(
                _ended.account_id == param("account_id"),
                _ended.connection_id == param("connection_id"),
                _ended.expires_at <= param("now"),
            )
            .order_by(_ended.key)
            .with_for_update()
        ),
    )
)


def _build_take(insert: Insert) -> sa.Insert:
    statement = insert(lease).values(params(*_KEY_COLUMNS, "token", "expires_at"))
    taken: sa.Insert = statement.on_conflict_do_update(
        index_elements=_KEY_COLUMNS,
        set_={name: statement.excluded[name] for name in ("token", "expires_at")},
        where=_l.expires_at <= param("now"),
    ).returning(_l.token)
    return taken


_TAKE = Statement(_build_take)


@dataclass(slots=True)
class _Queue:
    """The threads of this process that hold or wait for the same lease; only the first polls."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    threads: int = 0
    turns: int = 0


class Leases:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._queues: dict[tuple[Any, ...], _Queue] = {}
        self._lock = threading.Lock()
        self._releases = itertools.count(1)

    @contextmanager
    def hold(
        self, account_id: int, connection_id: int, key: str, *, seconds: float, patience: float
    ) -> Iterator[None]:
        """Hold the lease `key` of a connection during the block, alone among all processes.

        The lease expires after `seconds`, even inside the block. Raises NotYet if another thread or
        process holds it for `patience` seconds, and Unavailable if the database is unavailable.
        """
        until = time.monotonic() + patience
        row = {
            "account_id": account_id,
            "connection_id": connection_id,
            "key": _hashed(key),
            "token": random_token(128, BASE36),
            "ms": int(seconds * 1000),
        }
        with self._turn(row, until):
            self._acquire(row, until)
            try:
                yield
            finally:
                self._release(row)

    @contextmanager
    def _turn(self, row: Params, until: float) -> Iterator[None]:
        """Wait for the threads of this process that came earlier; NotYet at `until` (monotonic)."""
        name = (row["account_id"], row["connection_id"], row["key"])
        with self._lock:
            queue = self._queues.setdefault(name, _Queue())
            queue.threads += 1
        try:
            if not queue.lock.acquire(timeout=max(0.0, until - time.monotonic())):
                raise _taken(row)
            try:
                queue.turns += 1
                if queue.turns % _TURNS == 0:
                    _sleep(_SLOWEST_POLL, until)
                yield
            finally:
                queue.lock.release()
        finally:
            with self._lock:
                queue.threads -= 1
                if not queue.threads:
                    del self._queues[name]

    def _acquire(self, row: Params, until: float) -> None:
        poll = _FIRST_POLL
        while not self._try(row):
            if time.monotonic() >= until:
                raise _taken(row)
            _sleep(poll * random.uniform(0.7, 1.3), until)
            poll = min(poll * 1.6, _SLOWEST_POLL)

    def _try(self, row: Params) -> bool:
        with self._database.reading() as connection:
            now = connection.now_ms()
            # A read first, since a write for each poll of each waiting process costs more.
            ends = connection.scalar(_EXPIRES_AT, row)
            if ends is not None and ends > now:
                return False
            times = {"now": now, "expires_at": now + row["ms"]}
            return connection.row(_TAKE, {**row, **times}) is not None

    def _release(self, row: Params) -> None:
        try:
            with self._database.reading() as connection:
                held = {name: row[name] for name in (*_KEY_COLUMNS, "token")}
                delete_where(connection, lease, held)
                if next(self._releases) % _SWEEP == 0:
                    connection.run(_SWEEP_ENDED, {**row, "now": connection.now_ms()})
        except errors.Unavailable:
            # The work under the lease is finished; the lease expires by itself.
            _log.warning("A lease could not be given back; it runs out by itself.")


def forget(tx: Connection, account_id: int, keys: Collection[str]) -> None:
    """Delete the leases with these keys on all connections of an account, even leases in use."""
    rows = [(account_id, _hashed(key)) for key in sorted(keys)]
    tx.delete("lease", {"account_id": "int", "key": "text"}, rows)


def _hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _sleep(seconds: float, until: float) -> None:
    time.sleep(max(0.0, min(seconds, until - time.monotonic())))


def _taken(row: Params) -> NotYet:
    return NotYet(
        f"Another call on connection {row['connection_id']} is busy with the same contact or token"
        " and did not end in time; try again.",
        retry_after=_COME_BACK,
    )
