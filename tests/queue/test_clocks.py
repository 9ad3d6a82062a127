"""A clock that is set an hour back or ahead loses nothing, doubles nothing and holds nothing up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import pytest

from crmhub.adapter import NotYet, Rejected, Unavailable, Uncertain
from crmhub.app import create_app
from crmhub.database.connection import now_ms
from crmhub.helpers.create_lead import CreateLead
from crmhub.hub import Hub
from crmhub.operators.actions.correct_action import correct
from crmhub.operators.alerts import outbox
from crmhub.queue import clock_jumps
from crmhub.queue.leases import Leases
from crmhub.queue.models import Entry, Outcome
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings
from crmhub.worker import Worker
from tests.api.helpers.helper_calls import CREATE_DEAL, SET_PROPERTIES, known, lead
from tests.clients import TESTS, Client
from tests.clocks import Clocks
from tests.fakes import FAKE, LATE, FakeCrm, adapters, fake_client
from tests.own_databases import KINDS, empty, own_database
from tests.queue.working import change, hurry, rows, soon, states, try_due, work_off, working

HOUR = 3600
MINUTE_MS = 60_000
# The database's clock and Python's are rounded to milliseconds each in its own way.
ROUNDING_MS = 2


@pytest.fixture(scope="module", params=KINDS)
def database_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Each database in turn: a worker works for every account there is."""
    with own_database(request.param, tmp_path_factory.mktemp("clocks")) as url:
        yield url


@pytest.fixture
def app(database_url: str, tmp_path: Path, clocks: Clocks) -> Iterator[flask.Flask]:
    empty(database_url)
    settings = Settings(
        root=tmp_path,
        database_url=database_url,
        secret_key="the secret key of the tests alone",
        encryption_keys=(EncryptionKey("k1", b"k" * 32),),
    )
    app = create_app(settings)
    with adapters(app, FAKE, LATE):
        yield app
    app.extensions["crmhub"].close()


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch, time_machine: Any) -> Clocks:
    return Clocks(monkeypatch, time_machine)


@pytest.fixture
def fake(app: flask.Flask) -> tuple[Client, FakeCrm]:
    return fake_client(app)


@pytest.fixture
def bot(fake: tuple[Client, FakeCrm]) -> Client:
    return fake[0]


@pytest.fixture
def crm(fake: tuple[Client, FakeCrm]) -> FakeCrm:
    return fake[1]


either_way = pytest.mark.parametrize("by", [-HOUR, HOUR], ids=["back", "ahead"])


def here(client: Client) -> tuple[int, int]:
    return client.account.id, client.account.connection.id


def queue(hub: Hub, client: Client, *names: str) -> None:
    """Queue the leads of persons with these names."""
    for name in names:
        action = CreateLead(name, f"{name} Lee", f"{name}@x.org", "")
        hub.journal.accept(
            client.account,
            lambda tx, action=action: action.enter(tx, client.account),
            lease_s=5,
            now=False,
        )


def claim(hub: Hub, client: Client) -> list[Entry]:
    return hub.journal.claim(*here(client), most=10, lease_s=60)


def deal(client: Client, **properties: str) -> Any:
    body = {"contactId": "c-1", "properties": {"dealname": "A", **properties}}
    return client.helper(CREATE_DEAL, body)


def set_city(client: Client, city: str) -> Any:
    return client.helper(SET_PROPERTIES, {"contactToken": "t", "props": {"city": city}})


def jump(hub: Hub, clocks: Clocks, by: int) -> None:
    """Set the clocks between two looks of a worker."""
    worker = Worker(hub, threads=1)
    worker._find_due()
    clocks.set(by)
    worker._find_due()


# --- leases -----------------------------------------------------------------------------------


@either_way
def test_an_action_in_progress_is_taken_over_a_lease_later_and_no_sooner(
    hub: Hub, bot: Client, clocks: Clocks, by: int
) -> None:
    queue(hub, bot, "ann")
    (first,) = claim(hub, bot)
    jump(hub, clocks, by)
    assert claim(hub, bot) == []
    assert rows(hub, bot, "lease") == [(first.lease,)]
    ((until,),) = rows(hub, bot, "run_at")
    assert 0 < until - now_ms() <= MINUTE_MS + ROUNDING_MS
    change(hub, bot, "run_at = run_at - 61000")
    assert len(claim(hub, bot)) == 1


def test_a_caller_in_its_turn_takes_no_action_over(hub: Hub, bot: Client, clocks: Clocks) -> None:
    queue(hub, bot, "ann")
    (first,) = claim(hub, bot)
    clocks.set(HOUR)
    assert hub.journal.claim(*here(bot), most=1, lease_s=60, only=first.id) == []


@pytest.mark.parametrize("seen", [True, False], ids=["while a worker runs", "before one begins"])
def test_a_clock_that_was_set_back_holds_up_neither_what_waits_nor_what_the_dead_held(
    hub: Hub, bot: Client, crm: FakeCrm, clocks: Clocks, seen: bool
) -> None:
    queue(hub, bot, "ann")
    claim(hub, bot)
    queue(hub, bot, "ben", "cyd")
    change(hub, bot, "run_at = run_at + 5000 where state = 'queued'")
    hub.journal.open_circuit(bot.account, "away")
    hub.database.transact(lambda tx: outbox.add(tx, "a", {}))
    with hub.leases.hold(*here(bot), "k", seconds=60, patience=0):
        if seen:
            jump(hub, clocks, -HOUR)
        else:
            clocks.set(-HOUR)
        with working(hub):
            soon(lambda: sorted(states(hub, bot)) == ["done", "done", "running"])
        [until] = [end for end, state in rows(hub, bot, "run_at, state") if state == "running"]
        ((held_until,),) = rows(hub, bot, "expires_at", "lease")
    with hub.database.reading() as connection:
        sent_at = connection.scalar("select max(run_at) from outbox")
    assert all(0 < moment - now_ms() <= MINUTE_MS + ROUNDING_MS for moment in (until, held_until))
    assert sent_at <= now_ms() + ROUNDING_MS
    assert len(crm.contacts) == 2


def test_a_worker_that_begins_leaves_what_waits_alone_where_no_clock_was_set(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = Unavailable("no route", retry_after=HOUR)
    lead(bot)
    hub.journal.open_circuit(bot.account, "away")
    hub.database.transact(lambda tx: outbox.add(tx, "a", {}))
    with hub.leases.hold(*here(bot), "k", seconds=60, patience=0):
        assert clock_jumps.set_back_ms(hub.database) == 0


@either_way
def test_a_lease_of_a_phone_ends_a_minute_later_at_most(
    hub: Hub, bot: Client, clocks: Clocks, by: int
) -> None:
    others = Leases(hub.database)
    with hub.leases.hold(*here(bot), "phone", seconds=60, patience=0):
        jump(hub, clocks, by)
        with pytest.raises(NotYet), others.hold(*here(bot), "phone", seconds=60, patience=0):
            pass
        change(hub, bot, "expires_at = expires_at - 61000", "lease")
        # Whoever has it by now is dead.
        with others.hold(*here(bot), "phone", seconds=60, patience=0):
            pass


# --- what is done twice, and in which order -----------------------------------------------------


@either_way
def test_the_same_deal_is_the_same_after_a_clock_was_set(
    hub: Hub, bot: Client, crm: FakeCrm, clocks: Clocks, by: int
) -> None:
    known(bot)
    first = deal(bot)
    jump(hub, clocks, by)
    again = deal(bot)
    assert (first.json["status"], again.json["status"]) == ("created", "unchanged")
    assert again.json["dealId"] == first.json["dealId"]
    # It is another one when that is over, and no sooner or later than it would have been.
    change(hub, bot, "finished_at = finished_at - 61000")
    assert deal(bot).json["status"] == "created"
    assert len(crm.linked) == 2


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
    hub.journal.open_circuit(bot.account, "away")
    set_city(bot, "Rome")
    clocks.set(by)
    set_city(bot, "Oslo")
    work_off(hub, bot)
    assert crm.contacts["c-1"]["city"] == "Oslo"


@either_way
def test_a_value_that_is_corrected_after_a_clock_was_set_is_the_newest(
    hub: Hub, bot: Client, crm: FakeCrm, clocks: Clocks, by: int
) -> None:
    known(bot)
    hub.journal.open_circuit(bot.account, "away")
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
    work_off(hub, bot)
    assert crm.contacts["c-1"]["city"] == "Rome"


# --- what may have been written -----------------------------------------------------------------


def lost(crm: FakeCrm, *, during: Any = lambda: None) -> None:
    """Let the next create lose its answer after `during`, and no other one."""

    def lose(call: str) -> None:
        if call == "create_for_contact":
            crm.during = None
            during()
            raise Uncertain("No answer came.")

    crm.during = lose


@pytest.fixture
def late(app: flask.Flask) -> tuple[Client, FakeCrm]:
    """A CRM without marks, whose writes may land a minute late, and a contact there."""
    client, crm = fake_client(app, "late")
    known(client)
    return client, crm


def test_what_was_made_before_the_clock_was_set_back_is_looked_for_among_what_is_as_old(
    hub: Hub, late: tuple[Client, FakeCrm], clocks: Clocks
) -> None:
    client, crm = late
    lost(crm)
    began = now_ms()
    assert deal(client).status_code == 202
    jump(hub, clocks, -HOUR)
    hurry(hub, client)
    (entry,) = claim(hub, client)
    assert 0 < entry.doubt_since <= now_ms() + ROUNDING_MS
    assert entry.doubt_since >= began - HOUR * 1000 - MINUTE_MS


@either_way
def test_what_may_still_land_is_waited_for_although_a_clock_was_set(
    hub: Hub, late: tuple[Client, FakeCrm], clocks: Clocks, by: int
) -> None:
    client, crm = late
    lost(crm)
    assert deal(client).status_code == 202
    jump(hub, clocks, by)
    hurry(hub, client)
    try_due(hub, client)
    ((state, run_at, message),) = rows(hub, client, "state, run_at, reason")[1:]
    assert (state, "may still create" in message, crm.linked) == ("queued", True, [])
    assert 0 < run_at - now_ms() <= MINUTE_MS + ROUNDING_MS
    # It lands.
    crm.linked.append(("deals", "c-1", {"dealname": "A"}))
    hurry(hub, client)
    try_due(hub, client)
    assert (states(hub, client), len(crm.linked)) == (["done", "done"], 1)


def test_an_attempt_is_dated_by_how_long_it_took(hub: Hub, bot: Client, clocks: Clocks) -> None:
    queue(hub, bot, "ann")
    (entry,) = claim(hub, bot)
    failed = Outcome("queued", "Uncertain", doubt=True, counts=True, ms=2000)
    clocks.set(-HOUR)
    ended = time.monotonic() - 10
    hub.journal.finish(entry, replace(failed, ended=ended), lambda _: None)
    ((doubt, written),) = rows(hub, bot, "doubt_since, written_at")
    ((tried,),) = rows(hub, bot, "began_at", "action_try")
    now = now_ms() + ROUNDING_MS
    assert (10_000 <= now - written < 60_000, now - doubt >= 12_000, doubt == tried) == (1, 1, 1)


# --- outages ------------------------------------------------------------------------------------


@either_way
def test_a_crm_that_is_back_is_found_to_be_although_a_clock_was_set(
    hub: Hub, bot: Client, crm: FakeCrm, clocks: Clocks, by: int
) -> None:
    hub.journal.open_circuit(bot.account, "away")
    assert lead(bot).status_code == 202
    jump(hub, clocks, by)
    work_off(hub, bot, seconds=30)
    assert lead(bot, "u", email="ben@x.org").status_code == 200


@either_way
@pytest.mark.parametrize("paused", [False, True], ids=["", "after a pause"])
def test_calls_to_a_crm_are_let_through_although_a_clock_was_set(
    hub: Hub, bot: Client, clocks: Clocks, by: int, paused: bool
) -> None:
    budget = hub.budgets.of(
        *here(bot), "burst", calls=100, seconds=10, patience=lambda: 5.0, queued=lambda: False
    )
    for _ in range(12):
        budget.take()
    if paused:
        budget.pause(2)
    jump(hub, clocks, by)
    budget.take()


# --- noticing it ----------------------------------------------------------------------------------


def test_a_clock_that_is_slewed_restarts_nothing(hub: Hub, bot: Client, clocks: Clocks) -> None:
    queue(hub, bot, "ann")
    change(hub, bot, "run_at = run_at + 600000")
    waits = rows(hub, bot, "run_at")
    for by in (0, 20, -20):
        jump(hub, clocks, by)
    assert rows(hub, bot, "run_at") == waits


@pytest.mark.parametrize(
    ("table", "shown"),
    [
        ("action", "created_at = :then"),
        ("outage", "since = :then"),
        ("lease", "expires_at = :then + 60000"),
    ],
)
def test_what_is_stored_shows_that_a_clock_was_set_back(
    hub: Hub, bot: Client, table: str, shown: str
) -> None:
    queue(hub, bot, "ann")
    claim(hub, bot)
    hub.journal.open_circuit(bot.account, "away")
    with hub.leases.hold(*here(bot), "k", seconds=60, patience=0):
        change(hub, bot, "created_at = 0")
        assert clock_jumps.set_back_ms(hub.database) == 0
        assert change(hub, bot, shown, table, then=now_ms() + HOUR * 1000) == 1
        assert 0 <= HOUR * 1000 - clock_jumps.set_back_ms(hub.database) < MINUTE_MS
