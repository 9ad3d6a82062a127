"""How many calls of Odoo a lead or a deal needs, once the definitions are known."""

from __future__ import annotations

import json

import pytest

from adapters.fakes.odoo import FakeOdoo
from crmhub.adapter import Adapter, Saved
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.testing import Connection
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.leads import person

ANN = {"email": "ann@example.org", "firstname": "Ann", "lastname": "Lee"}
PHONE = "+4915123456789"
SEARCH, LOAD = "res.partner.search_read", "res.partner.load"


def calls(fake: FakeOdoo) -> list[str]:
    """Return model and method of every call since the last time."""
    return [_called(seen.path, seen.body) for seen in fake.take_requests()]


def _called(path: str, body: bytes) -> str:
    if path == "/jsonrpc":
        params = json.loads(body)["params"]
        return ".".join(params["args"][3:5]) if params["service"] == "object" else params["method"]
    return ".".join(path.split("/")[-2:])


@pytest.fixture
def known(adapter: Adapter, fake: FakeOdoo) -> Adapter:
    """An adapter that knows the user and the definitions already."""
    adapter.describe("contacts")
    adapter.pipelines("deals")
    fake.take_requests()
    return adapter


def test_a_first_call_logs_in_and_asks_for_the_fields(adapter: Adapter, fake: FakeOdoo) -> None:
    adapter.find_contact(email="ann@example.org")
    login = ["authenticate"] if fake.options.version < 19 else []
    assert calls(fake) == [*login, "res.partner.fields_get", SEARCH]
    adapter.find_contact(email="ann@example.org")
    assert calls(fake) == [SEARCH]


def test_another_process_takes_the_fields_over(
    known: Adapter, connection: Connection, fake: FakeOdoo
) -> None:
    lead = person(mark="m1", x_visited="2026-07-01T12:00:00Z", **ANN)
    assert upsert_contact(connection.adapter(), lead).outcome == "created"
    login = ["authenticate"] if fake.options.version < 19 else []
    assert calls(fake) == [*login, SEARCH, SEARCH, LOAD]
    assert upsert_contact(known, lead).outcome == "unchanged"


def test_a_new_lead_with_email_takes_three_calls(known: Adapter, fake: FakeOdoo) -> None:
    assert upsert_contact(known, person(mark="m1", **ANN)).outcome == "created"
    assert calls(fake) == [SEARCH, SEARCH, LOAD]


def test_a_new_lead_with_email_and_phone_takes_four(known: Adapter, fake: FakeOdoo) -> None:
    assert upsert_contact(known, person(mark="m1", phone=PHONE, **ANN)).outcome == "created"
    assert calls(fake) == [SEARCH, SEARCH, SEARCH, LOAD]


def test_a_known_lead_with_one_new_value_takes_two(known: Adapter, fake: FakeOdoo) -> None:
    upsert_contact(known, person(phone=PHONE, **ANN))
    calls(fake)
    lead = person(phone=PHONE, **(ANN | {"lastname": "Lee-Ross"}))
    assert upsert_contact(known, lead).outcome == "updated"
    assert calls(fake) == [SEARCH, LOAD]


def test_a_repeated_lead_takes_one_call(known: Adapter, fake: FakeOdoo) -> None:
    upsert_contact(known, person(phone=PHONE, **ANN))
    calls(fake)
    assert upsert_contact(known, person(phone=PHONE, **ANN)).outcome == "unchanged"
    assert calls(fake) == [SEARCH]


def test_a_deal_takes_one_call(known: Adapter, fake: FakeOdoo) -> None:
    contact = known.create_contact(ANN).id
    known.describe("deals")
    calls(fake)
    known.create_for_contact("deals", contact, {"dealname": "A roof", "amount": "1250"}, mark="m")
    assert calls(fake) == ["crm.lead.load"]


def test_fifty_leads_take_five_calls(known: Adapter, fake: FakeOdoo) -> None:
    """Emails, phones, a `load` for all changed, emails under leases, a `load` for all new."""
    name = {"firstname": "Ann", "lastname": "Lee"}
    old = [person(email=f"old{i}@example.org", **name) for i in range(25)]
    phones = [f"+49151234567{i:02d}" for i in range(25)]
    new = [person(email=f"a{one}@example.org", phone=one, mark=one, **name) for one in phones]
    upsert_contacts(known, old)
    calls(fake)
    changed = [person(email=one.email, **(name | {"lastname": "Ross"})) for one in old]
    outcomes = upsert_contacts(known, [*changed, *new])
    assert [one.outcome for one in outcomes if isinstance(one, Saved)] == (
        ["updated"] * 25 + ["created"] * 25
    )
    assert calls(fake) == [SEARCH, SEARCH, LOAD, SEARCH, LOAD]
