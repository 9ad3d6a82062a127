"""getRandomInt: the number by which a bot picks one of several agents.

Without an account it is random. An account's rotation may hand the numbers out in turn: then a
row counts the draws of each range, one statement draws, and the number follows from the count
alone, so that any number of processes at once are fair to each other.

- `round_robin`: one after the other.
- `shuffle_bag`: in an order that is new for each round, nobody twice in a row.
- `weighted`: by a cycle in which each number comes as often as its weight says, spread evenly.
  By chance it would be fair only in the long run, and few leads a day are no long run.
"""

from __future__ import annotations

import hashlib
import secrets
from array import array
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.accounts.rotations import RANDOM, SHUFFLE_BAG, WEIGHTED, Rotation, read_rotation
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.statements import Insert, Statement, params
from crmhub.database.tables import rotation as rotation_table
from crmhub.errors import Semantic
from crmhub.helpers import sticky_assignments

# Beyond these a number is not the same in every program that reads JSON.
LARGEST = 2**53 - 1
LARGEST_BAG = 10_000
"""Numbers that a shuffle bag may hold: it is laid out in memory."""
MOST_RANGES = 1_000
"""Ranges of an account that are counted; what was used longest ago starts again at its first."""

_random = secrets.SystemRandom()


def random_int(*, smallest: int, largest: int) -> int:
    """Return a random integer from `smallest` to `largest`, both included.

    Raises Semantic for an empty range.
    """
    _check(smallest, largest)
    return _random.randint(smallest, largest)


def _check(smallest: int, largest: int) -> None:
    if smallest > largest:
        raise Semantic(f"min: {smallest} is greater than max, {largest}; send the smaller as min")


def int_of_account(
    database: Database,
    account: Account,
    *,
    smallest: int,
    largest: int,
    contact_id: str = "",
    contact_token: str = "",
) -> int:
    """Return an integer of the range, both ends included, by the account's rotation.

    With a sticky assignment, a named contact gets the same number again. Only `random` without
    sticky assignment needs no database. Raises Semantic for an empty range, a range that does not
    fit the rotation, and a contact that is an unreplaced variable.
    """
    turns = _Turns(account.id, smallest, largest, read_rotation(account.switches.rotation))
    turns.check()
    if turns.rotation.sticky and (contact_id.strip() or contact_token.strip()):
        contact = sticky_assignments.Contact(contact_id.strip(), contact_token.strip())
        value = sticky_assignments.of_contact(database, account, contact, turns)
    elif turns.rotation.how == RANDOM:
        return random_int(smallest=smallest, largest=largest)
    else:
        value = database.transact(turns.draw)
    if turns.first:
        sticky_assignments.forget(database, rotation_table, account.id, most=MOST_RANGES)
    return value


@dataclass(slots=True)
class _Turns:
    """The draws of one range; `first` is set by the first draw."""

    account_id: int
    smallest: int
    largest: int
    rotation: Rotation
    first: bool = False

    @property
    def size(self) -> int:
        return self.largest - self.smallest + 1

    def check(self) -> None:
        """Raise Semantic when the range is empty or the rotation cannot serve it."""
        _check(self.smallest, self.largest)
        rotation, size = self.rotation, self.size
        shown = f"min, max: {self.smallest} to {self.largest} are {size} numbers, but the account's"
        if rotation.how == WEIGHTED and size != len(rotation.weights):
            raise Semantic(
                f"{shown} rotation has {len(rotation.weights)} weights ({rotation.strategy});"
                " send a range of that size, or have the switch rotation set to one weight for"
                " each number"
            )
        if rotation.how == SHUFFLE_BAG and size > LARGEST_BAG:
            raise Semantic(
                f"{shown} shuffle_bag takes at most {LARGEST_BAG}; send a smaller range, or have"
                " the switch rotation set to round_robin or random"
            )

    def holds(self, value: int) -> bool:
        """Return whether a draw could give this number."""
        weights = self.rotation.weights
        inside = self.smallest <= value <= self.largest
        return inside and (not weights or weights[value - self.smallest] > 0)

    def draw(self, tx: Connection) -> int:
        """Return the next number."""
        if self.rotation.how == RANDOM:
            return random_int(smallest=self.smallest, largest=self.largest)
        drawn = tx.row(
            _DRAW,
            {
                "account_id": self.account_id,
                "smallest": self.smallest,
                "largest": self.largest,
                "strategy": self.rotation.strategy,
                "seed": secrets.randbits(62),
                "used_at": now_ms(),
            },
        )
        self.first = drawn.draws == 0
        return self.smallest + _offset(self.rotation, drawn.draws, drawn.seed, self.size)


def _drawing(insert: Insert) -> Any:
    """Return the statement that counts a draw; a changed strategy restarts the count."""
    row, new = rotation_table.c, insert(rotation_table)
    same = row.strategy == new.excluded.strategy
    return (
        new.values(
            params("account_id", "smallest", "largest", "strategy", "seed", "used_at")
            | {"draws": 0}
        )
        .on_conflict_do_update(
            index_elements=["account_id", "smallest", "largest"],
            set_={
                "draws": sa.case((same, row.draws + 1), else_=0),
                "seed": sa.case((same, row.seed), else_=new.excluded.seed),
                "strategy": new.excluded.strategy,
                "used_at": new.excluded.used_at,
            },
        )
        .returning(row.draws, row.seed)
    )


_DRAW = Statement(_drawing)


def _offset(rotation: Rotation, draws: int, seed: int, size: int) -> int:
    """Return the offset in the range, from 0 on, after so many draws."""
    if rotation.how == WEIGHTED:
        cycle = _cycle(rotation.weights)
        return cycle[draws % len(cycle)]
    if rotation.how == SHUFFLE_BAG:
        return _bag(seed, draws // size, size)[draws % size]
    return draws % size


@lru_cache(maxsize=64)
def _cycle(weights: tuple[int, ...]) -> array[int]:
    """Return each index as often as its weight says, evenly spread.

    Turn n of an index of weight w is due in the middle of the n-th of w equal parts of the cycle.
    """
    turns = [
        ((2 * n + 1) / weight, index) for index, weight in enumerate(weights) for n in range(weight)
    ]
    return array("H", (index for _, index in sorted(turns)))


@lru_cache(maxsize=64)
def _bag(seed: int, number: int, size: int) -> array[int]:
    """Return the order of a round; its first number differs from the last of the round before."""
    if size == 2:
        # The only order that repeats nothing where two rounds meet.
        number = 0
    bag = _shuffled(seed, number, size)
    if size > 2 and number and bag[0] == _shuffled(seed, number - 1, size)[-1]:
        # The last stays where it is, so that the next round need not know of this.
        bag[0], bag[1] = bag[1], bag[0]
    return bag


def _shuffled(seed: int, number: int, size: int) -> array[int]:
    """Return the indexes in the order of their hashes: every process, whatever its Python's
    shuffle, comes to the same."""

    def rank(index: int) -> bytes:
        return hashlib.blake2b(f"{seed}/{number}/{index}".encode(), digest_size=16).digest()

    return array("H", sorted(range(size), key=rank))
