"""Erasing a person: nothing of them is left, and everything of everybody else is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import flask
import pytest

from crmhub.accounts.accounts import Account
from crmhub.adapter import Denied, Rejected, Uncertain
from crmhub.errors import BadRequest, Conflict, NotFound
from crmhub.helpers.attempts import Action, attempt
from crmhub.helpers.contact_properties import SetProperties
from crmhub.helpers.create_lead import CreateLead
from crmhub.hub import Hub
from crmhub.identity.chats import note_chat
from crmhub.operators.actions.correct_action import correct
from crmhub.operators.actions.discard_action import discard_one
from crmhub.operators.erasure import erase_person
from crmhub.operators.erasure.erasure import Erased
from crmhub.operators.files import import_jobs, running_imports
from crmhub.operators.files.import_jobs import ImportJob
from crmhub.properties.kinds import CONTACTS
from crmhub.queue.models import Entry
from crmhub.settings import Settings
from tests.api.helpers.helper_calls import (
    ADD_NOTE_TO,
    CREATE_DEAL,
    CREATE_TASK,
    SET_PROPERTIES,
    known,
    lead,
    switch,
)
from tests.clients import TESTS, Client
from tests.events.receivers import events_of, subscribe
from tests.fakes import FakeCrm
from tests.operators.traces import (
    CITY,
    COLLEAGUE,
    EMAIL,
    FIRST,
    LAST,
    PHONE,
    PLANTED,
    TOKEN,
    Planted,
    forms,
    left,
    plant,
    query,
)
from tests.pages import total
from tests.queue.outcomes import open_circuit
from tests.queue.working import accept, change, finish_all, rows, soon, states, work_off
from tests.records.index_rows import assert_links_are_whole, recomputed, stored


def erase(hub: Hub, client: Client, text: str, **how: Any) -> Erased:
    """Erase whom the text names, who must be there, and return what was found."""
    person, _ = erase_person.find(hub, client.account, text)
    assert person is not None
    return erase_person.erase(hub, client.account, person, by=TESTS, **how)


def gone(hub: Hub, client: Client, text: str) -> bool:
    """Return whether nothing is held of whom the text names."""
    person, _ = erase_person.find(hub, client.account, text)
    return person is None or erase_person.preview(hub, client.account, person).nothing


def whole(hub: Hub, client: Client) -> None:
    assert stored(hub, client) == recomputed(hub, client)
    assert_links_are_whole(hub, client)


NOTATIONS: dict[str, Callable[[Planted], str]] = {
    "record": lambda one: str(one.contact_id),
    "hub id": lambda one: one.hub_id,
    "email": lambda one: EMAIL.upper(),
    "phone": lambda one: "0049 (30) 901-777",
    "bare digits": lambda one: PHONE[1:],
    "token": lambda one: TOKEN,
}


@pytest.mark.parametrize("notation", NOTATIONS)
def test_nothing_is_left_whatever_names_the_person(
    app: flask.Flask, hub: Hub, client: Client, notation: str
) -> None:
    planted = plant(app, client)
    before = set(left(hub, PLANTED, client.account.id))
    # The test would find each of these: what is erased here was there.
    for place in (
        f"records.properties: {CITY}",
        f"archived_record.properties: {FIRST}",
        f"ix_text.value: {EMAIL}",
        f"unique_value.value: {EMAIL}",
        f"binding.email: {EMAIL}",
        f"binding.last_values: {CITY}",
        f"action.request: {FIRST}",
        f"idempotency.body: {FIRST}",
        f"idempotency.key: {EMAIL}",
    ):
        assert place in before
    text = NOTATIONS[notation](planted)
    found = erase(hub, client, text)
    assert found.contacts == (planted.contact_id,)
    assert found.archived == (planted.archived_id,)
    assert (found.enrolments, found.conversations) == (1, 2)
    assert found.sticky_assignments >= 2 <= found.answers
    assert left(hub, PLANTED, client.account.id) == []
    whole(hub, client)
    assert gone(hub, client, text)


def test_everybody_else_is_left_as_they_are(
    app: flask.Flask, hub: Hub, client: Client, other: Client
) -> None:
    mine = plant(app, client)
    plant(app, other)
    theirs = everything(hub, other)
    erase(hub, client, EMAIL)
    assert everything(hub, other) == theirs
    bob = client.get(f"/contacts/{mine.colleague}").json
    assert bob["properties"]["lastname"] == LAST
    assert bob["associations"]["companies"] == [mine.company]
    assert bob["associations"]["deals"] == [mine.shared_deal]
    bound = query(hub, client, "select email, phone, contact_token from binding where 1 = 1")
    assert bound == [(*COLLEAGUE.values(), "bobs-token")]
    # His answer is repeated as it was, hers without her.
    ((body,),) = query(hub, client, "select body from idempotency where key = 'batch'")
    hers, his = json.loads(body)
    assert (hers["id"], hers["properties"]) == (mine.contact_id, {})
    assert his["properties"]["firstname"] == "Bob"


def test_an_answer_that_is_made_anew_does_not_bring_the_person_back(
    hub: Hub, client: Client
) -> None:
    long = CITY.ljust(40_000, "x")
    body = {"properties": {"email": EMAIL, "city": long, "address": long}}
    headers = {"Idempotency-Key": "long"}
    first: Any = client.post("/contacts", body, headers=headers).json
    assert client.post("/contacts", body, headers=headers).json["properties"] == first["properties"]  # type: ignore[index]
    erase(hub, client, EMAIL)
    again: Any = client.post("/contacts", body, headers=headers)
    assert (again.status_code, again.json["id"]) == (201, first["id"])
    assert again.json["properties"] == {}
    assert client.get("/contacts").json["total"] == 0  # type: ignore[index]


def test_the_answer_to_a_partial_batch_stays_without_the_person(hub: Hub, client: Client) -> None:
    other = {"email": "other@example.com", "firstname": "Other"}
    inputs = [
        {"properties": {"email": EMAIL, "city": CITY}},
        {"properties": {"email": f"not an address {EMAIL}"}},
        {"properties": {"email": "neither this"}},
        {"properties": other},
    ]
    path, headers = "/contacts/batch/create?partial=true", {"Idempotency-Key": "some"}
    first: Any = client.post(path, {"inputs": inputs}, headers=headers)
    assert EMAIL in first.json["errors"][0]["message"]
    erase(hub, client, EMAIL)
    again: Any = client.post(path, {"inputs": inputs}, headers=headers)
    assert again.status_code == 207
    assert EMAIL not in again.text
    assert CITY not in again.text
    assert [each["index"] for each in again.json["errors"]] == [1, 2]
    assert again.json["errors"][1] == first.json["errors"][1]
    assert again.json["results"][1] == first.json["results"][1]


def everything(hub: Hub, client: Client) -> list[Any]:
    tables = ("records", "archived_record", "ix_text", "unique_value", "association", "binding")
    tables += (
        "archived_association",
        "action",
        "action_try",
        "enrolment",
        "kept_number",
        "idempotency",
        "record_count",
    )
    return [sorted(map(str, query(hub, client, f"select * from {t} where 1 = 1"))) for t in tables]


def test_linked_records_stay_or_go_with_the_person(
    app: flask.Flask, hub: Hub, client: Client
) -> None:
    planted = plant(app, client)
    person, _ = erase_person.find(hub, client.account, EMAIL)
    assert person is not None
    seen = erase_person.preview(hub, client.account, person)
    linked = {"deals": [planted.deal, planted.shared_deal], "tickets": [planted.ticket]}
    assert seen.linked == {**linked, "companies": [planted.company]}
    assert seen.linked_to_nobody_else == {"deals": [planted.deal], "tickets": [planted.ticket]}
    found = erase(hub, client, EMAIL, with_linked=True)
    assert found.linked_erased == seen.linked_to_nobody_else
    assert found.linked == {"deals": [planted.shared_deal], "companies": [planted.company]}
    assert client.get(f"/deals/{planted.deal}").status_code == 404
    assert client.get(f"/tickets/{planted.ticket}").status_code == 404
    assert client.get(f"/deals/{planted.shared_deal}").status_code == 200
    assert query(hub, client, "select kind from archived_record where 1 = 1") == []
    assert query(hub, client, "select from_id from archived_association where 1 = 1") == []
    whole(hub, client)


def test_notes_and_tasks_go_with_their_records(app: flask.Flask, hub: Hub, client: Client) -> None:
    planted = plant(app, client)
    subscribe(hub, client, "note.created")
    for resource, id in (
        ("contacts", planted.contact_id),
        ("deals", planted.deal),
        ("deals", planted.shared_deal),
        ("contacts", planted.colleague),
    ):
        headers = {"Idempotency-Key": f"note {id}"}
        text = f"says {resource} {id}"
        made = client.post(f"/{resource}/{id}/notes", {"text": text}, headers=headers)
        assert made.status_code == 201
    said = {"contactId": str(planted.contact_id), "properties": {"subject": "says a task"}}
    assert client.helper(CREATE_TASK, said).status_code == 200
    said = {"dealId": str(planted.deal), "text": "says a bot"}
    assert client.helper(ADD_NOTE_TO, said).status_code == 200
    assert len(query(hub, client, "select text from timeline_entry where 1 = 1")) == 6
    erase(hub, client, EMAIL, with_linked=True)
    kept = [f"says contacts {planted.colleague}", f"says deals {planted.shared_deal}"]
    rows = query(hub, client, "select text from timeline_entry where 1 = 1 order by text")
    assert [text for (text,) in rows] == kept
    gone = [f"says contacts {planted.contact_id}", f"says deals {planted.deal}"]
    assert left(hub, [*gone, "says a task", "says a bot"], client.account.id) == []
    told = {one.subject for one in events_of(hub, client) if one.type == "note.created"}
    assert told == {f"contacts:{planted.colleague}", f"deals:{planted.shared_deal}"}


def test_looking_changes_nothing(app: flask.Flask, hub: Hub, client: Client) -> None:
    plant(app, client)
    before = everything(hub, client)
    person, ways = erase_person.find(hub, client.account, TOKEN)
    assert person is not None
    assert ways == ("token",)
    seen = erase_person.preview(hub, client.account, person)
    assert everything(hub, client) == before
    assert erase(hub, client, TOKEN) == seen


def test_a_phone_is_found_as_any_number_that_its_digits_may_be(
    app: flask.Flask, hub: Hub, client: Client
) -> None:
    switch(app, client, region="DE")
    # As earlier versions stored a Swiss mobile, and as its messenger sends it.
    ids = [client.make(phone=phone) for phone in ("+4941791234568", "+41791234568")]
    for named in ("41791234568", "+41791234568"):
        with pytest.raises(Conflict) as told:
            erase_person.find(hub, client.account, named)
        assert all(str(id) in told.value.message for id in ids)


def test_a_phone_of_several_people_names_them(hub: Hub, client: Client) -> None:
    ids = [client.make(email=f"{n}@x.org", phone=PHONE) for n in "ab"]
    with pytest.raises(Conflict) as told:
        erase_person.find(hub, client.account, "+49 30 901777")
    assert all(str(id) in told.value.message for id in ids)
    found = erase(hub, client, "a@x.org")
    assert found.contacts == (ids[0],)
    assert found.same_phone == (str(ids[1]),)
    assert client.get(f"/contacts/{ids[1]}").status_code == 200


def test_a_text_that_is_two_things_wants_to_be_told_as_which(hub: Hub, client: Client) -> None:
    id = client.make(email="a@x.org")
    known(client, str(id), email="b@x.org")
    with pytest.raises(Conflict) as told:
        erase_person.find(hub, client.account, str(id))
    assert "as id: " in told.value.message
    assert "--as" in told.value.message
    person, _ = erase_person.find(hub, client.account, str(id), "token")
    assert person is not None
    assert person.emails == {"b@x.org"}


def test_an_email_that_became_somebody_elses_leads_to_both(hub: Hub, client: Client) -> None:
    first = known(client, "t", email="typo@x.org")
    client.patch(f"/contacts/{first}", {"properties": {"email": EMAIL}})
    second = client.make(email="typo@x.org")
    with pytest.raises(Conflict) as told:
        erase_person.find(hub, client.account, "typo@x.org")
    assert first in told.value.message
    assert str(second) in told.value.message
    assert erase(hub, client, EMAIL).contacts == (int(first),)
    assert client.get(f"/contacts/{second}").status_code == 200


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("path", [SET_PROPERTIES, CREATE_DEAL])
def test_a_call_that_looked_before_the_erasure_and_writes_after_it_is_refused(
    hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    known(client, TOKEN, email=EMAIL)
    ((hub_id,),) = query(hub, client, "select hub_id from binding where 1 = 1")

    # SQLite's one writer at a time lets nobody in between.
    def late(*args: Any) -> bool:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(erase, hub, client, EMAIL).result()
        return note_chat(*args)

    for place in ("helpers.contact_properties.note_chat", "identity.chats.note_chat"):
        monkeypatch.setattr(f"crmhub.{place}", late)
    body = {"contactToken": TOKEN, "props": {"city": CITY}}
    if path == CREATE_DEAL:
        body = {"contactId": hub_id, "properties": {"dealname": CITY}}
    assert client.helper(path, body).status_code == 404
    assert left(hub, PLANTED, client.account.id) == []


def test_a_new_lead_makes_a_new_contact(hub: Hub, client: Client) -> None:
    first = known(client, "t", email=EMAIL)
    erase(hub, client, first)
    second = known(client, "t", email=EMAIL)
    assert second != first
    assert total(client) == 1
    whole(hub, client)


def test_all_actions_of_a_person_go(hub: Hub, client: Client) -> None:
    contact_id = known(client, email=EMAIL)
    for i in range(7):
        body = {"contactId": contact_id, "properties": {"dealname": f"{i}"}}
        assert client.helper(CREATE_DEAL, body).status_code == 200
    assert erase(hub, client, EMAIL).actions == {"done": 8}
    assert rows(hub, client, "id") == rows(hub, client, "action_id", "action_try") == []


# --- What has not been sent yet ---------------------------------------------------------------


@pytest.mark.usefixtures("fakes")
def test_what_waits_is_not_sent(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    known(bot, email=EMAIL, phone=PHONE)
    crm.failure = Denied(f"the token of {EMAIL} was refused")
    assert lead(bot, email=EMAIL, name=FIRST).status_code == 202
    assert lead(bot, "of another", email="b@x.org").status_code == 202
    assert EMAIL in rows(hub, bot, "reason", "outage")[0][0]
    found = erase(hub, bot, EMAIL)
    assert found.elsewhere == (("fake", "c-1"),)
    assert found.actions == {"done": 1, "queued": 1}
    assert found.outage_reasons == 1
    assert left(hub, PLANTED, bot.account.id) == []
    crm.failure = None
    crm.calls.clear()
    finish_all(hub, bot)
    assert states(hub, bot) == ["done"]
    assert crm.contacts["c-1"]["firstname"] == "Ann"


@pytest.mark.usefixtures("fakes")
def test_who_shares_no_more_than_a_phone_stays_until_included(
    app: flask.Flask, hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    switch(app, bot, lead_requires="email_or_phone")
    known(bot, TOKEN, name=FIRST, email=EMAIL, phone=PHONE)
    crm.failure = Denied("the token was refused")
    for token in ("by-phone", "of-their-family"):
        assert lead(bot, token, name=token, email=None, phone=PHONE).status_code == 202
    named = dict(query(hub, bot, "select contact_token, hub_id from binding where 1 = 1"))
    person, _ = erase_person.find(hub, bot.account, EMAIL)
    assert person is not None
    seen = erase_person.preview(hub, bot.account, person)
    assert {*seen.same_phone} == {named["by-phone"], named["of-their-family"]}
    assert seen.actions == {"done": 1}
    person = erase_person.include(hub, bot.account, person, [named["by-phone"]])
    found = erase_person.erase(hub, bot.account, person, by=TESTS)
    assert found.actions == {"done": 1, "queued": 1}
    assert found.same_phone == (named["of-their-family"],)
    assert left(hub, [EMAIL, TOKEN, "by-phone"], bot.account.id) == []
    assert query(hub, bot, "select contact_token from binding where 1 = 1") == [
        ("of-their-family",)
    ]
    assert states(hub, bot) == ["queued"]


def test_only_who_has_the_phone_can_be_included(hub: Hub, client: Client) -> None:
    client.make(email=EMAIL, phone=PHONE)
    stranger = client.make(email="stranger@x.org")
    person, _ = erase_person.find(hub, client.account, EMAIL)
    assert person is not None
    with pytest.raises(BadRequest, match=f"{stranger} has none of the person's phones"):
        erase_person.include(hub, client.account, person, [str(stranger)])


@pytest.mark.usefixtures("fakes")
def test_what_may_have_been_written_is_told(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    crm.failure = Uncertain("the connection broke")
    assert lead(bot, email=EMAIL).status_code == 202
    ((action_id,),) = rows(hub, bot, "id")
    (one,) = erase(hub, bot, EMAIL).unconfirmed
    assert (one.action_id, one.kind, one.adapter) == (action_id, "createLead", "fake")


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.usefixtures("fakes")
def test_a_call_under_way_leaves_nothing_behind(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    erased = []

    def meanwhile(call: str) -> None:
        if call == "create_contact":
            with ThreadPoolExecutor(1) as pool:
                erased.append(pool.submit(erase, hub, bot, EMAIL).result())

    crm.during = meanwhile
    assert lead(bot, TOKEN, email=EMAIL).status_code == 202
    assert [one.kind for one in erased[0].unconfirmed] == ["createLead"]
    assert gone(hub, bot, EMAIL)
    assert gone(hub, bot, TOKEN)
    assert left(hub, PLANTED, bot.account.id) == []


@pytest.mark.usefixtures("fakes")
def test_what_others_wait_behind_goes_and_they_are_shown(
    app: flask.Flask, hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    switch(app, bot, deadline_s=5)
    open_circuit(hub, bot.account, "away")
    for email in (EMAIL, "b@x.org"):
        assert lead(bot, "shared", email=email).status_code == 202
    crm.failure = Rejected([])
    finish_all(hub, bot)
    # Both were thought to be one contact then.
    (first, _), (second, _) = rows(hub, bot, "id, state")
    parked = "state = 'parked', behind = :first where action.id = :second"
    change(hub, bot, parked, first=first, second=second)
    erase(hub, bot, EMAIL)
    assert rows(hub, bot, "state, behind") == [("dead", None)]
    assert left(hub, PLANTED, bot.account.id) == []


def test_what_operators_noted_of_them_on_actions_of_others_goes(hub: Hub, client: Client) -> None:
    for token in ("one", "two"):
        known(client, token, name="Bob", email=f"{token}@x.org")
    (first,), (second,) = rows(hub, client, "id")
    change(hub, client, "state = 'dead', finished_at = created_at")
    correct(hub, first, {"email": EMAIL}, by=TESTS)
    change(hub, client, "state = 'dead', finished_at = created_at")
    correct(hub, first, {"email": "right@x.org"}, by=TESTS)
    discard_one(hub.database, second, reason=f"The same as {EMAIL.upper()}", by=TESTS)
    known(client, TOKEN, email=EMAIL)
    found = erase(hub, client, EMAIL)
    assert (found.notes, found.actions) == (2, {"done": 1})
    assert left(hub, PLANTED, client.account.id) == []
    assert sorted(rows(hub, client, "state, reason, versions")) == [
        ("discarded", "The reason named a person who was erased.", None),
        ("queued", "", None),
    ]


@pytest.mark.usefixtures("fakes")
def test_messages_and_reasons_on_actions_of_others_name_the_person_no_more(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = Denied(f"{FIRST} {LAST} has {EMAIL.upper()} and {PHONE}, or {PHONE[1:]}.")
    lead(bot, "bobs", name="Bob", email="bob@x.org", phone="")
    crm.failure = None
    for state in ("queued", "dead", "parked", "refused"):
        lead(bot, state, name="Bob", email=f"{state}@x.org", phone="")
        ended = "state = :now, reason = :text, finished_at = created_at where reason = ''"
        change(hub, bot, ended, now=state, text=f"The same as {EMAIL}, says bobby@x.org")
    lead(bot, TOKEN, name=f"{FIRST} {LAST}", email=EMAIL, phone=PHONE)
    assert erase(hub, bot, EMAIL).notes > 4
    assert left(hub, PLANTED, bot.account.id) == []
    reasons = {reason for (reason,) in rows(hub, bot, "reason")}
    assert "The same as •••, says bobby@x.org" in reasons


def test_events_of_others_name_the_person_no_more(hub: Hub, client: Client) -> None:
    subscribe(hub, client, "*")
    named = {"firstname": FIRST, "lastname": LAST, "email": EMAIL, "phone": PHONE}
    bob = client.make(firstname="Bob", email="old@x.org", city="Berlin")
    client.patch(f"/contacts/{bob}", {"properties": {"email": "bob@x.org"}})
    client.make("deals", dealname=f"Offer for {FIRST} {LAST}", amount="12")
    client.make(**named)
    client.patch(f"/contacts/{bob}", {"properties": {"jobtitle": f"Aide of {EMAIL}"}})
    assert erase(hub, client, EMAIL).events > 2
    told = [json.loads(each.data) for each in events_of(hub, client)]
    assert not any(text in str(told) for text in (EMAIL, PHONE[1:], FIRST))
    kept = [one["properties"] for one in told if "amount" in one["properties"]]
    assert kept[0]["dealname"] == "Offer for •••"
    assert kept[0]["amount"] == "12"
    assert any(one["properties"].get("city") == "Berlin" for one in told)


def test_notes_on_an_action_go_with_it(hub: Hub, client: Client) -> None:
    known(client, TOKEN, name=FIRST, email=EMAIL)
    ((id,),) = rows(hub, client, "id")
    change(hub, client, "state = 'dead', finished_at = created_at")
    correct(hub, id, {"name": LAST}, by=TESTS)
    discard_one(hub.database, id, reason=f"{FIRST} asked for it", by=TESTS)
    assert erase(hub, client, EMAIL).actions == {"discarded": 1}
    assert left(hub, PLANTED, client.account.id) == []


def entry_of(hub: Hub, client: Client, action: Action) -> Entry:
    """Accept an action and return it in the hands of a process that is slow to begin."""
    entry = accept(hub, client, action, now=True).entry
    assert entry is not None
    return entry


def test_what_a_slow_process_does_later_makes_no_record(hub: Hub, client: Client) -> None:
    action = CreateLead(TOKEN, FIRST, EMAIL, PHONE)
    entry = entry_of(hub, client, action)
    assert erase(hub, client, EMAIL).actions == {"running": 1}
    tried = attempt(hub, client.account, entry, action, action.mapped(client.account), waits=False)
    assert tried is None
    assert total(client) == 0
    assert left(hub, PLANTED, client.account.id) == []


def test_what_a_slow_process_changes_later_changes_nothing(hub: Hub, client: Client) -> None:
    known(client, TOKEN, email=EMAIL)
    action = SetProperties(TOKEN, {"city": CITY})
    entry = entry_of(hub, client, action)
    erase(hub, client, TOKEN)
    attempt(hub, client.account, entry, action, action.mapped(client.account), waits=False)
    assert total(client) == 0
    assert left(hub, PLANTED, client.account.id) == []


@pytest.mark.databases("sqlite", "postgresql")
def test_people_are_erased_while_leads_come_in(
    app: flask.Flask, settings: Settings, hub: Hub, client: Client
) -> None:
    switch(app, client, deadline_s=3)
    answers: list[int] = []
    stop = threading.Event()

    def call(n: int) -> None:
        while not stop.is_set():
            answers.append(lead(client, f"{TOKEN}{n}", email=EMAIL, phone=PHONE).status_code)
            body = {"contactToken": f"{TOKEN}{n}", "props": {"city": CITY}}
            answers.append(client.helper(SET_PROPERTIES, body).status_code)

    own = Hub.open(settings)
    try:
        with ThreadPoolExecutor(3) as pool:
            calls = [pool.submit(call, n) for n in range(3)]
            try:
                for _ in range(4):
                    soon(lambda: not gone(own, client, EMAIL))
                    erase(own, client, EMAIL)
            finally:
                stop.set()
            for each in calls:
                each.result()
    finally:
        own.close()
    # A call that met an erasure is told that its conversation has no contact, or is queued.
    assert set(answers) <= {200, 202, 404}
    whole(hub, client)
    work_off(hub, client)
    person, _ = erase_person.find(hub, client.account, EMAIL)
    if person is not None:
        erase_person.erase(hub, client.account, person, by=TESTS)
    assert left(hub, PLANTED, client.account.id) == []
    whole(hub, client)


def test_a_text_is_found_however_it_is_written() -> None:
    for written in (
        b"x Ada@X.org y",
        b"ada%40x.org",
        b"6164614078.6f7267".replace(b".", b"2e"),
        b"eyJlbWFpbCI6ImFkYUB4Lm9yZyJ9",
    ):
        assert any(form in written.lower() for form in forms("ada@x.org")), written
    assert not any(form in b"ada@y.org" for form in forms("ada@x.org"))


def test_files_of_imports_go_since_they_may_name_anybody(hub: Hub, client: Client) -> None:
    def upload(account: Account) -> ImportJob:
        file = BytesIO(f"email\n{EMAIL}\n".encode("utf-16"))
        return import_jobs.upload(hub, account, CONTACTS, file, file_name="p.csv", by=TESTS)

    client.make(email=EMAIL)
    draft, running = upload(client.account), upload(client.account)
    running_imports.start(hub, client.account, running, running.settings, dry_run=False)
    erase(hub, client, EMAIL)
    with pytest.raises(NotFound):
        import_jobs.find(hub, client.account, draft.id)
    assert rows(hub, client, "job_id", "import_part") == [(running.id,)]
    assert import_jobs.find(hub, client.account, running.id).state != "draft"
