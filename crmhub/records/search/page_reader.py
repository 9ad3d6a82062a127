"""Reads the records of one page; their properties together have at most MAX_PAGE_BYTES."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from crmhub.bounds import MAX_PAGE_BYTES
from crmhub.database.bulk import Row
from crmhub.records.search.id_sets import LISTED, OF, IdSets
from crmhub.records.search.query import Listed

# A document of fewer bytes is never large.
LEAST_LARGE = 1024
# What `Listed._make` does, in C.
as_record = partial(tuple.__new__, Listed)


class PageReader(IdSets):
    """Builds and runs the SQL that reads the records of a page from the database."""

    def _rows(
        self, source: str, params: Mapping[str, Any], most: int, order: str = ""
    ) -> list[Listed]:
        rows: list[Row] = self._connection.rows(
            f"select {self._shown} from (select {LISTED}"
            f" from {source} order by {order or self._order} limit :rows) as page",
            {**self._of, **params, **returning(most)},
        )
        return [as_record(row) for row in rows]

    def _rows_looked_up(self, where: str, params: Mapping[str, Any], most: int) -> list[Listed]:
        source = f"records where {OF} and {where}"
        return self._rows(source, params, most, self._order_after_look_up)

    def _read(self, rows: list[Listed]) -> list[Listed]:
        """Return the records of `rows` that fit on the page, with their properties.

        If the properties of a record are large, its row contains only their size; they are read
        here. If a record does not fit on the page, it is returned as the last item, without
        properties, and the records after it are left out.
        """
        if self._query.room is None and all(row[-1][0] == "{" for row in rows):
            # Together they are no larger than a page may be.
            return rows[: self._wanted]
        page = self._with_room(rows)
        missing = [row.id for row in page if row.properties and not row.is_read]
        if not missing:
            return page
        among, these = self._connection.in_list("id", "these", missing)
        texts: dict[int, str] = dict(
            self._connection.rows(
                f"select id, cast(properties as text) from records where {OF} and {among}",
                self._of | these,
            )
        )
        # What was archived meanwhile is left out.
        return [
            row._replace(properties=texts[row.id]) if row.id in texts else row
            for row in page
            if row.is_read or not row.properties or row.id in texts
        ]

    def _with_room(self, rows: Sequence[Listed]) -> list[Listed]:
        """Return the rows that fit on the page.

        If a row does not fit, it is added as the last item, without properties. An empty page takes
        at least one record, whatever its size.
        """
        room, taken = self._query.room, 0
        for n, row in enumerate(rows):
            taken += row.size
            # A page has one record at least, unless it began with others.
            has_room = taken <= (MAX_PAGE_BYTES if room is None else room)
            if n == self._query.limit or not (has_room or (room is None and n == 0)):
                return [*rows[:n], row._replace(properties="")]
        return list(rows)

    def _page_of(self, matching: str, behind: str = "") -> str:
        """Return the SELECT of the ids of one page, in the order of the page.

        `matching` is a SQL source of the ids and sort values of matching records. `behind` is a SQL
        condition, beginning with "and", that selects the records after the previous page.
        """
        return f"select id from {matching} where true{behind} order by {self._order} limit :rows"

    def _with_dates(self, among: str) -> str:
        """Return the SQL source of record ids with the times of creation and of the last change.

        `among` is the SQL condition that selects the rows of the table `records`.
        """
        return (
            "(select id, created_at, updated_at from records"
            f" where {OF} and {among} {self._fence}) as matching"
        )

    def _with_current_dates(self, ids: str, *, many: bool = False) -> str:
        """Return the SQL source of record ids with their present `updated_at`.

        `ids` is a SQL source of ids and `updated_at` from an index table. That time may be old; the
        present time is then in the table `index_behind`. With `many`, PostgreSQL joins this table;
        otherwise each id is looked up in it.
        """
        behind, joined = f"index_behind where {OF}", ""
        date = f"coalesce((select updated_at from {behind} and id = found.id), found.updated_at)"
        date = f"case when exists (select 1 from {behind}) then {date} else found.updated_at end"
        if many and self._connection.dialect == "postgresql":
            date = "coalesce(behind.updated_at, found.updated_at)"
            joined = f" left join (select id, updated_at from {behind}) as behind using (id)"
        return (
            # Fenced, lest a place to go on from be compared with all this anew.
            f"(select found.id, {date} as updated_at from {ids} as found{joined} {self._fence})"
            " as matching"
        )


def returning(rows: int) -> dict[str, int]:
    """Return the SQL parameters `rows` and `large` of a query that returns up to `rows` rows.

    `large` is a size (bytes). The query returns a record's properties up to that size, and only the
    size of larger properties, so that all rows together fit on one page.
    """
    return {"rows": rows, "large": max(MAX_PAGE_BYTES // max(rows, 1), LEAST_LARGE)}
