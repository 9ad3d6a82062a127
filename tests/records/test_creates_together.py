"""Records that are created at the same moment share a statement, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database import write_batcher
from crmhub.database.connection import Connection, Database
from crmhub.errors import HubError
from crmhub.hub import Hub
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import CONTACTS
from crmhub.properties.validation import DuplicateValue, InvalidProperties
from crmhub.records import definitions, writing
from crmhub.records.models import NewRecord, Record
from crmhub.records.store import RecordStore
from tests.clients import Client
from tests.queue.working import soon
from tests.records.index_rows import recomputed, stored

COLOUR = Property(0, name="colour", label="", type="string")


@pytest.fixture
def account(client: Client) -> Account:
    return client.account


BOTH_WAYS = pytest.mark.parametrize("there", ["one_server", "distributed"], indirect=True)


@pytest.fixture
def there(
    request: pytest.FixtureRequest, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RecordStore]:
    """The records as another process sees them, where nobody goes by a call under way.

    Nor does anybody wait for a counter that another thread has added to. "distributed": by the
    statements for a distributed database.
    """
    monkeypatch.setattr(write_batcher, "_PATIENCE_S", 120)
    monkeypatch.setattr(writing, "_SHARDS", 30_000)
    database = Database(database_url)
    if getattr(request, "param", "") == "distributed":
        if database.dialect == "sqlite":
            pytest.skip("SQLite cannot be distributed.")
        mark = lambda _, record: record.info.update(distributed=True)  # noqa: E731
        sa.event.listen(database._engine, "connect", mark)
    yield RecordStore(database, b"another process's key")
    database.close()


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each statement holds from now on."""
    sizes = list[int]()
    insert = Connection.insert_unclaimed

    def noted(connection: Connection, **of: Any) -> set[int]:
        sizes.append(len(of["items"].rows))
        return insert(connection, **of)

    monkeypatch.setattr(Connection, "insert_unclaimed", noted)
    return sizes


def create(records: RecordStore, account: Account, properties: dict[str, str]) -> Record:
    [record] = records.create(account, CONTACTS, [NewRecord(properties)])
    return record


def waiting(records: RecordStore) -> int:
    queues = records._single_creates._batcher._queues.values()
    return sum(each.leaders + len(each.waiting) for each in queues)


def at_once(
    hub: Hub,
    there: RecordStore,
    account: Account,
    inputs: Sequence[dict[str, str]],
    change: Callable[[], object],
) -> list[Any]:
    """Create each of these there while a change of the catalogue is under way here.

    Return the records, and what was raised of ours.
    """
    # It takes ids for all of them: else each would wait for those.
    create(there, account, {"firstname": "Grace"})

    def begin() -> list[Future[Record]]:
        change()
        begun = []
        for each in inputs:
            begun.append(threads.submit(create, there, account, each))
            if hub.database.dialect == "postgresql":
                soon(lambda: waiting(there) == len(begun))
        return begun

    with ThreadPoolExecutor(len(inputs)) as threads:
        begun = hub.database.transact(lambda _: begin())
        done = [each.exception(120) or each.result() for each in begun]
    assert all(isinstance(each, Record | HubError) for each in done), done
    return done


@BOTH_WAYS
def test_each_is_for_itself(
    hub: Hub, there: RecordStore, client: Client, account: Account, sizes: list[int]
) -> None:
    held = client.make(email="held@example.com")
    sizes.clear()
    names = ["first", "ada", "bob", "ada", "held", "cyd"]
    inputs = [{"email": f"{each}@example.com", "city": "Rome"} for each in names]
    # The first one is told that the catalogue has changed, as all are who came meanwhile.
    done = at_once(
        hub,
        there,
        account,
        [*inputs, {"firstname": "Dan", "closedate": "2026-01-31"}],
        lambda: definitions.define(hub.records, account, CONTACTS, COLOUR),
    )
    if hub.database.dialect == "postgresql":
        assert 6 in sizes
    taken = [each for each in done if isinstance(each, DuplicateValue)]
    assert taken[-1] is done[4]
    assert done[4].existing_id == held
    assert len(taken) == 2
    [ada] = [each for each in (done[1], done[3]) if isinstance(each, Record)]
    [late] = [each for each in (done[1], done[3]) if isinstance(each, DuplicateValue)]
    assert late.existing_id == ada.id
    made = [each for each in done if isinstance(each, Record)]
    read = hub.records.read(account, CONTACTS, [each.id for each in made])
    assert [(each.id, each.properties) for each in read] == [
        (each.id, each.properties) for each in made
    ]
    assert [each.properties.get("email", "") for each in made if each is not ada] == [
        "first@example.com",
        "bob@example.com",
        "cyd@example.com",
        "",
    ]
    assert stored(hub, client) == recomputed(hub, client)


def test_nobody_waits_for_what_another_one_waits_for(
    hub: Hub, there: RecordStore, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hub.database.dialect == "sqlite":
        pytest.skip("All writers wait for each other.")
    names = ["first", "ada", "held", "bob"]
    insert = Connection.insert_unclaimed
    come = threading.Event()

    def noted(connection: Connection, **of: Any) -> set[int]:
        if of["claims"].rows[0][2] == "first@example.com":
            assert come.wait(120)
        return insert(connection, **of)

    def held(_: Connection) -> Future[Record]:
        create(hub.records, account, {"email": "held@example.com"})
        begun = dict[str, Future[Record]]()
        for each in names:
            properties = {"email": f"{each}@example.com"}
            begun[each] = threads.submit(create, there, account, properties)
            soon(lambda: waiting(there) == len(begun))
        come.set()
        for each in ("first", "ada", "bob"):
            begun[each].result(60)
        assert not begun["held"].done()
        return begun["held"]

    create(there, account, {"firstname": "Grace"})
    monkeypatch.setattr(Connection, "insert_unclaimed", noted)
    with ThreadPoolExecutor(len(names)) as threads:
        late = hub.database.transact(held)
        assert isinstance(late.exception(120), DuplicateValue)


@BOTH_WAYS
def test_all_are_made_by_the_catalogue_that_they_waited_for(
    hub: Hub, there: RecordStore, client: Client, account: Account
) -> None:
    definitions.define(hub.records, account, CONTACTS, COLOUR)
    inputs = [
        {"firstname": "Ada"},
        {"firstname": "Bob", "colour": "red"},
        {"firstname": "Cyd", "colour": "blue"},
    ]
    done = at_once(
        hub,
        there,
        account,
        inputs,
        lambda: definitions.change(hub.records, account, CONTACTS, "colour", {"required": True}),
    )
    assert [type(each) for each in done] == [InvalidProperties, Record, Record]
    assert stored(hub, client) == recomputed(hub, client)
