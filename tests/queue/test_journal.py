"""The journal: what stands in it, whose turn it is, when it is tried again, and what ends it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

import pytest

from crmhub.database import expired
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import Semantic
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS
from crmhub.queue import accepting, claiming, outages, outcomes
from crmhub.queue.models import Accepted, Entry, New, Outcome, earliest_id
from crmhub.queue.schedule import DELAYS_S
from crmhub.records import marks
from crmhub.settings import Settings
from tests.clients import Client
from tests.processes import start
from tests.queue import outcomes as recorded
from tests.queue.callers import Caller
from tests.queue.working import change, hurry, rows, states

DONE = Outcome("done", "created", result={"status": "created", "contact_id": "7"})
FAILED = Outcome("queued", "Uncertain", "no answer", counts=True, doubt=True)
AWAY = Outcome("queued", "Unavailable", away="it is away")
Accept = Callable[..., Accepted]


@pytest.fixture
def accept(hub: Hub, client: Client) -> Accept:
    """Accept an action of the account, of one person unless told otherwise."""

    def accept(person: str = "p", *, now: bool = True, key: str = "", **new: Any) -> Accepted:
        action = New(
            **{"kind": "createDeal", "hub_id": "hub-1", "request": {}, **new}, person=person
        )
        return accepting.accept(
            hub.database, client.account, lambda _: action, lease_s=60, now=now, key=key
        )

    return accept


def taken(accepted: Accepted) -> Entry:
    assert accepted.entry is not None
    return accepted.entry


def finish(hub: Hub, entry: Entry, outcome: Outcome) -> bool:
    return recorded.finish(hub, entry, outcome, lambda _: None)


def delete_ended(hub: Hub) -> None:
    """Delete all ended actions, however young."""
    later = now_ms() + expired.ACTIONS_MS + 60_000
    expired.delete_expired(hub.database, expired.ACTIONS, now=later, most=1_000_000)


def claim(hub: Hub, client: Client, **options: Any) -> list[Entry]:
    options = {"most": 10, "lease_s": 60.0, **options}
    return claiming.claim(hub.database, client.account.id, client.account.connection.id, **options)


def claimed(hub: Hub, client: Client) -> list[str]:
    return [entry.id for entry in claim(hub, client)]


# --- states -----------------------------------------------------------------------------------


def test_an_action_runs_ends_and_keeps_what_was_tried(
    hub: Hub, client: Client, accept: Accept
) -> None:
    entry = taken(accept())
    assert rows(hub, client, "state, tries, lease") == [("running", 0, entry.lease)]
    assert finish(hub, entry, replace(DONE, ms=12))
    ((state, lease, finished_at),) = rows(hub, client, "state, lease, finished_at")
    assert (state, lease) == ("done", None)
    assert finished_at <= now_ms() + 2
    assert rows(hub, client, "number, outcome, ms", "action_try") == [(1, "created", 12)]
    assert outcomes.result_of(hub.database, client.account.id, entry.id) == DONE.result


def test_what_nobody_may_try_now_is_queued_and_due(
    hub: Hub, client: Client, accept: Accept
) -> None:
    accepted = accept(now=False)
    assert (accepted.entry, states(hub, client)) == (None, ["queued"])
    assert claimed(hub, client) == [accepted.action_id]
    assert states(hub, client) == ["running"]


def test_what_prepare_refuses_is_not_in_the_journal(hub: Hub, client: Client) -> None:
    def refuse(_: Any) -> New:
        raise Semantic("no")

    with pytest.raises(Semantic):
        accepting.accept(hub.database, client.account, refuse, lease_s=60, now=True)
    assert states(hub, client) == []


def test_what_is_in_the_journal_does_not_show_in_the_repr_of_an_entry(accept: Accept) -> None:
    assert "ann@x.org" not in repr(taken(accept(request={"email": "ann@x.org"})))


# --- whose turn it is -------------------------------------------------------------------------


def test_an_action_waits_for_the_earlier_ones_of_its_person_alone(
    hub: Hub, client: Client, accept: Accept
) -> None:
    first, behind, third = accept(), accept(), accept()
    other = accept("q", now=False)
    assert (behind.entry, behind.behind, third.behind) == (None, True, True)
    assert claimed(hub, client) == [other.action_id]
    finish(hub, taken(first), DONE)
    assert claimed(hub, client) == [behind.action_id]


def test_one_that_waits_for_its_next_try_blocks_its_person(
    hub: Hub, client: Client, accept: Accept
) -> None:
    first, _ = accept(), accept()
    finish(hub, taken(first), FAILED)
    assert claim(hub, client) == []
    hurry(hub, client)
    assert claimed(hub, client) == [first.action_id]


def test_the_longest_waiting_goes_first(hub: Hub, client: Client, accept: Accept) -> None:
    ids = [accept(f"p{i}", now=False).action_id for i in range(5)]
    # All of them may have been accepted within one millisecond.
    for longest, id in enumerate([ids[0], ids[3]], start=1):
        change(hub, client, f"run_at = run_at - {longest}000 where id = :it", it=id)
    assert {entry.id for entry in claim(hub, client, most=2)} == {ids[0], ids[3]}


def test_order_does_not_hang_on_the_clocks_of_two_machines(
    hub: Hub, client: Client, accept: Accept, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = accept(now=False)
    monkeypatch.setattr(Connection, "now_ms", lambda _: now_ms() - 60_000)
    accept(now=False)
    monkeypatch.undo()
    assert claimed(hub, client) == [first.action_id]


def test_leads_and_others_can_be_claimed_apart(hub: Hub, client: Client, accept: Accept) -> None:
    lead = accept("p", kind="createLead", now=False)
    deal = accept("q", now=False)
    of_leads = ("createLead", True)
    assert [one.id for one in claim(hub, client, kinds=of_leads)] == [lead.action_id]
    assert [one.id for one in claim(hub, client, kinds=("createLead", False))] == [deal.action_id]


def test_claims_at_once_never_give_one_action_twice(
    settings: Settings, hub: Hub, client: Client, accept: Accept
) -> None:
    ids = [accept(f"p{i}", now=False).action_id for i in range(60)]
    hubs = [Hub.open(settings) for _ in range(4)]

    def work(i: int) -> list[str]:
        return [entry.id for entry in claim(hubs[i % 4], client, most=4)]

    with ThreadPoolExecutor(8) as pool:
        found = [one for many in pool.map(work, range(32)) for one in many]
    for each in hubs:
        each.close()
    assert sorted(found) == sorted(ids)


def test_claims_of_two_processes_never_give_one_action_twice(
    database_url: str, hub: Hub, client: Client, accept: Accept
) -> None:
    ids = [accept(f"p{i}", now=False).action_id for i in range(80)]
    where = {"account": client.account.id, "connection": client.account.connection.id}
    callers = [Caller("claim_all", database_url=database_url, **where) for _ in range(2)]
    start(*callers)
    found = [caller.result() for caller in callers]
    assert sorted(found[0] + found[1]) == sorted(ids)


# --- leases -----------------------------------------------------------------------------------


@pytest.fixture
def lost(hub: Hub, client: Client, accept: Accept) -> tuple[Entry, Entry]:
    """An action whose first holder was too slow, and the entries of both holders."""
    first = taken(accept())
    change(hub, client, "run_at = :now", now=now_ms() - 1)
    (second,) = claim(hub, client)
    return first, second


def test_whose_lease_is_lost_writes_nothing(
    hub: Hub, client: Client, lost: tuple[Entry, Entry]
) -> None:
    beside: list[str] = []
    for outcome in (DONE, FAILED, replace(DONE, state="dead"), AWAY):
        assert not recorded.finish(hub, lost[0], outcome, lambda _: beside.append("written"))
    assert (beside, rows(hub, client, "number", "action_try")) == ([], [])
    assert states(hub, client) == ["running"]
    assert outages.outage_reason(hub.database, client.account) == ""


def test_who_took_an_action_over_decides_and_knows_of_the_doubt(
    hub: Hub, client: Client, lost: tuple[Entry, Entry]
) -> None:
    first, second = lost
    assert first.doubt_since == 0 < second.doubt_since <= now_ms() + 2
    assert finish(hub, second, DONE)
    assert states(hub, client) == ["done"]


def test_a_lease_that_lasts_is_not_taken_over(hub: Hub, client: Client, accept: Accept) -> None:
    accept()
    assert claim(hub, client) == []


@pytest.mark.parametrize("then", [AWAY, Outcome("queued", "Throttled", wait_s=1, throttled=True)])
def test_a_doubt_lasts_while_nobody_could_look(
    hub: Hub, client: Client, accept: Accept, then: Outcome
) -> None:
    finish(hub, taken(accept()), FAILED)
    change(hub, client, "doubt_since = 4711")
    hurry(hub, client)
    (entry,) = claim(hub, client)
    finish(hub, entry, then)
    hurry(hub, client)
    assert [entry.doubt_since for entry in claim(hub, client)] == [4711]


def test_a_try_that_surely_wrote_nothing_leaves_no_doubt(
    hub: Hub, client: Client, accept: Accept
) -> None:
    finish(hub, taken(accept()), AWAY)
    hurry(hub, client)
    assert [entry.doubt_since for entry in claim(hub, client)] == [0]


def test_until_when_a_write_may_have_been_sent_is_of_the_last_attempt_in_doubt(
    hub: Hub, client: Client, accept: Accept
) -> None:
    def after(outcome: Outcome, entry: Entry) -> Entry:
        assert finish(hub, entry, outcome)
        hurry(hub, client)
        return claim(hub, client)[0]

    sure = after(AWAY, taken(accept()))
    began = now_ms()
    first = after(FAILED, sure)
    aged = after(AWAY, replace(first, written_at=first.written_at - 60_000))
    last = after(FAILED, aged)
    assert sure.written_at == 0
    assert aged.written_at == first.written_at - 60_000
    assert began - 1_000 <= first.written_at <= last.written_at <= now_ms() + 1_000


def test_a_process_that_died_may_have_sent_a_write_until_its_lease_ended(
    hub: Hub, client: Client, accept: Accept
) -> None:
    assert taken(accept()).written_at == 0
    for _ in range(2):
        ended = now_ms() - 1
        change(hub, client, "run_at = :ended", ended=ended)
        (entry,) = claim(hub, client)
        assert entry.written_at == ended


# --- the schedule -----------------------------------------------------------------------------


def test_the_schedule_is_kept_with_some_jitter_and_ends(
    hub: Hub, client: Client, accept: Accept
) -> None:
    entry = taken(accept())
    for tries, delay in enumerate(DELAYS_S, 1):
        before = now_ms()
        finish(hub, entry, FAILED)
        ((state, count, run_at),) = rows(hub, client, "state, tries, run_at")
        assert (state, count) == ("queued", tries)
        assert delay * 0.8 <= (run_at - before) / 1000 <= delay * 1.2 + 5
        hurry(hub, client)
        (entry,) = claim(hub, client)
    finish(hub, entry, FAILED)
    assert states(hub, client) == ["dead"]
    assert claim(hub, client) == []


def test_the_jitter_is_not_always_the_same(hub: Hub, client: Client, accept: Accept) -> None:
    before = now_ms()
    for i in range(12):
        entry = taken(accept(f"p{i}"))
        finish(hub, replace(entry, tries=6), FAILED)
    waits = {round((run_at - before) / 60_000) for (run_at,) in rows(hub, client, "run_at")}
    assert len(waits) > 3


def test_a_longer_wait_that_the_crm_asks_for_wins(hub: Hub, client: Client, accept: Accept) -> None:
    began = now_ms()
    finish(hub, taken(accept()), replace(FAILED, wait_s=900))
    ((run_at,),) = rows(hub, client, "run_at")
    # The database's clock and this process's round a millisecond each in its own way.
    assert began - 10 <= run_at - 900_000 <= now_ms() + 10


@pytest.mark.parametrize(
    "outcome",
    [
        AWAY,
        Outcome("queued", "Throttled", wait_s=3, throttled=True),
        Outcome("queued", "NotYet", wait_s=3),
        Outcome("queued", "LimitExceeded", wait_s=600),
    ],
    ids=lambda outcome: outcome.word,
)
def test_what_is_not_the_actions_fault_uses_up_no_try(
    hub: Hub, client: Client, accept: Accept, outcome: Outcome
) -> None:
    entry = taken(accept())
    for _ in range(len(DELAYS_S) + 2):
        finish(hub, entry, outcome)
        hurry(hub, client)
        (entry,) = claim(hub, client)
    assert entry.tries == 0


@pytest.mark.parametrize("outcome", [AWAY, FAILED], ids=["away", "failed"])
def test_after_seven_days_it_is_dead_whatever_the_reason(
    hub: Hub, client: Client, accept: Accept, outcome: Outcome
) -> None:
    entry = taken(accept())
    assert entry.give_up_at - entry.created_at == 7 * 86_400_000
    finish(hub, replace(entry, give_up_at=now_ms() - 1), outcome)
    assert states(hub, client) == ["dead"]


def test_what_follows_a_dead_action_is_not_held_back(
    hub: Hub, client: Client, accept: Accept
) -> None:
    first, second = accept(), accept()
    finish(hub, taken(first), Outcome("dead", "Rejected", "no such stage"))
    assert states(hub, client) == ["dead", "queued"]
    assert claimed(hub, client) == [second.action_id]


def test_an_action_is_parked_only_while_its_lead_is_dead(
    hub: Hub, client: Client, accept: Accept
) -> None:
    lead = taken(accept(kind="createLead"))
    finish(hub, lead, Outcome("dead", "Rejected", "no such stage"))
    behind = Outcome("parked", "Behind", behind=lead.id)
    for state, then in (("dead", "parked"), ("queued", "queued"), ("discarded", "queued")):
        change(hub, client, f"state = '{state}' where kind = 'createLead'")
        entry = taken(accept(f"of {state}"))
        finish(hub, entry, behind)
        assert dict(rows(hub, client, "id, state"))[entry.id] == then


def test_what_ended_long_ago_is_forgotten_and_what_is_dead_stays(
    hub: Hub, client: Client, accept: Accept
) -> None:
    account_id, ids = client.account.id, {}
    for person, state in (("p", "done"), ("q", "refused"), ("r", "dead")):
        entry = taken(accept(person))
        ids[state] = entry.id
        hub.database.transact(lambda tx, id=entry.id: marks.keep(tx, account_id, id, CONTACTS, 1))
        finish(hub, entry, replace(DONE, state=state))
    accept("s", now=False)
    hub.database.transact(lambda tx: marks.close(tx, account_id, [earliest_id(0), "~"]))
    delete_ended(hub)
    assert sorted(states(hub, client)) == ["dead", "queued"]
    assert len(rows(hub, client, "number", "action_try")) == 1
    # A dead one may be tried again, and what was erased may be under way.
    assert {mark for (mark,) in rows(hub, client, "mark", "mark")} == {ids["dead"], "~"}


def test_what_is_brought_back_while_it_is_forgotten_stays(
    hub: Hub, client: Client, accept: Accept
) -> None:
    # Other tests have left actions that ended, too.
    delete_ended(hub)
    refused = taken(accept())
    finish(hub, refused, replace(DONE, state="refused"))
    with ThreadPoolExecutor(1) as pool:

        def work(tx: Connection) -> Future[None]:
            tx.run(
                "update action set state = 'queued', finished_at = null"
                " where account_id = :account and id = :id",
                {"account": refused.account_id, "id": refused.id},
            )
            forgotten = pool.submit(delete_ended, hub)
            wait([forgotten], timeout=1)
            return forgotten

        hub.database.transact(work).result()
    assert states(hub, client) == ["queued"]


# --- outages ----------------------------------------------------------------------------------


@pytest.fixture
def away(hub: Hub, client: Client, accept: Accept) -> None:
    """The account's CRM was found away just now."""
    finish(hub, taken(accept("first")), AWAY)


def until(hub: Hub, client: Client) -> float:
    """Return for how many seconds the connection waits."""
    ((moment,),) = rows(hub, client, "until", "outage")
    return (moment - now_ms()) / 1000


@pytest.mark.usefixtures("away")
def test_an_outage_lets_the_whole_connection_wait(hub: Hub, client: Client, accept: Accept) -> None:
    assert outages.outage_reason(hub.database, client.account) == "it is away"
    accepted = accept("q")
    assert (accepted.entry, accepted.behind) == (None, False)
    assert claim(hub, client) == []
    mine = [one for one in claiming.due(hub.database).now if one[0] == client.account.id]
    assert mine == []


@pytest.mark.usefixtures("away")
def test_one_at_a_time_finds_out_whether_a_crm_is_back(
    hub: Hub, client: Client, accept: Accept
) -> None:
    accept("q", now=False), accept("r", now=False)
    hurry(hub, client)
    probes = claim(hub, client)
    assert [probe.probing for probe in probes] == [True]
    assert claim(hub, client) == []
    assert accept("s").entry is None
    finish(hub, probes[0], DONE)
    assert outages.outage_reason(hub.database, client.account) == ""
    assert len(claim(hub, client)) == 3


@pytest.mark.usefixtures("away")
def test_no_caller_waits_to_find_out(hub: Hub, client: Client, accept: Accept) -> None:
    change(hub, client, "until = :now", "outage", now=now_ms() - 1)
    accepted = accept("q")
    assert (accepted.entry, accepted.behind) == (None, False)
    assert claim(hub, client, only=accepted.action_id) == []
    assert [probe.probing for probe in claim(hub, client)] == [True]


@pytest.mark.usefixtures("away")
def test_a_claim_that_finds_nothing_leaves_the_probe_to_others(
    hub: Hub, client: Client, accept: Accept
) -> None:
    hurry(hub, client)
    assert claim(hub, client, kinds=("createLead", True)) == []
    assert len(claim(hub, client, kinds=("createLead", False))) == 1


@pytest.mark.usefixtures("away")
def test_a_probe_whose_process_died_is_followed_by_another(
    hub: Hub, client: Client, accept: Accept
) -> None:
    accept("q", now=False)
    hurry(hub, client)
    assert len(claim(hub, client)) == 1
    assert 0 < until(hub, client) <= 5
    change(hub, client, "until = :now", "outage", now=now_ms() - 1)
    assert len(claim(hub, client)) == 1


@pytest.mark.usefixtures("away")
def test_an_outage_is_looked_into_less_and_less_often(hub: Hub, client: Client) -> None:
    waits = [round(until(hub, client) + 0.4)]
    for _ in range(8):
        hurry(hub, client)
        (probe,) = claim(hub, client)
        finish(hub, probe, AWAY)
        waits.append(round(until(hub, client) + 0.4))
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_several_that_fail_together_are_one_failure(
    hub: Hub, client: Client, accept: Accept
) -> None:
    entries = [taken(accept(f"p{i}")) for i in range(5)]
    for entry in entries:
        finish(hub, entry, AWAY)
    assert rows(hub, client, "failures", "outage") == [(1,)]
    assert until(hub, client) <= 2


def test_a_throttled_connection_waits_as_long_as_asked_and_is_not_away(
    hub: Hub, client: Client, accept: Accept
) -> None:
    throttled = Outcome("queued", "Throttled", "slower", wait_s=7, throttled=True)
    finish(hub, taken(accept()), throttled)
    assert outages.outage_reason(hub.database, client.account) == ""
    assert 5 < until(hub, client) <= 7
    assert accept("q").entry is None
    hurry(hub, client)
    assert len(claim(hub, client)) == 2


# --- what was accepted before -----------------------------------------------------------------


def test_a_key_answers_for_its_call_for_a_day(hub: Hub, client: Client, accept: Accept) -> None:
    first = accept(key="k", request={"a": 1})
    again = accept(key="k", request={"a": 1})
    assert (again.action_id, again.earlier, again.replayed) == (first.action_id, None, True)
    finish(hub, taken(first), DONE)
    assert accept(key="k", request={"a": 1}).earlier == DONE.result
    change(hub, client, "created_at = created_at - 86400001")
    assert accept(key="k", request={"a": 1}).action_id != first.action_id


def test_a_key_of_another_call_is_refused(accept: Accept) -> None:
    accept(key="k", request={"a": 1})
    for other in ({"request": {"a": 2}}, {"request": {"a": 1}, "kind": "createTicket"}):
        with pytest.raises(Semantic, match="Idempotency-Key"):
            accept(key="k", **other)


def test_a_call_that_was_refused_is_mended_under_another_key(hub: Hub, accept: Accept) -> None:
    told = {"error": "Rejected", "message": "no such stage"}
    finish(hub, taken(accept(key="k")), Outcome("refused", "Rejected", result=told))
    again = accept(key="k")
    assert (again.earlier, again.refused, again.replayed) == (told, True, True)
    with pytest.raises(Semantic, match="another call"):
        accept(key="k", request={"mended": True})
    assert accept(key="l", request={"mended": True}).entry is not None


def test_the_same_again_is_the_first_one_for_a_minute(
    hub: Hub, client: Client, accept: Accept
) -> None:
    first = accept(identity="i")
    assert (accept(identity="i").action_id, accept(identity="i").earlier) == (first.action_id, None)
    finish(hub, taken(first), DONE)
    assert accept(identity="i").earlier == {"status": "unchanged", "contact_id": "7"}
    assert accept("q", identity="i").earlier is None
    assert accept(identity="j").action_id != first.action_id
    change(hub, client, "finished_at = finished_at - 60001 where state = 'done'")
    assert accept(identity="i").earlier is None


def test_what_ended_before_the_clock_was_set_back_answers_for_nothing_new(
    hub: Hub, client: Client, accept: Accept
) -> None:
    finish(hub, taken(accept(identity="i")), DONE)
    change(hub, client, "finished_at = finished_at + 3600000")
    assert accept(identity="i").entry is not None


def test_a_key_makes_a_second_one_of_the_same(accept: Accept) -> None:
    ids = [accept(identity="i", key=key).action_id for key in ("", "k", "l")]
    assert len(set(ids)) == 3
    assert accept(identity="i").action_id == ids[0]
