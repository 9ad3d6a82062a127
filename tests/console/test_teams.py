"""An account's page "Teams": teams are made, changed and removed, without JavaScript."""

from __future__ import annotations

import re

import pytest

from crmhub.hub import Hub
from crmhub.operators.teams import change_team
from tests.api.helpers.helper_calls import switch
from tests.clients import TESTS, Client
from tests.consoles import Operator, text_of

pytestmark = pytest.mark.databases("sqlite")


def path(client: Client, *parts: str) -> str:
    return "/".join((f"/accounts/{client.account.client_id}/teams", *parts))


def test_a_team_is_made_changed_and_removed(hub: Hub, client: Client, operator: Operator) -> None:
    assert "No teams" in text_of(operator.get(path(client)))
    form = {
        "team": "Sales",
        "rotation": "weighted",
        "owners": "Ana Ruiz <ana@x.org>\r\n\r\nben@x.org",
    }
    made = operator.send(path(client), form, at=path(client))
    assert made.status_code == 303
    assert "Ana Ruiz" in text_of(operator.get(path(client)))
    [team] = change_team.list_teams(hub, client.account.client_id)
    assert [one.owner_id for one in team.members] == ["ana@x.org", "ben@x.org"]
    saved = operator.send(path(client, "Sales"), changed(), at=path(client, "Sales"))
    assert saved.status_code == 303, text_of(saved)
    [team] = change_team.list_teams(hub, client.account.client_id)
    assert [(one.owner_id, one.weight, one.leads_per_day) for one in team.members] == [
        ("ben@x.org", 0, None),
        ("ana@x.org", 5, 12),
        ("cleo@x.org", 1, None),
    ]
    assert team.members[1].hours == "mon-fri 09:00-17:00"
    assert team.fallback is not None
    operator.send(path(client, "Sales", "remove"), at=path(client, "Sales"))
    assert change_team.list_teams(hub, client.account.client_id) == []


def changed(**values: str) -> dict[str, object]:
    ana = ["2", "Ana", "ana@x.org", "5", "mon-fri 09:00-17:00", "Europe/Madrid", "2026-12-25"]
    ben = ["1", "", "ben@x.org", "0", "", "UTC", ""]
    names = ("place", "name", "email", "weight", "hours", "time_zone", "days_off")
    rows = {name: list(pair) for name, pair in zip(names, zip(ana, ben, strict=True), strict=True)}
    return {
        "team": "Sales",
        "rotation": "weighted",
        "fallback": "boss@x.org",
        "days_off_team": "2026-12-24",
        "position": "1",
        "add": "cleo@x.org",
        "owner": ["ana@x.org", "ben@x.org"],
        "away_until": ["2030-01-01T09:00", ""],
        "open_deals": ["", "3"],
        "leads_per_day": ["12", ""],
        **rows,
        **values,
    }


def test_a_fault_keeps_what_was_typed(hub: Hub, client: Client, operator: Operator) -> None:
    client_id = client.account.client_id
    change_team.set_team(hub, client_id, "Sales", members=["ana@x.org", "ben@x.org"], by=TESTS)
    form = {**changed(), "hours": ["whenever it suits", ""]}
    answer = operator.send(path(client, "Sales"), form, at=path(client, "Sales"))
    assert answer.status_code == 422
    assert "Ana: hours: " in text_of(answer)
    assert 'value="whenever it suits"' in answer.text


def test_a_form_that_others_changed_meanwhile_is_not_saved(
    hub: Hub, client: Client, operator: Operator
) -> None:
    client_id = client.account.client_id
    change_team.set_team(hub, client_id, "Sales", members=["ana@x.org", "ben@x.org"], by=TESTS)
    seen = re.search(r'name="seen" value="([^"]*)"', operator.get(path(client, "Sales")).text)
    assert seen is not None
    change_team.set_member(hub, client_id, "Sales", "ana@x.org", weight=7, by=TESTS)
    form = changed(seen=seen[1])
    answer = operator.send(path(client, "Sales"), form, at=path(client, "Sales"))
    assert answer.status_code == 409


def test_a_renamed_team_keeps_its_members_and_their_leads_of_the_day(
    hub: Hub, client: Client, operator: Operator
) -> None:
    client_id = client.account.client_id
    for team in ("Sales", "Support"):
        change_team.set_team(hub, client_id, team, members=["ana@x.org"], by=TESTS)
    change_team.set_team(hub, client_id, "Sales", fallback="boss@x.org", by=TESTS)
    change_team.set_member(hub, client_id, "Sales", "ana@x.org", leads_per_day=1, by=TESTS)

    def assign(team: str) -> tuple[int, str]:
        body = {"contactId": str(client.make("contacts")), "team": team}
        answer = client.helper("/crm-api-interface/assignOwner/{portal}", body)
        return answer.status_code, answer.get_json().get("ownerId", "")

    def rename(team: str) -> int:
        form = {"team": team, "rotation": "round_robin", "fallback": "boss@x.org", "position": ""}
        member = {"owner": "ana@x.org", "place": "1", "weight": "1", "time_zone": "UTC"}
        rest = dict.fromkeys(("name", "email", "hours", "days_off", "away_until", "open_deals"), "")
        whole = {**form, **member, **rest, "leads_per_day": "1", "days_off_team": "", "add": ""}
        return operator.send(path(client, "Sales"), whole, at=path(client, "Sales")).status_code

    assert assign("Sales") == (200, "ana@x.org")
    assert (rename("support"), rename("<b>")) == (409, 422)
    assert rename("Sales Europe") == 303
    assert [one.name for one in change_team.list_teams(hub, client_id)] == [
        "Sales Europe",
        "Support",
    ]
    assert assign("Sales Europe") == (200, "boss@x.org")
    # Bots and queued calls send the former name until another team gets it.
    assert assign("sales") == (200, "boss@x.org")
    change_team.set_team(hub, client_id, "SALES", members=["ben@x.org"], by=TESTS)
    assert assign("Sales") == (200, "ben@x.org")


def test_a_team_is_made_of_the_rotation(hub: Hub, client: Client, operator: Operator) -> None:
    client_id = client.account.client_id
    switch(operator.http.application, client, rotation="weighted:5,3")
    form = {"team": "Sales", "owners": "a@x.org\nb@x.org", "of_rotation": "true"}
    assert operator.send(path(client), form, at=path(client)).status_code == 303
    [team] = change_team.list_teams(hub, client_id)
    assert [one.weight for one in team.members] == [5, 3]
