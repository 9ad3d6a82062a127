"""Lists and searches: the exact total, and one page of records (a list has no filters).

The total and the page are two plans. The total is counted on the index tables alone, at the
first page, and travels in the cursor. For the page, a filter that many records pass walks the
sort order and tests the documents; one that few pass fetches its ids first, sorts them by an
index, and reads the documents of the page. The exact total tells which of the two costs less:
testing a document and finding an id take the database about a microsecond or two. A walk that
meets too few matches (the filter goes along with the sort order) gives up when it has cost as
much as fetching the ids, and fetches them. Where a filter asks for a value that few records
have, these are fetched and counted at once, in one statement.

Under `updated_at desc`, the default, a record that changes while a client walks jumps to the
front, past the client. So when such a walk ends it catches up: the records that existed at its
start and changed since follow, oldest change first. What changes again meanwhile comes again.
A change is stamped a little before it is committed, so it may appear behind the stamp of the
start: the catching up begins that much earlier, and leaves out what the first page showed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from crmhub.db import Connection, Row
from crmhub.records.filters import Condition, Document, Filter

# So many are fetched whatever else they cost.
_FEW = 1000
# How many documents may be tested for each id that would have to be found and sorted instead.
_WORTH = 1.0
# A walk goes on for so many times as many documents as it should take, or as it is worth.
_PATIENCE = 3
_LONGEST_WALK = 1_000_000
# A window of a walk is so many times as wide as the one before.
_WIDER = 4
_OF = "account_id = :account and kind = :kind"
_EVERYTHING = f"select coalesce(sum(n), 0) from record_count where {_OF}"
_COLUMNS = "id, created_at, updated_at, properties"

# How long before its commit (ms) a change may have been stamped.
_SLOWEST_COMMIT = 2000


@dataclass(frozen=True, slots=True)
class Start:
    """When a walk began (ms): what is stamped later has changed since.

    So has what is stamped later than `settled`, but for the records that the first page `shown`.
    """

    at: int
    settled: int
    shown: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """What to list: filters, the sort column and direction, the size of a page.

    With `changed_since`, only records that existed then and changed later.
    """

    filters: tuple[Filter, ...] = ()
    sort: str = "updated_at"
    descending: bool = True
    limit: int = 20
    changed_since: Start | None = None

    @property
    def by_newest_change(self) -> bool:
        """Whether a record that changes during a walk jumps past it."""
        return self.sort == "updated_at" and self.descending

    def catch_up(self, since: Start, limit: int) -> Query:
        """Return the listing of what a walk that began then may have missed."""
        return replace(self, sort="updated_at", descending=False, limit=limit, changed_since=since)


@dataclass(frozen=True, slots=True)
class Place:
    """The last record of the page before: the value it is sorted by, and its id."""

    key: int
    id: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A record of a page; `properties` is the stored JSON text."""

    id: int
    created_at: int
    updated_at: int
    properties: str


def start(query: Query, first: Sequence[Listed], now: int) -> Start:
    """Return when the walk began whose first page holds these records.

    Nothing is known of what comes behind that page, so its last record bounds what is settled.
    """
    if not first or not query.by_newest_change:
        return Start(now, now)
    # Another process's clock may be ahead of ours.
    at = max(now, first[0].updated_at)
    settled = max(now - _SLOWEST_COMMIT, first[-1].updated_at)
    changed = [row for row in first if row.updated_at > max(settled, row.created_at)]
    return Start(at, settled, tuple(row.id for row in changed))


class Search:
    """One listing of one kind of record of one account."""

    def __init__(
        self,
        connection: Connection,
        *,
        account_id: int,
        kind: int,
        query: Query,
        conditions: Sequence[Condition],
    ) -> None:
        self._connection = connection
        self._of = {"account": account_id, "kind": kind}
        self._query = query
        self._conditions = conditions

    def few(self) -> tuple[int, list[Listed]] | None:
        """Return total and first page of a list, and of what one filter lets few records through.

        These come in one statement, or two; None for others.
        """
        if self._query.changed_since is not None:
            return None
        if not self._conditions:
            return self._list()
        chosen, known = self._narrowest()
        if chosen < 0:
            return None
        test, params, rest = self._test(without=chosen)
        ids = self._conditions[chosen].ids(self._connection, chosen)
        total, found = "count(*) over ()", "select id from found"
        if len(self._conditions) == 1:
            total, found = "(select count(*) from found)", self._sorted_of(found)
        rows = self._connection.rows(
            f"with found (id) as materialized ({ids.text} limit :most)"
            f" select {total}, id, created_at, updated_at, cast(properties as text) from records"
            f" where {_OF} and (select count(*) from found) < :most"
            f" and {self._among(found)} and {test} order by {self._order} limit :rows",
            {
                **self._of,
                **params,
                **ids.params,
                "most": _FEW + 1,
                "rows": _FEW if rest else self._wanted,
            },
        )
        if not rows:
            # There may have been too many to test.
            return (0, []) if known else None
        listed = [Listed(*row[1:]) for row in rows]
        if not rest:
            return int(rows[0][0]), listed
        passed = [row for row in listed if _passes(row, rest)]
        return len(passed), passed[: self._wanted]

    def _list(self) -> tuple[int, list[Listed]]:
        rows = self._connection.rows(
            f"select ({_EVERYTHING}), id, created_at, updated_at, cast(properties as text)"
            f" from records where {_OF} order by {self._order} limit :rows",
            self._of | {"rows": self._wanted},
        )
        return (int(rows[0][0]) if rows else 0), [Listed(*row[1:]) for row in rows]

    def _narrowest(self) -> tuple[int, bool]:
        """Return the number of the filter that may let few through, and whether it is sure to.

        The number is -1 where there is none.
        """
        seeking = [n for n, c in enumerate(self._conditions) if c.seeks and not c.negated]
        if len(seeking) < 2:
            return (seeking[0], False) if seeking else (-1, False)
        counts, params = [], dict[str, Any]()
        for n in seeking:
            ids = self._conditions[n].ids(self._connection, n)
            counts.append(f"(select count(*) from ({ids.text} limit :most) as set{n})")
            params |= ids.params
        row = self._connection.row(
            f"select {', '.join(counts)}", self._of | params | {"most": _FEW + 1}
        )
        assert row is not None
        count, chosen = min(zip(row, seeking, strict=True))
        return (chosen, True) if count <= _FEW else (-1, False)

    def _among(self, ids: str) -> str:
        if self._connection.dialect == "postgresql":
            return f"id = any(array({ids}))"
        return f"id in ({ids})"

    def _sorted_of(self, ids: str, behind: str = "") -> str:
        """The select of the ids of the page among these, sorted by what an index holds."""
        # The fence has the ids looked up before anything is sorted: without it both planners may
        # walk the sort order, past every record that does not match.
        fence = "offset 0" if self._connection.dialect == "postgresql" else "limit -1"
        return (
            "select id from (select id, created_at, updated_at from records"
            f" where {_OF} and {self._among(ids)} {fence}) as matching where true{behind}"
            f" order by {self._order} limit :rows"
        )

    def total(self) -> int:
        """Return how many records pass all filters, exactly."""
        positive = [each for each in self._conditions if not each.negated]
        if positive:
            text, params = self._ids()
            return int(self._scalar(f"select count(*) from ({text}) as found", params))
        everything = self._everything()
        if not self._conditions:
            return everything
        # Complements: whatever is in none of the sets.
        sets = [each.ids(self._connection, n) for n, each in enumerate(self._conditions)]
        params = {name: value for each in sets for name, value in each.params.items()}
        text = " union ".join(each.text for each in sets)
        return everything - int(self._scalar(f"select count(*) from ({text}) as found", params))

    def page(self, total: int, after: Place | None) -> list[Listed]:
        """Return up to limit + 1 records behind `after` (the one too many tells of more)."""
        if not self._conditions:
            behind, params = self._behind(after)
            return self._rows(f"records where {_OF}{behind}", params, self._wanted)
        if total == 0:
            return []
        if total < _FEW and self._query.changed_since is None:
            return self._fetch(after)
        expected = self._wanted * self._everything() // total
        # What changed since is mostly little, so it is walked whatever the filters are.
        if self._query.changed_since is not None or expected <= total * _WORTH:
            found = self._walk(expected, total, after)
            if found is not None:
                return found
        return self._fetch(after)

    def place(self, row: Listed) -> Place:
        """Return the place of a record in this listing."""
        return Place(getattr(row, self._query.sort), row.id)

    def _fetch(self, after: Place | None) -> list[Listed]:
        ids, params = self._ids()
        behind, values = self._behind(after)
        page = self._among(self._sorted_of(ids, behind))
        return self._rows(f"records where {_OF} and {page}", params | values, self._wanted)

    def _walk(self, expected: int, total: int, after: Place | None) -> list[Listed] | None:
        test, params, rest = self._test()
        # By then fetching the ids would have cost as much.
        longest = min(_LONGEST_WALK, max(_FEW, _PATIENCE * expected, int(total * _WORTH)))
        window = longest
        if rest or self._connection.dialect == "sqlite":
            # These read a window to its end, whether or not the page is full before.
            window = max(self._wanted, expected * 3 // 2)
        found: list[Listed] = []
        while longest > 0:
            window = min(window, longest)
            behind, values = self._behind(after)
            walked = (
                f"(select {_COLUMNS} from records where {_OF}{behind}"
                f" order by {self._order} limit :window) as walked"
            )
            values["window"] = window
            # Of what the database lets through, conditions that it cannot test may refuse any.
            most = window if rest else self._wanted - len(found)
            rows = self._rows(f"{walked} where {test}", params | values, most)
            found += [row for row in rows if _passes(row, rest)]
            if len(found) >= self._wanted:
                return found[: self._wanted]
            last = self._connection.row(
                f"select {self._query.sort}, id from {walked}"
                f" order by {self._order} limit 1 offset :before",
                self._of | values | {"before": window - 1},
            )
            if last is None:
                return found
            after = Place(*last)
            longest -= window
            window *= _WIDER
        return None

    def _test(self, without: int = -1) -> tuple[str, dict[str, Any], list[Condition]]:
        """Return the conditions as SQL on a row, and those that SQL cannot tell."""
        tests, rest = ["true"], []
        params: dict[str, Any] = {}
        for n, condition in enumerate(self._conditions):
            if n == without:
                continue
            test = condition.test(self._connection, n)
            if test is None:
                rest.append(condition)
                continue
            tests.append(f"not coalesce({test.text}, false)" if condition.negated else test.text)
            params |= test.params
        return " and ".join(tests), params, rest

    @property
    def _wanted(self) -> int:
        return self._query.limit + 1

    @property
    def _order(self) -> str:
        direction = "desc" if self._query.descending else "asc"
        return f"{self._query.sort} {direction}, id {direction}"

    def _behind(self, after: Place | None) -> tuple[str, dict[str, Any]]:
        """Return what restricts a listing to what comes behind `after`, to be and-ed."""
        text, params = "", dict[str, Any]()
        if since := self._query.changed_since:
            among, shown = self._connection.among("id", "shown", since.shown)
            text += (
                " and updated_at > :settled and updated_at > created_at and created_at <= :start"
                f" and (updated_at > :start or not ({among}))"
            )
            params |= {"settled": since.settled, "start": since.at, **shown}
        if after is not None:
            behind = "<" if self._query.descending else ">"
            text += f" and ({self._query.sort}, id) {behind} (:after_key, :after_id)"
            params |= {"after_key": after.key, "after_id": after.id}
        return text, params

    def _rows(self, source: str, params: Mapping[str, Any], most: int) -> list[Listed]:
        rows: list[Row] = self._connection.rows(
            "select id, created_at, updated_at, cast(properties as text)"
            f" from {source} order by {self._order} limit :rows",
            {**self._of, **params, "rows": most},
        )
        return [Listed(*row) for row in rows]

    def _ids(self) -> tuple[str, dict[str, Any]]:
        """The select of the ids of all records that pass."""
        text, params = f"select id from records where {_OF}", dict[str, Any]()
        first = True
        for n, each in sorted(enumerate(self._conditions), key=lambda one: one[1].negated):
            ids = each.ids(self._connection, n)
            params |= ids.params
            if first and not each.negated:
                text = ids.text
            elif self._connection.dialect == "sqlite":
                text = f"{text} {'except' if each.negated else 'intersect'} {ids.text}"
            else:
                text = _combined(text, ids.text, negated=each.negated)
            first = False
        return text, params

    def _everything(self) -> int:
        return int(self._scalar(_EVERYTHING, {}))

    def _scalar(self, sql: str, params: dict[str, Any]) -> Any:
        return self._connection.scalar(sql, self._of | params)


def _combined(ids: str, others: str, *, negated: bool) -> str:
    """Return the select of those ids that are among the others too, or (`negated`) are not.

    PostgreSQL joins in half of the time that INTERSECT takes. A full join it can only do by hash
    or merge; an inner one it would do by nested loops where it takes large sets for small ones.
    """
    found = "is null" if negated else "is not null"
    return (
        f"select one from (select a.id as one, b.id as other from ({ids}) as a (id)"
        f" full join ({others}) as b (id) on a.id = b.id offset 0) as both_sides"
        f" where one is not null and other {found}"
    )


def _passes(row: Listed, conditions: Sequence[Condition]) -> bool:
    if not conditions:
        return True
    document = Document(row.id, row.created_at, row.updated_at, orjson.loads(row.properties))
    return all(condition.matches(document) for condition in conditions)
