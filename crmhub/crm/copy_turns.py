"""One turn of a worker at the copy of one kind of record: what is claimed, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from crmhub.accounts.accounts import Account
from crmhub.crm.connection import sound
from crmhub.crm.deadlines import within
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.errors import Unavailable
from crmhub.hub import Hub
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import BY_CODE, Kind
from crmhub.queue.budgets import Copying
from crmhub.records import copies

# What is told of another kind of record waits for so long.
_SLICE_S = 3.0
_CALL_S = 30.0


@contextmanager
def renewed(database: Database, row: Any) -> Iterator[None]:
    """Renew the lease of a claimed row during the block, since calls to the CRM may be slow."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(copies.LEASE_MS / 3000):
            # While the database is unavailable, the lease may expire; the turn then ends.
            with suppress(Unavailable), database.for_account(row.account_id):
                copies.renew(database, row)

    thread = threading.Thread(target=renew, name="renewing", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Turn:
    """A turn of a few seconds; `row` is the claimed state."""

    def __init__(self, hub: Hub, account: Account, row: Any, stopping: threading.Event) -> None:
        self.hub = hub
        self.account = account
        self.row = row
        self.kind = BY_CODE[row.kind]
        self._stopping = stopping
        self._ends_at = time.monotonic() + _SLICE_S

    @property
    def key(self) -> dict[str, Any]:
        row = self.row
        return {"account_id": row.account_id, "connection_id": row.connection_id, "kind": row.kind}

    @contextmanager
    def asking(self, *, for_all: bool = False) -> Iterator[None]:
        """Call the CRM in the block, for up to half a minute; `for_all`: of a walk through all."""
        copying: Copying = "all" if for_all or self.row.state == "loading" else "changes"
        with within(_CALL_S, queued=True, copying=copying), sound():
            yield

    def next_at(self) -> int:
        """Return when the CRM is asked for changes again (ms since 1970)."""
        return now_ms() + self.account.switches.mirror_every_s * 1000

    def is_over(self) -> bool:
        return self._stopping.is_set() or time.monotonic() > self._ends_at

    def is_told(self) -> bool:
        """Return whether somebody has named records, which are read before all others."""
        with self.hub.database.reading() as db:
            return bool(copies.hints(db, self.key, 1))

    def catalogue(self, kind: Kind) -> Catalogue:
        return self.hub.records.catalogues.current(self.account.id, kind)

    def store(self, **values: Any) -> None:
        self.hub.database.transact(lambda tx: self.keep(tx, **values))

    def keep(self, tx: Connection, **values: Any) -> None:
        """Store values of the claimed row in a transaction, and here once it has ended well."""
        copies.hold(tx, self.row, **values)
        merged = self.row._asdict() | values
        following = type(self.row)(**merged) if values else self.row
        self.hub.database.after_commit(partial(setattr, self, "row", following))
