"""Lists and searches: the exact total, and one page of records (a list has no filters).

The total and the page are two plans. The total is counted on the index tables alone, at the
first page, and travels in the cursor. For the page, a filter that many records pass walks the
sort order and tests the documents; one that few pass fetches its ids first. The exact total tells
which of the two reads less. A walk that meets too few matches (the filter goes along with the
sort order) gives up and fetches ids.

Under `updated_at desc`, the default, a record that changes while a client walks jumps to the
front, past the client. So when such a walk ends it catches up: the records that existed at its
start and changed since follow, oldest change first. What changes again meanwhile comes again.
A change is stamped a little before it is committed, so it may appear behind the stamp of the
start: the catching up begins that much earlier, and leaves out what the first page showed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import orjson

from crmhub.db import Connection, Row
from crmhub.records.filters import Condition, Document, Filter

# A walk may read this many documents for a page.
_LONGEST_WALK = 3000
# Testing a document here costs about as much as fetching and sorting this many in the database.
_TEST_COST = 4
_WIDEST_WINDOW = 1000
_NONE: Mapping[str, Any] = MappingProxyType({})


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
        text, params = self._joined(self._conditions, "union")
        return everything - int(self._scalar(f"select count(*) from ({text}) as found", params))

    def page(self, total: int, after: Place | None) -> list[Listed]:
        """Return up to limit + 1 records behind `after` (the one too many tells of more)."""
        if not self._conditions:
            return self._rows(after, self._query.limit + 1)
        if total == 0:
            return []
        expected = (self._query.limit + 1) * self._everything() // total
        # What changed since is mostly little, so it is walked whatever the filters are.
        if self._query.changed_since is not None or expected <= min(
            _LONGEST_WALK, total // _TEST_COST
        ):
            found = self._walk(expected, after)
            if found is not None:
                return found
        return self._fetch(after)

    def _fetch(self, after: Place | None) -> list[Listed]:
        text, params = self._ids()
        # The fence (offset 0, limit -1) has the ids looked up before anything is sorted: without
        # it both planners may walk the sort order, past every record that does not match.
        if self._connection.dialect == "postgresql":
            ids, fence = f"id = any(array({text}))", "offset 0"
        else:
            ids, fence = f"id in ({text})", "limit -1"
        source = (
            "(select id, created_at, updated_at, properties from records"
            f" where account_id = :account and kind = :kind and {ids} {fence}) as matching"
        )
        return self._rows(after, self._query.limit + 1, source=source, params=params)

    def _walk(self, expected: int, after: Place | None) -> list[Listed] | None:
        wanted = self._query.limit + 1
        window = min(_WIDEST_WINDOW, max(wanted, expected * 3 // 2))
        found: list[Listed] = []
        walked = 0
        while walked <= 2 * _LONGEST_WALK:
            rows = self._rows(after, window)
            found += [row for row in rows if self._passes(row)]
            if len(found) >= wanted or len(rows) < window:
                return found[:wanted]
            walked += len(rows)
            after = self.place(rows[-1])
        return None

    def _passes(self, row: Listed) -> bool:
        document = Document(row.id, row.created_at, row.updated_at, orjson.loads(row.properties))
        return all(condition.matches(document) for condition in self._conditions)

    def place(self, row: Listed) -> Place:
        """Return the place of a record in this listing."""
        return Place(getattr(row, self._query.sort), row.id)

    def _rows(
        self,
        after: Place | None,
        limit: int,
        *,
        source: str = "records",
        params: Mapping[str, Any] = _NONE,
    ) -> list[Listed]:
        sort = self._query.sort
        direction, behind = ("desc", "<") if self._query.descending else ("asc", ">")
        values = {**params, "rows": limit}
        conditions = ["account_id = :account and kind = :kind"] if source == "records" else []
        if since := self._query.changed_since:
            among, shown = self._connection.among("id", "shown", since.shown)
            conditions.append(
                "updated_at > :settled and updated_at > created_at and created_at <= :start"
                f" and (updated_at > :start or not ({among}))"
            )
            values |= {"settled": since.settled, "start": since.at, **shown}
        if after is not None:
            conditions.append(f"({sort}, id) {behind} (:after_key, :after_id)")
            values |= {"after_key": after.key, "after_id": after.id}
        where = f" where {' and '.join(conditions)}" if conditions else ""
        rows: list[Row] = self._connection.rows(
            "select id, created_at, updated_at, cast(properties as text)"
            f" from {source}{where} order by {sort} {direction}, id {direction} limit :rows",
            self._of | values,
        )
        return [Listed(*row) for row in rows]

    def _ids(self) -> tuple[str, dict[str, Any]]:
        """The select of the ids of all records that pass."""
        positive = [each for each in self._conditions if not each.negated]
        negative = [each for each in self._conditions if each.negated]
        if positive:
            text, params = self._joined(positive, "intersect")
        else:
            text, params = "select id from records where account_id = :account and kind = :kind", {}
        if negative:
            without, more = self._joined(negative, "except", first=len(positive))
            text, params = f"{text} except {without}", params | more
        return text, params

    def _joined(
        self, conditions: Sequence[Condition], word: str, *, first: int = 0
    ) -> tuple[str, dict[str, Any]]:
        sets = [each.ids(self._connection, n) for n, each in enumerate(conditions, start=first)]
        params: dict[str, Any] = {}
        for each in sets:
            params |= each.params
        return f" {word} ".join(each.text for each in sets), params

    def _everything(self) -> int:
        return int(
            self._scalar(
                "select coalesce(sum(n), 0) from record_count"
                " where account_id = :account and kind = :kind",
                {},
            )
        )

    def _scalar(self, sql: str, params: dict[str, Any]) -> Any:
        return self._connection.scalar(sql, self._of | params)
