"""Records that are created at the same moment do not disturb each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Database
from crmhub.errors import HubError
from crmhub.hub import Hub
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import CONTACTS
from crmhub.properties.validation import DuplicateValue, InvalidProperties
from crmhub.records import definitions, writing
from crmhub.records.models import NewRecord, Record
from crmhub.records.store import RecordStore
from tests.clients import Client
from tests.records.index_rows import recomputed, stored

COLOUR = Property(0, name="colour", label="", type="string")


@pytest.fixture
def account(client: Client) -> Account:
    return client.account


@pytest.fixture
def there(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordStore]:
    """The records as another process sees them.

    Nobody waits for a counter that another thread has added to.
    """
    monkeypatch.setattr(writing, "_SHARDS", 30_000)
    database = Database(database_url)
    yield RecordStore(database, b"another process's key")
    database.close()


def create(records: RecordStore, account: Account, properties: dict[str, str]) -> Record:
    [record] = records.create(account, CONTACTS, [NewRecord(properties)])
    return record


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
        return begun

    with ThreadPoolExecutor(len(inputs)) as threads:
        begun = hub.database.transact(lambda _: begin())
        done = [each.exception(120) or each.result() for each in begun]
    assert all(isinstance(each, Record | HubError) for each in done), done
    return done


def test_each_is_for_itself(hub: Hub, there: RecordStore, client: Client, account: Account) -> None:
    held = client.make(email="held@example.com")
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
