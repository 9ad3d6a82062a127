"""How many calls and credits leads, deals and batches cost at Zoho."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import pytest

from adapters.fakes.zoho import FakeZoho
from crmhub.adapter import ContactWrite, LacksRight, Saved
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.testing.several_leads import at_once
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.leads import person
from tests.adapters.zoho.zoho_crm import ZohoCrm, adapted, calls, connected
from tests.loops import for_each

COQL, CREATE = "POST /crm/v8/coql", "POST /crm/v8/Contacts"
EMAIL, PHONE = "ada@example.com", "+4915112345678"


@pytest.fixture
def fake() -> Iterator[FakeZoho]:
    with ZohoCrm(mark="crmhub_mark") as crm:
        yield crm.fake


@for_each("unique", [False, True])
def test_calls_of_a_lead(unique: bool) -> None:
    with ZohoCrm(unique_email=unique) as crm:
        fake, adapter = crm.fake, adapted(crm.fake)
        adapter.describe("contacts")
        calls(fake)
        # Where an email is not unique, it is looked for once more under a lease.
        again = [] if unique else [COQL]
        values = {"email": EMAIL, "firstname": "Ada", "lastname": "Lovelace"}
        new = upsert_contact(adapter, person(**values))
        assert calls(fake) == [COQL, *again, CREATE]
        upsert_contact(adapter, person(email="alan@example.com", phone=PHONE, lastname="Turing"))
        assert calls(fake) == [COQL, COQL, *again, CREATE]
        changed = upsert_contact(adapter, person(**{**values, "lastname": "King"}))
        assert (changed.id, changed.outcome) == (new.id, "updated")
        assert calls(fake) == [COQL, f"PUT /crm/v8/Contacts/{new.id}"]
        repeated = upsert_contact(adapter, person(**{**values, "lastname": "King"}))
        assert repeated.outcome == "unchanged"
        assert calls(fake) == [COQL]


def test_calls_of_a_deal_and_a_ticket(fake: FakeZoho) -> None:
    adapter = adapted(fake, mark_field="crmhub_mark")
    contact = adapter.create_contact({"email": EMAIL, "lastname": "Lovelace"}).id
    for kind in ("deals", "tickets"):
        adapter.describe(kind)
        adapter.pipelines(kind)
    calls(fake)
    adapter.create_for_contact("deals", contact, {"dealname": "Engine"}, mark="m-1")
    assert calls(fake) == ["POST /crm/v8/Deals"]
    adapter.create_for_contact("tickets", contact, {"subject": "Help"}, mark="m-2")
    assert calls(fake) == ["POST /crm/v8/Cases"]


def test_a_new_process_reads_the_definitions_once(fake: FakeZoho) -> None:
    adapter = adapted(fake)
    for number in range(3):
        upsert_contact(adapter, person(email=f"ada{number}@example.com", lastname="Lovelace"))
    done = calls(fake)
    assert done.count("POST /oauth/v2/token") == 1
    assert done.count("GET /crm/v8/settings/fields") == 1
    assert len(done) == 2 + 3 * 3


@for_each("unique", [False, True])
def test_a_batch_of_a_hundred(unique: bool) -> None:
    with ZohoCrm(unique_email=unique) as crm:
        fake, adapter = crm.fake, adapted(crm.fake)
        people = [person(email=f"ada{i}@example.com", lastname=f"L {i}") for i in range(100)]
        made = upsert_contacts(adapter, people[:40])
        assert all(isinstance(one, Saved) and one.outcome == "created" for one in made)
        calls(fake)
        spent = fake.credits.spent
        changed = [person(**{**one.properties, "firstname": "Ada"}) for one in people]
        outcomes = upsert_contacts(adapter, changed)
        assert [one.outcome for one in outcomes if isinstance(one, Saved)] == (
            ["updated"] * 40 + ["created"] * 60
        )
        assert len(fake.records("contacts")) == 100
        # COQL takes 50 emails at a time; 60 of them are looked for once more under their leases.
        again = [] if unique else [COQL, COQL]
        assert calls(fake) == [COQL, COQL, "PUT /crm/v8/Contacts", *again, CREATE]
        assert fake.credits.spent - spent == 2 + 4 + len(again) + 6


def test_a_batch_writes_no_email_that_another_call_is_writing(fake: FakeZoho) -> None:
    connection = connected(fake)
    writes = [
        ContactWrite("", {"email": EMAIL, "lastname": "Lovelace"}),
        ContactWrite("", {"Email": "B@example.com", "lastname": "B"}),
        ContactWrite("", {"phone": PHONE, "lastname": "C"}),
    ]
    with connection.context().lease(f"email {EMAIL}", 60.0):
        busy, *free = connection.adapter().write_contacts(writes)
    assert busy is None
    assert all(isinstance(one, Saved) for one in free)
    assert [one["Last_Name"] for one in fake.records("contacts").values()] == ["B", "C"]


def test_an_error_of_a_batch_is_not_one_of_a_contact_that_is_not_in_it(fake: FakeZoho) -> None:
    connection = connected(fake)
    fake.tokens.scopes -= {"ZohoCRM.modules.contacts.CREATE"}
    writes = [
        ContactWrite("", {"email": EMAIL, "lastname": "Lovelace"}),
        ContactWrite("", {"email": "b@example.com", "lastname": "B"}),
    ]
    with connection.context().lease(f"email {EMAIL}", 60.0):
        busy, refused = connection.adapter().write_contacts(writes)
    assert busy is None
    assert isinstance(refused, LacksRight)


def test_a_part_of_a_batch_that_is_refused_is_told_row_by_row(fake: FakeZoho) -> None:
    adapter = adapted(fake)
    first = adapter.create_contact({"email": EMAIL, "lastname": "Lovelace"}).id
    fake.locked.add(first)
    leads = [
        person(email=EMAIL, lastname="King"),
        person(email="no.mail", lastname="Refused"),
        person(email="b@example.com", lastname="B"),
        person(email="c@example.com", lastname="C"),
    ]
    outcomes = upsert_contacts(adapter, leads)
    words = [type(one).__name__ for one in outcomes]
    assert words == ["NotYet", "Rejected", "SavedLead", "SavedLead"]
    assert len(fake.records("contacts")) == 3


def test_more_columns_than_a_query_takes_are_read_in_parts(fake: FakeZoho) -> None:
    columns = fake.columns["Contacts"]
    for number in range(60):
        columns[f"Extra_{number}"] = copy(columns["Title"])
    fake.add("contacts", {"Last_Name": "L", "Email": EMAIL, "Extra_0": "first", "Extra_59": "last"})
    names = [f"Extra_{number}" for number in range(60)]
    found = adapted(fake).find_contact(email=EMAIL, names=names)
    assert found is not None
    assert (found.properties["Extra_0"], found.properties["Extra_59"]) == ("first", "last")
    assert calls(fake).count(COQL) == 2


@for_each(("edition", "most"), [("free", 5), ("ultimate", 10)])
def test_no_more_queries_than_zoho_takes_run_at_the_same_time(edition: str, most: int) -> None:
    with ZohoCrm() as crm:
        connection = connected(crm.fake, edition=edition)
        adapters = [connection.adapter() for _ in range(2)]
        for adapter in adapters:
            adapter.describe("contacts")
        crm.fake.latency = 0.2
        emails = [f"ada{number}@example.com" for number in range(14)]
        at_once(
            [lambda i=i, e=e: adapters[i % 2].find_contact(email=e) for i, e in enumerate(emails)]
        )
        assert crm.fake.at_once.peak == most
