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

from crmhub import audit
from crmhub.audit import Author
from crmhub.database.bulk import Row
from crmhub.database.connection import Connection, Database
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
            key_id = _KEY_ID[db.dialect].format(one.column)
            for id, count in db.rows(
                f"select {key_id}, count(*) from {one.table} where {one.column} <> '' group by 1"
            ):
                found[id] += count
    return found


# Between the first two points of what a Vault seals.
_KEY_ID = {
    "postgresql": "split_part({0}, '.', 2)",
    "sqlite": "substr({0}, 4, instr(substr({0}, 4), '.') - 1)",
}


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
    keys = ", ".join(one.keys)
    last: Row = (0,) * len(one.keys)
    marks = ", ".join(f":k{number}" for number in range(len(last)))
    while True:
        with database.reading() as db:
            rows = db.rows(
                f"select (select client_id from account a where a.id = account_id), {one.column},"
                f" {keys} from {one.table} where {one.column} <> ''"
                f" and substr({one.column}, 1, :length) <> :prefix and ({keys}) > ({marks})"
                f" order by {keys} limit :limit",
                {"length": len(vault.prefix), "prefix": vault.prefix, "limit": _AT_ONCE}
                | _numbered(last),
            )
        if not rows:
            return
        yield rows
        last = rows[-1][2:]


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
    here = " and ".join(f"{key} = :k{number}" for number, key in enumerate(one.keys))
    return sum(
        tx.run(
            f"update {one.table} set {one.column} = :new where {here} and {one.column} = :old",
            {"new": new, "old": old, **_numbered(keys)},
        )
        for keys, old, new in anew
    )


def _numbered(keys: Row) -> dict[str, object]:
    return {f"k{number}": key for number, key in enumerate(keys)}
