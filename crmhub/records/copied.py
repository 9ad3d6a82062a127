"""Records copied from the CRM: each is written as the CRM has it, and only where it differs.

A copied record has the read-only properties `crm_id` and `crm_url`. The CRM has checked the values,
so a text that the hub would refuse (an unknown option, a malformed address) is stored as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from crmhub.bounds import MAX_RECORD_LENGTH
from crmhub.database.connection import Connection
from crmhub.database.drivers import Deadlocked
from crmhub.database.expired import ARCHIVED_MS
from crmhub.database.statements import Statement, equals, in_list, param
from crmhub.database.tables import archived_record
from crmhub.properties import values
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import KINDS, Kind
from crmhub.properties.value_errors import InvalidValue
from crmhub.records import associations, documents, reading, unique_values, writing
from crmhub.records.index import UNIQUE, IndexChange, unique_key
from crmhub.records.models import NewRecord, Record
from crmhub.records.record_events import (
    Changed,
    LinkChange,
    note_created,
    note_links,
    note_merged,
    note_updated,
)

ID, URL = "crm_id", "crm_url"
_NAMES = {"name", "firstname", "lastname", "first_name", "last_name"}
_a = archived_record.c
_crm_id = _a.properties.op("->>")(sa.literal_column(f"'{ID}'"))
_ARCHIVED = Statement(
    sa.select(
        _a.id, _a.created_at, _a.updated_at, _a.archived_at, _a.version, _crm_id.label("crm_id")
    )
    .where(
        *equals(archived_record, "account_id", "kind"),
        in_list(_crm_id, "crm_ids"),
        _a.archived_at > param("after"),
    )
    .order_by(_a.archived_at, _a.id)
    .with_for_update()
)
# A record that changed in the copy after the CRM was asked may be newer than the CRM's answer.
# Also the clocks of two machines differ.
_CLOCKS_MS = 1_000


@dataclass(frozen=True, slots=True)
class Copied:
    """`properties`: all, by the hub's names; `links`: the CRM's ids by the kinds whose links are
    known. `created_ms`: 0 if the CRM does not say."""

    crm_id: str
    properties: Mapping[str, str]
    url: str = ""
    created_ms: int = 0
    links: Mapping[Any, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """`newer`: the CRM's ids of records that changed in the copy after the CRM was asked.
    `left_out`: the values of new and changed records that the hub cannot hold."""

    left_out: int = 0
    newer: tuple[str, ...] = ()


def held(connection: Connection, catalogue: Catalogue, crm_ids: Iterable[str]) -> dict[str, int]:
    """Return the hub's ids of those records that the copy has, by the CRM's ids."""
    known = catalogue.get(ID)
    if known is None:
        return {}
    keys = {(known.prop_id, unique_key(id)): id for id in crm_ids}
    found = unique_values.holders(connection, catalogue.account_id, keys)
    return {keys[key]: id for key, id in found.items()}


def moments(connection: Connection, catalogue: Catalogue, crm_ids: Iterable[str]) -> dict[str, int]:
    """Return when the records of the copy changed last (ms since 1970), by the CRM's ids."""
    hub_ids = held(connection, catalogue, crm_ids)
    found = reading.read(connection, catalogue.account_id, catalogue.kind, [*hub_ids.values()])
    changed = {each.id: each.updated_at for each in found}
    return {crm_id: changed[id] for crm_id, id in hub_ids.items() if id in changed}


def names(catalogue: Catalogue) -> list[str]:
    """Return the names of the properties that the CRM is asked for."""
    return [one.name for one in catalogue if one.name not in (ID, URL)]


def stored(catalogue: Catalogue, record: Copied, region: str) -> tuple[dict[str, str], int]:
    """Return the properties as stored, and how many values the hub cannot hold."""
    kept = {ID: record.crm_id} | ({URL: record.url} if record.url else {})
    left_out = 0
    for name, text in record.properties.items():
        known = catalogue.get(name)
        if known is None or name in kept:
            continue
        value = _stored(known, text, region) if text else ""
        room = MAX_RECORD_LENGTH - sum(map(len, kept.values()))
        if value is None or len(value) > room:
            left_out += 1
        else:
            kept[name] = value
    return kept, left_out


def _stored(known: Property, text: str, region: str) -> str | None:
    try:
        return values.canonical(
            known.type,
            text,
            options=known.options,
            region=region or None,
            any_case=known.any_case,
        )
    except InvalidValue:
        return None if known.index != "ix_text" or known.type == "string" else _as_text(text)


def _as_text(text: str) -> str | None:
    try:
        return values.canonical("string", text)
    except InvalidValue:
        return None


def write(
    tx: Connection,
    catalogue: Catalogue,
    others: Mapping[str, Catalogue],
    records: Sequence[Copied],
    *,
    ids: Sequence[int],
    region: str,
    now: int,
    asked_at: int,
    before: Mapping[str, int] | None = None,
    sent: Mapping[str, str] | None = None,
) -> Result:
    """Create and change records of one kind, each once in `records`; an archived one is restored.

    `others`: the catalogues of all kinds. `asked_at`: when the CRM was asked for the records; a
    record that changed later in the copy stays as it is. `before`: the `moments` of the records
    just before the CRM was asked, which tell this exactly. `sent`: the properties that the hub has
    just written; what else changed meanwhile is the CRM's change, with an event of its own. None:
    all changes have the catalogue's source.
    """
    account, kind = catalogue.account_id, catalogue.kind
    hub_ids = held(tx, catalogue, [each.crm_id for each in records])
    locked = writing.locked(tx, catalogue, hub_ids.values(), writing.LOCK_TO_UPDATE)
    current = {each.id: each for each in locked}
    gone = _archived(tx, catalogue, {each.crm_id for each in records} - {*hub_ids}, now=now)
    free = iter(ids)
    index = IndexChange(catalogue)
    restored: list[Record] = []
    created: list[Changed] = []
    changed: list[tuple[Record, Record]] = []
    new: list[tuple[int, int, NewRecord]] = []
    newer: list[str] = []
    linked: dict[int, Copied] = {}
    left_out = 0
    for each in records:
        after, unheld = stored(catalogue, each, region)
        old = current.get(hub_ids.get(each.crm_id, 0))
        properties = {name: value for name, value in after.items() if value}
        if old is None and (row := gone.get(each.crm_id)) is not None:
            if row.archived_at > asked_at - _CLOCKS_MS:
                newer.append(each.crm_id)
                continue
            moment = max(now, row.updated_at + 1)
            index.add(row.id, {}, properties, at=moment)
            restored.append(Record(row.id, row.created_at, moment, row.version + 1, properties))
            linked[row.id] = each
            left_out += unheld
            continue
        if old is None:
            id = next(free)
            new.append((id, each.created_ms or now, NewRecord(properties)))
            index.add(id, {}, properties, at=now)
            created.append(Changed(id, now, {}, properties))
            linked[id] = each
            left_out += unheld
            continue
        if not each.url and URL in old.properties:
            # An adapter may have no time to find the address of a page.
            properties[URL] = old.properties[URL]
        if before is None:
            is_newer = old.updated_at > asked_at - _CLOCKS_MS
        else:
            is_newer = old.updated_at != before.get(each.crm_id)
        if is_newer and properties != old.properties:
            newer.append(each.crm_id)
            continue
        linked[old.id] = each
        if properties != old.properties:
            moment = max(now, old.updated_at + 1)
            index.add(old.id, old.properties, properties, at=moment)
            record = Record(old.id, old.created_at, moment, old.version + 1, properties)
            changed.append((old, record))
            left_out += unheld
    tx.delete("unique_value", UNIQUE, sorted(index.unique_gone))
    claims = sorted(index.unique_come)
    if tx.insert("unique_value", UNIQUE, claims, or_skip=True) < len(claims):
        raise Deadlocked("Another process has just copied one of these records; try again.")
    tx.insert(
        "records",
        writing.RECORD,
        [
            (account, kind.code, id, min(created_ms, now), now, 1,
             documents.dump(record.properties))
            for id, created_ms, record in new
        ],
    )  # fmt: skip
    index.write(tx)
    writing.rewrite(tx, catalogue, [after for _, after in sorted(changed, key=lambda c: c[0].id)])
    note_created(tx, catalogue, created, [])
    told = [
        Changed(r.id, r.updated_at, old.properties, r.properties)
        for old, r in changed
        # The address of a page may be known late, which is no change of the record.
        if {**old.properties, URL: ""} != {**r.properties, URL: ""}
    ]
    if sent is not None:
        between = [_before_write(catalogue, each, sent) for each in told]
        pairs = list(zip(told, between, strict=True))
        theirs = [one._replace(after=mid) for one, mid in pairs if mid != one.before]
        note_updated(tx, replace(catalogue, source="crm"), theirs)
        told = [one._replace(before=mid) for one, mid in pairs if mid != one.after]
    note_updated(tx, catalogue, told)
    _restore(tx, catalogue, restored)
    _link(tx, catalogue, others, linked, {id for id, _, _ in new}, now=now)
    if new or restored:
        tx.add(writing.counter(account, kind, len(new) + len(restored)))
    return Result(left_out, tuple(newer))


def _before_write(
    catalogue: Catalogue, record: Changed, sent: Mapping[str, str]
) -> Mapping[str, str]:
    """Return a record's properties as they were in the CRM before the hub wrote those of `sent`.

    The CRM computes a read-only property from what is written. It may also store a value under
    another name, and it keeps the parts of a name, or pipeline and stage, in agreement.
    """
    kind, before, after = catalogue.kind, record.before, record.after
    values = {*sent.values()}
    own = {*sent}
    for group in (_NAMES, {kind.pipeline, kind.stage}):
        own |= group if own & group else set()
    mixed = {
        name: before.get(name, "")
        if name in own
        or after.get(name) in values
        or (known := catalogue.get(name)) is None
        or known.read_only
        else after.get(name, "")
        for name in {**before, **after}
    }
    return {name: value for name, value in mixed.items() if value}


def _archived(
    tx: Connection, catalogue: Catalogue, crm_ids: Collection[str], *, now: int
) -> dict[str, Any]:
    """Lock the archived records with these ids of the CRM, and return them by these ids."""
    if not crm_ids:
        return {}
    of = {"account_id": catalogue.account_id, "kind": catalogue.kind.code}
    found = tx.rows(_ARCHIVED, {**of, "crm_ids": sorted(crm_ids), "after": now - ARCHIVED_MS})
    return {row.crm_id: row for row in found}


def _restore(tx: Connection, catalogue: Catalogue, records: Sequence[Record]) -> None:
    """Move records out of the archive, with their links to existing records."""
    for each in sorted(records, key=lambda record: record.id):
        writing.move_from_archive(tx, catalogue, each)
        links = associations.restore(tx, catalogue.account_id, catalogue.kind, each.id)
        come = [LinkChange(each.id, each.updated_at, to, [to_id]) for _, to, to_id in links]
        changed = Changed(each.id, each.updated_at, {}, each.properties)
        note_created(tx, catalogue, [changed], come, restored=True)


def _link(
    tx: Connection,
    catalogue: Catalogue,
    others: Mapping[str, Catalogue],
    records: Mapping[int, Copied],
    new: Collection[int],
    *,
    now: int,
) -> None:
    """Make the links of records those of the CRM; links to records that are not copied are left
    out. A link that changes touches the record, so that callers see it, unless it is `new`."""
    account, kind = catalogue.account_id, catalogue.kind
    told = {name for each in records.values() for name in each.links}
    wanted: set[tuple[int, Kind, int]] = set()
    for name in told:
        theirs = {crm_id for each in records.values() for crm_id in each.links.get(name, ())}
        ours = held(tx, others[name], theirs) if theirs else {}
        wanted |= {
            (id, KINDS[name], ours[crm_id])
            for id, each in records.items()
            for crm_id in each.links.get(name, ())
            if crm_id in ours and (kind.name, id) != (name, ours[crm_id])
        }
    if not told:
        return
    linked = associations.of_records(tx, account, kind, sorted(records))
    before = {one for one in associations.flat(linked) if one[1].name in records[one[0]].links}
    come = sorted(wanted - before, key=_order)
    gone = sorted(before - wanted, key=_order)
    if come:
        lost = {path for path, _ in associations.missing(tx, account, [
            (f"{id} {to.name} {to_id}", to, to_id) for id, to, to_id in come
        ])}  # fmt: skip
        come = [one for one in come if f"{one[0]} {one[1].name} {one[2]}" not in lost]
    associations.link(tx, account, kind, come)
    associations.remove(tx, account, kind, gone)
    created = [LinkChange(id, now, to, [to_id]) for id, to, to_id in come if id in new]
    note_links(tx, catalogue, created)
    come = [one for one in come if one[0] not in new]
    writing.touch_linked(tx, catalogue, come, now=now)
    writing.touch_linked(tx, catalogue, gone, now=now, added=False)


def _order(link: tuple[int, Kind, int]) -> tuple[int, int, int]:
    return link[0], link[1].code, link[2]


def remove(tx: Connection, catalogue: Catalogue, crm_ids: Iterable[str], *, now: int) -> int:
    """Archive the records that the CRM has no more; return how many the copy had."""
    ids = held(tx, catalogue, crm_ids).values()
    writing.archive(tx, catalogue, [(id, "") for id in sorted(ids)], now=now)
    return len(ids)


def merge(
    tx: Connection, catalogue: Catalogue, merged: Mapping[str, str], *, now: int
) -> dict[str, str]:
    """Archive records that were merged in the CRM; `merged`: the kept record's id by theirs.

    The kept record is written as any other. Return those pairs of which the copy had both.
    """
    account, kind = catalogue.account_id, catalogue.kind
    hub_ids = held(tx, catalogue, {*merged, *merged.values()})
    records = {each.id: each for each in writing.locked(tx, catalogue, hub_ids.values())}
    done: dict[str, str] = {}
    for other_id, kept_id in merged.items():
        other, kept = records.get(hub_ids.get(other_id, 0)), records.get(hub_ids.get(kept_id, 0))
        if other is None:
            continue
        if kept is None:
            writing.archive(tx, catalogue, [(other.id, "")], now=now)
            continue
        # A CRM may move the links of a merged record without a change of the records linked to it.
        links = associations.of_records(tx, account, kind, [other.id, kept.id])
        has = links.get(kept.id, {})
        moved = [
            (kept.id, KINDS[name], to_id)
            for name, ids in links.get(other.id, {}).items()
            for to_id in ids
            if (name, to_id) != (kind.name, kept.id) and to_id not in has.get(name, ())
        ]
        writing.archive(tx, replace(catalogue, event_routes=()), [(other.id, "")], now=now)
        associations.link(tx, account, kind, moved)
        note_merged(
            tx,
            catalogue,
            Changed(kept.id, now, kept.properties, kept.properties),
            Changed(other.id, max(now, other.updated_at + 1), other.properties, {}),
            [LinkChange(kept.id, now, to, [to_id]) for _, to, to_id in moved],
        )
        done[other_id] = kept_id
    return done
