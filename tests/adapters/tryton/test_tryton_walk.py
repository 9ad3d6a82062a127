"""From a lead to a deal and a ticket: a bot's calls through the hub into a real Tryton."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import flask
import pytest

from tests.adapters.tryton.tryton_crm import SECRETS, SETTINGS, TrytonCrm
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_TASK,
    CREATE_TICKET,
    GET_PROPERTIES,
    GET_RANDOM_INT,
    GET_TYPE,
    SET_PROPERTIES,
    create_lead_answer,
)
from tests.clients import Client, open_client
from tests.fakes import adapters, connect

TRYTON = EntryPoint("tryton", "adapters.tryton:TrytonAdapter", "crmhub.adapters")
ANN = {"name": "Ann van der Lee", "email": "Ann@Example.org", "phone": "+49 1512 3456789"}


@pytest.fixture
def bot(app: flask.Flask, tryton_crm: TrytonCrm) -> Iterator[Client]:
    with adapters(app, TRYTON):
        client = open_client(app)
        own = {"base_url": tryton_crm.url, "database": tryton_crm.tryton.database}
        connect(app, client, "tryton", SECRETS, **{**SETTINGS, **own})
        yield client


@pytest.mark.databases("postgresql")
def test_a_lead_becomes_a_party_with_a_deal_and_a_ticket(
    bot: Client, tryton_crm: TrytonCrm
) -> None:
    made = create_lead_answer(bot, "t", **ANN)
    assert (made["status"], made["refused"]) == ("created", "")
    assert create_lead_answer(bot, "t", **ANN)["status"] == "unchanged"
    id = made["contactId"]
    changed = {"contactToken": "t", "props": {"mobilephone": "+491601234567", "nonsense": "x"}}
    answer = bot.helper(SET_PROPERTIES, changed).json
    assert (answer["status"], "nonsense" in answer["refused"]) == ("updated", True)  # type: ignore[index]
    asked = {"contactToken": "t", "props": ["firstname", "lastname", "email", "mobilephone"]}
    assert bot.helper(GET_PROPERTIES, asked).json["properties"] == {  # type: ignore[index]
        "firstname": "Ann",
        "lastname": "van der Lee",
        "email": "ann@example.org",
        "mobilephone": "+491601234567",
    }
    deal = {"dealname": "Blue chairs", "amount": "1250", "dealstage": "opportunity"}
    for path, properties in (
        (CREATE_DEAL, deal),
        (CREATE_TICKET, {"subject": "A leg broke", "content": "The left one"}),
    ):
        answer = bot.helper(path, {"contactId": id, "properties": properties}).json
        assert (answer["status"], answer["refused"]) == ("created", ""), answer  # type: ignore[index]
    [opportunity] = tryton_crm.linked("deals", id).values()
    assert opportunity.items() >= deal.items()
    [task] = tryton_crm.linked("tickets", id).values()
    assert (task["subject"], task["content"]) == ("A leg broke", "The left one")
    said = {"subject": "Call Ann\nback", "notes": "Before ten", "due": "2031-01-31"}
    body = {"contactId": id, "properties": said}
    answer = bot.helper(CREATE_TASK, body).json
    assert (answer["status"], "due" in answer["refused"]) == ("created", True)  # type: ignore[index]
    notes = {"subject": "Call Ann back", "notes": "Before ten"}
    assert tryton_crm.tasks(id) == {answer["taskId"]: notes}  # type: ignore[index]
    assert len(tryton_crm.linked("tickets", id)) == len(tryton_crm.contacts()) == 1


@pytest.mark.databases("postgresql")
def test_without_a_project_for_tasks_they_are_refused(
    app: flask.Flask, bot: Client, tryton_crm: TrytonCrm
) -> None:
    id = create_lead_answer(bot, "t", **ANN)["contactId"]
    own = {"base_url": tryton_crm.url, "database": tryton_crm.tryton.database}
    connect(app, bot, "tryton", SECRETS, **{**SETTINGS, **own, "tasks": ""})
    answer = bot.helper(CREATE_TASK, {"contactId": id, "properties": {"subject": "Call Ann"}})
    assert (answer.status_code, "Project for tasks" in answer.json["message"]) == (422, True)  # type: ignore[index]


@pytest.mark.databases("postgresql")
def test_helpers_that_need_no_crm_answer_as_ever(bot: Client) -> None:
    assert bot.helper(GET_RANDOM_INT, {"min": 3, "max": 3}).json["value"] == 3  # type: ignore[index]
    of = {"contactnumber": "+12025550100", "interval": 48, "lastChatInterval": 0}
    assert bot.helper(GET_TYPE, of).status_code == 200
