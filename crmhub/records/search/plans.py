"""Lists and searches: the exact total, and one page of records (a list has no filters).

The total and the page are two plans. The total is counted at the first page, on the index tables
alone, and travels in the cursor. Where one filter lets at most a thousand records through, these
are fetched and tested: total and first page come together, in one statement or two.

For any other page the exact total tells what costs least. To test a document, or to find an id and
what it is sorted by, takes the database a microsecond or two; an entry of an index that is only
passed, a tenth of that.
- What was created or changed in some time is a stretch of one of the sort orders. In that one it
  is a list. In the other one, PostgreSQL's index tells itself what passes: it is walked for as many
  entries as there are matches, a hundred thousand at most, then the stretch is read and sorted.
  With other filters, too, a walk begins and ends where that time does: nothing is changed before
  it is created.
- What one filter on a property lets through is dated: its index tells, too, when each record was
  changed, and a match takes no longer to sort than an entry to pass. Under `updated_at` a hundred
  thousand of these (SQLite: forty thousand) are sorted where a short walk has not found the page.
- Fewer than a thousand matches are fetched: their ids are found, sorted by what an index holds,
  and the documents of the page are read. Of several filters, the total has found the ids, which
  the cursor keeps for the other pages; what has changed since then is found by its time of change,
  and all documents are tested.
- Others are walked to, where a page should take no more documents than there are matches: the
  sort order is read and the documents are tested. After twice as many as it should take, but not
  before a thousand, the walk halts: the filter goes along with the sort order.
- What is more than a hundredth of all records (SQLite: a tenth) is then guessed: ids rise with
  time, so the page should be at one end of the set's ids. Those are read in their order, several
  sets merged, from where the last of them begins, as far as that takes. The proof passes the
  entries of an index up to there.
- Else the walk goes on for as many documents as match; where no sets would have to be joined
  instead, at most thirty thousand and on SQLite a quarter of the matches. So far it goes before
  anything is guessed where sets would have to be joined for that, and behind another page, since
  where that one was there is mostly more.
- What is left is fetched.
Filters on one property are one set, as a range is one stretch of its index.
Where the ids of several sets are found, one that lets at most ten thousand through has its
documents tested for the others; larger sets are merged, each read once, in the order of its index
or sorted.

Under `updated_at desc`, the default, a record that changes while a client walks jumps to the
front, past the client. So when such a walk ends it catches up: the records that existed at its
start and changed since follow, oldest change first. What changes again meanwhile comes again.
A change is stamped a little before it is committed, so it may appear behind the stamp of the
start: the catching up begins that much earlier, and leaves out what the pages showed.

A page holds at most MAX_PAGE_BYTES of properties. So a statement returns the properties of a large
record as their size only: of n records, those larger than an n-th of the bound. Another statement
then reads the texts that the page needs.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

from crmhub.records.search import costs
from crmhub.records.search.guess import Guess
from crmhub.records.search.id_sets import COLUMNS, EVERYTHING, LISTED, OF
from crmhub.records.search.page_reader import as_record, returning
from crmhub.records.search.query import Listed, Place, Query


@dataclass(slots=True)
class _Walk:
    """How far a walk has come, how many documents its next window has, and what it has found."""

    after: Place | None
    window: int
    rows: list[Listed] = field(default_factory=list)
    documents: int = 0


class Search(Guess):
    """One listing of one kind of record of one account: chooses the plan of each page."""

    def with_query(self, query: Query) -> Search:
        """Return another listing of what passes the same filters."""
        search = copy(self)
        search._query = query
        return search

    def small_result(self) -> tuple[int, list[Listed]] | None:
        """Return total and first page of a list, and of what one filter lets few records through.

        These come in one statement, or two; None for others.
        """
        if not self._conditions:
            return self._list()
        seeking = self._indexed()
        chosen = next(iter(seeking), -1)
        if len(seeking) > 1:
            chosen = self._narrowest(costs.SMALL_RESULT)
        if chosen < 0:
            return None
        test, params = self._test(without=chosen)
        dated = self._has_updated_at
        ids = self._conditions[chosen].ids(self._connection, chosen, with_updated_at=dated)
        total, found = "count(*) over ()", "select id from found"
        if len(self._conditions) == 1:
            total = "(select n from size)"
            matching = self._with_dates(self._among(found))
            found = self._page_of(self._with_current_dates("found") if dated else matching)
        # Behind the records stands how many the filter lets through: no records may mean too many.
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
                "most": costs.SMALL_RESULT + 1,
                **returning(self._wanted),
            },
        )
        if size > costs.SMALL_RESULT:
            return None
        page = self._read([as_record(row[1:]) for row in rows])
        return (int(rows[0][0]) if rows else 0), page

    def _list(self) -> tuple[int, list[Listed]]:
        rows = self._connection.rows(
            f"select ({EVERYTHING}), {self._shown} from (select {LISTED}"
            f" from records where {OF} order by {self._order} limit :rows) as page",
            self._of | returning(self._wanted),
        )
        page = self._read([as_record(row[1:]) for row in rows])
        return (int(rows[0][0]) if rows else 0), page

    def page(self, total: int, after: Place | None) -> list[Listed]:
        """Return a page of records behind `after`, and one more row if there are more.

        That row comes alone if all records of the page were archived while they were read.
        """
        if not self._conditions or self._sorted_by_it:
            behind, params = self._behind(after)
            return self._read(self._rows(f"records where {OF}{behind}", params, self._wanted))
        if total == 0:
            return []
        changed = self._query.changed_since is not None
        if total < costs.SMALL_RESULT and not changed:
            known = self._page_of_counted() if after is None else self._page_of_known(after)
            return known or self._fetch(after, many=False)
        everything = self.everything = self.everything or int(self._scalar(EVERYTHING, {}))
        expected = self._wanted * everything // total
        if self._index_only:
            walk = self._begin_walk(after, expected)
            found = self._walk(walk, max(costs.SMALL_RESULT, min(total, costs.LONGEST_INDEX_WALK)))
            return self._fetch(after) if found is None else found
        if expected > total * costs.WALK_PER_MATCH:
            expected = int(self._wanted * min(everything, self._within_reach()) // total)
        sqlite = self._connection.dialect == "sqlite"
        soon = self._has_updated_at and total <= (
            costs.SORTED_DATED_ON_SQLITE if sqlite else costs.SORTED_DATED
        )
        # What changed since is mostly little, so it is walked whatever the filters are.
        per_match = costs.WALK_PER_DATED_MATCH if soon else costs.WALK_PER_MATCH
        worth = changed or expected <= total * per_match
        halt = max(costs.SMALL_RESULT, costs.WALK_FACTOR * expected)
        part = costs.WALK_PART_ON_SQLITE if sqlite and self._alone else costs.WALK_PER_MATCH
        longest = int(total * part)
        longer = max(halt, min(longest, costs.LONGER_WALK))
        walk = self._begin_walk(after, expected)
        # To join sets is dear, but not those that are in the order of the page; and where the page
        # before was there is mostly more.
        merged = self._query.sort == "created_at" and self._in_order
        patient = after is not None or not (self._alone or merged)
        found = self._walk(walk, longer if patient and not soon else halt) if worth else None
        if found is None and soon:
            return self._fetch(after)
        many = everything * costs.GUESSED_PART * (costs.GUESSED_FACTOR_ON_SQLITE if sqlite else 1)
        if found is None and not changed and total > many:
            early = costs.TESTED_AFTER_GUESS_EARLY
            found = self._guess(after, costs.TESTED_AFTER_GUESS if patient else early)
        if found is None and worth:
            found = self._walk(walk, longer if self._alone else max(halt, longest))
        return self._fetch(after) if found is None else found

    def _begin_walk(self, after: Place | None, expected: int) -> _Walk:
        return _Walk(after, max(self._wanted, expected * 3 // 2))

    def _walk(self, walk: _Walk, until: int) -> list[Listed] | None:
        """Go on with a walk; None where so many documents end no page."""
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
            # One statement, since the window ends elsewhere as soon as records come or go. Its last
            # place stands behind what passed, and is not looked for where that fills the page.
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
        """Return the first page of those that were counted; nothing where any has changed since."""
        if not self.counted:
            return []
        among, these = self._connection.in_list("id", "these", self.counted)
        test, params = self._test()
        page = f"{self._among(self._page_of(self._with_dates(among)))} and {test}"
        rows = self._rows_looked_up(page, params | these, self._wanted)
        return self._read(rows) if len(rows) == min(self._wanted, len(self.counted)) else []

    def _page_of_known(self, after: Place) -> list[Listed]:
        """Return another page of those that passed when the listing began, and of what may since.

        Nothing where these are not known, or much has changed.
        """
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

    def _fetch(self, after: Place | None, *, many: bool = True) -> list[Listed]:
        behind, values = self._behind(after)
        if self._has_updated_at:
            dated = self._conditions[0].ids(self._connection, 0, with_updated_at=True)
            source = self._with_current_dates(f"({dated.text})", many=many)
            page = self._among(self._page_of(source, behind))
            with self._connection.large_join_settings(1 + many, hashed=True):
                rows = self._rows_looked_up(page, dated.params | values, self._wanted)
        else:
            with self._all() as (ids, params):
                among = self._test()[0] if self._index_only else self._among(ids)
                page = self._page_of(self._with_dates(among), behind)
                rows = self._rows_looked_up(self._among(page), params | values, self._wanted)
        return self._read(rows)
