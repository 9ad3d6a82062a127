"""Simulate how accounts of skewed size share the shards and worker nodes of Citus.

    python -m benchmarks.placement [--accounts 10000 --records 1e9 --skew zipf:1]

No database is used. Each draw gives the accounts their sizes at random and places them as Citus
does: the hash of `account_id` selects the shard, and the shards are dealt to the workers in turn.
Then the largest accounts are isolated in shards of their own (`isolate_tenant_to_new_shard`), and
shards are moved until the workers are balanced (`citus_rebalance_start`).
"""

from __future__ import annotations

import random
import statistics
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from benchmarks.places import parser

_HASHES = 2**32
_LOWEST_HASH = -(2**31)
# The default threshold of Citus: a worker may differ from the average by a tenth.
_THRESHOLD = 0.1
_BEFORE = ("largest shard", "largest worker")
_SHARES = (*_BEFORE, "rebalanced", "moved", "one more worker", "moved then")


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--accounts", type=int, default=10_000)
    command.add_argument("--records", type=float, default=1e9, help="of all accounts together")
    command.add_argument("--shards", default="32,128", help="numbers of shards")
    command.add_argument("--workers", default="2,4,8", help="numbers of worker nodes")
    command.add_argument("--isolate", default="0,1,10", help="numbers of accounts to isolate")
    command.add_argument("--skew", default="zipf:1", help="zipf:EXPONENT or lognormal:SIGMA")
    command.add_argument("--seed", type=int, default=1, help="of the first draw")
    command.add_argument("--draws", type=int, default=21)
    options = command.parse_args()
    seeds = range(options.seed, options.seed + options.draws)
    draws = [draw(options.accounts, options.records, options.skew, seed) for seed in seeds]
    print(
        f"{options.accounts:,} accounts, {options.records:,.0f} records, sizes {options.skew},"
        f" seeds {seeds[0]} to {seeds[-1]}"
    )
    _print_accounts(draws)
    print("Shares of all records, as median (maximum) of the draws:")
    print("shards workers isolated" + "".join(f"{name:>16}" for name in _SHARES))
    shards, workers, isolated = (
        [int(number) for number in text.split(",")]
        for text in (options.shards, options.workers, options.isolate)
    )
    for counts in product(shards, workers, isolated):
        found = [simulate(sizes, *counts) for sizes in draws]
        columns = (_median_and_largest([shares[name] for shares in found]) for name in _SHARES)
        print("{:>6}{:>8}{:>9}".format(*counts) + "".join(f"{each:>16}" for each in columns))


def draw(accounts: int, records: float, skew: str, seed: int) -> list[float]:
    """Return the number of records of each account, in the order of the accounts' ids.

    `skew` is `zipf:EXPONENT` (the account of rank n has a share of 1/n**EXPONENT) or
    `lognormal:SIGMA`. Raises SystemExit for any other text.
    """
    chance = random.Random(seed)
    name, _, number = skew.partition(":")
    if name == "zipf":
        weights = [rank ** -float(number) for rank in range(1, accounts + 1)]
        chance.shuffle(weights)
    elif name == "lognormal":
        weights = [chance.lognormvariate(0, float(number)) for _ in range(accounts)]
    else:
        raise SystemExit(f"--skew is zipf:EXPONENT or lognormal:SIGMA, not {skew}")
    each = records / sum(weights)
    return [weight * each for weight in weights]


def account_hash(account_id: int) -> int:
    """Return PostgreSQL's hash of an integer of 4 or 8 bytes, as a signed integer of 4 bytes.

    It equals `hashint4(account_id)` and `hashint8(account_id)` (hashfunc.c, hash_bytes_uint32).
    """
    high = account_id >> 32
    key = (account_id ^ (high if account_id >= 0 else ~high)) % _HASHES
    a = b = c = 0x9E3779B9 + 4 + 3923095
    a = (a + key) % _HASHES
    c = _mixed(c, b, 14)
    a = _mixed(a, c, 11)
    b = _mixed(b, a, 25)
    c = _mixed(c, b, 16)
    a = _mixed(a, c, 4)
    b = _mixed(b, a, 14)
    c = _mixed(c, b, 24)
    return c - _HASHES if c >= 2**31 else c


def _mixed(value: int, other: int, bits: int) -> int:
    rotated = (other << bits | other >> 32 - bits) % _HASHES
    return ((value ^ other) - rotated) % _HASHES


def simulate(sizes: Sequence[float], shards: int, workers: int, isolated: int) -> dict[str, float]:
    """Place the accounts; return shares of all records, named as in the printed table.

    `sizes` are the numbers of records of the accounts, of which the `isolated` largest get shards
    of their own.
    """
    nodes = place(sizes, shards, workers, isolated)
    found = [max(size for worker in nodes.workers for size in worker), nodes.largest_worker]
    for _ in ("as placed", "with one more worker"):
        moved = nodes.rebalance()
        found += [nodes.largest_worker, moved]
        nodes.workers.append([])
    every = sum(sizes)
    return {name: value / every for name, value in zip(_SHARES, found, strict=True)}


@dataclass(frozen=True, slots=True)
class Nodes:
    """The worker nodes, each with the sizes of its shards in records."""

    workers: list[list[float]]

    @property
    def largest_worker(self) -> float:
        """The number of records on the fullest worker."""
        return max(map(sum, self.workers))

    def rebalance(self) -> float:
        """Move shards from full to empty workers; return the number of records moved.

        The moves end when each worker's records differ from the average by a tenth at most, or when
        no single move helps.
        """
        average = sum(map(sum, self.workers)) / len(self.workers)
        moved = 0.0
        while True:
            for full, empty in self._unbalanced(average):
                gap = sum(full) - sum(empty)
                if movable := [size for size in full if 0 < size < gap]:
                    best = min(movable, key=lambda size: abs(gap / 2 - size))
                    full.remove(best)
                    empty.append(best)
                    moved += best
                    break
            else:
                return moved

    def _unbalanced(self, average: float) -> Iterator[tuple[list[float], list[float]]]:
        """Yield pairs of a fuller and an emptier worker, one of which is far from the average."""
        ranked = sorted(self.workers, key=sum)
        for full, empty in product(reversed(ranked), ranked):
            is_over = sum(full) > average * (1 + _THRESHOLD)
            is_under = sum(empty) < average * (1 - _THRESHOLD)
            if is_over or is_under:
                yield full, empty


def place(sizes: Sequence[float], shards: int, workers: int, isolated: int) -> Nodes:
    """Place accounts on worker nodes; the `isolated` largest accounts get their own shards.

    Each shard has an equal range of hashes. Isolating an account splits its shard in three: the
    hashes below the account's, its own, and those above. The parts stay on the shard's worker.
    """
    hashes = [account_hash(number) for number in range(1, len(sizes) + 1)]
    original = [_LOWEST_HASH + _HASHES // shards * number for number in range(shards)]
    ranked = sorted(zip(sizes, hashes, strict=True), reverse=True)
    own = {edge for _, hash in ranked[:isolated] for edge in (hash, hash + 1)}
    starts = sorted({*original, *own})
    records = [0.0] * len(starts)
    for size, hash in ranked:
        records[bisect_right(starts, hash) - 1] += size
    nodes: list[list[float]] = [[] for _ in range(workers)]
    for start, size in zip(starts, records, strict=True):
        shard = bisect_right(original, start) - 1
        nodes[shard % workers].append(size)
    return Nodes(nodes)


def _print_accounts(draws: Sequence[Sequence[float]]) -> None:
    largest = [sorted(sizes, reverse=True) for sizes in draws]
    for name, count in (("largest account", 1), ("10 largest", 10), ("100 largest", 100)):
        records = [sum(sizes[:count]) for sizes in largest]
        shares = [sum(sizes[:count]) / sum(sizes) for sizes in largest]
        print(f"  {name:<18}{statistics.median(records):>16,.0f}   {_median_and_largest(shares)}")
    middle = statistics.median(statistics.median(sizes) for sizes in draws)
    print(f"  {'median account':<18}{middle:>16,.0f}")


def _median_and_largest(shares: Sequence[float]) -> str:
    return f"{statistics.median(shares):.1%} ({max(shares):.1%})"


if __name__ == "__main__":
    main()
