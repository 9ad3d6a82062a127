"""Change of the encryption keys: what other keys have sealed is sealed anew with the first one.

It runs beside the service, any number of times and in several processes at once. A value is
replaced only where it still is what was read, so that one that an adapter has saved meanwhile,
such as a new refresh token, is never overwritten with the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from crmhub import audit
from crmhub.audit import Author
from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, param
from crmhub.database.tables import account, metadata
from crmhub.hub import Hub
from crmhub.secrets import SealBroken, Vault

_AT_ONCE = 100
# What is sealed with another key in each of them is so by a process that has another first one.
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Sealed:
    """A column of sealed values, "" for none. `keys` are those of its table, the account first."""

    table: str
    column: str
    keys: tuple[str, ...]

    @property
    def source(self) -> sa.Table:
        """The table."""
        return metadata.tables[self.table]

    @property
    def value(self) -> sa.Column[Any]:
        """The column."""
        return self.source.c[self.column]

    @property
    def key_columns(self) -> tuple[sa.Column[Any], ...]:
        """The columns of the keys."""
        return tuple(self.source.c[name] for name in self.keys)


SEALED = (Sealed("connection", "credentials", ("account_id", "id")),)
"""Every column that a Vault seals: what is missing here is lost with the key it was sealed with."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A value that cannot be opened: whose, in which column, and why."""

    client_id: str
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resealed:
    """How many values were sealed anew, and those that cannot be opened."""

    done: int
    broken: tuple[Broken, ...]


def counts(database: Database) -> Counter[str]:
    """Return how many values are sealed with each key, by the ids of the keys."""
    found: Counter[str] = Counter()
    with database.reading() as db:
        for one in SEALED:
            for row in db.rows(_count_of_all_accounts(one, db.dialect)):
                found[row.key_id] += row.n
    return found


def _count_of_all_accounts(one: Sealed, dialect: str) -> Statement:
    key_id, count = _key_id(one.value, dialect).label("key_id"), sa.func.count().label("n")
    keys: sa.Select[Any] = sa.select(key_id, count)
    return Statement(keys.where(one.value != "").group_by(key_id))


def _key_id(sealed: sa.Column[Any], dialect: str) -> sa.ColumnElement[Any]:
    """Return what stands between the first two points of what a Vault seals."""
    if dialect == "postgresql":
        return sa.func.split_part(sealed, ".", 2)
    rest = sa.func.substr(sealed, 4)
    return sa.func.substr(sealed, 4, sa.func.instr(rest, ".") - 1)


def reseal(hub: Hub, *, by: Author, told: Callable[[int], object] = lambda done: None) -> Resealed:
    """Seal anew what is not sealed with the first key; return what came of it.

    `told` is given the number of values done so far, now and then. Cut short, it goes on when it
    is run again.
    """
    done, broken = 0, list[Broken]()
    for _ in range(_ROUNDS):
        before, broken = done, []
        for one in SEALED:
            for rows in _others(hub.database, hub.vault, one):
                anew, faults = _sealed_anew(hub.vault, one, rows)
                done += hub.database.transact(partial(_replace, one=one, anew=anew))
                broken += faults
                told(done)
        if done == before:
            break
    if done:
        hub.database.transact(partial(_note, by=by, key_id=hub.vault.first, count=done))
    return Resealed(done, tuple(broken))


def _note(tx: Connection, *, by: Author, key_id: str, count: int) -> None:
    audit.note(tx, by, "rotate", "encryptionKey", key_id, after={"resealed": count})


def _others(database: Database, vault: Vault, one: Sealed) -> Iterator[Sequence[Row]]:
    """Yield what another key than the first has sealed: client id, value, the row's keys."""
    statement = _others_of_all_accounts(one)
    last: Row = (0,) * len(one.keys)
    first = {"length": len(vault.prefix), "prefix": vault.prefix, "most": _AT_ONCE}
    while True:
        with database.reading() as db:
            rows = db.rows(statement, first | dict(zip(one.keys, last, strict=True)))
        if not rows:
            return
        yield rows
        last = rows[-1][2:]


def _others_of_all_accounts(one: Sealed) -> Statement:
    client_id = sa.select(account.c.client_id).where(account.c.id == one.source.c.account_id)
    return Statement(
        sa.select(client_id.scalar_subquery().label("client_id"), one.value, *one.key_columns)
        .where(
            one.value != "",
            sa.func.substr(one.value, 1, param("length")) != param("prefix"),
            sa.tuple_(*one.key_columns) > sa.tuple_(*map(param, one.keys)),
        )
        .order_by(*one.key_columns)
        .limit(param("most"))
    )


def _sealed_anew(
    vault: Vault, one: Sealed, rows: Sequence[Row]
) -> tuple[list[tuple[Row, str, str]], list[Broken]]:
    """Return keys, old and new value of each row, and those that cannot be opened."""
    anew, broken = [], []
    for client_id, sealed, *keys in rows:
        try:
            plain = vault.open(sealed, account_id=keys[0], column=one.column)
        except SealBroken as exc:
            broken.append(Broken(client_id, one.column, str(exc)))
        else:
            new = vault.seal(plain, account_id=keys[0], column=one.column)
            anew.append((tuple(keys), sealed, new))
    return anew, broken


def _replace(tx: Connection, one: Sealed, anew: Sequence[tuple[Row, str, str]]) -> int:
    """Replace the values that nobody has changed since they were read; return how many."""
    replacing = Statement(
        sa.update(one.source)
        .where(
            *(column == param(column.name) for column in one.key_columns),
            one.value == param("old"),
        )
        .values({one.column: param("new")})
    )
    return sum(
        tx.run(replacing, {"new": new, "old": old, **dict(zip(one.keys, keys, strict=True))})
        for keys, old, new in anew
    )
