from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crmhub.bounds import MAX_PAGE_BYTES
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import BadRequest
from crmhub.properties.kinds import Kind
from crmhub.records import associations
from crmhub.records.associations import Links
from crmhub.records.search.cursor import Cursor, fingerprint, packed, unpacked
from crmhub.records.search.filters import Condition
from crmhub.records.search.page_reader import PageReader
from crmhub.records.search.plans import Search
from crmhub.records.search.query import Known, Listed, Place, Query, Start, start

# A listing under constant change would otherwise catch up for ever.
_LEAST_CAUGHT_UP = 10_000
# Characters for counted ids in a cursor, which stands in an address: about a thousand ids.
_LONGEST_COUNTED = 2800
_FEW_SHOWN = 100


@dataclass(frozen=True, slots=True)
class PageRequest:
    """`properties` and `include`: None for all."""

    query: Query
    after: Cursor | None = None
    properties: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """`archived_at` (ms since 1970) by id, for a page of archived records."""

    total: int
    records: list[Listed]
    links: dict[int, Links]
    cursor: str
    archived_at: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Listing:
    _connection: Connection
    _account_id: int
    _kind: Kind
    _signing_key: bytes

    def page(self, request: PageRequest, conditions: Sequence[Condition]) -> Page:
        """Raises BadRequest for a cursor of another sort order or other filters."""
        query, after = request.query, request.after
        everything, known = 0, None
        if after is not None:
            everything, known = after.everything, _known(after)
            filters = fingerprint(query.filters, query.since)
            listing = (query.sort, query.descending, filters)
            if (after.sort, after.descending, after.filters) != listing:
                raise BadRequest(
                    "cursor: it belongs to a listing with another sort, order, updatedSince,"
                    " createdSince or filters; send what its first request had, or start without"
                    " a cursor"
                )
        now = now_ms()
        of = (self._connection, self._account_id, self._kind.code, query)
        search = (
            Search(*of, everything, conditions=conditions, known=known)
            if conditions
            else PageReader(*of, everything)
        )
        if after is None:
            total, first = search.small_result() or (search.total(), None)
            # One page is one moment: only a longer walk can have missed a change.
            rows, more = search.complete_page(total, None, first)
            last = (search.cursor_of(rows[-1]), -1) if more else None
        else:
            total = after.total
            rows, last = _later_page(search, query, after)
        links: dict[int, Links] = {}
        if "associations" in request.include:
            ids = [row.id for row in rows]
            links = associations.of_records(self._connection, self._account_id, self._kind, ids)
        cursor = ""
        if last is not None:
            began = start(query, rows, now) if after is None else _start(after).having_shown(rows)
            cursor = self._next_cursor(request, search, total=total, last=last, began=began)
        return Page(total, rows, links, cursor)

    def _next_cursor(
        self,
        request: PageRequest,
        search: PageReader,
        *,
        total: int,
        last: tuple[Place, int],
        began: Start,
    ) -> str:
        query, after = request.query, request.after
        place, caught_up = last
        ids = search.counted if len(search.counted) < _LONGEST_COUNTED else []
        counted = packed(ids) if after is None else after.counted
        if len(counted) > _LONGEST_COUNTED or len(began.shown) > _FEW_SHOWN:
            counted = ""
        return Cursor(
            account_id=self._account_id,
            kind=self._kind.code,
            sort=query.sort,
            descending=query.descending,
            limit=query.limit,
            properties=request.properties,
            include=request.include,
            filters=fingerprint(query.filters, query.since),
            total=total,
            started=began.at,
            key=place.key,
            id=place.id,
            settled=began.settled,
            shown=began.shown,
            caught_up=caught_up,
            counted=counted,
            everything=search.everything,
            since=query.since,
        ).seal(self._signing_key)


def _later_page(
    search: PageReader, query: Query, after: Cursor
) -> tuple[list[Listed], tuple[Place, int] | None]:
    total, caught_up = after.total, after.caught_up
    place: Place | None = Place(after.key, after.id)
    rows: list[Listed] = []
    if caught_up < 0:
        rows, more = search.complete_page(total, place)
        if more:
            return rows, (search.cursor_of(rows[-1]), -1)
        # Only a walk in this order can have missed a change.
        if not query.by_newest_change:
            return rows, None
        place, caught_up = None, 0
    since = _start(after).having_shown(rows)
    # A full page still has to learn whether there is anything to catch up with.
    room = query.limit - len(rows)
    left = MAX_PAGE_BYTES - sum(row.size for row in rows) if rows else None
    missed = search.with_query(query.catch_up(since, room, left))
    late, more = missed.complete_page(total, place)
    seen = {row.id for row in rows}
    rows += [row for row in late if row.id not in seen]
    caught_up += len(late)
    if not more or caught_up >= max(_LEAST_CAUGHT_UP, 2 * total):
        return rows, None
    if not late:
        # The next page begins the catching up: before everything that changed since.
        return rows, (Place(since.settled, 0), 0)
    return rows, (missed.cursor_of(late[-1]), caught_up)


def _known(cursor: Cursor) -> Known | None:
    if not cursor.counted:
        return None
    return Known(unpacked(cursor.counted), _start(cursor).changes_from)


def _start(cursor: Cursor) -> Start:
    return Start(cursor.started, cursor.settled, cursor.shown)
