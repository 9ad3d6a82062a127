"""A write takes as many statements as it has steps, and moves the index rows that change alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from crmhub.database.connection import Connection
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS, DEALS
from crmhub.properties.validation import DuplicateValue
from crmhub.records import ids, unique_values, upserts
from crmhub.records.index import TABLES
from crmhub.records.models import Change, NewRecord, Upsert
from tests.clients import Client
from tests.records.meanwhile import at_once

BATCH = 100


Sent = list[tuple[str, Any]]


class Noted:
    """A driver's connection that notes what is sent, with its parameters."""

    def __init__(self, driver: Any, sent: Sent) -> None:
        self._driver = driver
        self._sent = sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def execute(self, sql: str, *params: Any, **options: Any) -> Any:
        self._sent.append((sql, params))
        return self._driver.execute(sql, *params, **options)

    def executemany(self, sql: str, rows: Sequence[Any]) -> Any:
        self._sent.append((sql, rows))
        return self._driver.executemany(sql, rows)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """What this thread sends to a database from now on."""
    sent: Sent = []
    opened = Connection.__init__
    mine = threading.get_ident()

    def noted(self: Connection, database: Any, pooled: Any) -> None:
        opened(self, database, pooled)
        # Another thread writes now and then when keys were last used.
        if threading.get_ident() == mine:
            self._driver = Noted(self._driver, sent)

    monkeypatch.setattr(Connection, "__init__", noted)
    # Else each 200th record reserves the ids of the next ones.
    monkeypatch.setattr(ids, "_BLOCK", 10 * BATCH)
    return sent


class Writer:
    """Writes batches of contacts; each has a text, a number, a date and a unique value."""

    def __init__(self, hub: Hub, client: Client) -> None:
        self.hub = hub
        self.account = client.account
        self.deals = hub.records.create(self.account, DEALS, [NewRecord({"dealname": "x"})])
        self.ids = self.create(0, BATCH)

    def properties(self, n: int) -> dict[str, str]:
        return {
            "email": f"ada{n}@example.com",
            "city": f"City {n}",
            "hubspotscore": str(n),
            "closedate": f"20{n % 100:02}-01-01",
        }

    def create(self, first: int, size: int) -> list[int]:
        new = [
            NewRecord(self.properties(n), {"deals": [self.deals[0].id]})
            for n in range(first, first + size)
        ]
        return [each.id for each in self.hub.records.create(self.account, CONTACTS, new)]

    def update(self, first: int, size: int) -> None:
        changes = [Change(id, self.properties(first + id)) for id in self.ids[:size]]
        self.hub.records.update(self.account, CONTACTS, changes)

    def upsert(self, first: int, size: int) -> None:
        """Change a half, and create the other."""
        known, new = range(size // 2), range(first, first + size - size // 2)
        inputs = [
            Upsert("email", f"ada{n}@example.com", {"city": f"Other {first}"})
            for n in (*known, *new)
        ]
        written = self.hub.records.upsert(self.account, CONTACTS, inputs)
        assert [is_new for _, is_new in written] == [False] * len(known) + [True] * len(new)

    def archive(self, _: int, size: int) -> None:
        gone, self.ids = self.ids[:size], self.ids[size:]
        self.hub.records.archive(self.account, CONTACTS, [(id, "") for id in gone])

    def refused(self, _: int, size: int) -> None:
        with pytest.raises(DuplicateValue):
            self.create(0, size)

    def read(self, _: int, size: int) -> None:
        emails = [f"ada{n}@example.com" for n in range(size)]
        found = self.hub.records.read_by(self.account, CONTACTS, "email", emails)
        assert len(found) == size


# Statements with BEGIN and COMMIT, at most; fewer would be no fault.
MOST = {"create": 11, "update": 15, "upsert": 17, "archive": 14, "read": 2, "refused": 11}


@pytest.mark.parametrize("step", MOST)
def test_a_batch_takes_the_same_few_statements_whatever_its_size(
    hub: Hub, client: Client, sent: Sent, step: str
) -> None:
    writer = Writer(hub, client)
    counts = []
    for first, size in ((1000, 2), (2000, BATCH - 2)):
        sent.clear()
        getattr(writer, step)(first, size)
        counts.append(len(sent))
    assert counts[0] == counts[1] <= MOST[step], sent


# Some of them mean something in PostgreSQL's text of an array.
TEXTS = ["{a,b}", "back\\slash", "NULL", "null", ",", "\\", '"', 'say "hi"', "a\t\n\x01", "é😀"]


def test_texts_of_a_batch_are_kept_as_they_were_sent(client: Client) -> None:
    new = [{"email": f"{n}@example.com", "city": text} for n, text in enumerate(TEXTS)]
    answer = client.post("/contacts/batch/create", {"inputs": [{"properties": p} for p in new]})
    assert [each["properties"] for each in answer.json] == new
    for each in answer.json:
        one = {"propertyName": "city", "operator": "EQ", "value": each["properties"]["city"]}
        found = client.post("/contacts/search", {"filters": [one]}).json
        assert [found["total"], *(row["id"] for row in found["results"])] == [1, each["id"]]


def test_an_update_that_changes_nothing_writes_nothing(
    hub: Hub, client: Client, sent: Sent
) -> None:
    id = client.make(email="ada@example.com", city="Rome")
    sent.clear()
    assert client.patch(f"/contacts/{id}", {"properties": {"city": "Rome"}}).status_code == 200
    verbs = {sql.split()[0].lower() for sql, _ in sent}
    assert not verbs & {"insert", "update", "delete", "with"}


def test_an_upsert_is_done_however_often_another_is_faster(
    hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = client.make(email="ada@example.com")
    write, beaten = upserts.write, iter([DuplicateValue("Taken.", [("", "email", id)])] * 5)

    def write_or_be_late(*args: Any, **options: Any) -> Any:
        for late in beaten:
            raise late
        return write(*args, **options)

    monkeypatch.setattr(upserts, "write", write_or_be_late)
    [(record, new)] = hub.records.upsert(
        client.account, CONTACTS, [Upsert("email", "ada@example.com", {"city": "Rome"})]
    )
    assert (record.id, record.properties["city"], new) == (id, "Rome", False)


def test_an_upsert_leaves_alone_who_has_given_the_value_up(
    hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hub.database.dialect != "postgresql":
        pytest.skip("SQLite lets nobody write between the look and the write")
    id = client.make(email="ada@example.com")
    look = unique_values.holders
    body = {"properties": {"email": "lovelace@example.com"}}
    moves = iter([lambda: client.patch(f"/contacts/{id}", body)])

    def look_and_be_late(*args: Any) -> Any:
        held = look(*args)
        for move in moves:
            # In a thread of its own, so on another connection.
            at_once(move)
        return held

    monkeypatch.setattr(unique_values, "holders", look_and_be_late)
    [(record, new)] = hub.records.upsert(
        client.account, CONTACTS, [Upsert("email", "ada@example.com", {"city": "Rome"})]
    )
    assert new
    assert record.id != id
    moved = client.get(f"/contacts/{id}").get_json()["properties"]
    assert (moved["email"], "city" in moved) == ("lovelace@example.com", False)


def test_one_record_alone_is_one_statement_on_postgresql(
    hub: Hub, client: Client, sent: Sent
) -> None:
    def create(n: int) -> None:
        new = NewRecord({"email": f"grace{n}@example.com", "city": "Rome"})
        hub.records.create(client.account, CONTACTS, [new])

    create(1)
    sent.clear()
    create(2)
    assert len(sent) == 1 or hub.database.dialect == "sqlite"
    before = stored(hub)
    with pytest.raises(DuplicateValue):
        create(2)
    assert stored(hub) == before


def stored(hub: Hub) -> list[int]:
    """Return how many rows each table of records has, and what their counters say."""
    tables = [f"select count(*) from {table}" for table in ("records", *TABLES)]
    counted = [*tables, "select coalesce(sum(n), 0) from record_count"]
    with hub.database.reading() as connection:
        return [int(connection.scalar(each)) for each in counted]
