"""Marks: texts that keep a repeated write from creating a second record."""

from __future__ import annotations

from collections.abc import Collection

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


class AlreadyWritten(Exception):
    """An earlier write with the same mark has created the record `record_id`."""

    def __init__(self, record_id: int) -> None:
        super().__init__(f"written before as {record_id}")
        self.record_id = record_id


class Closed(Exception):
    """The write may create no record: its action was discarded, or the person's data erased."""


def keep(tx: Connection, account_id: int, mark: str, kind: Kind, record_id: int) -> None:
    """Raises AlreadyWritten or Closed."""
    key = {"account_id": account_id, "mark": mark}
    row = {"kind": kind.code, "record_id": record_id, "created_at": now_ms()}
    tx.run(_KEEP, key | row)
    kept: int = tx.scalar(_KEPT, key)
    if kept == _NOTHING:
        raise Closed
    if kept != record_id:
        raise AlreadyWritten(kept)


def close(tx: Connection, account_id: int, marks: Collection[str]) -> set[int]:
    """Writes with these marks create no records any more. Waits for running writes.

    Returns the ids of the contacts that were created with these marks before.
    """
    if not marks:
        return set()
    rows = [(account_id, mark, CONTACTS.code, _NOTHING, now_ms()) for mark in sorted(marks)]
    types = {"account_id": "int", "mark": "text", "kind": "int", "record_id": "bigint"}
    tx.insert("mark", types | {"created_at": "bigint"}, rows, or_skip=True)
    of = {"account_id": account_id, "kind": CONTACTS.code, "marks": sorted(marks)}
    return {row.record_id for row in tx.rows(_MADE, of)}


def erase(tx: Connection, account_id: int, kind: Kind, ids: Collection[int]) -> None:
    """Remove the ids of erased records from their marks, and close these."""
    if ids:
        tx.run(_ERASE, {"account_id": account_id, "kind": kind.code, "ids": sorted(ids)})
