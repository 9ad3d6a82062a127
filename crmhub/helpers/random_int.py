"""The helper getRandomInt, which returns the number by which a bot picks one of several agents.

Without an account the number is random. The account's switch `rotation` may assign the numbers of a
range evenly. Each number then follows from how often the range was drawn from, which a row counts,
so any number of processes can draw at the same time.

- `round_robin`: one number after the other.
- `shuffle_bag`: each round has every number once, in a new order; no number comes twice in a row.
- `weighted`: a fixed cycle in which each number occurs as often as its weight, evenly spread.
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

# JSON parsers may round integers beyond this.
LARGEST = 2**53 - 1
LARGEST_BAG = 10_000
"""The largest range of a shuffle bag, which is built in memory."""
MOST_RANGES = 1_000
"""The most ranges stored per account; the ranges used longest ago are deleted."""

_random = secrets.SystemRandom()


def random_int(*, smallest: int, largest: int) -> int:
    _check(smallest, largest)
    return _random.randint(smallest, largest)


def _check(smallest: int, largest: int) -> None:
    if smallest > largest:
        raise Semantic(
            "min: %(smallest)s is greater than max, %(largest)s; send the smaller as min",
            smallest=smallest,
            largest=largest,
        )


def check_range(account: Account, *, smallest: int, largest: int) -> None:
    _Turns(account.id, smallest, largest, read_rotation(account.switches.rotation)).check()


def int_of_account(
    database: Database,
    account: Account,
    *,
    smallest: int,
    largest: int,
    contact_id: str = "",
    contact_token: str = "",
) -> int:
    """Draw an integer by the account's switch `rotation`; a sticky contact keeps its own.

    Raises Semantic if the rotation cannot serve the range or an id is an unreplaced variable, and
    Unavailable if the necessary database is.
    """
    turns = _Turns(account.id, smallest, largest, read_rotation(account.switches.rotation))
    turns.check()
    ids = {"contact_id": contact_id.strip(), "contact_token": contact_token.strip()}
    if turns.rotation.sticky and any(ids.values()):
        value = sticky_assignments.of_contact(database, account, turns, **ids)
    elif turns.rotation.how == RANDOM:
        return random_int(smallest=smallest, largest=largest)
    else:
        value = database.transact(turns.draw)
    if turns.first:
        sticky_assignments.forget(database, rotation_table, account.id, most=MOST_RANGES)
    return value


@dataclass(slots=True)
class _Turns:
    """Draws integers from one range; `first` becomes True if it drew the range's first one."""

    account_id: int
    smallest: int
    largest: int
    rotation: Rotation
    first: bool = False

    @property
    def size(self) -> int:
        return self.largest - self.smallest + 1

    def check(self) -> None:
        _check(self.smallest, self.largest)
        rotation, size = self.rotation, self.size
        shown: dict[str, Any] = {"smallest": self.smallest, "largest": self.largest, "size": size}
        if rotation.how == WEIGHTED and size != len(rotation.weights):
            raise Semantic(
                "min, max: %(smallest)s to %(largest)s are %(size)s numbers, but the account's"
                " rotation has %(count)s weights (%(rotation)s); send a range of that size, or have"
                " the switch rotation set to one weight for each number",
                **shown,
                count=len(rotation.weights),
                rotation=rotation.strategy,
            )
        if rotation.how == SHUFFLE_BAG and size > LARGEST_BAG:
            raise Semantic(
                "min, max: %(smallest)s to %(largest)s are %(size)s numbers, but the account's"
                " shuffle_bag takes at most %(most)s; send a smaller range, or have the switch"
                " rotation set to round_robin or random",
                **shown,
                most=LARGEST_BAG,
            )

    def holds(self, value: int) -> bool:
        weights = self.rotation.weights
        inside = self.smallest <= value <= self.largest
        return inside and (not weights or weights[value - self.smallest] > 0)

    def draw(self, tx: Connection) -> int:
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
    """Count a draw, return the earlier ones; the count restarts if the rotation changed."""
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
    if rotation.how == WEIGHTED:
        cycle = _cycle(rotation.weights)
        return cycle[draws % len(cycle)]
    if rotation.how == SHUFFLE_BAG:
        return _bag(seed, draws // size, size)[draws % size]
    return draws % size


@lru_cache(maxsize=64)
def _cycle(weights: tuple[int, ...]) -> array[int]:
    """Return each index as often as its weight w: due in the middle of w equal parts."""
    turns = [
        ((2 * n + 1) / weight, index) for index, weight in enumerate(weights) for n in range(weight)
    ]
    return array("H", (index for _, index in sorted(turns)))


@lru_cache(maxsize=64)
def _bag(seed: int, number: int, size: int) -> array[int]:
    """The first integer of a round differs from the last one of the previous round."""
    if size == 2:
        # With two numbers, only a constant order avoids repetitions between rounds.
        number = 0
    bag = _shuffled(seed, number, size)
    if size > 2 and number and bag[0] == _shuffled(seed, number - 1, size)[-1]:
        # The last index stays, so the next round can be computed without this change.
        bag[0], bag[1] = bag[1], bag[0]
    return bag


def _shuffled(seed: int, number: int, size: int) -> array[int]:
    """Return the integers below `size` by a hash: the same order in all processes and Pythons."""

    def rank(index: int) -> bytes:
        return hashlib.blake2b(f"{seed}/{number}/{index}".encode(), digest_size=16).digest()

    return array("H", sorted(range(size), key=rank))
