"""An account changes its CRM: at once, and what was accepted for the former one is decided on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import flask
import pytest

from crmhub.accounts.directory import Directory
from crmhub.adapter import Unavailable, Uncertain
from crmhub.hub import Hub
from crmhub.secrets import BASE36, token
from tests.admin import Admin
from tests.api.helpers.helper_calls import CREATE_DEAL, known, lead, switch
from tests.api.refusals import refused
from tests.clients import Client
from tests.fakes import BATCHING, CRMS, FAKE, FakeCrm, adapters
from tests.queue.working import change, empty, hurry, rows, soon, states, working

AWAY = Unavailable("no route")


@pytest.fixture(autouse=True)
def two_adapters(app: flask.Flask) -> Iterator[None]:
    with adapters(app, FAKE, BATCHING):
        yield


@pytest.fixture
def other_crm() -> tuple[str, FakeCrm]:
    """The name of another CRM, and that."""
    name = token(60, BASE36)
    return name, CRMS.setdefault(name, FakeCrm())


def leave(admin: Admin, client: Client, name: str, **queued: str) -> Any:
    """Let the account use the other CRM from now on."""
    body = {"adapter": "batching", "settings": {"crm": name}, **queued}
    return admin.put(f"/accounts/{client.account.client_id}/connection", body)


def queue(client: Client, crm: FakeCrm, *people: str) -> dict[str, str]:
    """Let leads of these people be queued, since the CRM is away; return their hub ids."""
    crm.failure = AWAY
    answers = {who: lead(client, who, email=f"{who}@x.org") for who in people}
    crm.failure = None
    assert {answer.status_code for answer in answers.values()} == {202}
    return {who: answer.get_json()["contactId"] for who, answer in answers.items()}


def emails(crm: FakeCrm) -> set[str]:
    return {stored["email"].partition("@")[0] for stored in crm.contacts.values()}


def finish(hub: Hub, client: Client) -> None:
    """Let a worker do all that is unfinished, now."""
    with working(hub):
        soon(lambda: hurry(hub, client) or empty(hub, client), seconds=60)


def test_what_is_queued_must_be_decided(
    hub: Hub, admin: Admin, bot: Client, crm: FakeCrm, other_crm: tuple[str, FakeCrm]
) -> None:
    queue(bot, crm, "a", "b")
    message = refused(leave(admin, bot, other_crm[0]), 409)
    assert message.startswith("queued: 2 actions are queued for fake; say finish (there), move")
    assert admin.get(f"/accounts/{bot.account.client_id}").get_json()["adapter"] == "fake"
    refused(leave(admin, bot, other_crm[0], queued="forget"), 400)
    # The same adapter with other settings leaves nothing behind.
    body = {"adapter": "fake", "settings": {"crm": other_crm[0]}}
    path = f"/accounts/{bot.account.client_id}/connection"
    assert admin.put(path, body).status_code == 200
    assert states(hub, bot) == ["queued", "queued"]


def test_what_is_finished_there_does_not_follow(
    hub: Hub, admin: Admin, bot: Client, crm: FakeCrm, other_crm: tuple[str, FakeCrm]
) -> None:
    name, other = other_crm
    queue(bot, crm, "a", "b")
    shown = leave(admin, bot, name, queued="finish").get_json()
    assert shown["former"] == [{"id": 2, "adapter": "fake", "queued": 2, "running": 0}]
    known(bot, "c", email="c@x.org")
    finish(hub, bot)
    assert (emails(crm), emails(other)) == ({"a", "b"}, {"c"})
    path = f"/accounts/{bot.account.client_id}/connection"
    assert admin.get(path).get_json()["former"] == []


def test_what_is_dropped_is_in_no_crm_until_it_is_retried(
    hub: Hub, admin: Admin, bot: Client, crm: FakeCrm, other_crm: tuple[str, FakeCrm]
) -> None:
    name, other = other_crm
    queue(bot, crm, "a", "b")
    assert leave(admin, bot, name, queued="drop").get_json()["former"] == []
    assert states(hub, bot) == ["refused"] * 2
    ((reason,), _) = rows(hub, bot, "reason")
    assert reason == "Dropped by an operator, who changed the CRM from fake to batching."
    body = {"account": bot.account.client_id, "state": ["refused"]}
    assert admin.post("/actions/retry", body).get_json() == {"retried": 2}
    finish(hub, bot)
    assert (emails(crm), emails(other)) == ({"a", "b"}, set())


def test_what_is_moved_lands_in_the_new_crm_under_the_same_id(
    app: flask.Flask,
    hub: Hub,
    admin: Admin,
    bot: Client,
    crm: FakeCrm,
    other_crm: tuple[str, FakeCrm],
) -> None:
    # Nobody works off the lead meanwhile, for which the deal waits.
    switch(app, bot, deadline_s=1)
    name, other = other_crm
    ids = queue(bot, crm, "a", "b")
    assert leave(admin, bot, name, queued="move").get_json()["former"] == []
    deal = {"contactId": ids["a"], "properties": {"dealname": "A deal"}}
    assert bot.helper(CREATE_DEAL, deal).status_code in (200, 202)
    finish(hub, bot)
    assert (emails(crm), emails(other)) == (set(), {"a", "b"})
    ((_, contact_id, _),) = other.linked
    assert other.contacts[contact_id]["email"] == "a@x.org"
    # The conversation goes on there, too.
    assert other.contacts[known(bot, "a", email="a@x.org")]["email"] == "a@x.org"
    assert len(other.contacts) == 2
    entry = admin.get(f"/audit?account={bot.account.client_id}").get_json()["results"][0]
    assert entry["after"]["queued"] == {"move": 2}


def test_whom_the_former_crm_may_know_stays_there(
    hub: Hub, admin: Admin, bot: Client, crm: FakeCrm, other_crm: tuple[str, FakeCrm]
) -> None:
    name, other = other_crm
    known_id = known(bot, "known", email="known@x.org")
    queue(bot, crm, "known", "dead", "free")
    crm.failure = Uncertain("no answer")
    assert lead(bot, "doubtful", email="doubtful@x.org").status_code == 202
    crm.failure = AWAY
    deal = {"contactId": known_id, "properties": {"dealname": "A deal"}}
    bot.helper(CREATE_DEAL, deal)
    bot.helper(CREATE_DEAL, {**deal, "contactId": "c-of-the-crm"})
    crm.failure = None
    dying = "state = 'dead', finished_at = 1 where request like '%dead@x.org%'"
    assert change(hub, bot, dying) == 1
    shown = leave(admin, bot, name, queued="move").get_json()
    assert [(one["adapter"], one["queued"]) for one in shown["former"]] == [("fake", 4)]
    finish(hub, bot)
    assert emails(other) == {"free"}
    assert emails(crm) == {"known", "doubtful"}
    assert sorted(states(hub, bot)) == ["dead"] * 2 + ["done"] * 5
    assert len(crm.linked) == 1


def test_who_was_discarded_before_the_former_crm_knew_moves(
    hub: Hub, admin: Admin, bot: Client, crm: FakeCrm, other_crm: tuple[str, FakeCrm]
) -> None:
    name, other = other_crm
    for who in ("told", "doubtful"):
        queue(bot, crm, who, who)
    assert len(rows(hub, bot, "id")) == 4
    former = "state = 'discarded', finished_at = 1 where id = :it"
    for who, doubt in (("told", None), ("doubtful", 1)):
        first = min(id for id, said in rows(hub, bot, "id, request") if f"{who}@x.org" in said)
        change(hub, bot, former, it=first)
        change(hub, bot, "doubt_since = :doubt where id = :it", doubt=doubt, it=first)
    leave(admin, bot, name, queued="move")
    finish(hub, bot)
    assert (emails(other), emails(crm)) == ({"told"}, {"doubtful"})


def test_who_has_spoken_to_the_new_crm_meanwhile_stays(
    hub: Hub, bot: Client, crm: FakeCrm, other_crm: tuple[str, FakeCrm], admin: Admin
) -> None:
    from crmhub.operators.crm import switch_crm

    name, other = other_crm
    queue(bot, crm, "a", "b", "c")
    before = hub.load_account(bot.account.client_id)
    leave(admin, bot, name, queued="finish")
    after = hub.load_account(bot.account.client_id)
    known(bot, "a", email="z@x.org"), known(bot, "y", email="b@x.org")
    assert switch_crm.move(hub.database, before, after) == 1
    finish(hub, bot)
    assert (emails(crm), emails(other)) == ({"a", "b"}, {"z", "b", "c"})
    assert switch_crm.move(hub.database, before, after) == 0


def test_an_action_under_way_finishes_where_it_began(
    hub: Hub, admin: Admin, bot: Client, crm: FakeCrm, other_crm: tuple[str, FakeCrm]
) -> None:
    name, other = other_crm

    def switch(call: str) -> None:
        crm.during = None
        shown = leave(admin, bot, name, queued="move").get_json()
        assert shown["former"] == [{"id": 2, "adapter": "fake", "queued": 0, "running": 1}]

    crm.during = switch
    known(bot, "a", email="a@x.org")
    known(bot, "b", email="b@x.org")
    assert (emails(crm), emails(other)) == ({"a"}, {"b"})


def test_a_process_that_remembers_the_account_follows_by_itself(
    hub: Hub, admin: Admin, bot: Client, other_crm: tuple[str, FakeCrm]
) -> None:
    elsewhere = Directory(hub.database, hub.plans)

    def adapter() -> str:
        found = elsewhere.by_api_key(bot.key)
        assert found is not None
        return found.account.connection.adapter

    assert adapter() == "fake"
    leave(admin, bot, other_crm[0])
    soon(lambda: adapter() == "batching", seconds=60)
    elsewhere.close()


LEADS = 200


@pytest.mark.databases("sqlite", "postgresql")
def test_each_lead_of_many_lands_in_one_crm(
    hub: Hub, admin: Admin, bot: Client, crm: FakeCrm, other_crm: tuple[str, FakeCrm]
) -> None:
    """While 200 leads come in, the account changes its CRM; some of them are queued just then."""
    name, other = other_crm
    crm.during = lambda _call: time.sleep(0.002)
    queue(bot, crm, *(f"q{n}" for n in range(10)))
    hurry(hub, bot)
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(lead, bot, f"t{n}", email=f"l{n}@x.org") for n in range(LEADS // 2)]
        answers[20].result()
        assert leave(admin, bot, name, queued="move").status_code == 200
        answers += [
            pool.submit(lead, bot, f"t{n}", email=f"l{n}@x.org") for n in range(LEADS // 2, LEADS)
        ]
        statuses = {answer.result().status_code for answer in answers}
    assert statuses <= {200, 202}
    finish(hub, bot)
    assert states(hub, bot) == ["done"] * (LEADS + 10)
    expected = {f"l{n}" for n in range(LEADS)} | {f"q{n}" for n in range(10)}
    assert emails(crm) | emails(other) == expected
    assert emails(crm) & emails(other) == set()
    assert len(crm.contacts) + len(other.contacts) == LEADS + 10
    # What came after the answer to the operator came to the new one.
    assert {f"l{n}" for n in range(LEADS // 2, LEADS)} <= emails(other)
