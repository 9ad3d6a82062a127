"""Once a day, find by their ids the records that only the CRM or only the copy has.

What only one of them has is read again; what the CRM then lacks, is archived. A CRM that suddenly
lacks much is rather a token that lost rights: nothing is then archived before an operator accepts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from crmhub.adapter import Adapter
from crmhub.crm.copied_definitions import contract_kind
from crmhub.crm.copy_turns import Turn
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, equals, param
from crmhub.database.tables import crm_copy_seen, unique_value
from crmhub.records import copied, copies

_DAY_MS = 24 * 3_600_000
_AT_ONCE = 2_000
# More missing records than this share need an operator's look, in copies of at least this size.
_MOST_MISSING, _FEW = 0.2, 50
_log = logging.getLogger("crmhub.copies")

_SEEN = {"account_id": "int", "connection_id": "int", "kind": "int", "crm_id": "text"}
_s, _u = crm_copy_seen.c, unique_value.c
_OF_COPY = sa.and_(_u.account_id == param("account_id"), _u.prop_id == param("prop_id"))
_IS_UNSEEN = sa.not_(
    sa.exists().where(
        *equals(crm_copy_seen, "account_id", "connection_id", "kind"), _s.crm_id == _u.value
    )
)
_UNSEEN = Statement(
    sa.select(_u.value)
    .where(_OF_COPY, _u.value > param("after"), _IS_UNSEEN)
    .order_by(_u.value)
    .limit(param("limit"))
)
_COUNT = Statement(sa.select(sa.func.count().label("n")).where(_OF_COPY))
_COUNT_UNSEEN = Statement(sa.select(sa.func.count().label("n")).where(_OF_COPY, _IS_UNSEEN))


def compare(turn: Turn, adapter: Adapter) -> None:
    """Go on with a comparison, or begin one if a day has passed; give the row back."""
    following: dict[str, Any] = {"run_at": turn.next_at(), "lease": None}
    row = turn.row
    if row.compare_since is None:
        if now_ms() - (row.compared_at or row.complete_at or 0) < _DAY_MS:
            _end(turn, following)
            return
        turn.store(compare_since="", compare_after=None, differences=0)
    while turn.row.compare_since is not None:
        if turn.row.compare_after is None:
            _read_page(turn, adapter)
        else:
            _tell_page(turn)
        if turn.is_over() or turn.is_told():
            following["run_at"] = now_ms()
            break
    _end(turn, following)


def _end(turn: Turn, values: Mapping[str, Any]) -> None:
    def end(tx: Connection) -> None:
        copies.hold(tx, turn.row, **{**values, "failures": 0})
        # Whoever told of a record meanwhile could not wake a pull that was under way.
        if copies.hints(tx, turn.key, 1):
            copies.wake(tx, turn.key)

    turn.hub.database.transact(end)


def _read_page(turn: Turn, adapter: Adapter) -> None:
    """Note the ids of a page of the CRM, and have those read that the copy lacks."""
    row, kind = turn.row, turn.kind
    if not row.compare_since:
        forget_seen(turn)
    with turn.asking(for_all=True):
        page = adapter.changed_since(contract_kind(kind), row.compare_since, ())
    ids = [one.id for one in page.records]
    catalogue = turn.catalogue(kind)

    def note(tx: Connection) -> None:
        rows = [(*turn.key.values(), id) for id in sorted({*ids})]
        tx.insert("crm_copy_seen", _SEEN, rows, or_skip=True)
        missing = {*ids} - copied.held(tx, catalogue, ids).keys()
        if missing:
            copies.tell(tx, turn.account, kind, missing)
        values: dict[str, Any] = {"differences": (turn.row.differences or 0) + len(missing)}
        values |= {"compare_since": page.next} if page.more else {"compare_after": ""}
        turn.keep(tx, **values)

    turn.hub.database.transact(note)


def _tell_page(turn: Turn) -> None:
    """Have some of the records read that the walk has not met: the CRM may have deleted them."""
    known, row = turn.catalogue(turn.kind).get(copied.ID), turn.row
    unseen: list[str] = []
    missing = None
    if known is not None:
        here = turn.key | {"prop_id": known.prop_id}
        with turn.hub.database.reading() as db:
            if not row.compare_after:
                missing = _too_many(db, here, row.accepted or 0)
            if missing is None:
                page = here | {"after": row.compare_after, "limit": _AT_ONCE}
                unseen = [one.value for one in db.rows(_UNSEEN, page)]
    if unseen:

        def tell(tx: Connection) -> None:
            copies.tell(tx, turn.account, turn.kind, unseen)
            turn.keep(tx, compare_after=unseen[-1], differences=row.differences + len(unseen))

        turn.hub.database.transact(tell)
        return
    if missing is not None:
        _log.warning("A comparison found %d %s missing in the CRM.", missing, turn.kind.name)
    ended = {"compare_since": None, "compare_after": None, "compared_at": now_ms()}
    differences = row.differences + (missing or 0)
    turn.store(**ended, accepted=None, missing=missing, differences=differences)
    forget_seen(turn)


def _too_many(db: Connection, here: Mapping[str, Any], accepted: int) -> int | None:
    """Return how many records the CRM seems to lack if they are too many to believe, or None.

    `accepted`: how many an operator believes.
    """
    held: int = db.scalar(_COUNT, here)
    missing: int = db.scalar(_COUNT_UNSEEN, here)
    if held < _FEW or missing - accepted <= held * _MOST_MISSING:
        return None
    return missing


def forget_seen(turn: Turn) -> None:
    def forget(tx: Connection) -> int:
        turn.keep(tx)
        return copies.forget_seen(tx, turn.key, _AT_ONCE)

    while turn.hub.database.transact(forget) == _AT_ONCE:
        pass
