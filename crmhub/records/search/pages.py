"""Builds the pages of lists and searches of records, and of lists of linked records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crmhub.bounds import MAX_PAGE_BYTES
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import BadRequest
from crmhub.properties.kinds import Kind
from crmhub.records import associations
from crmhub.records.associations import Links
from crmhub.records.search.cursor import Cursor, fingerprint, packed, unpacked
from crmhub.records.search.filters import Condition
from crmhub.records.search.plans import Search
from crmhub.records.search.query import Known, Listed, Place, Query, Start, start

# A listing under constant change would catch up for ever. What changed during the walk comes
# within as many records as there are; the rest is for what goes on changing.
_LEAST_CAUGHT_UP = 10_000
# Characters of a cursor that ids may take which were counted: a thousand, where they lie close.
# Not where it has as many as this to name that were shown: it stands in an address.
_LONGEST_COUNTED = 2800
_FEW_SHOWN = 100


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for one page of a list or search.

    `after` is the previous page's cursor, or None for the first page. `properties` contains the
    names of the properties to return, None for all; `include` names further fields of each record
    to return, such as "associations" or "createdAt".
    """

    query: Query
    after: Cursor | None = None
    properties: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A page of records, with the total number of records that match on all pages.

    `links` maps record ids to their links if the request includes associations, else it is empty.
    `cursor` is the next page's cursor, "" on the last page.
    """

    total: int
    records: list[Listed]
    links: dict[int, Links]
    cursor: str


@dataclass(slots=True)
class Listing:
    """Builds pages of an account's records of one kind, read with one database connection."""

    _connection: Connection
    _account_id: int
    _kind: Kind
    _signing_key: bytes

    def page(self, request: PageRequest, conditions: Sequence[Condition]) -> Page:
        """Return the page of the records that satisfy all `conditions`.

        The conditions are the parsed filters of `request.query`. Raises BadRequest if the cursor
        `request.after` belongs to a listing with another sort order or other filters.
        """
        query, after = request.query, request.after
        listing = fingerprint(query.filters)
        if after is not None:
            same = (after.sort, after.descending, after.filters)
            if same != (query.sort, query.descending, listing):
                raise BadRequest(
                    "cursor: it belongs to a listing with another sort, order or filters;"
                    " send what its first request had, or start without a cursor"
                )
        now = now_ms()
        search = Search(
            self._connection,
            account_id=self._account_id,
            kind=self._kind.code,
            query=query,
            conditions=conditions,
            known=None if after is None else _known(after),
            everything=0 if after is None else after.everything,
        )
        if after is None:
            total, first = search.small_result() or (search.total(), None)
        else:
            total, first = after.total, None
        rows, last = self._next(search, query, total=total, after=after, first=first)
        links: dict[int, Links] = {}
        if "associations" in request.include:
            links = associations.of_records(
                self._connection, self._account_id, self._kind, [row.id for row in rows]
            )
        cursor = ""
        if last is not None:
            place, caught_up = last
            began = start(query, rows, now) if after is None else _start(after).having_shown(rows)
            counted = packed(search.counted) if after is None else after.counted
            if len(counted) > _LONGEST_COUNTED or len(began.shown) > _FEW_SHOWN:
                counted = ""
            cursor = Cursor(
                account_id=self._account_id,
                kind=self._kind.code,
                sort=query.sort,
                descending=query.descending,
                limit=query.limit,
                properties=request.properties,
                include=request.include,
                filters=listing,
                total=total,
                started=began.at,
                key=place.key,
                id=place.id,
                settled=began.settled,
                shown=began.shown,
                caught_up=caught_up,
                counted=counted,
                everything=search.everything,
            ).seal(self._signing_key)
        return Page(total, rows, links, cursor)

    def _next(
        self,
        search: Search,
        query: Query,
        *,
        total: int,
        after: Cursor | None,
        first: list[Listed] | None,
    ) -> tuple[list[Listed], tuple[Place, int] | None]:
        """Return the records of the page, and the position at which the next page begins.

        The position is None on the last page. Otherwise it is a pair: the place of the page's last
        record, and the next cursor's `caught_up` (the number of records returned so far because
        they changed during the listing, or -1). `total` is the number of matches, `after` the
        previous page's cursor. `first` contains the records of the first page if they have already
        been read.
        """
        place = None if after is None else Place(after.key, after.id)
        caught_up = -1 if after is None else after.caught_up
        rows: list[Listed] = []
        if caught_up < 0:
            rows, more = _records(search, query, total, place, first)
            if more:
                return rows, (search.cursor_of(rows[-1]), -1)
            # One page is one moment; only a longer walk in this order can have missed a change.
            if after is None or not query.by_newest_change:
                return rows, None
            place, caught_up = None, 0
        assert after is not None
        since = _start(after).having_shown(rows)
        # A full page still has to learn whether there is anything to catch up with.
        room = query.limit - len(rows)
        left = MAX_PAGE_BYTES - sum(row.size for row in rows) if rows else None
        late_query = query.catch_up(since, room, left)
        missed = search.with_query(late_query)
        late, more = _records(missed, late_query, total, place)
        seen = {row.id for row in rows}
        rows += [row for row in late if row.id not in seen]
        caught_up += len(late)
        if not more or caught_up >= max(_LEAST_CAUGHT_UP, 2 * total):
            return rows, None
        if not late:
            # The next page begins the catching up: before everything that changed since.
            return rows, (Place(since.settled, 0), 0)
        return rows, (missed.cursor_of(late[-1]), caught_up)

    def linked(
        self, id: int, to: Kind, *, limit: int, after: Cursor | None
    ) -> tuple[int, list[int], str]:
        """Return one page of the ids of records that are linked to the record `id`.

        Only linked records of the kind `to` count. The three values are the total number of these
        records, at most `limit` ids, and the next page's cursor ("" on the last page). `after` is
        the previous page's cursor, None for the first page. Raises BadRequest if `after` belongs to
        another listing.
        """
        listing = f"links:{id}:{to.code}"
        if after is not None and after.filters != listing:
            raise BadRequest("cursor: it belongs to another listing; start without a cursor")
        of = (self._connection, self._account_id, self._kind, id, to)
        total = associations.count(*of) if after is None else after.total
        ids = associations.page(*of, after=0 if after is None else after.id, rows=limit + 1)
        cursor = ""
        if len(ids) > limit:
            cursor = Cursor(
                account_id=self._account_id,
                kind=self._kind.code,
                sort="id",
                descending=False,
                limit=limit,
                properties=None,
                include=(),
                filters=listing,
                total=total,
                started=now_ms() if after is None else after.started,
                key=0,
                id=ids[limit - 1],
            ).seal(self._signing_key)
        return total, ids[:limit], cursor


def _records(
    search: Search,
    query: Query,
    total: int,
    place: Place | None,
    found: list[Listed] | None = None,
) -> tuple[list[Listed], bool]:
    """Return the records of one page, and whether more records follow.

    The page begins after the position `place`; None means the first page. `found` contains the
    records of the page if they have already been read.
    """
    while True:
        found = search.page(total, place) if found is None else found
        # The row behind the page.
        more = bool(found) and (len(found) > query.limit or not found[-1].properties)
        shown = found[:-1] if more else found
        # Otherwise all records of this page were archived while they were read.
        if shown or not more or query.limit == 0 or query.room is not None:
            return shown, more
        found = None


def _known(cursor: Cursor) -> Known | None:
    if not cursor.counted:
        return None
    return Known(unpacked(cursor.counted), _start(cursor).changes_from)


def _start(cursor: Cursor) -> Start:
    return Start(cursor.started, cursor.settled, cursor.shown)
