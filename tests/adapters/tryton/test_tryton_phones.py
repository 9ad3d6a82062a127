"""A Tryton with the library phonenumbers, which checks phones and stores them in its notation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crmhub.adapter import Adapter, Rejected
from crmhub.adapter.matching import Lead
from crmhub.adapter.upserts import upsert_contact
from tests import databases
from tests.adapters.tryton.tryton_crm import TrytonCrm, connected
from tests.tryton import server

PHONE = "+4915123456789"
ANN = {"email": "ann@example.org", "phone": PHONE, "mobilephone": "+491601234567"}


@pytest.fixture(scope="module")
def particular() -> Iterator[TrytonCrm]:
    if reason := databases.left_out("tryton"):
        pytest.skip(f"Tryton left out: {reason}")
    with server.tryton(phonenumbers=True) as tryton:
        yield TrytonCrm(tryton)


@pytest.fixture
def adapter(particular: TrytonCrm) -> Adapter:
    particular.empty()
    return connected(particular).adapter()


def _stored(crm: TrytonCrm) -> list[str]:
    rows = crm.sql.execute("select value from party_contact_mechanism where type = 'phone'")
    return [value for (value,) in rows.fetchall()]


def test_a_phone_is_the_same_in_trytons_notation(adapter: Adapter, particular: TrytonCrm) -> None:
    lead = Lead(ANN, email=ANN["email"], phone=PHONE)
    made = upsert_contact(adapter, lead)
    assert (made.outcome, upsert_contact(adapter, lead).outcome) == ("created", "unchanged")
    assert _stored(particular) == ["+49 1512 3456789"]
    found = adapter.find_contact(phone=PHONE, names=[*ANN])
    assert found is not None
    assert (found.id, found.properties) == (made.id, ANN)
    assert adapter.has_phone(found, PHONE)


def test_a_phone_that_tryton_refuses_is_named(adapter: Adapter, particular: TrytonCrm) -> None:
    with pytest.raises(Rejected) as caught:
        adapter.create_contact({**ANN, "phone": "12345"})
    assert [problem.name for problem in caught.value.problems] == ["phone"]
    assert particular.contacts() == {}


def test_another_phone_replaces_the_first(adapter: Adapter, particular: TrytonCrm) -> None:
    made = adapter.create_contact(ANN)
    assert adapter.update_contact(made.id, {"phone": "+493012345678"}).outcome == "updated"
    assert _stored(particular) == ["+49 30 12345678"]
    assert adapter.find_contact(phone=PHONE) is None
