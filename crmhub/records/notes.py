"""The notes of stored records: listed in pages, added with their event, and deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import BadRequest, Conflict, NotFound
from crmhub.properties import catalogue as catalogues
from crmhub.properties.kinds import Kind
from crmhub.records import associations, copied, timeline, writing
from crmhub.records.search.cursor import Cursor
from crmhub.records.store import RecordStore
from crmhub.records.timeline import NOTES, OWN, Added


def listed(
    records: RecordStore,
    account: Account,
    kind: Kind,
    id: int,
    *,
    limit: int,
    after: Cursor | None,
) -> tuple[int, list[Any], str]:
    """Return total, notes (the newest first), and next cursor ("" on the last page).

    Raises NotFound, and BadRequest for another listing's cursor.
    """
    listing = f"notes:{id}"
    of = (account.id, *_place(records, account, kind, id))
    if after is not None and after.filters != listing:
        raise BadRequest("cursor: it belongs to another listing; start without a cursor")
    with records.database.reading() as connection:
        total = timeline.count(connection, *of) if after is None else after.total
        before = None if after is None else (after.key, after.id)
        rows, more = timeline.page(connection, *of, before=before, most=limit)
    cursor = ""
    if more:
        cursor = Cursor(
            account_id=account.id,
            kind=kind.code,
            sort="at",
            descending=True,
            limit=limit,
            properties=None,
            include=(),
            filters=listing,
            total=total,
            started=now_ms() if after is None else after.started,
            key=rows[-1].at,
            id=rows[-1].id,
        ).seal(records.signing_key)
    return total, rows, cursor


def add(records: RecordStore, account: Account, note: Added) -> Any:
    """Add a note to one of the hub's own records, and return it; an `at` of 0 is now.

    Raises NotFound.
    """
    kind, id = note.kind, int(note.record_id)
    added = replace(note, at=note.at or now_ms())

    def add_note(tx: Connection) -> Any:
        version, _ = catalogues.hold(tx, account.id)
        known = records.catalogues.get(account.id, kind, version=version)
        account.require_own_records(is_copy=known.is_copy)
        if not associations.hold(tx, account.id, kind, [id]):
            raise NotFound(writing.missing(kind, id))
        entry_id = timeline.add(tx, account, added)
        timeline.record_event(tx, account, entry_id, added)
        [entry] = timeline.entries(tx, account.id, [entry_id])
        return entry

    return records.database.transact(add_note)


def delete(records: RecordStore, account: Account, kind: Kind, id: int, note_id: int) -> None:
    """Raises NotFound, and Conflict for a note that stands in the account's CRM."""
    connection_id, _, record_id = _place(records, account, kind, id)

    def delete_note(tx: Connection) -> None:
        found = timeline.entries(tx, account.id, [note_id])
        held = [(one.connection_id, one.kind, one.record_id) for one in found if one.type in NOTES]
        if held != [(connection_id, kind.code, record_id)]:
            raise NotFound(f"{kind.singular.capitalize()} {id} has no note {note_id}.")
        if connection_id != OWN:
            where = account.connection.adapter
            raise Conflict(f"The note stands in the account's CRM ({where}); delete it there.")
        timeline.delete(tx, account.id, note_id)

    records.database.transact(delete_note)


def _place(records: RecordStore, account: Account, kind: Kind, id: int) -> tuple[int, Kind, str]:
    """Return where the notes of a record are: its connection, kind, and id; raises NotFound."""
    record = records.get(account, kind, id)
    if account.switches.mirror:
        return account.connection.id, kind, record.properties[copied.ID]
    return OWN, kind, str(id)
