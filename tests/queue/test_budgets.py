"""Budgets: no window holds more calls than the CRM allows, whoever makes them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import pytest
import redis

from benchmarks.places import free_port
from crmhub.adapter import Throttled
from crmhub.database.connection import Database
from crmhub.errors import Unavailable
from crmhub.queue import budgets as module
from crmhub.queue.budgets import Budgets, LaneBudget
from tests.clocks import clock_of
from tests.processes import start
from tests.queue.callers import Caller

# So few that it is the limit that holds storms up, and not the machine.
LIMIT = (20, 1.0)
# 2 at once, then one each 56 ms.
STEP = 1.0 / 18
# Of each process of a storm.
THREADS = 2


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def place(request: pytest.FixtureRequest) -> dict[str, str | None]:
    """Where budgets are kept: each database in turn, then Redis beside one."""
    kind = "sqlite" if request.param == "redis" else request.param
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    return {"database_url": request.getfixturevalue(f"{kind}_url"), "redis_url": url}


@pytest.fixture
def database(place: dict[str, Any]) -> Iterator[Database]:
    database = Database(place["database_url"], pool_size=1)
    yield database
    database.close()


@pytest.fixture
def budgets(database: Database, place: dict[str, Any]) -> Iterator[Budgets]:
    budgets = Budgets(database, place["redis_url"])
    yield budgets
    budgets.close()


@pytest.fixture
def others(database: Database, place: dict[str, Any]) -> Iterator[Budgets]:
    """The budgets of another process, as far as this one can tell."""
    budgets = Budgets(database, place["redis_url"])
    yield budgets
    budgets.close()


@pytest.fixture
def account() -> int:
    return random.randrange(2**31)


def of(budgets: Budgets, account: int, **options: Any) -> LaneBudget:
    """Return a budget of 100 calls in ten hours: 10 at once, then one each 400 s."""
    patience, queued = options.pop("patience", 0.0), options.pop("queued", False)
    copying = options.pop("copying", "")
    given = {"connection_id": 1, "lane": "burst", "calls": 100, "seconds": 36_000} | options
    return budgets.of(
        account,
        patience=lambda: patience,
        queued=lambda: queued,
        copying=lambda: copying,
        **given,
    )


def taken(budget: LaneBudget, most: int = 1000) -> int:
    """Return how many calls are let through at once."""
    for n in range(most):
        try:
            budget.take()
        except Throttled:
            return n
    return most


def refused(budget: LaneBudget, cost: int = 1) -> Throttled:
    with pytest.raises(Throttled) as caught:
        budget.take(cost)
    return caught.value


# One caller.


def test_a_tenth_of_the_limit_is_let_through_at_once(budgets: Budgets, account: int) -> None:
    budget = of(budgets, account)
    assert taken(budget) == 10
    told = refused(budget)
    assert 100 < told.retry_after <= 400
    assert told.scope == "burst"
    assert "(burst) are used up" in told.message


@pytest.mark.parametrize("calls", [1, 2, 19])
def test_a_small_limit_lets_one_through_at_a_time(
    budgets: Budgets, account: int, calls: int
) -> None:
    budget = of(budgets, account, calls=calls)
    assert taken(budget) == 1
    assert 0.8 < refused(budget).retry_after / (36_000 / max(1, calls - 1)) <= 1


def test_a_refused_call_reserves_nothing(budgets: Budgets, account: int) -> None:
    budget = of(budgets, account)
    taken(budget)
    for _ in range(5):
        assert refused(budget).retry_after <= 400


def test_a_call_takes_as_many_tokens_as_it_costs(budgets: Budgets, account: int) -> None:
    budget = of(budgets, account)
    budget.take(7)
    told = refused(budget, cost=4)
    assert taken(budget) == 3
    # One token is missing, and one comes each 400 s.
    assert 300 < told.retry_after <= 400
    assert 1200 < refused(budget, cost=4).retry_after <= 1600


def test_a_call_that_costs_more_than_the_burst_waits_for_the_rest(
    budgets: Budgets, account: int
) -> None:
    assert 2 * 300 < refused(of(budgets, account), cost=12).retry_after <= 2 * 400


def test_a_queued_call_that_costs_more_than_the_burst_gets_its_turn(
    budgets: Budgets, account: int
) -> None:
    # One token each 2.2 ms, one at once.
    budget = of(budgets, account, calls=10, seconds=0.02, patience=50, queued=True)
    for _ in range(3):
        budget.take(5)


@pytest.mark.parametrize("cost", [0, -1, 101])
def test_a_cost_that_no_call_has_is_refused(budgets: Budgets, account: int, cost: int) -> None:
    with pytest.raises(ValueError, match="1 to 100"):
        of(budgets, account).take(cost)


def test_a_call_waits_for_its_turn_when_it_may(budgets: Budgets, account: int) -> None:
    start = time.monotonic()
    # One each half second.
    taken(of(budgets, account, seconds=45))
    of(budgets, account, seconds=45, patience=50).take()
    assert time.monotonic() - start > 0.45


def test_turns_are_reserved_ahead_as_far_as_the_patience_goes(
    budgets: Budgets, account: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who waits comes back at once. One call is due each 20 s.
    clock_of(module, monkeypatch)
    taken(of(budgets, account, seconds=1800))
    for _ in range(2):
        of(budgets, account, seconds=1800, patience=50).take()
    assert refused(of(budgets, account, seconds=1800, patience=1)).retry_after > 21


def test_accounts_connections_and_lanes_have_budgets_of_their_own(
    budgets: Budgets, account: int
) -> None:
    taken(of(budgets, account))
    assert taken(of(budgets, account)) == 0
    assert taken(of(budgets, account + 1)) == 10
    assert taken(of(budgets, account, connection_id=2)) == 10
    assert taken(of(budgets, account, lane="search")) == 10


def test_processes_share_a_budget(budgets: Budgets, others: Budgets, account: int) -> None:
    taken(of(budgets, account), most=6)
    assert taken(of(others, account)) == 4


def test_another_limit_to_start_with_counts_at_once(budgets: Budgets, account: int) -> None:
    assert taken(of(budgets, account)) == 10
    assert taken(of(budgets, account, calls=200)) == 20


@pytest.mark.parametrize(("calls", "seconds"), [(0, 10), (-1, 10), (1, 0), (1, float("inf"))])
def test_what_is_no_limit_is_refused_at_the_start_and_passed_over_later(
    budgets: Budgets, account: int, calls: int, seconds: float
) -> None:
    with pytest.raises(ValueError, match="no limit"):
        of(budgets, account, calls=calls, seconds=seconds)
    budget = of(budgets, account)
    budget.follow(calls, seconds)
    assert taken(budget) == 10


# Queued calls.


def test_a_crm_may_say_no_limit_with_its_largest_number(budgets: Budgets, account: int) -> None:
    budget = of(budgets, account)
    budget.follow(2**63 - 1, 1)
    assert taken(budget, 30) == 30


def test_queued_calls_leave_a_quarter_of_the_burst(budgets: Budgets, account: int) -> None:
    queued = of(budgets, account, calls=400, queued=True)
    assert taken(queued) == 30
    assert taken(of(budgets, account, calls=400)) == 10


def test_calls_for_a_copy_leave_two_thirds_of_the_burst(budgets: Budgets, account: int) -> None:
    copying = of(budgets, account, calls=300, copying="changes")
    assert taken(copying) == 10
    assert taken(of(budgets, account, calls=300)) == 20
    assert taken(copying) == 0


def test_calls_for_a_copy_are_a_third_of_all(budgets: Budgets, account: int) -> None:
    copying = of(budgets, account, calls=10, copying="all")
    assert taken(copying) == 1
    # One each 36,000 s * 3 / 9.
    assert 8_000 < refused(copying).retry_after <= 12_000
    followed = of(budgets, account, lane="other", copying="all")
    followed.follow(10, 36_000)
    assert taken(followed) == 1
    assert 8_000 < refused(followed).retry_after <= 12_000


def test_queued_calls_wait_for_a_free_turn_and_reserve_none(budgets: Budgets, account: int) -> None:
    taken(of(budgets, account, seconds=20, queued=True))
    free = of(budgets, account, seconds=20, patience=59, queued=True)
    waiting = threading.Thread(target=free.take)
    waiting.start()
    time.sleep(0.1)
    assert taken(of(budgets, account, seconds=20)) >= 2
    waiting.join()


def test_queued_calls_are_told_when_to_come_back(budgets: Budgets, account: int) -> None:
    queued = of(budgets, account, queued=True)
    taken(queued)
    assert 100 < refused(queued).retry_after <= 400


# What the CRM says.


def test_another_limit_is_followed_by_every_process(
    budgets: Budgets, others: Budgets, account: int
) -> None:
    here, there = of(budgets, account), of(others, account)
    here.follow(500, 60_000)
    assert taken(there) == 50
    there.follow(10, 60_000)
    assert 6_000 < refused(here).retry_after <= 60_000 / 9 + 1


def test_what_another_process_follows_is_not_taken_for_known(
    budgets: Budgets, others: Budgets, account: int
) -> None:
    here, there = of(budgets, account), of(others, account)
    here.follow(500, 36_000)
    there.follow(100, 36_000)
    here.take()
    here.follow(500, 36_000)
    assert taken(there) > 30


def test_a_limit_that_cannot_be_written_down_now_is_followed_later(
    budgets: Budgets, account: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = of(budgets, account)

    def fail(*_: Any) -> None:
        raise Unavailable("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(type(budgets._store), "set_limit", fail)
        budget.follow(500, 36_000)
    budget.follow(500, 36_000)
    assert taken(budget) == 50


def test_following_what_is_followed_already_writes_nothing(
    budgets: Budgets, others: Budgets, account: int
) -> None:
    here, there = of(budgets, account), of(others, account)
    here.follow(500, 36_000)
    there.follow(100, 36_000)
    here.follow(500, 36_000)
    assert taken(there) == 10


def test_a_pause_is_told_to_every_process_at_once(
    budgets: Budgets, others: Budgets, account: int
) -> None:
    of(budgets, account).pause(3000)
    of(budgets, account).pause(1000)
    for each in (budgets, others):
        assert 2500 < refused(of(each, account, patience=5)).retry_after <= 3000
        assert refused(of(each, account, patience=0.1, queued=True)).retry_after > 2500


def test_after_a_pause_calls_start_gently(budgets: Budgets, account: int) -> None:
    start = time.monotonic()
    of(budgets, account).pause(0.4)
    of(budgets, account, patience=59).take()
    assert time.monotonic() - start > 0.39
    assert taken(of(budgets, account)) <= 1


class _SleptTwice(Exception):
    """The call went to sleep a second time."""


def test_who_sleeps_already_hears_of_a_pause(
    budgets: Budgets, others: Budgets, account: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One each 5 s.
    taken(of(budgets, account, seconds=450))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise _SleptTwice
        of(others, account, seconds=450).pause(40)

    monkeypatch.setattr(clock_of(module, monkeypatch), "sleep", sleep)
    with pytest.raises(_SleptTwice):
        of(budgets, account, seconds=450, patience=59).take()
    assert slept[0] <= 5
    assert slept[1] > 20


# Around it.


def test_no_database_connection_is_held_while_a_call_waits(
    budgets: Budgets, account: int, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One each 20 s.
    taken(of(budgets, account, seconds=1800))
    answers: list[int] = []

    def ask() -> int:
        with database.reading() as connection:  # the only one there is
            return int(connection.scalar("select 1"))

    def sleep(_: float) -> None:
        with ThreadPoolExecutor(1) as another:
            answers.append(another.submit(ask).result())

    monkeypatch.setattr(clock_of(module, monkeypatch), "sleep", sleep)
    of(budgets, account, seconds=1800, patience=59).take()
    assert set(answers) == {1}


def test_a_clock_that_was_set_back_blocks_nobody(
    budgets: Budgets, account: int, database: Database, place: dict[str, Any]
) -> None:
    taken(of(budgets, account))
    a_year_on = time.time() * 1000 + 365 * 86_400_000
    if place["redis_url"]:
        client = redis.Redis.from_url(place["redis_url"])
        (name,) = client.scan_iter("crmhub:budget:*")
        client.hset(name, mapping={"tat": a_year_on, "paused": a_year_on})
        client.close()
    else:
        with database.reading() as connection:
            connection.run(
                "update budget set tat = :then, paused_until = :then where account_id = :id",
                {"then": a_year_on, "id": account},
            )
    assert taken(of(budgets, account)) <= 1
    assert refused(of(budgets, account)).retry_after <= 400


def test_memory_holds_only_budgets_in_use(budgets: Budgets, account: int) -> None:
    used = [of(budgets, account + n) for n in range(5)]
    assert len(budgets._lanes) == 5
    used.clear()
    assert len(budgets._lanes) == 0


def test_while_redis_is_away_the_database_keeps_the_budget(
    sqlite_url: str, account: int, caplog: pytest.LogCaptureFixture
) -> None:
    away = f"redis://:hidden@127.0.0.1:{free_port()}/0"
    database = Database(sqlite_url)
    here, there = (of(Budgets(database, away), account) for _ in range(2))
    assert taken(here) + taken(there) == 10
    here.follow(10, 36_000)
    here.pause(3000)
    assert refused(there).retry_after > 2500
    assert {record.message for record in caplog.records} == {
        "Redis is unavailable (ConnectionError); budgets of calls to CRMs are kept in the database."
    }
    database.close()


def test_postgresql_writes_no_log_for_budgets(postgresql_url: str) -> None:
    database = Database(postgresql_url)
    with database.reading() as connection:
        kind = connection.scalar("select relpersistence from pg_class where relname = 'budget'")
    database.close()
    assert kind in ("u", b"u")


# Storms of several processes. A call is noted by its thread a moment after it was let through, on
# a busy machine a long one: each thread may bring one call of an earlier window into a later one.


def storm(place: dict[str, Any], account: int, **options: Any) -> Caller:
    given = {"limit": LIMIT, "threads": THREADS, "seconds": 2.5, "queued": False} | options
    return Caller("storm", account=account, **place, **given)


def fullest(times: list[float], seconds: float) -> int:
    """Return the largest number of times in any window of so many seconds."""
    times, first, most = sorted(times), 0, 0
    for n, each in enumerate(times):
        while times[first] <= each - seconds:
            first += 1
        most = max(most, n - first + 1)
    return most


def test_four_processes_at_once_keep_the_limit_and_use_it(
    place: dict[str, Any], account: int
) -> None:
    callers = [storm(place, account) for _ in range(4)]
    start(*callers)
    times = [at for each in callers for at, _ in each.result()]
    assert fullest(times, LIMIT[1]) <= LIMIT[0] + 4 * THREADS
    assert len(times) >= 0.4 * (max(times) - min(times)) / STEP


def test_interactive_calls_find_the_way_free_while_queued_ones_go_on(
    place: dict[str, Any], account: int
) -> None:
    queued = [storm(place, account, queued=True, threads=4, seconds=3) for _ in range(3)]
    interactive = storm(place, account, threads=1, every=0.15, seconds=2.5)
    start(*queued, interactive)
    waits = [waited for _, waited in interactive.result()]
    calls = [call for each in queued for call in each.result()]
    assert median(waits) < median(waited for _, waited in calls)
    assert len(calls) >= 0.2 * 2.5 / STEP


def test_a_limit_raised_and_lowered_takes_effect_in_a_storm(
    place: dict[str, Any], account: int, budgets: Budgets
) -> None:
    callers = [storm(place, account, limit=(4, 1), seconds=4.5) for _ in range(2)]
    mine = of(budgets, account, calls=4, seconds=1)
    start(*callers)
    time.sleep(0.6)
    raised = time.time()
    mine.follow(60, 1)
    time.sleep(1.5)
    mine.follow(4, 1)
    lowered = time.time()
    times = [at for each in callers for at, _ in each.result()]
    # Who had reserved a turn under the higher limit may still use it.
    after = [at for at in times if at > lowered + 1]
    assert fullest([at for at in times if at <= raised], 1) <= 4 + 2 * THREADS
    # Under the lower limit it were three each second.
    between = [at for at in times if raised < at <= lowered]
    assert len(between) > 3 * (lowered - raised) + 1 + 2 * THREADS
    assert 0 < fullest(after, 1) <= 4 + 2 * THREADS


def test_a_pause_stops_every_process_of_a_storm(
    place: dict[str, Any], account: int, budgets: Budgets
) -> None:
    callers = [
        storm(place, account, limit=(100, 2.0), queued=queued, seconds=3.2)
        for queued in (False, False, True)
    ]
    start(*callers)
    time.sleep(0.5)
    of(budgets, account, calls=100, seconds=2.0).pause(1.5)
    paused = time.time()
    times = [at for each in callers for at, _ in each.result()]
    # Some forty would come else.
    assert len([at for at in times if paused + 0.5 < at < paused + 1.4]) <= 3 * THREADS
    assert len([at for at in times if at > paused + 1.4]) > 3 * THREADS
