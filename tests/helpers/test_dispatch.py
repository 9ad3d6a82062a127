"""What a helper accepts is written down before any CRM is called, and answered in time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub import errors
from crmhub.adapter import (
    AdapterError,
    Conflict,
    Denied,
    LacksRight,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)
from crmhub.app import create_app
from crmhub.crm.connection import connect
from crmhub.database.connection import Database, now_ms
from crmhub.helpers import attempts, contact_properties
from crmhub.helpers.create_linked import CreateDeal
from crmhub.hub import Hub
from crmhub.identity import bindings, resolution
from crmhub.operators.actions.action_queries import Wanted
from crmhub.operators.actions.retry_action import retry
from crmhub.queue import claiming, outages, outcomes, slots
from crmhub.queue.outages import Health
from crmhub.settings import Settings
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_TICKET,
    GET_PROPERTIES,
    GET_TYPE,
    SET_PROPERTIES,
    known,
    lead,
    set_city,
    switch,
)
from tests.clients import TESTS, Client, open_client
from tests.fakes import FAKE, FakeCrm, adapters, hubspot_client
from tests.fakes import connect as use
from tests.queue.outcomes import open_circuit
from tests.queue.working import change, finish_all, hurry, rows, soon, states, work_off

pytestmark = pytest.mark.usefixtures("fakes")

GONE = Unavailable("no route")


def deal(
    client: Client, contact_id: str, key: str = "", path: str = CREATE_DEAL, **more: str
) -> Any:
    title = "dealname" if path == CREATE_DEAL else "subject"
    body = {"contactId": contact_id, "properties": {title: "A", **more}}
    return client.helper(path, body, headers={"Idempotency-Key": key} if key else {})


def status(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json["status"]


def known_later(client: Client) -> str:
    """Call createLead while the CRM is away, and return the hub's id of the contact."""
    answer = lead(client)
    assert status(answer) == (202, "queued")
    return str(answer.json["contactId"])  # type: ignore[index]


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [one.result() for one in [pool.submit(call) for call in calls]]


# --- written down first -----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["createLead", "setProperties", "createDeal", "createTicket"])
def test_an_action_is_committed_before_the_crm_is_called(
    hub: Hub, bot: Client, crm: FakeCrm, path: str
) -> None:
    contact_id = "" if path == "createLead" else known(bot)
    seen: list[Any] = []
    own = Database(hub.database.url.render_as_string(hide_password=False), pool_size=1)

    def look(_: str) -> None:
        with own.reading() as connection:
            row = connection.row(
                "select kind, state, request from action where account_id = :id and kind = :kind",
                {"id": bot.account.id, "kind": path},
            )
        # Nor does the call keep a transaction open: another one could not write on SQLite.
        own.transact(lambda tx: tx.run("update outage set reason = reason"))
        seen.append(row)

    crm.during = look
    {
        "createLead": lambda: lead(bot),
        "setProperties": lambda: set_city(bot, "Rome"),
        "createDeal": lambda: deal(bot, contact_id),
        "createTicket": lambda: deal(bot, contact_id, path=CREATE_TICKET),
    }[path]()
    own.close()
    assert {row[:2] for row in seen} == {(path, "running")}
    assert json.loads(seen[0][2])
    assert states(hub, bot)[-1] == "done"


def test_a_final_refusal_ends_an_action_while_its_caller_is_told(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = Rejected([], "not on a Sunday")
    assert lead(bot).status_code == 422
    assert rows(hub, bot, "state, reason") == [("refused", "not on a Sunday")]


def test_a_final_refusal_that_nobody_waits_for_is_a_dead_letter(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = GONE
    contact_id = lead(bot).json["contactId"]
    deal(bot, contact_id)
    crm.failure, crm.required = None, ("city",)
    finish_all(hub, bot)
    assert states(hub, bot) == ["dead", "parked"]
    remedy = "Set a constant for city in the field map, or send a value"
    assert rows(hub, bot, "reason")[0] == (f"city: it is required. {remedy}",)
    assert crm.linked == []


@pytest.fixture
def dead_lead(hub: Hub, bot: Client, crm: FakeCrm) -> tuple[str, str]:
    """Return the contact id of a lead that died, and its action's."""
    crm.failure = GONE
    contact_id = lead(bot).json["contactId"]
    crm.failure, crm.required = None, ("city",)
    finish_all(hub, bot)
    crm.required = ()
    return contact_id, rows(hub, bot, "id")[0][0]


def test_what_comes_after_a_dead_lead_waits_for_it(
    hub: Hub, bot: Client, crm: FakeCrm, dead_lead: tuple[str, str]
) -> None:
    contact_id, dead = dead_lead
    assert status(deal(bot, contact_id)) == (202, "queued")
    assert status(set_city(bot, "Rome")) == (202, "queued")
    assert rows(hub, bot, "state, behind")[1:] == [("parked", dead)] * 2
    assert retry(hub.database, Wanted(ids=[dead]), by=TESTS) == 3
    work_off(hub, bot)
    assert states(hub, bot) == ["done"] * 3
    assert (crm.contacts["c-1"]["city"], len(crm.linked)) == ("Rome", 1)


def test_what_would_wait_for_a_dead_lead_that_is_just_brought_back_follows_it(
    hub: Hub, bot: Client, dead_lead: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = attempts.classify_error

    def brought_back(exc: Exception, **how: Any) -> Any:
        retry(hub.database, Wanted(account=bot.account), by=TESTS)
        return judged(exc, **how)

    with monkeypatch.context() as patched:
        patched.setattr(attempts, "classify_error", brought_back)
        assert status(deal(bot, dead_lead[0])) == (202, "queued")
    finish_all(hub, bot)
    assert states(hub, bot) == ["done", "done"]


def test_a_lead_that_a_former_version_parked_blocks_like_the_dead_one(
    hub: Hub, bot: Client, crm: FakeCrm, dead_lead: tuple[str, str]
) -> None:
    contact_id, dead = dead_lead
    crm.required = ("city",)
    assert lead(bot).status_code == 422
    change(hub, bot, "state = 'parked', behind = :dead where state = 'refused'", dead=dead)
    assert status(deal(bot, contact_id)) == (202, "queued")
    assert rows(hub, bot, "state, behind")[2] == ("parked", dead)


def test_a_lead_after_a_dead_one_gets_in(hub: Hub, bot: Client, dead_lead: tuple[str, str]) -> None:
    assert lead(bot).status_code == 200
    assert deal(bot, dead_lead[0]).status_code == 200
    assert states(hub, bot) == ["dead", "done", "done"]


def test_what_waits_for_a_dead_lead_follows_a_later_one_of_its_contact(
    hub: Hub, bot: Client, crm: FakeCrm, dead_lead: tuple[str, str]
) -> None:
    """The deal must not wait for the later lead, which waits for the deal in its turn."""
    open_circuit(hub, bot.account, "away")
    assert status(deal(bot, dead_lead[0])) == (202, "queued")
    assert status(set_city(bot, "Rome")) == (202, "queued")
    assert status(lead(bot)) == (202, "queued")
    finish_all(hub, bot)
    assert states(hub, bot) == ["dead", "done", "done", "done"]
    assert (crm.contacts["c-1"]["city"], len(crm.linked)) == ("Rome", 1)


@pytest.mark.parametrize(("email", "then"), [("ann@x.org", "done"), ("bea@x.org", "parked")])
def test_a_lead_of_the_same_email_in_another_conversation_creates_the_contact(
    hub: Hub, bot: Client, crm: FakeCrm, dead_lead: tuple[str, str], email: str, then: str
) -> None:
    contact_id, _ = dead_lead
    assert status(deal(bot, contact_id)) == (202, "queued")
    known(bot, "u", email=email)
    work_off(hub, bot)
    assert states(hub, bot) == ["dead", then, "done"]
    # Nor does a later call find the dead lead in its way.
    assert deal(bot, contact_id, subject="B").status_code == (200 if then == "done" else 202)
    assert len(crm.linked) == (2 if then == "done" else 0)


def test_leads_that_go_in_together_bring_back_what_waited(app: flask.Flask, hub: Hub) -> None:
    with FakeHubSpot(Options()) as fake:
        bot = hubspot_client(app, fake)
        fake.fail(400, times=1)
        assert lead(bot).status_code == 422
        change(hub, bot, "state = 'dead', finished_at = created_at")
        open_circuit(hub, bot.account, "away")
        (hub_id,) = rows(hub, bot, "hub_id")[0]
        assert status(deal(bot, hub_id)) == (202, "queued")
        for token in "uvw":
            assert status(lead(bot, token, email=f"{token}@x.org")) == (202, "queued")
        assert status(lead(bot)) == (202, "queued")
        finish_all(hub, bot)
    assert states(hub, bot) == ["dead", *["done"] * 5]


def test_an_action_whose_contact_is_created_while_it_is_tried_is_not_parked(
    hub: Hub, bot: Client, dead_lead: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = attempts.classify_error

    def created(exc: Exception, **how: Any) -> Any:
        change(hub, bot, "crm_id = 'c-9'", "binding")
        return judged(exc, **how)

    with monkeypatch.context() as patched:
        patched.setattr(attempts, "classify_error", created)
        assert status(deal(bot, dead_lead[0])) == (202, "queued")
    assert states(hub, bot) == ["dead", "queued"]


def test_after_a_refused_lead_there_is_nobody_to_change(bot: Client, crm: FakeCrm) -> None:
    crm.failure = Rejected([], "not on a Sunday")
    assert lead(bot).status_code == 422
    crm.failure = None
    answer = set_city(bot, "Rome")
    assert (answer.status_code, "createLead" in answer.json["message"]) == (404, True)


def test_the_journal_keeps_what_was_sent_and_what_the_adapter_got(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = GONE
    lead(bot, phone="+1 202 555 0100")
    ((request, mapped),) = rows(hub, bot, "request, mapped")
    assert json.loads(request)["name"] == "Ann Lee"
    assert json.loads(mapped) == {
        "firstname": "Ann",
        "lastname": "Lee",
        "email": "ann@x.org",
        "phone": "+12025550100",
    }


# --- one after the other ----------------------------------------------------------------------


def test_a_later_call_about_a_person_waits_for_its_turn_and_is_done(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    known(bot)
    crm.during = lambda _: time.sleep(0.3)
    answers = at_once(*(lambda i=i: set_city(bot, f"City {i}") for i in range(3)))
    assert [status(answer) for answer in answers] == [(200, "updated")] * 3
    order = rows(hub, bot, "request")[1:]
    last = json.loads(order[-1][0])["properties"]["city"]
    assert crm.contacts["c-1"]["city"] == last


def test_two_conversations_of_one_email_go_one_after_the_other(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    under_way: list[int] = []
    most: list[int] = []

    def during(_: str) -> None:
        under_way.append(1)
        most.append(len(under_way))
        time.sleep(0.1)
        under_way.pop()

    crm.during = during
    calls = [lambda i=i: lead(bot, f"t{i}", name=f"Ann Lee {i}") for i in range(3)]
    assert {answer.status_code for answer in at_once(*calls)} == {200}
    assert (max(most), len(crm.contacts)) == (1, 1)


def test_what_waits_for_a_queued_lead_follows_it_with_its_contact(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = GONE
    contact_id = lead(bot).json["contactId"]
    answers = [set_city(bot, "Rome"), deal(bot, contact_id), set_city(bot, "Bari")]
    assert {status(answer) for answer in answers} == {(202, "queued")}
    assert {answer.json["contactId"] for answer in answers} == {contact_id}
    crm.failure, crm.calls = None, []
    finish_all(hub, bot)
    writes = [call for call in crm.calls if not call.startswith(("find", "get"))]
    assert writes == ["create_contact", "update_contact", "create_for_contact", "update_contact"]
    assert crm.contacts["c-1"]["city"] == "Bari"
    assert crm.linked == [("deals", "c-1", {"dealname": "A"})]


def test_a_hub_id_stays_valid_after_the_lead_got_in(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    crm.failure = GONE
    contact_id = lead(bot).json["contactId"]
    crm.failure = None
    finish_all(hub, bot)
    assert deal(bot, contact_id).json["contactId"] == "c-1"
    assert known(bot) == "c-1"
    answer = bot.helper(GET_PROPERTIES, {"contactToken": "t", "props": ["email"]})
    assert (answer.json["email"], answer.json["stale"]) == ("ann@x.org", "")  # type: ignore[index]


def test_a_new_email_in_a_queued_conversation_is_the_same_contacts(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    known(bot)
    crm.failure = GONE
    lead(bot, email="ann@new.org")
    crm.failure = None
    finish_all(hub, bot)
    assert [one["email"] for one in crm.contacts.values()] == ["ann@new.org"]


# --- twice is once ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CREATE_DEAL, CREATE_TICKET])
@pytest.mark.parametrize("named", ["hub", "crm", "unseen"])
def test_the_same_again_within_a_minute_is_unchanged(
    hub: Hub, bot: Client, crm: FakeCrm, path: str, named: str
) -> None:
    contact_id = known(bot)
    if named == "hub":
        contact_id = rows(hub, bot, "hub_id")[0][0]
    elif named == "unseen":
        crm.contacts["c-9"], contact_id = {"email": "ben@x.org"}, "c-9"
    first, again = (deal(bot, contact_id, path=path).json for _ in range(2))
    assert (first["status"], again["status"]) == ("created", "unchanged")
    id = "dealId" if path == CREATE_DEAL else "ticketId"
    assert (again[id], again["contactId"]) == (first[id], first["contactId"])
    assert deal(bot, contact_id, path=path, city="Rome").json["status"] == "created"
    change(hub, bot, "finished_at = finished_at - 60001")
    assert deal(bot, contact_id, path=path).json["status"] == "created"
    assert len(crm.linked) == 3


def test_the_same_while_the_first_is_under_way_has_its_action(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    contact_id = known(bot)
    crm.failure = GONE
    first, again = (deal(bot, contact_id).json for _ in range(2))
    assert (first["status"], again["status"]) == ("queued", "queued")
    assert first["actionId"] == again["actionId"] != ""
    crm.failure = None
    finish_all(hub, bot)
    assert len(crm.linked) == 1


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("tokens", [("t", "t"), ("t", "u")], ids=["one conversation", "one phone"])
def test_the_same_for_another_contact_is_made(
    hub: Hub, bot: Client, crm: FakeCrm, tokens: tuple[str, str], down: bool
) -> None:
    crm.contacts |= {f"c-{name}": {"email": f"{name}@x.org"} for name in ("ann", "bea")}
    crm.failure = GONE if down else None
    phone = {} if tokens == ("t", "t") else {"phone": "+12025550100"}
    people = [
        lead(bot, token, email=f"{name}@x.org", **phone).json["contactId"]
        for token, name in zip(tokens, ("ann", "bea"), strict=True)
    ]
    ids = [deal(bot, one).json["actionId" if down else "dealId"] for one in people]
    assert len(set(ids)) == 2
    crm.failure = None
    finish_all(hub, bot)
    assert sorted(contact_id for _, contact_id, _ in crm.linked) == ["c-ann", "c-bea"]


def test_a_dead_deal_holds_back_nothing_of_its_contact(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    crm.failure = GONE
    contact_id = known_later(bot)
    deal(bot, contact_id, dealstage="wrong"), set_city(bot, "Rome"), deal(bot, contact_id)

    def refuse(call: str) -> None:
        if call == "create_for_contact" and "city" not in crm.contacts["c-1"]:
            raise Rejected([], "no such stage")

    crm.failure, crm.during = None, refuse
    finish_all(hub, bot)
    assert states(hub, bot) == ["done", "dead", "done", "done"]
    assert crm.contacts["c-1"]["city"] == "Rome"
    assert [properties for *_, properties in crm.linked] == [{"dealname": "A"}]


def test_a_dead_lead_holds_back_no_other_contact_of_its_phone(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = GONE
    ids = [
        lead(bot, token, email=f"{token}@x.org", phone="+12025550100").json["contactId"]
        for token in "tu"
    ]
    for contact_id in ids:
        deal(bot, contact_id)

    def refuse(call: str) -> None:
        if call == "create_contact" and not crm.contacts:
            crm.contacts["c-0"] = {}
            raise Rejected([], "not on a Sunday")

    crm.failure, crm.during = None, refuse
    finish_all(hub, bot)
    assert sorted(states(hub, bot)) == ["dead", "done", "done", "parked"]
    assert [contact_id for _, contact_id, _ in crm.linked] == ["c-2"]


@pytest.mark.parametrize("token", ["t", "u"])
def test_one_email_is_one_contact_before_the_crm_has_it(
    hub: Hub, bot: Client, crm: FakeCrm, token: str
) -> None:
    crm.failure = GONE
    people = [lead(bot, each).json["contactId"] for each in ("t", token)]
    first, again = [deal(bot, each).json for each in people]
    assert first["actionId"] == again["actionId"]
    crm.failure = None
    finish_all(hub, bot)
    assert len(crm.linked) == 1


def test_the_same_for_a_contact_whom_a_lead_turns_out_to_be_makes_one(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.contacts["c-1"] = {"email": "ann@x.org"}
    crm.failure = GONE
    first = deal(bot, "c-1")
    contact_id = lead(bot).json["contactId"]
    crm.failure = None
    finish_all(hub, bot)
    for each in ("c-1", contact_id):
        again = deal(bot, each)
        assert (status(first), status(again)) == ((202, "queued"), (200, "unchanged"))
    assert len(crm.linked) == 1


@pytest.mark.parametrize(
    ("place", "name", "call"),
    [
        (bindings, "of_contact", lambda bot, contact_id: deal(bot, contact_id)),
        (resolution, "find_all", lambda bot, _: lead(bot, "u", email=None, phone="+12025550100")),
        (resolution, "find_all", lambda bot, _: lead(bot, "u", email="ben@x.org")),
        (contact_properties, "of_token", lambda bot, _: set_city(bot, "Rome", "u")),
    ],
    ids=["a deal", "a lead of the same", "a lead of another", "properties"],
)
def test_who_turns_out_to_be_another_while_an_action_is_accepted_is_one_person(
    app: flask.Flask,
    hub: Hub,
    bot: Client,
    crm: FakeCrm,
    monkeypatch: pytest.MonkeyPatch,
    place: Any,
    name: str,
    call: Callable[[Client, str], Any],
) -> None:
    if hub.database.dialect == "sqlite":
        pytest.skip("SQLite lets one write at a time")
    switch(app, bot, lead_requires="email_or_phone")
    crm.contacts["c-1"] = {"email": "ann@x.org", "phone": "+12025550100"}
    first = known(bot)
    crm.failure = GONE
    second = lead(bot, "u", email=None, phone="+12025550100").json["contactId"]  # type: ignore[index]
    crm.failure = None
    read = getattr(place, name)

    def meanwhile(*args: Any) -> Any:
        patched.setattr(place, name, read)
        found = read(*args)
        work_off(hub, bot)
        return found

    hurry(hub, bot)
    with monkeypatch.context() as patched:
        patched.setattr(place, name, meanwhile)
        answer = call(bot, second)
    assert answer.status_code == 200, answer.text
    assert len(set(rows(hub, bot, "person"))) == 1
    assert len(set(rows(hub, bot, "person", "binding"))) == 1
    if "dealId" in answer.json:
        assert status(deal(bot, first)) == (200, "unchanged")


def test_the_same_at_once_makes_one(bot: Client, crm: FakeCrm) -> None:
    contact_id = known(bot)
    crm.during = lambda _: time.sleep(0.1)
    answers = at_once(*[lambda: deal(bot, contact_id)] * 6)
    assert sorted({answer.json["status"] for answer in answers})[0] == "created"
    assert len(crm.linked) == 1


def test_a_key_repeats_the_answer_and_a_different_one_makes_a_second(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    contact_id = known(bot)
    first, again = deal(bot, contact_id, "k"), deal(bot, contact_id, "k")
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert (again.status_code, again.json) == (200, first.json)
    assert deal(bot, contact_id, "l").json["status"] == "created"
    assert deal(bot, contact_id, "k", city="Rome").status_code == 422
    assert len(crm.linked) == 2
    change(hub, bot, "created_at = created_at - 86400001")
    assert deal(bot, contact_id, "k").json["dealId"] == "deals-3"


@pytest.mark.parametrize("key", ["{{contact.id}}", "undefined"])
def test_a_key_that_was_not_replaced_is_none(bot: Client, crm: FakeCrm, key: str) -> None:
    first, second = known(bot), known(bot, "t2", email="bob@x.org")
    answers = [deal(bot, contact_id, key) for contact_id in (first, second, first)]
    assert [each.json["status"] for each in answers] == ["created", "created", "unchanged"]
    assert len(crm.linked) == 2


def test_a_key_works_for_leads_and_properties_too(bot: Client, crm: FakeCrm) -> None:
    header = {"headers": {"Idempotency-Key": "k"}}
    body = {"contactToken": "t", "name": "Ann Lee", "email": "ann@x.org"}
    answers = [bot.helper("/chatbot/createLead/{generated}", body, **header) for _ in range(2)]
    assert answers[0].json == answers[1].json
    assert answers[1].headers["Idempotent-Replayed"] == "true"
    props = {"contactToken": "t", "props": {"city": "Rome"}}
    assert bot.helper(SET_PROPERTIES, props, **header).status_code == 422
    assert bot.helper(SET_PROPERTIES, props, headers={"Idempotency-Key": "l"}).status_code == 200


@pytest.mark.parametrize(
    ("failure", "status"),
    [(Rejected([], "not on a Sunday"), 422), (Conflict("on a Sunday"), 409)],
)
def test_a_refusal_is_replayed_under_its_key(
    bot: Client, crm: FakeCrm, failure: AdapterError, status: int
) -> None:
    contact_id = known(bot)
    crm.failure = failure
    first = deal(bot, contact_id, "k")
    crm.failure, crm.calls = None, []
    again = deal(bot, contact_id, "k")
    assert (first.status_code, first.json) == (status, again.json | {"timestamp": ANY})
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (status, "true")
    assert crm.calls == []
    assert deal(bot, contact_id, "l").json["status"] == "created"


@pytest.mark.parametrize("key", ["", "k"])
def test_what_was_refused_and_waits_again_is_queued(
    hub: Hub, bot: Client, crm: FakeCrm, key: str
) -> None:
    contact_id = known(bot)
    crm.failure = Rejected([], "not on a Sunday")
    assert deal(bot, contact_id, key).status_code == 422
    assert retry(hub.database, Wanted(account=bot.account, states=("refused",)), by=TESTS) == 1
    assert status(deal(bot, contact_id, key)) == (202, "queued")
    crm.failure = None
    work_off(hub, bot)
    assert len(crm.linked) == 1


def test_what_is_dead_says_so_under_its_key(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    crm.failure = GONE
    contact_id = known_later(bot)
    assert "until it does" in deal(bot, contact_id, "k").json["message"]
    change(hub, bot, "state = 'dead', finished_at = created_at where kind = 'createDeal'")
    again = deal(bot, contact_id, "k")
    assert status(again) == (202, "queued")
    assert "the operator" in again.json["message"]


def test_what_was_dropped_with_its_crm_is_accepted_anew_under_its_key(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    header = {"headers": {"Idempotency-Key": "k"}}
    body = {"contactToken": "t", "name": "Ann Lee", "email": "ann@x.org"}
    crm.failure = GONE
    first = bot.helper("/chatbot/createLead/{generated}", body, **header)
    change(hub, bot, "state = 'refused', finished_at = created_at")
    crm.failure = None
    hurry(hub, bot)
    again = bot.helper("/chatbot/createLead/{generated}", body, **header)
    assert again.json["actionId"] != first.json["actionId"]
    assert "Idempotent-Replayed" not in again.headers


def test_a_call_that_comes_again_changes_no_conversation(bot: Client, crm: FakeCrm) -> None:
    def say(email: str, key: str) -> Any:
        body = {"contactToken": "t", "name": "Ann Lee", "email": email}
        header = {"Idempotency-Key": key}
        return bot.helper("/chatbot/createLead/{generated}", body, headers=header)

    crm.contacts["c-bea"] = {"email": "bea@x.org"}
    first = say("ann@x.org", "k")
    say("bea@x.org", "l")
    again = say("ann@x.org", "k")
    assert (again.headers["Idempotent-Replayed"], again.json) == ("true", first.json)
    set_city(bot, "Rome")
    cities = {one["email"]: one.get("city") for one in crm.contacts.values()}
    assert cities == {"ann@x.org": None, "bea@x.org": "Rome"}


@pytest.mark.parametrize("kind", ["deals", "tickets"])
def test_the_hubs_own_records_are_not_made_twice_under_one_mark(
    hub: Hub, client: Client, kind: Any
) -> None:
    adapter = connect(hub, client.account)
    contact = adapter.create_contact({"firstname": "Ann"}, mark="act-1")
    assert adapter.create_contact({"firstname": "Ann"}, mark="act-1").id == contact.id
    title = {"dealname": "A"} if kind == "deals" else {"subject": "A"}
    made = [
        adapter.create_for_contact(kind, contact.id, title, mark=mark).id
        for mark in ("act-2", "act-2", "act-3")
    ]
    assert (made[0] == made[1], made[2] == made[0]) == (True, False)
    assert client.get(f"/{kind}").json["total"] == 2  # type: ignore[index]


# --- in time ----------------------------------------------------------------------------------


@pytest.fixture
def hubspot(app: flask.Flask) -> Iterator[tuple[Client, FakeHubSpot]]:
    """A caller and its CRM over real HTTP."""
    with FakeHubSpot(Options(limit="none", search_limit="none")) as fake:
        yield hubspot_client(app, fake), fake


@pytest.mark.parametrize("written", [False, True])
def test_a_crm_that_hangs_is_answered_for_within_the_deadline(
    app: flask.Flask, hub: Hub, hubspot: tuple[Client, FakeHubSpot], written: bool
) -> None:
    client, fake = hubspot
    contact_id = known(client)
    switch(app, client, deadline_s=1)
    # Whoever waits for the CRM finds the deal there, or waits for longer than any test.
    seconds = 600 if written else 15
    fake.fail(kind="latency", method="POST", path="*/deals", seconds=seconds, written=written)
    assert status(deal(client, contact_id)) == (202, "queued")
    assert len(fake.deals) == written
    state, doubt_since = rows(hub, client, "state, doubt_since")[-1]
    assert (state, doubt_since > 0) == ("queued", True)
    soon(lambda: len(fake.deals) == 1)


def test_waiting_for_ones_turn_ends_with_the_deadline_too(
    app: flask.Flask, bot: Client, crm: FakeCrm
) -> None:
    known(bot)
    let_go = threading.Event()
    crm.during = lambda _: let_go.wait(120)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(set_city, bot, "Rome")
        soon(lambda: crm.calls[-1] == "update_contact")
        switch(app, bot, deadline_s=1)
        start = time.monotonic()
        assert status(set_city(bot, "Bari")) == (202, "queued")
        assert time.monotonic() - start < 20
        let_go.set()
        assert first.result().status_code == 200


def test_only_so_many_threads_of_a_process_wait_for_crms(
    settings: Settings, bot: Client, crm: FakeCrm
) -> None:
    small = create_app(replace(settings, threads=5))
    let_go = threading.Event()
    crm.during = lambda _: let_go.wait(120)
    with adapters(small, FAKE), ThreadPoolExecutor(1) as pool:
        there = Client(small, bot.account, bot.ids)
        first = pool.submit(lead, there, "t")
        soon(lambda: crm.calls)
        assert status(lead(there, "u", email="ben@x.org")) == (202, "queued")
        own = open_client(small)
        assert status(lead(own)) == (200, "created")
        let_go.set()
        assert first.result().status_code == 200
    small.extensions["crmhub"].close()


def test_an_outcome_that_cannot_be_written_down_loses_nothing(
    hub: Hub, bot: Client, crm: FakeCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> bool:
        raise errors.Unavailable("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(outcomes, "finish", fail)
        answer = lead(bot)
        assert status(answer) == (202, "queued")
        assert states(hub, bot) == ["running"]
        # What its process knew is lost with it.
        hub.unwritten._kept.clear()
    change(hub, bot, "run_at = :now", now=now_ms() - 1)
    work_off(hub, bot)
    assert (states(hub, bot), len(crm.contacts)) == (["done"], 1)


@pytest.mark.parametrize("step", ["release", "finish"])
def test_once_it_is_written_down_no_caller_is_told_to_come_back(
    hub: Hub, bot: Client, crm: FakeCrm, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: Any) -> bool:
        raise errors.Unavailable("the database is away")

    monkeypatch.setattr(claiming if step == "release" else outcomes, step, fail)
    if step == "release":
        # The call counts as late before it is tried.
        monkeypatch.setattr(slots, "_MOST_OF_DEADLINE", 0)
        monkeypatch.setattr(slots, "_FORGOTTEN_S", 0)
    assert status(lead(bot)) == (202, "queued")
    assert states(hub, bot) == ["running"]


def test_a_bug_before_the_call_loses_nothing(
    hub: Hub, bot: Client, crm: FakeCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    contact_id = known(bot)
    with monkeypatch.context() as patched:
        patched.setattr(CreateDeal, "mapped", lambda *_: 1 / 0)
        assert status(deal(bot, contact_id)) == (202, "queued")
    assert rows(hub, bot, "state, reason, tries")[-1] == ("queued", "", 1)
    finish_all(hub, bot)
    assert (states(hub, bot)[-1], len(crm.linked)) == ("done", 1)


def test_what_is_queued_can_be_read_back_meanwhile(bot: Client, crm: FakeCrm) -> None:
    crm.failure = GONE
    lead(bot)
    asked = {"contactToken": "t", "props": ["name", "email", "city"]}
    answer = bot.helper(GET_PROPERTIES, asked).json
    values = {"name": "Ann Lee", "email": "ann@x.org", "city": ""}
    assert (answer["properties"], answer["stale"]) == (values, "true")  # type: ignore[index]
    set_city(bot, "Rome")
    assert bot.helper(GET_PROPERTIES, asked).json["city"] == "Rome"  # type: ignore[index]


# --- outages ----------------------------------------------------------------------------------


@pytest.fixture
def quick_to_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls that fail within the same second be enough."""
    monkeypatch.setattr(outages, "_LASTING_S", 0)


def test_of_many_calls_some_may_fail_in_a_row() -> None:
    judge = Health()
    assert [judge.failed(1, 1, after=0) for _ in range(9)] == [False] * 9
    # It did nothing else for as long as that one took.
    assert judge.failed(1, 1, after=1.5)
    assert not judge.failed(1, 2, after=1.5)
    judge.answered(1, 1)
    assert [judge.failed(1, 1, after=1.5) for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("failure", [GONE, Denied("revoked")], ids=["Unavailable", "Denied"])
@pytest.mark.usefixtures("quick_to_judge")
def test_while_the_crm_is_away_it_is_not_called_and_the_answer_comes_at_once(
    bot: Client, crm: FakeCrm, failure: AdapterError
) -> None:
    contact_id = known(bot)
    crm.failure, crm.calls = failure, []
    # One call may fail; of several people's in a row the CRM is to blame.
    for token in ("x", "y", "z"):
        lead(bot, token, email=f"{token}@x.org")
    asked = len(crm.calls)
    for answer in (set_city(bot, "Bari"), deal(bot, contact_id), lead(bot, "u", email="b@x.org")):
        assert status(answer) == (202, "queued")
    read = bot.helper(
        GET_TYPE, {"contactnumber": "+12025550100", "interval": 1, "lastChatInterval": 0}
    )
    assert (read.status_code, failure.message in read.json["message"]) == (503, True)  # type: ignore[index]
    stale = bot.helper(GET_PROPERTIES, {"contactToken": "t", "props": ["email"]}).json
    assert (stale["email"], stale["stale"]) == ("ann@x.org", "true")  # type: ignore[index]
    assert len(crm.calls) == asked


@pytest.mark.usefixtures("quick_to_judge")
def test_a_read_that_finds_the_crm_away_spares_the_writers_the_wait(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    known(bot)
    crm.failure, crm.calls = GONE, []
    for _ in range(3):
        assert outages.outage_reason(hub.database, bot.account) == ""
        bot.helper(GET_PROPERTIES, {"contactToken": "t", "props": ["email"]})
    assert outages.outage_reason(hub.database, bot.account) == "no route"
    set_city(bot, "Rome")
    assert crm.calls == ["get_contact"] * 3


def test_a_connection_that_was_mended_is_called_again_at_once(
    app: flask.Flask, hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = Denied("revoked")
    assert status(lead(bot)) == (202, "queued")
    assert outages.outage_reason(hub.database, bot.account) == "revoked"
    use(app, bot, "fake", crm=bot.account.connection.settings["crm"])
    assert outages.outage_reason(hub.database, bot.account) == ""


@pytest.mark.parametrize("path", [CREATE_DEAL, CREATE_TICKET])
def test_a_right_that_only_records_beside_contacts_need_stops_no_lead(
    hub: Hub, bot: Client, crm: FakeCrm, path: str
) -> None:
    contact_id = known(bot)

    def lacking(call: str) -> None:
        if call == "create_for_contact":
            raise LacksRight("It needs crm.objects.deals.write.")

    crm.during = lacking
    assert status(deal(bot, contact_id, path=path)) == (202, "queued")
    assert rows(hub, bot, "reason", "outage") == []
    assert rows(hub, bot, "reason")[-1] == ("It needs crm.objects.deals.write.",)
    assert lead(bot, "u", email="ben@x.org").status_code == 200
    crm.during = None
    finish_all(hub, bot)
    assert len(crm.linked) == 1


def test_a_right_that_leads_need_lets_the_connection_wait(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    class OfThisCrm(LacksRight):
        """An adapter may have kinds of its own."""

    crm.failure = OfThisCrm("It needs crm.objects.contacts.write.")
    assert lead(bot).status_code == 202
    assert rows(hub, bot, "cause", "outage") == [("credentials",)]
    assert rows(hub, bot, "outcome", "action_try") == [("LacksRight",)]


def test_a_try_that_asked_the_crm_nothing_ends_no_outage(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = GONE
    contact_id = known_later(bot)
    change(hub, bot, "state = 'dead', finished_at = created_at")
    assert status(deal(bot, contact_id)) == (202, "queued")
    open_circuit(hub, bot.account, "away")
    finish_all(hub, bot)
    assert states(hub, bot) == ["dead", "parked"]
    assert len(rows(hub, bot, "reason", "outage")) == 1


def test_the_first_success_ends_the_outage_for_all(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    known(bot)
    crm.failure = Denied("revoked")
    set_city(bot, "Rome")
    crm.failure = None
    change(hub, bot, "until = :now", "outage", now=now_ms() - 1)
    # No caller waits for a CRM that may still be away.
    assert lead(bot, "u", email="ben@x.org").status_code == 202
    work_off(hub, bot)
    assert rows(hub, bot, "reason", "outage") == []
    assert lead(bot, "v", email="cem@x.org").status_code == 200


@pytest.mark.parametrize(
    ("failure", "least", "most"),
    [
        (Unavailable("busy", retry_after=1), 0, 1),
        (Unavailable("busy", retry_after=60), 55, 60),
        (GONE, 3, 6),
        (Uncertain("cut"), 3, 6),
        (Throttled("burst", retry_after=0), 3, 6),
    ],
)
def test_how_long_the_crm_asks_to_wait_wins(
    hub: Hub, bot: Client, crm: FakeCrm, failure: AdapterError, least: float, most: float
) -> None:
    crm.failure = failure
    lead(bot)
    ((run_at,),) = rows(hub, bot, "run_at")
    ((tried_at, took),) = rows(hub, bot, "began_at, ms", "action_try")
    assert least <= (run_at - tried_at - took) / 1000 <= most + 2


def test_who_is_throttled_waits_and_others_with_them(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    known(bot)
    crm.failure, crm.calls = Throttled("burst", retry_after=300, scope="burst"), []
    for token in ("u", "v"):
        assert lead(bot, token, email=f"{token}@x.org").status_code == 202
    assert len(crm.calls) == 1
    # The second lead may be accepted in the same millisecond, so their order is open.
    run_at = max(run_at for (run_at,) in rows(hub, bot, "run_at"))
    assert 200_000 < run_at - now_ms() <= 300_000


def test_a_search_that_is_throttled_does_not_stop_what_needs_none(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    known(bot)
    crm.failure = Throttled("search", retry_after=30, scope="search")
    assert lead(bot, "u", email="ben@x.org").status_code == 202
    crm.failure = None
    assert set_city(bot, "Rome").status_code == 200


def test_over_the_accounts_rate_a_lead_waits_and_gets_in(app: flask.Flask, hub: Hub) -> None:
    client = open_client(app, plan="free")
    rate = client.account.plan.rate_limit
    assert rate is not None
    for _ in range(rate.count):
        hub.limits.hit_account(client.account)
    answer = lead(client)
    assert status(answer) == (202, "queued")
    assert answer.json["message"].startswith("The account's plan takes no more calls for now")  # type: ignore[index]
    ((run_at,),) = rows(hub, client, "run_at")
    assert run_at > now_ms()
    finish_all(hub, client)
    assert states(hub, client) == ["done"]


def test_an_email_the_crm_does_not_show_yet_is_known_by_the_hub(bot: Client, crm: FakeCrm) -> None:
    first = known(bot, "a", email="ann@x.org")
    crm.hidden.add("ann@x.org")
    crm.calls.clear()
    assert known(bot, "b", email="ann@x.org", name="Ann New") == first
    assert "create_contact" not in crm.calls
    assert crm.contacts[first]["lastname"] == "New"
