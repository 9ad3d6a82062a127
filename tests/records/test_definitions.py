"""Definitions while others write: several processes, several threads, and what is left behind."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Database
from crmhub.errors import Conflict, NotFound
from crmhub.hub import Hub
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import CONTACTS
from crmhub.properties.validation import InvalidProperties
from crmhub.properties.values import Option
from crmhub.records import definitions
from crmhub.records.models import Change, NewRecord
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.records.store import RecordStore
from tests.records.conftest import done_at_once

COLOUR = Property(0, name="colour", label="", type="string")
CODE = Property(0, name="code", label="", type="string", unique=True)


def create(records: RecordStore, account: Account, **properties: str) -> int:
    [record] = records.create(account, CONTACTS, [NewRecord({"firstname": "Ada", **properties})])
    return record.id


def found(records: RecordStore, account: Account, name: str) -> list[int]:
    """Return the ids that a search for any value of the property finds."""
    query = Query((Filter(name, "HAS_PROPERTY"),))
    page = records.page(account, CONTACTS, PageRequest(query))
    return sorted(each.id for each in page.records)


def left_behind(hub: Hub, account: Account) -> list[tuple[Any, ...]]:
    """Return the rows under properties that are not defined, and the documents that name one."""
    of = {"account": account.id}
    with hub.database.reading() as connection:
        rows = [
            row
            for table in ("ix_text", "ix_num", "ix_date", "unique_value")
            for row in connection.rows(
                f"select '{table}', prop_id, value, record_id from {table}"
                " where account_id = :account and prop_id not in"
                " (select prop_id from property_def where account_id = :account)",
                of,
            )
        ]
        names = {
            row[0]
            for row in connection.rows(
                "select name from property_def where account_id = :account", of
            )
        }
        documents = connection.rows(
            "select id, cast(properties as text) from records where account_id = :account", of
        )
    return rows + [row for row in documents if not json.loads(row[1]).keys() <= names]


# --- another process -------------------------------------------------------------------------


def test_a_write_sees_the_change_that_it_waited_for(
    here: RecordStore, there: RecordStore, account: Account
) -> None:
    definitions.define(here, account, CONTACTS, COLOUR)
    create(there, account)

    def change(pool: ThreadPoolExecutor) -> Future[int]:
        definitions.change(here, account, CONTACTS, "colour", {"required": True})
        writing = pool.submit(create, there, account)
        waits_for_a_lock(there.database)
        return writing

    with ThreadPoolExecutor(1) as pool:
        writing = here.database.transact(lambda _: change(pool))
        with pytest.raises(InvalidProperties):
            writing.result()


def waits_for_a_lock(database: Database) -> None:
    """Return when somebody waits for a catalogue; on SQLite all wait for the one writer."""
    waiting = (
        "select count(*) from pg_locks join pg_database on oid = database"
        " where datname = current_database() and locktype = 'advisory' and not granted"
    )
    until = time.monotonic() + 120
    with database.reading() as connection:
        while connection.dialect == "postgresql" and not connection.scalar(waiting):
            assert time.monotonic() < until, "nobody waits"
            time.sleep(0.01)


def test_the_definition_read_is_the_newest_whatever_this_process_remembers(
    here: RecordStore, there: RecordStore, account: Account
) -> None:
    there.catalogue(account, CONTACTS)
    definitions.define(here, account, CONTACTS, COLOUR)
    assert definitions.find(there, account, CONTACTS, "colour").label == "Colour"
    definitions.delete(here, account, CONTACTS, "colour")
    with pytest.raises(NotFound):
        definitions.find(there, account, CONTACTS, "colour")


# --- at the same time ------------------------------------------------------------------------


def test_of_two_who_define_the_same_property_one_conflicts(
    here: RecordStore, there: RecordStore, account: Account
) -> None:
    answers = done_at_once(
        *(
            lambda records=records: definitions.define(records, account, CONTACTS, COLOUR)
            for records in (here, there, here, there)
        )
    )
    assert sorted(type(each).__name__ for each in answers) == ["Conflict"] * 3 + ["Property"]
    create(here, account, colour="red")


def test_properties_defined_at_the_same_time_all_get_numbers_of_their_own(
    here: RecordStore, account: Account
) -> None:
    def work(name: str) -> Callable[[], Property]:
        new = Property(0, name=name, label="", type="number")
        return lambda: definitions.define(here, account, CONTACTS, new)

    made = done_at_once(*(work(f"p{i}") for i in range(6)))
    assert len({each.prop_id for each in made}) == 6


def test_a_forced_deletion_while_others_write_leaves_nothing_behind(
    hub: Hub, here: RecordStore, there: RecordStore, account: Account
) -> None:
    definitions.define(here, account, CONTACTS, CODE)
    stop = threading.Event()
    refused = []

    def write(records: RecordStore, prefix: str) -> int:
        n = 0
        while not stop.is_set():
            try:
                id = create(records, account, code=f"{prefix}{n}")
                records.update(account, CONTACTS, [Change(id, {"code": f"{prefix}{n}!"})])
                n += 1
            except InvalidProperties:
                refused.append(prefix)
                return n
        return n

    def delete() -> None:
        while here.counts(account).get(CONTACTS.code, 0) < 10:
            pass
        try:
            definitions.delete(here, account, CONTACTS, "code", force=True)
        except BaseException:
            # Or they would write for ever.
            stop.set()
            raise

    counted = done_at_once(
        lambda: write(here, "a"), lambda: write(there, "b"), lambda: write(there, "c"), delete
    )
    assert counted[-1] is None
    assert sorted(refused) == ["a", "b", "c"]
    assert left_behind(hub, account) == []
    definitions.define(here, account, CONTACTS, CODE)
    create(here, account, code="a0")


def test_a_property_that_becomes_unique_while_others_write_has_no_value_twice(
    here: RecordStore, there: RecordStore, account: Account
) -> None:
    definitions.define(here, account, CONTACTS, COLOUR)

    def write(records: RecordStore) -> list[Any]:
        done = []
        for i in range(15):
            try:
                done.append(create(records, account, colour=f"c{i}"))
            except Conflict as exc:
                done.append(exc)
        return done

    *_, made = done_at_once(
        lambda: write(here),
        lambda: write(there),
        lambda: definitions.change(here, account, CONTACTS, "colour", {"unique": True}),
    )
    values = [
        record.properties["colour"]
        for record in here.read(account, CONTACTS, found(here, account, "colour"))
    ]
    unique = definitions.find(there, account, CONTACTS, "colour").unique
    # It came too late when a value stood twice already; then nothing has changed.
    assert unique == (not isinstance(made, Conflict))
    assert unique == (len(values) == len(set(values)))


def test_an_option_cannot_go_while_somebody_takes_it(
    here: RecordStore, there: RecordStore, account: Account
) -> None:
    options = (Option("a", "A"), Option("b", "B"))
    new = Property(0, name="pick", label="", type="enumeration", options=options)
    definitions.define(here, account, CONTACTS, new)
    written, changed = done_at_once(
        lambda: create(there, account, pick="b"),
        lambda: definitions.change(here, account, CONTACTS, "pick", {"options": options[:1]}),
    )
    assert isinstance(written, InvalidProperties) != isinstance(changed, Conflict)


# --- many records ----------------------------------------------------------------------------


def test_more_values_than_a_batch_are_claimed_and_a_twin_among_them_is_found(
    hub: Hub, here: RecordStore, account: Account
) -> None:
    new = Property(0, name="serial", label="", type="number")
    definitions.define(here, account, CONTACTS, new)
    for start in range(0, 2300, 100):
        inputs = [
            NewRecord({"firstname": "A", "serial": str(i)}) for i in range(start, start + 100)
        ]
        here.create(account, CONTACTS, inputs)
    twin = create(here, account, serial="2299")
    with pytest.raises(Conflict, match=rf"and {twin} have the same serial"):
        definitions.change(here, account, CONTACTS, "serial", {"unique": True})
    here.archive(account, CONTACTS, [(twin, "")])
    definitions.change(here, account, CONTACTS, "serial", {"unique": True})
    for value in ("0", "1000", "2299"):
        assert len(here.read_by(account, CONTACTS, "serial", [value])) == 1
    definitions.delete(here, account, CONTACTS, "serial", force=True)
    assert left_behind(hub, account) == []
    assert here.counts(account)[CONTACTS.code] == 2300


def test_a_change_that_changes_nothing_is_no_new_version(
    here: RecordStore, account: Account
) -> None:
    before = here.catalogues.reload(account.id, CONTACTS).version
    definitions.change(here, account, CONTACTS, "email", {"label": "Email", "unique": True})
    with pytest.raises(Conflict):
        definitions.change(here, account, CONTACTS, "email", {"unique": False})
    assert here.catalogues.reload(account.id, CONTACTS).version == before
