"""assignOwner: one owner from a team, chosen once, set in the CRM, kept where it is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub.hub import Hub
from crmhub.operators.teams import change_team
from tests.api.helpers.helper_calls import CREATE_DEAL, OWN, known, stored
from tests.api.helpers.test_helpers_on_hubspot import use
from tests.clients import TESTS, Client, open_client

ASSIGN = "/crm-api-interface/assignOwner/{portal}"
Json = Any


@pytest.fixture
def bot(app: flask.Flask) -> Client:
    """A caller of an account with its own records and the team Sales: Ana, Ben and Cleo."""
    client = open_client(app)
    owners = ["Ana <ana@x.org>", "Ben <ben@x.org>", "Cleo <cleo@x.org>"]
    make_team(app, client, "Sales", owners)
    return client


@pytest.fixture
def fake() -> Iterator[FakeHubSpot]:
    with FakeHubSpot(Options(limit="100000/10s", search_limit="none")) as fake:
        yield fake


@pytest.fixture
def hubspot(app: flask.Flask, fake: FakeHubSpot) -> Client:
    """A caller of an account with HubSpot and a team of all its owners."""
    client = open_client(app)
    use(app, client, fake, access_token=fake.token)
    hub: Hub = app.extensions["crmhub"]
    owners = change_team.owners_of(hub, client.account)
    assert owners is not None
    assert len(owners) >= 2
    make_team(app, client, "Sales", [one.id for one in owners])
    return client


def make_team(app: flask.Flask, client: Client, name: str, owners: list[str], **more: Any) -> None:
    hub: Hub = app.extensions["crmhub"]
    client_id = client.account.client_id
    change_team.set_team(hub, client_id, name, members=owners, by=TESTS, **more)


def member(
    app: flask.Flask, client: Client, owner: str, team: str = "Sales", **values: Any
) -> None:
    hub: Hub = app.extensions["crmhub"]
    change_team.set_member(hub, client.account.client_id, team, owner, by=TESTS, **values)


def assign(client: Client, contact_id: str, /, **fields: Json) -> Json:
    answer = client.helper(ASSIGN, {"contactId": contact_id, **fields})
    assert answer.status_code in (200, 202), answer.text
    return answer.json


def contacts(client: Client, n: int) -> list[str]:
    return [known(client, f"t{i}", email=f"p{i}@x.org") for i in range(n)]


def test_the_owner_is_set_and_told(bot: Client) -> None:
    contact_id = known(bot)
    answer = assign(bot, contact_id)
    assert list(answer) == [*OWN, "ownerId", "ownerName", "ownerEmail", "value", "text", "reason"]
    assert {**answer, "actionId": ""} == {
        "status": "updated",
        "message": "",
        "actionId": "",
        "stale": "",
        "refused": "",
        "ownerId": "ana@x.org",
        "ownerName": "Ana",
        "ownerEmail": "ana@x.org",
        "value": 1,
        "text": "1",
        "reason": "On duty, next by round robin.",
    }
    assert stored(bot, contact_id)["hubspot_owner_id"] == "ana@x.org"


def test_a_present_owner_is_kept(bot: Client) -> None:
    contact_id = known(bot)
    assert assign(bot, contact_id)["value"] == 1
    again = assign(bot, contact_id, keep="true", team="sales")
    assert (again["status"], again["value"]) == ("unchanged", 1)
    assert again["reason"] == "Kept: already owns this contact."
    assert assign(bot, contact_id, keep=False)["value"] == 2
    assert stored(bot, contact_id)["hubspot_owner_id"] == "ben@x.org"


def test_an_equal_call_answers_the_first_result(bot: Client) -> None:
    contact_id = known(bot)
    first = assign(bot, contact_id)
    second = assign(bot, contact_id)
    assert second == {**first, "status": "unchanged"}


def test_the_deal_gets_the_owner_too(bot: Client) -> None:
    contact_id = known(bot)
    body = {"contactId": contact_id, "properties": {"dealname": "A deal"}}
    deal_id = bot.helper(CREATE_DEAL, body).json["dealId"]  # type: ignore[index]
    assign(bot, contact_id, dealId=deal_id)
    deal = bot.get(f"/deals/{deal_id}").json["properties"]  # type: ignore[index]
    assert deal["hubspot_owner_id"] == "ana@x.org"
    missing = bot.helper(ASSIGN, {"contactId": contact_id, "dealId": "1"})
    assert missing.status_code == 404
    assert "dealId" in missing.json["message"]  # type: ignore[index]


def test_calls_at_once_are_spread_evenly(app: flask.Flask, bot: Client) -> None:
    ids = contacts(bot, 12)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda id: assign(bot, id), ids))
    assert Counter(answer["value"] for answer in answers) == {1: 4, 2: 4, 3: 4}


def test_an_account_without_a_team_is_told_how_to_make_one(app: flask.Flask) -> None:
    client = open_client(app)
    answer = client.helper(ASSIGN, {"contactId": known(client)})
    assert answer.status_code == 422
    assert "crmhub team set" in answer.json["message"]  # type: ignore[index]


def test_an_unknown_team_is_refused_with_the_teams(bot: Client) -> None:
    answer = bot.helper(ASSIGN, {"contactId": known(bot), "team": "Support"})
    assert answer.status_code == 422
    assert answer.json["message"].startswith("team: ")  # type: ignore[index]
    assert "Sales" in answer.json["message"]  # type: ignore[index]


# --- another CRM -----------------------------------------------------------------------------


def test_hubspot_gets_the_owner(hubspot: Client, fake: FakeHubSpot) -> None:
    contact_id = known(hubspot)
    answer = assign(hubspot, contact_id)
    assert answer["status"] == "updated"
    assert answer["ownerName"]
    assert answer["ownerEmail"]
    assert fake.contacts[contact_id]["hubspot_owner_id"] == answer["ownerId"]
