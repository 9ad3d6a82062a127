"""Of each property of a contact the value that was accepted last stands, whatever runs when."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub.adapter import Rejected, Unavailable
from crmhub.hub import Hub
from crmhub.operators.actions import correct_action
from crmhub.operators.actions.action_queries import Wanted
from crmhub.operators.actions.retry_action import retry
from crmhub.queue import claiming
from tests.api.helpers.helper_calls import SET_PROPERTIES, known, lead, switch
from tests.clients import TESTS, Client
from tests.fakes import FakeCrm, hubspot_client
from tests.queue.working import change, finish_all, hurry, rows, soon, states, work_off

pytestmark = pytest.mark.usefixtures("fakes")


def fail_all(hub: Hub, client: Client, crm: FakeCrm) -> None:
    """Let what is queued be dead, and the CRM be well again."""
    crm.failure = None
    change(hub, client, "state = 'dead', finished_at = run_at where state = 'queued'")
    hurry(hub, client)


def retry_all(hub: Hub, client: Client) -> None:
    retry(hub.database, Wanted(account=client.account), by=TESTS)
    work_off(hub, client)


def set_properties(client: Client, token: str = "t", /, **properties: str) -> int:
    body = {"contactToken": token, "props": properties}
    return client.helper(SET_PROPERTIES, body).status_code


def test_a_retried_lead_writes_no_older_value(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    crm.failure = Unavailable("no route")
    assert lead(bot, name="Ann Old").status_code == 202
    assert set_properties(bot, city="Rome") == 202
    fail_all(hub, bot, crm)
    contact_id = known(bot, name="Ann New")
    retry_all(hub, bot)
    assert states(hub, bot) == ["done"] * 3
    assert crm.contacts[contact_id] == {
        "email": "ann@x.org",
        "firstname": "Ann",
        "lastname": "New",
        "city": "Rome",
    }


def test_a_retried_set_properties_writes_what_nobody_has_said_since(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    contact_id = known(bot)
    crm.failure = Unavailable("no route")
    set_properties(bot, city="Rome", firstname="Anna")
    fail_all(hub, bot, crm)
    assert set_properties(bot, city="Oslo") == 200
    retry_all(hub, bot)
    assert crm.contacts[contact_id]["city"] == "Oslo"
    assert crm.contacts[contact_id]["firstname"] == "Anna"


def test_a_value_that_was_said_again_since_counts_from_then(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    contact_id = known(bot)
    set_properties(bot, city="Oslo")
    crm.failure = Unavailable("no route")
    set_properties(bot, city="Rome")
    fail_all(hub, bot, crm)
    assert set_properties(bot, city="Oslo") == 200
    retry_all(hub, bot)
    assert crm.contacts[contact_id]["city"] == "Oslo"


def test_a_refused_value_leaves_the_older_one_to_be_written(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    contact_id = known(bot)
    crm.failure = Unavailable("no route")
    set_properties(bot, city="Rome")
    fail_all(hub, bot, crm)
    assert set_properties(bot, city="{{city}}", firstname="Anna") == 200
    retry_all(hub, bot)
    assert crm.contacts[contact_id]["city"] == "Rome"


def test_a_corrected_value_counts_from_its_correction(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    contact_id = known(bot)
    crm.failure = Unavailable("no route")
    set_properties(bot, city="Rome", firstname="Anna")
    fail_all(hub, bot, crm)
    assert set_properties(bot, city="Oslo", firstname="Annie") == 200
    (action_id,) = [id for id, state in rows(hub, bot, "id, state") if state == "dead"]
    correct_action.correct(hub, action_id, {"city": "Bern"}, by=TESTS)
    work_off(hub, bot)
    assert crm.contacts[contact_id]["city"] == "Bern"
    assert crm.contacts[contact_id]["firstname"] == "Annie"


@pytest.mark.databases("sqlite", "postgresql")
def test_a_retried_action_waits_for_a_newer_one_in_progress(
    app: flask.Flask, hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    switch(app, bot, deadline_s=25)
    contact_id = known(bot)
    crm.failure = Unavailable("no route")
    set_properties(bot, city="Rome")
    fail_all(hub, bot, crm)
    arrived, go_on = threading.Event(), threading.Event()

    def wait(call: str) -> None:
        if call == "update_contact" and not arrived.is_set():
            arrived.set()
            assert go_on.wait(60)

    crm.during = wait
    with ThreadPoolExecutor(1) as pool:
        newer = pool.submit(set_properties, bot, city="Oslo")
        assert arrived.wait(60)
        retry(hub.database, Wanted(account=bot.account), by=TESTS)
        here = (bot.account.id, bot.account.connection.id)
        assert claiming.claim(hub.database, *here, most=10, lease_s=60) == []
        go_on.set()
        assert newer.result() == 200
    work_off(hub, bot)
    assert crm.contacts[contact_id]["city"] == "Oslo"


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("older_first", [True, False])
def test_two_emails_of_one_contact_at_once_leave_the_newest_value(
    app: flask.Flask, hub: Hub, older_first: bool
) -> None:
    """The CRM alone knows that both are one contact; the two calls are in progress together."""
    with FakeHubSpot(Options(limit="100000/10s", search_limit="none")) as fake:
        client = hubspot_client(app, fake)
        switch(app, client, deadline_s=25)
        id = fake.add_contact(email="ann@x.org")
        held = fake.portal.load("contacts", id)
        fake.portal.store(held, {**held.properties, "hs_additional_emails": "ann@home.org"})
        # The write of the first call takes long; the second one arrives meanwhile.
        slow = fake.fail(kind="latency", method="PATCH", seconds=1.0)

        def call(email: str, name: str) -> int:
            return lead(client, email, email=email, name=f"Ann {name}").status_code

        emails = ["ann@x.org", "ann@home.org"] if older_first else ["ann@home.org", "ann@x.org"]
        with ThreadPoolExecutor(2) as pool:
            older = pool.submit(call, emails[0], "Older")
            soon(lambda: slow.struck == 1)
            newer = pool.submit(call, emails[1], "Newer")
            assert {older.result(), newer.result()} <= {200, 202}
        finish_all(hub, client)
        assert fake.contacts[id]["lastname"] == "Newer"
        assert fake.contacts[id]["email"] == "ann@x.org"
        assert len({person for (person,) in rows(hub, client, "person")}) == 1


def test_what_was_blocked_goes_on_once_a_lead_finds_the_contact_even_if_that_lead_fails(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = Unavailable("no route")
    lead(bot)
    fail_all(hub, bot, crm)
    set_properties(bot, city="Rome")
    work_off(hub, bot)
    assert states(hub, bot) == ["dead", "parked"]
    crm.contacts["c-1"] = {"email": "ann@x.org"}

    def refuse_the_lead(call: str) -> None:
        if call == "update_contact":
            raise Rejected([], "No changes now.")

    crm.during = refuse_the_lead
    assert lead(bot, name="Ann Fox").status_code == 422
    crm.during = None
    finish_all(hub, bot)
    assert states(hub, bot) == ["dead", "done", "refused"]
    assert crm.contacts["c-1"] == {"email": "ann@x.org", "city": "Rome"}
