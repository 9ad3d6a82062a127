"""Emails of new contacts in a CRM that takes an email twice: looked up under a lease."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crmhub.adapter import Adapter, Conflict, ContactWrite, NotYet, Unavailable
from crmhub.adapter.emails import free_email, free_emails
from crmhub.adapter.testing import Connection
from tests.adapters.odoo.odoo_crm import OdooCrm, connected


@pytest.fixture
def crm() -> Iterator[OdooCrm]:
    with OdooCrm(version=19) as crm:
        yield crm


@pytest.fixture
def connection(crm: OdooCrm) -> Iterator[Connection]:
    connection = connected(crm.fake)
    yield connection
    connection.outgoing.close()


@pytest.fixture
def adapter(connection: Connection) -> Adapter:
    return connection.adapter()


def new(email: str) -> ContactWrite:
    return ContactWrite("", {"email": email, "lastname": "Lee"}, f"mark of {email}")


def test_a_free_email_is_held_while_its_contact_is_made(
    adapter: Adapter, connection: Connection
) -> None:
    with free_email(adapter, "Ann@example.org"):
        with pytest.raises(NotYet), connection.within(0.05), free_email(adapter, "ann@example.org"):
            pytest.fail("two processes make a contact with one email")
        with free_email(adapter, "bob@example.org"), free_email(adapter, ""):
            pass


def test_a_taken_email_is_a_conflict_with_its_contact(adapter: Adapter, crm: OdooCrm) -> None:
    holder = crm.add_contact({"lastname": "Lee", "email": "Ann@example.org"})
    with pytest.raises(Conflict) as caught, free_email(adapter, "ANN@example.org"):
        pytest.fail("the email is taken")
    assert (caught.value.existing_id, caught.value.name) == (holder, "email")


def test_a_batch_leaves_out_emails_that_are_taken_held_or_repeated(
    adapter: Adapter, crm: OdooCrm
) -> None:
    crm.add_contact({"lastname": "Lee", "email": "taken@example.org"})
    writes = [
        new("free@example.org"),
        new("taken@example.org"),
        new("held@example.org"),
        ContactWrite("7", {"email": "taken@example.org"}),
        new("FREE@example.org"),
        ContactWrite("", {"lastname": "Lee"}),
    ]
    with free_email(adapter, "held@example.org"), free_emails(adapter, writes) as free:
        assert free == [0, 3, 5]
        with pytest.raises(NotYet), adapter.context.lease("email free@example.org", 1, patience=0):
            pytest.fail("the lease is free")
    with free_emails(adapter, writes) as free:
        assert free == [0, 2, 3, 5]


def test_a_batch_whose_lookup_fails_holds_nothing(adapter: Adapter, crm: OdooCrm) -> None:
    crm.fake.fail(503, times=None)
    with pytest.raises(Unavailable), free_emails(adapter, [new("ann@example.org")]):
        pytest.fail("the lookup failed")
    crm.fake.faults.clear()
    with free_email(adapter, "ann@example.org"):
        pass
