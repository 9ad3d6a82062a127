"""What takes effect after its answer was lost is made once, and overwrites nothing newer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flask
import pytest

from crmhub.adapter import Uncertain
from crmhub.database.connection import now_ms
from crmhub.hub import Hub
from crmhub.queue import claiming
from tests.api.helpers.helper_calls import CREATE_DEAL, known, lead, set_city
from tests.clients import Client
from tests.fakes import LATE, LATE_BATCHING, FakeCrm, adapters, fake_client
from tests.queue.outcomes import open_circuit
from tests.queue.working import change, hurry, rows, states, try_due


@pytest.fixture(autouse=True)
def fakes(app: flask.Flask) -> Iterator[None]:
    with adapters(app, LATE, LATE_BATCHING):
        yield


@pytest.fixture(params=["late", "late_batching"])
def fake(app: flask.Flask, request: pytest.FixtureRequest) -> tuple[Client, FakeCrm]:
    return fake_client(app, request.param)


def lose(crm: FakeCrm, *calls: str) -> None:
    """Let these calls of the adapter end without an answer, and none but these."""

    def during(call: str) -> None:
        if call in calls:
            raise Uncertain("No answer came.")

    crm.during = during


def pass_time(hub: Hub, client: Client, seconds: float) -> None:
    """Let everything that waits have waited so much longer."""
    times = ("run_at", "doubt_since", "written_at")
    sets = ", ".join(f"{name} = {name} - :ms" for name in times)
    change(hub, client, f"{sets} where state = 'queued'", ms=int(seconds * 1000))


def tried_and_held_back(hub: Hub, client: Client) -> bool:
    """Work off what is due; return whether an action now waits until its write cannot land."""
    began = now_ms()
    try_due(hub, client)
    took = now_ms() - began
    [late, *_] = [
        run_at - (written_at + 60_000)
        for run_at, written_at, state in rows(hub, client, "run_at, written_at, state")
        if state == "queued"
    ]
    # The rest of the wait was counted from one moment of the attempt and added to a later one.
    return bool(-1 <= late <= took + 1)


class Deal:
    """A deal whose create loses its answer."""

    lost = "create_for_contact"

    def __init__(self, bot: Client, crm: FakeCrm) -> None:
        self.bot, self.crm, self.contact_id = bot, crm, known(bot)

    def send(self) -> Any:
        body = {"contactId": self.contact_id, "properties": {"dealname": "A"}}
        return self.bot.helper(CREATE_DEAL, body)

    def land(self) -> None:
        self.crm.linked.append(("deals", self.contact_id, {"dealname": "A"}))

    def count(self) -> int:
        return len(self.crm.linked)


class NewContact:
    """A lead of somebody new whose create loses its answer."""

    lost = "create_contact"

    def __init__(self, bot: Client, crm: FakeCrm) -> None:
        self.bot, self.crm = bot, crm

    def send(self) -> Any:
        return lead(self.bot)

    def land(self) -> None:
        person = {"email": "ann@x.org", "firstname": "Ann", "lastname": "Lee"}
        self.crm.contacts[f"c-{self.count() + 1}"] = person

    def count(self) -> int:
        return len(self.crm.contacts)


@pytest.fixture(params=[Deal, NewContact])
def record(request: pytest.FixtureRequest, bot: Client, crm: FakeCrm) -> Deal | NewContact:
    """A record whose create loses its answer."""
    record: Deal | NewContact = request.param(bot, crm)
    lose(crm, record.lost)
    return record


def test_what_lands_after_a_lookup_has_found_nothing_is_made_once(
    hub: Hub, bot: Client, crm: FakeCrm, record: Deal | NewContact
) -> None:
    assert record.send().status_code == 202
    lose(crm)
    pass_time(hub, bot, 10)
    assert (tried_and_held_back(hub, bot), record.count()) == (True, 0)
    record.land()
    pass_time(hub, bot, 50)
    try_due(hub, bot)
    assert (record.count(), states(hub, bot)[-1]) == (1, "done")


def test_what_never_lands_is_made_when_the_wait_is_over(
    hub: Hub, bot: Client, crm: FakeCrm, record: Deal | NewContact
) -> None:
    record.send()
    lose(crm)
    pass_time(hub, bot, 61)
    try_due(hub, bot)
    assert (record.count(), states(hub, bot)[-1]) == (1, "done")


def test_the_wait_begins_anew_with_each_attempt_that_lost_its_answer(
    hub: Hub, bot: Client, crm: FakeCrm, record: Deal | NewContact
) -> None:
    record.send()
    pass_time(hub, bot, 61)
    try_due(hub, bot)
    lose(crm)
    pass_time(hub, bot, 40)
    assert (tried_and_held_back(hub, bot), record.count()) == (True, 0)
    # Also what the first of them has made is found.
    record.land()
    hurry(hub, bot)
    try_due(hub, bot)
    assert (record.count(), states(hub, bot)[-1]) == (1, "done")


def test_a_wait_uses_up_no_attempt_and_is_one_line_of_the_list(
    hub: Hub, bot: Client, crm: FakeCrm, record: Deal | NewContact
) -> None:
    record.send()
    lose(crm)
    pass_time(hub, bot, 10)
    try_due(hub, bot)
    ((id, tries),) = rows(hub, bot, "id, tries")[-1:]
    listed = rows(hub, bot, "number, outcome, action_id", "action_try")
    assert tries == 1
    assert [word for _, word, of in listed if of == id] == ["Uncertain", "NotYet"]


def test_whoever_takes_over_from_a_process_that_died_waits_too(
    hub: Hub, bot: Client, crm: FakeCrm, record: Deal | NewContact
) -> None:
    lose(crm)
    open_circuit(hub, bot.account, "It is away.")
    record.send()
    hurry(hub, bot)
    claiming.claim(hub.database, bot.account.id, bot.account.connection.id, most=1, lease_s=60)
    change(hub, bot, "run_at = run_at - 70000 where state = 'running'")
    change(hub, bot, "until = 0", "outage")
    (lease_ended,) = rows(hub, bot, "run_at")[-1]
    try_due(hub, bot)
    # For as long as a write may land after the process has died.
    run_at, state = rows(hub, bot, "run_at, state")[-1]
    assert (record.count(), state, run_at > lease_ended + 59_000) == (0, "queued", True)


def test_values_that_land_late_do_not_stand_over_newer_ones(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    contact_id = known(bot)
    lose(crm, "update_contact")
    assert set_city(bot, "Rome").status_code == 202
    lose(crm)
    assert set_city(bot, "Oslo").status_code == 202
    pass_time(hub, bot, 20)
    try_due(hub, bot)
    assert "city" not in crm.contacts[contact_id]
    crm.contacts[contact_id]["city"] = "Rome"
    pass_time(hub, bot, 40)
    for _ in range(2):
        try_due(hub, bot)
    assert crm.contacts[contact_id]["city"] == "Oslo"
    assert states(hub, bot) == ["done"] * 3


def test_a_lead_of_a_known_contact_waits_until_its_lost_values_have_landed(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    contact_id = known(bot)
    lose(crm, "update_contact")
    assert lead(bot, name="Ann Ray").status_code == 202
    lose(crm)
    assert lead(bot, name="Ann Fox").status_code == 202
    pass_time(hub, bot, 20)
    try_due(hub, bot)
    assert crm.contacts[contact_id]["lastname"] == "Lee"
    crm.contacts[contact_id]["lastname"] = "Ray"
    pass_time(hub, bot, 40)
    for _ in range(2):
        try_due(hub, bot)
    assert crm.contacts[contact_id]["lastname"] == "Fox"
    assert crm.calls.count("update_contact") == 2


def test_others_do_not_wait_with_whoever_waits(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    lose(crm, "create_contact")
    lead(bot)
    lose(crm)
    known(bot, "u", email="bob@x.org")
    open_circuit(hub, bot.account, "It is away.")
    lead(bot, "v", email="cyd@x.org")
    hurry(hub, bot)
    for _ in range(2):
        try_due(hub, bot)
    assert [one["email"] for one in crm.contacts.values()] == ["bob@x.org", "cyd@x.org"]
    assert states(hub, bot) == ["queued", "done", "done"]
