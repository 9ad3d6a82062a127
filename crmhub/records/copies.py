"""The state of the copies of CRMs: one row for each kind of record of a connection.

A worker claims a row that is due, pulls from the CRM, and stores where it stands together with the
records of each page; so a pull that is killed goes on after the last page that was stored.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.claims import Queue, build_claim, new_lease
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.rows import delete_where, find_row, insert_row, set_where
from crmhub.database.several_accounts import AvailableRows
from crmhub.database.statements import Statement, equals, in_list, one_of, param
from crmhub.database.tables import crm_copy, crm_copy_hint, crm_copy_seen
from crmhub.errors import Unavailable
from crmhub.properties.kinds import COMPANIES, CONTACTS, DEALS, TICKETS, Kind

ORDER = (COMPANIES, CONTACTS, DEALS, TICKETS)
"""The kinds in the order of the first load: what others are linked to comes first."""
LEASE_MS = 15_000
"""How long a worker has a row. It renews the lease; the row of a killed one is free soon."""
_FRESH_S = 1.0
_DEFINED_MS = 60_000

COPIES = Queue(crm_copy, ("loading", "following", "ending"), "run_at")
_c, _h = crm_copy.c, crm_copy_hint.c
_HERE = sa.and_(_c.account_id == param("account_id"), _c.connection_id == param("connection_id"))
_OF_COPY = sa.and_(*equals(crm_copy_hint, "account_id", "connection_id", "kind"))
_DUE = AvailableRows(
    lambda only: (
        sa.select(_c.account_id, _c.connection_id)
        .where(COPIES.is_unfinished(crm_copy), _c.run_at <= param("now"), only(crm_copy))
        .group_by(_c.account_id, _c.connection_id)
        .order_by(sa.func.min(_c.run_at))
        .limit(param("limit"))
    )
)
_CLAIM = build_claim(COPIES, "connection_id", returning=list(_c))
_ROWS = Statement(sa.select(crm_copy).where(_HERE).order_by(_c.kind))
_ALL_ROWS = Statement(
    sa.select(crm_copy)
    .where(_c.account_id == param("account_id"))
    .order_by(_c.connection_id, _c.kind)
)
_HINTS = Statement(sa.select(_h.crm_id).where(_OF_COPY).order_by(_h.told_at).limit(param("limit")))
_FORGET_HINTS = Statement(
    sa.delete(crm_copy_hint).where(
        _OF_COPY, in_list(_h.crm_id, "ids"), _h.told_at < param("before")
    )
)
_HINT = {"account_id": "int", "connection_id": "int", "kind": "int", "crm_id": "text"}
_some_seen = crm_copy_seen.alias("some")
_s = crm_copy_seen.c
_FORGET_SEEN = Statement(
    sa.delete(crm_copy_seen).where(
        *equals(crm_copy_seen, "account_id", "connection_id", "kind"),
        _s.crm_id.in_(
            sa.select(_some_seen.c.crm_id)
            .where(*equals(_some_seen, "account_id", "connection_id", "kind"))
            .order_by(_some_seen.c.crm_id)
            .limit(param("limit"))
        ),
    )
)
_WAKE = Statement(
    sa.update(crm_copy)
    .where(
        _HERE,
        _c.kind == param("kind"),
        COPIES.is_unfinished(crm_copy),
        _c.lease.is_(None),
        _c.run_at > param("now"),
    )
    .values(run_at=param("now"))
)
_WANT_NEWER = Statement(
    sa.update(crm_copy)
    .where(
        _HERE,
        _c.kind == param("kind"),
        one_of(_c.state, "following"),
        _c.lease.is_(None),
        _c.defined_at < param("before"),
    )
    .values(run_at=param("now"), defined_at=sa.null())
)


class LeaseLost(Exception):
    """Another worker has the copy, or an operator has changed it."""


def begin(tx: Connection, account: Account, kinds: Iterable[Kind]) -> None:
    """Store the rows by which workers load the copy of the account's CRM."""
    now = now_ms()
    nothing = {
        **dict.fromkeys(("since", "defined", "failure"), ""),
        **dict.fromkeys(("loaded", "left_out", "failures"), 0),
    }
    for place, kind in enumerate(kinds):
        # In this order, if nobody is faster.
        row = {"kind": kind.code, "state": "loading", "run_at": now + place, "progress_at": now}
        insert_row(tx, crm_copy, account.connection_key | row | nothing, or_skip=True)


def end(tx: Connection, account: Account) -> None:
    """Let a worker delete the copy."""
    here = account.connection_key
    set_where(tx, crm_copy, here, state="ending", lease=None, run_at=now_ms(), failure="")


def delete(tx: Connection, account: Account) -> None:
    for table in (crm_copy, crm_copy_hint, crm_copy_seen):
        delete_where(tx, table, account.connection_key)


def rows(db: Connection, account: Account) -> list[Any]:
    """Return the rows of the account's present connection; none without a copy."""
    return db.rows(_ROWS, account.connection_key)


def all_rows(db: Connection, account: Account) -> list[Any]:
    """Return the rows of all connections of the account: a former one's copy may be ending."""
    return db.rows(_ALL_ROWS, {"account_id": account.id})


def load_anew(tx: Connection, account: Account) -> None:
    """Walk through all records of the CRM again, and compare the ids; all stays readable."""
    now = now_ms()
    set_where(
        tx, crm_copy, account.connection_key, state="loading", since="", began_at=None, loaded=0,
        total=None, left_out=0, lease=None, run_at=now, progress_at=now, defined_at=None,
        failure="", failures=0, compare_since="", compare_after=None, differences=0,
    )  # fmt: skip


def define_again(tx: Connection, account: Account) -> None:
    """Read the CRM's definitions at the next pull, which removes what is no longer copied."""
    # A pull that is reading them by the former choice loses its lease.
    set_where(tx, crm_copy, account.connection_key, defined_at=None, lease=None, run_at=now_ms())


def compare(tx: Connection, account: Account, *, accept: bool) -> None:
    """Compare the ids of all records with those of the CRM, as soon as a worker is free.

    `accept`: believe that the CRM lacks as many records as the last comparison found missing.
    """
    now = now_ms()
    for row in rows(tx, account):
        set_where(
            tx, crm_copy, account.connection_key | {"state": "following", "kind": row.kind},
            compare_since="", compare_after=None, differences=0, lease=None, run_at=now,
            accepted=row.missing if accept else None,
        )  # fmt: skip


def tell(tx: Connection, account: Account, kind: Kind, crm_ids: Iterable[str]) -> None:
    """Note that these records may have changed in the CRM; a worker reads them.

    Nothing is noted without a copy of them.
    """
    here = account.connection_key | {"kind": kind.code}
    # Whoever ends a pull at the same time then sees the hint, or is seen to have ended.
    row = find_row(tx, crm_copy, here, lock=True)
    if row is None or row.state not in ("loading", "following"):
        return
    now = now_ms()
    rows = [(*here.values(), crm_id, now) for crm_id in sorted(set(crm_ids))]
    tx.upsert("crm_copy_hint", _HINT, {"told_at": "bigint"}, rows)
    wake(tx, here)


def wake(tx: Connection, of: Mapping[str, Any]) -> None:
    """Let a worker pull at once, unless one does so already. `of`: as for `forget_hints`."""
    tx.run(_WAKE, {**of, "now": now_ms()})


def want_newer_definitions(database: Database, account: Account, kind: Kind) -> None:
    """Let a worker read the CRM's definitions again, if they were read more than a minute ago."""
    now = now_ms()
    values = account.connection_key | {"kind": kind.code, "now": now, "before": now - _DEFINED_MS}
    database.transact(lambda tx: tx.run(_WANT_NEWER, values))


def share(row: Any) -> float | None:
    """Return which part of the CRM's records the load under way has read, None if unknown."""
    if row.state == "following":
        return 1.0
    if row.state != "loading" or row.total is None:
        return None
    # Records that change or are created meanwhile are read, too.
    return min(row.loaded / row.total, 0.99) if row.total else 0.99


def hurry(tx: Connection, account: Account) -> None:
    """Let workers ask for changes at once, whenever they meant to."""
    for kind in ORDER:
        wake(tx, account.connection_key | {"kind": kind.code})


class CopyStates:
    """The states of copies, read at most once a second for an account in this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read: dict[int, tuple[float, dict[int, Any]]] = {}

    def of(self, account: Account, kind: Kind) -> Any | None:
        """Return the row of a kind of record, or None without one."""
        at, found = self._read.get(account.id, (0.0, {}))
        if time.monotonic() - at > _FRESH_S:
            with self._database.reading() as db:
                found = {row.kind: row for row in rows(db, account)}
            self._read[account.id] = (time.monotonic(), found)
        return found.get(kind.code)


# For whoever pulls


def due(database: Database, limit: int) -> list[tuple[int, int]]:
    """Return (account id, connection id) of copies that are due, of all accounts."""
    return [tuple(row) for row in _DUE.read(database, {"now": now_ms(), "limit": limit})]


def claim(database: Database, account_id: int, connection_id: int) -> Any | None:
    now = now_ms()
    values = {"account_id": account_id, "connection_id": connection_id, "now": now, "limit": 1}
    lease = {"until": now + LEASE_MS, "lease": new_lease()}
    claimed = database.transact(lambda tx: tx.rows(_CLAIM, values | lease))
    return claimed[0] if claimed else None


def hold(tx: Connection, row: Any, **values: Any) -> None:
    """Store values of a claimed row, and keep it for longer; raises LeaseLost."""
    if not set_where(tx, crm_copy, _held(row), **{"run_at": now_ms() + LEASE_MS, **values}):
        raise LeaseLost


def _held(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("account_id", "connection_id", "kind", "lease")}


def renew(database: Database, row: Any) -> None:
    """Keep a claimed row for longer, unless it was given back or taken over."""
    database.transact(lambda tx: set_where(tx, crm_copy, _held(row), run_at=now_ms() + LEASE_MS))


def release(database: Database, row: Any, *, run_at: int, **values: Any) -> None:
    try:
        database.transact(lambda tx: hold(tx, row, run_at=run_at, lease=None, **values))
    except LeaseLost:
        # Whoever has it now decides when it is due.
        return
    except Unavailable:
        # The lease ends by itself.
        return


def forget_seen(tx: Connection, of: Mapping[str, Any], limit: int) -> int:
    """Forget up to `limit` ids that a comparison has met; return how many. `of`: as for
    `forget_hints`."""
    return tx.run(_FORGET_SEEN, {**of, "limit": limit})


def hints(db: Connection, of: Mapping[str, Any], limit: int) -> list[str]:
    """Return ids of records to read, the longest known first. `of`: as for `forget_hints`."""
    return [one.crm_id for one in db.rows(_HINTS, {**of, "limit": limit})]


def is_told(db: Connection, account: Account, kind: Kind, crm_id: str) -> bool:
    """Return whether a worker is to read the record, since it may have changed in the CRM."""
    of = account.connection_key | {"kind": kind.code, "crm_id": crm_id}
    return find_row(db, crm_copy_hint, of) is not None


def forget_hints(tx: Connection, of: Mapping[str, Any], ids: Iterable[str], *, before: int) -> None:
    """Forget what was told before the CRM was asked; what was told since is read again.

    `of`: account id, connection id and kind.
    """
    tx.run(_FORGET_HINTS, {**of, "ids": sorted(ids), "before": before})
