"""The worker: what waits in the journal gets done, once, and nobody's CRM holds up another's."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub import errors
from crmhub.accounts.accounts import Account
from crmhub.adapter import NotFound, Unavailable
from crmhub.database.connection import Database, now_ms
from crmhub.database.expired import ANSWERS_MS, ARCHIVED_MS
from crmhub.helpers.attempts import Mapped
from crmhub.helpers.create_lead import CreateLead
from crmhub.hub import Hub
from crmhub.queue import claiming, outcomes
from crmhub.queue.budgets import LaneBudget
from crmhub.queue.models import Due
from tests.api.helpers.helper_calls import CREATE_DEAL, SET_PROPERTIES, known, lead, switch
from tests.clients import Client
from tests.databases import read_only
from tests.fakes import BATCHING, FAKE, FakeCrm, connect, fake_client, hubspot_client
from tests.own_databases import emptied_app, url_fixture
from tests.queue.outcomes import open_circuit
from tests.queue.working import (
    accept,
    change,
    empty,
    finish_all,
    hurry,
    rows,
    soon,
    states,
    take_over,
    work_off,
    working,
)

# A worker works for every account there is.
database_url = url_fixture("module")


@pytest.fixture(autouse=True)
def _workers_look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("_POLL_S", "_UNAVAILABLE_S", "_CLEAN_ON_S"):
        monkeypatch.setattr(f"crmhub.worker.{pause}", 0.1)


@pytest.fixture
def app(database_url: str, tmp_path: Path) -> Iterator[flask.Flask]:
    with emptied_app(database_url, tmp_path, FAKE, BATCHING) as app:
        yield app


@pytest.fixture
def hubspot() -> Iterator[FakeHubSpot]:
    with FakeHubSpot(Options(limit="none", search_limit="none")) as fake:
        yield fake


def shut(hub: Hub, client: Client) -> None:
    """Let the account's connection be away until it is opened."""
    open_circuit(hub, client.account, "away")
    change(hub, client, "until = :then", "outage", then=now_ms() + 3_600_000)


def reopen(hub: Hub, client: Client) -> None:
    hub.database.transact(
        lambda tx: tx.run("delete from outage where account_id = :id", {"id": client.account.id})
    )


def queue_leads(hub: Hub, client: Client, count: int, **fields: Any) -> None:
    """Put leads of as many people into the queue, all due."""
    shut(hub, client)
    for i in range(count):
        assert lead(client, f"t{i}", email=f"ann{i}@x.org", **fields).status_code == 202
    reopen(hub, client)


def deal(client: Client, contact_id: str) -> Any:
    return client.helper(
        CREATE_DEAL, {"contactId": contact_id, "properties": {"dealname": "A", "amount": "10"}}
    )


def test_what_waits_is_done_and_the_same_try_is_not_made_again(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    queue_leads(hub, bot, 20)
    work_off(hub, bot)
    assert len(crm.contacts) == 20
    assert crm.calls.count("create_contact") == 20
    assert len(rows(hub, bot, "number", "action_try")) == 20


def test_two_workers_share_the_work(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    crm.during = lambda _: time.sleep(0.005)
    queue_leads(hub, bot, 40)
    with working(hub), working(hub):
        soon(lambda: empty(hub, bot))
    assert crm.calls.count("create_contact") == 40


def test_an_account_whose_crm_hangs_delays_no_other(
    app: flask.Flask, hub: Hub, fake: tuple[Client, FakeCrm]
) -> None:
    slow, slow_crm = fake
    quick, quick_crm = fake_client(app)
    queue_leads(hub, slow, 20)
    let_go = threading.Event()
    slow_crm.during = lambda _: let_go.wait(120)
    with working(hub, threads=8):
        soon(lambda: slow_crm.calls)
        queue_leads(hub, quick, 5)
        soon(lambda: empty(hub, quick))
        assert len(slow_crm.calls) <= 6
        let_go.set()
    assert len(quick_crm.contacts) == 5


def test_an_account_that_cannot_be_read_holds_up_no_other(app: flask.Flask, hub: Hub) -> None:
    (spoilt, _), (client, _) = fake_client(app), fake_client(app)
    for one in (spoilt, client):
        queue_leads(hub, one, 1)
    change(hub, spoilt, "run_at = run_at - 1000")
    hub.database.transact(
        lambda tx: tx.run(
            "update account set switches = '{' where id = :id", {"id": spoilt.account.id}
        )
    )
    with working(hub):
        soon(lambda: empty(hub, client), seconds=20)
    assert states(hub, client) == ["done"]
    assert not empty(hub, spoilt)


def test_no_connection_ever_takes_all_threads(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    queue_leads(hub, bot, 30)
    under_way, most = threading.Semaphore(100), []

    def during(_: str) -> None:
        with under_way:
            most.append(100 - under_way._value)
            time.sleep(0.02)

    crm.during = during
    with working(hub, threads=8):
        soon(lambda: empty(hub, bot))
    assert max(most) <= 6


def test_250_leads_go_out_in_few_calls_each_with_its_own_outcome(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    client = hubspot_client(app, hubspot)
    hubspot.define("contacts", "phone", "date")
    queue_leads(hub, client, 247)
    shut(hub, client)
    for i in range(3):
        lead(client, f"u{i}", email=f"ben{i}@x.org", phone=f"+1202555010{i}")
    reopen(hub, client)
    before = len(hubspot.requests)
    work_off(hub, client)
    assert len(hubspot.contacts) == 250
    assert len(hubspot.requests) - before <= 40
    results = [result for (result,) in rows(hub, client, "result")]
    assert len(results) == 250
    assert sum('"name": "phone"' in result for result in results) == 3
    ids = {one["contact_id"] for one in map(json.loads, results)}
    assert ids == hubspot.contacts.keys()


def test_a_value_of_another_contact_sinks_no_lead_of_a_batch(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    client = hubspot_client(app, hubspot)
    hubspot.define("contacts", "lastname", unique=True)
    hubspot.add_contact(lastname="Lee")
    queue_leads(hub, client, 3)
    work_off(hub, client)
    assert states(hub, client) == ["done"] * 3
    assert len(hubspot.contacts) == 4
    assert all('"name": "lastname"' in result for (result,) in rows(hub, client, "result"))


def test_an_adapters_bug_in_a_batch_loses_no_lead(app: flask.Flask, hub: Hub) -> None:
    client, crm = fake_client(app, "batching")
    queue_leads(hub, client, 7)

    def fail(call: str) -> None:
        if call == "find_contacts":
            raise KeyError("ann@x.org")

    crm.during = fail
    with working(hub):
        soon(lambda: rows(hub, client, "tries") == [(1,)] * 7)
    crm.during = None
    finish_all(hub, client)
    assert len(crm.contacts) == 7


def test_a_bug_while_a_lead_is_mapped_holds_up_no_other_of_its_batch(
    app: flask.Flask, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, crm = fake_client(app, "batching")
    queue_leads(hub, client, 3)
    mapped = CreateLead.mapped

    def fail(self: CreateLead, account: Account) -> Mapped:
        if self.email == "ann0@x.org":
            raise KeyError(self.email)
        return mapped(self, account)

    with monkeypatch.context() as patched:
        patched.setattr(CreateLead, "mapped", fail)
        with working(hub):
            soon(lambda: sorted(rows(hub, client, "state, tries"))[:2] == [("done", 1)] * 2)
            soon(lambda: ("queued", 1) in rows(hub, client, "state, tries"))
    finish_all(hub, client)
    assert len(crm.contacts) == 3


def test_a_batch_whose_crm_is_away_waits_as_a_whole(
    app: flask.Flask, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crmhub.queue.outages._LASTING_S", 0.0)
    client, crm = fake_client(app, "batching")
    queue_leads(hub, client, 25)
    crm.failure = Unavailable("no route")
    with working(hub):
        soon(lambda: rows(hub, client, "reason", "outage") or hurry(hub, client))
    assert states(hub, client) == ["queued"] * 25
    crm.failure = None
    finish_all(hub, client)
    assert len(crm.contacts) == 25


def test_what_is_no_lead_finds_out_too_whether_a_crm_that_takes_batches_is_back(
    app: flask.Flask, hub: Hub
) -> None:
    client, crm = fake_client(app, "batching")
    known(client)
    crm.failure = Unavailable("no route")
    client.helper(SET_PROPERTIES, {"contactToken": "t", "props": {"city": "Rome"}})
    crm.failure = None
    finish_all(hub, client)
    assert crm.contacts["c-1"]["city"] == "Rome"


@pytest.mark.parametrize("marks", [False, True])
def test_a_deal_whose_answer_never_came_is_found_and_not_made_again(
    app: flask.Flask, hub: Hub, marks: bool
) -> None:
    with FakeHubSpot(Options(limit="none", search_limit="none", marks=marks)) as hubspot:
        client = hubspot_client(app, hubspot)
        contact_id = known(client)
        switch(app, client, deadline_s=1)
        hubspot.fail(kind="latency", method="POST", path="*/deals", seconds=3, written=True)
        assert deal(client, contact_id).status_code == 202
        finish_all(hub, client)
        ((made,),) = rows(hub, client, "result")[1:]
        assert [json.loads(made)["record_id"]] == list(hubspot.deals)


def test_a_deal_that_was_made_before_the_database_went_away_is_not_made_again(
    app: flask.Flask, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeHubSpot(Options(limit="none", search_limit="none")) as hubspot:
        client = hubspot_client(app, hubspot)
        contact_id = known(client)
        # Of this version the page of a record is asked for, once the record is there.
        own = {"access_token": hubspot.token}
        connect(app, client, "hubspot", own, base_url=hubspot.url, api_version="v3")

        def take(_: LaneBudget) -> None:
            if hubspot.deals:
                raise errors.Unavailable("the database is away")

        with monkeypatch.context() as patched:
            patched.setattr(LaneBudget, "take", take)
            assert deal(client, contact_id).status_code == 202
        take_over(hub, client)
        assert (states(hub, client), len(hubspot.deals)) == (["done", "done"], 1)


def test_an_action_goes_to_the_crm_that_it_was_accepted_for(
    app: flask.Flask, hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    queue_leads(hub, bot, 1)
    connect(app, bot, "local")
    work_off(hub, bot)
    assert [one["email"] for one in crm.contacts.values()] == ["ann0@x.org"]


def test_a_dead_letter_lets_the_next_call_of_its_person_through(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    known(bot)
    crm.failure = Unavailable("no route")
    bot.helper(SET_PROPERTIES, {"contactToken": "t", "props": {"city": "Rome"}})
    crm.failure = NotFound("there is no contact c-1")
    finish_all(hub, bot)
    assert states(hub, bot) == ["done", "dead"]
    crm.failure = None
    assert known(bot) == "c-1"


def test_a_worker_that_is_stopped_ends_what_it_has_begun(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    queue_leads(hub, bot, 30)
    let_go = threading.Event()
    crm.during = lambda _: let_go.wait(120)
    with working(hub, threads=4) as worker:
        soon(lambda: crm.calls)
        worker.stop()
        let_go.set()
    assert "running" not in states(hub, bot)
    assert states(hub, bot).count("done") == len(crm.contacts) < 30


def test_new_work_is_heard_of_at_once_on_postgresql(
    hub: Hub, bot: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hub.database.dialect != "postgresql":
        pytest.skip("only PostgreSQL tells")
    monkeypatch.setattr("crmhub.worker._POLL_S", 3600)
    soon(lambda: listening(hub) == 0)
    with working(hub):
        soon(lambda: listening(hub) == 1)
        for i in range(3):
            accepted = _queue(hub, bot, f"p{i}")
            soon(
                lambda id=accepted: outcomes.result_of(hub.database, bot.account.id, id) is not None
            )


def listening(hub: Hub) -> int:
    """Return how many workers hear of new work."""
    with hub.database.reading() as connection:
        count: int = connection.scalar(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and state = 'idle' and query = 'listen crmhub_journal'"
        )
    return count


def test_a_worker_that_has_ended_holds_no_connection(hub: Hub) -> None:
    if hub.database.dialect != "postgresql":
        pytest.skip("SQLite has none to hold")
    soon(lambda: listening(hub) == 0)
    with working(hub):
        soon(lambda: listening(hub) == 1)
    soon(lambda: listening(hub) == 0)


def _queue(hub: Hub, client: Client, token: str) -> str:
    """Queue a lead as a call does for which there is no thread; return the action's id."""
    return accept(hub, client, CreateLead(token, "Ann Lee", f"{token}@x.org", "")).action_id


def test_a_worker_does_not_ask_again_and_again_while_nothing_can_be_done(
    hub: Hub, bot: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = _queue(hub, bot, "t"), _queue(hub, bot, "t")
    change(hub, bot, "run_at = :then where id = :it", then=now_ms() + 3_600_000, it=first)
    looks: list[int] = []
    due = claiming.due
    monkeypatch.setattr("crmhub.worker._POLL_S", 1.0)
    monkeypatch.setattr(claiming, "due", lambda db: looks.append(1) or due(db))
    start = time.monotonic()
    with working(hub):
        soon(lambda: len(looks) >= 2)
        time.sleep(1)
        # About one a second.
        assert len(looks) <= 2 + 3 * (time.monotonic() - start)
    assert states(hub, bot) == ["queued", "queued"]


def test_a_bug_of_ours_ends_no_worker(
    hub: Hub, bot: Client, crm: FakeCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = _queue(hub, bot, "t")
    change(hub, bot, "kind = 'createNothing' where id = :it", it=broken)
    with working(hub):
        soon(lambda: states(hub, bot) == ["running"])
        whole = _queue(hub, bot, "u")
        soon(lambda: outcomes.result_of(hub.database, bot.account.id, whole) is not None)
    assert len(crm.contacts) == 1


def test_a_bug_of_ours_in_its_loop_ends_no_worker(
    hub: Hub,
    bot: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queued, due = _queue(hub, bot, "t"), claiming.due
    bugs = [ZeroDivisionError()]

    def look(database: Database) -> Due:
        if bugs:
            raise bugs.pop()
        return due(database)

    monkeypatch.setattr(claiming, "due", look)
    with working(hub):
        soon(lambda: outcomes.result_of(hub.database, bot.account.id, queued) is not None)
    assert "ZeroDivisionError" in caplog.text


def test_a_database_that_takes_no_writes_for_a_while_ends_no_worker(
    hub: Hub, bot: Client, caplog: pytest.LogCaptureFixture
) -> None:
    if hub.database.dialect != "postgresql":
        pytest.skip("SQLite has no standby")
    queued = _queue(hub, bot, "t")
    with ExitStack() as while_it_lasts:
        while_it_lasts.enter_context(read_only(hub.database))
        with working(hub):
            soon(lambda: "cannot be written" in caplog.text)
            while_it_lasts.close()
            soon(lambda: outcomes.result_of(hub.database, bot.account.id, queued) is not None)


def test_what_was_archived_90_days_ago_is_deleted(hub: Hub, client: Client) -> None:
    old, young = client.make(), client.make()
    for id, age in ((old, ARCHIVED_MS), (young, ARCHIVED_MS - 600_000)):
        client.delete(f"/contacts/{id}")
        at = "archived_at = :at where id = :record"
        change(hub, client, at, "archived_record", at=now_ms() - age, record=id)
    with working(hub):
        soon(lambda: rows(hub, client, "id", "archived_record") == [(young,)])


def test_what_is_kept_no_longer_is_deleted_however_much_it_is(hub: Hub, client: Client) -> None:
    plant = (
        "insert into idempotency"
        " (account_id, key, fingerprint, status, headers, body, created_at)"
        " values (:account, :key, '', 201, '[]', '', :at)"
    )
    row = {"account": client.account.id, "at": now_ms() - 2 * ANSWERS_MS}
    hub.database.transact(lambda tx: [tx.run(plant, row | {"key": f"k{n}"}) for n in range(2_500)])
    with working(hub):
        soon(lambda: not rows(hub, client, "key", "idempotency"))
