"""Change of the encryption key: encrypt the values of older keys again, with the first key.

This may run while the service runs, repeatedly and at the same time. A value is replaced only if it
has not changed since it was read, such as a refresh token that an adapter has just saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from crmhub import audit
from crmhub.accounts.accounts import account_ids
from crmhub.audit import Author
from crmhub.database import tables
from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import set_where
from crmhub.database.statements import Statement, param
from crmhub.database.tables import account
from crmhub.hub import Hub
from crmhub.secrets import SealBroken, Vault
from crmhub.users import second_factors

_BATCH = 100
# A process with another first key may seal values meanwhile; more rounds would never end.
_ROUNDS = 3
SEALED = (
    tables.connection.c.credentials,
    tables.connect_request.c.request,
    tables.event_subscription.c.secret,
)
"""All columns of accounts with encrypted values; `reseal` would skip one that is missing here.

The second factors of console users, which belong to no account, are resealed too. The first column
of each primary key is the account's id.
"""


@dataclass(frozen=True, slots=True)
class Broken:
    """A value that cannot be decrypted; `client_id` is its account, or its user's email."""

    client_id: str
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resealed:
    done: int
    broken: tuple[Broken, ...]


def counts(database: Database) -> Counter[str]:
    """Count the encrypted values in the database, by the id of the key that encrypted them."""
    counts: Counter[str] = Counter()
    with database.reading() as db:
        ids = account_ids(db)
        for column in SEALED:
            count = _count(column, db.dialect)
            for account_id in ids:
                for row in db.rows(count, {"account_id": account_id}):
                    counts[row.key_id] += row.n
        for _, _, sealed in second_factors.sealed_secrets(db):
            counts[sealed.split(".")[1]] += 1
    return counts


def _count(column: sa.Column[Any], dialect: str) -> Statement:
    key_id, count = _key_id(column, dialect).label("key_id"), sa.func.count().label("n")
    keys: sa.Select[Any] = sa.select(key_id, count)
    of_account = column.table.c.account_id == param("account_id")
    return Statement(keys.where(of_account, column != "").group_by(key_id))


def _key_id(sealed: sa.Column[Any], dialect: str) -> sa.ColumnElement[Any]:
    """Return an SQL expression for the key's id: a value's text between the first two dots."""
    if dialect == "postgresql":
        return sa.func.split_part(sealed, ".", 2)
    rest = sa.func.substr(sealed, 4)
    return sa.func.substr(sealed, 4, sa.func.instr(rest, ".") - 1)


def reseal(
    hub: Hub, *, by: Author, report: Callable[[int], object] = lambda done: None
) -> Resealed:
    """`report` gets the number of values after each batch. After an interruption, call it again."""
    done, broken = 0, list[Broken]()
    for _ in range(_ROUNDS):
        before, broken = done, []
        for column in SEALED:
            for rows in _batches(hub.database, hub.vault, column):
                values, faults = _resealed_values(hub.vault, column, rows)
                done += hub.database.transact(partial(_replace, column=column, values=values))
                broken += faults
                report(done)
        count, faults = _reseal_users(hub)
        broken += faults
        if count:
            done += count
            report(done)
        if done == before:
            break
    if done:
        after = {"resealed": done}
        hub.database.transact(
            lambda tx: audit.note(tx, by, "rotate", "encryptionKey", hub.vault.first, after=after)
        )
    return Resealed(done, tuple(broken))


def _reseal_users(hub: Hub) -> tuple[int, list[Broken]]:
    """Do the same with the second factors of console users."""
    done, broken = 0, list[Broken]()
    with hub.database.reading() as db:
        listed = second_factors.sealed_secrets(db)
    for user_id, email, sealed in listed:
        if sealed.startswith(hub.vault.prefix):
            continue
        replace = partial(second_factors.reseal, vault=hub.vault, user_id=user_id, sealed=sealed)
        try:
            done += hub.database.transact(replace)
        except SealBroken as exc:
            broken.append(Broken(email, "totp", str(exc)))
    return done, broken


def _batches(database: Database, vault: Vault, column: sa.Column[Any]) -> Iterator[Sequence[Row]]:
    """Yield batches of (client id, value, primary key) encrypted with an older key."""
    statement = _sealed_with_others(column)
    params = {"length": len(vault.prefix), "prefix": vault.prefix}
    with database.reading() as db:
        ids = account_ids(db)
    batch: list[Row] = []
    for account_id in ids:
        with database.reading() as db:
            batch += db.rows(statement, params | {"account_id": account_id})
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _sealed_with_others(column: sa.Column[Any]) -> Statement:
    client_id = sa.select(account.c.client_id).where(account.c.id == param("account_id"))
    return Statement(
        sa.select(client_id.scalar_subquery().label("client_id"), column, *column.table.primary_key)
        .where(
            column.table.c.account_id == param("account_id"),
            column != "",
            sa.func.substr(column, 1, param("length")) != param("prefix"),
        )
        .order_by(*column.table.primary_key)
    )


def _resealed_values(
    vault: Vault, column: sa.Column[Any], rows: Sequence[Row]
) -> tuple[list[tuple[Row, str, str]], list[Broken]]:
    """Return (primary key, old value, new value) of each value, and the broken ones."""
    values, broken = [], []
    for client_id, sealed, *key in rows:
        try:
            plain = vault.open(sealed, account_id=key[0], column=column.name)
        except SealBroken as exc:
            broken.append(Broken(client_id, column.name, str(exc)))
        else:
            new = vault.seal(plain, account_id=key[0], column=column.name)
            values.append((tuple(key), sealed, new))
    return values, broken


def _replace(tx: Connection, column: sa.Column[Any], values: Sequence[tuple[Row, str, str]]) -> int:
    """Store (primary key, old, new) unless the value has changed; count the replaced."""
    names = [key.name for key in column.table.primary_key]
    return sum(
        set_where(
            tx,
            column.table,
            {**dict(zip(names, key, strict=True)), column.name: old},
            **{column.name: new},
        )
        for key, old, new in values
    )
