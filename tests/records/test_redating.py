"""Index rows tell when their record was changed, or the record is known to be behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import pytest

from crmhub.database.connection import Connection, Database
from crmhub.hub import Hub
from crmhub.properties.kinds import KINDS
from crmhub.records import redating
from crmhub.records.redating import Redating
from tests import depth
from tests.clients import Client, needed
from tests.records.index_rows import assert_dates_are_known, behind, dates
from tests.records.meanwhile import at_once, repeatedly
from tests.records.test_counters import Writer, check, equipped  # noqa: F401
from tests.records.times import set_times

HOUR = 3_600_000


# A record that changes twice in a millisecond is stamped ahead.
AT_ONCE = -1000


def redate(hub: Hub, *, quiet_ms: int = AT_ONCE) -> None:
    """Date what is behind by now."""
    assert not Redating(hub.database).run(60, quiet_ms=quiet_ms)


def changed_at(client: Client, resource: str, id: int) -> str:
    at: str = client.get(f"/{resource}/{id}").get_json()["updatedAt"]
    return at


@pytest.mark.parametrize("resource", depth.KINDS)
def test_what_is_created_is_dated(client: Client, hub: Hub, resource: str) -> None:
    client.make(resource)
    inputs = {"inputs": [{"properties": needed(resource)}] * 3}
    assert client.post(f"/{resource}/batch/create", inputs).status_code == 201
    assert behind(hub, client) == set()
    assert_dates_are_known(hub, client)
    assert all(0 not in them for them in dates(hub, client).values())


@pytest.mark.parametrize("resource", depth.KINDS)
def test_a_change_leaves_a_record_behind_until_it_is_dated(
    client: Client, hub: Hub, resource: str
) -> None:
    id, other = client.make(resource), client.make(resource)
    name = next(iter(needed(resource)))
    client.patch(f"/{resource}/{id}", {"properties": {name: "Changed"}})
    assert behind(hub, client) == {id}
    client.put(f"/{resource}/{other}/associations/{resource}/{id}")
    assert behind(hub, client) == {id, other}
    moments = [changed_at(client, resource, each) for each in (id, other)]
    redate(hub)
    assert behind(hub, client) == set()
    assert_dates_are_known(hub, client)
    assert [changed_at(client, resource, each) for each in (id, other)] == moments


def test_what_changes_nothing_leaves_nothing_behind(client: Client, hub: Hub) -> None:
    id = client.make(city="Rome")
    client.patch(f"/contacts/{id}", {"properties": {"city": "Rome"}})
    assert behind(hub, client) == set()


def test_what_changes_again_meanwhile_is_behind_again(client: Client, hub: Hub) -> None:
    id = client.make(city="Rome")
    for city in ("Kiel", "Bonn"):
        client.patch(f"/contacts/{id}", {"properties": {"city": city}})
        assert_dates_are_known(hub, client)
    redate(hub)
    client.patch(f"/contacts/{id}", {"properties": {"city": "Rome"}})
    assert behind(hub, client) == {id}
    assert_dates_are_known(hub, client)


def test_who_has_just_been_changed_waits(client: Client, hub: Hub) -> None:
    id, earlier = client.make(city="Rome"), client.make(city="Rome")
    for each in (id, earlier):
        client.patch(f"/contacts/{each}", {"properties": {"city": "Kiel"}})
    now = hub.records.get(client.account, KINDS["contacts"], id).updated_at
    set_times(hub, client, "contacts", [earlier], [(now - HOUR, now - HOUR)])
    redate(hub, quiet_ms=60_000)
    assert behind(hub, client) == {id}


def test_what_was_archived_is_forgotten(client: Client, hub: Hub) -> None:
    id = client.make(city="Rome")
    client.patch(f"/contacts/{id}", {"properties": {"city": "Kiel"}})
    client.delete(f"/contacts/{id}")
    assert behind(hub, client) == set()


def test_a_document_that_cannot_be_read_stays_behind_alone(client: Client, hub: Hub) -> None:
    ids = [client.make(hubspotscore="7", city="Rome") for _ in range(3)]
    for id in ids:
        client.patch(f"/contacts/{id}", {"properties": {"city": "Kiel"}})
    with hub.database.reading() as connection:
        connection.run(
            'update records set properties = \'{"hubspotscore": "seven"}\''
            " where account_id = :account and id = :id",
            {"account": client.account.id, "id": ids[1]},
        )
    redate(hub)
    assert behind(hub, client) == {ids[1]}


def test_it_stops_in_time_and_goes_on_where_it_stopped(
    client: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [client.make(city="Rome") for _ in range(5)]
    for id in ids:
        client.patch(f"/contacts/{id}", {"properties": {"city": "Kiel"}})
    monkeypatch.setattr(redating, "_AT_ONCE", 2)
    working = Redating(hub.database)
    left = [5]
    # Others may be behind, too.
    while working.run(0, quiet_ms=AT_ONCE):
        left.append(len(behind(hub, client)))
    assert left[-1] == 0
    assert {before - after for before, after in pairwise(left)} <= {0, 1, 2}


@contextmanager
def held(database: Database, work: Callable[[Connection], object]) -> Iterator[None]:
    """Do this in a transaction of another thread that stays open until the block ends."""
    begun, end = threading.Event(), threading.Event()

    def wait(tx: Connection) -> None:
        work(tx)
        begun.set()
        assert end.wait(120)

    thread = threading.Thread(target=database.transact, args=(wait,))
    thread.start()
    try:
        assert begun.wait(120)
        yield
    finally:
        end.set()
        thread.join()


def test_nobody_is_waited_for(client: Client, hub: Hub) -> None:
    if hub.database.dialect != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    ids = [client.make(city="Rome") for _ in range(2)]
    for id in ids:
        client.patch(f"/contacts/{id}", {"properties": {"city": "Kiel"}})
    lock = f"select id from records where account_id = {client.account.id} and id = {ids[0]}"
    with held(hub.database, lambda tx: tx.rows(f"{lock} for update")):
        redate(hub)
        assert behind(hub, client) == {ids[0]}
    client.patch(f"/contacts/{ids[1]}", {"properties": {"city": "Bonn"}})
    with held(hub.database, lambda tx: tx.try_hold("redating")):
        assert Redating(hub.database).run(60, quiet_ms=AT_ONCE)
        assert behind(hub, client) == set(ids)
    redate(hub)
    assert behind(hub, client) == set()


def test_dates_are_known_whatever_is_written_meanwhile(equipped: Client, hub: Hub) -> None:  # noqa: F811
    working = Redating(hub.database)
    writers = [Writer(equipped, seed) for seed in (1, 2)]
    with repeatedly(partial(working.run, 0.01, quiet_ms=AT_ONCE)) as once_more:
        at_once(*(partial(writer.write, 60) for writer in writers))
        once_more()
    check(hub, equipped)
    redate(hub)
    assert behind(hub, equipped) == set()
    check(hub, equipped)
