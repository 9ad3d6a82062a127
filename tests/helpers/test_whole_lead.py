"""createLead with a note and a team: one call, three actions in order, none of them alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS
from crmhub.records import timeline
from tests.api.helpers.helper_calls import CREATE_LEAD, lead, stored, switch
from tests.clients import Client
from tests.helpers.test_assign_owner import bot as bot
from tests.helpers.test_assign_owner import fake as fake
from tests.helpers.test_assign_owner import hubspot as hubspot
from tests.queue.working import finish_all, rows

WHOLE = {"note": [{"from": "Ann", "text": "hi"}], "team": "Sales"}
KINDS = ["createLead", "addNote", "assignOwner"]
Json = Any


def kinds(hub: Hub, client: Client) -> list[tuple[str, str]]:
    return [tuple(row) for row in rows(hub, client, "kind, state")]


def notes(hub: Hub, client: Client, contact_id: str) -> list[str]:
    with hub.database.reading() as connection:
        found = timeline.latest(connection, client.account.id, timeline.OWN, CONTACTS, [contact_id])
    return [one.text for one in found]


def test_one_call_stores_lead_note_and_owner(hub: Hub, bot: Client) -> None:
    answer = lead(bot, **WHOLE)
    assert answer.status_code == 200, answer.text
    said: Json = answer.json
    assert (said["status"], said["refused"], said["message"]) == ("created", "", "")
    assert (said["ownerId"], said["value"], said["text"]) == ("ana@x.org", 1, "1")
    assert stored(bot, said["contactId"])["hubspot_owner_id"] == "ana@x.org"
    assert notes(hub, bot, said["contactId"]) == ["Ann: hi"]
    assert kinds(hub, bot) == [(kind, "done") for kind in KINDS]


def test_the_same_call_adds_nothing_twice(hub: Hub, bot: Client) -> None:
    headers = {"Idempotency-Key": "k"}
    body = {"contactToken": "t", "name": "Ann", "email": "ann@x.org", **WHOLE}
    path = "/chatbot/createLead/{generated}"
    first, again = (bot.helper(path, body, headers=headers) for _ in range(2))
    assert first.json == again.json
    for other in ({**body, "note": "x"}, {**body, "team": ""}, {**body, "note": None}):
        answer = bot.helper(path, other, headers=headers)
        assert answer.status_code in (200, 422), answer.text
    contact_id = first.json["contactId"]
    assert notes(hub, bot, contact_id) == ["Ann: hi"]
    assert kinds(hub, bot) == [(kind, "done") for kind in KINDS]


def test_a_repeated_call_without_a_key_adds_no_second_note(hub: Hub, bot: Client) -> None:
    first, again = (lead(bot, **WHOLE).json for _ in range(2))
    for key in ("contactId", "noteId", "ownerId"):
        assert first[key] == again[key] != ""
    assert notes(hub, bot, first["contactId"]) == ["Ann: hi"]


@pytest.mark.parametrize(
    ("sent", "refused"),
    [
        ({"note": "{{transcript}}", "team": "Sales"}, "note"),
        ({"note": {"a": 1}, "team": "Sales"}, "note"),
        ({"note": "hi", "team": "Nobody"}, "team"),
        ({"note": "hi", "team": "{{team}}"}, "team"),
        ({"note": "hi", "team": ["Sales"]}, "team"),
    ],
)
def test_what_is_wrong_beside_a_lead_does_not_lose_it(
    bot: Client, sent: dict[str, Any], refused: str
) -> None:
    answer: Json = lead(bot, **sent).json
    assert (answer["status"], answer["refused"]) == ("created", refused)
    assert refused in answer["message"]
    assert bool(answer["noteId"]) is (refused != "note")
    assert bool(answer["ownerId"]) is (refused != "team")
    assert bool(answer["reason"]) is (refused != "team")


@pytest.mark.parametrize(
    "sent", [{"note": {"a": 1}}, {"note": "hi", "team": "Nobody"}, {"team": "{{team}}"}]
)
def test_a_strict_account_stores_no_lead_with_what_is_wrong(
    app: flask.Flask, hub: Hub, bot: Client, sent: dict[str, Any]
) -> None:
    switch(app, bot, strict=True)
    answer = lead(bot, **sent)
    assert answer.status_code == 422, answer.text
    assert [*sent][-1] in answer.json["message"]
    assert kinds(hub, bot) == []
    assert bot.get("/contacts").json["total"] == 0


def test_blank_ones_are_none(hub: Hub, bot: Client) -> None:
    answer: Json = lead(bot, note="", team=" ").json
    assert (answer["status"], answer["refused"]) == ("created", "")
    assert not {"noteId", "ownerId"} & answer.keys()
    assert kinds(hub, bot) == [("createLead", "done")]


def test_a_refused_lead_takes_the_others_with_it(
    app: flask.Flask, hub: Hub, hubspot: Client, fake: FakeHubSpot
) -> None:
    switch(app, hubspot, strict=True)
    fake.fail(400, times=None, method="POST|PATCH")
    body = {"contactToken": "t", "name": "Ann", "email": "ann@x.org", **WHOLE}
    call = partial(hubspot.helper, CREATE_LEAD, body, headers={"Idempotency-Key": "k"})
    first, again = call(), call()
    assert (first.status_code, again.status_code) == (422, 422)
    assert first.json["message"] == again.json["message"]
    assert kinds(hub, hubspot) == [(kind, "refused") for kind in KINDS]
    assert not fake.records("notes")


def test_they_wait_for_an_unavailable_crm_in_order(
    hub: Hub, hubspot: Client, fake: FakeHubSpot
) -> None:
    fake.fail(503, times=None)
    answer = lead(hubspot, **WHOLE)
    said: Json = answer.json
    assert (answer.status_code, said["status"]) == (202, "queued")
    assert said["contactId"].startswith("hub-")
    assert said["noteId"] == ""
    assert said["ownerId"]
    fake.faults.clear()
    finish_all(hub, hubspot)
    assert kinds(hub, hubspot) == [(kind, "done") for kind in KINDS]
