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
    """The start of a listing (ms since 1970), by which later changes of records are recognised.

    A record has changed since if its `updated_at` is later than `at`, or later than the earlier
    time `settled` and no page has `shown` it: a change may be committed after the start with an
    earlier `updated_at`.
    """

    at: int
    settled: int
    shown: tuple[int, ...] = ()

    @property
    def changes_from(self) -> int:
        """The earliest `updated_at` (ms) of a change committed after the start."""
        return min(self.settled, self.at - _SLOWEST_COMMIT)

    def having_shown(self, page: Sequence[Listed]) -> Start:
        """Return a copy with the ids on `page` that would otherwise count as changed added."""
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
    """The query of a listing; `limit` is the page size.

    With `changed_since`, only records match that existed at that start and have changed since.
    `room` are the bytes left for properties on a page that contains other records.
    """

    filters: tuple[Filter, ...] = ()
    sort: str = "updated_at"
    descending: bool = True
    limit: int = 20
    changed_since: Start | None = None
    room: int | None = None

    @property
    def by_newest_change(self) -> bool:
        """Whether a record that changes moves to the front, where no later page returns it."""
        return self.sort == "updated_at" and self.descending

    def catch_up(self, since: Start, limit: int, room: int | None) -> Query:
        """Return the query for records changed since a start, with room for `limit` on the page."""
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
    """The sort value and id of the last record of a page."""

    key: int
    id: int


class Listed(NamedTuple):
    """A record of a listing, a tuple for speed, with its properties as JSON text.

    `properties` is the size of a large text (bytes, in digits) until that is read, and "" for the
    record after a full page.
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
    """The ids of all matches when a listing began; others must have changed after `since` (ms)."""

    ids: Sequence[int]
    since: int


def start(query: Query, first: Sequence[Listed], now: int) -> Start:
    """Return the start of a listing with this first page, at `now` (ms since 1970)."""
    if not first or not query.by_newest_change:
        return Start(now, now)
    # Another process's clock may be ahead of ours.
    at = max(now, first[0].updated_at)
    return Start(at, now - _SLOWEST_COMMIT).having_shown(first)
