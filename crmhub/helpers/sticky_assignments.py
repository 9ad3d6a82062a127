"""Sticky assignments: getRandomInt returns the same integer to a contact each time.

The integer is stored for the contact's `contactId`, for its `contactToken`, and for its person.
Only hashes of the three are stored, since they may be phone numbers.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, Protocol

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.advisory_locks import hold
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.rows import upsert_row
from crmhub.database.statements import Insert, Statement, in_list, param
from crmhub.database.tables import kept_number
from crmhub.errors import NotFound
from crmhub.helpers.inputs import filled
from crmhub.identity import bindings

_DAY_MS = 86_400_000
KEPT_MS = 90 * _DAY_MS
"""The time in ms after which an assigned integer is deleted if it was not used."""
MOST_KEPT = 300_000
"""The most assigned integers per account; those used longest ago are deleted."""
# Old rows are deleted after one in this many new contacts, by chance.
_SWEEP = 500


_kept_row = kept_number.c
_KEPT = Statement(
    sa.select(_kept_row.contact, _kept_row.largest, _kept_row.value, _kept_row.used_at).where(
        _kept_row.account_id == param("account_id"),
        in_list(_kept_row.contact, "contacts"),
        _kept_row.smallest == param("smallest"),
        _kept_row.used_at > param("since"),
    )
)
_KEY = ("account_id", "contact", "smallest", "largest")


def _sharing(insert: Insert) -> Any:
    rest = (_kept_row.smallest, _kept_row.largest, _kept_row.value, _kept_row.used_at)
    numbers = sa.select(_kept_row.account_id, param("to"), *rest).where(
        _kept_row.account_id == param("account_id"), _kept_row.contact == param("of")
    )
    columns = [*_KEY, "value", "used_at"]
    return insert(kept_number).from_select(columns, numbers).on_conflict_do_nothing()


_SHARE = Statement(_sharing)


class Turns(Protocol):
    smallest: int
    largest: int

    def holds(self, value: int) -> bool: ...

    def draw(self, tx: Connection) -> int: ...


def of_person(connection_id: int, person: str) -> str:
    return _hashed(f"person/{connection_id}/{person}")


def of_id(connection_id: int, id: str) -> str:
    return _hashed(f"id/{connection_id}/{id}")


def of_token(token: str) -> str:
    return _hashed(f"token/{token}")


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def of_contact(
    database: Database, account: Account, turns: Turns, *, contact_id: str, contact_token: str
) -> int:
    """Return the integer assigned to a contact; draw one if `turns` cannot draw that any more.

    Raises Semantic for an unreplaced variable, since all contacts would share the name.
    """
    for where, text in (("contactId", contact_id), ("contactToken", contact_token)):
        if text:
            filled(text, where)
    with database.reading() as connection:
        keys = _keys(connection, account, contact_id, contact_token)
        value, is_settled = _kept(connection, account, keys, turns)
    if value is not None and is_settled:
        return value

    def assign(tx: Connection) -> tuple[int, bool]:
        # Two parallel calls for a new contact must get the same number; sorted against deadlocks.
        for key in sorted(keys):
            hold(tx, account.id, "kept_number", key)
        kept, _ = _kept(tx, account, keys, turns)
        value = turns.draw(tx) if kept is None else kept
        _keep(tx, account, keys, turns, value)
        return value, kept is None

    value, new = database.transact(assign)
    if new and secrets.randbelow(_SWEEP) == 0:
        forget(database, kept_number, account.id, most=MOST_KEPT)
    return value


def _keys(connection: Connection, account: Account, id: str, token: str) -> list[str]:
    try:
        bound = bindings.of_contact(connection, account, id) if id else None
    except NotFound:
        # The id belongs to a former CRM; it is only used as a name here.
        bound = None
    if bound is None and token:
        bound = bindings.of_token(connection, account, token)
    here = account.connection.id
    keys = [of_person(here, bound.person)] if bound else []
    keys += [of_id(here, id)] if id else []
    keys += [of_token(token)] if token else []
    return keys


def _kept(
    connection: Connection, account: Account, keys: Sequence[str], turns: Turns
) -> tuple[int | None, bool]:
    """Return the assigned integer or None, and whether it is stored for all keys.

    An integer of a range with the same start counts: agents may be added at its end.
    """
    now = now_ms()
    rows = connection.rows(
        _KEPT,
        {
            "account_id": account.id,
            "contacts": keys,
            "smallest": turns.smallest,
            "since": now - KEPT_MS,
        },
    )
    rows = [row for row in rows if turns.holds(row.value)]
    if not rows:
        return None, False
    best = min(
        rows,
        key=lambda row: (row.largest != turns.largest, keys.index(row.contact), -row.used_at),
    )
    value = best.value
    fresh = {
        row.contact
        for row in rows
        if (row.largest, row.value) == (turns.largest, value) and row.used_at > now - _DAY_MS
    }
    return value, fresh == set(keys)


def _keep(tx: Connection, account: Account, keys: Sequence[str], turns: Turns, value: int) -> None:
    for key in keys:
        row = dict(zip(_KEY, (account.id, key, turns.smallest, turns.largest), strict=True))
        upsert_row(tx, kept_number, row, {"value": value, "used_at": now_ms()})


def share(tx: Connection, account: Account, of: str, to: str) -> None:
    """Copy a contact's integers to another contact that has none for the range; both are hashes."""
    tx.run(_SHARE, {"account_id": account.id, "of": of, "to": to})


def forget(database: Database, table: sa.Table, account_id: int, *, most: int) -> None:
    """Delete an account's rows that were not used for 90 days, and all but the `most` used last."""
    of_account = table.c.account_id == param("account_id")
    last_used = sa.select(table.c.used_at).where(of_account).order_by(table.c.used_at.desc())
    oldest_kept = Statement(last_used.limit(1).offset(most - 1))
    delete = Statement(sa.delete(table).where(of_account, table.c.used_at < param("before")))

    def delete_old(tx: Connection) -> None:
        here = {"account_id": account_id}
        oldest = tx.scalar(oldest_kept, here) or 0
        tx.run(delete, here | {"before": max(oldest, now_ms() - KEPT_MS)})

    database.transact(delete_old)
