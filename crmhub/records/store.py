"""The record store, which the API, the chatbot helpers and the commands call.

A write validates its input against the cached catalogue before its transaction, which compares the
catalogue's version with the database; if they differ, the write starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter.reading import Reading
from crmhub.database.bulk import GuardFailed
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.statements import Statement, param
from crmhub.database.tables import record_count
from crmhub.errors import BadRequest, Conflict, NotFound, Semantic, listed
from crmhub.properties import catalogue as catalogues
from crmhub.properties.catalogue import Catalogue, Catalogues
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import (
    DuplicateValue,
    InvalidProperties,
    check,
    definable,
)
from crmhub.records import (
    archived,
    documents,
    marks,
    merging,
    record_events,
    upserts,
    writing,
)
from crmhub.records.associations import Links
from crmhub.records.copies import CopyStates
from crmhub.records.ids import Ids
from crmhub.records.merging import Merge, Undo
from crmhub.records.models import Change, NewRecord, Record, Stored, Upsert
from crmhub.records.reading import read as read_stored
from crmhub.records.reading import read_by
from crmhub.records.search.conditions import Condition
from crmhub.records.search.cursor import Cursor, unseal
from crmhub.records.search.filters import parse
from crmhub.records.search.pages import Listing, Page, PageRequest
from crmhub.records.search.record_conditions import OnSince
from crmhub.records.search.same_rows import combine
from crmhub.records.single_creates import SingleCreates
from crmhub.search_limits import SearchLimit, Stopped

T = TypeVar("T")
R = TypeVar("R")
_TRIES = 5

_COUNTS = Statement(
    sa.select(record_count.c.kind, sa.func.sum(record_count.c.n).label("live"))
    .where(record_count.c.account_id == param("account_id"))
    .group_by(record_count.c.kind)
)


class RecordStore:
    def __init__(self, database: Database, signing_key: bytes) -> None:
        self.database = database
        self.catalogues = Catalogues(database)
        self.signing_key = signing_key
        self._ids = Ids(database)
        self._single_creates = SingleCreates(database)
        self.copy_states = CopyStates(database)

    def catalogue(self, account: Account, kind: Kind) -> Catalogue:
        """At least as new as `account.catalogue_version`."""
        return self.catalogues.get(account.id, kind, version=account.catalogue_version)

    # Reading

    def cursor(self, account: Account, kind: Kind, text: str) -> Cursor:
        """Raises BadRequest."""
        return unseal(text, self.signing_key, account_id=account.id, kind=kind.code)

    def page(
        self,
        account: Account,
        kind: Kind,
        request: PageRequest,
        limit: SearchLimit | None = None,
    ) -> Page:
        """Raises BadRequest for malformed filters or another listing's cursor, Semantic for an
        unknown property or a wrong value, and Stopped if `limit` ends the search."""
        since = [OnSince(column, first) for column, first in request.query.since]
        if not request.query.filters:
            return self._page(account, kind, request, combine(since), limit)
        known = self.catalogue(account, kind)
        page: Page | None = None
        try:
            conditions = parse(
                request.query.filters, known, region=account.switches.region, more=since
            )
            page = self._page(account, kind, request, conditions, limit)
        except Stopped:
            raise
        except Semantic:
            # Another process may have defined the property a moment ago; else it is raised below.
            pass
        else:
            if page.records and not any(each.negated for each in conditions):
                return page
        # The cached definition of the property may be outdated, and find no record.
        now = self.catalogues.current(account.id, kind)
        if page is not None and now.version == known.version:
            return page
        region = account.switches.region
        conditions = parse(request.query.filters, now, region=region, more=since)
        return self._page(account, kind, request, conditions, limit)

    def _page(
        self,
        account: Account,
        kind: Kind,
        request: PageRequest,
        conditions: Sequence[Condition],
        limit: SearchLimit | None,
    ) -> Page:
        with self.database.searching(limit) as connection:
            listing = Listing(connection, account.id, kind, self.signing_key)
            return listing.page(request, conditions)

    def get(self, account: Account, kind: Kind, id: int) -> Record:
        """Raises NotFound."""
        found = self.read(account, kind, [id])
        if not found:
            raise NotFound(writing.missing(kind, id))
        return found[0]

    def read(self, account: Account, kind: Kind, ids: Sequence[int]) -> list[Record]:
        return [each.record() for each in self.stored(account, kind, ids)]

    def read_by(
        self, account: Account, kind: Kind, property_name: str, wanted: Sequence[str]
    ) -> list[Record]:
        return [each.record() for each in self.stored_by(account, kind, property_name, wanted)]

    def stored(self, account: Account, kind: Kind, ids: Sequence[int]) -> list[Stored]:
        """In the order of `ids`, each once, without missing ones."""
        with self.database.reading() as connection:
            return read_stored(connection, account.id, kind, ids)

    def stored_by(
        self, account: Account, kind: Kind, property_name: str, wanted: Sequence[str]
    ) -> list[Stored]:
        """In the order of `wanted`. Raises BadRequest if the property is not unique."""
        known = self.catalogue(account, kind)
        with self.database.reading() as connection:
            found = read_by(connection, account, known, property_name, wanted)
        if found is None or len(found) < len(set(wanted)):
            now = self.catalogues.current(account.id, kind)
            if now.version != known.version:
                known = now
                with self.database.reading() as connection:
                    found = read_by(connection, account, known, property_name, wanted)
        if found is None:
            raise BadRequest(listed([("idProperty", upserts.not_unique(known))]))
        return found

    # Writing

    def create(
        self,
        account: Account,
        kind: Kind,
        inputs: Sequence[NewRecord],
        *,
        define_unknown: bool = False,
        may_lack: bool = False,
        mark: str = "",
        reading: Reading | None = None,
    ) -> list[Record]:
        """Create all of these records in input order, or none.

        `define_unknown`: define unknown properties as strings. `may_lack`: properties that the
        account made required may be missing. `reading`: read values as the people of the
        account write them. `mark` names this write, "" for none: a repeated write raises
        AlreadyWritten, and Closed after `marks.close`.

        Raises InvalidProperties, DuplicateValue, Conflict for two inputs with the same unique
        value, Semantic for a link to a missing record, and LimitExceeded beyond the plan.
        """
        ids = self._ids.take(account.id, kind.code, len(inputs))
        validate = partial(check, region=account.switches.region, reading=reading)

        def prepare(catalogue: Catalogue) -> list[NewRecord]:
            return documents.check_new(catalogue, inputs, validate, may_lack=may_lack)

        quota = account.plan.quotas.get(kind.name)

        def write(tx: Connection, catalogue: Catalogue, prepared: list[NewRecord]) -> list[Record]:
            if mark:
                marks.keep(tx, account.id, mark, kind, ids[0])
            return writing.create(tx, catalogue, prepared, ids=ids, now=now_ms(), quota=quota)

        # On SQLite all writers take turns anyway.
        alone = len(inputs) == 1 and not inputs[0].associations and not mark
        alone = alone and quota is None and self.database.dialect == "postgresql"
        alone = alone and not self.database.in_transaction

        def create_alone(catalogue: Catalogue, prepared: list[NewRecord]) -> list[Record]:
            return [self._single_creates.create(catalogue, prepared[0], id=ids[0])]

        names = (name for new in inputs for name in new.properties)
        single = create_alone if alone else None
        return self._write(
            account, kind, names, prepare, write, alone=single, define=define_unknown
        )

    def update(
        self,
        account: Account,
        kind: Kind,
        changes: Sequence[Change],
        *,
        define_unknown: bool = False,
        reading: Reading | None = None,
    ) -> list[Record]:
        """Change all of these records, or none; options as in `create`.

        Raises NotFound, InvalidProperties, DuplicateValue, BadRequest for two changes of a record,
        and Conflict for a version that If-Match forbids or two changes with the same unique value.
        """
        writing.same_record_twice([(each.id, each.path) for each in changes])
        validate = partial(check, region=account.switches.region, reading=reading)

        def prepare(catalogue: Catalogue) -> list[Change]:
            return documents.check_changes(catalogue, changes, validate)

        def write(tx: Connection, catalogue: Catalogue, prepared: list[Change]) -> list[Record]:
            return writing.update(tx, catalogue, prepared, now=now_ms())

        names = (name for each in changes for name in each.properties)
        return self._write(account, kind, names, prepare, write, define=define_unknown)

    def upsert(
        self, account: Account, kind: Kind, inputs: Sequence[Upsert]
    ) -> list[tuple[Record, bool]]:
        """Return each record, and whether it is new.

        Raises the errors of `create` and `update`, and BadRequest for a property that is not
        unique.
        """
        ids = self._ids.take(account.id, kind.code, len(inputs))
        quota = account.plan.quotas.get(kind.name)

        def prepare(catalogue: Catalogue) -> list[upserts.Prepared]:
            return upserts.prepare(account, catalogue, inputs)

        def write(
            tx: Connection, catalogue: Catalogue, prepared: list[upserts.Prepared]
        ) -> list[tuple[Record, bool]]:
            return upserts.write(tx, catalogue, prepared, ids=ids, quota=quota)

        names = {name for each in inputs for name in each.properties}
        asked = {each.property_name for each in inputs}
        for _ in range(_TRIES):
            try:
                return self._write(account, kind, names, prepare, write)
            except (DuplicateValue, NotFound) as exc:
                # It was created or archived between our look and our write: look again.
                if isinstance(exc, DuplicateValue) and exc.name not in asked:
                    raise
        # After repeated conflicts, nobody else may write until this is written.
        return self._write(account, kind, names, prepare, write, tries=0)

    def archive(
        self,
        account: Account,
        kind: Kind,
        ids: Sequence[tuple[int, str]],
        *,
        if_match: frozenset[int] | None = None,
    ) -> None:
        """All of these (id, JSON path), or none.

        Raises NotFound, and Conflict for a version that is not in `if_match`; None allows any.
        """
        once = list(dict(ids).items())

        def write(tx: Connection, catalogue: Catalogue, _: None) -> None:
            writing.archive(tx, catalogue, once, now=now_ms(), if_match=if_match)

        self._write(account, kind, (), lambda catalogue: None, write)

    def archived(
        self, account: Account, kind: Kind, request: PageRequest, limit: SearchLimit | None = None
    ) -> Page:
        """A page of the archived records; raises as `page`. There are no filters."""
        with self.database.searching(limit) as connection:
            return archived.page(connection, account.id, kind, request, self.signing_key)

    def restore(self, account: Account, kind: Kind, id: int) -> Record:
        """Raises as `archived.restore`; the caller holds the account's exclusive lock."""
        quota = account.plan.quotas.get(kind.name)

        def write(tx: Connection, catalogue: Catalogue, _: None) -> Record:
            return archived.restore(tx, catalogue, id, now=now_ms(), quota=quota)

        return self._write(account, kind, (), lambda catalogue: None, write)

    def merge(self, account: Account, kind: Kind, asked: Merge) -> Undo:
        """Raises as `merging.merge`, and InvalidProperties for a wrong change."""
        validate = partial(check, region=account.switches.region)

        def prepare(catalogue: Catalogue) -> Merge:
            change = Change(asked.kept_id, asked.change)
            [clean] = documents.check_changes(catalogue, [change], validate)
            return replace(asked, change=clean.properties)

        def write(tx: Connection, catalogue: Catalogue, prepared: Merge) -> Undo:
            return merging.merge(tx, catalogue, prepared, now=now_ms())

        return self._write(account, kind, asked.change, prepare, write)

    def unmerge(
        self, account: Account, kind: Kind, kept_id: int, other_id: int, undo: Undo, *, stay: Links
    ) -> None:
        def write(tx: Connection, catalogue: Catalogue, _: None) -> None:
            merging.unmerge(tx, catalogue, kept_id, other_id, undo, stay=stay, now=now_ms())

        self._write(account, kind, (), lambda catalogue: None, write)

    def transact(
        self, account: Account, kind: Kind, work: Callable[[Connection, Catalogue], T]
    ) -> T:
        """Run `work` in a transaction with the present catalogue, which stays meanwhile."""
        return self._write(
            account,
            kind,
            (),
            lambda catalogue: None,
            lambda tx, catalogue, _: work(tx, catalogue),
            copies=True,
        )

    def edit(self, account: Account, kind: Kind, work: Callable[[Connection, Catalogue], T]) -> T:
        """As `Catalogues.edit`; raises Conflict if the account's records are a copy."""

        def edit_own(tx: Connection, catalogue: Catalogue) -> T:
            account.require_own_records(is_copy=catalogue.is_copy)
            return work(tx, catalogue)

        return self.catalogues.edit(account.id, kind, edit_own)

    def take_ids(self, account: Account, kind: Kind, n: int) -> range:
        return self._ids.take(account.id, kind.code, n)

    def _write(
        self,
        account: Account,
        kind: Kind,
        names: Iterable[str],
        prepare: Callable[[Catalogue], T],
        write: Callable[[Connection, Catalogue, T], R],
        *,
        alone: Callable[[Catalogue, T], R] | None = None,
        define: bool = False,
        tries: int = _TRIES,
        copies: bool = False,
    ) -> R:
        """Validate with `prepare`, then `write` in a transaction.

        If the catalogue has changed in between, repeat up to `tries` times, then under the
        account's exclusive lock. `define`: define unknown `names` as strings. `alone` replaces
        `write` where possible: one SQL statement that checks the catalogue's version itself.
        """
        define = define or account.switches.auto_define_properties
        sent = set(names) if define else ()
        catalogue = self.catalogue(account, kind)
        for _ in range(tries):
            if not copies:
                account.require_own_records(is_copy=catalogue.is_copy)
            missing = [name for name in sorted(sent) if catalogue.get(name) is None]
            if any(definable(name) for name in missing):
                return self._write_alone(account, kind, prepare, write, define=missing)
            try:
                prepared = prepare(catalogue)
            except (BadRequest, InvalidProperties, Conflict):
                fresh = self.catalogues.reload(account.id, kind)
                if fresh.version == catalogue.version:
                    raise
                catalogue = fresh
                continue
            try:
                # Two unique values may be taken one by one, and events need a transaction.
                if (
                    alone is not None
                    and len(catalogue.unique) < 2
                    and not record_events.wants_created(catalogue)
                ):
                    return alone(catalogue, prepared)
                return self.database.transact(
                    partial(_checked, account, catalogue, prepared, write)
                )
            except GuardFailed:
                catalogue = self.catalogues.reload(account.id, kind)
        # The catalogue changes all the time.
        return self._write_alone(account, kind, prepare, write, define=sorted(sent), copies=copies)

    def _write_alone(
        self,
        account: Account,
        kind: Kind,
        prepare: Callable[[Catalogue], T],
        write: Callable[[Connection, Catalogue, T], R],
        *,
        define: Sequence[str],
        copies: bool = False,
    ) -> R:
        def define_and_write(tx: Connection, known: Catalogue) -> R:
            if not copies:
                account.require_own_records(is_copy=known.is_copy)
            new = [name for name in define if known.get(name) is None and definable(name)]
            if new:
                known = catalogues.add_strings(tx, known, new)
            return write(tx, known, prepare(known))

        return self.catalogues.edit(account.id, kind, define_and_write)

    def counts(self, account: Account) -> dict[int, int]:
        """Unarchived records by a kind's code."""
        with self.database.reading() as connection:
            rows = connection.rows(_COUNTS, {"account_id": account.id})
            return {row.kind: int(row.live) for row in rows}


def _checked(
    account: Account,
    catalogue: Catalogue,
    prepared: T,
    write: Callable[[Connection, Catalogue, T], R],
    tx: Connection,
) -> R:
    if catalogues.hold(tx, account.id)[0] != catalogue.version:
        raise GuardFailed
    return write(tx, catalogue, prepared)
