"""The data types of a listing: query, start, position of a page, and listed record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from crmhub.records.search.filters import Filter

# How long before its commit (ms) a change may have been stamped.
_SLOWEST_COMMIT = 2000
# Of so many records that changed as shortly before a walk it is known that they were shown. Their
# ids are most of a cursor then, which stands in an address: proxies take 8,000 characters.
_MOST_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a listing, by which later changes of records are recognised.

    `at` is the time of the start and `settled` an earlier time (both ms since 1970). A record has
    changed since the start if its `updated_at` is later than `at`. The record has also changed if
    its `updated_at` is later than `settled` and no page has shown the record. The second case
    covers changes that were committed after the start but have an earlier `updated_at`. `shown`
    contains the ids of shown records.
    """

    at: int
    settled: int
    shown: tuple[int, ...] = ()

    @property
    def changes_from(self) -> int:
        """The earliest `updated_at` (ms) that a change committed after the start can have."""
        return min(self.settled, self.at - _SLOWEST_COMMIT)

    def having_shown(self, page: Sequence[Listed]) -> Start:
        """Return a copy of this start with the ids of records on `page` added to `shown`.

        An id is added only if the record would otherwise count as changed since the start.
        """
        late = [
            row.id
            for row in page
            if self.settled < row.updated_at <= self.at and row.created_at < row.updated_at
        ]
        if not late:
            return self
        shown = dict.fromkeys((*self.shown, *late))
        return replace(self, shown=tuple(shown)[:_MOST_SHOWN])


@dataclass(frozen=True, slots=True)
class Query:
    """The query of a listing: filters, sort column, direction, and page size `limit`.

    With `changed_since`, the start of an earlier listing, only records match that existed at that
    start and have changed since. `room` is the size (bytes) left for properties on a page that
    already contains other records; None for an empty page.
    """

    filters: tuple[Filter, ...] = ()
    sort: str = "updated_at"
    descending: bool = True
    limit: int = 20
    changed_since: Start | None = None
    room: int | None = None

    @property
    def by_newest_change(self) -> bool:
        """Whether the listing is sorted by `updated_at` descending.

        In this order a record that changes moves to the front. So a later page does not return it.
        """
        return self.sort == "updated_at" and self.descending

    def catch_up(self, since: Start, limit: int, room: int | None) -> Query:
        """Return the query for the records that changed after the start `since` of a listing.

        The pages of the listing may have missed these records. `limit` is the number of records
        that still fit on the page, and `room` the size of properties (bytes) that still fits; None
        for an empty page.
        """
        return replace(
            self,
            sort="updated_at",
            descending=False,
            limit=limit,
            changed_since=since,
            room=room,
        )


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The position in a listing at which a page ends and the next page begins.

    The position consists of the sort value and the id of the last record before that position.
    """

    key: int
    id: int


class Listed(NamedTuple):
    """A record of a listing, with its properties as JSON text.

    If that text is large, `properties` first contains its size (bytes, in decimal digits), until
    the text itself is read. For the record that follows a full page, `properties` is "". Listed is
    a tuple because creating a frozen dataclass takes three times as long.
    """

    id: int
    created_at: int
    updated_at: int
    properties: str

    @property
    def is_read(self) -> bool:
        """Whether `properties` contains the JSON text, instead of its size or ""."""
        return self.properties.startswith("{")

    @property
    def size(self) -> int:
        """The size of the properties' JSON text (bytes)."""
        return len(self.properties.encode()) if self.is_read else int(self.properties or 0)


@dataclass(frozen=True, slots=True)
class Known:
    """The ids of all records that matched a search when its listing began.

    Any other record can match only if it has changed after the time `since` (ms since 1970).
    """

    ids: Sequence[int]
    since: int


def start(query: Query, first: Sequence[Listed], now: int) -> Start:
    """Return the start of a listing, by which later changes of records are recognised.

    `now` is the present time (ms since 1970), and `first` contains the records of the first page.
    """
    if not first or not query.by_newest_change:
        return Start(now, now)
    # Another process's clock may be ahead of ours.
    at = max(now, first[0].updated_at)
    return Start(at, now - _SLOWEST_COMMIT).having_shown(first)
