"""Names of writes, kept with what they made, so that a write sent again makes nothing twice."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from crmhub.database.connection import Connection, now_ms
from crmhub.properties.kinds import CONTACTS, Kind

# No record has this id: what stands under the mark was erased, or must never be created.
_NOTHING = 0


class AlreadyWritten(Exception):
    """A record was made under this mark before; `record_id` is its id."""

    def __init__(self, record_id: int) -> None:
        super().__init__(f"written before as {record_id}")
        self.record_id = record_id


class Closed(Exception):
    """Nothing is created under this mark: its person was erased, or its action discarded."""


def keep(tx: Connection, account_id: int, mark: str, kind: Kind, record_id: int) -> None:
    """Note under which mark a record is made; raises AlreadyWritten when one was.

    Raises Closed for a mark that `close` was called for.
    """
    of = {"account": account_id, "mark": mark, "kind": kind.code}
    tx.run(
        "insert into mark (account_id, mark, kind, record_id, created_at)"
        " values (:account, :mark, :kind, :record, :now) on conflict do nothing",
        of | {"record": record_id, "now": now_ms()},
    )
    kept: int = tx.scalar(
        "select record_id from mark where account_id = :account and mark = :mark", of
    )
    if kept == _NOTHING:
        raise Closed
    if kept != record_id:
        raise AlreadyWritten(kept)


def close(tx: Connection, account_id: int, marks: Collection[str]) -> set[int]:
    """Let nothing be made under these marks from now on; return the contacts that were.

    A write under one of them that is under way is waited for.
    """
    if not marks:
        return set()
    rows = [(account_id, mark, CONTACTS.code, _NOTHING, now_ms()) for mark in sorted(marks)]
    types = {"account_id": "int", "mark": "text", "kind": "int", "record_id": "bigint"}
    tx.insert("mark", types | {"created_at": "bigint"}, rows, or_skip=True)
    among, params = tx.among("mark", "marks", sorted(marks))
    made = tx.rows(
        "select record_id from mark where account_id = :account and kind = :kind"
        f" and record_id <> {_NOTHING} and {among}",
        {"account": account_id, "kind": CONTACTS.code, **params},
    )
    return {row[0] for row in made}


def erase(tx: Connection, account_id: int, kind: Kind, ids: Collection[int]) -> None:
    """Let the marks of these records, which are going, tell of them no more; they stay closed."""
    if ids:
        among, params = tx.among("record_id", "ids", sorted(ids))
        tx.run(
            f"update mark set record_id = {_NOTHING}"
            f" where account_id = :account and kind = :kind and {among}",
            {"account": account_id, "kind": kind.code, **params},
        )


def forget(tx: Connection, marks: Sequence[tuple[int, str]], *, closed_before: str) -> None:
    """Delete marks, given with their accounts' ids, that nothing is written under any more.

    Of these accounts it deletes what was closed and sorts before `closed_before`, too.
    """
    tx.delete("mark", {"account_id": "integer", "mark": "text"}, marks)
    if marks:
        among, params = tx.among("account_id", "ids", sorted({account for account, _ in marks}))
        tx.run(
            f"delete from mark where {among} and mark < :before and record_id = {_NOTHING}",
            {"before": closed_before, **params},
        )
