"""`changes` of the client: no change is missed, whatever is slow, broken or started again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import islice
from pathlib import Path
from typing import Any

import flask
import httpx
import pytest

from crmhub_client import Bookmark, FileBookmark, Hub, Retry, UnavailableError
from tests.clients import Client
from tests.clients_python.callers import QUICK, Caller, Network, answers, fake
from tests.records.meanwhile import committing_late

KINDS = ("contacts", "deals", "companies", "tickets")
NEEDED = {"contacts": "firstname", "deals": "dealname", "companies": "name", "tickets": "subject"}


@pytest.fixture
def near(app: flask.Flask, client: Client) -> Iterator[Hub]:
    """The client of an account whose hub runs in this process, without a Date in its answers."""
    http = httpx.Client(transport=httpx.WSGITransport(app))
    with http, Hub("http://hub.test", client.account.client_id, client.key, http=http) as hub:
        yield hub


@pytest.mark.process
@pytest.mark.parametrize("kind", KINDS)
def test_changes_come_once_from_bookmark_to_bookmark(caller: Caller, kind: str) -> None:
    def read() -> list[int]:
        found = caller.items(lambda hub: getattr(hub, kind).changes(bookmark, properties=["x"]))
        return sorted(record.id for record in found)

    made = caller.call(
        lambda hub: getattr(hub, kind).create_many({NEEDED[kind]: f"{n}"} for n in range(230))
    )
    ids = sorted(record.id for record in made.results)
    bookmark = Bookmark()
    assert read() == ids
    bookmark = Bookmark(bookmark.text)
    assert read() == []
    caller.call(lambda hub: getattr(hub, kind).archive_many(ids[7:9]))
    gone = caller.items(lambda hub: getattr(hub, kind).changes(bookmark))
    assert sorted(record.id for record in gone) == ids[7:9]
    assert all(record.archived_at for record in gone)
    rows = [(id, {NEEDED[kind]: "new"}) for id in ids[3:6]]
    caller.call(lambda hub: getattr(hub, kind).update_many(rows))
    assert read() == ids[3:6]
    caller.call(lambda hub: getattr(hub, kind).restore(ids[7]))
    assert read() == ids[7:8]
    caller.call(lambda hub: getattr(hub, kind).archive(ids[7]))
    assert read() == ids[7:8]
    assert read() == []


@pytest.mark.process
def test_changes_survive_429_503_and_lost_answers(caller: Caller) -> None:
    caller.call(lambda hub: hub.contacts.create_many({"firstname": "A"} for _ in range(201)))
    caller.network = Network("429", "503", "refused", "lost", "silent", "502")
    found = caller.items(lambda hub: hub.contacts.changes())
    assert len({record.id for record in found}) == len(found) == 201
    assert all(record.updated_at for record in found)


@pytest.mark.databases("sqlite", "postgresql")
def test_a_change_that_is_committed_late_is_not_missed(
    client: Client, app: flask.Flask, near: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, other = client.make(), client.make()
    bookmark = Bookmark()

    def read() -> list[int]:
        return [record.id for record in near.contacts.changes(bookmark)]

    def change(client: Client, id: int) -> None:
        assert client.patch(f"/contacts/{id}", {"properties": {"city": "Bath"}}).status_code == 200

    assert sorted(read()) == [late, other]
    writer = Client(app, client.account, client.ids)
    with committing_late(monkeypatch, lambda: change(writer, late)) as commit:
        # On SQLite another writer would have to wait.
        others = [other] if app.extensions["crmhub"].database.dialect == "postgresql" else []
        for id in others:
            change(client, id)
        assert read() == others
        assert read() == []
        commit()
    assert read() == [late]
    assert read() == []


@pytest.mark.databases("sqlite", "postgresql")
def test_a_page_that_was_not_handled_to_its_end_comes_again(client: Client, near: Hub) -> None:
    ids = [client.make() for _ in range(103)]
    bookmark = Bookmark()
    handled = [record.id for record in islice(near.contacts.changes(bookmark), 40)]
    assert handled == ids[:40]
    assert bookmark.text == Bookmark(bookmark.text).text
    bookmark = Bookmark(bookmark.text)
    assert [record.id for record in islice(near.contacts.changes(bookmark), 102)] == ids[:102]
    assert [record.id for record in near.contacts.changes(Bookmark(bookmark.text))] == ids[100:]


def test_a_bookmark_in_a_file_moves_with_each_page(
    client: Client, near: Hub, tmp_path: Path
) -> None:
    file = tmp_path / "contacts.json"
    ids = [client.make() for _ in range(101)]
    walking = near.contacts.changes(FileBookmark(file))
    assert [next(walking).id for _ in range(100)] == ids[:100]
    assert not file.exists()
    assert next(walking).id == ids[100]
    assert [record.id for record in near.contacts.changes(FileBookmark(file))] == ids[100:]
    assert list(near.contacts.changes(FileBookmark(file))) == []
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_changes_since_a_time(client: Client, near: Hub) -> None:
    first, second = client.make(), client.make()
    at = near.contacts.page(include=["updatedAt"], limit=1).results[0].updated_at
    assert at is not None
    found = [record.id for record in near.contacts.changes(at)]
    assert found in ([second], [first, second])
    assert list(near.contacts.changes(at + timedelta(days=1))) == []
    assert [record.id for record in near.contacts.all(updated_since=at)] == found
    assert near.contacts.page(filters=[], created_since=at + timedelta(days=1)).total == 0
    with pytest.raises(ValueError, match="time zone"):
        near.contacts.changes(datetime(2026, 1, 1)).__next__()  # noqa: DTZ001


def test_a_bookmark_is_of_one_kind_and_account(client: Client, near: Hub) -> None:
    bookmark = Bookmark()
    assert list(near.deals.changes(bookmark)) == []
    name = client.account.client_id
    with pytest.raises(ValueError, match=f"of {name}/deals, not of {name}/contacts"):
        list(near.contacts.changes(Bookmark(bookmark.text)))
    with pytest.raises(ValueError, match="newer"):
        Bookmark('{"form": 2}')


def _page(*records: tuple[int, str]) -> httpx.Response:
    results = [{"id": id, "properties": {}, "updatedAt": at} for id, at in records]
    cursor = {"next": "", "nextLink": ""}
    return httpx.Response(
        200, json={"total": len(records), "results": results, "cursor": cursor, "hasMore": False}
    )


def _unavailable() -> httpx.Response:
    body = {"category": "InternalError", "message": "", "timestamp": "", "status": "error"}
    return httpx.Response(503, headers={"Retry-After": "0"}, json=body)


def test_every_goes_on_while_the_hub_is_unavailable() -> None:
    past, later = "2026-01-01T00:00:00.000Z", "9999-01-01T00:00:00.000Z"
    away = (_unavailable(), _unavailable())
    pages = (_page((1, later)), _page(), _page((1, later), (2, later)))
    given = answers(_page((1, past)), away[0], _page((1, past)), _page(), away[1], *pages)
    once = Retry(attempts=1)
    http = httpx.Client(transport=httpx.MockTransport(given))
    with http, Hub("http://hub.test", "acme", "crmhub_k", retry=once, http=http) as hub:
        walking = hub.contacts.changes(every=0.001)
        assert [record.id for record in islice(walking, 3)] == [1, 1, 2]
    failing = fake("sync", answers(_unavailable()), retry=once)
    with pytest.raises(UnavailableError):
        failing.items(lambda hub: hub.contacts.changes())


class _SlowCommits:
    """A hub whose clock runs, whose writers never rest, and whose commits take up to `delay` ms."""

    def __init__(self, seed: int, delay: int) -> None:
        self.chance = random.Random(seed)
        self.delay = delay
        self.now = 1_780_000_000_000
        self.writes: list[tuple[int, int, int]] = []
        self.writing = True

    def run(self, ms: int) -> None:
        for _ in range(ms // 400 if self.writing else 0):
            at = self.now + self.chance.randrange(ms)
            self.writes.append(
                (at + self.chance.randrange(self.delay), at, self.chance.randrange(30))
            )
        self.now += ms

    def stored(self) -> dict[int, int]:
        """Return the times of change by id, of what is committed now."""
        found: dict[int, int] = {}
        for committed, at, id in sorted(self.writes):
            if committed <= self.now:
                found[id] = max(at, found.get(id, 0))
        return found

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.run(self.chance.randrange(4000))
        params = request.url.params
        if "archived" in params:
            return _page()
        after = tuple(map(int, params["cursor"].split("-"))) if "cursor" in params else (0, 0)
        since = params.get("updatedSince", "")
        places = sorted((at, id) for id, at in self.stored().items())
        places = [each for each in places if each > after and _text(each[0]) >= since]
        page, more = places[:5], len(places) > 5
        following = "-".join(map(str, page[-1])) if more else ""
        results = [{"id": id, "properties": {}, "updatedAt": _text(at)} for at, id in page]
        body = {"total": 0, "results": results, "hasMore": more}
        body["cursor"] = {"next": following, "nextLink": f"?cursor={following}"}
        date = format_datetime(datetime.fromtimestamp(self.now // 1000, UTC), usegmt=True)
        return httpx.Response(200, headers={"Date": date}, json=body)


def _text(ms: int) -> str:
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _differences(seed: int, overlap: float) -> int:
    """Return how many records a reader with this overlap knows wrongly in the end."""
    slow = _SlowCommits(seed, delay=20_000)
    known: dict[int, Any] = {}
    bookmark = Bookmark()
    reader = fake("sync", slow.answer, retry=QUICK)
    for turn in range(60):
        slow.writing = turn < 55
        for record in reader.items(lambda hub: hub.contacts.changes(bookmark, overlap=overlap)):  # noqa: B023
            known[record.id] = record.raw["updatedAt"]
        slow.run(slow.chance.randrange(1, 15_000))
        bookmark = Bookmark(bookmark.text)
    stored = {id: _text(at) for id, at in slow.stored().items()}
    return sum(known.get(id) != at for id, at in stored.items())


def test_slow_commits_are_not_missed_while_writers_never_rest() -> None:
    assert [_differences(seed, overlap=21) for seed in range(6)] == [0] * 6
    # Without the overlap, changes are lost: the test would notice.
    assert sum(_differences(seed, overlap=0) for seed in range(6)) > 10
