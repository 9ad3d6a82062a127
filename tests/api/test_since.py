"""`updatedSince` and `createdSince`: lists and searches by the records' own times, to the ms."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import quote

import pytest

from crmhub.durations import iso
from crmhub.hub import Hub
from crmhub.properties.kinds import KINDS
from crmhub.records.search import costs
from tests.api.refusals import refused
from tests.clients import Client
from tests.pages import fetch, pages, walk
from tests.records.times import set_times

BEGIN = 1_780_000_000_000
SORTS = {"createdAt": "createdSince", "updatedAt": "updatedSince"}
RIGHT = "must be a time with its time zone, such as 2026-11-26T08:00:00.000Z"
pytestmark = pytest.mark.databases("sqlite", "postgresql")


def aged(
    client: Client, hub: Hub, moments: list[tuple[int, int]], resource: str = "contacts"
) -> list[int]:
    """Create records with these times of creation and change; return their ids."""
    ids = [client.make(resource) for _ in moments]
    set_times(hub, client, resource, ids, moments)
    return ids


def found(client: Client, path: str, body: Any = None, **params: Any) -> list[int]:
    return [each["id"] for each in walk(client, path, body, **params)]


@pytest.mark.parametrize("resource", KINDS)
def test_a_millisecond_decides_and_is_included(client: Client, hub: Hub, resource: str) -> None:
    ids = aged(client, hub, [(BEGIN, BEGIN + n) for n in range(3)], resource)
    body = {"filters": []}
    for n in range(4):
        since = iso(BEGIN + n)
        for path, filters in ((f"/{resource}", None), (f"/{resource}/search", body)):
            wanted = {"updatedSince": since, "sort": "updatedAt", "order": "asc"}
            assert found(client, path, filters, **wanted) == ids[n:]
            assert len(found(client, path, filters, createdSince=since)) == (0 if n else 3)
        in_body = fetch(client, f"/{resource}/search", {**body, "updatedSince": since})
        assert in_body["total"] == 3 - n


@pytest.mark.parametrize("name", SORTS.values())
def test_a_time_without_zone_or_of_no_calendar_is_400(client: Client, name: str) -> None:
    for wrong in (
        "2026-11-26T08:00:00", "2026-11-26", "yesterday", "1780000000000", "", "2026-11-26 08:00Z",
        "2026-02-30T08:00:00Z", "2026-11-26T25:00:00Z", "2026-11-26T08:00:00+99:00",
        "2026-11-26T08:00:00 01:00", "2026-W48-4T08:00:00Z", "2026-11-26T08:00:00Zulu",
        "٢026-11-26T08:00Z",
    ):  # fmt: skip
        answers = (
            client.get(f"/contacts?{name}={quote(wrong)}"),
            client.post(f"/contacts/search?{name}={quote(wrong)}", {"filters": []}),
            client.post("/contacts/search", {"filters": [], name: wrong}),
        )
        for answer in answers:
            assert f"{name}: {RIGHT}" in refused(answer, 400), wrong
    for value in (BEGIN, None, ["2026-11-26T08:00:00Z"]):
        refused(client.post("/contacts/search", {"filters": [], name: value}), 400)


def test_every_notation_of_a_moment_is_the_same(client: Client, hub: Hub) -> None:
    [_, later] = aged(client, hub, [(BEGIN, BEGIN), (BEGIN, BEGIN + 1)])
    # 2026-05-28T20:26:40.001Z
    for text in (
        "2026-05-28T20:26:40.001Z", "2026-05-28T22:26:40.001+02:00", "2026-05-28T18:26:40,001-0200",
        "2026-05-28T20:26:40.001999Z",
    ):  # fmt: skip
        assert found(client, "/contacts", updatedSince=text) == [later]
    assert len(found(client, "/contacts", updatedSince="2026-05-28T20:26Z")) == 2
    assert found(client, "/contacts", updatedSince="9999-12-31T23:59:59-12:00") == []
    assert len(found(client, "/contacts", updatedSince="0001-01-01T00:00:00+14:00")) == 2


@pytest.mark.parametrize("body", [None, {"filters": []}], ids=["list", "search"])
def test_the_cursor_alone_continues_and_another_time_is_400(
    client: Client, hub: Hub, body: Any
) -> None:
    ids = aged(client, hub, [(BEGIN, BEGIN + n) for n in range(5)])
    path = "/contacts" if body is None else "/contacts/search"
    query = {"updatedSince": iso(BEGIN + 1), "sort": "updatedAt", "order": "asc", "limit": 2}
    walked = list(pages(client, path, body, **query))
    assert [each["id"] for page in walked for each in page["results"]] == ids[1:]
    assert {page["total"] for page in walked} == {4}
    link = walked[0]["cursor"]["nextLink"]
    same = "2026-05-28T22:26:40.001%2B02:00"
    page = fetch(client, path, body, f"{link}&updatedSince={same}")
    assert [each["id"] for each in page["results"]] == ids[3:]
    without = fetch(client, path, body, "?sort=updatedAt&order=asc&limit=2")["cursor"]["nextLink"]
    for wrong in (
        f"{link}&updatedSince={iso(BEGIN)}",
        f"{link}&createdSince={iso(BEGIN)}",
        f"{without}&updatedSince={iso(BEGIN + 1)}",
    ):
        answer = client.get(path + wrong) if body is None else client.post(path + wrong, body)
        assert "updatedSince" in refused(answer, 400)


def test_body_and_query_of_a_search_may_say_the_same_but_not_differ(client: Client) -> None:
    path = "/contacts/search?createdSince=2026-05-28T20:00:00Z"
    same = {"filters": [], "createdSince": "2026-05-28T22:00:00+02:00"}
    assert client.post(path, same).status_code == 200
    differs = client.post(path, {**same, "createdSince": "2026-05-28T22:00:00Z"})
    assert "createdSince: differs" in refused(differs, 400)


def test_a_walk_from_the_newest_change_catches_up(client: Client, hub: Hub) -> None:
    ids = aged(client, hub, [(BEGIN, BEGIN + n) for n in range(6)])
    walking = pages(client, "/contacts", updatedSince=iso(BEGIN + 1), limit=2)
    seen = [each["id"] for each in next(walking)["results"]]
    client.patch(f"/contacts/{ids[1]}", {"properties": {"city": "London"}})
    # It was too old when the walk began, and has changed since.
    client.patch(f"/contacts/{ids[0]}", {"properties": {"city": "London"}})
    seen += [each["id"] for page in walking for each in page["results"]]
    assert sorted(seen) == ids


@pytest.mark.parametrize("small", [True, False])
def test_any_filters_and_sorts_select_what_they_name(
    client: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    if not small:
        monkeypatch.setattr(costs, "SMALL_RESULT", 0)
        monkeypatch.setattr(costs, "TESTED_SET", 0)
    chance = random.Random(7)
    ids = [client.make(city=chance.choice("AB"), hubspotscore=str(n % 7)) for n in range(40)]
    times = [(BEGIN + n // 4, BEGIN + n // 4 + chance.randrange(20)) for n in range(40)]
    set_times(hub, client, "contacts", ids, times)
    cities = {id: client.get(f"/contacts/{id}").json["properties"]["city"] for id in ids}  # type: ignore[index]
    stored = dict(zip(ids, times, strict=True))
    in_a = {"propertyName": "city", "operator": "EQ", "value": "A"}
    not_a = {**in_a, "operator": "NEQ"}
    score = {"propertyName": "hubspotscore", "operator": "GTE", "value": "0"}
    day = {"propertyName": "updatedAt", "operator": "GTE", "value": iso(BEGIN)[:10]}
    for filters in ([], [in_a], [not_a], [in_a, score], [day], [not_a, day]):
        for sort, column in (("createdAt", 0), ("updatedAt", 1)):
            order = chance.choice(["asc", "desc"])
            created, updated = (BEGIN + chance.randrange(12) for _ in range(2))
            given = chance.choice([("createdSince",), ("updatedSince",), tuple(SORTS.values())])
            bounds = {"createdSince": iso(created), "updatedSince": iso(updated)}
            expected = [
                id
                for id, (at, changed) in stored.items()
                if (at >= created or "createdSince" not in given)
                and (changed >= updated or "updatedSince" not in given)
                and (in_a not in filters or cities[id] == "A")
                and (not_a not in filters or cities[id] != "A")
            ]
            expected.sort(key=lambda id: (stored[id][column], id), reverse=order == "desc")
            query = {"sort": sort, "order": order, "limit": 7} | {n: bounds[n] for n in given}
            assert found(client, "/contacts/search", {"filters": filters}, **query) == expected
