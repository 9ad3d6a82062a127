"""Processes that run are listed with their version, and leave the list when they end."""

from __future__ import annotations

import os

from crmhub import __version__
from crmhub.errors import Unavailable
from crmhub.hub import Hub
from crmhub.operators import processes
from crmhub.operators.processes import Presence, list_processes
from tests.queue.working import soon


def mine(hub: Hub) -> list[processes.Process]:
    return [one for one in list_processes(hub.database) if one.kind == "worker of a test"]


def test_a_process_is_listed_from_its_start_to_its_end(hub, monkeypatch):
    monkeypatch.setattr(processes, "_BEAT_S", 0.01)
    presence = Presence(hub.database, "worker of a test")
    presence.start()
    soon(lambda: mine(hub))
    (first,) = mine(hub)
    assert (first.pid, first.version, first.alive) == (os.getpid(), __version__, True)
    soon(lambda: mine(hub)[0].seen_at > first.seen_at)
    assert mine(hub)[0].started_at == first.started_at
    presence.stop()
    assert mine(hub) == []


def test_a_process_that_was_killed_is_not_alive_and_is_forgotten_after_a_day(hub, monkeypatch):
    presence = Presence(hub.database, "worker of a test")
    presence.start()
    soon(lambda: mine(hub))

    def age(hours: float) -> None:
        hub.database.transact(
            lambda tx: tx.run(
                "update hub_process set seen_at = seen_at - :ms where kind = 'worker of a test'",
                {"ms": int(hours * 3_600_000)},
            )
        )

    age(0.1)
    assert [one.alive for one in mine(hub)] == [False]
    age(24)
    another = Presence(hub.database, "worker of another test")
    another.start()
    soon(lambda: mine(hub) == [])
    another.stop()
    presence.stop()


def test_a_database_that_is_away_ends_nothing(hub, monkeypatch):
    def away(*_args):
        raise Unavailable("The database is away.")

    monkeypatch.setattr(processes, "_BEAT_S", 0.01)
    presence = Presence(hub.database, "worker of a test")
    with monkeypatch.context() as during:
        during.setattr(type(hub.database), "transact", away)
        presence.start()
    soon(lambda: mine(hub))
    presence.stop()
    assert mine(hub) == []
