"""Walking through listings: each record once, whatever happens meanwhile."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count, islice
from typing import Any
from urllib.parse import quote

import flask
import pytest
import time_machine

from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement
from crmhub.hub import Hub
from crmhub.records.search import costs, plans
from crmhub.records.search import pages as listing
from crmhub.records.search.cursor import Cursor
from tests.api.refusals import refused
from tests.clients import Client, needed
from tests.pages import fetch, pages, walk
from tests.records.meanwhile import committing_late, repeatedly
from tests.records.times import set_times

ALIASES = {
    "date_modified": "updatedAt",
    "updatedAt": "date_modified",
    "date_added": "createdAt",
    "createdAt": "date_added",
}
ORDERS = ("asc", "desc")
# Every contact of `crowd` passes the filter of the second.
BODIES: dict[str, Any] = {
    "list": None,
    "search": {"filters": [{"propertyName": "city", "operator": "NEQ", "value": "Nowhere"}]},
}
IN_BERLIN = {
    "filters": [
        {"propertyName": "city", "operator": "EQ", "value": "Berlin"},
        {"propertyName": "firstname", "operator": "HAS_PROPERTY"},
    ]
}
NOBODY = {"filters": [{"propertyName": "city", "operator": "EQ", "value": "Nowhere"}]}


def crowd(client: Client, n: int, resource: str = "contacts") -> list[int]:
    """Create `n` records and return their ids in rising order."""
    ids: list[int] = []
    for start in range(0, n, 100):
        inputs = [{"properties": needed(resource)} for _ in range(min(100, n - start))]
        answer = client.post(f"/{resource}/batch/create", {"inputs": inputs})
        assert answer.status_code == 201, answer.text
        ids += [each["id"] for each in answer.get_json()]
    return sorted(ids)


def ids_of(results: list[Any]) -> list[int]:
    return [each["id"] for each in results]


def path_of(body: Any, resource: str = "contacts") -> str:
    return f"/{resource}" if body is None else f"/{resource}/search"


@pytest.fixture(params=BODIES)
def body(request: pytest.FixtureRequest) -> Any:
    """A list, and a search that finds the same."""
    return BODIES[request.param]


# --- each record once ------------------------------------------------------------------------


@pytest.mark.parametrize("sort", ["createdAt", "updatedAt"])
@pytest.mark.parametrize("order", ORDERS)
def test_records_of_one_moment_come_once_while_others_come_and_go(
    client: Client,
    app: flask.Flask,
    monkeypatch: pytest.MonkeyPatch,
    body: Any,
    sort: str,
    order: str,
) -> None:
    moment = now_ms()
    monkeypatch.setattr("crmhub.records.store.now_ms", lambda: moment)
    ids = crowd(client, 1000)
    doomed = set(random.Random(1).sample(ids, 60))
    others = Client(app, client.account, client.ids)
    going = iter(sorted(doomed))

    def come_and_go() -> None:
        others.make("contacts", firstname="Late")
        if (id := next(going, None)) is not None:
            assert others.delete(f"/contacts/{id}").status_code == 204

    seen: list[int] = []
    with repeatedly(come_and_go) as once_more:
        for page in pages(client, path_of(body), body, sort=sort, order=order, limit=50):
            seen += ids_of(page["results"])
            once_more()
    assert max(Counter(seen).values()) == 1
    assert set(ids) - doomed <= set(seen)
    assert seen == sorted(seen, reverse=order == "desc")


@pytest.fixture
def change_one(app: flask.Flask, client: Client) -> Callable[[list[int]], Callable[[], None]]:
    """A function that returns another caller's change of one of these records, each time anew."""
    others = Client(app, client.account, client.ids)
    chance, numbers = random.Random(2), count()

    def of(ids: list[int]) -> Callable[[], None]:
        def change() -> None:
            change = {"properties": {"company": f"Firm {next(numbers)}"}}
            assert others.patch(f"/contacts/{chance.choice(ids)}", change).status_code == 200

        return change

    return of


@pytest.mark.parametrize("order", ORDERS)
def test_a_record_that_changes_during_a_walk_is_never_missed(
    client: Client, change_one: Any, body: Any, order: str
) -> None:
    ids = crowd(client, 300)
    seen: list[int] = []
    with repeatedly(change_one(ids)) as once_more:
        for page in pages(client, path_of(body), body, order=order, limit=20):
            seen += ids_of(page["results"])
            once_more()
            if len(seen) > 2000:
                break
    assert set(seen) == set(ids)


@pytest.mark.parametrize("order", ORDERS)
def test_by_time_of_creation_a_record_that_changes_comes_once(
    client: Client, change_one: Any, body: Any, order: str
) -> None:
    ids = crowd(client, 200)
    seen: list[int] = []
    with repeatedly(change_one(ids)) as once_more:
        for page in pages(client, path_of(body), body, sort="createdAt", order=order, limit=20):
            seen += ids_of(page["results"])
            once_more()
    assert sorted(seen) == ids


@pytest.mark.parametrize("what", ["come", "go"])
def test_a_page_of_several_windows_is_whole_whatever_comes_or_goes_between(
    client: Client, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(costs, "SMALL_RESULT", 0)
    monkeypatch.setattr(costs, "WALK_PER_MATCH", 1e9)
    # The first window ends among those that are found, before the page is full.
    found = sorted(client.make("contacts", firstname="A", city="Berlin") for _ in range(60))
    passed = [client.make("contacts", firstname="A", city="Rome") for _ in range(8)]

    def come_or_go() -> None:
        for id in passed[:5]:
            if what == "come":
                client.make("contacts", firstname="A", city="Rome")
            else:
                assert client.delete(f"/contacts/{id}").status_code == 204

    after_statement(monkeypatch, ":window", come_or_go)
    walked = walk(client, "/contacts/search", IN_BERLIN, sort="createdAt", limit=5)
    assert ids_of(walked) == found[::-1]


@pytest.mark.parametrize("sort", ["createdAt", "updatedAt"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_guessed_page_misses_nothing_when_its_records_change_meanwhile(
    client: Client, monkeypatch: pytest.MonkeyPatch, sort: str, order: str
) -> None:
    for name in ("SMALL_RESULT", "WALK_PER_MATCH", "GUESSED_PART"):
        monkeypatch.setattr(costs, name, 0)
    ids = crowd(client, 30)
    after_statement(
        monkeypatch, ":window", lambda: touch_all(client, ids[1:4] if order == "asc" else ids[-4:])
    )
    whole = {"filters": [{"propertyName": "firstname", "operator": "HAS_PROPERTY"}]}
    walked = walk(client, "/contacts/search", whole, sort=sort, order=order, limit=5)
    assert set(ids_of(walked)) == set(ids)


def test_a_page_of_what_was_counted_leaves_out_what_changed_meanwhile(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if each filter let many through.
    monkeypatch.setattr(plans.Search, "_narrowest", lambda *_: -1)
    inputs = [{"id": id, "properties": {"city": "Berlin"}} for id in crowd(client, 6)]
    assert client.post("/contacts/batch/update", {"inputs": inputs}).status_code == 200
    moved, gone, *others = [each["id"] for each in inputs]

    def move() -> None:
        client.patch(f"/contacts/{moved}", {"properties": {"city": "Bremen"}})
        client.delete(f"/contacts/{gone}")

    after_statement(monkeypatch, ":few", move)
    walked = pages(client, "/contacts/search", IN_BERLIN, sort="createdAt", order="asc", limit=2)
    found = list(walked)
    assert {page["total"] for page in found} == {6}
    assert [id for page in found for id in ids_of(page["results"])] == others


@pytest.mark.parametrize("sort", ["createdAt", "updatedAt"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("much", [False, True])
def test_pages_of_what_was_counted_show_what_passes_now(
    client: Client, monkeypatch: pytest.MonkeyPatch, sort: str, order: str, much: bool
) -> None:
    # As if each filter let many through.
    monkeypatch.setattr(plans.Search, "_narrowest", lambda *_: -1)
    monkeypatch.setattr(costs, "SMALL_RESULT", 25)
    joins = list[int]()
    joining = Connection.large_join_settings

    def noted(self: Connection, sets: int) -> Any:
        joins.append(sets)
        return joining(self, sets)

    monkeypatch.setattr(Connection, "large_join_settings", noted)
    comes = client.make("contacts", firstname="A", city="Rome")
    passed = [client.make("contacts", firstname="A", city="Berlin") for _ in range(20)]
    last = client.make("contacts", firstname="A", city="Rome")
    walked = pages(client, "/contacts/search", IN_BERLIN, sort=sort, order=order, limit=5)
    found = ids_of(next(walked)["results"])
    counted = len(joins)
    assert counted > 0
    left = [id for id in passed if id not in found]
    for id, city in ((left[3], "Bremen"), (comes, "Berlin"), (last, "Berlin")):
        client.patch(f"/contacts/{id}", {"properties": {"city": city}})
    assert client.delete(f"/contacts/{left[7]}").status_code == 204
    if much:
        crowd(client, 30)
    found += [id for page in walked for id in ids_of(page["results"])]
    assert len(found) == len(set(found))
    assert set(passed) - set(found) == {left[3], left[7]}
    # Whatever passes now and stands further on in the order: by their creation, or as changed last.
    late = {"createdAt": {"asc": {last}, "desc": {comes}}, "updatedAt": {}}[sort]
    assert set(found) - set(passed) == late.get(order, {comes, last})
    assert (len(joins) > counted) == much


def test_a_walk_catches_up_with_records_that_changed_behind_it(client: Client, body: Any) -> None:
    ids = crowd(client, 30)
    first, *rest = pages_with(client, body, lambda: touch_all(client, ids[:3]), limit=10)
    assert not set(ids[:3]) & set(ids_of(first["results"]))
    assert {id for page in rest for id in ids_of(page["results"])} == set(ids[:20])


@pytest.mark.databases("sqlite", "postgresql")
def test_a_change_that_was_under_way_when_the_walk_began_is_not_missed(
    client: Client, app: flask.Flask, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = crowd(client, 30)
    others = Client(app, client.account, client.ids)
    with committing_late(monkeypatch, lambda: touch_all(others, ids[:1])) as commit:
        walked = pages_with(client, body, commit, limit=10)
        found = [id for page in walked for id in ids_of(page["results"])]
    assert sorted(found) == ids


@pytest.mark.parametrize("most", [300, 5])
def test_a_change_is_not_missed_though_others_overtake_it(
    client: Client, hub: Hub, body: Any, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("crmhub.records.search.query._MOST_SHOWN", most)
    ids = crowd(client, 30)
    time.sleep(0.005)
    stamped = now_ms()
    time.sleep(0.005)
    touch_all(client, ids[10:22])
    walked = pages(client, path_of(body), body, limit=10)
    found = [id for page in islice(walked, 2) for id in ids_of(page["results"])]
    # It is committed only now that the walk is past its stamp.
    set_times(hub, client, "contacts", ids[:1], [(stamped - 1000, stamped)])
    found += [id for page in walked for id in ids_of(page["results"])]
    assert set(found) == set(ids)
    # Of the twelve that changed before it, no more are shown again than were forgotten.
    assert len(found) == len(ids) + max(0, 12 - most)


def test_a_change_is_not_missed_though_another_clock_is_ahead(
    client: Client, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = crowd(client, 40)
    with monkeypatch.context() as ahead:
        ahead.setattr("crmhub.records.store.now_ms", lambda: now_ms() + 60_000)
        inputs = [{"id": id, "properties": {"company": "Ahead"}} for id in ids[20:35]]
        assert client.post("/contacts/batch/update", {"inputs": inputs}).status_code == 200
    walked = pages(client, path_of(body), body, limit=10)
    found = [id for page in islice(walked, 2) for id in ids_of(page["results"])]
    touch_all(client, ids[:3])
    found += [id for page in walked for id in ids_of(page["results"])]
    assert sorted(found) == ids


@pytest.mark.parametrize("n", [10, 25])
def test_what_changed_just_before_the_walk_does_not_come_again(
    client: Client, body: Any, n: int
) -> None:
    ids = crowd(client, 30)
    touch_all(client, ids[5:n])
    found = [
        id
        for page in pages_with(client, body, lambda: touch_all(client, ids[:2]), limit=6)
        for id in ids_of(page["results"])
    ]
    assert sorted(found) == ids


def test_however_many_change_during_a_walk_none_is_missed(
    client: Client, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_LEAST_CAUGHT_UP", 5)
    ids = crowd(client, 40)
    walked = pages_with(client, body, lambda: touch_all(client, ids), limit=10)
    assert {id for page in walked for id in ids_of(page["results"])} == set(ids)


def test_a_walk_ends_with_what_changed_since_the_oldest_change_first(
    client: Client, body: Any
) -> None:
    ids = crowd(client, 30)

    def change() -> None:
        for id in (ids[7], ids[2], ids[25]):
            touch_all(client, [id])

    walked = pages_with(client, body, change, limit=10)
    found = [id for page in walked for id in ids_of(page["results"])]
    assert found[:-3] == [id for id in reversed(ids) if id not in (ids[7], ids[2])]
    assert found[-3:] == [ids[7], ids[2], ids[25]]


def test_a_walk_ends_although_everything_goes_on_changing(
    client: Client, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_LEAST_CAUGHT_UP", 5)
    ids, limit = crowd(client, 20), 5
    walked = pages(client, path_of(body), body, limit=limit)
    found: list[int] = []
    for page in islice(walked, 100):
        found += ids_of(page["results"])
        touch_all(client, ids)
    assert set(found) == set(ids)
    # Of what changed, twice as many as there are.
    assert len(found) <= limit + 2 * len(ids)
    assert next(walked, None) is None


def test_what_was_created_during_the_walk_does_not_come_as_a_change(
    client: Client, body: Any
) -> None:
    ids = crowd(client, 30)

    def create_and_change() -> None:
        # What comes within the millisecond in which the walk begins was there from its beginning.
        time.sleep(0.005)
        touch_all(client, crowd(client, 3))

    walked = pages_with(client, body, create_and_change, limit=10)
    assert sorted(id for page in walked for id in ids_of(page["results"])) == ids


def test_a_link_is_a_change_that_is_not_missed(client: Client) -> None:
    company = client.make("companies")
    ids = crowd(client, 30)

    def link() -> None:
        answer = client.put(f"/contacts/{ids[0]}/associations/companies/{company}")
        assert answer.status_code == 204

    found = [id for p in pages_with(client, None, link, limit=10) for id in ids_of(p["results"])]
    assert set(found) == set(ids)


def test_what_no_longer_passes_the_filters_does_not_come_again(client: Client) -> None:
    ids = crowd(client, 30)

    def move_away() -> None:
        answer = client.patch(f"/contacts/{ids[0]}", {"properties": {"city": "Nowhere"}})
        assert answer.status_code == 200

    walked = pages_with(client, BODIES["search"], move_away, limit=10)
    assert sorted(id for page in walked for id in ids_of(page["results"])) == ids[1:]


def test_a_cursor_names_what_was_counted_or_what_was_shown(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in an address, which two long lists of ids could not."""
    monkeypatch.setattr(listing, "_FEW_SHOWN", 15)
    sealed = list[Cursor]()
    seal = Cursor.seal
    monkeypatch.setattr(Cursor, "seal", lambda c, key: (sealed.append(c), seal(c, key))[1])
    ids = crowd(client, 40)
    touch_all(client, ids)
    filters = [
        {"propertyName": "company", "operator": "EQ", "value": "Touched"},
        {"propertyName": "city", "operator": "NEQ", "value": "Nowhere"},
    ]
    monkeypatch.setattr(costs, "SMALL_RESULT", 100)
    monkeypatch.setattr(plans.Search, "small_result", lambda _: None)
    found = ids_of(walk(client, "/contacts/search", {"filters": filters}, limit=10))
    assert sorted(set(found)) == ids
    assert [(len(each.shown), bool(each.counted)) for each in sealed][:3] == [
        (10, True),
        (20, False),
        (30, False),
    ]


def test_nothing_comes_twice_when_nothing_changes(client: Client, body: Any) -> None:
    ids = crowd(client, 45)
    touch_all(client, ids[10:20])
    assert sorted(ids_of(walk(client, path_of(body), body, limit=10))) == ids


def after_statement(monkeypatch: pytest.MonkeyPatch, part: str, work: Callable[[], Any]) -> None:
    """Let something happen, once, right behind the first statement that has this part."""
    rows, ran = Connection.rows, count()

    def disturbed(self: Connection, sql: str | Statement, params: Any = None) -> Any:
        result = rows(self, sql, params)
        if isinstance(sql, str) and part in sql and next(ran) == 0:
            work()
        return result

    monkeypatch.setattr(Connection, "rows", disturbed)


def touch_all(client: Client, ids: list[int]) -> None:
    inputs = [{"id": id, "properties": {"company": "Touched"}} for id in ids]
    assert client.post("/contacts/batch/update", {"inputs": inputs}).status_code == 200
    # Changes of one millisecond have the order of their ids.
    changed = now_ms()
    while now_ms() == changed:
        time.sleep(0.0002)


def pages_with(client: Client, body: Any, after_first: Any, **params: Any) -> Iterator[Any]:
    """Give page after page; something happens behind the first one."""
    walked = pages(client, path_of(body), body, **params)
    yield next(walked)
    after_first()
    yield from walked


# --- order and total -------------------------------------------------------------------------


@pytest.mark.parametrize("sort", ALIASES)
@pytest.mark.parametrize("order", ORDERS)
def test_the_four_sorts_have_two_meanings(
    client: Client, hub: Hub, body: Any, sort: str, order: str
) -> None:
    a, b, c, d = ids = crowd(client, 4)
    set_times(hub, client, "contacts", ids, [(3000, 9000), (1000, 8000), (2000, 8000), (3000, 7)])
    expected = [b, c, a, d] if sort in ("createdAt", "date_added") else [d, b, c, a]
    found = ids_of(walk(client, path_of(body), body, sort=sort, order=order, limit=3))
    assert found == (expected if order == "asc" else expected[::-1])


def test_the_newest_change_comes_first_by_default(client: Client, hub: Hub, resource: str) -> None:
    ids = crowd(client, 21, resource)
    set_times(hub, client, resource, ids, [(1000 - n, 1000 + n) for n in range(21)])
    page = fetch(client, f"/{resource}")
    assert ids_of(page["results"]) == ids[:0:-1]
    assert (page["total"], page["hasMore"]) == (21, True)


def test_the_total_is_exact_and_stays_through_the_walk(client: Client, body: Any) -> None:
    ids = crowd(client, 25)

    def come_and_go() -> None:
        crowd(client, 5)
        client.delete(f"/contacts/{ids[0]}")

    walked = list(pages_with(client, body, come_and_go, limit=10, sort="createdAt", order="asc"))
    assert {page["total"] for page in walked} == {25}
    assert fetch(client, path_of(body), body)["total"] == 29


def test_the_total_of_a_negation_is_of_one_moment(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = crowd(client, 3)
    after_statement(
        monkeypatch, "record_count", lambda: [client.make(city="Berlin") for _ in range(5)]
    )
    without = {"filters": [{"propertyName": "city", "operator": "NOT_HAS_PROPERTY"}]}
    page = fetch(client, "/contacts/search", without)
    assert (page["total"], ids_of(page["results"])) == (3, ids[::-1])


def test_few_that_become_many_meanwhile_are_found(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "SMALL_RESULT", 5)
    ids = [client.make(firstname="A", city="Berlin") for _ in range(5)]
    after_statement(
        monkeypatch, ":most", lambda: ids.append(client.make(firstname="A", city="Berlin"))
    )
    page = fetch(client, "/contacts/search", IN_BERLIN)
    assert (page["total"], ids_of(page["results"])) == (6, ids[::-1])


def test_an_empty_listing_is_one_empty_page(client: Client) -> None:
    crowd(client, 2)
    empty = {"total": 0, "results": [], "cursor": {"next": "", "nextLink": ""}, "hasMore": False}
    assert fetch(client, "/contacts/search", NOBODY) == empty
    assert fetch(client, "/deals") == empty


@pytest.mark.parametrize("n", [20, 40])
def test_a_full_last_page_is_the_last(client: Client, body: Any, n: int) -> None:
    crowd(client, n)
    walked = list(pages(client, path_of(body), body))
    assert [len(page["results"]) for page in walked] == [20] * (n // 20)


# --- the cursor ------------------------------------------------------------------------------


def test_next_link_alone_continues_the_same_listing(client: Client, body: Any) -> None:
    ids = crowd(client, 9)
    found = []
    query = {"sort": "createdAt", "order": "asc", "limit": 2, "include": "createdAt"}
    for page in pages(client, path_of(body), body, **query, properties="firstname"):
        assert len(page["results"]) <= 2
        assert all(list(each) == ["id", "properties", "createdAt"] for each in page["results"])
        found += ids_of(page["results"])
    assert found == ids


def test_an_explicit_value_overrides_what_the_cursor_brings(client: Client, body: Any) -> None:
    ids = crowd(client, 9)
    path = path_of(body)
    first = fetch(client, path, body, "?sort=date_added&order=asc&limit=2&include=createdAt")
    link = first["cursor"]["nextLink"]
    second = fetch(client, path, body, f"{link}&limit=5&include=updatedAt&properties=city")
    assert ids_of(second["results"]) == ids[2:7]
    assert second["results"][0] == {
        "id": ids[2],
        "properties": {},
        "updatedAt": second["results"][0]["updatedAt"],
    }
    assert ids_of(fetch(client, path, body, second["cursor"]["nextLink"])["results"]) == ids[7:]


def test_an_empty_cursor_is_the_first_page(client: Client, body: Any) -> None:
    crowd(client, 3)
    path = path_of(body)
    pages = [fetch(client, path, body, query) for query in ("?cursor=&limit=2", "?limit=2")]
    assert pages[0]["results"] == pages[1]["results"]
    assert pages[0]["hasMore"]


def test_a_cursor_is_good_for_any_number_of_times_and_years(client: Client, body: Any) -> None:
    ids = crowd(client, 6)
    path = path_of(body)
    first = fetch(client, path, body, "?limit=3&sort=createdAt&order=asc")
    again = [fetch(client, path, body, first["cursor"]["nextLink"]) for _ in range(2)]
    with time_machine.travel(timedelta(days=4000)):
        again.append(fetch(client, path, body, first["cursor"]["nextLink"]))
    assert [ids_of(page["results"]) for page in again] == [ids[3:]] * 3


def test_a_cursor_that_was_tampered_with_is_400(client: Client) -> None:
    crowd(client, 3)
    cursor = fetch(client, "/contacts", None, "?limit=1")["cursor"]["next"]
    changed = [
        f"{cursor[:i]}{'A' if cursor[i] != 'A' else 'B'}{cursor[i + 1 :]}"
        for i in range(len(cursor))
    ]
    changed += [cursor[:-1], cursor[:-4], cursor + "A", cursor + "=", cursor + "==", cursor * 2]
    changed += [cursor[1:], cursor.swapcase(), cursor[::-1], " " + cursor, cursor + "\n"]
    for each in changed:
        assert "cursor" in refused(client.get(f"/contacts?cursor={quote(each)}"), 400), each


def test_a_cursor_is_good_for_its_own_listing_only(client: Client, other: Client) -> None:
    crowd(client, 3)
    crowd(other, 3)
    cursor = fetch(client, "/contacts", None, "?limit=1")["cursor"]["next"]
    found = fetch(client, "/contacts/search", BODIES["search"], "?limit=1")["cursor"]["next"]
    refusals = [
        other.get(f"/contacts?cursor={cursor}"),
        client.get(f"/deals?cursor={cursor}"),
        client.get(f"/contacts?cursor={cursor}&sort=createdAt"),
        client.get(f"/contacts?cursor={cursor}&sort=date_added"),
        client.get(f"/contacts?cursor={cursor}&order=asc"),
        client.post(f"/contacts/search?cursor={cursor}", BODIES["search"]),
        client.get(f"/contacts?cursor={found}"),
        client.post(f"/contacts/search?cursor={found}", {"filters": []}),
        client.post(f"/contacts/search?cursor={found}", NOBODY),
        client.get(f"/contacts/{client.make()}/associations/deals?cursor={cursor}"),
    ]
    for answer in refusals:
        assert "cursor" in refused(answer, 400)


@pytest.mark.parametrize("sort", ALIASES)
def test_both_names_of_a_sort_continue_the_same_listing(
    client: Client, body: Any, sort: str
) -> None:
    ids = crowd(client, 6)
    path = path_of(body)
    first = fetch(client, path, body, f"?limit=3&sort={sort}&order=asc")
    link = f"{first['cursor']['nextLink']}&order=asc&sort="
    for name in (sort, ALIASES[sort]):
        assert ids_of(fetch(client, path, body, link + name)["results"]) == ids[3:]


def test_the_same_filters_in_another_order_continue_the_listing(client: Client) -> None:
    crowd(client, 3)
    one, two = BODIES["search"]["filters"][0], {"propertyName": "id", "operator": "HAS_PROPERTY"}
    first = fetch(client, "/contacts/search", {"filters": [one, two]}, "?limit=2")
    link = first["cursor"]["nextLink"]
    again = fetch(client, "/contacts/search", {"filters": [{**two, "value": None}, one]}, link)
    assert len(again["results"]) == 1


# --- cost ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sort", ["createdAt", "updatedAt"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_page_costs_the_same_at_any_depth(
    client: Client,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    body: Any,
    sort: str,
    order: str,
) -> None:
    crowd(client, 400)
    statements: list[tuple[str, Any]] = []
    rows = Connection.rows

    def noted(self: Connection, sql: str | Statement, params: Any = None) -> Any:
        if isinstance(sql, str) and " from records" in sql:
            statements.append((sql, params))
        return rows(self, sql, params)

    links = [""] + [
        page["cursor"]["nextLink"]
        for page in pages(client, path_of(body), body, sort=sort, order=order, limit=20)
    ]
    monkeypatch.setattr(Connection, "rows", noted)
    costs = []
    for link in (links[1], links[-3]):
        statements.clear()
        fetch(client, path_of(body), body, link)
        costs.append([work(hub, *each) for each in list(statements)])
    first, deep = costs
    assert len(deep) == len(first) > 0
    assert sum(deep) <= 1.2 * sum(first)


def work(hub: Hub, sql: str, params: Any) -> int:
    """Return how much work a statement is: SQLite's steps, or the rows PostgreSQL looks at."""
    with hub.database.reading() as connection:
        if connection.dialect == "sqlite":
            steps = count()
            connection._driver.set_progress_handler(lambda: next(steps) and None, 1)
            connection.rows(sql, params)
            connection._driver.set_progress_handler(None, 1)
            return next(steps)
        # As for a large table: a small one is cheapest read as a whole.
        for plan in ("seqscan", "bitmapscan", "sort"):
            connection.run(f"set enable_{plan} = off")
        explained = connection.scalar(f"explain (analyze, format json) {sql}", params)
        connection.run("reset all")
    return looked_at(explained[0]["Plan"])


def looked_at(plan: Any) -> int:
    """Return the rows a plan reads and throws away, and those of the plans below it."""
    rows = (v for name, v in plan.items() if name == "Actual Rows" or name.startswith("Rows Rem"))
    return int(sum(rows)) + sum(looked_at(each) for each in plan.get("Plans", []))


# --- parameters ------------------------------------------------------------------------------


def test_a_limit_in_a_body_is_read_as_strictly(client: Client) -> None:
    hostile: list[Any] = [0, 101, -1, 5.0, 5.5, True, None, [], {}, "5.0", "", " 5", 10**30]
    for limit in hostile:
        answer = client.post("/contacts/search", {"filters": [], "limit": limit})
        assert "limit" in refused(answer, 400), limit


@pytest.mark.databases("sqlite")
def test_unknown_values_of_sort_and_order_are_400_naming_the_allowed_ones(
    client: Client, body: Any
) -> None:
    for query in ["sort=id", "sort=CreatedAt", "sort=", "order=up", "order=ASC"]:
        path = f"{path_of(body)}?{query}"
        message = refused(client.get(path) if body is None else client.post(path, body), 400)
        allowed = ALIASES if query.startswith("sort") else ORDERS
        assert all(each in message for each in allowed), query


@pytest.mark.parametrize("limit", [1, 100])
def test_limits_from_1_to_100_are_taken(client: Client, body: Any, limit: int) -> None:
    crowd(client, 120)
    assert len(fetch(client, path_of(body), body, f"?limit={limit}")["results"]) == limit


# --- a search's parameters may stand in its body ---------------------------------------------


def test_a_search_takes_its_parameters_from_the_body(client: Client) -> None:
    ids = crowd(client, 5)
    options = {"limit": 2, "sort": "createdAt", "order": "asc", "properties": ["city"]}
    options["include"] = ["createdAt"]
    first = fetch(client, "/contacts/search", {"filters": [], **options})
    assert ids_of(first["results"]) == ids[:2]
    assert list(first["results"][0]) == ["id", "properties", "createdAt"]
    assert first["results"][0]["properties"] == {}
    following = {"filters": [], "cursor": first["cursor"]["next"]}
    assert ids_of(fetch(client, "/contacts/search", following)["results"]) == ids[2:4]


def test_body_and_query_may_say_the_same_but_not_differ(client: Client) -> None:
    body = {"filters": [], "limit": 2, "sort": "createdAt", "order": "asc"}
    assert fetch(client, "/contacts/search", body, "?limit=2&sort=date_added&order=asc")
    for query in ("limit=3", "sort=updatedAt", "order=desc"):
        answer = client.post(f"/contacts/search?{query}", body)
        assert query.split("=")[0] in refused(answer, 400)
