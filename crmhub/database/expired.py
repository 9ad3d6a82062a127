"""What the database deletes after some time: one row for each kind of data, and one way to delete.

Failed and blocked actions stay, since an operator must decide on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.several_accounts import AvailableRows, Only
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.database.tables import (
    action,
    archived_association,
    archived_record,
    connect_request,
    connection,
    crm_definition,
    csv_import,
    event,
    event_delivery,
    group_fix,
    idempotency,
    import_job,
    mark,
    past_connection,
    possible_duplicate,
    timeline_entry,
)
from crmhub.secrets import time_digits

_DAY_MS = 86_400_000
ACTIONS_MS = 30 * _DAY_MS
ANSWERS_MS = _DAY_MS
ARCHIVED_MS = 90 * _DAY_MS
UNMERGE_MS = 30 * _DAY_MS
PAST_CONNECTIONS_MS = 30 * _DAY_MS
CRM_DEFINITIONS_MS = 7 * _DAY_MS
_FAILED_EVENTS_MS = 30 * _DAY_MS
BATCH = 1_000
"""The most rows that are deleted at once, so that other writers are not delayed."""

# A worker or an operator may still finish these actions in the former CRM.
_HAS_UNFINISHED = (
    sa.exists()
    .where(
        action.c.account_id == past_connection.c.account_id,
        action.c.connection_id == past_connection.c.connection_id,
        one_of(action.c.state, "running", "queued", "dead", "parked"),
    )
    .correlate(past_connection)
)
# Marks of erased records, which no action needs any more.
_DELETE_CLOSED_MARKS = Statement(
    sa.delete(mark).where(
        mark.c.account_id == param("account_id"),
        mark.c.mark < param("before"),
        mark.c.record_id == sa.literal_column("0"),
    )
)
_DELETE_UNUSED_EVENTS = Statement(
    sa.delete(event).where(
        event.c.account_id == param("account_id"),
        in_list(event.c.id, "ids"),
        sa.not_(
            sa.exists(
                sa.select(sa.literal_column("1")).where(
                    event_delivery.c.account_id == param("account_id"),
                    event_delivery.c.event_id == event.c.id,
                )
            )
        ),
    )
)


def _delete_closed_marks(tx: Connection, rows: Sequence[Row], before: int) -> None:
    for account_id in sorted({account_id for account_id, _ in rows}):
        closed = {"account_id": account_id, "before": f"act-{time_digits(before)}"}
        tx.run(_DELETE_CLOSED_MARKS, closed)


def _delete_archived_parts(tx: Connection, rows: Sequence[Row], before: int) -> None:
    """Of archived records, by their keys: links in both directions, notes and tasks."""
    table = archived_association.name
    ends = {"account_id": "int", "from_kind": "int", "from_id": "bigint"}
    types = {**ends, "to_kind": "int", "to_id": "bigint"}
    links = {tuple(row) for row in tx.matching(table, types, ends, rows)}
    back = {(row[0], *row[3:], *row[1:3]) for row in links}
    tx.delete(table, types, sorted(links | back))
    place = {"account_id": "int", "connection_id": "int", "kind": "int", "record_id": "text"}
    # Connection 0: of the hub's own records.
    entries = [(account_id, 0, kind, str(id)) for account_id, kind, id in rows]
    tx.delete(timeline_entry.name, place, entries)


def _empty_connections(tx: Connection, rows: Sequence[Row], before: int) -> None:
    values = {"settings": "text", "credentials": "text", "field_map": "text"}
    emptied = [("{}", "", "{}", *row) for row in rows]
    tx.update(connection.name, values, {"account_id": "int", "id": "int"}, emptied)


def _delete_unused_events(tx: Connection, rows: Sequence[Row], before: int) -> None:
    ids = defaultdict(set)
    for account_id, event_id, _ in rows:
        ids[account_id].add(event_id)
    for account_id, own in sorted(ids.items()):
        tx.run(_DELETE_UNUSED_EVENTS, {"account_id": account_id, "ids": sorted(own)})


@dataclass(frozen=True, slots=True)
class Expiry:
    """Rows are deleted `kept_ms` after `date`, those of `only` alone if it is given.

    `parts`: tables whose rows go with them, and the column that holds their id. `empties`: a column
    that is set to null; the row itself stays. `then` gets the keys of the deleted rows, and the
    time before which they were too old, in the same transaction.
    """

    date: sa.Column[Any]
    kept_ms: int
    only: sa.ColumnElement[bool] | None = None
    parts: tuple[tuple[str, str], ...] = ()
    empties: str = ""
    then: Callable[[Connection, Sequence[Row], int], None] | None = None


ACTIONS = Expiry(
    action.c.finished_at,
    ACTIONS_MS,
    one_of(action.c.state, "done", "refused", "discarded"),
    parts=(("action_try", "action_id"), ("mark", "mark"), ("team_assignment", "action_id")),
    then=_delete_closed_marks,
)
# Those of records in a CRM, which has them.
CRM_NOTES = Expiry(
    timeline_entry.c.created_at,
    ACTIONS_MS,
    timeline_entry.c.connection_id != sa.literal_column("0"),
)
ANSWERS = Expiry(idempotency.c.created_at, ANSWERS_MS)
ARCHIVED = Expiry(archived_record.c.archived_at, ARCHIVED_MS, then=_delete_archived_parts)
UNDO_OF_MERGES = Expiry(
    possible_duplicate.c.decided_at,
    UNMERGE_MS,
    possible_duplicate.c.undo.is_not(None),
    empties="undo",
)
IMPORTS = Expiry(import_job.c.changed_at, 7 * _DAY_MS, parts=(("import_part", "job_id"),))
FIXES = Expiry(group_fix.c.changed_at, 7 * _DAY_MS)
# Until then, a file that was imported is not imported again by mistake.
IMPORTED_FILES = Expiry(csv_import.c.changed_at, 90 * _DAY_MS)
PAST_CONNECTIONS = Expiry(
    past_connection.c.left_at, PAST_CONNECTIONS_MS, ~_HAS_UNFINISHED, then=_empty_connections
)
# A day longer than they are valid, so that people learn that a link was used or is over.
CONNECT_REQUESTS = Expiry(connect_request.c.expires_at, _DAY_MS)
CRM_DEFINITIONS = Expiry(crm_definition.c.loaded_at, CRM_DEFINITIONS_MS)
DELIVERED_EVENTS = Expiry(
    event_delivery.c.finished_at,
    7 * _DAY_MS,
    one_of(event_delivery.c.state, "delivered"),
    then=_delete_unused_events,
)
FAILED_EVENTS = Expiry(
    event_delivery.c.finished_at,
    _FAILED_EVENTS_MS,
    sa.not_(one_of(event_delivery.c.state, "delivered")),
    then=_delete_unused_events,
)
# Events whose subscription was deleted.
UNUSED_EVENTS = Expiry(
    event.c.created_at, 2 * _FAILED_EVENTS_MS, parts=(("event_delivery", "event_id"),)
)
EXPIRIES = (
    ACTIONS,
    CRM_NOTES,
    ANSWERS,
    ARCHIVED,
    UNDO_OF_MERGES,
    IMPORTS,
    FIXES,
    IMPORTED_FILES,
    PAST_CONNECTIONS,
    CONNECT_REQUESTS,
    CRM_DEFINITIONS,
    DELIVERED_EVENTS,
    FAILED_EVENTS,
    UNUSED_EVENTS,
)


def delete_expired(
    database: Database, expiry: Expiry, *, now: int | None = None, most: int = BATCH
) -> int:
    """Delete up to `most` expired rows, the oldest first; return how many were found.

    A row whose date has changed meanwhile stays, such as that of an action being retried.
    """
    table, date = expiry.date.table, expiry.date
    before = (now_ms() if now is None else now) - expiry.kept_ms
    found = _find(database, expiry, before, most)
    if not found:
        return 0
    columns = [*table.primary_key, date]
    types = {each.name: "text" if isinstance(each.type, sa.Text) else "bigint" for each in columns}

    def delete(tx: Connection) -> None:
        if expiry.empties:
            rows = [(None, *row) for row in found]
            tx.update(table.name, {expiry.empties: "text"}, types, rows)
            return
        keys = [row[:-1] for row in tx.delete_and_return(table.name, types, found)]
        for part, id in expiry.parts:
            tx.delete(part, {"account_id": "int", id: "text"}, keys)
        if expiry.then and keys:
            expiry.then(tx, keys, before)

    database.transact(delete)
    return len(found)


def _find(database: Database, expiry: Expiry, before: int, most: int) -> list[Row]:
    """Return primary keys and dates. Citus cannot lock rows of several accounts at once."""
    key, date = expiry.date.table.primary_key, expiry.date

    def build(only: Only) -> sa.Select[Any]:
        found = sa.select(*key, date).where(date <= param("before"), only(date.table))
        found = found if expiry.only is None else found.where(expiry.only)
        return found.order_by(date).limit(param("most"))

    found = AvailableRows(build).read(database, {"before": before, "most": most})
    return [tuple(row) for row in found]
