"""What the database cannot take at the moment is written once it can: nothing waits for a lease."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import flask
import pytest

from crmhub import errors
from crmhub.adapter import NotYet
from crmhub.database.connection import Database, now_ms
from crmhub.database.drivers import Away, NodeAway
from crmhub.helpers.create_lead import lease_key
from crmhub.hub import Hub
from crmhub.queue import claiming, outcomes
from crmhub.queue import deferred_outcomes as module
from crmhub.queue.deferred_outcomes import Unwritten
from crmhub.queue.models import Entry, Outcome
from crmhub.worker import Worker
from tests.api.helpers.helper_calls import known, lead, switch
from tests.clients import Client
from tests.fakes import BATCHING, FAKE, FakeCrm, fake_client
from tests.own_databases import emptied_app, url_fixture
from tests.queue.outcomes import finish
from tests.queue.working import change, queue_leads, rows, soon, states, try_due, working

Full = Callable[[], Any]
FULL = errors.Unavailable("The disk is full.")


# A worker works for every account there is.
database_url = url_fixture("module")


@pytest.fixture
def app(database_url: str, tmp_path: Path) -> Iterator[flask.Flask]:
    with emptied_app(database_url, tmp_path, FAKE, BATCHING) as app:
        yield app


@pytest.fixture
def full(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Full:
    """What makes the disk full for outcomes, in a block."""

    @contextmanager
    def full() -> Iterator[None]:
        if hub.database.dialect == "postgresql":
            with _full_of_postgresql(hub.database):
                yield
            return
        disk_is_full = sqlite3.OperationalError("database or disk is full")
        disk_is_full.sqlite_errorcode = sqlite3.SQLITE_FULL

        def fail(*_: Any) -> None:
            with hub.database.mapped_errors():
                raise disk_is_full

        with monkeypatch.context() as patched:
            patched.setattr(outcomes, "_finish_one", fail)
            yield

    return full


@contextmanager
def _full_of_postgresql(database: Database) -> Iterator[None]:
    """Let PostgreSQL fail as it does where a table cannot grow."""

    def run(*statements: str) -> None:
        with database.reading() as connection:
            for each in statements:
                connection.run(each)

    fail = "begin raise exception using errcode = 'disk_full'; end"
    run(
        f"create function disk_full() returns trigger language plpgsql as $$ {fail} $$",
        "create trigger disk_full before insert on action_try"
        " for each row execute function disk_full()",
    )
    try:
        yield
    finally:
        run("drop trigger disk_full on action_try", "drop function disk_full")


def test_a_lead_goes_on_as_soon_as_there_is_room(
    hub: Hub, bot: Client, crm: FakeCrm, full: Full
) -> None:
    with full():
        answer = lead(bot)
        assert (answer.status_code, answer.json["status"]) == (202, "queued")  # type: ignore[index]
        assert states(hub, bot) == ["running"]
    # Nobody else works on it, and no lease ends.
    soon(lambda: states(hub, bot) == ["done"])
    assert (len(crm.contacts), crm.calls.count("create_contact")) == (1, 1)
    assert known(bot) == "c-1"


@pytest.mark.parametrize("adapter", ["fake", "batching"])
def test_what_a_worker_could_not_write_down_is_not_attempted_again(
    app: flask.Flask, hub: Hub, full: Full, adapter: str
) -> None:
    client, crm = fake_client(app, adapter)
    queue_leads(hub, client, "ann", "ben", "cyd")
    with full():
        try_due(hub, client)
        assert states(hub, client) == ["running"] * 3
    soon(lambda: states(hub, client) == ["done"] * 3)
    assert len(crm.contacts) == 3
    assert len(rows(hub, client, "number", "action_try")) == 3


@pytest.mark.parametrize("adapter", ["fake", "batching"])
def test_what_a_worker_could_not_begin_is_given_back_without_a_doubt(
    app: flask.Flask, hub: Hub, monkeypatch: pytest.MonkeyPatch, adapter: str
) -> None:
    client, crm = fake_client(app, adapter)
    queue_leads(hub, client, "ann", "ben")

    release, account = claiming.release, Worker._load_account
    room: list[bool] = []

    def when_there_is_room(work: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any) -> Any:
            if not room:
                raise FULL
            return work(*args)

        return guarded

    monkeypatch.setattr(Worker, "_load_account", when_there_is_room(account))
    monkeypatch.setattr(claiming, "release", when_there_is_room(release))
    size = 2 if adapter == "batching" else 1
    monkeypatch.setattr(Worker, "_batch_size", lambda *_: size)
    try_due(hub, client)
    assert states(hub, client) == ["running"] * 2
    room.append(True)
    soon(lambda: states(hub, client) == ["queued"] * 2)
    assert rows(hub, client, "doubt_since, lease") == [(None, None)] * 2
    try_due(hub, client)
    assert (states(hub, client), len(crm.contacts)) == (["done"] * 2, 2)


def test_who_took_an_action_over_meanwhile_decides(hub: Hub, bot: Client, full: Full) -> None:
    with full():
        lead(bot)
        change(hub, bot, "run_at = 0")
        entries: list[Entry] = []

        def claim() -> bool:
            entries.extend(claiming.claim(hub.database, *here(bot), most=1, lease_s=60))
            return bool(entries)

        # Each repeated write locks the action until it fails; a claim passes over it meanwhile.
        soon(claim)
    (entry,) = entries
    soon(lambda: hub.unwritten._kept == [])
    assert rows(hub, bot, "state, lease") == [("running", entry.lease)]
    assert rows(hub, bot, "number", "action_try") == []


def here(client: Client) -> tuple[int, int]:
    return client.account.id, client.account.connection.id


def test_nobody_else_makes_the_contact_of_a_phone_before_the_outcome_is_written(
    app: flask.Flask, hub: Hub, bot: Client, full: Full
) -> None:
    phone = "+12025550100"
    switch(app, bot, lead_requires="email_or_phone")

    def is_held() -> bool:
        try:
            with hub.leases.hold(*here(bot), lease_key(phone), seconds=5, patience=0):
                return False
        except NotYet:
            return True

    with full():
        assert lead(bot, email=None, phone=phone).status_code == 202
        assert is_held()
    soon(lambda: states(hub, bot) == ["done"])
    soon(lambda: not is_held())


def test_a_worker_takes_over_nothing_before_others_had_time_to_write(
    hub: Hub, bot: Client, crm: FakeCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_leads(hub, bot, "ann")
    (entry,) = claiming.claim(hub.database, *here(bot), most=1, lease_s=60)
    change(hub, bot, "run_at = 0")
    claim, spare, steps = claiming.claim, claiming.spare, []

    def full_at_first(*args: Any, **options: Any) -> Any:
        if not steps:
            steps.append("full")
            raise FULL
        return claim(*args, **options)

    def spared(database: Database) -> None:
        spare(database)
        assert not claiming.due(hub.database).now
        steps.append("spared")
        assert finish(hub, entry, Outcome("done", "created"), lambda _: None)

    monkeypatch.setattr(claiming, "claim", full_at_first)
    monkeypatch.setattr(claiming, "spare", spared)
    with working(hub):
        soon(lambda: states(hub, bot) == ["done"])
    assert (steps, crm.calls) == (["full", "spared"], [])


def test_what_the_dead_left_behind_is_spared_for_a_moment_only(hub: Hub, bot: Client) -> None:
    queue_leads(hub, bot, "ann", "ben")
    claiming.claim(hub.database, *here(bot), most=1, lease_s=60)
    change(hub, bot, "run_at = 0 where state = 'running'")
    before = now_ms()
    claiming.spare(hub.database)
    times = dict(rows(hub, bot, "state, run_at"))
    until, queued_until = times["running"], times["queued"]
    assert (0 < until - before < 60_000, queued_until <= before) == (True, True)


def test_nothing_more_is_begun_while_much_is_unwritten(
    hub: Hub, bot: Client, crm: FakeCrm, full: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MANY", 1)
    with full():
        lead(bot)
        calls = list(crm.calls)
        assert lead(bot, "u", email="ben@x.org").status_code == 202
        assert (sorted(states(hub, bot)), crm.calls) == (["queued", "running"], calls)
        with working(hub):
            # It has looked, and begun nothing.
            looked = claiming.due
            looks: list[int] = []
            monkeypatch.setattr(claiming, "due", lambda db: looks.append(1) or looked(db))
            soon(lambda: len(looks) > 1)
            assert (sorted(states(hub, bot)), crm.calls) == (["queued", "running"], calls)
    with working(hub):
        soon(lambda: states(hub, bot) == ["done", "done"])


def test_the_end_of_a_process_writes_what_can_be_written(
    hub: Hub, bot: Client, full: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AGAIN_S", 3600)
    with full():
        lead(bot)
    hub.unwritten.close()
    assert states(hub, bot) == ["done"]


class Journal:
    """Stands for writes that fail as often as they are told to."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.written = 0

    def write(self) -> str:
        if self.failures:
            raise self.failures.pop(0)
        self.written += 1
        return "written"


@pytest.fixture
def unwritten(monkeypatch: pytest.MonkeyPatch) -> Iterator[Unwritten]:
    monkeypatch.setattr(module, "_AGAIN_S", 0.01)
    unwritten = Unwritten()
    yield unwritten
    unwritten.close()


def test_what_can_be_written_is_written_at_once(unwritten: Unwritten) -> None:
    with ExitStack() as locks:
        released: list[str] = []
        locks.callback(released.append, "released")
        assert unwritten.write(Journal().write, locks) == "written"
        assert released == []
    assert released == ["released"]


@pytest.mark.parametrize("failures", [[FULL] * 3, [Away("It is down.")] * 3, [FULL, ValueError()]])
def test_locks_are_held_until_it_is_written_or_never_will_be(
    unwritten: Unwritten, failures: list[Exception]
) -> None:
    journal, released = Journal(*failures), []
    with ExitStack() as locks:
        locks.callback(lambda: released.append(journal.failures == []))
        assert unwritten.write(journal.write, locks) is None
    soon(lambda: released == [True])
    assert (journal.written, unwritten._kept) == (ValueError not in map(type, failures), [])


def test_one_that_cannot_be_written_keeps_no_other_from_it(
    unwritten: Unwritten, monkeypatch: pytest.MonkeyPatch
) -> None:
    never, other = Journal(*[FULL] * 100_000), Journal(FULL)
    for each in (never, other):
        assert unwritten.write(each.write) is None
    soon(lambda: other.written == 1)
    # One day its lease has ended, too.
    monkeypatch.setattr(module, "_KEPT_S", 0.0)
    soon(lambda: unwritten._kept == [])
    assert never.written == 0


def test_what_is_written_once_more_after_a_pause_is_kept_again(unwritten: Unwritten) -> None:
    for _ in range(3):
        journal = Journal(FULL)
        assert unwritten.write(journal.write) is None
        soon(lambda journal=journal: journal.written == 1)
        soon(lambda: unwritten._thread is None)


def test_an_unavailable_node_holds_up_no_outcome_of_another_account() -> None:
    unwritten, written = Unwritten(), list[str]()
    are_away = [True]

    def write_on_node() -> None:
        if are_away[0]:
            raise NodeAway("The node does not answer.")
        written.append("on the node")

    def write_elsewhere() -> None:
        if len(unwritten._kept) <= module._MANY:
            raise FULL
        written.append("elsewhere")

    for _ in range(module._MANY):
        unwritten.write(write_on_node)
    assert not unwritten.many
    unwritten.write(write_elsewhere)
    soon(lambda: written == ["elsewhere"])
    are_away[0] = False
    soon(lambda: written == ["elsewhere", *["on the node"] * module._MANY])
    unwritten.close()
