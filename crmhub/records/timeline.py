"""The notes and tasks of records: those of the hub's own records, and those sent to a CRM.

An entry names its record by the record's id in the CRM of a connection, or by the hub's own id with
the connection `OWN`. The notes that people write in a CRM are not here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.bounds import MAX_PAGE_BYTES
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import delete_where, find_row, insert_row, set_where
from crmhub.database.statements import Statement, equals, in_list, param
from crmhub.database.tables import timeline_entry
from crmhub.events.event_types import NOTE_CREATED
from crmhub.events.recording import Event, record_events, wants
from crmhub.properties.kinds import CONTACTS, Kind
from crmhub.records import ids
from crmhub.records.search.filters import iso

NOTE, TRANSCRIPT, TASK = "note", "transcript", "task"
NOTES = (NOTE, TRANSCRIPT)
OWN = 0
# The number under which blocks of ids are reserved, as kinds of records have theirs.
_KIND = 9
_MOST = 100

_e = timeline_entry.c
_OF_KIND = sa.and_(*equals(timeline_entry, "account_id", "connection_id", "kind"))
_OF_RECORD = sa.and_(_OF_KIND, _e.record_id == param("record_id"))
_OF_RECORDS = sa.and_(_OF_KIND, in_list(_e.record_id, "record_ids"))
_IS_NOTE = _e.type != sa.literal_column(f"'{TASK}'")
_NEWEST = (_e.at.desc(), _e.id.desc())
_COUNT = Statement(sa.select(sa.func.count()).where(_OF_RECORD, _IS_NOTE))
_PAGE = Statement(
    sa.select(_e.id, sa.func.length(_e.text).label("length"))
    .where(
        _OF_RECORD,
        _IS_NOTE,
        sa.or_(_e.at < param("at"), sa.and_(_e.at == param("at"), _e.id < param("id"))),
    )
    .order_by(*_NEWEST)
    .limit(param("most"))
)
_ENTRIES = Statement(
    sa.select(timeline_entry)
    .where(_e.account_id == param("account_id"), in_list(_e.id, "ids"))
    .order_by(*_NEWEST)
)
_ALL = Statement(
    sa.select(timeline_entry)
    .where(_e.account_id == param("account_id"), _e.id > param("after"))
    .order_by(_e.id)
    .limit(param("most"))
)
_TOTAL = Statement(sa.select(sa.func.count()).where(_e.account_id == param("account_id")))
_LATEST = Statement(sa.select(timeline_entry).where(_OF_RECORDS).order_by(*_NEWEST).limit(_MOST))
_IDS = Statement(sa.select(_e.id).where(_OF_RECORD).order_by(_e.id))
_MOVE = Statement(
    sa.update(timeline_entry)
    .where(_OF_RECORD, in_list(_e.id, "ids"))
    .values(record_id=param("to_id"))
)
_ERASE = Statement(sa.delete(timeline_entry).where(_OF_RECORDS))


@dataclass(frozen=True, slots=True)
class Added:
    """A note or task for a record; `at` is in ms since 1970. `properties`: of a task."""

    connection_id: int
    kind: Kind
    record_id: str
    type: str
    text: str = field(repr=False)
    at: int
    author: str = ""
    crm_id: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def add(tx: Connection, account: Account, added: Added, *, mark: str = "") -> int:
    """Return the id of the new entry; the entry with this mark is replaced."""
    content = {
        "type": added.type,
        "text": added.text,
        "author": added.author,
        "properties": json.dumps(dict(added.properties), ensure_ascii=False),
        "crm_id": added.crm_id,
    }
    if mark:
        key = {"account_id": account.id, "mark": mark}
        if (earlier := find_row(tx, timeline_entry, key)) is not None:
            set_where(tx, timeline_entry, key, **content)
            found: int = earlier.id
            return found
    id = ids.reserve(tx, account.id, _KIND, 1)
    row = {
        "account_id": account.id,
        "id": id,
        "connection_id": added.connection_id,
        "kind": added.kind.code,
        "record_id": added.record_id,
        "at": added.at,
        "mark": mark or None,
        "created_at": now_ms(),
    }
    insert_row(tx, timeline_entry, row | content)
    return id


def record_event(tx: Connection, account: Account, id: int, added: Added) -> None:
    """Store the event of a new note."""
    if added.type not in NOTES or not wants(account.event_routes, NOTE_CREATED):
        return
    note = {"text": added.text, "kind": added.type, "author": added.author}
    data = {
        "id": id,
        "properties": {**note, "at": iso(added.at), "crmId": added.crm_id},
        "changed": [],
        "previous": {},
        "record": {"resource": added.kind.name, "id": added.record_id},
    }
    subject = subject_of(added.connection_id, added.kind, added.record_id)
    event = Event(NOTE_CREATED, subject, now_ms(), data)
    record_events(tx, account.id, account.event_routes, [event])


def subject_of(connection_id: int, kind: Kind, record_id: str) -> str:
    """Return the subject of the events of a record's notes."""
    if connection_id == OWN:
        return f"{kind.name}:{record_id}"
    # As events of calls for a contact of a CRM have it.
    return f"{'calls' if kind is CONTACTS else kind.name}:{connection_id}:{record_id}"


def _of(account_id: int, connection_id: int, kind: Kind) -> dict[str, Any]:
    return {"account_id": account_id, "connection_id": connection_id, "kind": kind.code}


def count(
    connection: Connection, account_id: int, connection_id: int, kind: Kind, record_id: str
) -> int:
    """Return the number of a record's notes."""
    of = _of(account_id, connection_id, kind) | {"record_id": record_id}
    n: int = connection.scalar(_COUNT, of)
    return n


def page(
    connection: Connection,
    account_id: int,
    connection_id: int,
    kind: Kind,
    record_id: str,
    *,
    before: tuple[int, int] | None,
    most: int,
) -> tuple[list[Any], bool]:
    """Return a record's notes, the newest first, and whether there are more.

    They come from behind the one `before` (its `at` and id); their texts limit the page, too.
    """
    at, id = before or (2**62, 0)
    of = _of(account_id, connection_id, kind) | {"record_id": record_id}
    rows = connection.rows(_PAGE, of | {"at": at, "id": id, "most": most + 1})
    ids, room = list[int](), MAX_PAGE_BYTES
    for row in rows[:most]:
        room -= row.length
        if ids and room < 0:
            break
        ids.append(row.id)
    return entries(connection, account_id, ids), len(rows) > len(ids)


def entries(connection: Connection, account_id: int, ids: Collection[int]) -> list[Any]:
    """Return the notes and tasks with these ids, the newest first."""
    return connection.rows(_ENTRIES, {"account_id": account_id, "ids": ids}) if ids else []


def total(connection: Connection, account_id: int) -> int:
    """Return the number of all notes and tasks of an account."""
    n: int = connection.scalar(_TOTAL, {"account_id": account_id})
    return n


def after(connection: Connection, account_id: int, id: int, *, most: int) -> list[Any]:
    """Return the notes and tasks of an account with ids above this one, in their order."""
    return connection.rows(_ALL, {"account_id": account_id, "after": id, "most": most})


def with_mark(connection: Connection, account_id: int, mark: str) -> Any | None:
    return find_row(connection, timeline_entry, {"account_id": account_id, "mark": mark})


def latest(
    connection: Connection,
    account_id: int,
    connection_id: int,
    kind: Kind,
    record_ids: Collection[str],
) -> list[Any]:
    """Return the newest notes and tasks of records, at most 100."""
    of = _of(account_id, connection_id, kind) | {"record_ids": sorted(record_ids)}
    return connection.rows(_LATEST, of) if record_ids else []


def delete(tx: Connection, account_id: int, id: int) -> None:
    delete_where(tx, timeline_entry, {"account_id": account_id, "id": id})


def move(
    tx: Connection, account_id: int, connection_id: int, kind: Kind, record_id: str, to_id: str
) -> list[int]:
    """Give a record the notes and tasks of one that is merged into it; return their ids."""
    of = _of(account_id, connection_id, kind) | {"record_id": record_id, "to_id": to_id}
    moved = [row.id for row in tx.rows(_IDS, of)]
    if moved:
        tx.run(_MOVE, of | {"ids": moved})
    return moved


def move_back(
    tx: Connection,
    account_id: int,
    connection_id: int,
    kind: Kind,
    record_id: str,
    to_id: str,
    ids: Collection[int],
) -> None:
    """Undo `move`: give the record `to_id` back the entries `ids`."""
    of = _of(account_id, connection_id, kind) | {"record_id": record_id, "to_id": to_id}
    if ids:
        tx.run(_MOVE, of | {"ids": ids})


def erase(
    tx: Connection, account_id: int, connection_id: int, kind: Kind, record_ids: Collection[str]
) -> None:
    if record_ids:
        of = _of(account_id, connection_id, kind) | {"record_ids": sorted(record_ids)}
        tx.run(_ERASE, of)
