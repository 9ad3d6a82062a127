"""The query plan that guesses which records are on a page of a large result, and verifies this."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from crmhub.records.search import costs
from crmhub.records.search.id_sets import IdSets
from crmhub.records.search.page_reader import OF
from crmhub.records.search.query import Listed, Place


class Guess(IdSets):
    """A search that guesses a page of a large result from the order of the record ids.

    It then verifies that no record of the page is missing.
    """

    def _guess(self, after: Place | None, most: int) -> list[Listed] | None:
        """Return the page of records after the position `after`, or None if the guess fails.

        Ids mostly grow with the time of creation: the page should be the next matching ids after
        the newest record created before it. A record elsewhere belongs to the page only if its sort
        value lies before that of the page's last record. Up to `most` of those are tested and
        sorted in; with more, the guess fails. If the page is not full, all other ids are searched.
        """
        query = self._query
        down, beyond, before = ("desc", "<", ">") if query.descending else ("asc", ">", "<")
        behind, params = self._behind(after)
        params |= self._of | {"window": costs.READ_PER_GUESS * self._wanted, "most": most + 1}
        # Ids on one side of another one.
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
        """Return the id at which a read "asc" or "desc" can begin without missing a match.

        A match is in each set of ids that a filter selects, so the ids before any set are skipped.
        None if no index finds the first id of a set quickly.
        """
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
        """Return ids in the ranges `unread` ("<" or ">", id) that satisfy `where`, by two queries.

        Each returns up to `params["most"]` ids. A range of at most a third of all ids is read in
        the order of ids; a larger one in the sort order, whose index contains the ids and rejects
        an entry in half the time.
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
        """Return the ids a third and two thirds of the way from the lowest to the highest id.

        SQLite stores records in the order of ids and reads any range in it: infinities.
        """
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
