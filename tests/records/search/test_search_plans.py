"""Each plan of a search is what the databases' planners make of it: the intended index is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from crmhub.app import create_app
from crmhub.database.bulk import Params, Row
from crmhub.database.connection import Connection, now_ms
from crmhub.hub import Hub
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import CONTACTS
from crmhub.records.search import costs
from crmhub.records.search.conditions import Condition
from crmhub.records.search.cursor import unseal
from crmhub.records.search.filters import Filter, parse
from crmhub.records.search.page_reader import PageReader
from crmhub.records.search.pages import Listing, PageRequest
from crmhub.records.search.plans import Search
from crmhub.records.search.query import Known, Place, Query
from crmhub.records.search.record_conditions import OnSince
from tests import databases
from tests.clients import open_client
from tests.databases import new_settings

# Analysed in whole: PostgreSQL's sample is larger than each table.
CONTACTS_STORED = 8000
MINUTE = 60_000
TEXTS = {
    "city": "case when i % 2 = 0 then 'Berlin' else 'City ' || (i % 50) end",
    "hs_lead_status": f"case when i <= {CONTACTS_STORED // 2} then 'UNQUALIFIED' else 'NEW' end",
    "lastname": "'Last' || (i % 1000)",
}
SCORE = "i * 7919 % 10000"


class Asked(Connection):
    """A connection that keeps what is asked."""

    def __init__(self, inner: Connection) -> None:
        self._inner = inner
        self.dialect = inner.dialect
        self.asked: list[tuple[str, Params, int]] = []
        self._joins = 0

    def rows(self, sql: str, params: Params | None = None) -> list[Row]:
        self.asked.append((sql, params or {}, self._joins))
        return self._inner.rows(sql, params)

    @contextmanager
    def large_join_settings(self, sets: int) -> Iterator[None]:
        self._joins = sets
        with self._inner.large_join_settings(sets):
            yield
        self._joins = 0


@dataclass
class Library:
    """Contacts of one account: what they may be searched with."""

    connection: Connection
    catalogue: Catalogue

    def reads(
        self,
        filters: Sequence[Filter],
        work: Callable[[Any], object],
        more: Sequence[Condition] = (),
    ) -> list[list[str]]:
        """Return what each statement reads that `work` makes of a search, in order of names.

        That is an index and the columns by which it is entered; or a table, which is read in
        whole. A join tells what it had to sort or to keep first. Of the counters, a handful of
        rows, nothing is told.
        """
        asked = Asked(self.connection)
        of = (asked, self.catalogue.account_id, CONTACTS.code, Query(tuple(filters)))
        conditions = parse(filters, self.catalogue, region="", more=more)
        work(Search(*of, conditions=conditions) if conditions else PageReader(*of))
        found = []
        for sql, params, joins in asked.asked:
            with self.connection.large_join_settings(joins) if joins else nullcontext():
                found.append(sorted(self._read(sql, params)))
        return found

    def _read(self, sql: str, params: Params) -> Iterator[str]:
        if self.connection.dialect == "sqlite":
            for row in self.connection.rows(f"explain query plan {sql}", params):
                yield from _of_sqlite(row[3])
            return
        # Without running it PostgreSQL keeps parts of a recursion to itself.
        ((found,),) = self.connection.rows(f"explain (analyze, format json) {sql}", params)
        yield from _of_postgresql(found[0]["Plan"])


_SQLITE = re.compile(
    r"(?:SCAN|SEARCH) (records|ix_\w+|index_behind)"
    r"(?: USING (?:COVERING )?(?:INDEX (\w+)|PRIMARY KEY))?(?: \((.*)\))?$"
)


def _of_sqlite(line: str) -> Iterator[str]:
    if match := _SQLITE.match(line):
        table, index, entered = match.groups()
        if entered is None:
            yield table
            return
        name = f"{table}_pkey" if index in (None, f"sqlite_autoindex_{table}_1") else index
        yield _entered(name, re.findall(r"([\w,]+)\)?([<>=])", entered))


def _of_postgresql(plan: Mapping[str, Any]) -> Iterator[str]:
    if plan["Actual Loops"] == 0:
        return
    kind, index, table = plan["Node Type"], plan.get("Index Name"), plan.get("Relation Name")
    if index and (kind == "Index Only Scan" or not table.startswith("ix_")):
        entered = re.findall(r"(?:\(|ROW\()(\w+(?:, \w+)?)\)? ([<>=])", plan["Index Cond"])
        yield _entered(index, entered)
    elif table and table != "record_count":
        yield table
    if kind == "Nested Loop" or kind.endswith("Join"):
        yield f"{kind} {plan['Join Type']}"
        yield from {each["Node Type"] for each in plan["Plans"]} & {"Sort", "Materialize"}
    for each in plan.get("Plans", []):
        yield from _of_postgresql(each)


def _entered(index: str, by: Sequence[tuple[str, str]]) -> str:
    return f"{index}: " + " ".join(columns.replace(" ", "") + sign for columns, sign in by)


@contextmanager
def _hub(url: str, root: Path) -> Iterator[tuple[Hub, int]]:
    app = create_app(new_settings(url, root))
    hub: Hub = app.extensions["crmhub"]
    with closing(hub):
        yield hub, open_client(app).account


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Library]:
    """The contacts, in a database of their own."""
    root = tmp_path_factory.mktemp("plans")
    if request.param == "sqlite":
        with _filled(databases.sqlite_database(root), root) as library:
            yield library
        return
    if reason := databases.left_out("postgresql"):
        pytest.skip(f"PostgreSQL left out: {reason}")
    with databases.postgresql_database() as url, _filled(url, root) as library:
        yield library


@contextmanager
def _filled(url: str, root: Path) -> Iterator[Library]:
    with _hub(url, root) as (hub, account), hub.database.reading() as connection:
        catalogue = hub.records.catalogue(account, CONTACTS)
        _fill(connection, catalogue)
        yield Library(connection, catalogue)


def _fill(connection: Connection, catalogue: Catalogue) -> None:
    if connection.dialect == "postgresql":
        # Vacuum marks only what is on the disk as seen by all, which plans depend on.
        connection.run("set synchronous_commit = on")
    numbers = (
        "with recursive n(i) as"
        f" (select 1 union all select i + 1 from n where i < {CONTACTS_STORED})"
    )
    of = {"account": catalogue.account_id, "kind": CONTACTS.code}
    pairs = [f"'\"{name}\":\"' || ({value}) || '\"'" for name, value in TEXTS.items()]
    pairs.append(f"'\"hubspotscore\":\"' || ({SCORE}) || '\"'")
    document = "'{' || " + " || ',' || ".join(pairs) + " || '}'"
    if connection.dialect == "postgresql":
        document = f"cast({document} as jsonb)"
    connection.run(
        "insert into records (account_id, kind, id, created_at, updated_at, version, properties)"
        f" {numbers} select :account, :kind, i, i * {MINUTE}, i * {MINUTE}, 1, {document} from n",
        of,
    )
    tables = [("ix_text", name, value) for name, value in TEXTS.items()]
    for table, name, value in [*tables, ("ix_num", "hubspotscore", SCORE)]:
        known = catalogue.get(name)
        assert known is not None
        connection.run(
            f"insert into {table} (account_id, prop_id, value, record_id, updated_at)"
            f" {numbers} select :account, :prop, {value}, i, i * {MINUTE} from n",
            {**of, "prop": known.prop_id},
        )
    connection.run(
        "update record_count set n = :n where account_id = :account and kind = :kind and shard = 0",
        {**of, "n": CONTACTS_STORED},
    )
    if connection.dialect == "postgresql":
        connection.run("vacuum analyze")


BERLIN = Filter("city", "EQ", "Berlin")
NOT_BERLIN = Filter("city", "NEQ", "Berlin")
OLDER = Filter("hs_lead_status", "EQ", "UNQUALIFIED")
NOT_NEWER = Filter("hs_lead_status", "NEQ", "NEW")
RARE = Filter("lastname", "EQ", "Last7")
HIGH = Filter("hubspotscore", "GTE", "9900")
HIGHER = Filter("hubspotscore", "GTE", "8000")
ERL = Filter("city", "CONTAINS_TOKEN", "erl")

CITIES = (Filter("city", "GTE", "C"), Filter("city", "NEQ", "City 1"), Filter("city", "LT", "D"))
# A contact was created each minute, for five days.
SINCE = Filter("updatedAt", "GTE", "1970-01-03")
UNTIL = Filter("createdAt", "LT", "1970-01-02")

VALUE = "ix_text_pkey: account_id= prop_id= value="
PROPERTY = "ix_text_pkey: account_id= prop_id="
NEXT_VALUE = "ix_text_pkey: account_id= prop_id= value>"
RANGE = "ix_num_pkey: account_id= prop_id= value>"
ID = "records_pkey: account_id= kind= id="
UNDATED = "index_behind_pkey: account_id= kind="
SORTED = "records_updated: account_id= kind="
BEHIND = "records_updated: account_id= kind= updated_at,id<"
CREATED = "records_created: account_id= kind= created_at<"

MIDDLE = Place(3000 * MINUTE, 3000)


def by_creation(work: Callable[[Search], object]) -> Callable[[Search], object]:
    """Return the same work on a search that is sorted by what its index does not tell."""

    def sorted_so(each: Search) -> None:
        each._query = replace(each._query, sort="created_at")
        work(each)

    return sorted_so


def test_a_total_is_counted_on_the_index_tables_alone(library: Library) -> None:
    def total(*filters: Filter) -> list[list[str]]:
        return library.reads(filters, lambda each: each.total())

    assert total() == [[]]
    assert total(BERLIN) == [[VALUE]]
    assert total(HIGH) == [[RANGE]]
    # All that there are, less those.
    assert total(NOT_BERLIN) == [[VALUE]]


def test_large_sets_are_joined(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "SMALL_RESULT", 0)
    monkeypatch.setattr(costs, "TESTED_SET", 0)
    postgresql = library.connection.dialect == "postgresql"
    memory = library.connection.scalar("show work_mem") if postgresql else ""
    for filters in ((BERLIN, OLDER), (BERLIN, NOT_NEWER)):
        *probes, joined = library.reads(filters, Search.total)
        if postgresql:
            # In the order of the index, and not one entry of a set is looked up for each of the
            # other.
            assert joined.pop(0) == f"Merge Join {'Anti' if NOT_NEWER in filters else 'Inner'}"
            # What comes on the same connection is planned as ever.
            assert library.connection.scalar("show enable_nestloop") == "on"
            assert library.connection.scalar("show enable_hashjoin") == "on"
            assert library.connection.scalar("show jit") == "off"
            assert library.connection.scalar("show work_mem") == memory
        assert joined == [VALUE, VALUE]
        assert {each for probe in probes for each in probe} == {VALUE}


def test_complements_are_joined_to_be_counted(library: Library) -> None:
    [counted] = library.reads((NOT_BERLIN, NOT_NEWER), Search.total)
    if library.connection.dialect == "postgresql":
        # It sorts what is in order, which takes little.
        assert counted[:2] == ["Merge Join Full", "Sort"]
    assert counted[-2:] == [VALUE, VALUE]


def test_a_join_sorts_in_memory(library: Library) -> None:
    if library.connection.dialect == "sqlite":
        pytest.skip("SQLite has no such setting")
    for given, sets, has in (("4MB", 2, "32MB"), ("4MB", 50, "4MB"), ("1GB", 2, "1GB")):
        library.connection.run("begin")
        library.connection.run(f"set local work_mem = '{given}'")
        with library.connection.large_join_settings(sets):
            assert library.connection.scalar("show work_mem") == has
        library.connection.run("rollback")


def test_large_sets_that_have_little_in_common_are_joined_once(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "TESTED_SET", 0)

    def total_and_page(each: Search) -> None:
        total = each.total()
        assert 0 < total < 1000
        first = each.page(total, None)
        assert len(first) == 21
        each._known = Known(each.counted, now_ms())
        assert each.page(total, each.cursor_of(first[19]))[0] == first[20]

    _, _, joined, page, changed, second = library.reads((BERLIN, HIGHER), total_and_page)
    assert {VALUE, RANGE} <= set(joined)
    assert page == [ID, ID]
    assert changed == ["records_updated: account_id= kind= updated_at>"]
    assert second == [ID]


def test_beside_a_small_set_the_large_ones_are_not_read(library: Library) -> None:
    probe, tested = library.reads((BERLIN, OLDER, RARE), Search.total)
    assert probe == [VALUE] * 3
    assert tested == sorted([VALUE, ID])
    probe, tested = library.reads((BERLIN, OLDER, RARE), lambda each: each._fetch(None))
    assert probe == [VALUE] * 3
    assert tested == sorted([VALUE, ID, ID, ID])


def test_few_are_found_by_their_value_and_sorted_by_their_ids(library: Library) -> None:
    assert library.reads((RARE,), by_creation(Search.small_result)) == [sorted([VALUE, ID, ID])]
    probe, found = library.reads((RARE, OLDER), Search.small_result)
    assert (probe, found) == ([VALUE, VALUE], sorted([VALUE, ID]))


def test_few_are_sorted_by_the_dates_of_the_index(library: Library) -> None:
    [found] = library.reads((RARE,), Search.small_result)
    # SQLite tells what it may read: here the date of a row without one.
    once_more = [ID] if library.connection.dialect == "sqlite" else []
    assert found == sorted([VALUE, UNDATED, ID, *once_more])


def test_a_list_and_a_walk_read_the_sort_order_from_their_place_on(library: Library) -> None:
    assert library.reads((), PageReader.small_result) == [[SORTED]]
    assert library.reads((), lambda each: each.page(CONTACTS_STORED, MIDDLE)) == [[BEHIND]]
    walked = library.reads((BERLIN,), lambda each: each._walk(each._begin_walk(MIDDLE, 42), 1000))
    # PostgreSQL, which tells what was read, does not look for the window's end; nor does SQLite.
    assert walked == [[BEHIND] * (2 if library.connection.dialect == "sqlite" else 1)]


def test_a_page_behind_the_first_is_one_statement(library: Library) -> None:
    asked = Asked(library.connection)
    listing = Listing(asked, library.catalogue.account_id, CONTACTS, b"any key signs a cursor")
    filters = (Filter("city", "EQ", "Berlin"),)
    conditions = parse(filters, library.catalogue, region="")
    first = listing.page(PageRequest(Query(filters)), conditions)
    after = unseal(
        first.cursor,
        b"any key signs a cursor",
        account_id=library.catalogue.account_id,
        kind=CONTACTS.code,
    )
    asked.asked.clear()
    second = listing.page(PageRequest(Query(filters), after), conditions)
    assert len(asked.asked) == 1
    assert second.total == first.total
    assert not {row.id for row in first.records} & {row.id for row in second.records}


def test_filters_on_one_property_are_one_set(library: Library) -> None:
    stretch = "ix_text_pkey: account_id= prop_id= value> value<"
    assert library.reads(CITIES, Search.total) == [[stretch]]
    [fetched] = library.reads(CITIES, by_creation(lambda each: each._fetch(None)))
    assert fetched == sorted([stretch, ID, ID])


def test_what_changed_in_a_time_is_a_stretch_of_that_sort_order(library: Library) -> None:
    both = "records_updated: account_id= kind= updated_at> updated_at<"
    since = (SINCE, Filter("updatedAt", "LT", "1970-01-04"))
    assert library.reads(since, Search.total) == [[both]]
    assert library.reads(since, lambda each: each.page(1440, None)) == [[both]]
    # Where the page begins is nearer than where the time ends.
    behind = library.reads(since, lambda each: each.page(1440, MIDDLE))
    assert behind in (
        [["records_updated: account_id= kind= updated_at> updated_at,id<"]],
        [["records_updated: account_id= kind= updated_at,id< updated_at>"]],
    )


@pytest.mark.parametrize("column", ["created_at", "updated_at"])
def test_a_delta_read_enters_the_index_of_its_sort_order(library: Library, column: str) -> None:
    index = f"records_{column.removesuffix('_at')}: account_id= kind="
    since = [OnSince(column, 2000 * MINUTE)]

    def reads(work: Callable[[Any], object], *filters: Filter) -> list[list[str]]:
        def sorted_so(each: Search) -> None:
            each._query = Query((), column, False)
            work(each)

        return library.reads(filters, sorted_so, since)

    assert reads(Search.total) == [[f"{index} {column}>"]]
    assert reads(lambda each: each.page(6000, None)) == [[f"{index} {column}>"]]
    assert reads(lambda each: each.page(6000, MIDDLE)) == [[f"{index} {column},id>"]]
    walked = reads(lambda each: each._walk(each._begin_walk(None, 42), 1000), BERLIN)
    assert {each for read in walked for each in read} == {f"{index} {column}>"}


def test_what_is_stored_is_read_once_for_several_parts(library: Library) -> None:
    asked = Asked(library.connection)
    filters = tuple(Filter("lastname", "CONTAINS_TOKEN", f"last{n}") for n in range(9))
    conditions = parse(filters, library.catalogue, region="")
    of = (asked, library.catalogue.account_id, CONTACTS.code, Query(filters))
    assert Search(*of, conditions=conditions).total() == 0
    # SQLite's index of texts is asked for each part.
    statements = [sql for sql, *_ in asked.asked if "text_part_set" not in sql]
    assert len(statements) == len(set(statements))


def test_few_ids_are_tested_for_their_time_without_a_walk(library: Library) -> None:
    since = [OnSince("updated_at", 2000 * MINUTE)]
    *_, fetched = library.reads((RARE,), lambda each: each._fetch(MIDDLE), since)
    assert set(fetched) == {VALUE, ID}
    *_, small = library.reads((RARE,), Search.small_result, since)
    assert set(small) == {VALUE, ID}


def test_a_walk_begins_where_it_can_find_anything(library: Library) -> None:
    # What was changed before a day was created before it.
    filters = (Filter("updatedAt", "LT", "1970-01-02"), BERLIN)

    def walk(each: Search) -> None:
        each._query = Query((), "created_at", True)
        each._walk(each._begin_walk(None, 42), 1000)

    [walked] = library.reads(filters, walk)
    assert set(walked) == {CREATED}


def test_few_of_a_short_time_are_walked_to(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All contacts would take longer to pass than to fetch those that match.
    monkeypatch.setattr(costs, "SMALL_RESULT", 20)
    day = (SINCE, Filter("updatedAt", "LT", "1970-01-04"), HIGHER)
    *_, counted, walked = library.reads(day, lambda each: each.page(200, None))
    assert counted == ["records_updated: account_id= kind= updated_at> updated_at<"]
    assert set(walked) == set(counted)


def test_what_the_sort_order_tells_itself_is_not_looked_up(library: Library) -> None:
    if library.connection.dialect == "sqlite":
        pytest.skip("SQLite would take such an index where ids are looked up")
    [walked] = library.reads((UNTIL,), lambda each: each._walk(each._begin_walk(None, 42), 1000))
    assert set(walked) == {SORTED, ID}
    [fetched] = library.reads((UNTIL,), lambda each: each._fetch(None))
    assert fetched == sorted([CREATED, ID])


def test_ids_are_fetched_before_anything_is_sorted(library: Library) -> None:
    for place in (None, MIDDLE):
        fetched = library.reads((BERLIN,), by_creation(lambda each, at=place: each._fetch(at)))
        assert fetched == [sorted([VALUE, ID, ID])]


def test_a_guess_is_proved_by_one_stretch_of_an_index(library: Library) -> None:
    found, *extremes, proof, page = library.reads((OLDER,), lambda each: each._guess(None, 3000))
    assert found == sorted([VALUE, ID])
    assert page == [ID]
    if library.connection.dialect == "postgresql":
        assert extremes == [["records_pkey: account_id= kind="] * 2]
        # The index refuses other ids itself.
        assert proof == ["records_updated: account_id= kind= updated_at> id<"]
    else:
        assert proof == ["records_updated: account_id= kind= updated_at>"]


def test_a_guess_is_proved_by_the_ids_where_few_lie_beyond(library: Library) -> None:
    if library.connection.dialect == "sqlite":
        pytest.skip("SQLite has the documents beside the ids")
    quarter = Place(1500 * MINUTE, 1500)
    _, _, _, older, _, _ = library.reads((OLDER,), lambda each: each._guess(quarter, 3000))
    assert older == ["records_pkey: account_id= kind= id<"]


def test_a_guess_further_on_begins_where_its_page_was_created(library: Library) -> None:
    reads = library.reads((OLDER,), lambda each: each._guess(MIDDLE, 3000))
    columns = "records_updated: account_id= kind= updated_at,id"
    if library.connection.dialect == "postgresql":
        # Older and newer ids by themselves: few of either would be read without the sort order.
        first, found, _, older, newer, page = reads
        assert older == [f"{columns}< updated_at> id<"]
        assert newer == [f"{columns}< updated_at> id>"]
    else:
        first, found, proof, page = reads
        assert proof == ["records_updated: account_id= kind= updated_at> updated_at,id<"]
    assert first == [CREATED]
    assert found == sorted([f"{VALUE} record_id<", ID])
    assert page == [ID]


def test_what_is_guessed_of_several_sets_is_merged_from_the_end_on(library: Library) -> None:
    """In the order of the indexes: nothing is sorted, and no further read than the page takes."""
    for filters, join, sets in (
        ((BERLIN, OLDER), "Inner", [f"{VALUE} record_id<"] * 2),
        ((BERLIN, NOT_NEWER), "Anti", [f"{VALUE} record_id<"] * 2),
        ((NOT_NEWER,), "Anti", [f"{VALUE} record_id<", "records_pkey: account_id= kind= id<"]),
    ):
        *_, found = _until_found(library.reads(filters, lambda each: each._guess(MIDDLE, 3000)))
        joins = [f"Merge Join {join}"] * (library.connection.dialect == "postgresql")
        assert found == sorted([*joins, *sets, ID])


def test_a_merge_begins_where_the_last_of_the_sets_does(library: Library) -> None:
    """Half of Berlin lies before the newest of the older half: it is not read."""
    for filters, in_order in (((BERLIN, OLDER), 2), ((BERLIN, NOT_NEWER), 1)):
        nearest, found = _until_found(library.reads(filters, lambda each: each._guess(None, 3000)))
        assert nearest == [VALUE] * in_order
        assert [each for each in found if each.startswith("ix_text")] == [f"{VALUE} record_id<"] * 2
    # Beyond where the page before ends, the first of a set tells nothing more.
    newer = Filter("hs_lead_status", "EQ", "NEW")
    end = Place(5001 * MINUTE, 5001)

    def guess(of: Search) -> None:
        found = of.with_query(Query((BERLIN, newer), sort="created_at"))._guess(end, 3000)
        assert found is not None
        assert [each.id for each in found][:3] == [5000, 4998, 4996]

    library.reads((BERLIN, newer), guess)


def _until_found(reads: list[list[str]]) -> list[list[str]]:
    """Return the reads of a guess up to the one that finds the ids of the sets."""
    at = next(n for n, each in enumerate(reads) if ID in each and len(each) > 1)
    return reads[: at + 1]


def test_the_end_of_a_listing_is_guessed_too(library: Library) -> None:
    """Those that match come first: nothing behind them tells that there are no more."""
    end = Place(3995 * MINUTE, 3995)

    def guess(of: Search) -> None:
        query = Query((OLDER,), sort="created_at", descending=False)
        found = of.with_query(query)._guess(end, 3000)
        assert found is not None
        assert [each.id for each in found] == [3996, 3997, 3998, 3999, 4000]

    first, found, *_, proof, page = library.reads((OLDER,), guess)
    assert first == [CREATED.replace("<", ">")]
    assert found == sorted([f"{VALUE} record_id>", ID])
    ids = " id<" if library.connection.dialect == "postgresql" else ""
    assert proof == [f"records_created: account_id= kind= created_at,id>{ids}"]
    assert page == [ID]


def test_texts_are_read_once_for_total_and_page(library: Library) -> None:
    if library.connection.dialect == "sqlite":
        pytest.skip("SQLite reads all records")

    def first(part: str) -> tuple[int, list[int], int]:
        asked = Asked(library.connection)
        filters = (Filter("lastname", "CONTAINS_TOKEN", part),)
        conditions = parse(filters, library.catalogue, region="")
        of = (asked, library.catalogue.account_id, CONTACTS.code, Query(filters))
        result = Search(*of, conditions=conditions).small_result()
        assert result is not None
        total, page = result
        return total, [row.id for row in page], len(asked.asked)

    # Values, indexes and a sample are read before.
    for part, statements in (("last", 5), ("st77", 4)):
        matching = [n for n in range(CONTACTS_STORED, 0, -1) if part in f"last{n % 1000}"]
        assert first(part) == (len(matching), matching[:21], statements)


def test_sqlite_reads_texts_once_for_a_total_and_a_page_of_few(library: Library) -> None:
    if library.connection.dialect == "postgresql":
        pytest.skip("PostgreSQL finds both by one statement")

    matching = [n for n in range(CONTACTS_STORED, 0, -1) if n % 1000 == 777]

    def first(search: Search) -> None:
        assert search.total() == len(matching)
        assert [row.id for row in search.page(len(matching), None)] == matching

    *_, total, page = library.reads((Filter("lastname", "CONTAINS_TOKEN", "st777"),), first)
    assert total == [PROPERTY]
    assert PROPERTY not in page


def test_parts_are_looked_for_in_each_value_once(library: Library) -> None:
    values, total = library.reads((ERL,), Search.total)
    assert values == [PROPERTY, NEXT_VALUE]
    assert total == [VALUE]
