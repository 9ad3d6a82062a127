"""What an adapter asks its CRM seldom is asked once, and an old answer is better than none."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

import pytest
import time_machine

from crmhub.adapter import (
    Choice,
    Context,
    Denied,
    Described,
    NotYet,
    Pipeline,
    Throttled,
    Unavailable,
)
from crmhub.adapter.remembered import HOUR, Remembered
from crmhub.adapter.testing.connection import Leases, SharedTexts
from tests.loops import for_each


class _Context:
    def __init__(self, seconds: float = 5.0) -> None:
        self.seconds = seconds
        self.shared = SharedTexts()
        self.lease = Leases(self.remaining).hold

    def remaining(self) -> float:
        return self.seconds


class Source:
    """What is asked: counts, and fails with `error` while there is one."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    def __call__(self) -> int:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.asked


def remembered(source: Any, seconds: float = 5.0) -> Remembered[int]:
    return Remembered(source, cast(Context, _Context(seconds)))


def test_it_is_asked_once() -> None:
    source = Source()
    kept = remembered(source)
    assert [kept.get() for _ in range(3)] == [1, 1, 1]


def test_many_threads_ask_once() -> None:
    source = Source()
    kept = remembered(source)
    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(lambda _: kept.get(), range(100))) == {1}


def test_what_is_too_old_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, now = remembered(Source()), [1000.0]
    monkeypatch.setattr("crmhub.adapter.remembered.time.monotonic", lambda: now[0])
    assert kept.get() == 1
    now[0] += 40
    assert kept.get() == 1
    assert kept.get(newer_than=30) == 2
    now[0] += HOUR
    assert kept.get() == 3


@for_each("error", [Unavailable("down"), Throttled("slow", retry_after=9)])
def test_an_old_answer_is_better_than_none(error: Exception) -> None:
    source = Source()
    kept = remembered(source)
    kept.get()
    source.error = error
    assert kept.get(newer_than=0) == 1


def test_a_source_that_is_down_is_left_alone_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    source, now = Source(), [1000.0]
    monkeypatch.setattr("crmhub.adapter.remembered.time.monotonic", lambda: now[0])
    kept = remembered(source)
    kept.get()
    source.error = Unavailable("down")
    now[0] += HOUR
    assert [kept.get() for _ in range(3)] == [1, 1, 1]
    assert source.asked == 2
    now[0] += 61
    source.error = None
    assert kept.get() == 3


@for_each("error", [Unavailable("down"), Denied("no")])
def test_without_an_answer_the_failure_is_told_and_not_kept(error: Exception) -> None:
    source = Source()
    source.error = error
    kept = remembered(source)
    with pytest.raises(type(error)):
        kept.get()
    source.error = None
    assert kept.get() == 2


def test_a_right_that_was_lost_is_told_although_there_is_an_old_answer() -> None:
    source = Source()
    kept = remembered(source)
    kept.get()
    source.error = Denied("no")
    with pytest.raises(Denied):
        kept.get(newer_than=0)


def test_nobody_waits_longer_than_there_is_time() -> None:
    asking, done = threading.Event(), threading.Event()

    def slow() -> int:
        asking.set()
        done.wait(120)
        return 1

    kept = remembered(slow, seconds=0.05)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(kept.get)
        asking.wait(120)
        with pytest.raises(NotYet):
            kept.get()
        done.set()
        assert first.result() == 1


def test_a_clock_that_is_set_changes_nothing() -> None:
    kept = remembered(Source())
    with time_machine.travel("2026-01-01"):
        kept.get()
    with time_machine.travel("2036-01-01"):
        assert kept.get() == 1


class Processes:
    """Two processes that share what they remember of one source."""

    def __init__(self, source: Any, context: Any = None) -> None:
        self.context = context or _Context()
        self.first, self.second = (
            Remembered[Any](source, cast(Context, self.context), name="list") for _ in range(2)
        )


def test_another_process_takes_over_what_one_was_told() -> None:
    source = Source()
    two = Processes(source)
    assert [two.first.get(), two.second.get(), source.asked] == [1, 1, 1]


def test_what_has_no_name_is_not_shared() -> None:
    source, context = Source(), cast(Context, _Context())
    assert [Remembered(source, context).get() for _ in range(2)] == [1, 2]


def test_what_is_taken_over_is_as_old_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    source, now = Source(), [1000.0]
    two = Processes(source)
    for module in ("remembered", "testing.connection"):
        monkeypatch.setattr(f"crmhub.adapter.{module}.time.monotonic", lambda: now[0])
    two.first.get()
    now[0] += HOUR - 10
    assert two.second.get() == 1
    now[0] += 11
    assert [two.second.get(), two.first.get(), source.asked] == [2, 2, 2]


def test_an_old_answer_of_another_process_is_better_than_none() -> None:
    source = Source()
    two = Processes(source)
    two.first.get()
    source.error = Unavailable("down")
    assert two.second.get(newer_than=0) == 1
    assert source.asked == 2


def test_processes_that_begin_together_ask_once() -> None:
    asking, done = threading.Event(), threading.Event()
    source = Source()

    def slow() -> int:
        asking.set()
        done.wait(120)
        return source()

    two = Processes(slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(two.first.get)
        asking.wait(120)
        second = pool.submit(two.second.get)
        done.set()
        assert [first.result(), second.result(), source.asked] == [1, 1, 1]


def test_a_process_that_waits_in_vain_asks_itself() -> None:
    def taken(*args: Any, **options: Any) -> AbstractContextManager[None]:
        raise NotYet("taken", retry_after=1)

    context = _Context()
    context.lease = taken  # type: ignore[method-assign,assignment]
    assert Processes(Source(), context).first.get() == 1


@for_each("text", ["", "[", '{"__type__": "Choice"}', '{"__type__": "No"}'])
def test_what_another_version_has_left_is_read_anew(text: str) -> None:
    context = _Context()
    context.shared.save("list", text)
    two = Processes(Source(), context)
    assert [two.first.get(), two.second.get()] == [1, 1]


def test_definitions_come_back_as_they_were() -> None:
    stages = (Choice("a", "A"), Choice("b", "B"))
    value = {
        "stage": Described("stage", "Stage", "enumeration", stages, required=True),
        "pipelines": [Pipeline("1", "One", stages), Pipeline("2", "Two", ())],
        "none": None,
    }
    two = Processes(lambda: value)
    two.first.get()
    assert two.second.get() == value


@dataclass(frozen=True)
class Field:
    described: Described
    keys: tuple[str, ...] = ()


def test_a_dataclass_of_an_adapter_is_shared_if_it_is_named() -> None:
    value, context = {"x": Field(Described("x", "X", "string"), ("a",))}, cast(Context, _Context())
    for _ in range(2):
        kept = Remembered(lambda: value, context, name="fields", types=(Field,))
        assert kept.get() == value
    with pytest.raises(TypeError, match="Field cannot be shared"):
        Remembered(lambda: value, context, name="other").get()


def test_what_cannot_be_shared_is_no_silent_loss() -> None:
    with pytest.raises(TypeError, match="object cannot be shared"):
        Processes(object).first.get()
