"""Events reach their address: signed, in order, at least once, and not for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from crmhub.accounts import keys
from crmhub.audit import Author
from crmhub.database import expired, write_batcher
from crmhub.database.connection import Database, now_ms
from crmhub.events import claiming, outcomes
from crmhub.events.claiming import Claimed, DueSubscription
from crmhub.events.delivering import THREADS, Deliveries
from crmhub.events.event_types import TYPES
from crmhub.events.schedule import DELAYS_S, SWITCH_OFF_MS
from crmhub.events.sending import Attempt
from crmhub.events.subscriptions import Subscription
from crmhub.hub import Hub
from crmhub.operators.alerts import alerts
from crmhub.operators.events import event_subscriptions
from crmhub.queue.overlong_waits import end_overlong_waits
from tests.clients import TESTS, Client
from tests.events.receivers import Received, Receiver, events_of, hurry, receiving, subscribe
from tests.queue.working import soon
from tests.records.meanwhile import at_once

DAY_MS = 86_400_000


class Scene:
    """An account with a subscription to all types, and its receiver."""

    def __init__(self, hub: Hub, client: Client, receiver: Receiver) -> None:
        self.hub, self.client, self.receiver = hub, client, receiver
        made = subscribe(hub, client, *TYPES, url=receiver.url)
        self.secret, self.id = made.secret, made.subscription.id

    @property
    def subscription(self) -> Subscription:
        return event_subscriptions.find(self.hub, self.client.account.client_id, self.id)

    @property
    def deliveries(self) -> list[Any]:
        """The deliveries, the oldest first."""
        client_id = self.client.account.client_id
        return event_subscriptions.list_deliveries(self.hub, client_id, self.id)[::-1]

    @property
    def states(self) -> list[str]:
        return [each.state for each in self.deliveries]

    def claim(self) -> list[Claimed]:
        found = self._claim()
        return found[1] if found else []

    def _claim(self) -> tuple[Any, list[Claimed]] | None:
        due = DueSubscription(self.client.account.id, self.id, False)
        with self.hub.database.across_accounts():
            return claiming.claim(self.hub.database, due, most=10)

    def finish(self, claimed: Claimed, attempt: Attempt) -> None:
        self.finish_together((claimed, attempt))

    def finish_together(self, *attempts: tuple[Claimed, Attempt]) -> list[bool]:
        with self.hub.database.across_accounts():
            return outcomes.finish(self.hub.database, attempts)

    def deliver(self, *, hurried: bool = False) -> None:
        """Deliver what is due, as a worker does; with `hurried`, without any wait."""
        if hurried:
            hurry(self.hub, self.client)
        worker = Deliveries(self.hub.database, self.hub.egress, self.hub.vault)
        while (found := self._claim()) and found[1]:
            with self.hub.database.across_accounts():
                for each in found[1]:
                    worker._deliver(found[0], each, time.monotonic() + 60)

    def rename(self, id: int, *names: str) -> None:
        for name in names:
            self.client.patch(f"/contacts/{id}", {"properties": {"firstname": name}})
        # Events of one millisecond are listed in no order; a record's may be ahead of the clock.
        latest = max((each.created_at for each in self.deliveries), default=0)
        while now_ms() <= latest:
            pass

    def execute(self, sql: str, **values: Any) -> None:
        with self.hub.database.across_accounts():
            self.hub.database.transact(
                lambda tx: tx.run(sql, {"account": self.client.account.id, **values})
            )


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def scene(hub: Hub, client: Client, receiver: Receiver) -> Scene:
    return Scene(hub, client, receiver)


def test_message_is_signed_and_says_what_happened(scene: Scene) -> None:
    id = scene.client.make(firstname="Ada")
    scene.deliver()
    [got] = scene.receiver.received
    assert got.is_signed_with(scene.secret)
    assert got.headers["content-type"] == "application/json"
    body = got.json
    assert list(body) == ["id", "type", "createdAt", "clientId", "data"]
    assert body["id"] == got.headers["webhook-id"] == scene.deliveries[0].event_id
    assert (body["type"], body["clientId"]) == ("contact.created", scene.client.account.client_id)
    assert body["data"]["id"] == id
    assert list(body["data"]) == ["id", "properties", "changed", "previous"]
    assert abs(time.time() - int(got.headers["webhook-timestamp"])) < 300
    assert scene.states == ["delivered"]


def test_events_of_a_record_arrive_in_order(scene: Scene) -> None:
    id = scene.client.make(firstname="0")
    scene.rename(id, *"12345")
    other = scene.client.make(firstname="x")
    scene.deliver()
    names = [
        each.json["data"]["properties"]["firstname"]
        for each in scene.receiver.received
        if each.json["data"]["id"] == id
    ]
    assert names == [*"012345"]
    assert other in [each.json["data"]["id"] for each in scene.receiver.received[:2]]


def test_a_failed_event_holds_back_its_record_alone(scene: Scene) -> None:
    scene.receiver.answer = lambda got: 500 if got.json["data"]["id"] == first else 200
    first = scene.client.make(firstname="0")
    scene.rename(first, "1", "2")
    for _ in range(3):
        scene.client.make()
    scene.deliver()
    assert scene.states == ["queued"] * 3 + ["delivered"] * 3
    assert [each.attempts for each in scene.deliveries[:3]] == [1, 0, 0]
    scene.receiver.answer = lambda got: 200
    scene.deliver(hurried=True)
    assert set(scene.states) == {"delivered"}
    ids = [each.json["id"] for each in scene.receiver.received]
    assert ids.count(scene.deliveries[0].event_id) == 2


def test_two_workers_never_send_two_events_of_a_record_at_once(scene: Scene) -> None:
    id = scene.client.make(firstname="0")
    scene.rename(id, "1", "2")
    [first] = scene.claim()
    assert scene.claim() == []
    scene.finish(first, Attempt(200))
    [second] = scene.claim()
    assert (second.subject, scene.claim()) == (first.subject, [])
    # A replayed event is older than the one that is being sent.
    of = (scene.hub, scene.client.account.client_id, scene.id)
    event_subscriptions.replay(*of, event_ids=[first.event_id], by=TESTS)
    assert scene.claim() == []


def test_a_lease_of_a_dead_worker_is_taken_over(scene: Scene) -> None:
    scene.client.make()
    [dead] = scene.claim()
    hurry(scene.hub, scene.client)
    [taken] = scene.claim()
    assert (taken.event_id, taken.lease != dead.lease) == (dead.event_id, True)
    scene.finish(dead, Attempt(500, "It answered 500."))
    assert [each.attempts for each in scene.deliveries] == [0]
    scene.finish(taken, Attempt(200))
    assert scene.states == ["delivered"]


def test_outcomes_recorded_together_are_each_for_itself(scene: Scene) -> None:
    ids = [scene.client.make(firstname=str(n)) for n in range(4)]
    scene.rename(ids[1], "held back")
    lost = next(each for each in scene.claim() if each.subject.endswith(f":{ids[3]}"))
    scene.execute(
        "update event_delivery set run_at = 1, lease = null where account_id = :account"
        " and lease is not null"
    )
    first, failed, gone, taken = sorted(scene.claim(), key=lambda each: each.subject)
    assert taken.event_id == lost.event_id
    scene.execute("update event_subscription set failing_since = 1 where account_id = :account")
    assert scene.finish_together(
        (first, Attempt(200)),
        (lost, Attempt(200)),
        (failed, Attempt(500, "It answered 500.")),
        (gone, Attempt(410, "It answered 410.")),
    ) == [False, False, True, True]
    deliveries = {each.event_id: each for each in scene.deliveries}
    assert [
        (deliveries[each.event_id].state, deliveries[each.event_id].attempts)
        for each in (first, failed, gone, taken)
    ] == [("delivered", 1), ("queued", 1), ("failed", 1), ("queued", 0)]
    assert scene.subscription.failures == 2
    assert scene.claim() == []


def test_outcomes_that_come_while_others_are_recorded_are_recorded_together(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_batcher, "_PATIENCE_S", 120)
    record, together = outcomes.finish, []
    worker = Deliveries(scene.hub.database, scene.hub.egress, scene.hub.vault)

    def waiting() -> int:
        return sum(len(each.waiting) for each in worker._finishing._queues.values())

    def finish(database: Database, attempts: Sequence[tuple[Claimed, Attempt]]) -> list[bool]:
        together.append(len(attempts))
        soon(lambda: len(together) > 1 or waiting() == 3)
        return record(database, attempts)

    monkeypatch.setattr(outcomes, "finish", finish)
    for _ in range(4):
        scene.client.make()
    row, claimed = scene._claim() or (None, [])
    until = time.monotonic() + 60

    def deliver(each: Claimed) -> None:
        with scene.hub.database.for_account(each.account_id):
            worker._deliver(row, each, until)

    at_once(*(partial(deliver, each) for each in claimed))
    assert together == [1, 3]
    assert scene.states == ["delivered"] * 4


def test_several_subscriptions_do_not_hold_up_each_other(
    hub: Hub, client: Client, scene: Scene
) -> None:
    with receiving(lambda got: 503) as broken:
        second = Scene(hub, client, broken)
        ids = [client.make(firstname=str(n)) for n in range(3)]
        second.deliver()
        scene.deliver()
        assert scene.states == ["delivered"] * 3
        assert second.states == ["queued"] * 3
        assert sorted(each.json["data"]["id"] for each in scene.receiver.received) == sorted(ids)


@pytest.mark.databases("sqlite", "postgresql")
def test_slow_addresses_of_one_account_leave_threads_for_another(
    scene: Scene, other: Client
) -> None:
    hub = scene.hub
    released, in_progress, most = threading.Event(), threading.Semaphore(0), [0, 0]
    lock = threading.Lock()

    def hold(got: Received) -> int:
        with lock:
            most[0] += 1
            most[1] = max(most)
        in_progress.release()
        released.wait(60)
        with lock:
            most[0] -= 1
        return 204

    scene.receiver.answer = hold
    for _ in range(17):
        subscribe(hub, scene.client, "contact.created", url=scene.receiver.url)
    scene.client.make()
    worker = Deliveries(hub.database, hub.egress, hub.vault)
    with receiving() as quick, ThreadPoolExecutor(THREADS) as pool:
        try:
            with hub.database.across_accounts():
                worker._start_due(pool)
                for _ in range(THREADS // 2):
                    assert in_progress.acquire(timeout=60)
                made = subscribe(hub, other, "contact.created", url=quick.url).subscription
                other.make()
                worker._start_due(pool)
            of = (hub, other.account.client_id, made.id)
            soon(lambda: event_subscriptions.list_deliveries(*of)[0].state == "delivered")
        finally:
            released.set()
    assert (most[1], len(quick.received)) == (THREADS // 2, 1)


def test_slow_addresses_share_half_of_the_threads_and_stand_behind_others(
    hub: Hub,
) -> None:
    worker = Deliveries(hub.database, hub.egress, hub.vault)
    slow, quick, new = (DueSubscription(n, "sub_x") for n in (1, 2, 3))
    worker._took_s = {(1, "sub_x"): 2.1, (2, "sub_x"): 1.9}
    assert [worker._stands_behind(each) for each in (slow, quick, new)] == [True, False, False]
    free = [
        worker._free_threads(each, each is slow, 1)
        for each in (slow, quick, new, DueSubscription(2, "sub_x", is_failing=True))
    ]
    assert free == [THREADS // 4, THREADS // 2, 1, 1]
    # Four accounts with slow addresses have what slow ones may have.
    worker._behind = {(number, "sub_x") for number in range(11, 15)}
    worker._busy.update(dict.fromkeys(worker._behind, THREADS // 8))
    assert worker._free_threads(slow, True, 1) == 0
    assert worker._free_threads(quick, False, 1) == THREADS // 2


def test_thirteen_attempts_then_failed(scene: Scene) -> None:
    scene.receiver.answer = lambda got: 500
    id = scene.client.make()
    waits = []
    for _ in range(len(DELAYS_S)):
        scene.deliver()
        [delivery] = scene.deliveries
        assert delivery.state == "queued"
        waits.append((delivery.next_attempt_at or 0) / 1000 - time.time())
        hurry(scene.hub, scene.client)
    for wait, delay in zip(waits, DELAYS_S, strict=True):
        assert 0.8 * delay - 60 < wait < 1.2 * delay + 60
    scene.rename(id, "another")
    scene.deliver()
    first, second = scene.deliveries
    assert (first.state, first.attempts, first.reason) == ("failed", 13, "It answered 500.")
    assert second.attempts <= 1
    assert sum(DELAYS_S) == pytest.approx(72 * 3600, rel=0.01)


def test_retry_after_wins(scene: Scene) -> None:
    scene.receiver.answer = lambda got: (429, {"Retry-After": "7000"})
    scene.client.make()
    scene.deliver()
    [delivery] = scene.deliveries
    assert 6900 < (delivery.next_attempt_at or 0) / 1000 - time.time() < 7100
    scene.client.make()
    scene.deliver()
    assert len(scene.receiver.received) == 1


def test_410_ends_the_subscription(scene: Scene) -> None:
    scene.receiver.answer = lambda got: 410
    scene.client.make()
    scene.client.make()
    scene.deliver()
    assert scene.subscription.state == "ended"
    assert "410" in scene.subscription.reason
    assert scene.states == ["failed", "failed"]
    scene.client.make()
    assert len(scene.deliveries) == 2
    assert len(scene.receiver.received) <= 2


@pytest.mark.parametrize("status", [301, 302, 400, 404, 500])
def test_other_statuses_are_failures(scene: Scene, status: int) -> None:
    scene.receiver.answer = lambda got: (status, {"Location": scene.receiver.url})
    scene.client.make()
    scene.deliver()
    assert [(each.state, each.status) for each in scene.deliveries] == [("queued", status)]
    assert len(scene.receiver.received) == 1


def test_an_address_that_hangs_up_is_a_failure(scene: Scene) -> None:
    event_subscriptions.change(
        scene.hub, scene.client.account.client_id, scene.id, url="http://127.0.0.1:9/", by=TESTS
    )
    scene.client.make()
    scene.deliver()
    [delivery] = scene.deliveries
    assert (delivery.state, delivery.status) == ("queued", None)
    assert "Nobody answers" in delivery.reason


def test_after_five_failures_one_call_at_a_time_and_all_after_it_works(scene: Scene) -> None:
    scene.receiver.answer = lambda got: 503
    for _ in range(12):
        scene.client.make()
    scene.deliver()
    while scene.subscription.failures < 5:
        scene.deliver()
    calls = len(scene.receiver.received)
    assert scene.claim() == []
    scene.execute("update event_subscription set paused_until = 0 where account_id = :account")
    scene.execute("update event_delivery set run_at = 1 where account_id = :account")
    claimed = scene.claim()
    assert (len(claimed), claimed[0].is_probe, scene.claim()) == (1, True, [])
    scene.finish(claimed[0], Attempt(200))
    scene.receiver.answer = lambda got: 200
    scene.deliver()
    assert set(scene.states) == {"delivered"}
    assert len(scene.receiver.received) == calls + 11


def test_five_days_of_failures_switch_it_off(scene: Scene) -> None:
    scene.receiver.answer = lambda got: 500
    scene.client.make()
    scene.deliver()
    assert scene.subscription.state == "active"
    scene.execute(
        "update event_subscription set failing_since = failing_since - :ago"
        " where account_id = :account",
        ago=SWITCH_OFF_MS,
    )
    scene.deliver(hurried=True)
    assert scene.subscription.state == "switched_off"
    assert "5 days" in scene.subscription.reason
    assert scene.states == ["failed"]
    event_subscriptions.change(
        scene.hub, scene.client.account.client_id, scene.id, state="active", by=TESTS
    )
    scene.client.make()
    scene.receiver.answer = lambda got: 200
    scene.deliver()
    assert scene.states == ["failed", "delivered"]


def test_a_success_ends_the_count_of_failures(scene: Scene) -> None:
    scene.receiver.answer = lambda got: 500
    scene.client.make()
    scene.deliver()
    assert (scene.subscription.failures, scene.subscription.failing_since is None) == (1, False)
    scene.receiver.answer = lambda got: 200
    scene.deliver(hurried=True)
    assert (scene.subscription.failures, scene.subscription.failing_since) == (0, None)


def test_a_disabled_account_gets_no_events(scene: Scene) -> None:
    scene.client.make()
    scene.execute("update account set disabled_at = 1 where id = :account")
    with scene.hub.database.across_accounts():
        due, _ = claiming.find_due(scene.hub.database)
    assert scene.id not in [each.id for each in due]


def test_replay_by_time_and_one_by_one(scene: Scene) -> None:
    of = (scene.hub, scene.client.account.client_id, scene.id)
    for _ in range(3):
        scene.client.make()
    scene.deliver()
    ids = [each.event_id for each in scene.deliveries]
    day = {"since": int(time.time() * 1000) - DAY_MS, "until": int(time.time() * 1000) + DAY_MS}
    assert event_subscriptions.replay(*of, **day, by=TESTS) == 3
    assert event_subscriptions.replay(*of, **day, by=TESTS) == 0
    scene.deliver()
    assert event_subscriptions.replay(*of, event_ids=ids[1:2], by=TESTS) == 1
    scene.deliver()
    got = [each.json["id"] for each in scene.receiver.received]
    assert {id: got.count(id) for id in ids} == {ids[0]: 2, ids[1]: 3, ids[2]: 2}


def test_a_test_is_sent_at_once_and_counts_nothing(scene: Scene) -> None:
    of = (scene.hub, scene.client.account.client_id, scene.id)
    scene.receiver.answer = lambda got: 500
    result = event_subscriptions.test(*of)
    assert (result.attempt.succeeded, result.attempt.status) == (False, 500)
    scene.receiver.answer = lambda got: 200
    result = event_subscriptions.test(*of)
    got = scene.receiver.received[-1]
    assert result.attempt.succeeded
    assert got.is_signed_with(scene.secret)
    assert (got.json["id"], got.json["type"]) == (result.event_id, "subscription.test")
    assert (scene.subscription.failures, scene.deliveries) == (0, [])


def test_a_worker_delivers_within_a_second(scene: Scene) -> None:
    worker = Deliveries(scene.hub.database, scene.hub.egress, scene.hub.vault)
    stopping = threading.Event()
    thread = threading.Thread(target=worker.run, args=(stopping,))
    thread.start()
    arrived = threading.Event()
    scene.receiver.answer = lambda got: (arrived.set(), 200)[1]
    try:
        scene.client.make()
        assert arrived.wait(30)
    finally:
        stopping.set()
        worker.wake()
        thread.join()
    assert scene.states == ["delivered"]


def test_an_expired_key_ends_its_subscription_before_the_next_delivery(scene: Scene) -> None:
    hub, client = scene.hub, scene.client
    key = hub.database.transact(lambda tx: keys.create(tx, client.account.id))
    of = (hub, client.account.client_id)
    made = event_subscriptions.add(
        *of, url=scene.receiver.url, types=["*"], by=Author("key", "a key", key.key_id)
    )
    event_subscriptions.change(*of, scene.id, state="disabled", by=TESTS)
    client.make()
    for column, how in (("expires_at", "has expired"), ("revoked_at", "was revoked")):
        scene.execute(f"update api_key set {column} = 1 where account_id = :account")
        with hub.database.across_accounts(), ThreadPoolExecutor(1) as pool:
            Deliveries(hub.database, hub.egress, hub.vault)._start_due(pool)
        ended = event_subscriptions.find(*of, made.subscription.id)
        assert (ended.state, how in ended.reason) == ("disabled", True), ended.reason
        scene.execute("update event_subscription set state = 'active' where account_id = :account")
    assert scene.receiver.received == []


def test_operators_are_told_of_a_subscription_that_was_switched_off(scene: Scene) -> None:
    def alert() -> list[alerts.Alert]:
        with scene.hub.database.across_accounts(), scene.hub.database.reading() as db:
            return [
                each
                for each in alerts.current(db, old_ms=600_000)
                if (each.account_id, each.kind) == (scene.client.account.id, "events")
            ]

    assert alert() == []
    scene.execute(
        "update event_subscription set state = 'switched_off' where account_id = :account"
    )
    [told] = alert()
    assert "1 event subscription of it was switched off" in told.in_words()
    assert alerts.message_data(told, None)["subscriptions"] == 1
    of = (scene.hub, scene.client.account.client_id, scene.id)
    event_subscriptions.change(*of, state="active", by=TESTS)
    assert alert() == []


def test_old_events_are_deleted(scene: Scene) -> None:
    scene.receiver.answer = lambda got: 410 if got.json["type"] == "deal.created" else 200
    for resource in ("contacts", "contacts", "deals"):
        scene.client.make(resource)
        scene.deliver()
    assert scene.states == ["delivered", "delivered", "failed"]
    for days, left in ((8, 1), (31, 0)):
        scene.execute(
            "update event_delivery set finished_at = :at where account_id = :account",
            at=int(time.time() * 1000) - days * DAY_MS,
        )
        with scene.hub.database.across_accounts():
            for each in (expired.DELIVERED_EVENTS, expired.FAILED_EVENTS):
                while expired.delete_expired(scene.hub.database, each):
                    pass
        assert (len(scene.deliveries), len(events_of(scene.hub, scene.client))) == (left, left)


def test_a_full_round_of_deletions_says_that_there_may_be_more(scene: Scene) -> None:
    scene.receiver.answer = lambda got: 410 if got.json["type"] == "deal.created" else 200
    for resource in ("contacts", "deals"):
        scene.client.make(resource)
        scene.deliver()
    scene.execute("update event_delivery set finished_at = 1 where account_id = :account")
    rounds = []
    with scene.hub.database.across_accounts():
        while scene.deliveries:
            for each in (expired.DELIVERED_EVENTS, expired.FAILED_EVENTS):
                rounds.append(expired.delete_expired(scene.hub.database, each, most=1))
    # The worker goes on as long as a round is full.
    assert set(rounds) == {1}


def test_an_impossibly_long_wait_ends(scene: Scene) -> None:
    scene.client.make()
    for column in ("event_delivery set run_at", "event_subscription set paused_until"):
        late = now_ms() + 3 * DAY_MS
        scene.execute(f"update {column} = :late where account_id = :account", late=late)
    assert scene.claim() == []
    with scene.hub.database.across_accounts():
        end_overlong_waits(scene.hub.database)
    assert len(scene.claim()) == 1
