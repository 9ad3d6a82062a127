"""Workers are notified behind the commit, and by one process not more often than needed."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from crmhub.database.connection import Connection, Database
from crmhub.database.notifications import Notifications


def test_the_first_is_sent_at_once_and_many_more_as_one() -> None:
    sent, later = [], threading.Event()
    notifications = Notifications(later.set)
    for _ in range(100):
        notifications.note(lambda: sent.append("now"))
    assert sent == ["now"]
    assert later.wait(60)


def test_what_is_still_due_is_sent_at_the_end() -> None:
    later: list[str] = []
    notifications = Notifications(lambda: later.append("later"))
    notifications.note(lambda: None)
    notifications.note(lambda: None)
    notifications.close()
    notifications.close()
    assert later == ["later"]


def test_the_end_waits_for_a_thread_that_is_sending() -> None:
    begun, go_on, sent = threading.Event(), threading.Event(), threading.Event()

    def send() -> None:
        begun.set()
        assert go_on.wait(60)
        sent.set()

    notifications = Notifications(send)
    notifications.note(lambda: None)
    notifications.note(lambda: None)
    assert begun.wait(60)
    closing_thread = threading.Thread(target=notifications.close)
    closing_thread.start()
    closing_thread.join(0.1)
    assert closing_thread.is_alive()
    go_on.set()
    closing_thread.join(60)
    assert sent.is_set()


def test_the_end_waits_for_a_thread_that_sends_while_the_next_timer_runs() -> None:
    begun, go_on, sent = threading.Event(), threading.Event(), list[str]()

    def send() -> None:
        if not begun.is_set():
            begun.set()
            assert go_on.wait(60)
            sent.append("first")
        else:
            sent.append("second")

    notifications = Notifications(send)
    notifications.note(lambda: None)
    notifications.note(lambda: None)
    assert begun.wait(60)
    # One of these starts a timer, since the first may come 50 ms after the one that sends.
    notifications.note(lambda: None)
    notifications.note(lambda: None)
    closing_thread = threading.Thread(target=notifications.close)
    closing_thread.start()
    closing_thread.join(0.1)
    assert closing_thread.is_alive()
    go_on.set()
    closing_thread.join(60)
    assert sent == ["first", "second"]


@pytest.mark.databases("postgresql")
def test_nothing_is_sent_before_the_commit_and_nothing_after_a_rollback(database_url: str) -> None:
    with closing(Database(database_url)) as database:
        heard = database.listen()
        assert next(heard) is False

        def fail(tx: Connection) -> None:
            tx.notify_workers()
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            database.transact(fail)
        assert next(heard) is False

        def work(tx: Connection) -> bool:
            tx.notify_workers()
            return next(heard)

        assert database.transact(work) is False
        assert next(heard) is True
        heard.close()
