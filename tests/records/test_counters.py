"""Counters and index rows are what the documents say, after whatever was written."""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import flask
import pytest

from crmhub.accounts import accounts
from crmhub.accounts.changes import IssuedIds
from crmhub.app import create_app
from crmhub.hub import Hub
from crmhub.settings import Settings
from tests.catalogue_properties import define
from tests.clients import Client, needed, open_client
from tests.pages import fetch
from tests.processes import CONTEXT
from tests.records.index_rows import (
    assert_links_are_whole,
    recomputed,
    stored,
)
from tests.records.meanwhile import at_once
from tests.records.search.made_up import OPTIONS, TYPES
from tests.records.search.test_same_on_both_databases import VALUES

RESOURCES = ("contacts", "deals", "companies", "tickets")
WRITERS = 8
UNIQUE = "code"
CODES = ["", *(f"{n}" for n in range(20)), *("x" * 300 + f"{n}" for n in range(5)), "y" * 255]


def check(hub: Hub, client: Client) -> None:
    assert stored(hub, client) == recomputed(hub, client)
    assert_links_are_whole(hub, client)


class Writer:
    """Writes at random to records of every kind; what is refused has changed nothing."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client = client
        self.chance = random.Random(seed)
        self.ids: dict[str, list[int]] = {resource: [] for resource in RESOURCES}
        self.archived: dict[str, list[int]] = {resource: [] for resource in RESOURCES}
        self.statuses: set[int] = set()

    def write(self, times: int) -> None:
        """Do some of everything."""
        steps = [self.create, self.create, self.update, self.update, self.upsert, self.archive]
        steps += [self.link, self.unlink, self.patch, self.restore, self.merge]
        for _ in range(times):
            resource = self.chance.choice(RESOURCES)
            answer = self.chance.choice(steps)(resource)
            assert answer is None or answer.status_code < 500, answer.text
            self.statuses.add(answer.status_code if answer is not None else 0)

    def properties(self, resource: str) -> dict[str, Any]:
        names = self.chance.sample([*TYPES], 4)
        some: dict[str, Any] = {n: self.chance.choice([*VALUES[TYPES[n]], ""]) for n in names}
        some = {name: value for name, value in some.items() if len(value) < 5000}
        if self.chance.random() < 0.4:
            some[UNIQUE] = self.chance.choice(CODES)
        return some

    def some(self, resource: str) -> list[int]:
        known = [*self.ids[resource]]  # another writer may shorten the list meanwhile
        return self.chance.sample(known, min(len(known), self.chance.randint(1, 4)))

    def create(self, resource: str) -> Any:
        inputs = []
        for _ in range(self.chance.randint(1, 5)):
            to = self.chance.choice(RESOURCES)
            properties = {**needed(resource), **self.properties(resource)}
            inputs.append({"properties": properties, "associations": {to: self.some(to)}})
        answer = self.client.post(f"/{resource}/batch/create", {"inputs": inputs})
        if answer.status_code == 201:
            self.ids[resource] += [each["id"] for each in answer.get_json()]
        return answer

    def update(self, resource: str) -> Any:
        inputs = [{"id": id, "properties": self.properties(resource)} for id in self.some(resource)]
        return self.client.post(f"/{resource}/batch/update", {"inputs": inputs})

    def patch(self, resource: str) -> Any:
        for id in self.some(resource):
            links = {resource: [each for each in self.some(resource) if each != id]}
            body = {"properties": self.properties(resource), "associations": links}
            return self.client.patch(f"/{resource}/{id}", body)
        return None

    def upsert(self, resource: str) -> Any:
        codes = self.chance.sample(CODES[1:], 2)
        inputs = []
        for code in codes:
            properties = {**needed(resource), **self.properties(resource), UNIQUE: code}
            inputs.append({"idProperty": UNIQUE, "id": code, "properties": properties})
        answer = self.client.post(f"/{resource}/batch/upsert", {"inputs": inputs})
        if answer.status_code == 200:
            self.ids[resource] += [each["id"] for each in answer.get_json() if each["new"]]
        return answer

    def archive(self, resource: str) -> Any:
        ids = self.some(resource)[:3]
        inputs = {"inputs": [{"id": id} for id in ids]}
        answer = self.client.post(f"/{resource}/batch/archive", inputs)
        if answer.status_code == 204:
            self.ids[resource] = [id for id in self.ids[resource] if id not in ids]
            self.archived[resource] += ids
        return answer

    def restore(self, resource: str) -> Any:
        if not self.archived[resource]:
            return None
        id = self.chance.choice(self.archived[resource])
        answer = self.client.post(f"/{resource}/{id}/restore", None)
        if answer.status_code == 200:
            self.archived[resource].remove(id)
            self.ids[resource].append(id)
        return answer

    def merge(self, resource: str) -> Any:
        pair = self.some(resource)[:2]
        if len(pair) < 2 or resource in ("deals", "tickets"):
            return None
        keep, other = pair
        answer = self.client.post(f"/{resource}/merge", {"keep": keep, "merge": other})
        if answer.status_code == 200 and other in self.ids[resource]:
            self.ids[resource].remove(other)
            self.archived[resource].append(other)
        return answer

    def link(self, resource: str) -> Any:
        return self._link("PUT", resource)

    def unlink(self, resource: str) -> Any:
        return self._link("DELETE", resource)

    def _link(self, method: str, resource: str) -> Any:
        to = self.chance.choice(RESOURCES)
        for id, to_id in zip(self.some(resource), self.some(to), strict=False):
            return self.client.call(method, f"/{resource}/{id}/associations/{to}/{to_id}")
        return None


@pytest.fixture
def equipped(client: Client) -> Client:
    """A caller whose records of every kind have a property of each type, and a unique one."""
    for resource in RESOURCES:
        for name, type in TYPES.items():
            define(client, resource, name, type, options=OPTIONS if "choice" in name else ())
        define(client, resource, UNIQUE, unique=True)
    return client


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_index_rows_are_those_of_the_documents(equipped: Client, hub: Hub, seed: int) -> None:
    writer = Writer(equipped, seed)
    for _ in range(5):
        writer.write(40)
        check(hub, equipped)
    assert {200, 201, 204, 404, 409} <= writer.statuses


def test_writers_at_once_leave_index_rows_and_counters_right(
    app: flask.Flask, equipped: Client, hub: Hub
) -> None:
    writers = [Writer(Client(app, equipped.account, equipped.ids), n) for n in range(WRITERS)]
    shared = writers[0].ids
    for each in writers:
        each.ids = shared
    at_once(*(partial(each.write, 15) for each in writers))
    check(hub, equipped)


def _write_here(
    settings: Settings, client_id: str, ids: IssuedIds, shared: dict[str, list[int]], n: int
) -> set[int]:
    """Write with two threads in this process, to the records that all processes know."""
    app = create_app(settings)
    hub: Hub = app.extensions["crmhub"]
    with hub.database.reading() as connection:
        account = accounts.load(connection, client_id, hub.plans)
    writers = [Writer(Client(app, account, ids), 2 * n + i) for i in range(2)]
    for each in writers:
        each.ids = shared
    try:
        at_once(*(partial(each.write, 15) for each in writers))
    finally:
        hub.close()
    return {status for each in writers for status in each.statuses}


def test_processes_at_once_leave_index_rows_and_counters_right(
    settings: Settings, equipped: Client, hub: Hub
) -> None:
    first = Writer(equipped, 0)
    first.write(30)
    with ProcessPoolExecutor(WRITERS // 2, mp_context=CONTEXT) as pool:
        share = partial(_write_here, settings, equipped.account.client_id, equipped.ids, first.ids)
        statuses = set().union(*pool.map(share, range(WRITERS // 2)))
    assert {200, 201, 204, 404} <= statuses
    check(hub, equipped)


def test_the_count_is_right_after_batches_at_once(
    app: flask.Flask, client: Client, hub: Hub
) -> None:
    def create_and_archive(caller: Client, n: int) -> int:
        kept = 0
        for size in (7, n + 1, 3):
            inputs = [{"properties": needed("contacts")} for _ in range(size)]
            made = caller.post("/contacts/batch/create", {"inputs": inputs}).get_json()
            gone = [{"id": each["id"]} for each in made[: size // 2]]
            if gone:
                answer = caller.post("/contacts/batch/archive", {"inputs": gone})
                assert answer.status_code == 204
            kept += size - len(gone)
        return kept

    callers = [Client(app, client.account, client.ids) for _ in range(WRITERS)]
    kept = at_once(*(partial(create_and_archive, each, n) for n, each in enumerate(callers)))
    check(hub, client)
    assert fetch(client, "/contacts")["total"] == sum(kept)
    everyone = [{"propertyName": "firstname", "operator": "HAS_PROPERTY"}]
    assert fetch(client, "/contacts/search", {"filters": everyone})["total"] == sum(kept)


def test_what_is_refused_leaves_no_rows(client: Client, hub: Hub) -> None:
    client.make(email="ada@example.com")
    before = stored(hub, client)
    bad: Any
    for bad in (
        {"properties": {"email": "ada@example.com"}},
        {"properties": {"email": "b@example.com"}, "associations": {"deals": [1]}},
        {"properties": {"email": "b@example.com", "nothing": "x"}},
    ):
        inputs = [{"properties": {"email": "c@example.com", "hubspotscore": "5"}}, bad]
        answer = client.post("/contacts/batch/create", {"inputs": inputs})
        assert answer.status_code in (409, 422)
        assert stored(hub, client) == before
    check(hub, client)


def test_a_full_plan_leaves_no_rows(app: flask.Flask, hub: Hub) -> None:
    client = open_client(app, plan="free")
    inputs = [{"properties": needed("deals")} for _ in range(100)]
    assert client.post("/deals/batch/create", {"inputs": inputs}).status_code == 201
    before = stored(hub, client)
    callers = [Client(app, client.account, client.ids) for _ in range(4)]
    body = {"properties": {"dealname": "x", "amount": "5"}}
    answers = at_once(*(partial(each.post, "/deals", body) for each in callers))
    assert [each.status_code for each in answers] == [402] * 4
    assert stored(hub, client) == before
    check(hub, client)
