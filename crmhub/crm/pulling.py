"""Pull records from the CRM into the copy: the first load, changes and hints.

Whatever a page holds is stored together with where the walk goes on. A record is written only
where it differs, so what the hub itself has written comes back without an event.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.adapter import (
    Adapter,
    AdapterError,
    ChangedPage,
    LacksRight,
    NotYet,
    Record,
    Unsupported,
)
from crmhub.crm import comparing, copied_definitions, ending_copies
from crmhub.crm.connection import connect, sound
from crmhub.crm.copied_definitions import contract_kind
from crmhub.crm.copy_turns import Turn, renewed
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import delete_where, find_row
from crmhub.database.tables import crm_copy, crm_copy_hint
from crmhub.errors import HubError, Unavailable
from crmhub.hub import Hub
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import KINDS, Kind
from crmhub.records import copied, copies, timeline
from crmhub.records.copied import Copied, Result
from crmhub.records.copies import LeaseLost

_THREADS = 4
_POLL_S = 1.0
# How long a connection keeps a thread, if others are due as well.
_THREAD_S = 30.0
_HOUR_MS = 3_600_000
_AT_ONCE = 100
# How often a record is read that others change at the same time.
_AGAIN = 5
# Gone records whose hints wait for the changes.
_MOST_GONE = 1_000
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5.0, 300.0
_log = logging.getLogger("crmhub.copies")

_NEVER = 2**62


class Copying:
    """Pulls what is due, in threads of its own, so that a slow CRM keeps only a few waiting."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._busy: set[tuple[int, int]] = set()
        self._lock = threading.Lock()

    def run(self, stopping: threading.Event) -> None:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="copying") as pool:
            while not stopping.wait(_POLL_S):
                try:
                    with self._hub.database.across_accounts():
                        due = copies.due(self._hub.database, 10 * _THREADS)
                except Unavailable as exc:
                    _log.warning("No copy can be pulled: %s", exc.message)
                    continue
                for connection in due:
                    with self._lock:
                        if connection in self._busy or len(self._busy) >= _THREADS:
                            continue
                        self._busy.add(connection)
                    pool.submit(self._pull, connection, stopping)

    def _pull(self, connection: tuple[int, int], stopping: threading.Event) -> None:
        ends_at = time.monotonic() + _THREAD_S
        try:
            while pull_next(self._hub, *connection, stopping=stopping):
                if stopping.is_set() or time.monotonic() > ends_at:
                    break
        except (Unavailable, LeaseLost) as exc:
            _log.warning("A copy was not pulled: %s", exc)
        # A bug must not end the copies of other accounts.
        except Exception:
            _log.exception("A copy failed because of a bug.")
        finally:
            with self._lock:
                self._busy.discard(connection)


def pull_next(
    hub: Hub, account_id: int, connection_id: int, *, stopping: threading.Event | None = None
) -> bool:
    """Pull what is due of one connection, one kind of record; return whether anything was due."""
    with hub.database.for_account(account_id):
        row = copies.claim(hub.database, account_id, connection_id)
        if row is None:
            return False
        with hub.database.reading() as db:
            account = accounts.load_on(db, account_id, connection_id, hub.plans)
        with renewed(hub.database, row):
            Pull(hub, account, row, stopping or threading.Event()).run()
        return True


class Pull(Turn):
    """A turn that does what is due for one kind of record."""

    def run(self) -> None:
        row, database = self.row, self.hub.database
        if self.account.disabled and row.state != "ending":
            copies.release(database, row, run_at=self.next_at())
            return
        try:
            if row.state == "ending":
                ending_copies.delete_copy(self)
                return
            adapter = connect(self.hub, self.account)
            if row.defined_at is None or row.defined_at < now_ms() - _HOUR_MS:
                self._define(adapter)
            if self._walk(adapter):
                comparing.compare(self, adapter)
        except (Unsupported, LacksRight) as exc:
            if self.row.defined_at is not None:
                self._failed(exc)
                return
            self._end_absent(exc)
        except AdapterError as exc:
            self._failed(exc)
        except Unavailable:
            raise
        except HubError as exc:
            self._failed(exc)

    def _end_absent(self, exc: AdapterError) -> None:
        """Leave out a kind of record that the CRM lacks, or that the connection may not read."""

        def end(tx: Connection) -> None:
            ended = {"state": "absent", "run_at": _NEVER, "lease": None, "failure": exc.message}
            copies.hold(tx, self.row, **ended)
            delete_where(tx, crm_copy_hint, self.key)

        self.hub.database.transact(end)

    def _failed(self, exc: AdapterError | HubError) -> None:
        failures = self.row.failures + 1
        wait_s = min(_FIRST_WAIT_S * 2 ** min(failures - 1, 10), _LONGEST_WAIT_S)
        wait_s = max(wait_s, getattr(exc, "retry_after", None) or 0.0)
        _log.warning("The copy of %s cannot go on: %s", self.kind.name, exc.message)
        # How long a copy fails counts from the first failure.
        first = (
            {} if self.row.failures or self.row.state == "loading" else {"progress_at": now_ms()}
        )
        copies.release(
            self.hub.database,
            self.row,
            run_at=now_ms() + round(wait_s * 1000),
            failures=failures,
            failure=exc.message[:500],
            **first,
        )

    # Definitions

    def _define(self, adapter: Adapter) -> None:
        with self.asking():
            properties, pipelines = copied_definitions.read(adapter, self.account, self.kind)
        digest = copied_definitions.digest(properties, pipelines)
        values: dict[str, Any] = {"defined_at": now_ms(), "defined": digest}
        if digest == self.row.defined:
            self.store(**values)
            return
        # The records that are there lack the values of new properties.
        anew: dict[str, Any] = {}
        if self.row.since:
            anew = {"since": "", "began_at": None, "state": "loading", "loaded": 0, "total": None}
        copied_definitions.store(
            self.hub.records,
            self.account,
            self.kind,
            properties,
            pipelines,
            also=lambda tx, new: self.keep(tx, **values, **(anew if new else {})),
        )

    # Reading

    def _walk(self, adapter: Adapter) -> bool:
        """Go through the CRM's records, or its changes; return whether all are read.

        What somebody has named is read before each page. What of it the CRM has no more is archived
        at the end, unless the changes tell that it was merged.
        """
        asked_at, gone = now_ms(), set[str]()
        while True:
            self._read_hinted(adapter, gone)
            page_at = now_ms()
            began_at = self.row.began_at or page_at
            kind, names = contract_kind(self.kind), copied.names(self.catalogue(self.kind))
            with self.asking():
                page = adapter.changed_since(kind, self.row.since, names)
            done: dict[str, Any] = {"since": page.next, "began_at": began_at if page.more else None}
            if page.total is not None:
                done["total"] = page.total
            if not page.more:
                ended = {"state": "following", "synced_at": began_at}
                done |= ended | ({} if self.row.complete_at else {"complete_at": now_ms()})
            self._apply(adapter, page, asked_at=page_at, unsure=gone, **done)
            gone -= {one.id for one in page.records}
            if not page.more:
                self._remove(adapter, gone, asked_at=asked_at)
                return True
            if self.is_over():
                copies.release(self.hub.database, self.row, run_at=now_ms(), failures=0)
                return False

    def _read_hinted(self, adapter: Adapter, gone: set[str]) -> None:
        """Read the records that somebody has named; add the ids that the CRM has no more to `gone`.

        Their hints stay, since a change that is still to be read may tell that they were merged.
        """
        names = copied.names(self.catalogue(self.kind))
        while len(gone) < _MOST_GONE and (ids := self._hints(gone)):
            asked_at = now_ms()
            with self.asking():
                found = adapter.get_records(contract_kind(self.kind), ids, names)
            there = {one.id for one in found}
            page = ChangedPage(tuple(found), "", False)
            self._apply(adapter, page, asked_at=asked_at, hinted=there)
            missing = {*ids} - there
            if self.row.state == "loading":
                # The load takes long.
                self._remove(adapter, missing, asked_at=asked_at)
            else:
                gone |= missing
            if self.is_over():
                return

    def _hints(self, gone: set[str]) -> list[str]:
        with self.hub.database.reading() as db:
            found = copies.hints(db, self.key, _AT_ONCE + len(gone))
        return [id for id in found if id not in gone][:_AT_ONCE]

    def _remove(self, adapter: Adapter, gone: set[str], *, asked_at: int) -> None:
        for start in range(0, len(gone), _AT_ONCE):
            ids = sorted(gone)[start : start + _AT_ONCE]
            page = ChangedPage((), "", False, tuple(ids))
            self._apply(adapter, page, asked_at=asked_at, hinted=ids)

    def _apply(
        self,
        adapter: Adapter,
        page: ChangedPage,
        *,
        asked_at: int,
        hinted: Collection[str] = (),
        unsure: Collection[str] = (),
        **done: Any,
    ) -> None:
        """Store a page; `done`: what the row then says. `unsure`: ids that the CRM did not find."""
        last = {one.id: one for one in page.records}
        # A search that lags still shows deleted and merged records; they are read again by id.
        ghosts = {id for id in (*page.deleted, *page.merged, *unsure) if id in last}
        gone = {id for id in page.deleted if id not in last}
        self._fetch_linked(adapter, [*last.values()])
        store, account, kind = self.hub.records, self.account, self.kind
        ids = store.take_ids(account, kind, len(last))
        others = {name: self.catalogue(other) for name, other in KINDS.items()}
        told = [_copied(one) for one in last.values()]

        def write(tx: Connection, catalogue: Catalogue) -> None:
            now = now_ms()
            source = replace(catalogue, source="crm")
            if self.row.complete_at is None:
                # The first load is no change of anything.
                source = replace(source, event_routes=())
            result = copied.write(
                tx, source, others, told, ids=ids, region=account.switches.region,
                now=now, asked_at=asked_at,
            )  # fmt: skip
            merged = {id: kept for id, kept in page.merged.items() if id not in last}
            if merged:
                _merge(tx, account, source, merged)
            if gone:
                copied.remove(tx, source, gone, now=now)
            loaded = self.row.loaded + (len(told) if self.row.state == "loading" else 0)
            left_out = self.row.left_out + result.left_out
            counted = {"loaded": loaded, "left_out": left_out}
            # The row before the hints, as whoever tells of records.
            self.keep(tx, **done, **counted, failure="", progress_at=now)
            again = {*result.newer, *ghosts}
            copies.forget_hints(tx, self.key, {*hinted, *last} - again, before=asked_at)
            if again:
                copies.tell(tx, account, kind, again)

        store.transact(account, kind, write)

    def _fetch_linked(self, adapter: Adapter, told: Sequence[Record]) -> None:
        """Copy the records of other kinds that these are linked to, and that are not here yet."""
        for name, other in KINDS.items():
            wanted = {id for one in told for to, ids in one.links.items() if to == name
                      for id in ids}  # fmt: skip
            catalogue = self.catalogue(other)
            if not wanted or other is self.kind:
                continue
            if catalogue.get(copied.ID) is None:
                with self.hub.database.reading() as db:
                    row = find_row(db, crm_copy, self.key | {"kind": other.code})
                if row is not None and row.state == "loading":
                    raise NotYet(f"The definitions of {name} are not known yet.", retry_after=1)
                continue
            with self.hub.database.reading() as db:
                missing = sorted(wanted - copied.held(db, catalogue, wanted).keys())
            names = copied.names(catalogue)
            for start in range(0, len(missing), _AT_ONCE):
                asked_at = now_ms()
                with self.asking():
                    found = adapter.get_records(
                        contract_kind(other), missing[start : start + _AT_ONCE], names
                    )
                write_copied(
                    self.hub, self.account, other,
                    [replace(_copied(one), links={}) for one in found],
                    asked_at=asked_at, source="crm",
                )  # fmt: skip
                self.store()


def copy_found(
    hub: Hub, account: Account, kind: Kind, found: Sequence[Record], *, asked_at: int
) -> None:
    """Copy records that a caller has asked for before the load has come to them.

    A worker reads them again, with the records that they are linked to.
    """
    write_copied(
        hub, account, kind, [_copied(one) for one in found], asked_at=asked_at, source="crm",
        also=lambda tx, _: copies.tell(tx, account, kind, [one.id for one in found]),
    )  # fmt: skip


def copy_now(
    hub: Hub,
    account: Account,
    adapter: Adapter,
    kind: Kind,
    crm_id: str,
    sent: Mapping[str, str] | None,
) -> bool:
    """Copy a record that the hub has just written, and return whether the CRM has told it in time.

    `sent`: the properties that the hub has written; None if it may have changed any.
    Otherwise a worker reads it: `copies.tell` was called in the transaction of the outcome.
    """
    of = account.connection_key | {"kind": kind.code}
    catalogue = hub.records.catalogue(account, kind)
    for _ in range(_AGAIN):
        asked_at = now_ms()
        with hub.database.reading() as db:
            before = copied.moments(db, catalogue, [crm_id])
        try:
            with sound():
                found = adapter.get_records(contract_kind(kind), [crm_id], copied.names(catalogue))
        except (AdapterError, HubError) as exc:
            _log.info("A record is copied later: %s", exc.message)
            return False

        def forget(tx: Connection, result: Result, asked_at: int = asked_at) -> None:
            # The outcome may have told of the record in the same millisecond.
            copies.forget_hints(tx, of, {crm_id} - {*result.newer}, before=asked_at + 1)

        newer = write_copied(
            hub, account, kind, [_copied(one) for one in found], asked_at=asked_at,
            source="hub", before=before, sent=sent, also=forget,
        )  # fmt: skip
        if not newer:
            return True
    return False


def remove_now(hub: Hub, account: Account, kind: Kind, crm_id: str) -> None:
    """Archive a record of the copy that the hub has just archived in the CRM."""
    hub.records.transact(
        account,
        kind,
        lambda tx, catalogue: copied.remove(
            tx, replace(catalogue, source="hub"), [crm_id], now=now_ms()
        ),
    )


def merge_now(hub: Hub, account: Account, kind: Kind, merged: Mapping[str, str]) -> None:
    """Merge records of the copy that the hub has just merged; `merged`: as in `copied.merge`."""
    hub.records.transact(
        account,
        kind,
        lambda tx, catalogue: _merge(tx, account, replace(catalogue, source="hub"), merged),
    )


def _merge(
    tx: Connection, account: Account, catalogue: Catalogue, merged: Mapping[str, str]
) -> None:
    copied.merge(tx, catalogue, merged, now=now_ms())
    for id, kept_id in merged.items():
        timeline.move(tx, account.id, account.connection.id, catalogue.kind, id, kept_id)


def _copied(one: Record) -> Copied:
    return Copied(one.id, one.properties, one.url, one.created_ms, one.links)


def write_copied(
    hub: Hub,
    account: Account,
    kind: Kind,
    told: Sequence[Copied],
    *,
    asked_at: int,
    source: str,
    before: Mapping[str, int] | None = None,
    sent: Mapping[str, str] | None = None,
    also: Callable[[Connection, Result], object] = lambda tx, result: None,
) -> Sequence[str]:
    """Write records to the copy in one transaction with what `also` does; see `copied.write`.

    Return the ids of those that have changed since the CRM was asked. Nothing is written before the
    kind's definitions are known, and once the copy ends.
    """
    if not told:
        return ()
    store = hub.records
    ids = store.take_ids(account, kind, len(told))
    others = {name: store.catalogues.current(account.id, one) for name, one in KINDS.items()}

    of = account.connection_key | {"kind": kind.code}

    def write(tx: Connection, catalogue: Catalogue) -> Sequence[str]:
        row = find_row(tx, crm_copy, of)
        if row is None or row.state == "ending" or catalogue.get(copied.ID) is None:
            return ()
        written = replace(catalogue, source=source)
        if source == "crm" and row.complete_at is None:
            # The first load is no change of anything.
            written = replace(written, event_routes=())
        result = copied.write(
            tx, written, others, told, ids=ids, before=before, sent=sent,
            region=account.switches.region, now=now_ms(), asked_at=asked_at,
        )  # fmt: skip
        also(tx, result)
        return result.newer

    return store.transact(account, kind, write)
