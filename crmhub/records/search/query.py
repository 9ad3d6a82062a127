"""The data types of a listing: query, start, position, and listed record."""

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
    """The time when a listing began (ms): records with a later time have changed since.

    Records with a time later than `settled` count as changed too, except the `shown` ones.
    """

    at: int
    settled: int
    shown: tuple[int, ...] = ()

    @property
    def changes_from(self) -> int:
        """The earliest time (ms) of a change since the start."""
        return min(self.settled, self.at - _SLOWEST_COMMIT)

    def having_shown(self, page: Sequence[Listed]) -> Start:
        """Return this start after one more page was shown."""
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
    """The query of a listing: filters, sort column, direction, page size.

    `changed_since`: only records that existed then and changed later. `room`: the bytes that are
    left for properties on a page that already has other records.
    """

    filters: tuple[Filter, ...] = ()
    sort: str = "updated_at"
    descending: bool = True
    limit: int = 20
    changed_since: Start | None = None
    room: int | None = None

    @property
    def by_newest_change(self) -> bool:
        """Whether a record that changes during the listing moves to a page shown before."""
        return self.sort == "updated_at" and self.descending

    def catch_up(self, since: Start, limit: int, room: int | None) -> Query:
        """Return the query for the records that a listing begun at `since` may have missed."""
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
    """The position of a page: the sort value and id of the previous page's last record."""

    key: int
    id: int


class Listed(NamedTuple):
    """A listed record; `properties` is the stored JSON text.

    For a large record `properties` is the text's size (bytes, in decimal digits) until it is read,
    and "" for the record after a full page. A tuple, because creating a frozen dataclass takes
    three times as long.
    """

    id: int
    created_at: int
    updated_at: int
    properties: str

    @property
    def is_read(self) -> bool:
        """Whether `properties` holds the JSON text."""
        return self.properties.startswith("{")

    @property
    def size(self) -> int:
        """The size of the JSON text (bytes)."""
        return len(self.properties.encode()) if self.is_read else int(self.properties or 0)


@dataclass(frozen=True, slots=True)
class Known:
    """The ids of all matches when a listing began; other matches have changed since."""

    ids: Sequence[int]
    since: int


def start(query: Query, first: Sequence[Listed], now: int) -> Start:
    """Return the start of the listing whose first page holds these records."""
    if not first or not query.by_newest_change:
        return Start(now, now)
    # Another process's clock may be ahead of ours.
    at = max(now, first[0].updated_at)
    return Start(at, now - _SLOWEST_COMMIT).having_shown(first)
