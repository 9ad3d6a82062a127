"""Something that goes on in another thread while a test looks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from crmhub.database.connection import Connection


@contextmanager
def repeatedly(step: Callable[[], Any]) -> Iterator[Callable[[], None]]:
    """Run `step` again and again in a thread; gives a wait until it has run once more.

    What `step` raises fails the test at the end.
    """
    stop, ran = threading.Event(), threading.Semaphore(0)
    failures: list[BaseException] = []

    def work() -> None:
        while not stop.is_set():
            try:
                step()
            except BaseException as exc:  # an assertion in a thread would pass unseen
                failures.append(exc)
                stop.set()
            ran.release()

    def once_more() -> None:
        while ran.acquire(blocking=False):
            pass
        assert ran.acquire(timeout=120), "nothing happened"

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield once_more
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


@contextmanager
def committing_late(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[], Any]
) -> Iterator[Callable[[], None]]:
    """Run `write` in a thread up to its commit; gives a function that lets it commit and waits."""
    written, released = threading.Event(), threading.Event()
    send = Connection._send

    def slow_to_commit(self: Connection, sql: str, params: Any = None) -> Any:
        if sql == "COMMIT" and threading.current_thread() is writer:
            written.set()
            assert released.wait(120)
        return send(self, sql, params)

    def commit() -> None:
        released.set()
        writer.join()

    writer = threading.Thread(target=write)
    monkeypatch.setattr(Connection, "_send", slow_to_commit)
    writer.start()
    try:
        assert written.wait(120)
        yield commit
    finally:
        commit()


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Run all `calls`, each in a thread of its own, and return what they return, in order."""
    results: list[Any] = [None] * len(calls)
    together = threading.Barrier(len(calls))
    failures: list[BaseException] = []

    def run(n: int, call: Callable[[], Any]) -> None:
        together.wait()
        try:
            results[n] = call()
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return results
