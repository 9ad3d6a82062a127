"""Something that goes on in another thread while a test looks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
