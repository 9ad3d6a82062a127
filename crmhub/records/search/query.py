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
    """The start of a listing, by which later changes of records are recognized.

    A record has changed since the start if its `updated_at` is later than `at` (ms since 1970), or
    later than `settled` and its id is not in `shown`. The second case covers changes that were
    committed after the start but have an earlier `updated_at`.
    """

    at: int
    settled: int
    shown: tuple[int, ...] = ()

    @property
    def changes_from(self) -> int:
        """The earliest `updated_at` (ms) that a change committed after the start can have."""
        return min(self.settled, self.at - _SLOWEST_COMMIT)

    def having_shown(self, page: Sequence[Listed]) -> Start:
        """Return this start with the ids of the records on `page` added to `shown`.

        Only the ids of records that would otherwise count as changed since the start are added.
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

    With `changed_since`, only records match that existed at that start and have changed since.
    `room` is the size (bytes) left for properties on a page that already contains other records;
    None for an empty page.
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

        In this order a record that changes moves to the front, to a page that was already returned.
        """
        return self.sort == "updated_at" and self.descending

    def catch_up(self, since: Start, limit: int, room: int | None) -> Query:
        """Return the query for the records that changed after the start `since` of a listing.

        The listing may have missed them. `limit` is the number of records and `room` the size of
        their properties (bytes) that still fit on the page.
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
    """The position after which a page begins.

    It is the sort value and the id of the previous page's last record.
    """

    key: int
    id: int


class Listed(NamedTuple):
    """A record of a listing, with its properties as JSON text.

    For a large record `properties` at first contains the size of that text (bytes, in decimal
    digits), until the text itself is read. It is "" for the record that follows a full page. This
    is a tuple because creating a frozen dataclass takes three times as long.
    """

    id: int
    created_at: int
    updated_at: int
    properties: str

    @property
    def is_read(self) -> bool:
        """Whether `properties` contains the JSON text, not its size."""
        return self.properties.startswith("{")

    @property
    def size(self) -> int:
        """The size of the properties' JSON text (bytes)."""
        return len(self.properties.encode()) if self.is_read else int(self.properties or 0)


@dataclass(frozen=True, slots=True)
class Known:
    """The ids of all records that matched a search when its listing began.

    A record that is not among them can match only if it has changed since the time `since` (ms).
    """

    ids: Sequence[int]
    since: int


def start(query: Query, first: Sequence[Listed], now: int) -> Start:
    """Return the start of a listing that begins `now` (ms since 1970).

    `first` holds the records of its first page.
    """
    if not first or not query.by_newest_change:
        return Start(now, now)
    # Another process's clock may be ahead of ours.
    at = max(now, first[0].updated_at)
    return Start(at, now - _SLOWEST_COMMIT).having_shown(first)
