from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from crmhub.database.connection import Connection
from crmhub.records.search import costs
from crmhub.records.search.conditions import Condition
from crmhub.records.search.contains import StoredTexts
from crmhub.records.search.page_reader import COLUMNS, EVERYTHING, OF, PageReader
from crmhub.records.search.query import Known, Listed, Place, Query


class IdSets(PageReader):
    def __init__(
        self,
        connection: Connection,
        account_id: int,
        kind: int,
        query: Query,
        everything: int = 0,
        *,
        conditions: Sequence[Condition],
        known: Known | None = None,
    ) -> None:
        super().__init__(connection, account_id, kind, query, everything)
        stored = StoredTexts(connection, account_id, kind)
        self._conditions = [each.optimized(stored) for each in conditions]
        # One for each condition. If all are negated, the set of all records is one more.
        self._sets = len(self._conditions) + all(each.negated for each in self._conditions)
        self._alone = self._sets == 1
        # Looks ids up before anything is sorted: otherwise both planners may walk the sort order.
        self._fence = "offset 0" if connection.dialect == "postgresql" else "limit -1"
        self._narrow = dict[int, int]()
        # Whether the ids of the only condition are few.
        self._is_small = False
        self._known = known

    @property
    def _in_order(self) -> bool:
        return all(condition.in_order for condition in self._conditions)

    @property
    def _index_only(self) -> bool:
        is_single = len(self._conditions) == 1 and self._conditions[0].index_only
        return is_single and self._connection.dialect == "postgresql"

    @property
    def _sorted_by_it(self) -> bool:
        return len(self._conditions) == 1 and self._conditions[0].span(self._query.sort).whole

    @property
    def _order_after_look_up(self) -> str:
        # The sign keeps SQLite from walking the sort order to save the sorting.
        return f"+{self._order}"

    def _rows_looked_up(self, where: str, params: Mapping[str, Any], most: int) -> list[Listed]:
        source = f"records where {OF} and {where}"
        return self._rows(source, params, most, self._order_after_look_up)

    def _page_of(self, matching: str, behind: str = "") -> str:
        """`behind` begins with "and" and selects the records after the previous page."""
        return f"select id from {matching} where true{behind} order by {self._order} limit :rows"

    def _with_dates(self, among: str) -> str:
        return (
            "(select id, created_at, updated_at from records"
            f" where {OF} and {among} {self._fence}) as matching"
        )

    def _with_index_dates(self, found: str) -> str:
        """Earlier versions left rows without a date (0) or, in `index_behind`, with an old one."""
        date = f"(select updated_at from records where {OF} and id = found.id)"
        behind = f"updated_at = 0 or id in (select id from index_behind where {OF})"
        return (
            f"(select id, case when {behind} then {date} else updated_at end as updated_at"
            f" from {found}) as matching"
        )

    def _indexed(self) -> list[int]:
        return [n for n, c in enumerate(self._conditions) if c.uses_index and not c.negated]

    def _narrowest(self, most: int) -> int:
        if most not in self._narrow:
            self._narrow[most] = self._probed(most)
        return self._narrow[most]

    def _probed(self, most: int) -> int:
        seeking = self._indexed()
        if not seeking:
            return -1
        further, params = [], dict[str, Any]()
        for n in seeking:
            ids = self._conditions[n].ids(self._connection, n)
            further.append(f"(select 1 from ({ids.text}) as set{n} limit 1 offset :most)")
            params |= ids.params
        row = self._connection.row(
            f"select {', '.join(further)}", self._of | params | {"most": most}
        )
        assert row is not None
        return next((n for n, more in zip(seeking, row, strict=True) if more is None), -1)

    def _among(self, ids: str) -> str:
        if self._connection.dialect == "postgresql":
            return f"id = any(array({ids}))"
        return f"id in ({ids})"

    def _behind(self, after: Place | None) -> tuple[str, dict[str, Any]]:
        text, params = super()._behind(after)
        down, sort = self._query.descending, self._query.sort
        spans = [condition.span(sort) for condition in self._conditions]
        first = next((span.first for span in spans if span.first is not None), None)
        end = next((span.end for span in spans if span.end is not None), None)
        # Of two bounds at the same end, SQLite would look at one alone.
        if after is not None and down and end is not None and after.key < end:
            end = None
        elif after is not None and not down and first is not None and after.key >= first:
            first = None
        if first is not None:
            text, params["span_from"] = f"{text} and {sort} >= :span_from", first
        if end is not None:
            text, params["span_to"] = f"{text} and {sort} < :span_to", end
        return text, params

    def _test(self, without: int = -1) -> tuple[str, dict[str, Any]]:
        tests, params = ["true"], dict[str, Any]()
        for n, condition in enumerate(self._conditions):
            if n != without:
                test = condition.test(self._connection, n)
                negated = f"not coalesce({test.text}, false)"
                tests.append(negated if condition.negated else test.text)
                params |= test.params
        return " and ".join(tests), params

    def _ids(self, within: str = "true", down: str = "") -> tuple[str, dict[str, Any]]:
        sets, without = list[str](), list[str]()
        params: dict[str, Any] = {}
        for n, condition in enumerate(self._conditions):
            select = condition.ids if self._is_small else condition.many_ids
            ids = select(self._connection, n)
            params |= ids.params
            text = f"select id from ({ids.text}) as ids where {within}"
            (without if condition.negated else sets).append(text)
        sets = sets or [f"select id from records where {OF} and {within}"]
        if len(sets) + len(without) == 1:
            return sets[0] + (f" order by id {down}" if down else ""), params
        combined = _merged if self._connection.dialect == "sqlite" else _joined
        return combined(sets, without, down), params

    @contextmanager
    def _all(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if tested := self._tested():
            yield tested
        else:
            with self._connection.large_join_settings(self._sets):
                yield self._ids()

    def _tested(self) -> tuple[str, dict[str, Any]] | None:
        """Test the few records of one condition for the others; None without one."""
        chosen = -1
        if len(self._conditions) > 1:
            sizes = (costs.SMALL_RESULT, costs.TESTED_SET)
            chosen = next((n for most in sizes if (n := self._narrowest(most)) >= 0), -1)
        if chosen < 0:
            return None
        test, params = self._test(without=chosen)
        ids = self._conditions[chosen].ids(self._connection, chosen)
        tested = f"records where {OF} and {self._among(ids.text)}"
        if self._connection.dialect == "sqlite":
            # Otherwise it would walk an index that has all columns of the test.
            tested = f"(select {COLUMNS} from {tested} {self._fence}) as tested where true"
        return f"select id from {tested} and {test}", params | ids.params

    def total(self) -> int:
        if self._alone:
            if self._connection.dialect == "sqlite" and not self._conditions[0].uses_index:
                # All texts are read for the few ids, so they are kept for the page.
                return self._count()
            size = self._conditions[0].size(self._connection, 0)
            return self._of_all(size.text, size.params)
        if len(self._conditions) == 1:
            size = self._conditions[0].size(self._connection, 0)
            return self._of_all(f"({EVERYTHING}) - {size.text}", size.params)
        if any(not condition.negated for condition in self._conditions):
            return self._count()
        # Complements: whatever is in none of the sets. One statement, since both numbers change.
        sets = [each.many_ids(self._connection, n) for n, each in enumerate(self._conditions)]
        params = {name: value for ids in sets for name, value in ids.params.items()}
        united = _united(self._connection.dialect, [ids.text for ids in sets])
        with self._connection.large_join_settings(len(sets)):
            return self._of_all(f"({EVERYTHING}) - (select count(*) from {united})", params)

    def _count(self) -> int:
        postgresql = self._connection.dialect == "postgresql"
        array = "array_agg(id)" if postgresql else "json_group_array(id)"
        with self._all() as (ids, params):
            [(total, counted, everything)] = self._connection.rows(
                f"with found (id) as ({ids})"
                f" select count(*), case when count(*) < :few then {array} end, ({EVERYTHING})"
                " from found",
                {**self._of, **params, "few": costs.COUNTED},
            )
        self.everything = int(everything)
        self.counted = (counted if postgresql else orjson.loads(counted or "[]")) or []
        return int(total)

    def _within_reach(self) -> float:
        """Within the time filters; infinity without any, or if counting would read too much."""
        between, params = self._behind(None)
        if not between:
            return math.inf
        entries = f"select 1 from records where {OF}{between} limit {costs.LONGEST_INDEX_WALK}"
        found = int(self._scalar(f"select count(*) from ({entries}) as entries", params))
        return found if found < costs.LONGEST_INDEX_WALK else math.inf

    def _scalar(self, sql: str, params: dict[str, Any]) -> Any:
        return self._connection.scalar(sql, self._of | params)


def _merged(sets: Sequence[str], without: Sequence[str], down: str) -> str:
    return " except ".join((" intersect ".join(sets), *without)) + f" order by 1 {down}"


def _joined(sets: Sequence[str], without: Sequence[str], down: str) -> str:
    """Without an explicit order PostgreSQL would sort the sets in `without` all the same."""
    first, *others = [f"({ids})" for ids in sets]
    joins = [f" join {ids} as s{n} (id) using (id)" for n, ids in enumerate(others)]
    joins += [
        f" left join ({ids} order by 1 {down}) as w{n} (id) using (id)"
        for n, ids in enumerate(without)
    ]
    where = "".join(f" and w{n}.id is null" for n, _ in enumerate(without))
    order = f" order by id {down}" if down else ""
    return f"select id from {first} as s (id){''.join(joins)} where true{where}{order}"


def _united(dialect: str, sets: Sequence[str]) -> str:
    if len(sets) == 1:
        return f"({sets[0]}) as united"
    if dialect == "sqlite":
        return f"({' union '.join(sets)} order by 1) as united"
    first, *others = [f"({ids}) as s{n} (id)" for n, ids in enumerate(sets)]
    return first + "".join(f" full join {source} using (id)" for source in others)
