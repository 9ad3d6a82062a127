"""Marks: unique texts that name a write which creates a record.

A mark is stored in the transaction that creates the record. If the write is repeated, the stored
mark keeps it from creating a second record.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, in_list, param, params
from crmhub.database.tables import mark as mark_table
from crmhub.properties.kinds import CONTACTS, Kind

# No record has this id: what stands under the mark was erased, or must never be created.
_NOTHING = 0

_mark = mark_table.c
_OF_ACCOUNT = _mark.account_id == param("account_id")
_OF_KIND = sa.and_(_OF_ACCOUNT, _mark.kind == param("kind"))
_KEEP = Statement(
    lambda insert: (
        insert(mark_table)
        .values(params("account_id", "mark", "kind", "record_id", "created_at"))
        .on_conflict_do_nothing()
    )
)
_KEPT = Statement(sa.select(_mark.record_id).where(_OF_ACCOUNT, _mark.mark == param("mark")))
_MADE = Statement(
    sa.select(_mark.record_id).where(
        _OF_KIND, _mark.record_id != _NOTHING, in_list(_mark.mark, "marks")
    )
)
_ERASE = Statement(
    sa.update(mark_table)
    .where(_OF_KIND, in_list(_mark.record_id, "ids"))
    .values(record_id=_NOTHING)
)
_FORGET_CLOSED = Statement(
    sa.delete(mark_table).where(
        _OF_ACCOUNT, _mark.mark < param("closed_before"), _mark.record_id == _NOTHING
    )
)


class AlreadyWritten(Exception):
    """Error: an earlier write with the same mark has created the record `record_id`.

    A mark is a text that names a write, so that a repeated write is recognised.
    """

    def __init__(self, record_id: int) -> None:
        super().__init__(f"written before as {record_id}")
        self.record_id = record_id


class Closed(Exception):
    """Error: the mark of a write is closed, so the write may create no record.

    A mark is a text that names a write. The mark is closed when the action that makes the write is
    discarded, or when the data of the human being that the write is about is erased.
    """


def keep(tx: Connection, account_id: int, mark: str, kind: Kind, record_id: int) -> None:
    """Store the mark of the write that creates the record `record_id`.

    `mark` is a text that names the write, so that a repeated write is recognised. Raises
    AlreadyWritten if an earlier write with this mark has created a record, and Closed if `close`
    was called for this mark.
    """
    key = {"account_id": account_id, "mark": mark}
    row = {"kind": kind.code, "record_id": record_id, "created_at": now_ms()}
    tx.run(_KEEP, key | row)
    kept: int = tx.scalar(_KEPT, key)
    if kept == _NOTHING:
        raise Closed
    if kept != record_id:
        raise AlreadyWritten(kept)


def close(tx: Connection, account_id: int, marks: Collection[str]) -> set[int]:
    """Close marks, so that writes with these marks create no records from now on.

    A mark is a text that names a write. Waits for running writes with these marks. Returns the ids
    of the contacts that were created with these marks before.
    """
    if not marks:
        return set()
    rows = [(account_id, mark, CONTACTS.code, _NOTHING, now_ms()) for mark in sorted(marks)]
    types = {"account_id": "int", "mark": "text", "kind": "int", "record_id": "bigint"}
    tx.insert("mark", types | {"created_at": "bigint"}, rows, or_skip=True)
    of = {"account_id": account_id, "kind": CONTACTS.code, "marks": sorted(marks)}
    return {row.record_id for row in tx.rows(_MADE, of)}


def erase(tx: Connection, account_id: int, kind: Kind, ids: Collection[int]) -> None:
    """Remove the ids of erased records from the marks of the writes that created these records.

    A mark is a stored text that names a write. The marks are closed: a repeated write with one of
    them creates no record.
    """
    if ids:
        tx.run(_ERASE, {"account_id": account_id, "kind": kind.code, "ids": sorted(ids)})


def forget(tx: Connection, marks: Sequence[tuple[int, str]], *, closed_before: str) -> None:
    """Delete stored marks that no write will use again.

    A mark is a text that names a write. `marks` contains pairs of account id and mark. For each
    account in these pairs, closed marks that sort before the text `closed_before` are deleted, too.
    """
    tx.delete("mark", {"account_id": "integer", "mark": "text"}, marks)
    for account_id in sorted({account for account, _ in marks}):
        tx.run(_FORGET_CLOSED, {"account_id": account_id, "closed_before": closed_before})
