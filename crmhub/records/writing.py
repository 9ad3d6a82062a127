"""Writes to records inside a transaction; a write of one record is a batch with one item.

All lock rows in the order of the record ids, to avoid deadlocks. The counter of records comes last:
writers of an account share its rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from crmhub.database.bulk import Increment, Rows
from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, equals, in_list, param
from crmhub.database.tables import record_count
from crmhub.database.tables import records as records_table
from crmhub.errors import BadRequest, Conflict, LimitExceeded, NotFound, Semantic, listed
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import InvalidProperties, Problem
from crmhub.records import associations, documents, unique_values
from crmhub.records.index import UNIQUE, IndexChange, unique_key
from crmhub.records.models import Change, NewRecord, Record, parse_record
from crmhub.records.record_events import (
    Changed,
    LinkChange,
    note_archived,
    note_created,
    note_links,
    note_updated,
)
from crmhub.translatable import as_text, translatable

RECORD_KEY = {"account_id": "int", "kind": "int", "id": "bigint"}
RECORD = RECORD_KEY | {
    "created_at": "bigint",
    "updated_at": "bigint",
    "version": "int",
    "properties": "jsonb",
}
_SHARDS = 16
# Characters sent at once: a connection to PostgreSQL keeps the room for its longest statement.
_PIECE = 1_000_000

_row = records_table.c
_OF_KIND = sa.and_(_row.account_id == param("account_id"), _row.kind == param("kind"))


def select_records(table: sa.Table) -> sa.Select[Any]:
    """Select what `models.parse_record` reads."""
    row = table.c
    text = sa.cast(row.properties, sa.Text).label("properties")
    return sa.select(row.id, row.created_at, row.updated_at, row.version, text)


_CURRENT = select_records(records_table).where(_OF_KIND, in_list(_row.id, "ids")).order_by(_row.id)
_LOCK = Statement(_CURRENT.with_for_update())
# For no key update: others may link the records meanwhile. Two updates that link each other's
# record would deadlock otherwise.
LOCK_TO_UPDATE = Statement(_CURRENT.with_for_update(key_share=True))
_OTHER_SHARDS = Statement(
    sa.select(sa.cast(sa.func.coalesce(sa.func.sum(record_count.c.n), 0), sa.BigInteger)).where(
        *equals(record_count, "account_id", "kind"), record_count.c.shard != 0
    )
)


def create(
    tx: Connection,
    catalogue: Catalogue,
    inputs: Sequence[NewRecord],
    *,
    ids: Sequence[int],
    now: int,
    quota: int | None,
) -> list[Record]:
    """Raises DuplicateValue, Semantic for a link to a missing record, and LimitExceeded beyond the
    `quota` (None: no limit). `now` is in ms since 1970."""
    account, kind = catalogue.account_id, catalogue.kind
    links = [
        (id, path, to, to_id)
        for id, new in zip(ids, inputs, strict=True)
        if new.associations
        for path, to, to_id in associations.wanted(new.associations, new.path)
    ]
    if links:
        associations.require(tx, account, [(path, to, to_id) for _, path, to, to_id in links])
    claims, *parts = new_rows(catalogue, inputs, ids, now)
    # Unique values first: while waiting for them, nobody holds the counter.
    free, total = tx.insert_all(claims, *parts, added=counter(account, kind, len(ids), quota))
    if free < len(claims.rows):
        paths = {id: new.path for id, new in zip(ids, inputs, strict=True)}
        raise unique_values.taken_values(tx, catalogue, claims.rows, paths)
    if quota is not None:
        require_room(tx, catalogue, total, len(ids), quota)
    if links:
        associations.link(tx, account, kind, [(id, to, to_id) for id, _, to, to_id in links])
    if catalogue.event_routes:
        created = [
            Changed(id, now, {}, new.properties) for id, new in zip(ids, inputs, strict=True)
        ]
        linked = [LinkChange(id, now, to, [to_id]) for id, _, to, to_id in links]
        note_created(tx, catalogue, created, linked)
    return [new_record(id, now, new) for id, new in zip(ids, inputs, strict=True)]


def require_room(tx: Connection, catalogue: Catalogue, total: int, more: int, quota: int) -> None:
    """Raise LimitExceeded; `total` is the number that the counter with a quota returned."""
    account, kind = catalogue.account_id, catalogue.kind
    total += tx.scalar(_OTHER_SHARDS, {"account_id": account, "kind": kind.code})
    if total > quota:
        raise LimitExceeded(
            "The plan allows %(quota)s %(records)s; %(stored)s are stored and %(more)s more were"
            " sent. Nothing was written. Archive some, or ask the operator for a larger plan.",
            quota=quota,
            records=as_text(kind.name),
            stored=total - more,
            more=more,
        )


def new_rows(
    catalogue: Catalogue, inputs: Sequence[NewRecord], ids: Sequence[int], now: int
) -> list[Rows]:
    change = IndexChange(catalogue)
    for id, new in zip(ids, inputs, strict=True):
        change.add(id, {}, new.properties, at=now)
    rows = [
        (catalogue.account_id, catalogue.kind.code, id, now, now, 1, documents.dump(new.properties))
        for id, new in zip(ids, inputs, strict=True)
    ]
    claims = Rows("unique_value", UNIQUE, sorted(change.unique_come), or_skip=True)
    return [claims, Rows("records", RECORD, rows), *change.rows()]


def new_record(id: int, now: int, new: NewRecord) -> Record:
    links = {name: sorted(set(to_ids)) for name, to_ids in new.associations.items()}
    return Record(id, now, now, 1, dict(new.properties), links)


def update(
    tx: Connection, catalogue: Catalogue, changes: Sequence[Change], *, now: int
) -> list[Record]:
    """Return complete records in input order; an unchanged record gets no new version, and one
    that gets links alone a new `updated_at`.

    Raises NotFound, InvalidProperties, Conflict for a version that `if_match` forbids,
    DuplicateValue, and Semantic for a link to a missing record or to itself.
    """
    account, kind = catalogue.account_id, catalogue.kind
    ids = [each.id for each in changes]
    current = {each.id: each for each in locked(tx, catalogue, ids, LOCK_TO_UPDATE)}
    require(kind, current, [(each.id, each.path) for each in changes])
    for each in changes:
        check_match(kind, current[each.id], each.if_match)
        check_found(kind, current[each.id], each)
    links = _new_links(tx, catalogue, [each for each in changes if each.associations])
    with_links = {id for id, _, _ in links}
    index = IndexChange(catalogue)
    problems: list[Problem] = []
    updated: dict[int, Record] = {}
    for i, each in enumerate(changes):
        old = current[each.id]
        new = documents.merged(catalogue, old, each, i, problems)
        updated[each.id] = old
        is_changed = new != old.properties
        if is_changed or each.id in with_links:
            moment, version = max(now, old.updated_at + 1), old.version + is_changed
            index.add(each.id, old.properties, new, at=moment)
            updated[each.id] = Record(each.id, old.created_at, moment, version, new)
    if problems:
        raise InvalidProperties(problems)
    tx.delete("unique_value", UNIQUE, sorted(index.unique_gone))
    unique_values.claim(tx, catalogue, index, {each.id: each.path for each in changes})
    index.write(tx)
    changed = [new for id, new in sorted(updated.items()) if new is not current[id]]
    rewrite(tx, catalogue, changed)
    note_updated(
        tx,
        catalogue,
        [
            Changed(r.id, r.updated_at, current[r.id].properties, r.properties)
            for r in changed
            if r.version != current[r.id].version
        ],
    )
    if links:
        associations.link(tx, account, kind, links)
        added = [LinkChange(id, updated[id].updated_at, to, [to_id]) for id, to, to_id in links]
        note_links(tx, catalogue, added)
    linked = associations.of_records(tx, account, kind, list(updated))
    return [replace(updated[each.id], associations=linked.get(each.id, {})) for each in changes]


def _new_links(
    tx: Connection, catalogue: Catalogue, changes: Sequence[Change]
) -> list[tuple[int, Kind, int]]:
    """The links to add that do not exist yet; their other ends are locked. Raises Semantic."""
    if not changes:
        return []
    account, kind = catalogue.account_id, catalogue.kind
    wanted = [
        (each.id, path, to, to_id)
        for each in changes
        for path, to, to_id in associations.wanted(each.associations, each.path)
    ]
    problems = [
        (path, f"{kind.singular} {id} cannot be associated with itself")
        for id, path, to, to_id in wanted
        if (id, kind) == (to_id, to)
    ]
    problems += associations.missing(
        tx, account, [(path, to, to_id) for _, path, to, to_id in wanted]
    )
    if problems:
        raise Semantic(listed(problems))
    linked = associations.of_records(tx, account, kind, [each.id for each in changes])
    there = set(associations.flat(linked))
    return [(id, to, to_id) for id, _, to, to_id in wanted if (id, to, to_id) not in there]


def rewrite(tx: Connection, catalogue: Catalogue, records: Sequence[Record]) -> None:
    """The caller writes the index rows."""
    rest = iter(records)
    while some := list(_piece(rest)):
        tx.update(
            "records",
            {"updated_at": "bigint", "version": "int", "properties": "jsonb"},
            RECORD_KEY,
            [
                (r.updated_at, r.version, documents.dump(r.properties), catalogue.account_id,
                 catalogue.kind.code, r.id)
                for r in some
            ],
        )  # fmt: skip


def _piece(records: Iterator[Record]) -> Iterator[Record]:
    length = 0
    while length < _PIECE and (record := next(records, None)) is not None:
        length += sum(map(len, record.properties.values()))
        yield record


def require(kind: Kind, current: Mapping[int, Record], ids: Sequence[tuple[int, str]]) -> None:
    unknown = [(id, path) for id, path in ids if id not in current]
    if unknown and not unknown[0][1]:
        raise NotFound(missing(kind, unknown[0][0]))
    if unknown:
        raise NotFound(listed([(f"{path}id", _no_such(kind, id)) for id, path in unknown]))


def check_match(kind: Kind, current: Record, allowed: frozenset[int] | None) -> None:
    if allowed is not None and current.version not in allowed:
        raise Conflict(
            f"If-Match: {kind.singular} {current.id} has changed meanwhile;"
            f' its ETag is now "{current.version}". Read it again.'
        )


def check_found(kind: Kind, current: Record, change: Change) -> None:
    """Raise NotFound if the record has lost the unique value by which an upsert found it."""
    name = change.found_by
    if not name:
        return
    held = current.properties.get(name, "")
    if unique_key(held) != unique_key(change.properties[name]):
        # It was given up between the look and the lock.
        raise NotFound(missing(kind, change.properties[name]))


def archive(
    tx: Connection,
    catalogue: Catalogue,
    ids: Sequence[tuple[int, str]],
    *,
    now: int,
    if_match: frozenset[int] | None = None,
    erased: bool = False,
) -> None:
    """`erased` records are deleted at once: their events have no properties. Raises NotFound, and
    Conflict for a version that is not in `if_match`; None allows any."""
    account, kind = catalogue.account_id, catalogue.kind
    paths = dict(ids)
    current = {each.id: each for each in locked(tx, catalogue, list(paths))}
    require(kind, current, ids)
    for id in paths:
        check_match(kind, current[id], if_match)
    index = IndexChange(catalogue)
    for old in current.values():
        index.add(old.id, old.properties, {})
    tx.delete("unique_value", UNIQUE, sorted(index.unique_gone))
    index.write(tx)
    associations.archive(tx, account, kind, list(current))
    move_to_archive(tx, catalogue, list(current.values()), now=now)
    note_archived(
        tx,
        catalogue,
        [
            Changed(r.id, max(now, r.updated_at + 1), {} if erased else r.properties, {})
            for r in current.values()
        ],
    )
    tx.add(counter(account, kind, -len(current)))


def move_to_archive(
    tx: Connection, catalogue: Catalogue, records: Sequence[Record], *, now: int
) -> None:
    """The caller deletes index rows, archives links, and counts."""
    account, kind = catalogue.account_id, catalogue.kind.code
    rows = [
        (
            account,
            kind,
            r.id,
            now,
            r.created_at,
            r.updated_at,
            r.version,
            documents.dump(r.properties),
        )
        for r in records
    ]
    tx.insert("archived_record", {**RECORD_KEY, "archived_at": "bigint", **RECORD}, rows)
    tx.delete("records", RECORD_KEY, [row[:3] for row in rows])


def move_from_archive(tx: Connection, catalogue: Catalogue, record: Record) -> None:
    """The caller writes index rows and links, and counts."""
    key = (catalogue.account_id, catalogue.kind.code, record.id)
    properties = documents.dump(record.properties)
    row = (*key, record.created_at, record.updated_at, record.version, properties)
    tx.insert("records", RECORD, [row])
    tx.delete("archived_record", RECORD_KEY, [key])


def touch_linked(
    tx: Connection,
    catalogue: Catalogue,
    links: Sequence[tuple[int, Kind, int]],
    *,
    now: int,
    added: bool = True,
) -> None:
    """Give the records whose links have changed a later `updated_at`, and store the events of the
    links. The versions stay."""
    account, kind = catalogue.account_id, catalogue.kind
    index = IndexChange(catalogue)
    moments: dict[int, int] = {}
    for old in locked(tx, catalogue, {id for id, _, _ in links}, LOCK_TO_UPDATE):
        moments[old.id] = max(now, old.updated_at + 1)
        index.add(old.id, old.properties, old.properties, at=moments[old.id])
    index.write(tx)
    rows = [(moment, account, kind.code, id) for id, moment in moments.items()]
    tx.update("records", {"updated_at": "bigint"}, RECORD_KEY, rows)
    changes = [
        LinkChange(id, moments[id], to, [to_id], added) for id, to, to_id in links if id in moments
    ]
    note_links(tx, catalogue, changes)


def locked(
    tx: Connection, catalogue: Catalogue, ids: Iterable[int], lock: Statement = _LOCK
) -> list[Record]:
    """Lock these records until the transaction ends, and return those that exist."""
    possible = sorted({id for id in ids if 0 < id < 2**53})
    of = {"account_id": catalogue.account_id, "kind": catalogue.kind.code, "ids": possible}
    return [parse_record(row) for row in tx.rows(lock, of)]


def counter(account_id: int, kind: Kind, by: int, quota: int | None = None) -> Increment:
    """Must be the last statement of a transaction: other writers wait for its row. With a `quota`,
    all writers use one row, which shows the total."""
    # The row is held until the commit has reached the disk. Only with a quota all share one row.
    shard = 0 if quota is not None else threading.get_native_id() % _SHARDS
    return Increment(
        "record_count",
        "n",
        {"account_id": account_id, "kind": kind.code, "shard": shard},
        by,
    )


def missing(kind: Kind, id: int | str) -> str:
    return translatable(
        "There is no %(kind)s %(id)s.", kind=as_text(kind.singular), id=str(id)[:60]
    )


def _no_such(kind: Kind, id: int | str) -> str:
    return f"there is no {kind.singular} {str(id)[:60]}"


def same_record_twice(inputs: Sequence[tuple[int, str]]) -> None:
    seen: dict[int, str] = {}
    for id, path in inputs:
        if id in seen:
            raise BadRequest(f"{path}id: {same_as(seen[id])}")
        seen[id] = path


def same_as(path: str) -> str:
    return f"the same record as {path}id; send each once."
