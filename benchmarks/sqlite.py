"""Measure totals and pages on SQLite with 100,000 contacts.

    python -m benchmarks.sqlite [--records 100000]

The contacts are those of `benchmarks.million`. The first request of a caller needs a total and a
page, which one statement returns if that is cheaper; the other requests need a page. The figures
are medians of processor time in ms, of the hub's Python code and SQLite together, with a warm
cache. Figures over their aim are listed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product as every
from typing import TypeVar

from benchmarks import crowd
from benchmarks.floor import SORTS, cases
from benchmarks.places import parser, place
from crmhub.database.connection import Connection, now_ms
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS
from crmhub.records.search.filters import parse
from crmhub.records.search.page_reader import PageReader
from crmhub.records.search.plans import Search
from crmhub.records.search.query import Known, Place, Query

T = TypeVar("T")

_LIMIT = 20
_PAGES = (1, 2, 1000)
_TOTAL_AIM_MS, _PAGE_AIM_MS = 60.0, 5.0


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--records", type=int, default=100_000)
    command.add_argument("--rounds", type=int, default=11)
    options = command.parse_args()
    with place(True) as here:
        began = time.perf_counter()
        crowd.build(here, crowd.Size(options.records, 0, 0))
        rate = options.records / (time.perf_counter() - began)
        print(f"{options.records:,} contacts written at {rate:,.0f}/s")
        hub = here.hub()
        with hub.database.reading() as connection:
            measure(hub, connection, options.rounds)
        hub.close()


def measure(hub: Hub, connection: Connection, rounds: int) -> None:
    """Print the totals and pages of all queries, and those slower than their aim."""
    account = crowd.big_account(hub)
    catalogue = hub.records.catalogue(account, CONTACTS)

    def search(query: Query, known: Known | None = None) -> PageReader:
        of = (connection, account.id, CONTACTS.code, query)
        conditions = parse(query.filters, catalogue, region="")
        return Search(*of, conditions=conditions, known=known) if conditions else PageReader(*of)

    heads = "".join(f"{head:>12}" for head in ("total", *(f"page {n:,}" for n in _PAGES)))
    print(f"{'ms':<46}{'matches':>10}{heads}")
    over = 0
    for case, sort, descending in every(cases(), SORTS, (True, False)):
        query = Query(case.filters, sort, descending, _LIMIT)
        matches, total, pages = _measured(search, query, rounds)
        bad = (total > _TOTAL_AIM_MS) + sum(ms > _PAGE_AIM_MS for ms in pages)
        over += bad
        name = f"{case.name}, {sort.removesuffix('_at')} {'desc' if descending else 'asc'}"
        shown = "".join(f"{ms:>12.2f}" if ms else " " * 12 for ms in (total, *pages))
        print(f"{name:<46}{matches:>10,}{shown:<48}{'   OVER' if bad else ''}")
    print(f"over (totals: {_TOTAL_AIM_MS:g} ms, pages: {_PAGE_AIM_MS:g} ms): {over}")


def _measured(
    search: Callable[..., PageReader], query: Query, rounds: int
) -> tuple[int, float, list[float]]:
    """Return the number of matches, and the ms of the total and each page (0 if not queried)."""
    at_once, first = _timed(rounds, lambda: search(query).small_result())
    if at_once is None:
        matches, counted = _timed(rounds, lambda: search(query).total())
        # To find that it takes two is a part of the total.
        total, pages = first + counted, list[float]()
    else:
        matches, total, pages = at_once[0], 0.0, [first]
    # The first page goes on with what the total has found, and the others have it from the cursor.
    begun = search(query)
    if at_once is None:
        begun.total()
    known = Known(begun.counted, now_ms()) if begun.counted else None
    for after in [*_places(search, query, matches)][len(pages) :]:
        listing = begun if after is None else search(query, known)
        pages.append(_timed(rounds, partial(listing.page, matches, after))[1])
    return matches, total, pages


def _timed(rounds: int, work: Callable[[], T]) -> tuple[T, float]:
    """Return the result and the median time in ms, without the first round."""
    result, spent = work(), list[float]()
    for _ in range(rounds):
        began = time.thread_time()
        work()
        spent.append((time.thread_time() - began) * 1000)
    return result, statistics.median(spent)


def _places(
    search: Callable[[Query], PageReader], query: Query, matches: int
) -> Iterator[Place | None]:
    """Yield the record before each measured page."""
    for number in _PAGES:
        before = (number - 1) * query.limit
        if before == 0:
            yield None
        elif before < matches:
            walked = search(replace(query, limit=before))
            yield walked.cursor_of(walked.page(matches, None)[before - 1])


if __name__ == "__main__":
    main()
