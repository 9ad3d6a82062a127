"""Merging two records of the same kind, and unmerging them; not for kinds with pipelines.

The kept record gets values and links of the other one, which is archived. An unmerge needs the
archived record and the `Undo`, which the caller must store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from crmhub.database.connection import Connection
from crmhub.database.tables import archived_association
from crmhub.errors import Conflict, NotFound
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import KINDS, Kind
from crmhub.properties.validation import (
    InvalidProperties,
    Problem,
    complete,
    property_path,
    too_long,
    valid,
)
from crmhub.records import archived, associations, documents, timeline, unique_values, writing
from crmhub.records.associations import Links
from crmhub.records.index import UNIQUE, IndexChange
from crmhub.records.models import Change, Record
from crmhub.records.record_events import (
    Changed,
    LinkChange,
    note_created,
    note_links,
    note_merged,
    note_updated,
)

_Link = tuple[Kind, int]


@dataclass(frozen=True, slots=True)
class Merge:
    """`take`: properties whose values, even empty ones, come from the other record; None: those
    without a value in the kept one. `versions`: None for any. `change` is then made."""

    kept_id: int
    other_id: int
    take: frozenset[str] | None = None
    versions: tuple[int, int] | None = None
    change: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Undo:
    """`values` are (before, after), "" for none; `links` are those of the archived record, and
    `moved` those that the kept record got. `entries`: the ids of the notes and tasks that it got.
    """

    values: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    links: Links = field(default_factory=dict)
    moved: Links = field(default_factory=dict)
    entries: Sequence[int] = ()

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Undo:
        values = {name: (before, after) for name, (before, after) in stored["values"].items()}
        return cls(values, stored["links"], stored["moved"], stored.get("entries", ()))


def combined(
    kept: Mapping[str, str], other: Mapping[str, str], take: Collection[str]
) -> dict[str, str]:
    merged = {**kept, **{name: other.get(name, "") for name in take}}
    return {name: value for name, value in merged.items() if value}


def merge(tx: Connection, catalogue: Catalogue, asked: Merge, *, now: int) -> Undo:
    """`asked.change` has been checked.

    Raises NotFound, Conflict for another version, DuplicateValue if a third record has a unique
    value, and InvalidProperties if the kept record would lose a required value or be too long.
    """
    account, kind = catalogue.account_id, catalogue.kind
    kept, other = _both(tx, catalogue, asked)
    take = other.properties.keys() - kept.properties if asked.take is None else asked.take
    both = replace(kept, properties=combined(kept.properties, other.properties, take))
    problems: list[Problem] = []
    properties = documents.merged(catalogue, both, Change(kept.id, asked.change), 0, problems)
    wrong = _lacking(catalogue, kept.properties, properties)
    wrong += too_long(kept.properties, properties)
    problems += [Problem(0, name, property_path("", name), reason) for name, reason in wrong]
    if problems:
        raise InvalidProperties(problems)
    linked = associations.of_records(tx, account, kind, [kept.id, other.id])
    links = _held(tx, account, linked.get(other.id, {}))
    moved = links - _listed(linked.get(kept.id, {})) - {(kind, kept.id), (kind, other.id)}
    index = IndexChange(catalogue)
    moment = max(now, kept.updated_at + 1)
    index.add(other.id, other.properties, {})
    _write(tx, catalogue, index, kept, properties, moment, touched=bool(moved))
    _archive_links(tx, catalogue, kept.id, other.id)
    associations.link(tx, account, kind, [(kept.id, to, to_id) for to, to_id in moved])
    writing.move_to_archive(tx, catalogue, [other], now=now)
    entries = timeline.move(tx, account, timeline.OWN, kind, str(other.id), str(kept.id))
    tx.add(writing.counter(account, kind, -1))
    note_merged(
        tx,
        catalogue,
        Changed(kept.id, moment, kept.properties, properties),
        Changed(other.id, max(now, other.updated_at + 1), other.properties, {}),
        [LinkChange(kept.id, moment, to, [to_id]) for to, to_id in moved],
    )
    changed = {
        name: (kept.properties.get(name, ""), properties.get(name, ""))
        for name in {**kept.properties, **properties}
        if kept.properties.get(name) != properties.get(name)
    }
    return Undo(changed, _by_kind(links), _by_kind(moved), entries)


def unmerge(
    tx: Connection,
    catalogue: Catalogue,
    kept_id: int,
    other_id: int,
    undo: Undo,
    *,
    stay: Links,
    now: int,
) -> None:
    """Restore `other_id`, with its id, time of creation, valid values and links to existing
    records.

    The kept record gets its former values back, except those changed since, and loses the links of
    the merge, except those in `stay`. Raises Conflict if a record was deleted or the kept record
    would lose a required value, and DuplicateValue.
    """
    account, kind = catalogue.account_id, catalogue.kind
    kept = next(iter(writing.locked(tx, catalogue, [kept_id])), None)
    other = archived.locked(tx, catalogue, other_id)
    if kept is None or other is None:
        lost = kept_id if kept is None else other_id
        raise Conflict(f"{kind.singular.capitalize()} {lost} was deleted since the merge.")
    properties = _reverted(catalogue, kept.properties, undo)
    if lacking := _lacking(catalogue, kept.properties, properties):
        raise Conflict(
            f"{kind.singular.capitalize()} {kept.id} would have no {lacking[0][0]}; give it"
            " a value, then unmerge."
        )
    restored = valid(catalogue, other.properties)
    links = _held(tx, account, undo.links)
    gone = _listed(undo.moved) - _listed(stay)
    index = IndexChange(catalogue)
    moment = max(now, kept.updated_at + 1)
    since = max(now, other.updated_at + 1)
    index.add(other.id, {}, restored, at=since)
    _write(tx, catalogue, index, kept, properties, moment, touched=bool(gone))
    whole = Record(other.id, other.created_at, since, other.version + 1, restored)
    writing.move_from_archive(tx, catalogue, whole)
    both = (str(kept.id), str(other.id))
    timeline.move_back(tx, account, timeline.OWN, kind, *both, undo.entries)
    associations.remove(tx, account, kind, [(kept.id, to, to_id) for to, to_id in gone])
    come = [(other.id, to, to_id) for to, to_id in links]
    associations.link(tx, account, kind, come)
    associations.remove(tx, account, kind, come, table=archived_association)
    if properties != kept.properties:
        note_updated(tx, catalogue, [Changed(kept.id, moment, kept.properties, properties)])
    removed = [LinkChange(kept.id, moment + 1, to, [to_id], False) for to, to_id in gone]
    note_links(tx, catalogue, removed)
    if catalogue.event_routes:
        created = [Changed(other.id, since, {}, restored)]
        added = [LinkChange(other.id, since, to, [to_id]) for to, to_id in links]
        note_created(tx, catalogue, created, added, restored=True)
    tx.add(writing.counter(account, kind, 1))


def _both(tx: Connection, catalogue: Catalogue, asked: Merge) -> tuple[Record, Record]:
    ids = (asked.kept_id, asked.other_id)
    found = {each.id: each for each in writing.locked(tx, catalogue, ids)}
    for id in ids:
        if id not in found:
            raise NotFound(writing.missing(catalogue.kind, id))
    kept, other = (found[id] for id in ids)
    if asked.versions not in (None, (kept.version, other.version)):
        raise Conflict(
            f"One of the {catalogue.kind.name} was changed since the preview. Nothing was merged;"
            " look at the preview again."
        )
    return kept, other


def _write(
    tx: Connection,
    catalogue: Catalogue,
    index: IndexChange,
    kept: Record,
    properties: dict[str, str],
    moment: int,
    *,
    touched: bool,
) -> None:
    """If only links change (`touched`), the version stays."""
    is_changed = properties != kept.properties
    if is_changed or touched:
        index.add(kept.id, kept.properties, properties, at=moment)
    tx.delete("unique_value", UNIQUE, sorted(index.unique_gone))
    paths = dict.fromkeys((row[-1] for row in index.unique_come), "")
    unique_values.claim(tx, catalogue, index, paths)
    index.write(tx)
    if is_changed or touched:
        version = kept.version + is_changed
        changed = Record(kept.id, kept.created_at, moment, version, properties)
        writing.rewrite(tx, catalogue, [changed])


def _reverted(catalogue: Catalogue, held: Mapping[str, str], undo: Undo) -> dict[str, str]:
    """Return the kept record's properties after an unmerge: values changed since the merge stay."""
    former = valid(catalogue, {name: before for name, (before, _) in undo.values.items()})
    unchanged = [name for name, (_, after) in undo.values.items() if held.get(name, "") == after]
    reverted = {**held, **{name: former.get(name, "") for name in unchanged}}
    return {name: value for name, value in reverted.items() if value}


def _archive_links(tx: Connection, catalogue: Catalogue, kept_id: int, other_id: int) -> None:
    """Records that were linked with the other one, and are archived, are linked with the kept one
    when they are restored."""
    account, kind = catalogue.account_id, catalogue.kind
    earlier = associations.of_records(tx, account, kind, [other_id], table=archived_association)
    links = [(kept_id, to, to_id) for to, to_id in _listed(earlier.get(other_id, {}))]
    associations.link(tx, account, kind, links, table=archived_association)
    associations.archive(tx, account, kind, [other_id])


def _lacking(
    catalogue: Catalogue, before: Mapping[str, str], after: Mapping[str, str]
) -> list[tuple[str, str]]:
    lacked = complete(catalogue, before)
    return [each for each in complete(catalogue, after) if each not in lacked]


def _held(tx: Connection, account_id: int, links: Links) -> set[_Link]:
    return {
        (kind, id)
        for kind in KINDS.values()
        for id in associations.hold(tx, account_id, kind, links.get(kind.name, ()))
    }


def _listed(links: Links) -> set[_Link]:
    return {(KINDS[name], id) for name, ids in links.items() for id in ids}


def _by_kind(links: Iterable[_Link]) -> Links:
    by_kind: Links = {}
    for kind, id in sorted(links, key=lambda one: (one[0].code, one[1])):
        by_kind.setdefault(kind.name, []).append(id)
    return by_kind
