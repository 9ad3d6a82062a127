"""Pull records from the CRM into the copy: the first load, changes, hints, and the comparison.

Whatever a page holds is stored together with where the walk goes on. A record is written only
where it differs, so what the hub itself has written comes back without an event.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import sqlalchemy as sa

from crmhub.accounts import accounts, changes
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, AdapterError, ChangedPage, NotYet, Record, Unsupported
from crmhub.crm import copied_definitions
from crmhub.crm.connection import connect, sound
from crmhub.crm.copied_definitions import contract_kind
from crmhub.crm.deadlines import within
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import delete_where, find_row
from crmhub.database.statements import Statement, param
from crmhub.database.tables import (
    archived_record,
    crm_copy,
    crm_copy_seen,
    records,
    unique_value,
)
from crmhub.errors import HubError, Unavailable
from crmhub.hub import Hub
from crmhub.properties import catalogue as catalogues
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import BY_CODE, KINDS, Kind
from crmhub.records import copied, copies, erasing
from crmhub.records.copied import Copied, Result
from crmhub.records.copies import LeaseLost

_THREADS = 4
_POLL_S = 1.0
_SLICE_S = 30.0
_CALL_S = 30.0
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_AT_ONCE = 100
# How often a record is read that others change at the same time.
_AGAIN = 5
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5.0, 300.0
_log = logging.getLogger("crmhub.copies")

_NEVER = 2**62
_SEEN = {"account_id": "int", "connection_id": "int", "kind": "int", "crm_id": "text"}
_s, _u = crm_copy_seen.c, unique_value.c
_UNSEEN = Statement(
    sa.select(_u.value)
    .where(
        _u.account_id == param("account_id"),
        _u.prop_id == param("prop_id"),
        _u.value > param("after"),
        sa.not_(
            sa.exists().where(
                _s.account_id == param("account_id"),
                _s.connection_id == param("connection_id"),
                _s.kind == param("kind"),
                _s.crm_id == _u.value,
            )
        ),
    )
    .order_by(_u.value)
    .limit(param("limit"))
)
_SOME = Statement(
    sa.select(records.c.id)
    .where(records.c.account_id == param("account_id"), records.c.kind == param("kind"))
    .limit(param("limit"))
)

_SOME_ARCHIVED = Statement(
    sa.select(
        archived_record.c.id, sa.cast(archived_record.c.properties, sa.Text).label("properties")
    )
    .where(
        archived_record.c.account_id == param("account_id"),
        archived_record.c.kind == param("kind"),
        archived_record.c.id > param("after"),
    )
    .order_by(archived_record.c.id)
    .limit(param("limit"))
)


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
        try:
            pull_next(self._hub, *connection, stopping=stopping)
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
        pull = Pull(hub, account, row, stopping or threading.Event())
        pull.run()
        return True


class Pull:
    """One turn of one kind of record, for up to half a minute; `row` is the claimed state."""

    def __init__(self, hub: Hub, account: Account, row: Any, stopping: threading.Event) -> None:
        self._hub = hub
        self._account = account
        self._row = row
        self._kind = BY_CODE[row.kind]
        self._stopping = stopping
        self._ends_at = time.monotonic() + _SLICE_S

    def run(self) -> None:
        row, database = self._row, self._hub.database
        if self._account.disabled and row.state != "ending":
            copies.release(database, row, run_at=now_ms() + copies.EVERY_MS)
            return
        try:
            if row.state == "ending":
                self._delete()
                return
            adapter = connect(self._hub, self._account)
            if row.defined_at is None or row.defined_at < now_ms() - _HOUR_MS:
                self._define(adapter)
            self._read_hinted(adapter)
            if self._walk(adapter):
                self._compare(adapter)
        except Unsupported as exc:
            if self._row.defined_at is not None:
                self._failed(exc)
                return
            copies.release(database, row, state="absent", run_at=_NEVER, failure=exc.message)
        except AdapterError as exc:
            self._failed(exc)
        except Unavailable:
            raise
        except HubError as exc:
            self._failed(exc)

    @property
    def _key(self) -> dict[str, Any]:
        row = self._row
        return {"account_id": row.account_id, "connection_id": row.connection_id, "kind": row.kind}

    def _failed(self, exc: AdapterError | HubError) -> None:
        failures = self._row.failures + 1
        wait_s = min(_FIRST_WAIT_S * 2 ** min(failures - 1, 10), _LONGEST_WAIT_S)
        wait_s = max(wait_s, getattr(exc, "retry_after", None) or 0.0)
        _log.warning("The copy of %s cannot go on: %s", self._kind.name, exc.message)
        copies.release(
            self._hub.database,
            self._row,
            run_at=now_ms() + round(wait_s * 1000),
            failures=failures,
            failure=exc.message[:500],
        )

    def _over(self) -> bool:
        return self._stopping.is_set() or time.monotonic() > self._ends_at

    def _store(self, **values: Any) -> None:
        self._hub.database.transact(lambda tx: self._keep(tx, **values))

    def _keep(self, tx: Connection, **values: Any) -> None:
        """Store values of the claimed row in a transaction, and here once it has ended well."""
        copies.hold(tx, self._row, **values)
        merged = self._row._asdict() | values
        following = type(self._row)(**merged) if values else self._row
        self._hub.database.after_commit(partial(setattr, self, "_row", following))

    # Definitions

    def _define(self, adapter: Adapter) -> None:
        with within(_CALL_S, queued=True), sound():
            properties, pipelines = copied_definitions.read(adapter, self._account, self._kind)
        digest = copied_definitions.digest(properties, pipelines)
        values: dict[str, Any] = {"defined_at": now_ms(), "defined": digest}
        if digest == self._row.defined:
            self._store(**values)
            return
        # The records that are there lack the values of new properties.
        anew = {"since": "", "began_at": None, "state": "loading"} if self._row.since else {}
        copied_definitions.store(
            self._hub.records,
            self._account,
            self._kind,
            properties,
            pipelines,
            also=lambda tx, new: self._keep(tx, **values, **(anew if new else {})),
        )

    # Reading

    def _walk(self, adapter: Adapter) -> bool:
        """Go through the CRM's records, or its changes; return whether all are read."""
        while True:
            asked_at = now_ms()
            began_at = self._row.began_at or asked_at
            kind, names = contract_kind(self._kind), _names(self._catalogue(self._kind))
            with within(_CALL_S, queued=True), sound():
                page = adapter.changed_since(kind, self._row.since, names)
            done: dict[str, Any] = {"since": page.next, "began_at": began_at if page.more else None}
            if not page.more:
                ended = {"state": "following", "synced_at": began_at}
                done |= ended | ({} if self._row.complete_at else {"complete_at": now_ms()})
            self._apply(adapter, page, asked_at=asked_at, **done)
            if not page.more:
                return True
            if self._over():
                copies.release(self._hub.database, self._row, run_at=now_ms(), failures=0)
                return False

    def _catalogue(self, kind: Kind) -> Catalogue:
        return self._hub.records.catalogues.current(self._account.id, kind)

    def _read_hinted(self, adapter: Adapter) -> None:
        """Read the records that somebody has named; what is not there has been deleted."""
        names = _names(self._catalogue(self._kind))
        while ids := self._hints():
            asked_at = now_ms()
            with within(_CALL_S, queued=True), sound():
                found = adapter.get_records(contract_kind(self._kind), ids, names)
            gone = {*ids} - {one.id for one in found}
            page = ChangedPage(tuple(found), "", False, tuple(sorted(gone)))
            self._apply(adapter, page, asked_at=asked_at, hinted=ids)
            if self._over():
                return

    def _hints(self) -> list[str]:
        with self._hub.database.reading() as db:
            return copies.hints(db, self._key, _AT_ONCE)

    def _apply(
        self,
        adapter: Adapter,
        page: ChangedPage,
        *,
        asked_at: int,
        hinted: Sequence[str] = (),
        **done: Any,
    ) -> None:
        """Store a page; `done`: what the row then says."""
        last = {one.id: one for one in page.records}
        gone = {id for id in page.deleted if id not in last}
        self._fetch_linked(adapter, [*last.values()])
        store, account, kind = self._hub.records, self._account, self._kind
        ids = store.take_ids(account, kind, len(last))
        others = {name: self._catalogue(other) for name, other in KINDS.items()}
        told = [_copied(one) for one in last.values()]

        def write(tx: Connection, catalogue: Catalogue) -> None:
            now = now_ms()
            source = replace(catalogue, source="crm")
            if self._row.complete_at is None:
                # The first load is no change of anything.
                source = replace(source, event_routes=())
            result = copied.write(
                tx, source, others, told, ids=ids, region=account.switches.region,
                now=now, asked_at=asked_at,
            )  # fmt: skip
            merged = {id: kept for id, kept in page.merged.items() if id not in last}
            if merged:
                copied.merge(tx, source, merged, now=now)
            if gone:
                copied.remove(tx, source, gone, now=now)
            copies.forget_hints(tx, self._key, {*hinted, *last} - {*result.newer}, before=asked_at)
            if result.newer:
                copies.tell(tx, account, kind, result.newer)
            loaded = self._row.loaded + (len(told) if self._row.state == "loading" else 0)
            left_out = self._row.left_out + result.left_out
            self._keep(tx, **done, loaded=loaded, left_out=left_out, failure="")

        store.transact(account, kind, write)

    def _fetch_linked(self, adapter: Adapter, told: Sequence[Record]) -> None:
        """Copy the records of other kinds that these are linked to, and that are not here yet."""
        for name, other in KINDS.items():
            wanted = {id for one in told for to, ids in one.links.items() if to == name
                      for id in ids}  # fmt: skip
            catalogue = self._catalogue(other)
            if not wanted or other is self._kind:
                continue
            if catalogue.get(copied.ID) is None:
                with self._hub.database.reading() as db:
                    row = find_row(db, crm_copy, self._key | {"kind": other.code})
                if row is not None and row.state == "loading":
                    raise NotYet(f"The definitions of {name} are not known yet.", retry_after=1)
                continue
            with self._hub.database.reading() as db:
                missing = sorted(wanted - copied.held(db, catalogue, wanted).keys())
            names = _names(catalogue)
            for start in range(0, len(missing), _AT_ONCE):
                asked_at = now_ms()
                with within(_CALL_S, queued=True), sound():
                    found = adapter.get_records(
                        contract_kind(other), missing[start : start + _AT_ONCE], names
                    )
                write_copied(
                    self._hub, self._account, other,
                    [replace(_copied(one), links={}) for one in found],
                    asked_at=asked_at, source="crm",
                )  # fmt: skip
                self._store()

    # Comparing

    def _compare(self, adapter: Adapter) -> None:
        """Once a day, find by their ids the records that only the CRM or only the copy has."""
        row = self._row
        following: dict[str, Any] = {"run_at": now_ms() + copies.EVERY_MS, "lease": None}
        if row.compare_since is None:
            if now_ms() - (row.compared_at or row.complete_at or 0) < _DAY_MS:
                self._end(following)
                return
            self._store(compare_since="", differences=0)
        while self._row.compare_since is not None:
            if not self._compare_page(adapter):
                break
            if self._over():
                following["run_at"] = now_ms()
                break
        self._end(following)

    def _end(self, values: Mapping[str, Any]) -> None:
        def end(tx: Connection) -> None:
            # Whoever told of a record meanwhile could not wake a pull that was under way.
            more = {"run_at": now_ms()} if copies.hints(tx, self._key, 1) else {}
            copies.hold(tx, self._row, **{**values, **more, "failures": 0})

        self._hub.database.transact(end)

    def _compare_page(self, adapter: Adapter) -> bool:
        """Return whether there are further pages."""
        row, kind = self._row, self._kind
        with within(_CALL_S, queued=True), sound():
            page = adapter.changed_since(contract_kind(kind), row.compare_since, ())
        ids = [one.id for one in page.records]
        catalogue = self._catalogue(kind)
        key = (row.account_id, row.connection_id, row.kind)

        def note(tx: Connection) -> None:
            tx.insert("crm_copy_seen", _SEEN, [(*key, id) for id in sorted({*ids})], or_skip=True)
            missing = {*ids} - copied.held(tx, catalogue, ids).keys()
            if missing:
                copies.tell(tx, self._account, kind, missing)
            values: dict[str, Any] = {"compare_since": page.next if page.more else None}
            values["differences"] = (self._row.differences or 0) + len(missing)
            if not page.more:
                values["compared_at"] = now_ms()
                values["differences"] += self._tell_unseen(tx, catalogue)
                delete_where(tx, crm_copy_seen, self._key)
            self._keep(tx, **values)

        self._hub.database.transact(note)
        return page.more

    def _tell_unseen(self, tx: Connection, catalogue: Catalogue) -> int:
        """Have the records read that the walk has not met: the CRM may have deleted them."""
        known = catalogue.get(copied.ID)
        if known is None:
            return 0
        here = self._key | {"prop_id": known.prop_id, "limit": 10_000}
        found = [one.value for one in tx.rows(_UNSEEN, here | {"after": ""})]
        total = 0
        while found:
            total += len(found)
            copies.tell(tx, self._account, self._kind, found)
            found = [one.value for one in tx.rows(_UNSEEN, here | {"after": found[-1]})]
        return total

    # Ending

    def _delete(self) -> None:
        """Delete the copy of this kind, and with the last one the CRM's definitions."""
        account, kind, database = self._account, self._kind, self._hub.database
        after = 0
        while True:

            def delete_some(tx: Connection, catalogue: Catalogue) -> int:
                nonlocal after
                here = {"account_id": account.id, "kind": kind.code, "limit": 500}
                ids = [row.id for row in tx.rows(_SOME, here)]
                rows = [] if ids else tx.rows(_SOME_ARCHIVED, here | {"after": after})
                if rows:
                    # What was archived before the copy began is the hub's own.
                    ids = [row.id for row in rows if copied.ID in orjson.loads(row.properties)]
                    after = rows[-1].id
                erasing.erase(tx, replace(catalogue, event_routes=()), ids, now=now_ms())
                self._keep(tx)
                return len(ids) + len(rows)

            if not self._hub.records.transact(account, kind, delete_some):
                break
            if self._over():
                copies.release(database, self._row, run_at=now_ms())
                return
        database.transact(self._end_kind)

    def _end_kind(self, tx: Connection) -> None:
        """Delete the row; after the last one, the account's definitions are the hub's own again."""
        account = self._account
        # Two last kinds that end at once would each see the other's row.
        tx.hold(account.id, exclusive=True)
        copies.hold(tx, self._row)
        delete_where(tx, crm_copy, self._key)
        if not any(row.state == "ending" for row in copies.rows(tx, account)):
            copies.delete(tx, account)
            catalogues.change(tx, account.id)
            catalogues.refill(tx, account.id)
            changes.set_switches(tx, account.id, {"mirror": "false"}, self._hub.plans)
            self._hub.forget_after_commit(account.id)


def copy_now(
    hub: Hub,
    account: Account,
    adapter: Adapter,
    kind: Kind,
    crm_id: str,
) -> bool:
    """Copy a record that the hub has just written, and return whether the CRM has told it in time.

    Otherwise a worker reads it: `copies.tell` was called in the transaction of the outcome.
    """
    of = copies.key(account) | {"kind": kind.code}
    catalogue = hub.records.catalogue(account, kind)
    for _ in range(_AGAIN):
        asked_at = now_ms()
        with hub.database.reading() as db:
            before = copied.moments(db, catalogue, [crm_id])
        try:
            with sound():
                found = adapter.get_records(contract_kind(kind), [crm_id], _names(catalogue))
        except (AdapterError, HubError) as exc:
            _log.info("A record is copied later: %s", exc.message)
            return False

        def forget(tx: Connection, result: Result, asked_at: int = asked_at) -> None:
            # The outcome may have told of the record in the same millisecond.
            copies.forget_hints(tx, of, {crm_id} - {*result.newer}, before=asked_at + 1)

        newer = write_copied(
            hub, account, kind, [_copied(one) for one in found], asked_at=asked_at,
            source="hub", before=before, also=forget,
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
        lambda tx, catalogue: copied.merge(
            tx, replace(catalogue, source="hub"), merged, now=now_ms()
        ),
    )


def _names(catalogue: Catalogue) -> list[str]:
    return [one.name for one in catalogue if one.name not in (copied.ID, copied.URL)]


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

    of = copies.key(account) | {"kind": kind.code}

    def write(tx: Connection, catalogue: Catalogue) -> Sequence[str]:
        row = find_row(tx, crm_copy, of)
        if row is None or row.state == "ending" or catalogue.get(copied.ID) is None:
            return ()
        result = copied.write(
            tx, replace(catalogue, source=source), others, told, ids=ids, before=before,
            region=account.switches.region, now=now_ms(), asked_at=asked_at,
        )  # fmt: skip
        also(tx, result)
        return result.newer

    return store.transact(account, kind, write)
