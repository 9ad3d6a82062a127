"""What a listing is asked for, and what it gives: query, place, record."""

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
    """When a walk began (ms): what is stamped later has changed since.

    So has what is stamped later than `settled`, but for the records that were `shown`.
    """

    at: int
    settled: int
    shown: tuple[int, ...] = ()

    @property
    def changes_from(self) -> int:
        """The earliest stamp (ms) of what has changed since."""
        return min(self.settled, self.at - _SLOWEST_COMMIT)

    def having_shown(self, page: Sequence[Listed]) -> Start:
        """Return the same start after one more page."""
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
    """What to list: filters, the sort column and direction, the size of a page.

    With `changed_since`, only records that existed then and changed later. If the page has begun
    with other records, `room` is how many bytes of properties it has room for.
    """

    filters: tuple[Filter, ...] = ()
    sort: str = "updated_at"
    descending: bool = True
    limit: int = 20
    changed_since: Start | None = None
    room: int | None = None

    @property
    def by_newest_change(self) -> bool:
        """Whether a record that changes during a walk jumps past it."""
        return self.sort == "updated_at" and self.descending

    def catch_up(self, since: Start, limit: int, room: int | None) -> Query:
        """Return the listing of what a walk that began then may have missed."""
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
    """The last record of the page before: the value it is sorted by, and its id."""

    key: int
    id: int


class Listed(NamedTuple):
    """A record of a page; `properties` is the stored JSON text.

    For a large record it is the size of that text (bytes, in decimal digits) until it is read, and
    for the record behind a full page "".
    A tuple, since a page has many of them: a frozen dataclass takes three times as long to make.
    """

    id: int
    created_at: int
    updated_at: int
    properties: str

    @property
    def is_read(self) -> bool:
        """Whether `properties` is the text."""
        return self.properties.startswith("{")

    @property
    def size(self) -> int:
        """The size of the text (bytes)."""
        return len(self.properties.encode()) if self.is_read else int(self.properties or 0)


@dataclass(frozen=True, slots=True)
class Known:
    """The ids of what passed the filters when a listing began; what else does has changed since."""

    ids: Sequence[int]
    since: int


def start(query: Query, first: Sequence[Listed], now: int) -> Start:
    """Return when the walk began whose first page holds these records."""
    if not first or not query.by_newest_change:
        return Start(now, now)
    # Another process's clock may be ahead of ours.
    at = max(now, first[0].updated_at)
    return Start(at, now - _SLOWEST_COMMIT).having_shown(first)
