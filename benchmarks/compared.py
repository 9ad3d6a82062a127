"""Compare totals and pages of the hub with those of a hand-made schema, in the same run.

The first request of a caller needs a total and a page. Both are measured together, and also each
alone, unless one statement of the hub returns both. The two sides run alternately on one connection
with a warm cache. The compared figure is the median time of their statements. If the results of the
two sides differ, the run ends.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import product as every
from typing import Any, TypeVar

from benchmarks.floor import COLUMNS, SORTS, Case, by_columns, cases
from crmhub.accounts.accounts import Account
from crmhub.database.bulk import Params, Row
from crmhub.database.connection import Connection, now_ms
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS
from crmhub.records.search.filters import parse
from crmhub.records.search.page_reader import PageReader
from crmhub.records.search.pages import Listing, PageRequest
from crmhub.records.search.plans import Search
from crmhub.records.search.query import Known, Place, Query

T = TypeVar("T")

_LIMIT = 20
_FAR = 1000
WORST_AIM_MS = 50.0


class Timed(Connection):
    """A connection that records each statement and its duration until all rows are read (s)."""

    def __init__(self, inner: Connection) -> None:
        self._inner = inner
        self.dialect = inner.dialect
        self.spent = 0.0
        self.asked: list[str] = []

    def rows(self, sql: str, params: Params | None = None) -> list[Row]:
        """Return all rows."""
        with self._noted(sql):
            return self._inner.rows(sql, params)

    def run(self, sql: str, params: Params | None = None) -> int:
        """Run a statement that returns no rows."""
        with self._noted(sql):
            return self._inner.run(sql, params)

    def large_join_settings(self, sets: int) -> AbstractContextManager[None]:
        """Let the database join large sets in one pass; its statements are not recorded."""
        return self._inner.large_join_settings(sets)

    @contextmanager
    def _noted(self, sql: str) -> Iterator[None]:
        self.asked.append(sql)
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent += time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Pair:
    """Medians in ms: the hub's statements, the hub's whole work, and the hand-made statement."""

    hub: float
    whole: float
    floor: float
    asked: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """The hub's time divided by the time of the hand-made statement."""
        return self.hub / self.floor


@dataclass(frozen=True, slots=True)
class Paged:
    """A page to measure: its query, sort order and position."""

    name: str
    page: int
    pair: Pair


class Comparison:
    """Compares the two sides on one connection.

    Each pair is measured `rounds` times, or for `seconds` if that is shorter.
    """

    def __init__(
        self, hub: Hub, connection: Connection, account: Account, *, rounds: int, seconds: float
    ) -> None:
        self._timed = Timed(connection)
        self._account = account
        self._catalogue = hub.records.catalogue(account, CONTACTS)
        self._rounds = rounds
        self._seconds = seconds

    def totals(self) -> dict[str, int]:
        """Print the totals of all queries and return them by the query's name."""
        print(
            f"{'total':<32}{'matches':>10}{'hub ms':>9}{'floor ms':>10}{'ratio':>8}   {'aim':<10}"
            f"{'floor by columns ms':>20}{'ratio':>8}"
        )
        found = {}
        for case in cases():
            matches, pair = self._total(case)
            found[case.name] = matches
            shown = (
                f"{case.name:<32}{matches:>10,}{pair.hub:>9.2f}{pair.floor:>10.2f}"
                f"{pair.ratio:>8.2f}   {_judged(pair.ratio, case.total):<10}"
            )
            if len(case.filters) > 1:
                with by_columns(self._timed):
                    _, pair = self._total(case)
                shown += f"{pair.floor:>20.2f}{pair.ratio:>8.2f}"
            print(shown.rstrip())
        return found

    def pages(self, totals: dict[str, int]) -> None:
        """Print the first, the second and a far page of all queries under each sort."""
        heads = "".join(f"{head:>24}" for head in ("total and 1", "1", "2", f"{_FAR:,}"))
        print(f"{'page of 20, hub/floor ms (ratio)':<46}{heads}   aim")
        seen: list[Paged] = []
        for case, sort, descending in every(cases(), SORTS, (True, False)):
            query = Query(case.filters, sort, descending, _LIMIT)
            name = f"{case.name}, {sort.removesuffix('_at')} {'desc' if descending else 'asc'}"
            first = self._first(case, query)
            row = [
                Paged(name, number, self._page(case, query, totals[case.name], after))
                for number, after in self._places(case, query, totals[case.name])
            ]
            if len(first.asked) == 1:
                row[0] = Paged(name, 1, first)
            shown = {each.page: _shown(each.pair) for each in row}
            if len(first.asked) == 1:
                shown[1] = ""
            columns = [_shown(first), *(shown.get(page, "") for page in (1, 2, _FAR))]
            worst = max(each.ratio for each in (first, *(each.pair for each in row)))
            text = "".join(f"{column:>24}" for column in columns)
            print(f"{name:<46}{text}   {_judged(worst, case.page)}")
            seen += row
        _summed_up(seen)

    def _search(
        self, case: Case, query: Query, known: Known | None = None, everything: int = 0
    ) -> PageReader:
        of = (self._timed, self._account.id, CONTACTS.code, query, everything)
        conditions = parse(case.filters, self._catalogue, region="")
        return Search(*of, conditions=conditions, known=known) if conditions else PageReader(*of)

    def _total(self, case: Case) -> tuple[int, Pair]:
        return self._paired(
            case.name,
            lambda: self._search(case, Query(case.filters)).total(),
            lambda: self._counted(case),
        )

    def _counted(self, case: Case) -> int:
        sql = f"select count(*) from floor where account_id = :account and {case.where}"
        return int(self._timed.scalar(sql, self._of(case)))

    def _first(self, case: Case, query: Query) -> Pair:
        conditions = parse(case.filters, self._catalogue, region="")
        sql, params = self._by_hand(case, query, None)

        def hub() -> tuple[int, list[int]]:
            listing = Listing(self._timed, self._account.id, CONTACTS, b"any key signs a cursor")
            page = listing.page(PageRequest(query), conditions)
            return page.total, [row.id for row in page.records]

        def floor() -> tuple[int, list[int]]:
            total, rows = self._counted(case), self._timed.rows(sql, params)
            return total, [row[0] for row in rows[:_LIMIT]]

        _, pair = self._paired(f"the first page of {case.name} by {query.sort}", hub, floor)
        return pair

    def _page(self, case: Case, query: Query, total: int, after: Place | None) -> Pair:
        sql, params = self._by_hand(case, query, after)
        # The first page goes on with what the total has found, and the others have it from the
        # cursor, unless total and first page came together.
        first = self._search(case, query)
        if after is None or not first.small_result():
            first.total()
        known = Known(first.counted, now_ms()) if first.counted else None

        def hub() -> list[int]:
            search = first if after is None else self._search(case, query, known, first.everything)
            return [row.id for row in search.page(total, after)]

        _, pair = self._paired(
            f"{case.name} by {query.sort}",
            hub,
            lambda: [row[0] for row in self._timed.rows(sql, params)],
        )
        return pair

    def _places(self, case: Case, query: Query, total: int) -> Iterator[tuple[int, Place | None]]:
        """Yield the pages to measure, each with the record before it."""
        yield 1, None
        for number in (2, _FAR):
            before = (number - 1) * _LIMIT
            if total > before:
                sql, params = self._by_hand(case, query, None)
                row = self._timed.row(f"{sql} offset {before - 1}", params)
                assert row is not None
                yield number, Place(row[COLUMNS.index(query.sort)], row[0])

    def _by_hand(self, case: Case, query: Query, after: Place | None) -> tuple[str, dict[str, Any]]:
        direction, symbol = ("desc", "<") if query.descending else ("asc", ">")
        behind, params = "", self._of(case)
        if after is not None:
            behind = f" and ({query.sort}, id) {symbol} (:key, :last)"
            params |= {"key": after.key, "last": after.id}
        columns, order = ", ".join(COLUMNS), f"{query.sort} {direction}, id {direction}"
        found = f"select {columns} from floor where account_id = :account and {case.where}{behind}"
        page = f"order by {order} limit {_LIMIT + 1}"
        walked = f"{found} {page}"
        if not case.ranged:
            return walked, params
        # The planner takes any order to be as likely, so a hand would have tried both.
        fetched = f"select {columns} from ({found} offset 0) as found {page}"
        return min((walked, fetched), key=lambda sql: self._tried(sql, params)), params

    def _tried(self, sql: str, params: Params) -> float:
        for _ in range(2):
            spent, _asked = self._statements(lambda: self._timed.rows(sql, params))
        return spent

    def _of(self, case: Case) -> dict[str, Any]:
        return {"account": self._account.id, **case.params}

    def _paired(self, name: str, hub: Callable[[], T], floor: Callable[[], T]) -> tuple[T, Pair]:
        # The first round warms up and shows that both find the same.
        found, expected = hub(), floor()
        if found != expected:
            raise SystemExit(f"{name}: the hub finds {found}, the floor {expected}")
        ours, whole, theirs = list[float](), list[float](), list[float]()
        asked: tuple[str, ...] = ()
        until = time.perf_counter() + self._seconds
        while not ours or (len(ours) < self._rounds and time.perf_counter() < until):
            began = time.perf_counter()
            spent, asked = self._statements(hub)
            whole.append((time.perf_counter() - began) * 1000)
            ours.append(spent)
            theirs.append(self._statements(floor)[0])
        middle = statistics.median
        return found, Pair(middle(ours), middle(whole), middle(theirs), asked)

    def _statements(self, work: Callable[[], object]) -> tuple[float, tuple[str, ...]]:
        self._timed.spent = 0.0
        self._timed.asked.clear()
        work()
        return self._timed.spent * 1000, tuple(self._timed.asked)


def _shown(pair: Pair) -> str:
    return f"{pair.hub:.2f}/{pair.floor:.2f} ({pair.ratio:.1f})"


def _judged(ratio: float, aim: float) -> str:
    if not aim:
        return "-"
    return f"{'≤' if ratio <= aim else 'OVER'} {aim:g}"


def _summed_up(seen: list[Paged]) -> None:
    worst = sorted(seen, key=lambda each: each.pair.hub, reverse=True)[:5]
    print(f"worst pages (aim: below {WORST_AIM_MS:g} ms in the database)")
    for each in worst:
        pair = each.pair
        print(
            f"  {each.name}, page {each.page}: {pair.hub:.1f} ms in {len(pair.asked)} statements"
            f" ({pair.whole:.1f} ms with Python's part), floor {pair.floor:.1f} ms"
        )
    over = sum(each.pair.hub >= WORST_AIM_MS for each in seen)
    first = {each.name: each.pair.hub for each in seen if each.page == 1}
    far = [each.pair.hub / first[each.name] for each in seen if each.page == _FAR]
    counting = sum("count(" in sql for each in seen if each.page > 1 for sql in each.pair.asked)
    print(f"  {over} of {len(seen)} pages are over it")
    if far:
        print(
            f"page {_FAR} takes {statistics.median(far):.2f} times as long as page 1 (median),"
            f" {max(far):.1f} times at most (aim: as page 1)"
        )
    print(f"statements that count on a page behind the first: {counting} (aim: 0)")
