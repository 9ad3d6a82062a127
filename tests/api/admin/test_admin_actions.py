"""/admin/v1/actions: what helpers accepted, seen, retried, corrected and discarded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crmhub.database.connection import now_ms
from crmhub.hub import Hub
from crmhub.operators.actions import retry_action
from crmhub.queue import accepting
from crmhub.queue.models import Accepted, New, new_id
from crmhub.records.search.filters import iso
from tests.admin import Admin
from tests.api.helpers.helper_calls import known
from tests.api.refusals import refused
from tests.clients import TESTS, Client
from tests.queue.outcomes import open_circuit
from tests.queue.working import change, rows, states, work_off

Json = Any


def actions(admin: Admin, client: Client, /, **params: str) -> list[Json]:
    """Return the account's actions that a list shows."""
    answer = admin.get("/actions", query_string={"account": client.account.client_id, **params})
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.get_json()["results"]
    return found


def queue(hub: Hub, client: Client, n: int = 1) -> list[str]:
    """Accept actions of one person, which keeps their order; return their ids, the first first."""

    def accept(i: int) -> Accepted:
        new = New("createLead", "p", "hub-1", {"token": f"t{i}"})
        options = {"lease_s": 30, "wait_s": 600}
        return accepting.accept(hub.database, client.account, lambda _tx: new, now=False, **options)

    return [accept(i).action_id for i in range(n)]


def end(hub: Hub, client: Client, id: str, state: str, reason: str = "") -> None:
    """Let an action have come to an end."""
    change(
        hub,
        client,
        "state = :state, reason = :reason, finished_at = :now, tries = 8 where id = :it",
        state=state,
        reason=reason,
        now=now_ms(),
        it=id,
    )


# --- list --------------------------------------------------------------------------------------


def test_a_list_shows_the_newest_first(admin: Admin, client: Client) -> None:
    known(client, "a"), known(client, "b", email="b@x.org")
    second, first = actions(admin, client)
    assert first["actionId"] < second["actionId"]
    assert list(first) == [
        "actionId", "clientId", "helper", "state", "contactId", "tries", "reason", "acceptedAt",
        "nextTryAt", "endedAt", "parkedBehind",
    ]  # fmt: skip
    shown = (first["clientId"], first["helper"], first["state"], first["nextTryAt"])
    assert shown == (client.account.client_id, "createLead", "done", None)


def test_pages_hold_everything_once(hub: Hub, admin: Admin, client: Client) -> None:
    ids = queue(hub, client, 7)
    link = f"?account={client.account.client_id}&state=queued,dead&limit=3"
    seen = []
    for size in (3, 3, 1):
        page = admin.get(f"/actions{link}").get_json()
        assert list(page) == ["results", "cursor", "hasMore"]
        assert len(page["results"]) == size
        seen += [one["actionId"] for one in page["results"]]
        assert page["hasMore"] is bool(page["cursor"]["next"])
        link = page["cursor"]["nextLink"]
    assert (seen, link) == (ids[::-1], "")


def test_a_cursor_brings_its_filters_along_and_takes_no_others(
    hub: Hub, admin: Admin, client: Client, other: Client
) -> None:
    queue(hub, client, 3), queue(hub, other, 3)
    mine = {"account": client.account.client_id, "limit": "1", "olderThan": "0s"}
    cursor = admin.get("/actions", query_string=mine).get_json()["cursor"]["next"]
    page = admin.get("/actions", query_string={"cursor": cursor, "limit": "9"}).get_json()
    assert {one["clientId"] for one in page["results"]} == {client.account.client_id}
    assert len(page["results"]) == 2
    again = admin.get("/actions", query_string={**mine, "cursor": cursor})
    assert again.status_code == 200
    theirs = {"account": other.account.client_id, "cursor": cursor}
    assert "other filters" in refused(admin.get("/actions", query_string=theirs), 400)
    of_records = client.get("/contacts?limit=1").get_json()["cursor"]["next"] or "x"
    refused(admin.get(f"/actions?cursor={of_records}"), 400)


def test_a_list_is_narrowed(hub: Hub, admin: Admin, client: Client) -> None:
    phone = "+12025550134"
    known(client, "a", phone=phone)
    contact_id = known(client, "b", email="b@x.org")
    client.helper(
        "/chatbot/setProperties/{generated}", {"contactToken": "b", "props": {"city": "R"}}
    )
    (dead,) = queue(hub, client)
    end(hub, client, dead, "dead", "Denied: 100% of the SCOPES are missing")

    def found(**params: str) -> list[str]:
        return [f"{one['helper']} {one['state']}" for one in actions(admin, client, **params)]

    assert len(found()) == 4
    assert found(state="dead") == found(state="dead,parked") == ["createLead dead"]
    assert found(helper="setProperties") == ["setProperties done"]
    assert found(contactToken="b") == ["setProperties done", "createLead done"]
    assert found(phone="+1 (202) 555-0134") == ["createLead done"]
    assert found(contactId=contact_id) == ["setProperties done", "createLead done"]
    assert found(contactId="hub-1") == found(contactId="nobody", state="done") == []
    assert found(reason="100% of the scopes") == ["createLead dead"]
    assert (
        len(found(newerThan="1h")) == len(found(when="24h")) == len(found(when="2000-01-01..")) == 4
    )
    assert len(found(ended="24h")) == 4
    assert found(when="..2000-01-01") == found(ended="..2000-01-01") == []
    assert found(reason="1_0%") == found(phone="nonsense") == found(contactToken="nobody") == []
    assert found(state="running") == found(olderThan="1h") == []
    assert len(found(olderThan="0s", limit="100")) == 4
    # As messengers show it, whatever the region.
    assert found(phone="12025550134") == found(phone="001 202 555-0134") == ["createLead done"]
    everywhere = admin.get("/actions?phone=12025550134&contactToken=a").get_json()["results"]
    assert {one["clientId"] for one in everywhere} >= {client.account.client_id}


def test_old_actions_are_found_by_their_age(hub: Hub, admin: Admin, client: Client) -> None:
    young, old = queue(hub, client, 2)
    ago = now_ms() - 3 * 3_600_000
    aged = new_id(ago)
    aging = "id = :new, created_at = :ago where id = :old"
    change(hub, client, aging, new=aged, ago=ago, old=old)
    assert [one["actionId"] for one in actions(admin, client, olderThan="2h")] == [aged]
    assert actions(admin, client, olderThan="4h") == []
    assert [one["actionId"] for one in actions(admin, client, newerThan="2h")] == [young]
    assert [one["actionId"] for one in actions(admin, client)] == [young, aged]


@pytest.mark.databases("sqlite")
def test_a_query_that_cannot_be_read_is_400(admin: Admin) -> None:
    for query, words in [
        (
            "nope=1",
            "known are limit, cursor, account, state, helper, contactToken",
        ),
        ("state=lost", "does not know 'lost'; known are running, queued, done"),
        ("helper=createContact", "known are createLead"),
        ("olderThan=soon", "olderThan: must be a number and s, m, h, d or w"),
        ("phone=%20", "phone: is blank"),
        ("account=", "account: is blank"),
        ("limit=101", "limit: must be a whole number from 1 to 100"),
        ("cursor=x", "cursor: this is no cursor"),
    ]:
        assert words in refused(admin.get(f"/actions?{query}"), 400)


def test_an_account_that_is_not_there_is_404(admin: Admin) -> None:
    assert "clientId 'nobody'" in refused(admin.get("/actions?account=nobody"), 404)
    assert "clientId 'nobody'" in refused(admin.post("/actions/retry", {"account": "nobody"}), 404)


# --- one ---------------------------------------------------------------------------------------


def test_an_action_is_shown_with_each_try(admin: Admin, client: Client) -> None:
    contact_id = known(client)
    (listed,) = actions(admin, client)
    whole = admin.get(f"/actions/{listed['actionId']}").get_json()
    assert {name: whole[name] for name in listed} == listed
    assert "ann@x.org" in json.dumps(whole["request"])
    assert whole["result"]["contact_id"] == contact_id
    (attempt,) = whole["attempts"]
    assert (attempt["number"], attempt["at"] >= whole["acceptedAt"]) == (1, True)


def test_an_action_that_is_not_there_is_404(admin: Admin) -> None:
    for id in ("act-0", "x", "x" * 5000):
        assert "no action" in refused(admin.get(f"/actions/{id}"), 404)
        assert "no action" in refused(admin.post(f"/actions/{id}/retry"), 404)


def test_what_waits_with_its_crm_is_tried_with_it(hub: Hub, admin: Admin, client: Client) -> None:
    (id,) = queue(hub, client)
    change(hub, client, "run_at = :now", now=now_ms())
    open_circuit(hub, client.account, "no route", "Unavailable")
    with hub.database.reading() as connection:
        until = connection.scalar(
            "select until from outage where account_id = :account", {"account": client.account.id}
        )
    path = f"/actions?account={client.account.client_id}"
    [listed] = admin.get(path).get_json()["results"]
    assert listed["nextTryAt"] == admin.get(f"/actions/{id}").get_json()["nextTryAt"] == iso(until)


# --- retry -------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["dead", "parked", "refused", "queued"])
def test_what_has_stopped_is_tried_again(
    hub: Hub, admin: Admin, client: Client, state: str
) -> None:
    (id,) = queue(hub, client)
    if state != "queued":
        end(hub, client, id, state)
    answer = admin.post(f"/actions/{id}/retry")
    assert (answer.status_code, answer.get_json()) == (200, {"retried": 1})
    assert rows(hub, client, "state, tries, finished_at") == [("queued", 0, None)]
    ((run_at,),) = rows(hub, client, "run_at")
    assert run_at <= now_ms()


@pytest.mark.parametrize(
    ("state", "words"),
    [("done", "The action is done; only dead, refused"), ("running", "The action is in progress")],
)
def test_what_has_not_stopped_is_409(
    hub: Hub, admin: Admin, client: Client, state: str, words: str
) -> None:
    (id,) = queue(hub, client)
    change(hub, client, "state = :state", state=state)
    assert words in refused(admin.post(f"/actions/{id}/retry"), 409)
    assert states(hub, client) == [state]


def test_what_is_parked_comes_back_with_what_it_waits_for(
    hub: Hub, admin: Admin, client: Client
) -> None:
    first, second, third = queue(hub, client, 3)
    end(hub, client, first, "dead")
    for id in (second, third):
        end(hub, client, id, "parked")
    change(hub, client, "behind = :first where state = 'parked'", first=first)
    assert admin.post(f"/actions/{first}/retry").get_json() == {"retried": 3}
    assert rows(hub, client, "state, behind") == [("queued", None)] * 3


def test_many_are_chosen_by_what_they_have_in_common(
    hub: Hub, admin: Admin, client: Client, other: Client
) -> None:
    ids, theirs = queue(hub, client, 4), queue(hub, other, 1)
    ends = [("dead", "Denied"), ("dead", "no stage"), ("refused", "Denied"), ("done", "")]
    for id, (state, reason) in zip(ids, ends, strict=True):
        end(hub, client, id, state, reason)
    end(hub, other, theirs[0], "dead", "Denied")
    body: dict[str, Json] = {"account": client.account.client_id, "reason": "denied"}
    assert admin.post("/actions/retry", body).get_json() == {"retried": 1}
    assert states(hub, client) == ["queued", "dead", "refused", "done"]
    body["state"] = ["refused", "dead"]
    assert admin.post("/actions/retry", body).get_json() == {"retried": 1}
    assert admin.post("/actions/retry", {"ids": ids}).get_json() == {"retried": 3}
    assert states(hub, client) == ["queued"] * 3 + ["done"]
    assert states(hub, other) == ["dead"]


@pytest.mark.databases("sqlite")
def test_a_choice_that_says_nothing_or_too_much_is_400(admin: Admin) -> None:
    for body, words in [
        ({}, "chooses nothing; send ids, or narrow by account"),
        ({"ids": []}, "ids: is empty"),
        ({"account": "acme", "state": []}, "state: is empty"),
        ({"account": "acme", "phone": ""}, "phone: is blank"),
        ({"account": "acme", "limit": 5}, "limit: is not known here; known are account"),
        ({"state": ["lost"]}, "does not know 'lost'"),
        ({"state": "dead"}, "state: must be an array"),
        ({"olderThan": 5}, "olderThan: must be a string"),
        ({"ids": ["x"] * 10_001}, "ids: 10001 ids; send 1 to 10000"),
    ]:
        assert words in refused(admin.post("/actions/retry", body), 400)


def test_ten_thousand_dead_ones_come_back_in_one_call(
    hub: Hub, admin: Admin, client: Client
) -> None:
    n, moment = 10_000, now_ms()
    template = {"connection_id": 1, "kind": "createLead", "hub_id": "hub-1", "state": "dead"}
    template |= {"request": "{}", "tries": 8, "run_at": moment, "give_up_at": moment}
    template |= {"reason": "away", "created_at": moment, "finished_at": moment}
    numbers = {
        name: "bigint" if isinstance(each, int) else "text" for name, each in template.items()
    }
    types = {"account_id": "integer", "id": "text", "person": "text", **numbers}
    ids = [new_id(moment) for _ in range(n)]
    made = [(client.account.id, id, f"p{i}", *template.values()) for i, id in enumerate(ids)]
    hub.database.transact(lambda tx: tx.insert("action", types, made))
    chosen: dict[str, Json]
    for chosen in ({"account": client.account.client_id}, {"ids": ids}):
        answer = admin.post("/actions/retry", chosen)
        assert (answer.status_code, answer.get_json()) == (200, {"retried": n})
    assert set(states(hub, client)) == {"queued"}


# --- correct and discard -----------------------------------------------------------------------


def failed(hub: Hub, client: Client) -> str:
    """Let the lead of `known` have failed, and return its action's id."""
    known(client)
    (id,) = rows(hub, client, "id")[-1]
    end(hub, client, id, "dead", "no such stage")
    return str(id)


def test_values_are_corrected_and_both_versions_shown(
    hub: Hub, admin: Admin, client: Client
) -> None:
    id = failed(hub, client)
    body = {"properties": {"name": "Bea Poe", "phone": 12025550100}}
    answer = admin.post(f"/actions/{id}/edit", body)
    assert (answer.status_code, answer.get_json()) == (200, {"retried": 1})
    whole = admin.get(f"/actions/{id}").get_json()
    assert (whole["state"], whole["request"]["name"]) == ("queued", "Bea Poe")
    (version,) = whole["versions"]
    assert (version["by"], version["request"]["name"]) == ("tests", "Ann Lee")
    assert whole["corrected"] == dict.fromkeys(("name", "phone"), version["at"])
    assert "the action" in refused(admin.post(f"/actions/{id}/edit", body), 409).lower()


def test_a_correction_that_cannot_be_is_refused(hub: Hub, admin: Admin, client: Client) -> None:
    id = failed(hub, client)
    for body, status, words in [
        ({}, 400, "properties: is missing"),
        ({"properties": []}, 400, "properties: must be an object"),
        ({"properties": {"name": ["a"]}}, 400, "properties.name: "),
        ({"properties": {"name": "a"}, "reason": "b"}, 400, "reason: is not known here"),
        ({"properties": {}}, 422, "No value differs"),
        ({"properties": {"city": "Rome"}}, 422, "known are name, email, phone"),
        ({"properties": {"email": None}}, 422, "email: it is blank"),
    ]:
        assert words in refused(admin.post(f"/actions/{id}/edit", body), status)
        assert states(hub, client) == ["dead"], body


def test_what_an_action_blocks_is_shown_and_discarded_with_it(
    hub: Hub, admin: Admin, client: Client
) -> None:
    first, *others = queue(hub, client, 3)
    end(hub, client, first, "dead")
    for id in others:
        end(hub, client, id, "parked")
    change(hub, client, "behind = :first where state = 'parked'", first=first)
    assert admin.get(f"/actions/{first}").get_json()["blocked"] == others
    answer = admin.post(f"/actions/{first}/discard", {"reason": "sent by mistake"})
    assert (answer.status_code, answer.get_json()) == (200, {"discarded": 3})
    shown = actions(admin, client, state="discarded")
    assert [one["actionId"] for one in shown] == [*others[::-1], first]
    assert {(one["reason"], one["parkedBehind"]) for one in shown} == {("sent by mistake", "")}
    words = refused(admin.post(f"/actions/{first}/discard", {"reason": "again"}), 409)
    assert "only dead, parked and queued actions can be discarded" in words


def test_many_are_discarded_by_what_they_have_in_common(
    hub: Hub, admin: Admin, client: Client
) -> None:
    ids = queue(hub, client, 4)
    for id, reason in zip(ids, ["Denied", "no stage", "denied too"], strict=False):
        end(hub, client, id, "dead", reason)
    body = {"account": client.account.client_id, "reason": "test data"}
    denied = admin.post("/actions/discard", {**body, "reasonContains": "DENIED"})
    assert denied.get_json() == {"discarded": 2}
    assert states(hub, client) == ["discarded", "dead", "discarded", "queued"]
    everything = admin.post("/actions/discard", {**body, "state": ["dead", "queued"]})
    assert everything.get_json() == {"discarded": 2}
    assert set(states(hub, client)) == {"discarded"}


@pytest.mark.databases("sqlite")
def test_a_decision_that_cannot_be_read_is_refused(admin: Admin) -> None:
    for path, body, status, words in [
        ("/actions/act-0/discard", {}, 400, "reason: is missing"),
        ("/actions/act-0/discard", {"reason": " "}, 400, "reason: is blank"),
        ("/actions/act-0/discard", {"reason": "x" * 501}, 400, "reason: is longer"),
        ("/actions/act-0/discard", {"reason": "a\nb"}, 422, "reason: say why"),
        ("/actions/act-0/discard", {"reason": "x"}, 404, "no action"),
        ("/actions/act-0/edit", {"properties": {"name": "x"}}, 404, "no action"),
        ("/actions/discard", {"reason": "x"}, 400, "chooses nothing"),
        ("/actions/discard", {"account": "nobody", "reason": "x"}, 404, "nobody"),
        ("/actions/discard", {"ids": ["act-0"]}, 400, "reason: is missing"),
    ]:
        assert words in refused(admin.post(path, body), status)


def test_attempts_are_counted_as_the_action_itself_counts_them(
    hub: Hub, admin: Admin, client: Client
) -> None:
    id = failed(hub, client)
    retry_action.retry_one(hub.database, id, by=TESTS)
    work_off(hub, client)
    queue(hub, client)
    (waiting, listed) = actions(admin, client)
    whole = admin.get(f"/actions/{id}").get_json()
    assert (waiting["tries"], listed["tries"], whole["tries"], len(whole["attempts"])) == (
        0, 2, 2, 2,
    )  # fmt: skip
