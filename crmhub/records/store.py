"""The records of all accounts: what the API, the helpers and the CLI call.

A write is checked outside of any transaction, against the catalogue in memory; inside, one small
read tells whether that catalogue still holds, and if not the write is checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from crmhub.accounts.accounts import Account
from crmhub.db import Connection, Database, now_ms
from crmhub.errors import BadRequest, Conflict, NotFound, Semantic
from crmhub.records import associations, values, writing
from crmhub.records import catalogue as catalogues
from crmhub.records.associations import Links
from crmhub.records.catalogue import MOST_PROPERTIES, Catalogue, Catalogues, Property
from crmhub.records.filters import Condition, parse
from crmhub.records.ids import Ids
from crmhub.records.kinds import Kind
from crmhub.records.paging import Cursor, fingerprint, unseal
from crmhub.records.search import Listed, Place, Query, Search, Start, start
from crmhub.records.validation import (
    DuplicateValue,
    InvalidProperties,
    Problem,
    check,
    definable,
    property_path,
)
from crmhub.records.writing import Change, NewRecord, Record, Upsert

T = TypeVar("T")
R = TypeVar("R")
_TRIES = 5


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page to list; `after` continues a listing and brings its total and its start."""

    query: Query
    after: Cursor | None = None
    properties: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A page of records; `cursor` is "" on the last one."""

    total: int
    records: list[Listed]
    links: dict[int, Links]
    cursor: str


class _CatalogueChanged(Exception):
    pass


class RecordStore:
    """Reads and writes records; every method works on one account."""

    def __init__(self, database: Database, signing_key: bytes) -> None:
        self.database = database
        self.catalogues = Catalogues(database)
        self._signing_key = signing_key
        self._ids = Ids(database)

    def catalogue(self, account: Account, kind: Kind) -> Catalogue:
        """Return the catalogue, at most as old as `account` is."""
        return self.catalogues.get(account.id, kind, version=account.catalogue_version)

    # Reading

    def cursor(self, account: Account, kind: Kind, text: str) -> Cursor:
        """Return the cursor a caller sent; BadRequest when it is none of this listing's."""
        return unseal(text, self._signing_key, account_id=account.id, kind=kind.code)

    def page(self, account: Account, kind: Kind, request: PageRequest) -> Page:
        """Return a page; BadRequest or Semantic for filters that cannot be (SPEC 4.2 to 4.4)."""
        query, after = request.query, request.after
        listing = fingerprint(query.filters)
        if after is not None:
            same = (after.sort, after.descending, after.filters)
            if same != (query.sort, query.descending, listing):
                raise BadRequest(
                    "cursor: it belongs to a listing with another sort, order or filters;"
                    " send what its first request had, or start without a cursor"
                )
        conditions = self._conditions(account, kind, query)
        with self.database.reading() as connection:

            def search(query: Query) -> Search:
                return Search(
                    connection,
                    account_id=account.id,
                    kind=kind.code,
                    query=query,
                    conditions=conditions,
                )

            now = now_ms()
            total = search(query).total() if after is None else after.total
            rows, last = _next(search, query, total=total, after=after)
            links: dict[int, Links] = {}
            if "associations" in request.include:
                ids = [row.id for row in rows]
                links = associations.of_records(connection, account.id, kind, ids)
        cursor = ""
        if last is not None:
            place, caught_up = last
            began = start(query, rows, now) if after is None else _start(after)
            cursor = Cursor(
                account_id=account.id,
                kind=kind.code,
                sort=query.sort,
                descending=query.descending,
                limit=query.limit,
                properties=request.properties,
                include=request.include,
                filters=listing,
                total=total,
                started=began.at,
                key=place.key,
                id=place.id,
                settled=began.settled,
                shown=began.shown,
                caught_up=caught_up,
            ).seal(self._signing_key)
        return Page(total, rows, links, cursor)

    def _conditions(self, account: Account, kind: Kind, query: Query) -> list[Condition]:
        if not query.filters:
            return []
        known = self.catalogue(account, kind)
        region = account.switches.region
        try:
            return parse(query.filters, known, region=region)
        except Semantic:
            # Another process may have defined the property a moment ago.
            fresh = self.catalogues.reload(account.id, kind)
            if fresh.version == known.version:
                raise
            return parse(query.filters, fresh, region=region)

    def get(self, account: Account, kind: Kind, id: int) -> Record:
        """Return one record; NotFound."""
        found = self.read(account, kind, [id])
        if not found:
            raise NotFound(writing.missing(kind, id))
        return found[0]

    def read(self, account: Account, kind: Kind, ids: Sequence[int]) -> list[Record]:
        """Return the records that exist, each once, in the order of `ids`."""
        with self.database.reading() as connection:
            return _read(connection, account.id, kind, ids)

    def read_by(
        self, account: Account, kind: Kind, property_name: str, wanted: Sequence[str]
    ) -> list[Record]:
        """Return the records whose unique property has one of the values, in their order.

        Raises BadRequest when the property is not unique, Semantic when there is none.
        """
        known = self.unique_property(account, kind, property_name)
        keys = [_search_form(account, known, value) for value in wanted]
        with self.database.reading() as connection:
            ids = [writing.holder(connection, account.id, known.prop_id, key) for key in keys]
            return _read(connection, account.id, kind, [id for id in ids if id is not None])

    def unique_property(self, account: Account, kind: Kind, name: str) -> Property:
        """Return the unique property of that name; BadRequest when it cannot identify records."""
        known = self.catalogue(account, kind).get(name)
        if known is None or not known.unique:
            known = self.catalogues.reload(account.id, kind).get(name)
        if known is None or not known.unique:
            names = [each.name for each in self.catalogue(account, kind) if each.unique]
            right = f"send one of {', '.join(names)}" if names else "no property is unique here"
            raise BadRequest(f"idProperty: not a unique property of {kind.name}; {right}.")
        return known

    # Writing

    def create(
        self,
        account: Account,
        kind: Kind,
        inputs: Sequence[NewRecord],
        *,
        define_unknown: bool = False,
        guard: Callable[[Connection, Catalogue], None] | None = None,
    ) -> list[Record]:
        """Create records, all or none, and return them in order.

        `define_unknown` defines unknown properties as strings, as the account's switch
        auto_define_properties does. `guard` looks at the database inside the transaction,
        before anything is written, and stops the write by raising. Raises InvalidProperties,
        DuplicateValue, Conflict, Semantic (a link to nothing), LimitExceeded.
        """
        ids = self._ids.take(account.id, kind.code, len(inputs))

        def prepare(catalogue: Catalogue) -> list[NewRecord]:
            clean = _canonical(account, catalogue, [(n.path, n.properties) for n in inputs])
            return writing.finish(
                catalogue,
                [
                    NewRecord(properties, new.associations, new.path)
                    for properties, new in zip(clean, inputs, strict=True)
                ],
            )

        def write(tx: Connection, catalogue: Catalogue, prepared: list[NewRecord]) -> list[Record]:
            if guard is not None:
                guard(tx, catalogue)
            quota = account.plan.quotas.get(kind.name)
            return writing.create(tx, catalogue, prepared, ids=ids, now=now_ms(), quota=quota)

        names = (name for new in inputs for name in new.properties)
        return self._write(account, kind, names, prepare, write, define=define_unknown)

    def update(
        self,
        account: Account,
        kind: Kind,
        changes: Sequence[Change],
        *,
        define_unknown: bool = False,
    ) -> list[Record]:
        """Change records, all or none, and return them whole, in order.

        Raises NotFound, InvalidProperties, DuplicateValue, Conflict (If-Match), BadRequest (the
        same record twice).
        """
        writing.same_record_twice([(each.id, each.path) for each in changes])

        def prepare(catalogue: Catalogue) -> list[Change]:
            clean = _canonical(account, catalogue, [(c.path, c.properties) for c in changes])
            inputs = [
                Change(each.id, properties, each.path, each.if_match)
                for properties, each in zip(clean, changes, strict=True)
            ]
            writing.refuse_twins(catalogue, [(each.path, each.properties) for each in inputs])
            return inputs

        def write(tx: Connection, catalogue: Catalogue, prepared: list[Change]) -> list[Record]:
            return writing.update(tx, catalogue, prepared, now=now_ms())

        names = (name for each in changes for name in each.properties)
        return self._write(account, kind, names, prepare, write, define=define_unknown)

    def upsert(
        self, account: Account, kind: Kind, inputs: Sequence[Upsert]
    ) -> list[tuple[Record, bool]]:
        """Change the records that exist and create the others; return each with whether it is new.

        Raises what `create` and `update` raise.
        """
        for each in inputs:
            self.unique_property(account, kind, each.property_name)
        ids = self._ids.take(account.id, kind.code, len(inputs))
        quota = account.plan.quotas.get(kind.name)

        def prepare(catalogue: Catalogue) -> list[_Prepared]:
            return _prepare_upserts(account, catalogue, inputs)

        def write(
            tx: Connection, catalogue: Catalogue, prepared: list[_Prepared]
        ) -> list[tuple[Record, bool]]:
            return _upsert(tx, catalogue, prepared, ids=ids, quota=quota)

        names = {name for each in inputs for name in each.properties}
        for attempt in range(_TRIES):
            try:
                return self._write(account, kind, names, prepare, write)
            except (DuplicateValue, NotFound) as exc:
                # It was created or archived between our look and our write: look again.
                asked = {each.property_name for each in inputs}
                other = isinstance(exc, DuplicateValue) and exc.name not in asked
                if other or attempt == _TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def archive(
        self,
        account: Account,
        kind: Kind,
        ids: Sequence[tuple[int, str]],
        *,
        if_match: frozenset[int] | None = None,
    ) -> None:
        """Archive the records `(id, path)`, all or none; NotFound, Conflict (If-Match)."""
        once = list(dict(ids).items())

        def write(tx: Connection, catalogue: Catalogue, _: None) -> None:
            writing.archive(tx, catalogue, once, now=now_ms(), if_match=if_match)

        self._write(account, kind, (), lambda catalogue: None, write)

    def _write(
        self,
        account: Account,
        kind: Kind,
        names: Iterable[str],
        prepare: Callable[[Catalogue], T],
        write: Callable[[Connection, Catalogue, T], R],
        *,
        define: bool = False,
    ) -> R:
        define = define or account.switches.auto_define_properties
        sent = set(names)
        catalogue = self.catalogue(account, kind)
        for _ in range(_TRIES):
            missing = [name for name in sorted(sent) if catalogue.get(name) is None]
            if define and any(definable(name) for name in missing):
                return self._define_and_write(account, kind, missing, prepare, write)
            try:
                prepared = prepare(catalogue)
            except (InvalidProperties, Conflict):
                fresh = self.catalogues.reload(account.id, kind)
                if fresh.version == catalogue.version:
                    raise
                catalogue = fresh
                continue
            try:
                return self.database.transact(_checked(account, catalogue, prepared, write))
            except _CatalogueChanged:
                catalogue = self.catalogues.reload(account.id, kind)
        # The catalogue changes all the time: now nobody may change it until this is written.
        return self.catalogues.edit(
            account.id, kind, lambda tx, known: write(tx, known, prepare(known))
        )

    def _define_and_write(
        self,
        account: Account,
        kind: Kind,
        names: Sequence[str],
        prepare: Callable[[Catalogue], T],
        write: Callable[[Connection, Catalogue, T], R],
    ) -> R:
        """Define properties as strings and write, in one transaction: both or neither."""

        def work(tx: Connection, known: Catalogue) -> R:
            catalogues.change(tx, account.id)
            new = [name for name in names if known.get(name) is None and definable(name)]
            if len(known) + len(new) > MOST_PROPERTIES:
                raise Semantic(
                    f"{kind.name} would have more than {MOST_PROPERTIES} properties;"
                    " delete some before new ones can be defined."
                )
            for name in new:
                defined = Property(0, name=name, label=catalogues.readable(name), type="string")
                catalogues.add_property(tx, account.id, kind, defined)
            catalogue = catalogues.load(tx, account.id, kind)
            return write(tx, catalogue, prepare(catalogue))

        return self.catalogues.edit(account.id, kind, work)

    # Links

    def link(self, account: Account, kind: Kind, id: int, to: Kind, to_id: int) -> None:
        """Link two records; only the one named first is touched. NotFound, Semantic."""
        if (kind, id) == (to, to_id):
            raise Semantic(f"{kind.singular} {id} cannot be associated with itself.")

        def work(tx: Connection) -> None:
            catalogues.hold(tx, account.id)
            _require_both(tx, account, kind, id, to, to_id)
            if associations.link(tx, account.id, kind, [(id, to, to_id)]):
                writing.touch(tx, account.id, kind, id, now=now_ms())

        self.database.transact(work)

    def unlink(self, account: Account, kind: Kind, id: int, to: Kind, to_id: int) -> None:
        """Remove a link; NotFound when there is none."""

        def work(tx: Connection) -> None:
            _require_both(tx, account, kind, id, None, 0)
            associations.unlink(tx, account.id, kind, id, to, to_id)
            writing.touch(tx, account.id, kind, id, now=now_ms())

        self.database.transact(work)

    def linked(
        self, account: Account, kind: Kind, id: int, to: Kind, *, limit: int, after: Cursor | None
    ) -> tuple[int, list[int], str]:
        """Return the total, a page of linked ids and the next cursor; NotFound."""
        listing = f"links:{id}:{to.code}"
        if after is not None and after.filters != listing:
            raise BadRequest("cursor: it belongs to another listing; start without a cursor")
        with self.database.reading() as connection:
            if not _read(connection, account.id, kind, [id]):
                raise NotFound(writing.missing(kind, id))
            total = (
                associations.count(connection, account.id, kind, id, to)
                if after is None
                else after.total
            )
            start = 0 if after is None else after.id
            ids = associations.page(
                connection, account.id, kind, id, to, after=start, rows=limit + 1
            )
        cursor = ""
        if len(ids) > limit:
            cursor = Cursor(
                account_id=account.id,
                kind=kind.code,
                sort="id",
                descending=False,
                limit=limit,
                properties=None,
                include=(),
                filters=listing,
                total=total,
                started=now_ms() if after is None else after.started,
                key=0,
                id=ids[limit - 1],
            ).seal(self._signing_key)
        return total, ids[:limit], cursor

    def counts(self, account: Account) -> dict[int, int]:
        """Return how many live records there are, by the kind's code."""
        with self.database.reading() as connection:
            return {
                kind: int(n)
                for kind, n in connection.rows(
                    "select kind, sum(n) from record_count where account_id = :account"
                    " group by kind",
                    {"account": account.id},
                )
            }


# A listing under constant change would catch up for ever.
_MOST_CAUGHT_UP = 10_000


def _next(
    search: Callable[[Query], Search],
    query: Query,
    *,
    total: int,
    after: Cursor | None,
) -> tuple[list[Listed], tuple[Place, int] | None]:
    """Return the records of the page and, when there are more, where the next one begins.

    That is the place of the last record, and the cursor's `caught_up`.
    """
    place = None if after is None else Place(after.key, after.id)
    caught_up = -1 if after is None else after.caught_up
    rows: list[Listed] = []
    if caught_up < 0:
        # One more than asked for tells whether there is another page.
        rows = search(query).page(total, place)
        if len(rows) > query.limit:
            shown = rows[: query.limit]
            return shown, (search(query).place(shown[-1]), -1)
        # One page is one moment; only a longer walk in this order can have missed a change.
        if after is None or not query.by_newest_change:
            return rows, None
        place, caught_up = None, 0
    assert after is not None
    since = _start(after)
    # A full page still has to learn whether there is anything to catch up with.
    room = query.limit - len(rows)
    missed = query.catch_up(since, room)
    late = search(missed).page(total, place)
    seen = {row.id for row in rows}
    rows += [row for row in late[:room] if row.id not in seen]
    caught_up += len(late[:room])
    if len(late) <= room or caught_up >= _MOST_CAUGHT_UP:
        return rows, None
    if room == 0:
        # The next page begins the catching up: before everything that changed since.
        return rows, (Place(since.settled, 0), 0)
    return rows, (search(missed).place(late[room - 1]), caught_up)


def _start(cursor: Cursor) -> Start:
    return Start(cursor.started, cursor.settled, cursor.shown)


def _checked(
    account: Account,
    catalogue: Catalogue,
    prepared: T,
    write: Callable[[Connection, Catalogue, T], R],
) -> Callable[[Connection], R]:
    def work(tx: Connection) -> R:
        if catalogues.hold(tx, account.id) != catalogue.version:
            raise _CatalogueChanged
        return write(tx, catalogue, prepared)

    return work


def _canonical(
    account: Account, catalogue: Catalogue, inputs: Sequence[tuple[str, Mapping[str, str]]]
) -> list[dict[str, str]]:
    """Return the properties of each `(path, properties)` in canonical form."""
    clean = []
    problems: list[Problem] = []
    for index, (path, properties) in enumerate(inputs):
        good, bad = check(
            catalogue, properties, region=account.switches.region, index=index, path=path
        )
        clean.append(good)
        problems += bad
    if problems:
        raise InvalidProperties(problems)
    return clean


@dataclass(frozen=True, slots=True)
class _Prepared:
    prop_id: int
    value: str
    new: NewRecord


def _prepare_upserts(
    account: Account, catalogue: Catalogue, inputs: Sequence[Upsert]
) -> list[_Prepared]:
    prepared = []
    problems: list[Problem] = []
    for index, each in enumerate(inputs):
        sent = {each.property_name: each.value, **each.properties}
        clean, bad = check(
            catalogue, sent, region=account.switches.region, index=index, path=each.path
        )
        problems += bad
        by = catalogue.get(each.property_name)
        value = by and _search_form(account, by, each.value)
        if not by or not value:
            reason = "is blank; send a value of the property"
            problems.append(Problem(index, each.property_name, f"{each.path}id", reason))
        elif each.property_name in clean and clean[each.property_name] != value:
            path = property_path(each.path, each.property_name)
            reason = f"differs from {each.path}id; send the same value or leave it out"
            problems.append(Problem(index, each.property_name, path, reason))
        else:
            new = NewRecord(clean, path=each.path)
            prepared.append(_Prepared(by.prop_id, value, new))
    if problems:
        raise InvalidProperties(problems)
    writing.refuse_twins(catalogue, [(each.new.path, each.new.properties) for each in prepared])
    return prepared


def _upsert(
    tx: Connection,
    catalogue: Catalogue,
    prepared: Sequence[_Prepared],
    *,
    ids: Sequence[int],
    quota: int | None,
) -> list[tuple[Record, bool]]:
    existing = [
        writing.holder(tx, catalogue.account_id, each.prop_id, each.value) for each in prepared
    ]
    changes = [
        Change(id, each.new.properties, each.new.path)
        for id, each in zip(existing, prepared, strict=True)
        if id is not None
    ]
    writing.same_record_twice([(each.id, each.path) for each in changes])
    now = now_ms()
    updated = iter(writing.update(tx, catalogue, changes, now=now) if changes else ())
    fresh = [each.new for id, each in zip(existing, prepared, strict=True) if id is None]
    created: Iterable[Record] = ()
    if fresh:
        finished = writing.finish(catalogue, fresh)
        created = writing.create(
            tx, catalogue, finished, ids=ids[: len(fresh)], now=now, quota=quota
        )
    created = iter(created)
    return [(next(created), True) if id is None else (next(updated), False) for id in existing]


def _read(connection: Connection, account_id: int, kind: Kind, ids: Sequence[int]) -> list[Record]:
    once = list(dict.fromkeys(ids))
    if not once:
        return []
    among, wanted = connection.among("id", "ids", once)
    rows = connection.rows(
        "select id, created_at, updated_at, version, cast(properties as text) from records"
        f" where account_id = :account and kind = :kind and {among}",
        {"account": account_id, "kind": kind.code, **wanted},
    )
    linked = associations.of_records(connection, account_id, kind, [row[0] for row in rows])
    found = {row[0]: writing.record(row, linked.get(row[0])) for row in rows}
    return [found[id] for id in once if id in found]


def _require_both(
    tx: Connection, account: Account, kind: Kind, id: int, to: Kind | None, to_id: int
) -> None:
    """Hold the record named in the request (NotFound) and the one it is linked to (Semantic)."""
    try:
        associations.require(tx, account.id, [("", kind, id)])
    except Semantic:
        raise NotFound(writing.missing(kind, id)) from None
    if to is not None:
        associations.require(tx, account.id, [("toId", to, to_id)])


def _search_form(account: Account, known: Property, value: str) -> str:
    return value and values.for_search(
        known.type,
        value,
        options=known.options,
        region=account.switches.region or None,
        any_case=known.any_case,
    )
