"""Limits: exact in Redis, shared out without it, and taken over locally when it goes away."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from limits.strategies import MovingWindowRateLimiter
from sqlalchemy.engine import make_url

from benchmarks.places import free_port
from crmhub.accounts import limits as module
from crmhub.accounts.accounts import Account, ConnectionInfo
from crmhub.accounts.directory import Caller
from crmhub.accounts.limits import Limits, RateStatus
from crmhub.accounts.plans import Plan, Rate
from crmhub.accounts.switches import Switches
from tests.clocks import clock_of


@pytest.fixture(params=["memory", "redis"])
def make_limits(request):
    url = None if request.param == "memory" else request.getfixturevalue("redis_url")
    return lambda **options: Limits(url, **options)


def caller(rate="3/1000", key_rate=None, key="k1", account_id=1):
    def read(text):
        return Rate(*map(int, text.split("/"))) if text else None

    account = Account(
        id=account_id,
        client_id="acme",
        name="Acme",
        plan=Plan("p", read(rate), read(key_rate)),
        switches=Switches(),
        connection=ConnectionInfo(1, "local", {}, ""),
        catalogue_version=1,
        pipelines_edited=False,
        disabled=False,
        created_at=0,
    )
    return Caller(account, key, frozenset())


def allowed(limits, who, calls):
    return [limits.hit(who).allowed for _ in range(calls)]


def test_calls_are_counted_down_and_then_refused(make_limits):
    limits = make_limits()
    statuses = [limits.hit(caller("3/1000")) for _ in range(4)]
    assert [status.remaining for status in statuses] == [2, 1, 0, 0]
    assert [status.allowed for status in statuses] == [True, True, True, False]
    assert {status.limit for status in statuses} == {3}
    assert all(900 <= status.reset_s <= 1000 for status in statuses)
    assert [status.retry_after for status in statuses[:3]] == [0, 0, 0]
    assert 900 <= statuses[3].retry_after <= 1000


def test_a_refused_call_works_after_the_time_it_was_told(make_limits, time_machine):
    time_machine.move_to(time.time(), tick=True)
    limits = make_limits()
    who = caller("2/1000")
    assert allowed(limits, who, 3) == [True, True, False]
    time_machine.shift(limits.hit(who).retry_after)
    assert limits.hit(who).allowed


def test_the_window_moves(make_limits, time_machine):
    time_machine.move_to(time.time(), tick=True)
    limits = make_limits()
    who = caller("2/1000")
    limits.hit(who)
    time_machine.shift(600)
    assert allowed(limits, who, 2) == [True, False]
    time_machine.shift(500)
    assert allowed(limits, who, 2) == [True, False]


def test_many_threads_get_exactly_the_limit(make_limits):
    limits = make_limits()
    who = caller("100/60")
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: limits.hit(who).allowed, range(200)))
    assert sum(results) == 100


def test_accounts_do_not_share_a_limit(make_limits):
    limits = make_limits()
    assert allowed(limits, caller("1/1000", account_id=1), 2) == [True, False]
    assert limits.hit(caller("1/1000", account_id=2)).allowed


def test_keys_have_limits_of_their_own_beside_the_accounts(make_limits):
    limits = make_limits()
    first, second = (caller("5/1000", "2/1000", key) for key in ("k1", "k2"))
    assert allowed(limits, first, 3) == [True, True, False]
    statuses = [limits.hit(second) for _ in range(2)]
    assert [(status.limit, status.remaining) for status in statuses] == [(2, 1), (2, 0)]
    # The call that the first key's limit stopped was not counted for the account: one is left.
    third = caller("5/1000", "2/1000", "k3")
    assert [(limits.hit(third).limit, limits.hit(third).allowed)] == [(5, False)]


def test_calls_without_a_key_count_for_the_account(make_limits):
    limits = make_limits()
    who = caller("2/1000")
    limits.hit_account(who.account)
    assert allowed(limits, who, 2) == [True, False]
    assert not limits.hit_account(who.account).allowed


def test_no_limit_means_no_counting():
    limits = Limits(None)
    status = limits.hit(caller(None))
    assert status == RateStatus()
    assert status.allowed


def test_a_limited_call_is_told_what_is_left(time_machine):
    time_machine.move_to(time.time(), tick=False)
    assert Limits(None).hit(caller("3/1000")) == RateStatus(limit=3, remaining=2, reset_s=1000)


def test_misses_are_throttled_per_address(make_limits):
    limits = make_limits()
    assert all(limits.miss("192.0.2.1").allowed for _ in range(60))
    refused = limits.miss("192.0.2.1")
    assert not refused.allowed
    assert 1 <= refused.retry_after <= 60
    assert limits.miss("192.0.2.2").allowed


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("unix", "unix", True),
    ],
)
def test_an_ipv6_caller_is_its_network(one, other, same):
    assert (module.network_of(one) == module.network_of(other)) is same


# Sharing.


def test_without_redis_each_process_holds_its_share():
    limits = Limits(None, share=4)
    assert sum(allowed(limits, caller("10/1000"), 10)) == 2
    assert sum(allowed(limits, caller("3/1000", account_id=2), 3)) == 1


def test_with_redis_processes_share_one_limit(redis_url):
    processes = [Limits(redis_url, share=4) for _ in range(4)]
    who = caller("10/1000")
    assert sum(limits.hit(who).allowed for limits in processes for _ in range(5)) == 10


def test_who_has_not_called_for_a_while_is_forgotten(time_machine, monkeypatch):
    kept = []
    monkeypatch.setattr(module, "_FORGET_SECONDS", 0)
    monkeypatch.setattr(
        module, "MovingWindowRateLimiter", lambda it: kept.append(it) or MovingWindowRateLimiter(it)
    )
    now, limits = time.time(), Limits(None)
    for host in range(256):
        limits.miss(f"198.51.100.{host}")
    for hour in (1, 2):
        time_machine.move_to(now + hour * 3600, tick=True)
        limits.miss("203.0.113.1")
        # What has expired is taken out by a thread, some milliseconds after a call.
        until = time.perf_counter() + 60
        while sum(map(len, kept[0].events.values())) > 1 and time.perf_counter() < until:
            time.sleep(0.01)
    assert len(kept[0].events) < 3


# Redis away.


@pytest.fixture
def closed_port():
    return free_port()


@pytest.fixture
def silent():
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server


def connections(server):
    """Return how many have connected since the last look."""
    server.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count


def test_without_an_answer_from_redis_the_share_is_held_locally(closed_port):
    limits = Limits(f"redis://127.0.0.1:{closed_port}/0", share=2)
    assert sum(allowed(limits, caller("10/1000"), 10)) == 5


def test_a_clock_that_was_set_back_shuts_nobody_out(make_limits, time_machine):
    limits, now = make_limits(), time.time()
    time_machine.move_to(now + 3600, tick=True)
    assert allowed(limits, caller("3/10"), 3) == [True] * 3
    time_machine.move_to(now, tick=True)
    statuses = [limits.hit(caller("3/10")) for _ in range(4)]
    assert [status.allowed for status in statuses] == [True, True, True, False]
    assert [status.remaining for status in statuses] == [2, 1, 0, 0]
    assert all(status.reset_s <= 10 for status in statuses)


def test_a_clock_that_was_set_ahead_shuts_nobody_out(make_limits, time_machine):
    limits, now = make_limits(), time.time()
    time_machine.move_to(now, tick=True)
    assert allowed(limits, caller("3/10"), 4) == [True] * 3 + [False]
    time_machine.move_to(now + 3600, tick=True)
    statuses = [limits.hit(caller("3/10")) for _ in range(4)]
    assert [status.allowed for status in statuses] == [True, True, True, False]
    assert all(status.reset_s <= 10 for status in statuses)


def test_a_stalled_redis_costs_one_call_a_moment_and_the_others_nothing(silent, monkeypatch):
    monkeypatch.setattr(module, "_REDIS_SECONDS", 0.2)
    monkeypatch.setattr(module, "_RETRY_SECONDS", 3600.0)
    limits = Limits(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", share=2)
    for _ in range(10):
        limits.hit(caller("1000/1000"))
    assert connections(silent) == 1


def test_while_redis_stalls_one_call_in_a_while_tries_again(silent, monkeypatch):
    clock = clock_of(module, monkeypatch)
    monkeypatch.setattr(module, "_REDIS_SECONDS", 0.2)
    monkeypatch.setattr(module, "_RETRY_SECONDS", 3600.0)
    limits = Limits(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", share=1)
    limits.hit(caller("1000/1000"))
    assert connections(silent) == 1
    clock.forward(3600)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: limits.hit(caller("1000/1000")), range(8)))
    assert connections(silent) == 1


class Gate:
    """A way to the real Redis that can be shut and opened."""

    def __init__(self, upstream):
        self._upstream = upstream
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.open = True
        self._pairs = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            if not self.open:
                client.close()
                continue
            upstream = socket.create_connection(self._upstream)
            self._pairs.append((client, upstream))
            for source, target in ((client, upstream), (upstream, client)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    @staticmethod
    def _pump(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass

    def shut(self):
        self.open = False
        for pair in self._pairs:
            for one in pair:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
        self._pairs.clear()

    def close(self):
        self.shut()
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()


@pytest.fixture
def gate(redis_url):
    there = make_url(redis_url)
    gate = Gate((there.host, there.port or 6379))
    yield gate
    gate.close()


def test_redis_going_away_and_coming_back_is_told_once_each(redis_url, gate, monkeypatch, caplog):
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.2)
    through = make_url(redis_url).set(host="127.0.0.1", port=gate.port)
    limits = Limits(through.render_as_string(hide_password=False), share=2)
    who = caller("10/60")
    assert sum(allowed(limits, who, 4)) == 4
    gate.shut()
    assert sum(allowed(limits, who, 10)) == 5
    time.sleep(0.3)
    assert not limits.hit(who).allowed
    gate.open = True
    time.sleep(0.3)
    assert limits.hit(who).remaining == 5
    told = [record.message for record in caplog.records]
    assert told == [
        "Redis is unavailable (ConnectionError); limits are held locally.",
        "Redis is back; limits are shared again.",
    ]


def test_a_redis_that_answers_with_errors_is_away_too(redis_url, redis_database):
    limits = Limits(redis_url)
    limits.hit(caller("3/1000"))
    (window,) = redis_database.scan_iter("crmhub:*")
    redis_database.set(window, "not a list")
    assert sum(allowed(limits, caller("3/1000"), 4)) == 3


def test_a_unix_socket_is_taken_for_an_address(tmp_path):
    limits = Limits(f"unix://{tmp_path}/none.sock", share=2)
    assert sum(allowed(limits, caller("10/1000"), 10)) == 5
