"""Corrections: values of a failed action are changed, and it is retried as what it was."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import flask
import pytest

from crmhub import audit
from crmhub.adapter import Rejected, Unavailable
from crmhub.errors import Conflict, HubError, NotFound, Semantic
from crmhub.hub import Hub
from crmhub.identity import bindings
from crmhub.operators.actions import action_queries, correct_action
from crmhub.operators.actions.correct_action import correct
from crmhub.queue import claiming
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_LEAD,
    SET_PROPERTIES,
    known,
    lead,
    stored,
    switch,
)
from tests.clients import TESTS, Client
from tests.fakes import FakeCrm
from tests.queue.working import change, finish_all, hurry, rows, states, work_off

pytestmark = pytest.mark.usefixtures("fakes")

GONE = Unavailable("no route")


def kill(hub: Hub, client: Client, kind: str = "createLead", state: str = "dead") -> str:
    """Let the newest action of this kind have failed, and return its id."""
    (*_, (id,)) = rows(hub, client, "id", f"(select * from action where kind = '{kind}') a")
    change(hub, client, f"state = '{state}', finished_at = 1, lease = null where id = :it", it=id)
    return str(id)


def one(hub: Hub, id: str) -> action_queries.Full:
    return action_queries.shown(hub.database, id)


def queue_lead(hub: Hub, client: Client, crm: FakeCrm, token: str = "t", **fields: str) -> str:
    """Let a lead fail that the CRM has never seen, and return its action's id."""
    crm.failure = GONE
    assert lead(client, token, **fields).status_code == 202
    crm.failure = None
    hurry(hub, client)
    change(hub, client, "failures = 0", "outage")
    return kill(hub, client)


# --- what becomes of the action ---------------------------------------------------------------


def test_a_corrected_deal_is_retried_as_what_it_was(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    contact_id = known(bot)
    crm.failure = Rejected([], "no such stage")
    body = {"contactId": contact_id, "properties": {"dealname": "A", "dealstage": "wrong"}}
    assert bot.helper(CREATE_DEAL, body).status_code == 422
    id = kill(hub, bot, "createDeal")
    change(hub, bot, "doubt_since = 17 where id = :it", it=id)
    crm.failure = None
    before = rows(hub, bot, "id, created_at, doubt_since, person, hub_id, identity")
    assert correct(hub, id, {"dealstage": "won"}, by=TESTS) == 1
    assert rows(hub, bot, "id, created_at, doubt_since, person, hub_id, identity") == before
    assert states(hub, bot) == ["done", "queued"]
    work_off(hub, bot)
    assert [properties for *_, properties in crm.linked] == [{"dealname": "A", "dealstage": "won"}]
    found = one(hub, id)
    assert found.request["properties"] == {"dealname": "A", "dealstage": "won"}
    (version,) = found.versions
    assert (version.by, version.request["properties"]["dealstage"]) == (TESTS.name, "wrong")
    assert found.corrected == {"dealstage": version.at}
    assert version.at >= found.summary.created_at


def test_a_refused_deal_is_stored_once_it_is_corrected(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    contact_id = known(bot)
    crm.failure = Rejected([], "no such stage")
    body = {"contactId": contact_id, "properties": {"dealname": "A", "dealstage": "wrong"}}
    assert bot.helper(CREATE_DEAL, body).status_code == 422
    crm.failure = None
    (id,) = [id for id, state in rows(hub, bot, "id, state") if state == "refused"]
    assert correct(hub, id, {"dealstage": "won"}, by=TESTS) == 1
    work_off(hub, bot)
    assert [properties for *_, properties in crm.linked] == [{"dealname": "A", "dealstage": "won"}]
    assert states(hub, bot) == ["done", "done"]


def test_every_version_stays(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    id = queue_lead(hub, bot, crm, name="A")
    for name in ("B", "C"):
        correct(hub, id, {"name": name}, by=TESTS)
        kill(hub, bot)
    found = one(hub, id)
    assert [each.request["name"] for each in found.versions] == ["A", "B"]
    assert (found.request["name"], [*found.corrected]) == ("C", ["name"])


def test_whoever_works_on_it_knows_what_was_corrected(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    id = queue_lead(hub, bot, crm)
    correct(hub, id, {"name": "Bea"}, by=TESTS)
    of = (bot.account.id, bot.account.connection.id)
    (entry,) = claiming.claim(hub.database, *of, most=1, lease_s=5)
    assert entry.corrected == one(hub, id).corrected
    assert entry.created_at <= entry.corrected["name"]


def test_what_is_blocked_behind_a_corrected_lead_is_retried_with_it(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    id = queue_lead(hub, bot, crm, email="ann@x.rog")
    (hub_id,) = rows(hub, bot, "hub_id")[0]
    body = {"contactId": hub_id, "properties": {"dealname": "A"}}
    assert bot.helper(CREATE_DEAL, body).status_code == 202
    assert states(hub, bot) == ["dead", "parked"]
    assert correct(hub, id, {"email": "Ann@x.org "}, by=TESTS) == 2
    work_off(hub, bot)
    assert states(hub, bot) == ["done", "done"]
    assert [one["email"] for one in crm.contacts.values()] == ["ann@x.org"]
    assert len(crm.linked) == 1


def test_a_blocked_action_is_corrected_and_blocked_again(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    queue_lead(hub, bot, crm)
    body = {"contactToken": "t", "props": {"city": "Rom"}}
    assert bot.helper(SET_PROPERTIES, body).status_code == 202
    (id,) = [id for id, state in rows(hub, bot, "id, state") if state == "parked"]
    correct(hub, id, {"city": "Rome", "lastname": ""}, by=TESTS)
    work_off(hub, bot)
    assert states(hub, bot) == ["dead", "parked"]
    known(bot)
    work_off(hub, bot)
    assert crm.contacts["c-1"]["city"] == "Rome"
    # The lead has said it since.
    assert crm.contacts["c-1"]["lastname"] == "Lee"


def test_a_call_answered_under_its_key_is_the_same_one_after_a_correction(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    key = {"headers": {"Idempotency-Key": "k"}}
    body = {"contactToken": "t", "name": "Ann", "email": "ann@x.org"}
    crm.failure = GONE
    first = bot.helper(CREATE_LEAD, body, **key)
    correct(hub, kill(hub, bot), {"name": "Bea"}, by=TESTS)
    again = bot.helper(CREATE_LEAD, body, **key)
    assert again.status_code == 202
    assert again.json["actionId"] == first.json["actionId"]
    other = bot.helper(CREATE_LEAD, {**body, "name": "Bea"}, **key)
    assert other.status_code == 422


# --- whose it is ------------------------------------------------------------------------------


def test_a_corrected_email_and_phone_are_those_of_the_conversation(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    id = queue_lead(hub, bot, crm, email="ann@x.rog", phone="+12025550100")
    correct(hub, id, {"email": "ANN@x.org", "phone": "+1 202 555 0111"}, by=TESTS)
    found = rows(hub, bot, "email, phone, last_values", "binding")
    ((email, phone, values),) = found
    assert (email, phone) == ("ann@x.org", "+12025550111")
    assert json.loads(values)["email"] == "ann@x.org"
    correct(hub, kill(hub, bot), {"phone": ""}, by=TESTS)
    assert rows(hub, bot, "email, phone", "binding") == [("ann@x.org", None)]


def test_who_has_the_corrected_email_already_is_the_same_person(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    id = queue_lead(hub, bot, crm, "t", email="ann@x.rog")
    known(bot, "u", email="ann@x.org")
    assert len(set(rows(hub, bot, "person"))) == 2
    correct(hub, id, {"email": "ann@x.org"}, by=TESTS)
    for table in ("action", "binding"):
        assert len(set(rows(hub, bot, "person", table))) == 1
    work_off(hub, bot)
    assert list(crm.contacts) == ["c-1"]


def test_a_deal_goes_to_the_corrected_contact(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    wrong, right = known(bot), known(bot, "u", email="bea@x.org")
    crm.failure = GONE
    body = {"contactId": wrong, "properties": {"dealname": "A"}}
    assert bot.helper(CREATE_DEAL, body).status_code == 202
    crm.failure = None
    id = kill(hub, bot, "createDeal")
    correct(hub, id, {"contactId": right}, by=TESTS)
    finish_all(hub, bot)
    assert [contact_id for _, contact_id, _ in crm.linked] == [right]
    with hub.database.reading() as db:
        bound = bindings.of_contact(db, bot.account, right)
    assert bound is not None
    assert rows(hub, bot, "person, hub_id")[-1] == (bound.person, bound.hub_id)


def test_a_deal_may_go_to_a_contact_that_the_crm_alone_knows(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.contacts["c-9"] = {}
    body = {"contactId": "c-8", "properties": {"dealname": "A", "subject": "x"}}
    assert bot.helper(CREATE_DEAL, body).status_code == 404
    correct(hub, kill(hub, bot, "createDeal"), {"contactId": "c-9", "subject": " "}, by=TESTS)
    work_off(hub, bot)
    assert [one[1:] for one in crm.linked] == [("c-9", {"dealname": "A"})]


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "values", "error", "words"),
    [
        ("createLead", {"city": "Rome"}, Semantic, "city: createLead has no such value"),
        ("createLead", {"email": "nobody"}, Semantic, "email: "),
        ("createLead", {"email": "{{email}}"}, Semantic, "email: the builder sent"),
        ("createLead", {"name": " "}, Semantic, "name: it is blank"),
        ("createLead", {"phone": "{{phone}}"}, Semantic, "phone: the builder sent"),
        ("createLead", {"name": "Ann Lee"}, Semantic, "No value differs"),
        ("createLead", {}, Semantic, "No value differs"),
        ("createLead", {"name": "a\0"}, Semantic, "name: it holds a character"),
        ("createLead", {"name": "\ud800"}, Semantic, "name: it holds a character"),
        ("createLead", {"name": "x" * 65_537}, Semantic, "name: it has 65537 characters"),
        ("setProperties", {"city": "{{city}}"}, Semantic, "city: the builder sent"),
        ("setProperties", {" ": "x"}, Semantic, "its name is blank"),
        ("setProperties", {f"p{i}": "x" for i in range(50)}, Semantic, "at most 50"),
        ("createDeal", {"contactId": "hub-0"}, NotFound, "contactId: hub-0 is not a contact"),
        ("createDeal", {"contactId": ""}, Semantic, "contactId: it is blank"),
        ("createDeal", {"contactId": "null"}, Semantic, "contactId: the builder sent null"),
        ("createDeal", {"contactId": "x" * 256}, Semantic, "contactId: it is longer"),
        ("createDeal", {"dealname": ""}, Semantic, "dealname: it is blank or missing"),
    ],
)  # fmt: skip
def test_values_are_checked_as_the_helper_checks_them(
    hub: Hub,
    client: Client,
    kind: str,
    values: dict[str, str],
    error: type[HubError],
    words: str,
) -> None:
    contact_id = known(client)
    client.helper(SET_PROPERTIES, {"contactToken": "t", "props": {"city": "Rom"}})
    client.helper(CREATE_DEAL, {"contactId": contact_id, "properties": {"dealname": "A"}})
    id = kill(hub, client, kind)
    before = rows(hub, client, "state, request, versions, corrected")
    with pytest.raises(error, match=words.replace("(", ".")):
        correct(hub, id, values, by=TESTS)
    assert rows(hub, client, "state, request, versions, corrected") == before


def test_a_lead_by_phone_alone_needs_its_phone(app: flask.Flask, hub: Hub, client: Client) -> None:
    switch(app, client, lead_requires="email_or_phone")
    known(client, email=None, phone="+12025550100")
    with pytest.raises(Semantic, match="email: it is blank"):
        correct(hub, kill(hub, client), {"phone": ""}, by=TESTS)


@pytest.mark.parametrize("state", ["done", "queued", "running", "discarded"])
def test_what_is_done_or_under_way_cannot_be_corrected(
    hub: Hub, client: Client, state: str
) -> None:
    known(client)
    id = kill(hub, client, state=state)
    with pytest.raises(Conflict, match="in progress" if state == "running" else state):
        correct(hub, id, {"name": "Bea"}, by=TESTS)
    with pytest.raises(NotFound):
        correct(hub, "act-0", {"name": "Bea"}, by=TESTS)


def test_what_somebody_else_has_corrected_meanwhile_is_not_overwritten(
    hub: Hub, client: Client
) -> None:
    known(client)
    id = kill(hub, client)
    correct(hub, id, {"name": "Bea"}, by=TESTS, seen=0)
    kill(hub, client)
    with pytest.raises(Conflict, match="somebody else"):
        correct(hub, id, {"name": "Cora"}, by=TESTS, seen=0)
    assert one(hub, id).request["name"] == "Bea"
    correct(hub, id, {"name": "Cora"}, by=TESTS, seen=1)


@pytest.mark.parametrize("meanwhile", ["state = 'queued'", "request = '{}'", "state = 'discarded'"])
def test_what_changes_while_it_is_corrected_is_left_alone(
    hub: Hub, client: Client, meanwhile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(client)
    id = kill(hub, client)
    shown = action_queries.shown

    def changed(*args: Any) -> action_queries.Full:
        found = shown(*args)
        change(hub, client, meanwhile)
        return found

    monkeypatch.setattr(correct_action.action_queries, "shown", changed)
    with pytest.raises(Conflict, match="somebody else"):
        correct(hub, id, {"email": "bea@x.org"}, by=TESTS)
    assert rows(hub, client, "email", "binding") == [("ann@x.org",)]


@pytest.mark.databases("sqlite", "postgresql")
def test_of_several_corrections_at_once_one_is_made(hub: Hub, client: Client) -> None:
    known(client)
    id = kill(hub, client)

    def correcting(name: str) -> int:
        try:
            return correct(hub, id, {"name": name}, by=TESTS)
        except Conflict:
            return 0

    with ThreadPoolExecutor(6) as pool:
        counts = list(pool.map(correcting, "ABCDEF"))
    assert sorted(counts) == [0] * 5 + [1]
    assert len(one(hub, id).versions) == 1


def test_the_audit_log_names_what_was_corrected_and_no_value(hub: Hub, client: Client) -> None:
    known(client)
    id = kill(hub, client)
    correct(hub, id, {"name": "Secret Name", "email": "secret@x.org"}, by=TESTS)
    with hub.database.reading() as db:
        of = audit.Wanted(account_id=client.account.id, verb="edit")
        (entry,) = audit.listed(db, of, limit=2)
    assert (entry.object, entry.object_id) == ("actions", id)
    assert entry.after == {"values": ["email", "name"], "retried": 1}


def test_a_correction_of_local_records_is_stored(hub: Hub, client: Client) -> None:
    contact_id = known(client)
    correct(hub, kill(hub, client), {"name": "Bea Poe"}, by=TESTS)
    work_off(hub, client)
    assert stored(client, contact_id)["lastname"] == "Poe"
