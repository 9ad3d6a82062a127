"""Discards: what nobody needs any more is closed for good, with what it blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from crmhub import audit
from crmhub.database import expired
from crmhub.database.connection import now_ms
from crmhub.errors import Conflict, NotFound, Semantic
from crmhub.helpers.attempts import attempt
from crmhub.helpers.create_linked import CreateDeal
from crmhub.hub import Hub
from crmhub.operators.actions import (
    action_batches,
    action_queries,
    attention,
    discard_action,
    retry_action,
)
from crmhub.operators.actions.action_queries import Wanted
from crmhub.operators.actions.discard_action import discard, discard_one
from crmhub.queue import accepting, claiming
from crmhub.queue.models import Entry, New
from tests.api.helpers.helper_calls import CREATE_DEAL, known
from tests.clients import TESTS, Client
from tests.pages import total
from tests.queue.working import accept, change, rows, states, work_off

WHY = "sent by mistake"


def put(hub: Hub, client: Client, state: str, behind: str = "", person: str = "p") -> str:
    """Accept an action that is in this state, and return its id."""
    new = New("createDeal", person, "hub-1", {"contact_id": "hub-1", "properties": {}})
    id = accepting.accept(
        hub.database, client.account, lambda _: new, lease_s=60, now=False
    ).action_id
    ended = None if state in ("queued", "running") else now_ms()
    change(
        hub,
        client,
        "state = :state, behind = :behind, finished_at = :ended, reason = 'no such stage'"
        " where id = :it",
        state=state,
        behind=behind or None,
        ended=ended,
        it=id,
    )
    return id


def of(client: Client, **more: Any) -> Wanted:
    return Wanted(account=client.account, **more)


def test_what_is_discarded_is_closed_with_its_reason(hub: Hub, client: Client) -> None:
    id = put(hub, client, "dead")
    assert discard_one(hub.database, id, reason=f" {WHY} ", by=TESTS) == 1
    ((state, reason, finished_at),) = rows(hub, client, "state, reason, finished_at")
    assert (state, reason) == ("discarded", WHY)
    assert finished_at <= now_ms() + 2
    with hub.database.reading() as db:
        assert not attention.of_accounts(db, [client.account.id])[client.account.id]
        wanted = audit.Wanted(account_id=None, verb="discard", object="actions")
        entry = next(one for one in audit.listed(db, wanted, limit=50) if one.object_id == id)
    assert entry.after == {"discarded": 1, "newest": id, "oldest": id}


@pytest.mark.parametrize("state", ["dead", "parked", "queued"])
def test_what_failed_is_blocked_or_queued_can_be_discarded(
    hub: Hub, client: Client, state: str
) -> None:
    discard_one(hub.database, put(hub, client, state), reason=WHY, by=TESTS)
    assert states(hub, client) == ["discarded"]
    work_off(hub, client)
    assert rows(hub, client, "number", "action_try") == []


@pytest.mark.parametrize("state", ["running", "done", "refused", "discarded"])
def test_nothing_else_can_be_discarded(hub: Hub, client: Client, state: str) -> None:
    id = put(hub, client, state)
    with pytest.raises(Conflict, match="in progress" if state == "running" else state):
        discard_one(hub.database, id, reason=WHY, by=TESTS)
    assert states(hub, client) == [state]
    with pytest.raises(NotFound):
        discard_one(hub.database, "act-0", reason=WHY, by=TESTS)


def test_a_reason_has_up_to_500_printable_characters(hub: Hub, client: Client) -> None:
    id = put(hub, client, "dead")
    for reason in ("", "  ", "a\nb", "a\0", "\ud800", "x" * 501):
        with pytest.raises(Semantic, match="reason: "):
            discard_one(hub.database, id, reason=reason, by=TESTS)
    assert discard_one(hub.database, id, reason="é" * 500, by=TESTS) == 1


def test_what_is_blocked_is_told_before_and_discarded_with_what_blocks_it(
    hub: Hub, client: Client, other: Client
) -> None:
    lead = put(hub, client, "dead")
    blocked = [put(hub, client, "parked", lead) for _ in range(2)]
    put(hub, client, "parked", put(hub, client, "refused"), person="q")
    put(hub, other, "dead")
    told = discard_action.discardable(hub.database, of(client), most=10)
    assert (told.states, told.blocked, told.total) == ({"dead": 1}, 2, 3)
    several = of(client, states=("dead", "parked"))
    assert discard_action.discardable(hub.database, several, most=10).total == 4
    assert action_queries.shown(hub.database, lead).blocked == tuple(sorted(blocked))
    assert discard(hub.database, of(client), reason=WHY, by=TESTS) == 3
    assert sorted(states(hub, client)) == ["discarded"] * 3 + ["parked", "refused"]
    assert states(hub, other) == ["dead"]


def test_states_that_cannot_be_discarded_choose_nothing(hub: Hub, client: Client) -> None:
    put(hub, client, "refused"), put(hub, client, "dead", person="q")
    for wanted in (of(client, states=("refused",)), of(client, states=("done", "running"))):
        assert discard_action.discardable(hub.database, wanted, most=10).total == 0
        assert discard(hub.database, wanted, reason=WHY, by=TESTS) == 0
    assert sorted(states(hub, client)) == ["dead", "refused"]


def test_many_are_discarded_in_short_transactions(
    hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(action_batches, "AT_ONCE", 2)
    ids = [put(hub, client, "dead", person=f"p{i}") for i in range(5)]
    put(hub, client, "parked", ids[0], person="p0")
    assert discard(hub.database, of(client), reason=WHY, by=TESTS) == 6
    assert set(states(hub, client)) == {"discarded"}


def test_what_is_discarded_is_never_retried(hub: Hub, client: Client) -> None:
    id = put(hub, client, "dead")
    discard_one(hub.database, id, reason=WHY, by=TESTS)
    with pytest.raises(Conflict, match="discarded"):
        retry_action.retry_one(hub.database, id, by=TESTS)
    assert retry_action.retry(hub.database, of(client), by=TESTS) == 0


def test_of_a_retry_and_a_discard_at_once_one_happens(hub: Hub, client: Client) -> None:
    for i in range(5):
        lead = put(hub, client, "dead", person=f"p{i}")
        both = {lead, put(hub, client, "parked", lead, person=f"p{i}")}
        with ThreadPoolExecutor(2) as pool:
            discarded = pool.submit(discard, hub.database, of(client), reason=WHY, by=TESTS)
            retried = pool.submit(retry_action.retry, hub.database, of(client), by=TESTS)
        counts = {"discarded": discarded.result(), "queued": retried.result()}
        assert sorted(counts.values()) == [0, 2]
        found = {state for id, state in rows(hub, client, "id, state") if id in both}
        assert found == {state for state, count in counts.items() if count}


def test_what_a_worker_has_just_taken_is_not_discarded(hub: Hub, client: Client) -> None:
    put(hub, client, "queued")
    of_connection = (client.account.id, client.account.connection.id)
    (entry,) = claiming.claim(hub.database, *of_connection, most=1, lease_s=60)
    with pytest.raises(Conflict, match="in progress"):
        discard_one(hub.database, entry.id, reason=WHY, by=TESTS)


def test_who_lost_the_lease_creates_nothing_of_a_discarded_action(hub: Hub, client: Client) -> None:
    action = CreateDeal(known(client), {"dealname": "Late"})
    slow = accept(hub, client, action, now=True).entry
    assert isinstance(slow, Entry)
    change(
        hub,
        client,
        "state = 'dead', finished_at = created_at, lease = null where id = :it",
        it=slow.id,
    )
    discard_one(hub.database, slow.id, reason=WHY, by=TESTS)
    assert (
        attempt(hub, client.account, slow, action, action.mapped(client.account), waits=False)
        is None
    )
    assert total(client, "deals") == 0
    assert states(hub, client)[-1] == "discarded"


def test_a_discarded_call_is_refused_under_its_key_and_accepted_under_another(
    hub: Hub, client: Client
) -> None:
    contact_id = known(client)
    body = {"contactId": contact_id, "properties": {"dealname": "A"}}

    def call(key: str) -> Any:
        return client.helper(CREATE_DEAL, body, headers={"Idempotency-Key": key})

    assert call("k").status_code == 200
    change(
        hub,
        client,
        "state = 'dead', finished_at = created_at, result = null where kind = 'createDeal'",
    )
    discard(hub.database, of(client), reason=WHY, by=TESTS)
    answer = call("k")
    assert (answer.status_code, WHY in answer.text) == (409, False)
    assert "The operator discarded this call" in answer.json["message"]
    assert call("l").status_code == 200


def test_a_discarded_lead_leaves_nobody_to_change(hub: Hub, client: Client) -> None:
    known(client)
    change(hub, client, "state = 'dead', finished_at = created_at")
    change(hub, client, "crm_id = null", "binding")
    discard(hub.database, of(client), reason=WHY, by=TESTS)
    (hub_id,) = rows(hub, client, "hub_id")[0]
    answer = client.helper(CREATE_DEAL, {"contactId": hub_id, "properties": {"dealname": "A"}})
    assert answer.status_code == 404
    assert "refused or discarded; call createLead again" in answer.json["message"]


def test_discarded_actions_are_forgotten_like_all_that_ended(hub: Hub, client: Client) -> None:
    put(hub, client, "discarded"), put(hub, client, "dead", person="q")
    later = now_ms() + expired.ACTIONS_MS + 60_000
    expired.delete_expired(hub.database, expired.ACTIONS, now=later, most=1_000_000)
    assert states(hub, client) == ["dead"]
