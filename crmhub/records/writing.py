"""Writes to records inside a transaction; a write of one record is a batch with one item.

All lock rows in the order of the record ids, so that two writers wait for each other instead of
deadlocking. The counter of records comes last: writers of an account share its rows.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

import orjson
import sqlalchemy as sa

from crmhub.adapter.phones import is_no_change
from crmhub.database.bulk import Increment, Row, Rows
from crmhub.database.connection import Connection
from crmhub.database.drivers import Deadlocked
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import record_count, unique_value
from crmhub.database.tables import records as records_table
from crmhub.errors import BadRequest, Conflict, LimitExceeded, NotFound, listed
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import (
    DuplicateValue,
    InvalidProperties,
    Problem,
    complete,
    place,
    property_path,
    too_long,
    with_added,
)
from crmhub.records import associations
from crmhub.records.associations import Links
from crmhub.records.index import UNIQUE, IndexChange, note_changed, unique_key
from crmhub.records.record_events import (
    Changed,
    LinkChange,
    note_archived,
    note_created,
    note_updated,
)


@dataclass(frozen=True, slots=True)
class Record:
    """A stored record; times are milliseconds since 1970 (UTC)."""

    id: int
    created_at: int
    updated_at: int
    version: int
    properties: dict[str, str]
    associations: Links = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored record whose `properties` are JSON text, ready to be sent."""

    id: int
    created_at: int
    updated_at: int
    version: int
    properties: str
    associations: Links

    def record(self) -> Record:
        return record(
            (self.id, self.created_at, self.updated_at, self.version, self.properties),
            self.associations,
        )


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to create; `path` is the JSON path of the input, such as `inputs[3].`.

    `associations` maps a kind's name to ids to link to; `sent` are the values as sent.
    """

    properties: Mapping[str, str]
    associations: Mapping[str, Sequence[int]] = field(default_factory=dict)
    path: str = ""
    sent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """New property values of the record `id`, "" to clear one; `path` and `sent` as in NewRecord.

    The version must be in `if_match` (None: any), and the record must still have the value of the
    unique property `found_by`, if that is given.
    """

    id: int
    properties: Mapping[str, str]
    path: str = ""
    if_match: frozenset[int] | None = None
    found_by: str = ""
    sent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upsert:
    """Properties for the record whose unique property has this value, or for a new one."""

    property_name: str
    value: str
    properties: Mapping[str, str]
    path: str = ""


RECORD_KEY = {"account_id": "int", "kind": "int", "id": "bigint"}
RECORD = RECORD_KEY | {
    "created_at": "bigint",
    "updated_at": "bigint",
    "version": "int",
    "properties": "jsonb",
}
_SHARDS = 16
# Characters of the documents that go to the database at once: a connection to PostgreSQL keeps the
# room for the longest statement that it has sent.
_PIECE = 1_000_000

_row = records_table.c
_OF_KIND = sa.and_(_row.account_id == param("account_id"), _row.kind == param("kind"))
_LOCK = Statement(
    sa.select(
        _row.id,
        _row.created_at,
        _row.updated_at,
        _row.version,
        sa.cast(_row.properties, sa.Text).label("properties"),
    )
    .where(_OF_KIND, in_list(_row.id, "ids"))
    .order_by(_row.id)
    .with_for_update()
)
_TOUCH = Statement(
    sa.update(records_table)
    .where(_OF_KIND, _row.id == param("id"))
    .values(
        updated_at=sa.case(
            (_row.updated_at >= param("now"), _row.updated_at + 1), else_=param("now")
        )
    )
    .returning(_row.updated_at)
)
_HOLDERS = Statement(
    sa.select(unique_value.c.value, unique_value.c.record_id).where(
        unique_value.c.account_id == param("account_id"),
        unique_value.c.prop_id == param("prop_id"),
        in_list(unique_value.c.value, "keys"),
    )
)
_OTHER_SHARDS = Statement(
    sa.select(sa.cast(sa.func.coalesce(sa.func.sum(record_count.c.n), 0), sa.BigInteger)).where(
        record_count.c.account_id == param("account_id"),
        record_count.c.kind == param("kind"),
        record_count.c.shard != 0,
    )
)


def finish(
    catalogue: Catalogue,
    inputs: Sequence[NewRecord],
    found: Sequence[Problem] = (),
    *,
    may_lack: bool = False,
) -> list[NewRecord]:
    """Return checked new records, with missing pipelines and stages set, without empty values.

    Raises InvalidProperties with the problems `found` and all new ones, and Conflict for two
    records with the same unique value. With `may_lack`, properties that the account itself made
    required may be missing.
    """
    finished = []
    problems = list(found)
    # What such an input lacks may be what was wrong with it.
    faulty = {problem.index for problem in found}
    for index, new in enumerate(inputs):
        if index in faulty:
            continue
        sent = with_added(catalogue, new.properties, {})
        properties = {name: value for name, value in sent.items() if value}
        wrong = []
        if catalogue.kind.pipeline:
            wrong += place(catalogue, properties, changed=new.properties)
        wrong += complete(catalogue, properties, of_its_own=not may_lack)
        wrong += too_long({}, properties)
        for name, reason in wrong:
            problems.append(Problem(index, name, property_path(new.path, name), reason))
        finished.append(NewRecord(properties, new.associations, new.path))
    if problems:
        raise InvalidProperties(sorted(problems, key=lambda problem: problem.index))
    if len(finished) > 1:
        refuse_twins(catalogue, [(new.path, new.properties) for new in finished])
    return finished


def refuse_twins(catalogue: Catalogue, inputs: Sequence[tuple[str, Mapping[str, str]]]) -> None:
    """Raise Conflict if two inputs (JSON path, stored properties) have the same unique value."""
    problems = []
    for known in catalogue.unique:
        seen: dict[str, str] = {}
        for path, properties in inputs:
            value = properties.get(known.name)
            if not value:
                continue
            if value in seen:
                reason = same_value_as(seen[value], known.name)
                problems.append((property_path(path, known.name), reason))
            seen.setdefault(value, path)
    if problems:
        raise Conflict(listed(problems))


def same_value_as(path: str, name: str) -> str:
    """Return the error for a unique value that the input at `path` has, too."""
    return f"the same value as {property_path(path, name)}, but it must be unique"


def create(
    tx: Connection,
    catalogue: Catalogue,
    inputs: Sequence[NewRecord],
    *,
    ids: Sequence[int],
    now: int,
    quota: int | None,
) -> list[Record]:
    """Store the finished records under these ids, with their links, at `now` (ms since 1970).

    Raises DuplicateValue, Semantic for a link to a missing record, and LimitExceeded beyond the
    `quota`; None: no limit.
    """
    account, kind = catalogue.account_id, catalogue.kind
    links = [
        (id, path, to, to_id)
        for id, new in zip(ids, inputs, strict=True)
        if new.associations
        for path, to, to_id in associations.wanted(new.associations, new.path)
    ]
    if links:
        associations.require(tx, account, [(path, to, to_id) for _, path, to, to_id in links])
    claims, *parts = _new_rows(catalogue, inputs, ids, now)
    # First what another one may hold as well: waiting for that, nobody holds the counter.
    free, total = tx.insert_all(claims, *parts, added=counter(account, kind, len(ids), quota))
    if free < len(claims.rows):
        paths = {id: new.path for id, new in zip(ids, inputs, strict=True)}
        raise _taken(tx, catalogue, claims.rows, paths)
    if quota is not None:
        total += tx.scalar(_OTHER_SHARDS, {"account_id": account, "kind": kind.code})
    if quota is not None and total > quota:
        raise LimitExceeded(
            f"The plan allows {quota} {kind.name}; {total - len(ids)} are stored and {len(ids)}"
            " more were sent. Nothing was written. Archive some, or ask the operator for a larger"
            " plan."
        )
    if links:
        associations.link(tx, account, kind, [(id, to, to_id) for id, _, to, to_id in links])
    if catalogue.event_routes:
        created = [
            Changed(id, now, {}, new.properties) for id, new in zip(ids, inputs, strict=True)
        ]
        linked = [LinkChange(id, now, to, [to_id]) for id, _, to, to_id in links]
        note_created(tx, catalogue, created, linked)
    return [_created(id, now, new) for id, new in zip(ids, inputs, strict=True)]


def create_free(
    connection: Connection,
    catalogue: Catalogue,
    inputs: Sequence[NewRecord],
    *,
    ids: Sequence[int],
    now: int,
) -> list[Record | None]:
    """Store new records at `now` (ms since 1970), but None for those whose unique value is taken.

    This is one PostgreSQL statement and a transaction by itself. The inputs must have no links, and
    the catalogue at most one unique property. Raises GuardFailed if the catalogue has changed.
    """
    went = connection.insert_unclaimed(
        *_new_rows(catalogue, inputs, ids, now),
        added=counter(catalogue.account_id, catalogue.kind, 1),
        guard=connection.held_at(catalogue.account_id, catalogue.version),
    )
    return [
        _created(id, now, new) if id in went else None for id, new in zip(ids, inputs, strict=True)
    ]


def refuse_taken(
    connection: Connection, catalogue: Catalogue, new: NewRecord, *, id: int
) -> NoReturn:
    """Raise DuplicateValue for a record that `create_free` did not store as `id`.

    Raises Deadlocked if its unique value has become free meanwhile.
    """
    [claims, *_] = _new_rows(catalogue, [new], [id], 0)
    raise _taken(connection, catalogue, claims.rows, {id: new.path})


def _new_rows(
    catalogue: Catalogue, inputs: Sequence[NewRecord], ids: Sequence[int], now: int
) -> list[Rows]:
    change = IndexChange(catalogue)
    for id, new in zip(ids, inputs, strict=True):
        change.add(id, {}, new.properties, now=now)
    rows = [
        (catalogue.account_id, catalogue.kind.code, id, now, now, 1, dump(new.properties))
        for id, new in zip(ids, inputs, strict=True)
    ]
    claims = Rows("unique_value", UNIQUE, sorted(change.unique_come), or_skip=True)
    return [claims, Rows("records", RECORD, rows), *change.rows()]


def _created(id: int, now: int, new: NewRecord) -> Record:
    links = {name: sorted(set(to_ids)) for name, to_ids in new.associations.items()}
    return Record(id, now, now, 1, dict(new.properties), links)


def update(
    tx: Connection, catalogue: Catalogue, changes: Sequence[Change], *, now: int
) -> list[Record]:
    """Change records at `now` (ms since 1970) and return them complete, in input order.

    The values are as stored; a record that they do not change gets no new version. Raises NotFound,
    InvalidProperties if a record would lose a required value or become too long, Conflict for a
    version that `if_match` forbids, and DuplicateValue.
    """
    account, kind = catalogue.account_id, catalogue.kind
    current = {each.id: each for each in locked(tx, catalogue, [each.id for each in changes])}
    _require(kind, current, [(each.id, each.path) for each in changes])
    for each in changes:
        _check_match(kind, current[each.id], each.if_match)
        check_found(kind, current[each.id], each)
    index = IndexChange(catalogue)
    problems: list[Problem] = []
    updated: dict[int, Record] = {}
    for i, each in enumerate(changes):
        old = current[each.id]
        new = merged(catalogue, old, each, i, problems)
        updated[each.id] = old
        if new != old.properties:
            moment = max(now, old.updated_at + 1)
            index.add(each.id, old.properties, new, now=moment)
            updated[each.id] = Record(each.id, old.created_at, moment, old.version + 1, new)
    if problems:
        raise InvalidProperties(problems)
    tx.delete("unique_value", UNIQUE, sorted(index.unique_gone))
    claim_unique(tx, catalogue, index, {each.id: each.path for each in changes})
    index.write(tx)
    changed = [new for id, new in sorted(updated.items()) if new is not current[id]]
    rewrite(tx, catalogue, changed)
    note_updated(
        tx,
        catalogue,
        [Changed(r.id, r.updated_at, current[r.id].properties, r.properties) for r in changed],
    )
    linked = associations.of_records(tx, account, kind, list(updated))
    return [replace(updated[each.id], associations=linked.get(each.id, {})) for each in changes]


def rewrite(tx: Connection, catalogue: Catalogue, records: Sequence[Record]) -> None:
    """Store changed records; the caller writes their index rows."""
    rest = iter(records)
    while some := list(_piece(rest)):
        tx.update(
            "records",
            {"updated_at": "bigint", "version": "int", "properties": "jsonb"},
            RECORD_KEY,
            [
                (r.updated_at, r.version, dump(r.properties), catalogue.account_id,
                 catalogue.kind.code, r.id)
                for r in some
            ],
        )  # fmt: skip
    note_changed(tx, catalogue.account_id, catalogue.kind, [record.id for record in records])


def _piece(records: Iterator[Record]) -> Iterator[Record]:
    """Yield the next records, as many as one UPDATE statement can write."""
    length = 0
    while length < _PIECE and (record := next(records, None)) is not None:
        length += sum(map(len, record.properties.values()))
        yield record


def _require(kind: Kind, current: Mapping[int, Record], ids: Sequence[tuple[int, str]]) -> None:
    unknown = [(id, path) for id, path in ids if id not in current]
    if unknown and not unknown[0][1]:
        raise NotFound(missing(kind, unknown[0][0]))
    if unknown:
        raise NotFound(listed([(f"{path}id", _no_such(kind, id)) for id, path in unknown]))


def missing_at(kind: Kind, id: int, path: str) -> str:
    """Return the error for a missing record that the input at `path` names."""
    return listed([(f"{path}id", _no_such(kind, id))])


def _check_match(kind: Kind, current: Record, allowed: frozenset[int] | None) -> None:
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


def merged(
    catalogue: Catalogue, old: Record, change: Change, index: int, problems: list[Problem]
) -> dict[str, str]:
    """Return the properties of `old` after a change; append what forbids it to `problems`."""
    both = {
        **old.properties,
        **with_added(catalogue, change.properties, old.properties),
        **_same_phones(catalogue, old, change),
    }
    new = {name: value for name, value in both.items() if value}
    if new == old.properties:
        return new
    # What the record lacked before, it may go on lacking: a property can become required later.
    lacked = complete(catalogue, old.properties)
    wrong = place(catalogue, new, changed=change.properties) if catalogue.kind.pipeline else []
    wrong += [each for each in complete(catalogue, new) if each not in lacked]
    wrong += too_long(old.properties, new)
    problems += [
        Problem(index, name, property_path(change.path, name), reason) for name, reason in wrong
    ]
    return new


def _same_phones(catalogue: Catalogue, old: Record, change: Change) -> dict[str, str]:
    """Return the phones of `old` that a change only writes in another notation."""
    return {
        name: stored
        for name, value in change.properties.items()
        if value
        and (stored := old.properties.get(name, ""))
        and (known := catalogue.get(name)) is not None
        and known.type == "phone"
        and (is_no_change(stored, value) or is_no_change(stored, change.sent.get(name, "")))
    }


def archive(
    tx: Connection,
    catalogue: Catalogue,
    ids: Sequence[tuple[int, str]],
    *,
    now: int,
    if_match: frozenset[int] | None = None,
    erased: bool = False,
) -> None:
    """Archive records (id, JSON path): reads, searches, counts and links no longer show them.

    `erased` records are deleted at once: their events have no properties. Raises NotFound, and
    Conflict for a version that is not in `if_match`; None allows any.
    """
    account, kind = catalogue.account_id, catalogue.kind
    paths = dict(ids)
    current = {each.id: each for each in locked(tx, catalogue, list(paths))}
    _require(kind, current, ids)
    for id in paths:
        _check_match(kind, current[id], if_match)
    index = IndexChange(catalogue)
    for old in current.values():
        index.add(old.id, old.properties, {})
    tx.delete("unique_value", UNIQUE, sorted(index.unique_gone))
    index.write(tx)
    associations.remove_all(tx, account, kind, list(current))
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
    """Move records to `archived_record`; the caller deletes index rows and links, and counts."""
    account, kind = catalogue.account_id, catalogue.kind.code
    rows = [
        (account, kind, r.id, now, r.created_at, r.updated_at, r.version, dump(r.properties))
        for r in records
    ]
    tx.insert("archived_record", {**RECORD_KEY, "archived_at": "bigint", **RECORD}, rows)
    for table in ("records", "index_behind"):
        tx.delete(table, RECORD_KEY, [row[:3] for row in rows])


def touch(tx: Connection, account_id: int, kind: Kind, id: int, *, now: int) -> int | None:
    """Set `updated_at` of a record to `now` (ms since 1970), or later; its version stays.

    Returns the new `updated_at`, None if the record does not exist.
    """
    of = {"account_id": account_id, "kind": kind.code, "id": id}
    updated_at: int | None = tx.scalar(_TOUCH, of | {"now": now})
    if updated_at is not None:
        note_changed(tx, account_id, kind, [id])
    return updated_at


def locked(tx: Connection, catalogue: Catalogue, ids: Iterable[int]) -> list[Record]:
    """Lock these records until the transaction ends, and return those that exist."""
    possible = sorted({id for id in ids if 0 < id < 2**53})
    of = {"account_id": catalogue.account_id, "kind": catalogue.kind.code, "ids": possible}
    return [record(row) for row in tx.rows(_LOCK, of)]


def record(row: Row, links: Links | None = None) -> Record:
    """Return a Record from a row of id, created_at, updated_at, version and JSON properties."""
    id, created_at, updated_at, version, properties = row
    return Record(id, created_at, updated_at, version, orjson.loads(properties), links or {})


def claim_unique(
    tx: Connection, catalogue: Catalogue, change: IndexChange, paths: Mapping[int, str]
) -> None:
    """Store new unique values of the records (with their JSON `paths`); raise DuplicateValue."""
    claimed = sorted(change.unique_come)
    if tx.insert("unique_value", UNIQUE, claimed, or_skip=True) < len(claimed):
        raise _taken(tx, catalogue, claimed, paths)


def _taken(
    tx: Connection, catalogue: Catalogue, claimed: Sequence[Row], paths: Mapping[int, str]
) -> DuplicateValue | Deadlocked:
    """Return DuplicateValue for the `claimed` rows of `unique_value` that other records have.

    It is Deadlocked if such a record was archived just now, so that a second attempt may succeed.
    """
    names = {known.prop_id: known.name for known in catalogue.unique}
    held = holders(tx, catalogue.account_id, [(prop_id, key) for _, prop_id, key, _ in claimed])
    taken = []
    for _, prop_id, key, record_id in claimed:
        holder = held.get((prop_id, key))
        if holder is None:
            return Deadlocked("A record that held the same value was archived just now; try again.")
        if holder != record_id:
            taken.append((paths[record_id], names[prop_id], holder))
    return duplicate_values(catalogue.kind, taken)


def duplicate_values(kind: Kind, taken: Sequence[tuple[str, str, int]]) -> DuplicateValue:
    """Return the error for unique values that other records have; `taken` as in DuplicateValue."""
    words = "; ".join(
        f"{property_path(path, name)}: another {kind.singular}, {holder}, has this value"
        for path, name, holder in taken
    )
    return DuplicateValue(f"{words}.", taken)


def counter(account_id: int, kind: Kind, by: int, quota: int | None = None) -> Increment:
    """Return what adds `by` to the stored number of records; the last statement of a transaction.

    Other writers wait for its row. With a `quota`, all writers use one row, which shows the total.
    """
    # The row is held until the commit has reached the disk, and all who add to it wait for that.
    # Only with a quota all add to one row: then one sees the total that the others make.
    shard = 0 if quota is not None else threading.get_native_id() % _SHARDS
    return Increment(
        "record_count",
        "n",
        {"account_id": account_id, "kind": kind.code, "shard": shard},
        by,
    )


def dump(properties: Mapping[str, str]) -> str:
    """Return properties as JSON text, with the keys in the order of PostgreSQL's jsonb."""
    ordered = sorted(sorted(properties), key=len)
    return orjson.dumps({name: properties[name] for name in ordered}).decode()


def missing(kind: Kind, id: int | str) -> str:
    """Return the error for a record that does not exist."""
    return f"T{_no_such(kind, id)[1:]}."


def _no_such(kind: Kind, id: int | str) -> str:
    return f"there is no {kind.singular} {str(id)[:60]}"


def same_record_twice(inputs: Sequence[tuple[int, str]]) -> None:
    """Raise BadRequest if two inputs (id, JSON path) have the same record id."""
    seen: dict[int, str] = {}
    for id, path in inputs:
        if id in seen:
            raise BadRequest(f"{path}id: {same_as(seen[id])}")
        seen[id] = path


def same_as(path: str) -> str:
    """Return the error for a record that the input at `path` names, too."""
    return f"the same record as {path}id; send each once."


def holders(
    connection: Connection, account_id: int, values: Collection[tuple[int, str]]
) -> dict[tuple[int, str], int]:
    """Return the ids of the records that have these unique values (`prop_id`, `unique_key`)."""
    held: dict[tuple[int, str], int] = {}
    for prop_id in {prop_id for prop_id, _ in values}:
        keys = sorted({key for other, key in values if other == prop_id})
        of = {"account_id": account_id, "prop_id": prop_id, "keys": keys}
        held |= {(prop_id, row.value): row.record_id for row in connection.rows(_HOLDERS, of)}
    return held
