from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from crmhub.records.search.filters import Filter

# How long before its commit (ms) a change may have been stamped.
_SLOWEST_COMMIT = 2000
# So many ids fill most of a cursor; proxies take addresses of 8,000 characters.
_MOST_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a listing (ms since 1970), by which later changes of records are recognised.

    A record has changed if its `updated_at` is later than `at`, or later than `settled` and no page
    has `shown` it: a change may be committed after the start with an earlier `updated_at`.
    """

    at: int
    settled: int
    shown: tuple[int, ...] = ()

    @property
    def changes_from(self) -> int:
        return min(self.settled, self.at - _SLOWEST_COMMIT)

    def having_shown(self, page: Sequence[Listed]) -> Start:
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
    """With `changed_since`, only records that existed at that start and have changed since match.
    `room`: bytes left for properties on a page that contains other records. `since`: columns of
    times with the earliest time (ms since 1970) that matches."""

    filters: tuple[Filter, ...] = ()
    sort: str = "updated_at"
    descending: bool = True
    limit: int = 20
    changed_since: Start | None = None
    room: int | None = None
    since: tuple[tuple[str, int], ...] = ()

    @property
    def by_newest_change(self) -> bool:
        return self.sort == "updated_at" and self.descending

    def catch_up(self, since: Start, limit: int, room: int | None) -> Query:
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
    key: int
    id: int


class Listed(NamedTuple):
    """`properties` is JSON text, the size of an unread large text, or "" after a full page."""

    id: int
    created_at: int
    updated_at: int
    properties: str

    @property
    def is_read(self) -> bool:
        return self.properties.startswith("{")

    @property
    def size(self) -> int:
        return len(self.properties.encode()) if self.is_read else int(self.properties or 0)


@dataclass(frozen=True, slots=True)
class Known:
    """The ids of all matches when a listing began; others must have changed after `since` (ms)."""

    ids: Sequence[int]
    since: int


def start(query: Query, first: Sequence[Listed], now: int) -> Start:
    """`now` is in ms since 1970."""
    if not first or not query.by_newest_change:
        return Start(now, now)
    # Another process's clock may be ahead of ours.
    at = max(now, first[0].updated_at)
    return Start(at, now - _SLOWEST_COMMIT).having_shown(first)
