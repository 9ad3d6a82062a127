"""Reads the pages of a list in the sort order; a page has at most MAX_PAGE_BYTES of properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Self

from crmhub.bounds import MAX_PAGE_BYTES
from crmhub.database.bulk import Row
from crmhub.database.connection import Connection
from crmhub.records.search.query import Listed, Place, Query

LEAST_LARGE = 1024
# What `Listed._make` does, in C.
as_record = partial(tuple.__new__, Listed)

OF = "account_id = :account and kind = :kind"
EVERYTHING = f"select coalesce(sum(n), 0) from record_count where {OF}"
COLUMNS = "id, created_at, updated_at, properties"
SHOWN = {
    dialect: "id, created_at, updated_at,"
    f" case when {size} <= :large then text else cast({size} as text) end"
    for dialect, size in (
        ("postgresql", "octet_length(text)"),
        ("sqlite", "length(cast(text as blob))"),
    )
}
LISTED = "id, created_at, updated_at, cast(properties as text) as text"


class PageReader:
    table = "records"

    def __init__(
        self, connection: Connection, account_id: int, kind: int, query: Query, everything: int = 0
    ) -> None:
        self._connection = connection
        self._shown = SHOWN[connection.dialect]
        self._of = {"account": account_id, "kind": kind}
        self._query = query
        self._wanted = query.limit + 1
        # The ids of a small result of several filters: they are expensive to find.
        self.counted: list[int] = []
        # The number of records when the listing began, 0 if not counted: enough to estimate costs.
        self.everything = everything

    def with_query(self, query: Query) -> Self:
        search = copy(self)
        search._query, search._wanted = query, query.limit + 1
        return search

    def total(self) -> int:
        return self._of_all(f"({EVERYTHING})", {})

    def _of_all(self, total: str, params: dict[str, Any]) -> int:
        [(found, everything)] = self._connection.rows(
            f"select {total}, ({EVERYTHING})", self._of | params
        )
        self.everything = int(everything)
        return int(found)

    def small_result(self) -> tuple[int, list[Listed]] | None:
        """None unless one or two statements find both."""
        rows = self._connection.rows(
            f"select ({EVERYTHING}), {self._shown} from (select {LISTED}"
            f" from records where {OF} order by {self._order} limit :rows) as page",
            self._of | returning(self._wanted),
        )
        page = self._read([as_record(row[1:]) for row in rows])
        return (int(rows[0][0]) if rows else 0), page

    def page(self, total: int, after: Place | None) -> list[Listed]:
        """If more records follow, one more item without properties is returned; alone, if all
        records of the page were archived while they were read."""
        behind, params = self._behind(after)
        return self._read(self._rows(f"records where {OF}{behind}", params, self._wanted))

    def complete_page(
        self, total: int, after: Place | None, found: list[Listed] | None = None
    ) -> tuple[list[Listed], bool]:
        """Return the records (`found`, if read already), and whether more follow."""
        query = self._query
        while True:
            found = self.page(total, after) if found is None else found
            more = bool(found) and (len(found) > query.limit or not found[-1].properties)
            shown = found[:-1] if more else found
            # Otherwise all records of this page were archived while they were read.
            if shown or not more or query.limit == 0 or query.room is not None:
                return shown, more
            found = None

    def cursor_of(self, row: Listed) -> Place:
        return Place(getattr(row, self._query.sort), row.id)

    @property
    def _order(self) -> str:
        direction = "desc" if self._query.descending else "asc"
        return f"{self._query.sort} {direction}, id {direction}"

    def _behind(self, after: Place | None) -> tuple[str, dict[str, Any]]:
        text, params = "", dict[str, Any]()
        if since := self._query.changed_since:
            among, shown = self._connection.in_list("id", "shown", since.shown)
            text += (
                " and updated_at > :settled and updated_at > created_at and created_at <= :start"
                f" and (updated_at > :start or not ({among}))"
            )
            params |= {"settled": since.settled, "start": since.at, **shown}
        if after is not None:
            before = "<" if self._query.descending else ">"
            text += f" and ({self._query.sort}, id) {before} (:after_key, :after_id)"
            params |= {"after_key": after.key, "after_id": after.id}
        return text, params

    def _rows(
        self, source: str, params: Mapping[str, Any], most: int, order: str = ""
    ) -> list[Listed]:
        rows: list[Row] = self._connection.rows(
            f"select {self._shown} from (select {LISTED}"
            f" from {source} order by {order or self._order} limit :rows) as page",
            {**self._of, **params, **returning(most)},
        )
        return [as_record(row) for row in rows]

    def _read(self, rows: list[Listed]) -> list[Listed]:
        """A record that does not fit is the last item, without properties."""
        if self._query.room is None and all(row[-1][0] == "{" for row in rows):
            return rows[: self._wanted]
        page = self._with_room(rows)
        missing = [row.id for row in page if row.properties and not row.is_read]
        if not missing:
            return page
        among, these = self._connection.in_list("id", "these", missing)
        texts: dict[int, str] = dict(
            self._connection.rows(
                f"select id, cast(properties as text) from {self.table} where {OF} and {among}",
                self._of | these,
            )
        )
        return [
            row._replace(properties=texts[row.id]) if row.id in texts else row
            for row in page
            if row.is_read or not row.properties or row.id in texts
        ]

    def _with_room(self, rows: Sequence[Listed]) -> list[Listed]:
        """At least one row; one that does not fit is the last item, without properties."""
        room, taken = self._query.room, 0
        for n, row in enumerate(rows):
            taken += row.size
            # A page has one record at least, unless it began with others.
            has_room = taken <= (MAX_PAGE_BYTES if room is None else room)
            if n == self._query.limit or not (has_room or (room is None and n == 0)):
                return [*rows[:n], row._replace(properties="")]
        return list(rows)


def returning(rows: int) -> dict[str, int]:
    """Larger properties come as their size only, so that all rows fit on one page."""
    return {"rows": rows, "large": max(MAX_PAGE_BYTES // max(rows, 1), LEAST_LARGE)}
