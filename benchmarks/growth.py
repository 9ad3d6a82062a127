"""Measure how the time of a list, a record and a unique value grows with the contacts.

    python -m benchmarks.growth [--sizes 10000,100000,1000000] [--use NAME]

Each size has its own database on PostgreSQL; `--use` adds a database that `benchmarks.million` has
kept. The measured calls are the hub's functions that the API calls, including their Python code.
The databases are measured alternately.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks import crowd
from benchmarks.places import kept_place, parser, place
from crmhub.accounts.accounts import Account
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query

# Read often enough that most of the time their pages are in memory, whatever the size.
_SAMPLE = 1000


@dataclass(frozen=True, slots=True)
class Filled:
    """A database of contacts, with its number of contacts and some ids and emails."""

    hub: Hub
    account: Account
    held: int
    ids: list[int]
    emails: list[str]

    def calls(self) -> Mapping[str, Callable[[], object]]:
        """Return the functions to measure; each call reads another record."""

        def listed(*filters: Filter) -> object:
            request = PageRequest(Query(filters))
            return self.hub.records.page(self.account, CONTACTS, request)

        return {
            "list (total and page of 20)": listed,
            "get by id": lambda: self.hub.records.get(
                self.account, CONTACTS, random.choice(self.ids)
            ),
            "search of a unique value": lambda: listed(
                Filter("email", "EQ", random.choice(self.emails))
            ),
        }


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sizes", default="10000,100000,1000000")
    command.add_argument("--rounds", type=int, default=5000)
    command.add_argument(
        "--use", action="append", default=[], metavar="NAME", help="a kept database as well"
    )
    options = command.parse_args()
    with ExitStack() as stack:
        filled = [stack.enter_context(_built(int(size))) for size in options.sizes.split(",")]
        filled += [stack.enter_context(_kept(name)) for name in options.use]
        _print(sorted(filled, key=lambda each: each.held), options.rounds)


@contextmanager
def _built(records: int) -> Iterator[Filled]:
    with place(False) as here:
        crowd.build(here, crowd.Size(records, 0, 0))
        hub = here.hub()
        with hub.database.reading() as connection:
            connection.run("vacuum analyze")
        yield _filled(hub)
        hub.close()


@contextmanager
def _kept(name: str) -> Iterator[Filled]:
    with kept_place(name) as here:
        hub = here.hub()
        yield _filled(hub)
        hub.close()


def _filled(hub: Hub) -> Filled:
    account = crowd.big_account(hub)
    with hub.database.reading() as connection:
        rows = connection.rows(
            "select id, properties ->> 'email' from records"
            f" where account_id = :account and kind = {CONTACTS.code}"
            " order by random() limit :sample",
            {"account": account.id, "sample": _SAMPLE},
        )
    ids, emails = ([row[i] for row in rows] for i in (0, 1))
    return Filled(hub, account, hub.records.counts(account)[CONTACTS.code], ids, emails)


def _print(filled: list[Filled], rounds: int) -> None:
    heads = "".join(f"{f'{each.held:,}':>20}" for each in filled)
    print(f"{'ms (times the smallest)':<30}{heads}")
    for name in filled[0].calls():
        medians = _medians([each.calls()[name] for each in filled], rounds)
        shown = "".join(f"{f'{ms:.2f} ({ms / medians[0]:.2f})':>20}" for ms in medians)
        print(f"{name:<30}{shown}")


def _medians(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    spent: list[list[float]] = [[] for _ in calls]
    # The first tenth warms up.
    for number in range(rounds + rounds // 10):
        for call, mine in zip(calls, spent, strict=True):
            began = time.perf_counter()
            call()
            if number >= rounds // 10:
                mine.append((time.perf_counter() - began) * 1000)
    return [statistics.median(mine) for mine in spent]


if __name__ == "__main__":
    main()
