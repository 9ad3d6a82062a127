"""Archived records: they are listed and can be restored for 90 days."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.expired import ARCHIVED_MS
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import archived_association, archived_record
from crmhub.errors import BadRequest, Conflict, NotFound
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import place, valid
from crmhub.records import associations, unique_values, writing
from crmhub.records.index import IndexChange
from crmhub.records.models import Record, parse_record
from crmhub.records.record_events import Changed, LinkChange, note_created
from crmhub.records.search.cursor import Cursor
from crmhub.records.search.page_reader import OF, PageReader
from crmhub.records.search.pages import Page, PageRequest
from crmhub.records.search.query import Listed, Place, Query

LISTING = "archived"
"""The `filters` of a cursor of archived records."""

_record = archived_record.c
_OF_KIND = sa.and_(_record.account_id == param("account_id"), _record.kind == param("kind"))
_LOCK = Statement(
    writing.select_records(archived_record)
    .where(_OF_KIND, _record.id == param("id"), _record.archived_at > param("after"))
    .with_for_update()
)
_ARCHIVED_AT = Statement(
    sa.select(_record.id, _record.archived_at, _record.updated_at).where(
        _OF_KIND, in_list(_record.id, "ids")
    )
)


# A page is sorted by one of the columns that it reads.
_BY_ARCHIVAL = (
    "(select account_id, kind, id, created_at, archived_at as updated_at, archived_at, properties,"
    f" updated_at as changed_at from archived_record where {OF}) as archived_record"
)


class _Reader(PageReader):
    table = "archived_record"

    def __init__(self, connection: Connection, account_id: int, kind: int, query: Query) -> None:
        self._source, columns = "archived_record", dict[str, str]()
        if query.sort == "archived_at":
            self._source, columns = _BY_ARCHIVAL, {"updated_at": "changed_at"}
            query = replace(query, sort="updated_at")
        super().__init__(connection, account_id, kind, query)
        tests = [f"{columns.get(name, name)} >= :{name}" for name, _ in query.since]
        self._where = " and ".join([OF, "archived_at > :oldest", *tests])

    def total(self) -> int:
        return int(
            self._connection.scalar(
                f"select count(*) from {self._source} where {self._where}", self._bounds()
            )
        )

    def page(self, total: int, after: Place | None) -> list[Listed]:
        behind, params = self._behind(after)
        source = f"{self._source} where {self._where}{behind}"
        return self._read(self._rows(source, params | self._bounds(), self._wanted))

    def _bounds(self) -> dict[str, Any]:
        return {**self._of, "oldest": now_ms() - ARCHIVED_MS, **dict(self._query.since)}


def page(
    connection: Connection, account_id: int, kind: Kind, request: PageRequest, signing_key: bytes
) -> Page:
    """Raises BadRequest for a cursor of another listing."""
    query, after = request.query, request.after
    if after is not None and (
        (after.sort, after.descending, after.filters) != (query.sort, query.descending, LISTING)
        or dict(after.since) != dict(query.since)
    ):
        raise BadRequest(
            "cursor: it belongs to a listing with another sort, order, updatedSince or"
            " createdSince, or not to one of archived records; send what its first request had, or"
            " start without a cursor"
        )
    reader = _Reader(connection, account_id, kind.code, query)
    total = reader.total() if after is None else after.total
    rows, more = reader.complete_page(total, None if after is None else Place(after.key, after.id))
    cursor = ""
    if more:
        last = reader.cursor_of(rows[-1])
        cursor = Cursor(
            account_id=account_id,
            kind=kind.code,
            sort=query.sort,
            descending=query.descending,
            limit=query.limit,
            properties=request.properties,
            include=request.include,
            filters=LISTING,
            total=total,
            started=now_ms() if after is None else after.started,
            key=last.key,
            id=last.id,
            since=query.since,
        ).seal(signing_key)
    ids = [row.id for row in rows]
    of = {"account_id": account_id, "kind": kind.code, "ids": ids}
    moments = {row.id: row for row in connection.rows(_ARCHIVED_AT, of)}
    archived_at = {id: row.archived_at for id, row in moments.items()}
    links = {}
    if "associations" in request.include:
        links = associations.of_records(
            connection, account_id, kind, ids, table=archived_association
        )
    # A record that was restored since it was read is left out.
    rows = [
        row._replace(updated_at=moments[row.id].updated_at) for row in rows if row.id in moments
    ]
    return Page(total, rows, links, cursor, archived_at)


def locked(tx: Connection, catalogue: Catalogue, id: int, *, after: int = 0) -> Record | None:
    """Lock an archived record until the transaction ends; None if none was archived `after`."""
    of = {"account_id": catalogue.account_id, "kind": catalogue.kind.code, "id": id}
    row = tx.row(_LOCK, of | {"after": after})
    return None if row is None else parse_record(row)


def restore(
    tx: Connection, catalogue: Catalogue, id: int, *, now: int, quota: int | None
) -> Record:
    """Bring back a record with its valid values and its links to existing records.

    The caller holds the account's exclusive lock: of two linked records that are restored at once,
    neither would see the other. Raises NotFound; Conflict for a record that is not archived, or
    whose stage was deleted; DuplicateValue; and LimitExceeded beyond the `quota` (None: no limit).
    """
    account, kind = catalogue.account_id, catalogue.kind
    record = locked(tx, catalogue, id, after=now - ARCHIVED_MS)
    if record is None and writing.locked(tx, catalogue, [id]):
        raise Conflict(f"The {kind.singular} {id} is not archived; there is nothing to restore.")
    if record is None:
        raise NotFound(f"There is no archived {kind.singular} {id}.")
    properties = valid(catalogue, record.properties)
    if kind.pipeline:
        _require_place(catalogue, record, properties)
    moment = max(now, record.updated_at + 1)
    index = IndexChange(catalogue)
    index.add(id, {}, properties, at=moment)
    unique_values.claim(tx, catalogue, index, {id: ""})
    index.write(tx)
    restored = Record(id, record.created_at, moment, record.version + 1, properties)
    writing.move_from_archive(tx, catalogue, restored)
    links = associations.restore(tx, account, kind, id)
    if catalogue.event_routes:
        come = [LinkChange(id, moment, to, [to_id]) for _, to, to_id in links]
        note_created(tx, catalogue, [Changed(id, moment, {}, properties)], come, restored=True)
    total = tx.add(writing.counter(account, kind, 1, quota))
    if quota is not None:
        writing.require_room(tx, catalogue, total, 1, quota)
    linked = associations.of_records(tx, account, kind, [id])
    return replace(restored, associations=linked.get(id, {}))


def _require_place(catalogue: Catalogue, record: Record, properties: dict[str, str]) -> None:
    """A deal or ticket must not appear in another stage than it was in: raise Conflict."""
    kind = catalogue.kind
    lost = [
        name
        for name in (kind.pipeline, kind.stage)
        if name in record.properties and name not in properties
    ]
    lost += [name for name, _ in place(catalogue, properties, changed={})]
    if lost:
        value = record.properties.get(lost[0], "")
        raise Conflict(
            f"The {kind.singular} {record.id} cannot be restored: its {lost[0]} {value!r} does not"
            f" exist any more. Add it to the pipelines again, or create a new {kind.singular}."
        )
