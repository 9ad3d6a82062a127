"""The events of changed records, each stored in the transaction of its change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from crmhub.database.connection import Connection
from crmhub.events.event_types import ASSOCIATION_CHANGED, STAGE_CHANGED
from crmhub.events.recording import Event, record_events, wants
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind


class Changed(NamedTuple):
    id: int
    at: int
    before: Mapping[str, str]
    after: Mapping[str, str]


class LinkChange(NamedTuple):
    """`at` is in ms since 1970."""

    id: int
    at: int
    to: Kind
    to_ids: Sequence[int]
    added: bool = True


def subject_of(kind: Kind, id: int) -> str:
    return f"{kind.name}:{id}"


def wants_created(catalogue: Catalogue) -> bool:
    return wants(catalogue.event_routes, f"{catalogue.kind.singular}.created")


def note_created(
    tx: Connection,
    catalogue: Catalogue,
    records: Iterable[Changed],
    links: Iterable[LinkChange] = (),
    *,
    restored: bool = False,
) -> None:
    kind = catalogue.kind
    more: dict[str, Any] = {"restored": True} if restored else {}
    created = (_event(kind, "created", each, **more) for each in records)
    linked = (_link_event(kind, each) for each in links)
    _record(tx, catalogue, [*created, *linked])


def _record(tx: Connection, catalogue: Catalogue, events: Iterable[Event]) -> None:
    if catalogue.source:
        events = [replace(each, data={**each.data, "source": catalogue.source}) for each in events]
    record_events(tx, catalogue.account_id, catalogue.event_routes, events)


def note_updated(tx: Connection, catalogue: Catalogue, records: Iterable[Changed]) -> None:
    """A changed stage gets a further event."""
    if not catalogue.event_routes:
        return
    events = [event for each in records for event in _update_events(catalogue.kind, each)]
    _record(tx, catalogue, events)


def _update_events(kind: Kind, record: Changed) -> Iterator[Event]:
    yield _event(kind, "updated", record)
    if kind.stage and record.before.get(kind.stage) != record.after.get(kind.stage):
        yield _event(kind, STAGE_CHANGED, record, only=(kind.stage, kind.pipeline))


def note_archived(tx: Connection, catalogue: Catalogue, records: Iterable[Changed]) -> None:
    if not catalogue.event_routes:
        return
    events = [_archived(catalogue.kind, each) for each in records]
    _record(tx, catalogue, events)


def _archived(kind: Kind, record: Changed, **more: Any) -> Event:
    data = {"id": record.id, "properties": record.before, "changed": [], "previous": {}}
    return Event(
        f"{kind.singular}.archived", subject_of(kind, record.id), record.at, {**data, **more}
    )


def note_merged(
    tx: Connection,
    catalogue: Catalogue,
    kept: Changed,
    other: Changed,
    links: Iterable[LinkChange],
) -> None:
    """Also store events for the links that the kept record got."""
    if not catalogue.event_routes:
        return
    kind = catalogue.kind
    events = [
        _event(kind, "merged", kept, mergedId=other.id),
        _archived(kind, other, mergedInto=kept.id),
        *(_link_event(kind, each) for each in links),
    ]
    _record(tx, catalogue, events)


def note_links(tx: Connection, catalogue: Catalogue, links: Iterable[LinkChange]) -> None:
    routes = catalogue.event_routes
    if wants(routes, ASSOCIATION_CHANGED):
        events = [_link_event(catalogue.kind, each) for each in links]
        _record(tx, catalogue, events)


def _link_event(kind: Kind, link: LinkChange) -> Event:
    data = {
        "id": link.id,
        "properties": {},
        "changed": [link.to.name],
        "previous": {},
        "object": kind.name,
        "associations": {link.to.name: {"added" if link.added else "removed": [*link.to_ids]}},
    }
    return Event(ASSOCIATION_CHANGED, subject_of(kind, link.id), link.at, data)


def _event(
    kind: Kind, what: str, record: Changed, *, only: Sequence[str] = (), **more: Any
) -> Event:
    before, after = record.before, record.after
    changed = sorted(
        name
        for name in {**before, **after}
        if before.get(name, "") != after.get(name, "") and (not only or name in only)
    )
    data = {
        "id": record.id,
        "properties": after,
        "changed": changed,
        "previous": {name: before.get(name, "") for name in changed} if before else {},
    }
    return Event(
        f"{kind.singular}.{what}", subject_of(kind, record.id), record.at, {**data, **more}
    )
