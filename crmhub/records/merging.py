"""Merging two records of the same kind, and unmerging them. Kinds with pipelines are not merged.

A merge archives the one record and gives its values and links to the other. `Undo` contains what an
unmerge needs in addition to the archived record; the caller stores it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, param
from crmhub.database.tables import archived_record
from crmhub.errors import Conflict, NotFound
from crmhub.properties import values
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import KINDS, Kind
from crmhub.properties.validation import InvalidProperties, Problem, complete, property_path
from crmhub.records import associations, writing
from crmhub.records.associations import Links
from crmhub.records.index import UNIQUE, IndexChange
from crmhub.records.writing import RECORD, RECORD_KEY, Record

_Link = tuple[Kind, int]

_archive = archived_record.c
_LOCK_ARCHIVED = Statement(
    sa.select(
        _archive.id,
        _archive.created_at,
        _archive.updated_at,
        _archive.version,
        sa.cast(_archive.properties, sa.Text).label("properties"),
    )
    .where(
        _archive.account_id == param("account_id"),
        _archive.kind == param("kind"),
        _archive.id == param("id"),
    )
    .with_for_update()
)


@dataclass(frozen=True, slots=True)
class Merge:
    """A request to merge the record `other_id` into the record `kept_id`.

    `take` names the properties whose values the kept record gets from the other record, even where
    these values are empty. `versions` are the versions that the kept and the other record must
    have.
    """

    kept_id: int
    other_id: int
    take: frozenset[str]
    versions: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Undo:
    """The changes that a merge made, as an unmerge needs them.

    `values` maps each changed property of the kept record to its value before and after the merge,
    "" if it had none. `links` are the links of the archived record; `moved` are those among them
    that the kept record did not have before.
    """

    values: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    links: Links = field(default_factory=dict)
    moved: Links = field(default_factory=dict)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Undo:
        """Return the Undo from a JSON object that `dataclasses.asdict` made of an Undo."""
        values = {name: (before, after) for name, (before, after) in stored["values"].items()}
        return cls(values, stored["links"], stored["moved"])


def combined(
    kept: Mapping[str, str], other: Mapping[str, str], take: Collection[str]
) -> dict[str, str]:
    """Return the properties of the kept record after a merge with `other`.

    `take` names the properties whose values come from `other`. Empty values are left out.
    """
    merged = {**kept, **{name: other.get(name, "") for name in take}}
    return {name: value for name, value in merged.items() if value}


def merge(tx: Connection, catalogue: Catalogue, asked: Merge, *, now: int) -> Undo:
    """Merge the two records that `asked` names; return the data that `unmerge` needs.

    `now` is the time of the merge (ms since 1970). Raises NotFound if a record is missing, Conflict
    if a record has another version than `asked` demands, DuplicateValue if a unique value belongs
    to a third record, and InvalidProperties if the kept record would lose a required value.
    """
    account, kind = catalogue.account_id, catalogue.kind
    kept, other = _both(tx, catalogue, asked)
    properties = combined(kept.properties, other.properties, asked.take)
    _demand_complete(catalogue, kept.properties, properties)
    linked = associations.of_records(tx, account, kind, [kept.id, other.id])
    links = _held(tx, account, linked.get(other.id, {}))
    moved = links - _listed(linked.get(kept.id, {})) - {(kind, kept.id), (kind, other.id)}
    index = IndexChange(catalogue)
    moment = max(now, kept.updated_at + 1)
    index.add(other.id, other.properties, {})
    index.add(kept.id, kept.properties, properties, now=moment)
    _write(tx, catalogue, index, kept, properties, moment, touched=bool(moved))
    associations.remove_all(tx, account, kind, [other.id])
    associations.link(tx, account, kind, [(kept.id, to, to_id) for to, to_id in moved])
    writing.move_to_archive(tx, catalogue, [other], now=now)
    tx.add(writing.counter(account, kind, -1))
    changed = {
        name: (kept.properties.get(name, ""), properties.get(name, ""))
        for name in {**kept.properties, **properties}
        if kept.properties.get(name) != properties.get(name)
    }
    return Undo(changed, _by_kind(links), _by_kind(moved))


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
    """Restore the record `other_id`, which was merged into the record `kept_id`.

    `undo` is the result of `merge`, `now` the present time (ms since 1970). The restored record has
    its old id, creation time, values, and its links to records that still exist; values that their
    properties no longer allow are left out. The kept record loses the links that the merge gave it,
    except those in `stay`, and gets its former values back unless they were changed after the
    merge. Raises Conflict if a record no longer exists or the kept record would lose a required
    value, and DuplicateValue if a restored unique value belongs to another record by now.
    """
    account, kind = catalogue.account_id, catalogue.kind
    kept = next(iter(writing.locked(tx, catalogue, [kept_id])), None)
    other = _archived(tx, catalogue, other_id)
    if kept is None or other is None:
        lost = kept_id if kept is None else other_id
        raise Conflict(f"{kind.singular.capitalize()} {lost} was deleted since the merge.")
    properties = _reverted(catalogue, kept.properties, undo)
    if lacking := _lacking(catalogue, kept.properties, properties):
        raise Conflict(
            f"{kind.singular.capitalize()} {kept.id} would have no {lacking[0][0]}; give it"
            " a value, then unmerge."
        )
    restored = _valid(catalogue, other.properties)
    links = _held(tx, account, undo.links)
    gone = _listed(undo.moved) - _listed(stay)
    index = IndexChange(catalogue)
    moment = max(now, kept.updated_at + 1)
    since = max(now, other.updated_at + 1)
    index.add(kept.id, kept.properties, properties, now=moment)
    index.add(other.id, {}, restored, now=since)
    _write(tx, catalogue, index, kept, properties, moment, touched=bool(gone))
    of = (account, kind.code, other.id)
    row = (*of, other.created_at, since, other.version + 1, writing.dump(restored))
    tx.insert("records", RECORD, [row])
    tx.delete("archived_record", RECORD_KEY, [of])
    associations.remove(tx, account, kind, [(kept.id, to, to_id) for to, to_id in gone])
    associations.link(tx, account, kind, [(other.id, to, to_id) for to, to_id in links])
    tx.add(writing.counter(account, kind, 1))


def _both(tx: Connection, catalogue: Catalogue, asked: Merge) -> tuple[Record, Record]:
    ids = (asked.kept_id, asked.other_id)
    found = {each.id: each for each in writing.locked(tx, catalogue, ids)}
    for id in ids:
        if id not in found:
            raise NotFound(writing.missing(catalogue.kind, id))
    kept, other = (found[id] for id in ids)
    if asked.versions != (kept.version, other.version):
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
    """Store the index rows of both records, and the kept record if it has changed.

    `properties` are the new properties of the kept record, `moment` its new `updated_at` (ms since
    1970). If only its links changed (`touched`), the kept record gets no new version.
    """
    tx.delete("unique_value", UNIQUE, sorted(index.unique_gone))
    # No input names them: the records themselves are what is asked for.
    paths = dict.fromkeys((row[-1] for row in index.unique_come), "")
    writing.claim_unique(tx, catalogue, index, paths)
    index.write(tx)
    if properties != kept.properties:
        changed = Record(kept.id, kept.created_at, moment, kept.version + 1, properties)
        writing.rewrite(tx, catalogue, [changed])
    elif touched:
        writing.touch(tx, catalogue.account_id, catalogue.kind, kept.id, now=moment)


def _archived(tx: Connection, catalogue: Catalogue, id: int) -> Record | None:
    of = {"account_id": catalogue.account_id, "kind": catalogue.kind.code, "id": id}
    row = tx.row(_LOCK_ARCHIVED, of)
    return None if row is None else writing.record(row)


def _reverted(catalogue: Catalogue, held: Mapping[str, str], undo: Undo) -> dict[str, str]:
    """Return the kept record's properties after an unmerge.

    `held` are its present properties. Values that are still as the merge left them get their former
    value back.
    """
    former = _valid(catalogue, {name: before for name, (before, _) in undo.values.items()})
    unchanged = [name for name, (_, after) in undo.values.items() if held.get(name, "") == after]
    reverted = {**held, **{name: former.get(name, "") for name in unchanged}}
    return {name: value for name, value in reverted.items() if value}


def _valid(catalogue: Catalogue, stored: Mapping[str, str]) -> dict[str, str]:
    """Return the stored values in the canonical form of the present property definitions.

    Values that the definitions no longer allow are left out.
    """
    valid = {}
    for name, value in stored.items():
        known = catalogue.get(name)
        if known is None or not value:
            continue
        # The definition may have changed since: another type, fewer options.
        with suppress(values.InvalidValue):
            valid[name] = values.canonical(
                known.type, value, options=known.options, any_case=known.any_case
            )
    return valid


def _demand_complete(
    catalogue: Catalogue, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    if lacking := _lacking(catalogue, before, after):
        raise InvalidProperties(
            [Problem(0, name, property_path("", name), reason) for name, reason in lacking]
        )


def _lacking(
    catalogue: Catalogue, before: Mapping[str, str], after: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return the required properties that a record has `before` a change but not `after` it.

    Each item is a pair of the property's name and the reason why it is required.
    """
    lacked = complete(catalogue, before)
    return [each for each in complete(catalogue, after) if each not in lacked]


def _held(tx: Connection, account_id: int, links: Links) -> set[_Link]:
    """Return the links whose target records exist, and lock these records against archiving."""
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
