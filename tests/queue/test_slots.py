"""Who may wait for a CRM: so many threads, and nobody while the process is behind."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from crmhub.hub import Hub
from crmhub.queue import slots
from crmhub.queue.slots import Gate, Slots
from tests.api.helpers.helper_calls import lead
from tests.clients import Client
from tests.fakes import FakeCrm
from tests.queue.working import rows, soon, states, work_off


def test_some_threads_stay_free_for_what_needs_no_crm() -> None:
    few = Slots(6)
    with ExitStack() as held:
        assert [held.enter_context(few.one(3)) for _ in range(3)] == [True, True, False]
    with few.one(3) as free:
        assert free


def test_nobody_waits_while_the_process_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Slots(16)
    monkeypatch.setattr(slots, "_FORGOTTEN_S", 3600)
    assert busy.took(2.0, 3)
    with busy.one(3) as free, busy.one(25) as patient:
        assert (free, patient) == (False, True)
    # It is not behind for ever because nobody tries.
    monkeypatch.setattr(slots, "_FORGOTTEN_S", 0)
    with busy.one(3) as free:
        assert free


def test_at_a_gate_who_came_first_goes_first() -> None:
    gate, seen = Gate(1), list[str]()

    def pass_through() -> None:
        with gate:
            seen.append("first")

    other = threading.Thread(target=pass_through)
    with gate:
        other.start()
        soon(lambda: gate.waiting == 1)
    # This thread runs, and that one has yet to wake up.
    with gate:
        seen.append("second")
    other.join(120)
    assert seen == ["first", "second"]


def test_groups_take_turns_however_many_of_one_wait() -> None:
    gate, seen = Gate(1), list[str]()

    def pass_through(group: str) -> None:
        with gate.of(group):
            seen.append(group)

    threads = []
    with gate:
        for number, group in enumerate(["many", "many", "many", "few"], 1):
            threads.append(threading.Thread(target=pass_through, args=(group,)))
            threads[-1].start()
            soon(lambda number=number: gate.waiting == number)
    for thread in threads:
        thread.join(120)
    assert seen == ["many", "few", "many", "many"]


def test_a_gate_lets_so_many_in_at_a_time() -> None:
    gate, inside, most = Gate(3), list[int](), list[int]()
    together = threading.Barrier(3)

    def pass_through() -> None:
        with gate:
            inside.append(1)
            most.append(len(inside))
            together.wait(120)
            inside.pop()

    threads = [threading.Thread(target=pass_through) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert (len(most), max(most)) == (30, 3)


@pytest.mark.usefixtures("fakes")
def test_a_call_that_was_long_on_its_way_is_left_to_the_worker(
    hub: Hub, bot: Client, crm: FakeCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_MOST_OF_DEADLINE", 0)
    monkeypatch.setattr(slots, "_FORGOTTEN_S", 0)
    assert (lead(bot).status_code, crm.calls) == (202, [])
    assert rows(hub, bot, "state, doubt_since, lease") == [("queued", None, None)]
    work_off(hub, bot)
    assert (states(hub, bot), len(crm.contacts)) == (["done"], 1)
