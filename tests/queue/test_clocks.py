"""A clock that is set an hour back or ahead loses nothing, doubles nothing and holds nothing up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import pytest

from crmhub.adapter import Rejected
from crmhub.database.connection import now_ms
from crmhub.hub import Hub
from crmhub.operators.actions.correct_action import correct
from crmhub.queue import claiming
from crmhub.queue.models import Entry, Outcome
from crmhub.queue.overlong_waits import end_overlong_waits
from tests.api.helpers.helper_calls import CREATE_DEAL, known, lead, set_city
from tests.clients import TESTS, Client
from tests.clocks import Clocks
from tests.fakes import FAKE, LATE, FakeCrm
from tests.own_databases import emptied_app, url_fixture
from tests.queue.outcomes import finish, open_circuit
from tests.queue.working import (
    change,
    finish_all,
    hurry,
    queue_leads,
    rows,
    soon,
    states,
    try_due,
    working,
)

HOUR = 3600
DAY_MS = 86_400_000
# The database's clock and Python's are rounded to milliseconds each in its own way.
ROUNDING_MS = 2


# A worker works for every account there is.
database_url = url_fixture("module")


@pytest.fixture
def app(database_url: str, tmp_path: Path, clocks: Clocks) -> Iterator[flask.Flask]:
    with emptied_app(database_url, tmp_path, FAKE, LATE) as app:
        yield app


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch, time_machine: Any) -> Clocks:
    return Clocks(monkeypatch, time_machine)


either_way = pytest.mark.parametrize("by", [-HOUR, HOUR], ids=["back", "ahead"])


def here(client: Client) -> tuple[int, int]:
    return client.account.id, client.account.connection.id


def claim(hub: Hub, client: Client) -> list[Entry]:
    return claiming.claim(hub.database, *here(client), most=10, lease_s=60)


def deal(client: Client, **properties: str) -> Any:
    body = {"contactId": "c-1", "properties": {"dealname": "A", **properties}}
    return client.helper(CREATE_DEAL, body)


@either_way
def test_a_key_names_its_call_after_a_clock_was_set(
    bot: Client, crm: FakeCrm, clocks: Clocks, by: int
) -> None:
    known(bot)
    key = {"Idempotency-Key": "k1"}
    body = {"contactId": "c-1", "properties": {"dealname": "A"}}
    first = bot.helper(CREATE_DEAL, body, headers=key)
    made = bot.post("/contacts", {"properties": {"firstname": "Ada"}}, headers=key)
    clocks.set(by)
    again = bot.helper(CREATE_DEAL, body, headers=key)
    assert (again.status_code, again.json) == (first.status_code, first.json)
    same = bot.post("/contacts", {"properties": {"firstname": "Ada"}}, headers=key)
    assert (same.json, same.headers["Idempotent-Replayed"]) == (made.json, "true")
    assert len(crm.linked) == 1


@either_way
def test_the_value_that_was_said_last_stands_after_a_clock_was_set(
    hub: Hub, bot: Client, crm: FakeCrm, clocks: Clocks, by: int
) -> None:
    known(bot)
    for city in ("Rome", "Oslo"):
        assert set_city(bot, city).json["status"] == "updated"
        assert crm.contacts["c-1"]["city"] == city
        clocks.set(by)
    assert lead(bot, name="Ann Fox").json["status"] == "updated"
    assert crm.contacts["c-1"]["lastname"] == "Fox"


@either_way
def test_what_was_said_before_a_clock_was_set_stands_over_nothing_newer(
    hub: Hub, bot: Client, crm: FakeCrm, clocks: Clocks, by: int
) -> None:
    known(bot)
    open_circuit(hub, bot.account, "away")
    set_city(bot, "Rome")
    clocks.set(by)
    set_city(bot, "Oslo")
    finish_all(hub, bot)
    assert crm.contacts["c-1"]["city"] == "Oslo"


@either_way
def test_a_value_that_is_corrected_after_a_clock_was_set_is_the_newest(
    hub: Hub, bot: Client, crm: FakeCrm, clocks: Clocks, by: int
) -> None:
    known(bot)
    open_circuit(hub, bot.account, "away")
    set_city(bot, "Rom")
    crm.failure = Rejected([], "no such city")
    hurry(hub, bot)
    try_due(hub, bot)
    assert states(hub, bot) == ["done", "dead"]
    crm.failure = None
    set_city(bot, "Oslo")
    clocks.set(by)
    (id,) = rows(hub, bot, "id")[1]
    correct(hub, id, {"city": "Rome"}, by=TESTS)
    finish_all(hub, bot)
    assert crm.contacts["c-1"]["city"] == "Rome"


def test_an_attempt_is_dated_by_how_long_it_took(hub: Hub, bot: Client, clocks: Clocks) -> None:
    queue_leads(hub, bot, "ann")
    (entry,) = claim(hub, bot)
    failed = Outcome("queued", "Uncertain", doubt=True, counts=True, ms=2000)
    clocks.set(-HOUR)
    ended = time.monotonic() - 10
    finish(hub, entry, replace(failed, ended=ended), lambda _: None)
    ((doubt, written),) = rows(hub, bot, "doubt_since, written_at")
    ((tried,),) = rows(hub, bot, "began_at", "action_try")
    now = now_ms() + ROUNDING_MS
    assert (10_000 <= now - written < 60_000, now - doubt >= 12_000, doubt == tried) == (1, 1, 1)


def test_an_impossibly_long_wait_ends(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    queue_leads(hub, bot, "ann", "ben")
    claim(hub, bot)
    queue_leads(hub, bot, "cyd")
    open_circuit(hub, bot.account, "away")
    times = {"action": "run_at", "outage": "until", "lease": "expires_at"}
    with hub.leases.hold(*here(bot), "k", seconds=60, patience=0):
        for days, ends in ((1, False), (3, True)):
            late = now_ms() + days * DAY_MS
            for table, column in times.items():
                change(hub, bot, f"{column} = :late", table, late=late)
            end_overlong_waits(hub.database)
            for table, column in times.items():
                with hub.database.reading() as db:
                    assert (db.scalar(f"select max({column}) from {table}") < late) is ends, table
    with working(hub):
        soon(lambda: states(hub, bot) == ["done", "done", "done"])
