"""Query plans: how a search finds its exact total and one page (a list has no filters).

The first page counts the total with the index tables alone; the cursor carries it to later pages.
It determines the cheapest plan (limits in `costs`). Reading a document or an id with its sort value
takes one or two microseconds; passing an index entry a tenth. The plans, in the order tried:

- List (`PageReader`): a filter on times is a range of the sort order.
- Small result: the few records of one filter are tested against the others.
- Scan: the texts that contain a part are read once, for total and page, unless a short walk finds
  the page.
- Known ids: the cursor stores the few matches; later changes are found by their time.
- Index-only walk: the index of the sort order has all columns that the filters test.
- Walk: read and test records in the sort order, if a page needs no more records than there are
  matches, or sets of ids would have to be joined instead.
- Guess (`_guess`): a large part of all records matches, and ids grow with time; index entries prove
  that no record is missing.
- Fetch: find all ids, sort them by an index, and read the documents of the page.

No record changes before it is created, so a filter on either time bounds a walk in both orders.

In the default order, `updated_at` descending, a record that changes moves to the front. So the
listing catches up at its end with the records changed since its start, again if they change again.
The `updated_at` of a change is set a little before its commit: catching up begins a little before
the start, and leaves out the records already shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crmhub.records.search import costs
from crmhub.records.search.conditions import Condition, Sql
from crmhub.records.search.id_sets import IdSets
from crmhub.records.search.page_reader import (
    COLUMNS,
    EVERYTHING,
    LISTED,
    OF,
    as_record,
    returning,
)
from crmhub.records.search.query import Listed, Place


@dataclass(slots=True)
class _Walk:
    after: Place | None
    window: int
    rows: list[Listed] = field(default_factory=list)
    documents: int = 0


class Search(IdSets):
    """Chooses a query plan for each page."""

    def small_result(self) -> tuple[int, list[Listed]] | None:
        if self._alone and self._conditions[0].is_scanned:
            return self._scanned_result(self._conditions[0])
        seeking = self._indexed()
        chosen = next(iter(seeking), -1)
        if len(seeking) > 1:
            chosen = self._narrowest(costs.SMALL_RESULT)
        if chosen < 0:
            return None
        test, params = self._test(without=chosen)
        dated = self._alone and self._query.sort == "updated_at"
        ids = self._conditions[chosen].ids(self._connection, chosen, dated=dated)
        return self._total_and_page(ids, dated, test, params, costs.SMALL_RESULT)

    def _scanned_result(self, condition: Condition) -> tuple[int, list[Listed]] | None:
        """Read all texts once, for total and page. If many match, a short walk mostly finds the
        page, and the texts are only counted."""
        test, params = self._test(without=0)
        dated = self._query.sort == "updated_at"
        if condition.is_common:
            first = self._walk(self._begin_walk(None, costs.SMALL_RESULT), costs.LONGER_WALK)
            if first is not None:
                return self.total(), first
        if condition.uses_index:
            ids = condition.ids(self._connection, 0, dated=dated)
            found = self._total_and_page(ids, dated, test, params, costs.TRIGRAM_SET)
            if found is not None:
                return found
        ids = condition.many_ids(self._connection, 0, dated=dated)
        return self._total_and_page(ids, dated, test, params, costs.ANY_NUMBER)

    def _total_and_page(
        self, ids: Sql, dated: bool, test: str, params: dict[str, Any], most: int
    ) -> tuple[int, list[Listed]] | None:
        """None if there are more than `most` ids. `dated`: they have their `updated_at`."""
        total, found = "count(*) over ()", "select id from found"
        if self._alone:
            total = "(select n from size)"
            with_dates = self._with_index_dates if dated else self._with_dates
            found = self._page_of(with_dates("found" if dated else self._among(found)))
        # The last row has the number that the filter lets through: no records may mean too many.
        *rows, (size, *_) = self._connection.rows(
            f"with found as materialized ({ids.text} limit :most),"
            " size (n) as materialized (select count(*) from found)"
            f" select total, {self._shown} from (select {total} as total, {LISTED} from records"
            f" where {OF} and (select n from size) < :most"
            f" and {self._among(found)} and {test} order by {self._order_after_look_up}"
            " limit :rows)"
            " as few union all select n, null, null, null, null from size",
            {
                **self._of,
                **params,
                **ids.params,
                "most": most + 1,
                **returning(self._wanted),
            },
        )
        if size > most:
            return None
        page = self._read([as_record(row[1:]) for row in rows])
        return (int(rows[0][0]) if rows else 0), page

    def page(self, total: int, after: Place | None) -> list[Listed]:
        if self._sorted_by_it:
            return super().page(total, after)
        if total == 0:
            return []
        only = self._conditions[0]
        self._is_small = self._alone and only.uses_index and total <= costs.TRIGRAM_SET
        changed = self._query.changed_since is not None
        if self.counted and after is None and not changed:
            return self._page_of_counted() or self._fetch(after)
        if total < costs.SMALL_RESULT and not changed:
            return (after and self._page_of_known(after)) or self._fetch(after)
        everything = self.everything = self.everything or int(self._scalar(EVERYTHING, {}))
        expected = self._wanted * everything // total
        if self._index_only:
            walk = self._begin_walk(after, expected)
            found = self._walk(walk, max(costs.SMALL_RESULT, min(total, costs.LONGEST_INDEX_WALK)))
            return self._fetch(after) if found is None else found
        if expected > total * costs.WALK_PER_MATCH:
            expected = int(self._wanted * min(everything, self._within_reach()) // total)
        # What changed since is mostly little, so it is walked whatever the filters are.
        worth = changed or expected <= total * costs.WALK_PER_MATCH
        halt = max(costs.SMALL_RESULT, costs.WALK_FACTOR * expected)
        longest = int(total * costs.WALK_PER_MATCH)
        longer = max(halt, min(longest, costs.LONGER_WALK))
        walk = self._begin_walk(after, expected)
        # Joining sets is expensive, unless they are in the order of the page.
        merged = self._query.sort == "created_at" and self._in_order
        patient = after is not None or not (self._alone or merged)
        found = self._walk(walk, longer if patient else halt) if worth else None
        # A scan finds no ids in order.
        may_guess = not changed and not any(each.is_scanned for each in self._conditions)
        if found is None and may_guess and total > everything * costs.GUESSED_PART:
            early = costs.TESTED_AFTER_GUESS_EARLY
            found = self._guess(after, costs.TESTED_AFTER_GUESS if patient else early)
        if found is None and worth:
            found = self._walk(walk, longer if self._alone else max(halt, longest))
        return self._fetch(after) if found is None else found

    def _begin_walk(self, after: Place | None, expected: int) -> _Walk:
        return _Walk(after, max(self._wanted, expected * 3 // 2))

    def _walk(self, walk: _Walk, until: int) -> list[Listed] | None:
        """Return the full or last page; None if the walk has read `until` records in all."""
        test, params = self._test()
        # It reads a window to its end, whether or not the page is full before.
        whole = self._connection.dialect == "sqlite"
        until = min(until, costs.LONGEST_WALK)
        while walk.documents < until:
            window = until - walk.documents
            window = min(window, walk.window) if whole else window
            behind, values = self._behind(walk.after)
            most = self._wanted - len(walk.rows)
            columns = "id, created_at, updated_at" if self._index_only else COLUMNS
            passed = (
                f"(select {columns} from records where {OF}{behind}"
                f" order by {self._order} limit :window) as walked"
                f" where {test} order by {self._order} limit :rows"
            )
            if self._index_only:
                among = self._among(f"select id from {passed}")
                order = self._order_after_look_up
                passed = f"records where {OF} and {among} order by {order} limit :rows"
            # One statement, since the window ends elsewhere as soon as records come or go.
            rows = self._connection.rows(
                f"select {self._shown} from (select {LISTED} from {passed}) as passed"
                f" union all select * from (select {self._query.sort}, id, 0, null from records"
                f" where {OF}{behind} order by {self._order} limit 1 offset :before) as last"
                " limit :rows",
                {**self._of, **params, **values}
                | {"window": window, "before": window - 1, **returning(most)},
            )
            last = rows.pop() if rows and rows[-1][-1] is None else None
            walk.rows += [as_record(row) for row in rows]
            if len(walk.rows) == self._wanted or last is None:
                return self._read(walk.rows)
            walk.after = Place(*last[:2])
            walk.documents += window
            walk.window *= costs.WINDOW_GROWTH
        return None

    def _page_of_counted(self) -> list[Listed]:
        among, these = self._connection.in_list("id", "these", self.counted)
        test, params = self._test()
        page = f"{self._among(self._page_of(self._with_dates(among)))} and {test}"
        rows = self._rows_looked_up(page, params | these, self._wanted)
        return self._read(rows) if len(rows) == min(self._wanted, len(self.counted)) else []

    def _page_of_known(self, after: Place) -> list[Listed]:
        """[] if the cursor has no ids, or if too many records have changed."""
        if self._known is None:
            return []
        changed = self._connection.rows(
            f"select id from records where {OF} and updated_at > :since"
            " order by updated_at desc, id desc limit :most",
            {**self._of, "since": self._known.since, "most": costs.SMALL_RESULT + 1},
        )
        if len(changed) > costs.SMALL_RESULT:
            return []
        ids = list({*self._known.ids, *(id for (id,) in changed)})
        among, these = self._connection.in_list("id", "these", ids)
        behind, place = self._behind(after)
        test, params = self._test()
        passing = f"select {COLUMNS} from records where {OF} and {among} and {test} {self._fence}"
        source = f"({passing}) as passing where true{behind}"
        return self._read(self._rows(source, params | these | place, self._wanted))

    def _fetch(self, after: Place | None) -> list[Listed]:
        behind, values = self._behind(after)
        with self._all() as (ids, params):
            among = self._test()[0] if self._index_only else self._among(ids)
            page = self._page_of(self._with_dates(among), behind)
            rows = self._rows_looked_up(self._among(page), params | values, self._wanted)
        return self._read(rows)

    def _guess(self, after: Place | None, most: int) -> list[Listed] | None:
        """Ids mostly grow with the time of creation: take the next matching ids after the newest
        record created before.

        Up to `most` records elsewhere that belong to the page are sorted in; with more, the guess
        fails: None.
        """
        query = self._query
        down, beyond, before = ("desc", "<", ">") if query.descending else ("asc", ">", "<")
        behind, params = self._behind(after)
        params |= self._of | {"window": costs.READ_PER_GUESS * self._wanted, "most": most + 1}
        unread = list[tuple[str, int]]()
        within = "true"
        if (nearest := self._nearest(down)) is not None:
            params["nearest"] = nearest
            within = f"id {beyond}= :nearest"
        if after is not None:
            first = params["first"] = self._scalar(
                f"select id from records where {OF} and created_at {beyond}= :after_key"
                f" order by created_at {down}, id {down} limit 1",
                params,
            )
            if first is None:
                return None
            if nearest is None or (first < nearest if query.descending else first > nearest):
                within = f"id {beyond}= :first"
                unread.append((before, first))
        ids, of_set = self._ids(within, down)
        with self._connection.large_join_settings(self._sets):
            read = self._connection.rows(
                f"select id, created_at, updated_at from records where {OF}"
                f" and {self._among(f'select id from ({ids}) as found limit :window')}",
                params | of_set,
            )
        column = -1 if query.sort == "updated_at" else -2
        places = [Place(row[column], row[0]) for row in read]
        page = [place for place in places if self._is_behind(place, after)]
        page = sorted(page, reverse=query.descending)[: self._wanted]
        until = ""
        if len(page) == self._wanted:
            # What stands at that moment, too, is left out below: SQLite is slow to compare pairs.
            until = f" and {query.sort} {before}= :end_key"
            params["end_key"] = page[-1].key
        if len(read) == params["window"]:
            if not until:
                return None
            last = (min if query.descending else max)(place.id for place in places)
            unread.append((beyond, last))
        others = self._others(unread, behind + until, params) if unread else []
        if len(others) > most:
            return None
        together = [place.id for place in page] + others
        among, these = self._connection.in_list("id", "these", together)
        test, more = self._test()
        rows = self._rows_looked_up(f"{among} and {test}", params | more | these, len(together))
        # One of them may have changed meanwhile, and no longer stand on this page.
        still = [
            row
            for row in rows
            if self._is_behind(self.cursor_of(row), after)
            and not (until and self._is_behind(self.cursor_of(row), page[-1]))
        ]
        return self._read(still) if len(still) >= len(page) else None

    def _nearest(self, down: str) -> int | None:
        """Skip the ids before any set; None if no index finds the first id of a set quickly."""
        firsts, params = list[str](), dict[str, Any]()
        for n, condition in enumerate(self._conditions):
            if condition.in_order and not condition.negated and not self._alone:
                ids = condition.ids(self._connection, n)
                firsts.append(f"(select id from ({ids.text}) as set{n} order by id {down} limit 1)")
                params |= ids.params
        if not firsts:
            return None
        row = self._connection.row(f"select {', '.join(firsts)}", self._of | params)
        found = [int(id) for id in row or () if id is not None]
        return (min if down == "desc" else max)(found, default=None)

    def _others(
        self, unread: Sequence[tuple[str, int]], where: str, params: dict[str, Any]
    ) -> list[int]:
        """Return ids in the ranges `unread` ("<" or ">", id); at most `params["most"]` by each
        query.

        A large range is read in the sort order, whose index rejects an entry in half the time.
        """
        few, rest = list[str](), list[str]()
        low, high = self._thirds()
        for n, (side, id) in enumerate(unread):
            params = params | {f"unread{n}": id}
            near = id < low if side == "<" else id > high
            (few if near else rest).append(f"id {side} :unread{n}")
        parts = [(ids, "id") for ids in few]
        if rest:
            parts.append((f"({' or '.join(rest)})", self._order))
        return [
            id
            for part, order in parts
            for (id,) in self._connection.rows(
                f"select id from records where {OF}{where} and {part} order by {order} limit :most",
                params,
            )
        ]

    def _thirds(self) -> tuple[float, float]:
        """SQLite reads any range in the order of ids: infinities."""
        if self._connection.dialect == "sqlite":
            return -math.inf, math.inf
        [(lowest, highest)] = self._connection.rows(
            f"select coalesce(min(id), 0), coalesce(max(id), 0) from records where {OF}", self._of
        )
        third = (highest - lowest) / 3
        return lowest + third, highest - third

    def _is_behind(self, place: Place, after: Place | None) -> bool:
        if after is None:
            return True
        return place < after if self._query.descending else place > after
