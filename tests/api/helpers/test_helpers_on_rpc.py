"""The helpers on a CRM with a login, one name, credits and errors in successes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import flask
import pytest

from crmhub.adapter.oauth import KEPT
from crmhub.crm.stored_connections import open_credentials
from crmhub.hub import Hub
from tests.adapter.rpc_crm import PASSWORD, USER, Roster
from tests.clients import Client, open_client
from tests.fakes import adapters, connect

ROSTER = EntryPoint("roster", "tests.adapter.rpc_adapter:RosterAdapter", "crmhub.adapters")
CREATE_LEAD = "/chatbot/createLead/{generated}"
GET_PROPERTIES = "/chatbot/getProperties/{generated}"
SET_PROPERTIES = "/chatbot/setProperties/{generated}"


@pytest.fixture
def crm() -> Iterator[Roster]:
    with Roster() as crm:
        yield crm


@pytest.fixture
def bot(app: flask.Flask, crm: Roster) -> Iterator[Client]:
    with adapters(app, ROSTER):
        client = open_client(app)
        connect(
            app, client, "roster", {"password": PASSWORD}, login_url=crm.urls["login"], user=USER
        )
        yield client


def names(bot: Client) -> object:
    asked = {"contactToken": "t", "props": ["name", "firstname", "lastname"]}
    return bot.helper(GET_PROPERTIES, asked).json["properties"]  # type: ignore[index]


def test_first_and_last_name_come_back_as_they_were_sent(bot: Client, crm: Roster) -> None:
    lead = {"contactToken": "t", "name": "Ada Byron", "email": "ada@example.com"}
    made = bot.helper(CREATE_LEAD, lead).json
    assert made["status"] == "created", made  # type: ignore[index]
    [record] = crm.records["contacts"].values()
    assert record["values"]["name"] == "Ada Byron"
    bot.helper(SET_PROPERTIES, {"contactToken": "t", "props": {"firstname": "Ada Augusta"}})
    assert names(bot) == {
        "name": "Ada Augusta Byron",
        "firstname": "Ada Augusta",
        "lastname": "Byron",
    }


def test_a_lead_that_says_the_same_name_again_changes_nothing(bot: Client, crm: Roster) -> None:
    lead = {"contactToken": "t", "name": "Ada of Lovelace", "email": "ada@example.com"}
    said = [bot.helper(CREATE_LEAD, lead).json["status"] for _ in range(2)]  # type: ignore[index]
    assert said == ["created", "unchanged"]


def test_one_session_serves_all_calls_and_is_stored_sealed(
    app: flask.Flask, bot: Client, crm: Roster
) -> None:
    for n in (1, 2, 3):
        lead = {"contactToken": "t" * n, "name": "Ada", "email": f"ada{n}@example.com"}
        assert bot.helper(CREATE_LEAD, lead).json["status"] == "created"  # type: ignore[index]
    hub: Hub = app.extensions["crmhub"]
    account = hub.load_account(bot.account.client_id)
    kept = open_credentials(hub.vault, account)[KEPT]
    assert (crm.logins, "session-1-of-roster" in kept) == (1, True)
    crm.sessions.clear()
    assert names(bot) is not None
    assert crm.logins <= 2
