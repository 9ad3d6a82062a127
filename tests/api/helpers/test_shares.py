"""One account holds at most half of a process's threads; beyond that leads are queued."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flask
import pytest

from crmhub.api.http.authentication import CROWDED, TURN
from crmhub.hub import Hub
from crmhub.queue import slots
from crmhub.queue.slots import Gate, Shares
from crmhub.records.store import RecordStore
from tests.api.helpers.helper_calls import (
    BODIES,
    CREATE_DEAL,
    CREATE_LEAD,
    CREATE_TICKET,
    GET_PROPERTIES,
    GET_RANDOM_INT,
    GET_TYPE,
    SET_PROPERTIES,
    body_for,
    known,
    lead,
    stored,
    switch,
)
from tests.api.refusals import refused
from tests.clients import Client
from tests.queue.working import rows, soon, states, work_off

WRITES = [CREATE_LEAD, SET_PROPERTIES, CREATE_DEAL, CREATE_TICKET]


@pytest.fixture(autouse=True)
def as_served(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let accounts have the share that they have of a server process."""
    monkeypatch.setattr(slots, "_SHARE", 0.5)
    monkeypatch.setattr(hub.shares, "_most", 8)


@contextmanager
def used_up(hub: Hub, client: Client) -> Iterator[None]:
    """Let the account's share be used up."""
    taken = 0
    while hub.shares.take(client.account.id):
        taken += 1
    try:
        yield
    finally:
        for _ in range(taken):
            hub.shares.release(client.account.id)


def places(hub: Hub, client: Client) -> int:
    """Return how many places of the account's share are free."""
    taken = 0
    while hub.shares.take(client.account.id):
        taken += 1
    for _ in range(taken):
        hub.shares.release(client.account.id)
    return taken


@pytest.mark.parametrize(("threads", "half"), [(16, 8), (5, 2), (1, 1)])
def test_a_share_is_half_of_the_threads_and_at_least_one(threads: int, half: int) -> None:
    shares = Shares(threads)
    assert [shares.take(1) for _ in range(half + 1)] == [True] * half + [False]
    assert shares.take(2)
    shares.release(1)
    assert [shares.take(1), shares.take(1)] == [True, False]


def test_beyond_its_share_the_calls_of_an_account_are_429_and_no_others(
    hub: Hub, client: Client, other: Client
) -> None:
    with used_up(hub, client):
        for path in ("/contacts", "/nothing", "/usage", "/properties/contacts"):
            answer = client.get(path)
            message = refused(answer, 429)
            assert answer.headers["Retry-After"] == "1"
        assert "in progress" in message
        refused(client.get("/contacts", headers={"service-apikey": "wrong"}), 401)
        assert other.get("/contacts").status_code == 200
    assert client.get("/contacts").status_code == 200


def test_a_place_is_given_back_whatever_comes_of_the_call(
    hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = places(hub, client)
    client.get("/contacts")
    refused(client.get("/nothing"), 404)
    refused(client.post("/contacts", {}), 400)
    client.helper(GET_RANDOM_INT, BODIES[GET_RANDOM_INT])
    refused(client.helper(GET_PROPERTIES, {}), 400)
    monkeypatch.setattr(RecordStore, "page", lambda *_: 1 / 0)
    refused(client.get("/contacts"), 500)
    assert places(hub, client) == before


@pytest.mark.parametrize("path", WRITES)
def test_beyond_the_share_what_a_helper_writes_is_queued(
    hub: Hub, client: Client, path: str
) -> None:
    body = body_for(client, path)
    before = len(rows(hub, client))
    with used_up(hub, client):
        answer = client.helper(path, body)
    assert (answer.status_code, answer.json["status"]) == (202, "queued")  # type: ignore[index]
    assert answer.json["contactId"]  # type: ignore[index]
    assert states(hub, client)[before:] == ["queued"]
    work_off(hub, client)
    assert states(hub, client)[before:] == ["done"]


def test_beyond_the_share_what_a_helper_reads_is_the_last_known_or_429(
    app: flask.Flask, hub: Hub, client: Client
) -> None:
    known(client, phone="+12025550100")
    client.helper(SET_PROPERTIES, BODIES[SET_PROPERTIES])
    with used_up(hub, client):
        answer: Any = client.helper(GET_PROPERTIES, {"contactToken": "t", "props": ["city"]}).json
        assert (answer["city"], answer["stale"]) == ("Rome", "true")
        answer = client.helper(GET_TYPE, BODIES[GET_TYPE]).json
        assert (answer["workflowId"], answer["stale"]) == ("", "true")
        stranger = BODIES[GET_TYPE] | {"contactnumber": "+12025550199"}
        for path, body in ((GET_TYPE, stranger), (GET_RANDOM_INT, BODIES[GET_RANDOM_INT])):
            refusal = client.helper(path, body)
            refused(refusal, 429)
            assert refusal.headers["Retry-After"] == "1"
        switch(app, client, soft_errors=True)
        soft: Any = client.helper(GET_TYPE, stranger)
        assert (soft.status_code, soft.json["category"]) == (200, "ManyRequestError")


# --- where the server says which gate a request has passed -----------------------------------


@pytest.mark.databases("sqlite", "postgresql")
def test_a_call_waits_for_a_place_without_a_turn(
    hub: Hub, client: Client, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_LINE_S", 120)
    turns, statuses = Gate(1), list[int]()

    def call(who: Client) -> None:
        turn = turns.of("")
        with turn:
            answer = who.get("/contacts", environ_overrides={TURN: turn})
            statuses.append(answer.status_code)

    waits = threading.Thread(target=call, args=(client,))
    with used_up(hub, client):
        waits.start()
        # The only turn is another account's meanwhile.
        soon(lambda: bool(hub.shares.waiting(client.account.id)))
        call(other)
        assert waits.is_alive()
    waits.join(120)
    assert statuses == [200, 200]
    assert turns.empty
    assert places(hub, client) == places(hub, other)


def test_a_call_waits_for_no_more_than_a_moment(
    hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_LINE_S", 0.001)
    turns = Gate(1)
    turn = turns.of("")
    with used_up(hub, client), turn:
        refused(client.get("/contacts", environ_overrides={TURN: turn}), 429)
        answer = client.helper(CREATE_LEAD, BODIES[CREATE_LEAD], environ_overrides={TURN: turn})
        assert answer.status_code == 202
        assert not hub.shares.waiting(client.account.id)
    assert turns.empty
    work_off(hub, client)
    assert lead(client).status_code == 200


def test_no_more_than_so_many_calls_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_LINE", 1)
    monkeypatch.setattr(slots, "_LINE_S", 120)
    shares, turns, seen = Shares(2), Gate(4), list[bool]()

    def take() -> None:
        turn = turns.of("")
        with turn:
            seen.append(shares.take(1, turn))

    assert shares.take(1)
    first = threading.Thread(target=take)
    first.start()
    soon(lambda: shares.waiting(1) == 1)
    take()
    assert seen == [False]
    shares.release(1)
    first.join(120)
    assert seen == [False, True]
    # Handed over, not freed.
    assert not shares.take(1)


@pytest.mark.databases("sqlite", "postgresql")
def test_many_calls_at_once_are_all_answered_and_leave_nothing(
    hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_LINE_S", 120)
    before = places(hub, client)
    turns, statuses = Gate(before * 2), list[int]()
    together = threading.Barrier(before * 4)

    def call() -> None:
        together.wait(120)
        turn = turns.of("")
        with turn:
            answer = client.get("/contacts", environ_overrides={TURN: turn})
            statuses.append(answer.status_code)

    threads = [threading.Thread(target=call) for _ in range(before * 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert statuses == [200] * (before * 4)
    assert (places(hub, client), turns.empty) == (before, True)


def test_what_was_queued_beyond_the_share_is_written_in_order(hub: Hub, client: Client) -> None:
    contact_id = known(client)
    with used_up(hub, client):
        for city in ("Rome", "Bonn"):
            body = {"contactToken": "t", "props": {"city": city}}
            assert client.helper(SET_PROPERTIES, body).status_code == 202
    work_off(hub, client)
    assert stored(client, contact_id)["city"] == "Bonn"


def test_a_call_before_which_too_many_wait_is_refused_whatever_its_key(client: Client) -> None:
    answer = client.get(
        "/contacts", headers={"service-apikey": "none"}, environ_overrides={CROWDED: True}
    )
    refused(answer, 429)
    assert answer.headers["RateLimit-Limit"]
