"""Lists and searches: the exact total, and one page of records (a list has no filters).

The total and the page are two plans. The total is counted at the first page, on the index tables
alone, and travels in the cursor. Where one filter lets at most a thousand records through, these
are fetched and tested: total and first page come together, in one statement or two.

For any other page the exact total tells what costs least. To test a document, or to find an id and
what it is sorted by, takes the database a microsecond or two; an entry of an index that is only
passed, a tenth of that.
- What was created or changed in some time is a stretch of one of the sort orders. In that one it
  is a list. In the other one, PostgreSQL's index tells itself what passes: it is walked for as many
  entries as there are matches, a hundred thousand at most, then the stretch is read and sorted.
  With other filters, too, a walk begins and ends where that time does: nothing is changed before
  it is created.
- What one filter on a property lets through is dated: its index tells, too, when each record was
  changed, and a match takes no longer to sort than an entry to pass. Under `updated_at` a hundred
  thousand of these (SQLite: forty thousand) are sorted where a short walk has not found the page.
- Fewer than a thousand matches are fetched: their ids are found, sorted by what an index holds,
  and the documents of the page are read. Of several filters, the total has found the ids, which
  the cursor keeps for the other pages; what has changed since then is found by its time of change,
  and all documents are tested.
- Others are walked to, where a page should take no more documents than there are matches: the
  sort order is read and the documents are tested. After twice as many as it should take, but not
  before a thousand, the walk halts: the filter goes along with the sort order.
- What is more than a hundredth of all records (SQLite: a tenth) is then guessed: ids rise with
  time, so the page should be at one end of the set's ids. Those are read in their order, several
  sets merged, from where the last of them begins, as far as that takes. The proof passes the
  entries of an index up to there.
- Else the walk goes on for as many documents as match; where no sets would have to be joined
  instead, at most thirty thousand and on SQLite a quarter of the matches. So far it goes before
  anything is guessed where sets would have to be joined for that, and behind another page, since
  where that one was there is mostly more.
- What is left is fetched.
Filters on one property are one set, as a range is one stretch of its index.
Where the ids of several sets are found, one that lets at most ten thousand through has its
documents tested for the others; larger sets are merged, each read once, in the order of its index
or sorted.

Under `updated_at desc`, the default, a record that changes while a client walks jumps to the
front, past the client. So when such a walk ends it catches up: the records that existed at its
start and changed since follow, oldest change first. What changes again meanwhile comes again.
A change is stamped a little before it is committed, so it may appear behind the stamp of the
start: the catching up begins that much earlier, and leaves out what the pages showed.

A page holds at most MAX_PAGE_BYTES of properties. So a statement returns the properties of a large
record as their size only: of n records, those larger than an n-th of the bound. Another statement
then reads the texts that the page needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import orjson

from crmhub.bounds import MAX_PAGE_BYTES
from crmhub.database.bulk import Row
from crmhub.database.connection import Connection
from crmhub.records.search.filters import Condition, Filter

# So many are fetched whatever else they cost, and so many tested before sets are joined.
_FEW = 1000
_SOME = 10_000
# A walk is worth so many documents for each match, or each dated one, and halts after so many times
# as many as it should take. It goes on for as many as match, but for so many at most before sets
# are joined to guess; where none are, for no more at all, and on SQLite, which looks ids up faster
# than it reads documents, for this part of the matches.
_WORTH = 1.0
_WORTH_DATED = 0.2
_PATIENCE = 2
_LONGER_WALK = 30_000
_PART_ON_SQLITE = 0.25
_LONGEST_WALK = 1_000_000
# So many dated matches are sorted before anything is guessed, or walked to for long.
_SORTED_SOON = 100_000
_SORTED_SOON_ON_SQLITE = 40_000
# Of entries of an index that tells itself what passes.
_LONGEST_COVERED = 100_000
# A window of a walk is so many times as wide as the one before.
_WIDER = 2
# A smaller part of everything is fetched and not guessed. On SQLite, which can prove the guess in
# the sort order alone, the part is so many times as large.
_MANY = 0.01
_MANY_ON_SQLITE = 10
# How many ids are read for each record of a guessed page, and how many others may be tested: fewer
# while there is a walk to go on with, since a document that is walked to is tested sooner.
_GUESSED = 20
_UNREAD = 10_000
_UNREAD_YET = 5000
# A document of fewer bytes is never large.
_LEAST_LARGE = 1024
_OF = "account_id = :account and kind = :kind"
_EVERYTHING = f"select coalesce(sum(n), 0) from record_count where {_OF}"
_COLUMNS = "id, created_at, updated_at, properties"
# The columns of rows with a `text`, or its size if large; goes with `_returning`.
_SHOWN = {
    dialect: "id, created_at, updated_at,"
    f" case when {size} <= :large then text else cast({size} as text) end"
    for dialect, size in (
        ("postgresql", "octet_length(text)"),
        ("sqlite", "length(cast(text as blob))"),
    )
}
_LISTED = "id, created_at, updated_at, cast(properties as text) as text"

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


# What `Listed._make` does, in C.
_listed = partial(tuple.__new__, Listed)


@dataclass(frozen=True, slots=True)
class Known:
    """The ids of what passed the filters when a listing began; what else does has changed since."""

    ids: Sequence[int]
    since: int


@dataclass(slots=True)
class _Walk:
    """How far a walk has come, how many documents its next window has, and what it has found."""

    after: Place | None
    window: int
    rows: list[Listed] = field(default_factory=list)
    documents: int = 0


def start(query: Query, first: Sequence[Listed], now: int) -> Start:
    """Return when the walk began whose first page holds these records."""
    if not first or not query.by_newest_change:
        return Start(now, now)
    # Another process's clock may be ahead of ours.
    at = max(now, first[0].updated_at)
    return Start(at, now - _SLOWEST_COMMIT).having_shown(first)


class Search:
    """One listing of one kind of record of one account."""

    def __init__(
        self,
        connection: Connection,
        *,
        account_id: int,
        kind: int,
        query: Query,
        conditions: Sequence[Condition],
        known: Known | None = None,
        everything: int = 0,
    ) -> None:
        self._connection = connection
        self._shown = _SHOWN[connection.dialect]
        self._of = {"account": account_id, "kind": kind}
        self._query = query
        self._conditions = [each.looked_up(connection, account_id) for each in conditions]
        self._narrow = dict[int, int]()
        self._known = known
        # The ids of what passes several filters, where these are few: they are dear to find.
        self.counted: list[int] = []
        # How many records there are when a listing begins, 0 where nobody has asked. It tells what
        # a page costs: that needs no newer number, nor a statement for each page.
        self.everything = everything

    def again(self, query: Query) -> Search:
        """Return another listing of what passes the same filters."""
        search = copy(self)
        search._query = query
        return search

    def few(self) -> tuple[int, list[Listed]] | None:
        """Return total and first page of a list, and of what one filter lets few records through.

        These come in one statement, or two; None for others.
        """
        if not self._conditions:
            return self._list()
        seeking = self._seeking()
        chosen = self._narrowest(_FEW) if len(seeking) > 1 else next(iter(seeking), -1)
        if chosen < 0:
            return None
        test, params = self._test(without=chosen)
        dated = self._dated
        ids = self._conditions[chosen].ids(self._connection, chosen, dated=dated)
        total, found = "count(*) over ()", "select id from found"
        if len(self._conditions) == 1:
            total = "(select n from size)"
            source = self._as_dated("found") if dated else self._looked_up(self._among(found))
            found = self._page_of(source)
        # Behind the records stands how many the filter lets through: no records may mean too many.
        *rows, (size, *_) = self._connection.rows(
            f"with found as materialized ({ids.text} limit :most),"
            " size (n) as materialized (select count(*) from found)"
            f" select total, {self._shown} from (select {total} as total, {_LISTED} from records"
            f" where {_OF} and (select n from size) < :most"
            f" and {self._among(found)} and {test} order by {self._order_of_few} limit :rows)"
            " as few union all select n, null, null, null, null from size",
            {
                **self._of,
                **params,
                **ids.params,
                "most": _FEW + 1,
                **_returning(self._wanted),
            },
        )
        if size > _FEW:
            return None
        page = self._read([_listed(row[1:]) for row in rows])
        return (int(rows[0][0]) if rows else 0), page

    def _list(self) -> tuple[int, list[Listed]]:
        rows = self._connection.rows(
            f"select ({_EVERYTHING}), {self._shown} from (select {_LISTED}"
            f" from records where {_OF} order by {self._order} limit :rows) as page",
            self._of | _returning(self._wanted),
        )
        page = self._read([_listed(row[1:]) for row in rows])
        return (int(rows[0][0]) if rows else 0), page

    def _read(self, rows: list[Listed]) -> list[Listed]:
        """Return the page of these rows, with their texts.

        If there are more than the page has room for, the next row stands behind the page.
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
                f"select id, cast(properties as text) from records where {_OF} and {among}",
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
        """Return the rows that the page has room for, and the next one without properties."""
        room, taken = self._query.room, 0
        for n, row in enumerate(rows):
            taken += row.size
            # A page has one record at least, unless it began with others.
            has_room = taken <= (MAX_PAGE_BYTES if room is None else room)
            if n == self._query.limit or not (has_room or (room is None and n == 0)):
                return [*rows[:n], row._replace(properties="")]
        return list(rows)

    def _seeking(self) -> list[int]:
        """Return the numbers of the filters whose ids an index leads to."""
        return [n for n, c in enumerate(self._conditions) if c.seeks and not c.negated]

    def _narrowest(self, most: int) -> int:
        """Return the number of a filter that lets no more records than so many through, or -1."""
        # Total and page ask the same.
        if most not in self._narrow:
            self._narrow[most] = self._probed(most)
        return self._narrow[most]

    def _probed(self, most: int) -> int:
        seeking = self._seeking()
        if not seeking:
            return -1
        further, params = [], dict[str, Any]()
        for n in seeking:
            ids = self._conditions[n].ids(self._connection, n)
            further.append(f"(select 1 from ({ids.text}) as set{n} limit 1 offset :most)")
            params |= ids.params
        row = self._connection.row(
            f"select {', '.join(further)}", self._of | params | {"most": most}
        )
        assert row is not None
        return next((n for n, more in zip(seeking, row, strict=True) if more is None), -1)

    def _among(self, ids: str) -> str:
        if self._connection.dialect == "postgresql":
            return f"id = any(array({ids}))"
        return f"id in ({ids})"

    def _page_of(self, matching: str, behind: str = "") -> str:
        """The select of the ids of the page among those that a source has with what sorts them."""
        return f"select id from {matching} where true{behind} order by {self._order} limit :rows"

    def _looked_up(self, among: str) -> str:
        """The source of those ids with what may sort them, from an index of the records."""
        return (
            "(select id, created_at, updated_at from records"
            f" where {_OF} and {among} {self._fence}) as matching"
        )

    def _as_dated(self, ids: str, *, many: bool = False) -> str:
        """The source of dated ids, but for those that are behind as is noted of them.

        Of `many` PostgreSQL joins those that are behind, and asks no index for each.
        """
        behind, joined = f"index_behind where {_OF}", ""
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

    def total(self) -> int:
        """Return how many records pass all filters, exactly."""
        if self._alone:
            ids, params = self._ids()
            return self._of_all(f"(select count(*) from ({ids}) as found)", params)
        if any(not each.negated for each in self._conditions):
            return self._count()
        if not self._conditions:
            return self._of_all(f"({_EVERYTHING})", {})
        # Complements: whatever is in none of the sets. One statement, since both numbers change.
        sets = [each.ids(self._connection, n) for n, each in enumerate(self._conditions)]
        params = {name: value for each in sets for name, value in each.params.items()}
        united = _united(self._connection.dialect, [each.text for each in sets])
        with self._connection.large_join_settings(len(sets)):
            return self._of_all(f"({_EVERYTHING}) - (select count(*) from {united})", params)

    def _of_all(self, total: str, params: dict[str, Any]) -> int:
        """Return a total, and note how many records there are with the same statement."""
        [(found, everything)] = self._connection.rows(
            f"select {total}, ({_EVERYTHING})", self._of | params
        )
        self.everything = int(everything)
        return int(found)

    def _count(self) -> int:
        """Return how many pass several filters; of few, keep the ids, which are dear to find."""
        postgresql = self._connection.dialect == "postgresql"
        array = "array_agg(id)" if postgresql else "json_group_array(id)"
        with self._all() as (ids, params):
            [(total, counted, everything)] = self._connection.rows(
                f"with found (id) as ({ids})"
                f" select count(*), case when count(*) < :few then {array} end, ({_EVERYTHING})"
                " from found",
                {**self._of, **params, "few": _FEW},
            )
        self.everything = int(everything)
        self.counted = (counted if postgresql else orjson.loads(counted or "[]")) or []
        return int(total)

    def page(self, total: int, after: Place | None) -> list[Listed]:
        """Return a page of records behind `after`, and one more row if there are more.

        That row comes alone if all records of the page were archived while they were read.
        """
        if not self._conditions or self._sorted_by_it:
            behind, params = self._behind(after)
            return self._read(self._rows(f"records where {_OF}{behind}", params, self._wanted))
        if total == 0:
            return []
        changed = self._query.changed_since is not None
        if total < _FEW and not changed:
            known = self._page_of_counted() if after is None else self._page_of_known(after)
            return known or self._fetch(after, many=False)
        everything = self.everything = self.everything or int(self._scalar(_EVERYTHING, {}))
        expected = self._wanted * everything // total
        if self._covered:
            walk = self._begin_walk(after, expected)
            found = self._walk(walk, max(_FEW, min(total, _LONGEST_COVERED)))
            return self._fetch(after) if found is None else found
        if expected > total * _WORTH:
            expected = int(self._wanted * min(everything, self._within_reach()) // total)
        sqlite = self._connection.dialect == "sqlite"
        soon = self._dated and total <= (_SORTED_SOON_ON_SQLITE if sqlite else _SORTED_SOON)
        # What changed since is mostly little, so it is walked whatever the filters are.
        worth = changed or expected <= total * (_WORTH_DATED if soon else _WORTH)
        halt = max(_FEW, _PATIENCE * expected)
        longest = int(total * (_PART_ON_SQLITE if sqlite and self._alone else _WORTH))
        longer = max(halt, min(longest, _LONGER_WALK))
        walk = self._begin_walk(after, expected)
        # To join sets is dear, but not those that are in the order of the page; and where the page
        # before was there is mostly more.
        merged = self._query.sort == "created_at" and self._in_order
        patient = after is not None or not (self._alone or merged)
        found = self._walk(walk, longer if patient and not soon else halt) if worth else None
        if found is None and soon:
            return self._fetch(after)
        many = everything * _MANY * (_MANY_ON_SQLITE if sqlite else 1)
        if found is None and not changed and total > many:
            found = self._guess(after, _UNREAD if patient else _UNREAD_YET)
        if found is None and worth:
            found = self._walk(walk, longer if self._alone else max(halt, longest))
        return self._fetch(after) if found is None else found

    def _begin_walk(self, after: Place | None, expected: int) -> _Walk:
        return _Walk(after, max(self._wanted, expected * 3 // 2))

    def place(self, row: Listed) -> Place:
        """Return the place of a record in this listing."""
        return Place(getattr(row, self._query.sort), row.id)

    def _page_of_counted(self) -> list[Listed]:
        """Return the first page of those that were counted; nothing where any has changed since."""
        if not self.counted:
            return []
        among, these = self._connection.in_list("id", "these", self.counted)
        test, params = self._test()
        page = f"{self._among(self._page_of(self._looked_up(among)))} and {test}"
        rows = self._few_rows(page, params | these, self._wanted)
        return self._read(rows) if len(rows) == min(self._wanted, len(self.counted)) else []

    def _page_of_known(self, after: Place) -> list[Listed]:
        """Return another page of those that passed when the listing began, and of what may since.

        Nothing where these are not known, or much has changed.
        """
        if self._known is None:
            return []
        changed = self._connection.rows(
            f"select id from records where {_OF} and updated_at > :since"
            " order by updated_at desc, id desc limit :most",
            {**self._of, "since": self._known.since, "most": _FEW + 1},
        )
        if len(changed) > _FEW:
            return []
        ids = list({*self._known.ids, *(id for (id,) in changed)})
        among, these = self._connection.in_list("id", "these", ids)
        behind, place = self._behind(after)
        test, params = self._test()
        passing = f"select {_COLUMNS} from records where {_OF} and {among} and {test} {self._fence}"
        source = f"({passing}) as passing where true{behind}"
        return self._read(self._rows(source, params | these | place, self._wanted))

    def _fetch(self, after: Place | None, *, many: bool = True) -> list[Listed]:
        behind, values = self._behind(after)
        if self._dated:
            dated = self._conditions[0].ids(self._connection, 0, dated=True)
            source = self._as_dated(f"({dated.text})", many=many)
            page = self._among(self._page_of(source, behind))
            with self._connection.large_join_settings(1 + many, hashed=True):
                rows = self._few_rows(page, dated.params | values, self._wanted)
        else:
            with self._all() as (ids, params):
                among = self._test()[0] if self._covered else self._among(ids)
                page = self._page_of(self._looked_up(among), behind)
                rows = self._few_rows(self._among(page), params | values, self._wanted)
        return self._read(rows)

    @contextmanager
    def _all(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Lend the select of the ids of all records that pass."""
        if tested := self._tested():
            yield tested
        else:
            with self._connection.large_join_settings(self._sets):
                yield self._ids()

    def _tested(self) -> tuple[str, dict[str, Any]] | None:
        """The select of the ids of all records that pass: the few of one filter, tested.

        None where there is no such one among several.
        """
        chosen = -1
        if len(self._conditions) > 1:
            chosen = next((n for most in (_FEW, _SOME) if (n := self._narrowest(most)) >= 0), -1)
        if chosen < 0:
            return None
        test, params = self._test(without=chosen)
        ids = self._conditions[chosen].ids(self._connection, chosen)
        return (
            f"select id from records where {_OF} and {self._among(ids.text)} and {test}",
            params | ids.params,
        )

    def _walk(self, walk: _Walk, until: int) -> list[Listed] | None:
        """Go on with a walk; None where so many documents (`_LONGEST_WALK` at most) end no page."""
        test, params = self._test()
        # It reads a window to its end, whether or not the page is full before.
        whole = self._connection.dialect == "sqlite"
        until = min(until, _LONGEST_WALK)
        while walk.documents < until:
            window = until - walk.documents
            window = min(window, walk.window) if whole else window
            behind, values = self._behind(walk.after)
            most = self._wanted - len(walk.rows)
            columns = "id, created_at, updated_at" if self._covered else _COLUMNS
            passed = (
                f"(select {columns} from records where {_OF}{behind}"
                f" order by {self._order} limit :window) as walked"
                f" where {test} order by {self._order} limit :rows"
            )
            if self._covered:
                among = self._among(f"select id from {passed}")
                passed = (
                    f"records where {_OF} and {among} order by {self._order_of_few} limit :rows"
                )
            # One statement, since the window ends elsewhere as soon as records come or go. Its last
            # place stands behind what passed, and is not looked for where that fills the page.
            rows = self._connection.rows(
                f"select {self._shown} from (select {_LISTED} from {passed}) as passed"
                f" union all select * from (select {self._query.sort}, id, 0, null from records"
                f" where {_OF}{behind} order by {self._order} limit 1 offset :before) as last"
                " limit :rows",
                {**self._of, **params, **values}
                | {"window": window, "before": window - 1, **_returning(most)},
            )
            last = rows.pop() if rows and rows[-1][-1] is None else None
            walk.rows += [_listed(row) for row in rows]
            if len(walk.rows) == self._wanted or last is None:
                return self._read(walk.rows)
            walk.after = Place(*last[:2])
            walk.documents += window
            walk.window *= _WIDER
        return None

    def _guess(self, after: Place | None, most: int) -> list[Listed] | None:
        """Take the page to be where its ids should be, and prove it; None where it is not there.

        Ids rise with the time of creation, though not strictly. So the page should be among those
        of the set that come next, by id, from the newest record that was created before it. What
        else may belong to it has another id, and stands before its last record in the sort order:
        nothing, or so little (`most`) that it is tested. A page that ends the listing has no such
        record.
        """
        query = self._query
        down, beyond, before = ("desc", "<", ">") if query.descending else ("asc", ">", "<")
        behind, params = self._behind(after)
        params |= self._of | {"window": _GUESSED * self._wanted, "most": most + 1}
        # Ids on one side of another one.
        unread = list[tuple[str, int]]()
        within = "true"
        if (nearest := self._nearest(down)) is not None:
            params["nearest"] = nearest
            within = f"id {beyond}= :nearest"
        if after is not None:
            first = params["first"] = self._scalar(
                f"select id from records where {_OF} and created_at {beyond}= :after_key"
                f" order by created_at {down}, id {down} limit 1",
                params,
            )
            if first is None:
                return None
            if nearest is None or (first < nearest if query.descending else first > nearest):
                within = f"id {beyond}= :first"
                unread.append((before, first))
        ids, of_set = self._ids(within, down)
        with self._connection.large_join_settings(self._sets):
            read = self._connection.rows(
                f"select id, created_at, updated_at from records where {_OF}"
                f" and {self._among(f'select id from ({ids}) as found limit :window')}",
                params | of_set,
            )
        column = -1 if query.sort == "updated_at" else -2
        places = [Place(row[column], row[0]) for row in read]
        page = [each for each in places if self._is_behind(each, after)]
        page = sorted(page, reverse=query.descending)[: self._wanted]
        until = ""
        if len(page) == self._wanted:
            # What stands at that moment, too, is left out below: SQLite is slow to compare pairs.
            until = f" and {query.sort} {before}= :end_key"
            params["end_key"] = page[-1].key
        if len(read) == params["window"]:
            if not until:
                return None
            last = (min if query.descending else max)(each.id for each in places)
            unread.append((beyond, last))
        others = self._others(unread, behind + until, params) if unread else []
        if len(others) > most:
            return None
        together = [each.id for each in page] + others
        among, these = self._connection.in_list("id", "these", together)
        test, more = self._test()
        rows = self._few_rows(f"{among} and {test}", params | more | these, len(together))
        # One of them may have changed meanwhile, and no longer stand on this page.
        still = [
            row
            for row in rows
            if self._is_behind(self.place(row), after)
            and not (until and self._is_behind(self.place(row), page[-1]))
        ]
        return self._read(still) if len(still) >= len(page) else None

    def _nearest(self, down: str) -> int | None:
        """Return an id before which none passes, from the sets whose ids are in order, if any are.

        To merge sets passes whatever lies before the first id of each of them.
        """
        firsts, params = list[str](), dict[str, Any]()
        for n, each in enumerate(self._conditions):
            if each.in_order and not each.negated and not self._alone:
                ids = each.ids(self._connection, n)
                firsts.append(f"(select id from ({ids.text}) as set{n} order by id {down} limit 1)")
                params |= ids.params
        if not firsts:
            return None
        row = self._connection.row(f"select {', '.join(firsts)}", self._of | params)
        found = [int(id) for id in row or () if id is not None]
        return (min if down == "desc" else max)(found, default=None)

    def _others(
        self, unread: Sequence[tuple[str, int]], where: str, params: dict[str, Any]
    ) -> list[int]:
        """Return those of the unread ids that stand where it says, a little over `most` of them.

        They are looked for among the ids where a third of all or less lies on that side, else among
        the entries of the sort order: their index tells the ids too, and refuses in half the time.
        """
        few, rest = list[str](), list[str]()
        low, high = self._thirds()
        for n, (side, id) in enumerate(unread):
            params = params | {f"unread{n}": id}
            near = id < low if side == "<" else id > high
            (few if near else rest).append(f"id {side} :unread{n}")
        parts = [(each, "id") for each in few]
        if rest:
            parts.append((f"({' or '.join(rest)})", self._order))
        return [
            id
            for part, order in parts
            for (id,) in self._connection.rows(
                f"select id from records where {_OF}{where} and {part}"
                f" order by {order} limit :most",
                params,
            )
        ]

    def _thirds(self) -> tuple[float, float]:
        """Return where the first third of all ids ends and where the last one begins.

        On SQLite, which has the documents beside the ids, nothing lies in these.
        """
        if self._connection.dialect == "sqlite":
            return -math.inf, math.inf
        [(lowest, highest)] = self._connection.rows(
            f"select coalesce(min(id), 0), coalesce(max(id), 0) from records where {_OF}", self._of
        )
        third = (highest - lowest) / 3
        return lowest + third, highest - third

    def _is_behind(self, place: Place, after: Place | None) -> bool:
        if after is None:
            return True
        return place < after if self._query.descending else place > after

    def _test(self, without: int = -1) -> tuple[str, dict[str, Any]]:
        """Return the conditions, except one of them, as SQL on a row of `records`."""
        tests, params = ["true"], dict[str, Any]()
        for n, condition in enumerate(self._conditions):
            if n != without:
                test = condition.test(self._connection, n)
                negated = f"not coalesce({test.text}, false)"
                tests.append(negated if condition.negated else test.text)
                params |= test.params
        return " and ".join(tests), params

    @property
    def _sets(self) -> int:
        """How many sets are joined: a complement is what one leaves of another one."""
        return len(self._conditions) + all(each.negated for each in self._conditions)

    @property
    def _alone(self) -> bool:
        """Whether one index table holds the whole set, so that no sets are joined."""
        return bool(self._conditions) and self._sets == 1

    @property
    def _dated(self) -> bool:
        """Whether the index table holds what the page is sorted by, too."""
        by_change = self._query.sort == "updated_at" and self._query.changed_since is None
        return by_change and self._alone and self._conditions[0].dated

    @property
    def _in_order(self) -> bool:
        """Whether an index brings each of the sets in the order of its ids."""
        return all(each.in_order for each in self._conditions)

    @property
    def _covered(self) -> bool:
        """Whether the index of the sort order tells the whole set."""
        one = len(self._conditions) == 1 and self._conditions[0].covered
        return one and self._connection.dialect == "postgresql"

    @property
    def _sorted_by_it(self) -> bool:
        """Whether the set is a part of the sort order, and all of that part."""
        return len(self._conditions) == 1 and self._conditions[0].span(self._query.sort).whole

    @property
    def _fence(self) -> str:
        # It has ids looked up before anything is sorted: without it both planners may walk the sort
        # order, past every record that does not match.
        return "offset 0" if self._connection.dialect == "postgresql" else "limit -1"

    @property
    def _wanted(self) -> int:
        return self._query.limit + 1

    @property
    def _order(self) -> str:
        direction = "desc" if self._query.descending else "asc"
        return f"{self._query.sort} {direction}, id {direction}"

    @property
    def _order_of_few(self) -> str:
        # The sign keeps SQLite from walking the sort order to save the sorting.
        return f"+{self._order}"

    def _behind(self, after: Place | None) -> tuple[str, dict[str, Any]]:
        """Return what restricts a listing to what comes behind `after`, to be and-ed."""
        text, params = "", dict[str, Any]()
        if since := self._query.changed_since:
            among, shown = self._connection.in_list("id", "shown", since.shown)
            text += (
                " and updated_at > :settled and updated_at > created_at and created_at <= :start"
                f" and (updated_at > :start or not ({among}))"
            )
            params |= {"settled": since.settled, "start": since.at, **shown}
        down, sort = self._query.descending, self._query.sort
        # Of the conditions on when a record was created or changed there is one.
        spans = [each.span(sort) for each in self._conditions]
        first = next((each.first for each in spans if each.first is not None), None)
        end = next((each.end for each in spans if each.end is not None), None)
        if after is not None:
            text += f" and ({sort}, id) {'<' if down else '>'} (:after_key, :after_id)"
            params |= {"after_key": after.key, "after_id": after.id}
            # Of two bounds at the same end, SQLite would look at one alone.
            if down and end is not None and after.key < end:
                end = None
            elif not down and first is not None and after.key >= first:
                first = None
        if first is not None:
            text, params["span_from"] = f"{text} and {sort} >= :span_from", first
        if end is not None:
            text, params["span_to"] = f"{text} and {sort} < :span_to", end
        return text, params

    def _rows(
        self, source: str, params: Mapping[str, Any], most: int, order: str = ""
    ) -> list[Listed]:
        rows: list[Row] = self._connection.rows(
            f"select {self._shown} from (select {_LISTED}"
            f" from {source} order by {order or self._order} limit :rows) as page",
            {**self._of, **params, **_returning(most)},
        )
        return [_listed(row) for row in rows]

    def _few_rows(self, where: str, params: Mapping[str, Any], most: int) -> list[Listed]:
        source = f"records where {_OF} and {where}"
        return self._rows(source, params, most, self._order_of_few)

    def _ids(self, within: str = "true", down: str = "") -> tuple[str, dict[str, Any]]:
        """The select of the ids of all records that pass, or of those `within`, sorted `down`."""
        sets, without = list[str](), list[str]()
        params: dict[str, Any] = {}
        for n, each in enumerate(self._conditions):
            ids = each.ids(self._connection, n)
            params |= ids.params
            text = f"select id from ({ids.text}) as ids where {within}"
            (without if each.negated else sets).append(text)
        sets = sets or [f"select id from records where {_OF} and {within}"]
        if len(sets) + len(without) == 1:
            return sets[0] + (f" order by id {down}" if down else ""), params
        combined = _merged if self._connection.dialect == "sqlite" else _joined
        return combined(sets, without, down), params

    def _within_reach(self) -> float:
        """Return how many records lie in the time that the filters leave, if it is soon told."""
        between, params = self._behind(None)
        if not between:
            return math.inf
        entries = f"select 1 from records where {_OF}{between} limit {_LONGEST_COVERED}"
        found = int(self._scalar(f"select count(*) from ({entries}) as entries", params))
        return found if found < _LONGEST_COVERED else math.inf

    def _scalar(self, sql: str, params: dict[str, Any]) -> Any:
        return self._connection.scalar(sql, self._of | params)


def _returning(rows: int) -> dict[str, int]:
    """Return the parameters for at most so many rows, which together fit into a page."""
    return {"rows": rows, "large": max(MAX_PAGE_BYTES // max(rows, 1), _LEAST_LARGE)}


def _merged(sets: Sequence[str], without: Sequence[str], down: str) -> str:
    """Return SQLite's select of the ids that are in all sets and in none of the others."""
    # In order, it merges what the indexes bring in order; else it sorts each part.
    return " except ".join((" intersect ".join(sets), *without)) + f" order by 1 {down}"


def _joined(sets: Sequence[str], without: Sequence[str], down: str) -> str:
    """Return PostgreSQL's select of the ids that are in all sets and in none of the others.

    All are merged. Where an index has a set in order of its ids, and each id once, the planner
    knows; but of what is left out it would sort that too, were it not said to be in order.
    """
    first, *others = [f"({ids})" for ids in sets]
    joins = [f" join {ids} as s{n} (id) using (id)" for n, ids in enumerate(others)]
    joins += [
        f" left join ({ids} order by 1 {down}) as w{n} (id) using (id)"
        for n, ids in enumerate(without)
    ]
    where = "".join(f" and w{n}.id is null" for n, _ in enumerate(without))
    order = f" order by id {down}" if down else ""
    return f"select id from {first} as s (id){''.join(joins)} where true{where}{order}"


def _united(dialect: str, sets: Sequence[str]) -> str:
    """Return the source of the ids that are in any of the sets, each once; merged as well."""
    if len(sets) == 1:
        return f"({sets[0]}) as united"
    if dialect == "sqlite":
        return f"({' union '.join(sets)} order by 1) as united"
    first, *others = [f"({ids}) as s{n} (id)" for n, ids in enumerate(sets)]
    return first + "".join(f" full join {each} using (id)" for each in others)
