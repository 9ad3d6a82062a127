"""What a search and a page may cost: each is stopped in the database, or ends early."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import flask
import orjson
import pytest

from crmhub.app import create_app
from crmhub.bounds import MAX_PAGE_BYTES
from crmhub.database import pool
from crmhub.database.connection import Connection, Database
from crmhub.errors import Unavailable
from crmhub.hub import Hub
from crmhub.records.search import conditions, contains, costs, page_reader
from crmhub.search_limits import SearchLimit, SearchWatch, Stopped
from crmhub.settings import Settings
from tests.api.refusals import refused
from tests.catalogue_properties import define
from tests.clients import Client, open_client
from tests.databases import new_settings
from tests.pages import fetch, pages

FIND = {"filters": [{"propertyName": "city", "operator": "CONTAINS_TOKEN", "value": "Berlin"}]}
# A long value, which the database has to search: few short values are compared in Python.
CITY = "Berlin, " * 40
LONGER_THAN_ANY_TEST = 3600
# SQLite has no function that sleeps.
ENDLESS = {
    "sqlite": "with recursive n (i) as (select 1 union all select i + 1 from n)"
    " select count(*) from n",
    "postgresql": f"select count(*) from pg_sleep({LONGER_THAN_ANY_TEST})",
}


@pytest.fixture(params=["search", "list"])
def endless(
    request: pytest.FixtureRequest, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Any]]:
    """Make every search, or every list, endless; return what sends one."""
    sql = ENDLESS[hub.database.dialect]
    if request.param == "search":
        for module in (conditions, contains):
            monkeypatch.setattr(module, "contains", lambda *_, **__: (f"({sql}) > 0", {}))
        yield lambda client, **options: client.post("/contacts/search", FIND, **options)
    else:
        monkeypatch.setattr(page_reader, "EVERYTHING", sql)
        yield lambda client, **options: client.get("/contacts", **options)


def opened(settings: Settings, **changed: Any) -> Iterator[flask.Flask]:
    app = create_app(dataclasses.replace(settings, **changed))
    yield app
    app.extensions["crmhub"].close()


@pytest.fixture
def hasty_app(settings: Settings) -> Iterator[flask.Flask]:
    """A hub that stops searches early and has five connections."""
    yield from opened(settings, search_timeout_s=0.1, threads=1)


@pytest.fixture
def hasty(hasty_app: flask.Flask) -> Client:
    """A caller of that hub."""
    return open_client(hasty_app)


@pytest.fixture
def patient(settings: Settings) -> Iterator[Client]:
    """A caller of a hub that stops no search in the time of a test."""
    for app in opened(settings, search_timeout_s=LONGER_THAN_ANY_TEST):
        yield open_client(app)


def at_work(hub: Hub) -> int:
    """Return how many endless statements PostgreSQL runs; of SQLite nobody can tell."""
    if hub.database.dialect == "sqlite":
        return 0
    with hub.database.reading() as connection:
        running: int = connection.scalar(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and state = 'active' and pid <> pg_backend_pid() and query like '%pg_sleep%'"
        )
    return running


def test_a_search_that_takes_too_long_is_stopped_in_the_database(
    hasty: Client, hub: Hub, endless: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    id = hasty.make(city=CITY)
    # More than there are connections: each is given back.
    for _ in range(6):
        message = refused(endless(hasty), 422)
        assert "longer than 0.1 s" in message
        assert "fewer or narrower filters" in message
        assert at_work(hub) == 0
    monkeypatch.undo()
    for page in (fetch(hasty, "/contacts/search", FIND), fetch(hasty, "/contacts")):
        assert [each["id"] for each in page["results"]] == [id]


def test_the_limit_holds_for_all_statements_together(hub: Hub) -> None:
    limit = SearchLimit(0.0)

    def many_short_statements() -> None:
        with hub.database.searching(limit) as connection:
            while True:
                connection.scalar("select 1")

    with pytest.raises(Stopped):
        many_short_statements()
    assert "longer than 0 s" in limit.reason


def test_searches_leave_connections_to_others(
    hasty_app: flask.Flask, hasty: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = hasty_app.extensions["crmhub"].database
    id = hasty.make()
    # Nobody waits for a search to end.
    monkeypatch.setattr(pool, "BUSY_SECONDS", 0)
    with ExitStack() as searches:
        # Half of the five connections.
        for _ in range(2):
            searches.enter_context(database.searching(SearchLimit(LONGER_THAN_ANY_TEST)))
        assert "Too many searches" in refused(hasty.post("/contacts/search", FIND), 503)
        assert hasty.get(f"/contacts/{id}").status_code == 200
    assert fetch(hasty, "/contacts")["total"] == 1


def test_nothing_is_cancelled_on_a_connection_that_was_given_back() -> None:
    cancelled: list[int] = []
    limit = SearchLimit(LONGER_THAN_ANY_TEST)
    searches = SearchWatch()
    searches.add(limit, lambda: cancelled.append(1))
    searches.remove(limit)
    searches.close()
    limit.look(math.inf)
    assert limit.reason
    assert not cancelled


# --- PostgreSQL's own limit ------------------------------------------------------------------


def test_postgresql_itself_ends_what_a_server_process_does_not(postgresql_url: str) -> None:
    database = Database(postgresql_url, statement_seconds=1)
    for _ in range(2):
        with pytest.raises(Unavailable), database.reading() as connection:
            connection.scalar(ENDLESS["postgresql"])

        def with_time(tx: Connection) -> Any:
            tx.take_time()
            return tx.scalar("show statement_timeout")

        assert database.transact(with_time) == "0"
        # It was for that transaction alone, on a connection that others take over.
    database.close()


@pytest.mark.parametrize(("serves", "longest"), [(True, "35s"), (False, "0")])
def test_only_a_server_process_has_such_a_limit(
    postgresql_url: str, tmp_path: Path, serves: bool, longest: str
) -> None:
    settings = new_settings(postgresql_url, tmp_path, search_timeout_s=5)
    hub = Hub.open(settings, serves=serves)
    with hub.database.reading() as connection:
        assert connection.scalar("show statement_timeout") == longest
    hub.close()


def test_deleting_a_property_with_values_may_take_its_time(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(client, "contacts", "shoe_size")
    client.make(shoe_size="42")
    took: list[Connection] = []
    monkeypatch.setattr(Connection, "take_time", lambda tx: took.append(tx))
    answer = client.delete("/properties/contacts/shoe_size?force=true")
    assert answer.status_code == 204, answer.text
    assert took


# --- pages of large records ------------------------------------------------------------------

LARGE = 65_525
# Two texts each, as long as a record may be: a page has room for 31.
RECORDS = 40
BERLIN = {"propertyName": "city", "operator": "EQ", "value": "Berlin"}
GRACE = {"propertyName": "firstname", "operator": "EQ", "value": "Grace"}
LONG = {"propertyName": "message", "operator": "CONTAINS_TOKEN", "value": "A" * 200}
OTHERS = {"propertyName": "message", "operator": "NOT_CONTAINS_TOKEN", "value": "b"}


@pytest.fixture
def large(client: Client) -> list[int]:
    """The ids of contacts that are too large for one page."""
    texts = {"message": "a" * LARGE, "address": "c" * LARGE}
    return [client.make(city="Berlin", firstname="Grace", **texts) for _ in range(RECORDS)]


@pytest.fixture
def texts_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many characters of JSON each statement returned that returned any."""
    rows = Connection.rows
    sizes: list[int] = []

    def counted(self: Connection, *args: Any) -> Any:
        found = rows(self, *args)
        texts = [each for row in found for each in row if isinstance(each, str) and "{" in each]
        sizes.append(sum(map(len, texts)))
        return found

    monkeypatch.setattr(Connection, "rows", counted)
    return sizes


ASKED: list[list[dict[str, str]]] = [
    [],
    [BERLIN],
    [BERLIN, GRACE],
    [LONG],
    [OTHERS, GRACE],
    [LONG, OTHERS, BERLIN, GRACE],
]


@pytest.mark.parametrize("few", [True, False])
def test_a_page_of_large_records_ends_early_and_the_next_goes_on_there(
    client: Client,
    large: list[int],
    texts_at_once: list[int],
    monkeypatch: pytest.MonkeyPatch,
    few: bool,
) -> None:
    if not few:
        monkeypatch.setattr(costs, "SMALL_RESULT", 0)
    for sort, asked in itertools.product(["createdAt", "updatedAt"], ASKED):
        body = {"filters": asked} if asked else None
        path = "/contacts/search" if asked else "/contacts"
        walked = list(pages(client, path, body, limit=100, sort=sort, order="asc"))
        assert [len(each["results"]) for each in walked] == [31, 9], (sort, asked)
        assert [record["id"] for each in walked for record in each["results"]] == large
        for page in walked:
            texts = [each["properties"] for each in page["results"]]
            assert len(orjson.dumps(texts)) < MAX_PAGE_BYTES, (sort, asked)
            assert all(len(each["message"]) == LARGE for each in texts), (sort, asked)
            assert page["total"] == RECORDS, (sort, asked)
        assert max(texts_at_once) <= MAX_PAGE_BYTES, (sort, asked)


@pytest.mark.parametrize("behind_others", [True, False])
def test_what_changed_during_a_walk_comes_in_pages_that_end_early(
    client: Client, large: list[int], texts_at_once: list[int], behind_others: bool
) -> None:
    walk = pages(client, "/contacts", limit=100, sort="updatedAt", order="desc")
    walked = [next(walk)]
    changed = [each["id"] for each in walked[0]["results"]] if behind_others else large
    changes = [{"id": id, "properties": {"city": "Potsdam"}} for id in changed]
    assert client.post("/contacts/batch/update", {"inputs": changes}).status_code == 200
    texts_at_once.clear()
    walked += walk
    assert all(each["results"] for each in walked)
    cities = {each["id"]: each["properties"]["city"] for page in walked for each in page["results"]}
    assert cities == {id: "Potsdam" if id in changed else "Berlin" for id in large}
    for page in walked:
        assert len(orjson.dumps([each["properties"] for each in page["results"]])) < MAX_PAGE_BYTES
    assert max(texts_at_once) <= MAX_PAGE_BYTES
