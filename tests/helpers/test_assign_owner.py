"""assignOwner: one owner from a team, chosen once, set in the CRM, kept where it is there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub.errors import Semantic
from crmhub.helpers.assign_owner import AssignOwner
from crmhub.hub import Hub
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.correct_action import correct, values_of
from crmhub.operators.erasure import erase_person
from crmhub.operators.teams import change_team
from crmhub.queue import accepting
from crmhub.teams import choosing
from tests.api.helpers.helper_calls import CREATE_DEAL, OWN, known, lead, stored, switch
from tests.api.helpers.test_helpers_on_hubspot import use
from tests.clients import TESTS, Client, open_client
from tests.events.receivers import subscribe
from tests.queue.working import finish_all, rows, work_off

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


def test_an_equal_call_after_another_owner_is_a_new_call(app: flask.Flask, bot: Client) -> None:
    make_team(app, bot, "Support", ["Dan <dan@x.org>"])
    contact_id = known(bot)
    first = assign(bot, contact_id)
    assert assign(bot, contact_id, team="Support")["ownerId"] == "dan@x.org"
    again = assign(bot, contact_id)
    assert (again["status"], again["ownerId"]) == ("updated", "ben@x.org")
    assert again["actionId"] != first["actionId"]
    assert assign(bot, contact_id) == {**again, "status": "unchanged"}
    # Outside the helpers, too.
    bot.patch(f"/contacts/{contact_id}", {"properties": {"hubspot_owner_id": "ana@x.org"}})
    third = assign(bot, contact_id)
    assert (third["ownerId"], third["reason"]) == ("ana@x.org", "Kept: already owns this contact.")


def test_an_equal_call_after_a_queued_other_owner_is_a_new_call(
    app: flask.Flask, hub: Hub, hubspot: Client, fake: FakeHubSpot
) -> None:
    owners = change_team.owners_of(hub, hubspot.account)
    assert owners is not None
    make_team(app, hubspot, "Support", [owners[-1].id])
    fake.fail(503, times=None)
    contact_id = lead(hubspot).json["contactId"]  # type: ignore[index]
    calls: list[Json] = [{"keep": False}, {"team": "Support", "keep": False}, {"keep": False}]
    told = [assign(hubspot, contact_id, **fields) for fields in calls]
    assert len({one["actionId"] for one in told}) == 3
    fake.faults.clear()
    finish_all(hub, hubspot)
    [held] = fake.contacts.values()
    assert held["hubspot_owner_id"] == told[-1]["ownerId"]


def test_a_set_owner_ends_the_answer_of_an_equal_call(hubspot: Client) -> None:
    contact_id = known(hubspot)
    first = assign(hubspot, contact_id, keep=False)
    second = assign(hubspot, contact_id, keep=False, team="sales")
    assert second["ownerId"] != first["ownerId"]
    path = "/chatbot/setProperties/{generated}"
    body = {"contactToken": "t", "props": {"hubspot_owner_id": first["ownerId"]}}
    assert hubspot.helper(path, body).status_code == 200
    again = assign(hubspot, contact_id, keep=False, team="sales")
    assert again["actionId"] != second["actionId"]


def test_what_the_builder_did_not_fill_in_is_named(bot: Client) -> None:
    sent = {"team": "{{team}}", "dealId": "null", "keep": "{{keep}}"}
    answer = assign(bot, known(bot), **sent)
    assert (answer["status"], answer["value"], answer["refused"]) == ("updated", 1, "team,dealId")
    assert "{{team}}" in answer["message"]


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


def test_the_present_owner_of_the_crm_is_kept(hubspot: Client, fake: FakeHubSpot) -> None:
    contact_id = known(hubspot)
    first, second = [one["id"] for one in fake.portal.owners if not one["archived"]][:2]
    fake.update(fake.load("contacts", contact_id), {"hubspot_owner_id": second})
    answer = assign(hubspot, contact_id)
    assert (answer["status"], answer["ownerId"], answer["value"]) == ("unchanged", second, 2)
    assert assign(hubspot, known(hubspot, "u", email="u@x.org"))["ownerId"] == first


def test_an_owner_that_the_crm_refuses_is_passed_over_and_flagged(
    app: flask.Flask, hub: Hub, hubspot: Client, fake: FakeHubSpot
) -> None:
    gone, left = [one for one in fake.portal.owners if not one["archived"]][:2]
    gone["archived"] = True
    answer = assign(hubspot, known(hubspot))
    assert answer["ownerId"] == left["id"]
    assert "was refused by the CRM. On duty" in answer["reason"]
    team = change_team.find_team(hub, hubspot.account.client_id, "Sales")
    assert [bool(one.problem) for one in team.members][:2] == [True, False]
    again = assign(hubspot, known(hubspot, "u", email="u@x.org"))
    assert again["ownerId"] != gone["id"]
    assert again["reason"] == "On duty, next by round robin."


def test_if_the_crm_refuses_every_owner_the_call_is_refused(
    hubspot: Client, fake: FakeHubSpot
) -> None:
    contact_id = known(hubspot)
    for one in fake.portal.owners:
        one["archived"] = True
    answer = hubspot.helper(ASSIGN, {"contactId": contact_id})
    assert answer.status_code == 422
    assert "hubspot_owner_id" in answer.json["message"]  # type: ignore[index]


def test_while_the_crm_is_unavailable_a_new_lead_gets_its_owner_at_once(
    hub: Hub, hubspot: Client, fake: FakeHubSpot
) -> None:
    fake.fail(503, times=None)
    contact_id = lead(hubspot).json["contactId"]  # type: ignore[index]
    told = assign(hubspot, contact_id)
    assert told["status"] == "queued"
    assert told["ownerId"]
    assert told["value"] == 1
    fake.faults.clear()
    finish_all(hub, hubspot)
    [held] = fake.contacts.values()
    assert held["hubspot_owner_id"] == told["ownerId"]
    second = assign(hubspot, known(hubspot, "u", email="u@x.org"))
    assert second["value"] == 2


def test_while_the_crm_is_unavailable_an_unknown_owner_is_read_first(
    hub: Hub, hubspot: Client, fake: FakeHubSpot
) -> None:
    contact_id = known(hubspot)
    fake.fail(503, times=None)
    told = assign(hubspot, contact_id)
    assert (told["status"], told["ownerId"], told["value"], told["text"]) == ("queued", "", 0, "0")
    assert "must first tell" in told["reason"]
    without = assign(hubspot, contact_id, keep="no")
    assert without["value"] == 1
    fake.faults.clear()
    finish_all(hub, hubspot)
    assert fake.contacts[contact_id]["hubspot_owner_id"]


def test_a_kill_between_choice_and_write_chooses_nobody_else(
    app: flask.Flask, hub: Hub, hubspot: Client, fake: FakeHubSpot, monkeypatch: pytest.MonkeyPatch
) -> None:
    contact_id = known(hubspot)
    action = AssignOwner(contact_id)
    accepted = accepting.accept(
        hub.database,
        hubspot.account,
        lambda tx: action.enter(tx, hubspot.account, None),
        lease_s=0,
        now=False,
    )
    with hub.database.reading() as db:
        assert choosing.of_action(db, hubspot.account.id, accepted.action_id) is None
    # The process dies after the choice.
    chosen = hub.database.transact(
        lambda tx: action.choice(tx, hubspot.account, accepted.action_id, None).choose("")
    )
    for _ in range(3):
        again = hub.database.transact(
            lambda tx: action.choice(tx, hubspot.account, accepted.action_id, None).choose("")
        )
        assert again == chosen
    change_team.remove_member(hub, hubspot.account.client_id, "Sales", chosen.owner_id, by=TESTS)
    work_off(hub, hubspot)
    assert fake.contacts[contact_id]["hubspot_owner_id"] == chosen.owner_id


# --- duty and room ---------------------------------------------------------------------------

FAR = 4_102_444_800_000


def test_who_is_off_duty_away_or_without_weight_is_not_chosen(
    app: flask.Flask, bot: Client
) -> None:
    member(app, bot, "ana@x.org", away_until=FAR)
    member(app, bot, "ben@x.org", weight=0)
    values = [assign(bot, id)["value"] for id in contacts(bot, 3)]
    assert values == [3, 3, 3]


def test_without_anybody_the_fallback_gets_the_contact(app: flask.Flask, bot: Client) -> None:
    for owner in ("ana@x.org", "ben@x.org", "cleo@x.org"):
        member(app, bot, owner, away_until=FAR)
    answer = bot.helper(ASSIGN, {"contactId": known(bot)})
    assert answer.status_code == 200
    assert answer.json["reason"].startswith("Nobody is on duty; Ana starts 2100-01-01")  # type: ignore[index]
    hub: Hub = app.extensions["crmhub"]
    change_team.set_team(
        hub, bot.account.client_id, "Sales", fallback="Boss <boss@x.org>", by=TESTS
    )
    told = assign(bot, known(bot, "u", email="u@x.org"))
    assert (told["ownerId"], told["ownerName"], told["value"]) == ("boss@x.org", "Boss", 0)
    assert told["reason"] == "Nobody is on duty; this is the team's fallback."


def test_if_nobody_can_ever_be_chosen_the_call_is_refused(app: flask.Flask, bot: Client) -> None:
    for owner in ("ana@x.org", "ben@x.org", "cleo@x.org"):
        member(app, bot, owner, weight=0)
    answer = bot.helper(ASSIGN, {"contactId": known(bot)})
    assert answer.status_code == 422
    assert "weight 0" in answer.json["message"]  # type: ignore[index]


def test_nobody_gets_more_leads_a_day_than_their_capacity(app: flask.Flask, bot: Client) -> None:
    member(app, bot, "ana@x.org", leads_per_day=1)
    member(app, bot, "ben@x.org", leads_per_day=2)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda id: assign(bot, id), contacts(bot, 8)))
    counts = Counter(answer["value"] for answer in answers)
    assert (counts[1], counts[2], counts[3]) == (1, 2, 5)
    member(app, bot, "cleo@x.org", leads_per_day=5)
    late = assign(bot, known(bot, "u", email="u@x.org"))
    assert late["reason"].startswith("Everybody on duty is at capacity; ")
    assert " starts " in late["reason"]


def test_nobody_gets_more_open_deals_than_their_capacity(app: flask.Flask, bot: Client) -> None:
    member(app, bot, "ben@x.org", weight=0)
    member(app, bot, "ana@x.org", open_deals=2)
    bot.make("deals", hubspot_owner_id="ana@x.org", dealstage="closedwon")
    bot.make("deals", hubspot_owner_id="ana@x.org")

    def one(contact_id: str) -> int:
        body = {"contactId": contact_id, "properties": {"dealname": "A deal"}}
        deal_id = bot.helper(CREATE_DEAL, body).json["dealId"]  # type: ignore[index]
        value: int = assign(bot, contact_id, dealId=deal_id)["value"]
        return value

    with ThreadPoolExecutor(4) as pool:
        counts = Counter(pool.map(one, contacts(bot, 5)))
    assert counts == {1: 1, 3: 4}


def test_open_deals_need_records_to_count(hubspot: Client, app: flask.Flask, hub: Hub) -> None:
    [one, *_] = change_team.find_team(hub, hubspot.account.client_id, "Sales").members
    with pytest.raises(Semantic, match="cannot count the open deals"):
        member(app, hubspot, one.owner_id, open_deals=3)


# --- what goes with it -----------------------------------------------------------------------


def test_the_event_is_told_once_and_not_for_a_kept_owner(bot: Client, hub: Hub) -> None:
    subscribe(hub, bot, "owner.assigned")
    contact_id = known(bot)
    assign(bot, contact_id)
    assign(bot, contact_id, keep="1", team="Sales")
    [event] = [json.loads(data) for (data,) in rows(hub, bot, "data", "event")]
    assert event["properties"] == {"hubspot_owner_id": "ana@x.org"}
    assert event["owner"] == {"id": "ana@x.org", "name": "Ana", "email": "ana@x.org"}
    assert (event["id"], event["team"]) == (contact_id, "Sales")


def test_an_erased_person_leaves_no_assignment(bot: Client, hub: Hub) -> None:
    assign(bot, known(bot))
    assert len(rows(hub, bot, "owner_id", "team_assignment")) == 1
    person, _ = erase_person.find(hub, bot.account, "ann@x.org")
    assert person is not None
    erase_person.erase(hub, bot.account, person, by=TESTS)
    assert rows(hub, bot, "owner_id", "team_assignment") == []


def test_a_failed_call_is_corrected_and_chooses_again(
    app: flask.Flask, hub: Hub, hubspot: Client, fake: FakeHubSpot
) -> None:
    contact_id = known(hubspot)
    action = AssignOwner(contact_id, deal_id="404404404")
    accepted = accepting.accept(
        hub.database,
        hubspot.account,
        lambda tx: action.enter(tx, hubspot.account, None),
        lease_s=0,
        now=False,
    )
    work_off(hub, hubspot)
    found = action_queries.shown(hub.database, accepted.action_id)
    assert found.summary.state == "dead"
    assert "dealId" in found.summary.reason
    assert values_of("assignOwner", found.request)["dealId"] == "404404404"
    correct(hub, accepted.action_id, {"dealId": ""}, by=TESTS)
    work_off(hub, hubspot)
    assert fake.contacts[contact_id]["hubspot_owner_id"]


def test_a_rotation_becomes_a_team(app: flask.Flask, hub: Hub) -> None:
    client = open_client(app)
    switch(app, client, rotation="weighted:2,1")
    client_id = client.account.client_id
    with pytest.raises(Semantic, match="2 weights"):
        change_team.make_of_rotation(hub, client_id, "Sales", owners=["a@x.org"], by=TESTS)
    team = change_team.make_of_rotation(
        hub, client_id, "Sales", owners=["a@x.org", "b@x.org"], by=TESTS
    )
    assert (team.rotation, [one.weight for one in team.members]) == ("weighted", [2, 1])
    counts = Counter(assign(client, id)["value"] for id in contacts(client, 6))
    assert counts == {1: 4, 2: 2}
