"""Possible duplicates: pairs of contacts that may be the same human being, listed for operators.

A pair belongs to a connection. Contacts in the hub's own CRM are merged by `merge_contacts`, which
can also undo a merge. Contacts of another CRM are merged there; the hub then only closes the pair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.expired import UNMERGE_MS
from crmhub.database.rows import delete_where, find_row, set_where
from crmhub.database.statements import Statement, one_of, param, params
from crmhub.database.tables import possible_duplicate
from crmhub.errors import NotFound
from crmhub.identity import merged_contacts
from crmhub.identity.bindings import LONGEST

State = Literal["open", "merged", "dismissed"]
STATES: tuple[State, ...] = get_args(State)
"""The time in ms during which a merge can be undone."""

_p = possible_duplicate.c
_HERE = sa.and_(_p.account_id == param("account_id"), _p.connection_id == param("connection_id"))
_IS_PAIR = sa.and_(_HERE, _p.one == param("one"), _p.other == param("other"))
_PAIR = (
    _p.one,
    _p.other,
    _p.shares,
    _p.state,
    _p.found_at,
    _p.decided_at,
    _p.decided_by,
    _p.kept_id,
    _p.merged_id,
    _p.undo.is_not(None).label("undoable"),
)
_STORED = ("shares", "state", "found_at", "decided_at", "decided_by")
_FIND = Statement(sa.select(*_PAIR).where(_IS_PAIR))
_LOCK = Statement(sa.select(*_PAIR).where(_IS_PAIR).with_for_update())
_COUNT_OPEN = Statement(
    sa.select(sa.func.count())
    .select_from(possible_duplicate)
    .where(_HERE, one_of(_p.state, "open"))
)
_INSERT = Statement(
    lambda insert: (
        insert(possible_duplicate)
        .values(params("account_id", "connection_id", "one", "other", *_STORED))
        .on_conflict_do_nothing()
    )
)
_OF_MERGED = Statement(
    sa.select(*_PAIR)
    .where(
        _HERE,
        _p.state != "merged",
        sa.or_(_p.one == param("merged_id"), _p.other == param("merged_id")),
        sa.not_(sa.and_(_p.one == param("one"), _p.other == param("other"))),
    )
    .order_by(_p.one, _p.other)
    .with_for_update()
)
_FOLLOW = Statement(
    sa.update(possible_duplicate)
    .where(_HERE, _p.kept_id == param("former_id"))
    .values(params("kept_id"))
    .returning(_p.one, _p.other)
)
_MERGES_INTO = Statement(
    sa.select(*_PAIR)
    .where(
        _HERE,
        _p.kept_id == param("kept_id"),
        sa.or_(_p.one == param("kept_id"), _p.other == param("kept_id")),
        _p.undo.is_not(None),
    )
    .order_by(_p.one, _p.other)
    .with_for_update()
)


@dataclass(frozen=True, slots=True)
class Pair:
    """`one` comes first in text order. `decided_by`: the operator, "" for the CRM. `kept_id`,
    `merged_id`: "" if not merged or unknown. `undoable`: the data for undoing exist.
    """

    one: str
    other: str
    shares: tuple[str, ...]
    state: State
    found_at: int
    decided_at: int = 0
    decided_by: str = ""
    kept_id: str = ""
    merged_id: str = ""
    undoable: bool = False

    @property
    def ids(self) -> tuple[str, str]:
        return self.one, self.other

    @property
    def unmerge_until(self) -> int:
        """The end of the time for undoing the merge, 0 if it cannot be undone."""
        until = self.decided_at + UNMERGE_MS
        return until if self.undoable and now_ms() < until else 0

    def but(self, contact_id: str) -> str:
        return self.other if contact_id == self.one else self.one


def note(tx: Connection, account: Account, one: str, other: str, *, shares: Sequence[str]) -> None:
    """Store two contacts as possible duplicates; new `shares` are added to a pair and reopen it."""
    # No CRM has longer ids, and the index cannot hold them.
    if not (one and other) or max(len(one), len(other)) > LONGEST:
        return
    ids = sorted(merged_contacts.hold_contact(tx, account, id) for id in sorted((one, other)))
    if ids[0] != ids[1]:
        _add(tx, account, Pair(ids[0], ids[1], tuple(sorted({*shares})), "open", now_ms()))


def _add(tx: Connection, account: Account, new: Pair) -> None:
    if _insert(tx, account, new):
        return
    known = find(tx, account, *new.ids, lock=True)
    shared = tuple(sorted({*known.shares, *new.shares}))
    if shared == known.shares:
        return
    found_at = known.found_at if known.state == "open" else new.found_at
    update(tx, account, replace(new, shares=shared, found_at=found_at))


def listed(
    db: Connection,
    account: Account,
    *,
    state: str = "",
    after: tuple[int, str, str] | None = None,
    limit: int,
) -> list[Pair]:
    """Newest first; `after`: (`found_at`, `one`, `other`) of the previous page's last pair."""
    query = sa.select(*_PAIR).where(_HERE)
    values = _of(account) | {"limit": limit}
    if state:
        query = query.where(_p.state == param("state"))
        values["state"] = state
    if after is not None:
        place = sa.tuple_(param("found_at"), param("one"), param("other"))
        query = query.where(sa.tuple_(_p.found_at, _p.one, _p.other) < place)
        values |= dict(zip(("found_at", "one", "other"), after, strict=True))
    newest = (_p.found_at.desc(), _p.one.desc(), _p.other.desc())
    statement = Statement(query.order_by(*newest).limit(param("limit")))
    return [_pair(row) for row in db.rows(statement, values)]


def count_open(db: Connection, account: Account) -> int:
    return int(db.scalar(_COUNT_OPEN, _of(account)))


def find(db: Connection, account: Account, one: str, other: str, *, lock: bool = False) -> Pair:
    ids = sorted((one, other))
    row = db.row(_LOCK if lock else _FIND, _of(account) | {"one": ids[0], "other": ids[1]})
    if row is None:
        raise NotFound(f"Contacts {one[:60]} and {other[:60]} are no possible duplicates.")
    return _pair(row)


def find_or_add(tx: Connection, account: Account, one: str, other: str) -> Pair:
    """Lock the pair; the caller has locked both contacts."""
    ids = sorted((one, other))
    _insert(tx, account, Pair(ids[0], ids[1], (), "open", now_ms()))
    return find(tx, account, one, other, lock=True)


def close(database: Database, account: Account, pair: Pair, kept_id: str) -> Pair:
    def mark_merged(tx: Connection) -> Pair:
        merged_contacts.hold_contacts(tx, account, pair.ids)
        known = find(tx, account, *pair.ids, lock=True)
        if known.state != "open":
            return known
        merged_id = known.but(kept_id) if kept_id in known.ids else ""
        closed = replace(
            known, state="merged", decided_at=now_ms(), kept_id=kept_id, merged_id=merged_id
        )
        update(tx, account, closed)
        return closed

    return database.transact(mark_merged)


def erase(tx: Connection, account: Account, contacts: Collection[tuple[int, str]]) -> int:
    rows = [(account.id, *contact) for contact in sorted(contacts)]
    types = {"account_id": "int", "connection_id": "int"}
    return sum(
        tx.delete(possible_duplicate.name, {**types, column: "text"}, rows)
        for column in ("one", "other")
    )


def take_over(tx: Connection, account: Account, merged: Pair) -> dict[str, Any]:
    """Replace the merged contact by the kept one in other pairs; return data for `give_back`."""
    rows = tx.rows(_OF_MERGED, _of(account, merged) | {"merged_id": merged.merged_id})
    pairs = []
    for former in map(_pair, rows):
        delete_where(tx, possible_duplicate, _of(account, former))
        instead = _instead(former, merged)
        made = _insert(tx, account, instead)
        if not made and former.state == "open":
            _add(tx, account, instead)
        pairs.append({"pair": asdict(former), "made": made})
    followers = tx.rows(
        _FOLLOW, _of(account) | {"kept_id": merged.kept_id, "former_id": merged.merged_id}
    )
    return {"pairs": pairs, "followers": [[row.one, row.other] for row in followers]}


def give_back(
    tx: Connection,
    account: Account,
    pair: Pair,
    undo: Mapping[str, Any],
    *,
    exists: Callable[[str], bool],
) -> None:
    """Restore pairs, but none that was decided since or whose contacts exist no more."""
    for one, other in undo["followers"]:
        follower = _of(account) | {"one": one, "other": other, "kept_id": pair.kept_id}
        set_where(tx, possible_duplicate, follower, kept_id=pair.merged_id)
    for stored in undo["pairs"]:
        former = Pair(**stored["pair"] | {"shares": tuple(stored["pair"]["shares"])})
        instead = _instead(former, pair)
        if stored["made"]:
            # Unless it was decided, or found to share more, since.
            as_it_was = {"state": instead.state, "shares": ",".join(instead.shares)}
            delete_where(tx, possible_duplicate, _of(account, instead) | as_it_was)
        if exists(former.but(pair.merged_id)):
            _insert(tx, account, former)


def _instead(former: Pair, merged: Pair) -> Pair:
    one, other = sorted((merged.kept_id, former.but(merged.merged_id)))
    return replace(former, one=one, other=other)


def undo_of(tx: Connection, account: Account, pair: Pair) -> dict[str, Any]:
    undo: dict[str, Any] = json.loads(find_row(tx, possible_duplicate, _of(account, pair)).undo)
    return undo


def merges_into(tx: Connection, account: Account, contact_id: str) -> list[Pair]:
    rows = tx.rows(_MERGES_INTO, _of(account) | {"kept_id": contact_id})
    return [_pair(row) for row in rows]


def set_undo(tx: Connection, account: Account, pair: Pair, undo: Mapping[str, Any]) -> None:
    set_where(tx, possible_duplicate, _of(account, pair), undo=json.dumps(undo))


def _insert(tx: Connection, account: Account, pair: Pair) -> bool:
    return bool(tx.run(_INSERT, _of(account, pair) | _stored(pair)))


def update(
    tx: Connection,
    account: Account,
    pair: Pair,
    *,
    email: str | None = None,
    undo: Mapping[str, Any] | None = None,
) -> None:
    """`email`: the merged one's that the kept one lacks, or None. `undo`: None deletes it."""
    set_where(
        tx,
        possible_duplicate,
        _of(account, pair),
        **_stored(pair),
        kept_id=pair.kept_id or None,
        merged_id=pair.merged_id or None,
        email=email,
        undo=None if undo is None else json.dumps(undo),
    )


def _stored(pair: Pair) -> dict[str, Any]:
    return {
        "shares": ",".join(pair.shares),
        "state": pair.state,
        "found_at": pair.found_at,
        "decided_at": pair.decided_at or None,
        "decided_by": pair.decided_by,
    }


def _pair(row: Any) -> Pair:
    return Pair(
        row.one,
        row.other,
        tuple(row.shares.split(",")) if row.shares else (),
        row.state,
        row.found_at,
        row.decided_at or 0,
        row.decided_by,
        row.kept_id or "",
        row.merged_id or "",
        bool(row.undoable),
    )


def _of(account: Account, pair: Pair | None = None) -> dict[str, Any]:
    ids = {"one": pair.one, "other": pair.other} if pair is not None else {}
    return account.connection_key | ids
