"""The running processes of the hub: each stores that it is alive, and the console lists them."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from crmhub import __version__
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import delete_where, upsert_row
from crmhub.database.statements import Statement, param
from crmhub.database.tables import hub_process
from crmhub.secrets import token

_BEAT_S = 30.0
_ALIVE_MS = 75_000
_KEPT_MS = 24 * 3600 * 1000
_log = logging.getLogger("crmhub.processes")

_process = hub_process.c
_FORGET = Statement(sa.delete(hub_process).where(_process.seen_at < param("before")))
_LIST = Statement(
    sa.select(hub_process, (_process.seen_at >= param("alive_from")).label("alive")).order_by(
        _process.kind, _process.started_at, _process.id
    )
)


def list_processes(database: Database) -> list[Any]:
    """Return all processes of the last 24 hours, except those that have ended properly.

    `kind` is "server" or "worker"; `alive`: seen in the last 75 s. Times are in ms since 1970.
    """
    with database.reading() as db:
        return db.rows(_LIST, {"alive_from": db.now_ms() - _ALIVE_MS})


class Presence:
    """Stores in a background thread that this process is alive, from `start` until `stop`."""

    def __init__(self, database: Database, kind: str) -> None:
        self._database = database
        self._id = token(64)
        self._values = {
            "kind": kind,
            "host": socket.gethostname()[:255],
            "pid": os.getpid(),
            "version": __version__,
        }
        self._started_at = 0
        self._is_stored = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and remove this process from the list if the database is available."""
        self._stopping.set()
        self._thread.join()
        if self._is_stored:
            self._write(self._leave)

    def _run(self) -> None:
        while True:
            self._is_stored = self._write(self._beat)
            if self._stopping.wait(_BEAT_S):
                return

    def _write(self, work: Callable[[Connection], None]) -> bool:
        try:
            self._database.transact(work)
        # Each driver has its own error for a schema that is not upgraded yet; other parts of the
        # process report that, and an unavailable database.
        except Exception as exc:
            _log.debug("The list of processes cannot be written: %s.", type(exc).__name__)
            return False
        return True

    def _beat(self, tx: Connection) -> None:
        now = tx.now_ms()
        if not self._started_at:
            self._started_at = now
            tx.run(_FORGET, {"before": now - _KEPT_MS})
        first = {**self._values, "started_at": self._started_at}
        upsert_row(tx, hub_process, {"id": self._id}, {"seen_at": now}, first)

    def _leave(self, tx: Connection) -> None:
        delete_where(tx, hub_process, {"id": self._id})
