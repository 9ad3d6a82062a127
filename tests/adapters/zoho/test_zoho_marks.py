"""How the adapter finds what it has written when an answer of Zoho was lost."""

from __future__ import annotations

import time

import pytest

from adapters.fakes.zoho import FakeZoho
from crmhub.adapter import BadConfig, Uncertain
from crmhub.adapter.testing import Connection
from tests.adapters.zoho.zoho_crm import ZohoCrm, adapted, connected
from tests.loops import for_each

DEAL = {"dealname": "Engine", "amount": "1250"}


def lose_the_answer(fake: FakeZoho, module: str) -> None:
    fake.fail(kind="reset", written=True, method="POST", path=f"*/{module}")


def create_lost_deal(connection: Connection, fake: FakeZoho, mark: str) -> str:
    """Create a deal of which the answer is lost; return the id of its contact."""
    adapter = connection.adapter()
    contact = adapter.create_contact({"lastname": "Lovelace"}).id
    lose_the_answer(fake, "Deals")
    with pytest.raises(Uncertain):
        adapter.create_for_contact("deals", contact, DEAL, mark=mark)
    return contact


@for_each("mark_field", ["", "crmhub_mark"])
def test_a_deal_whose_answer_was_lost_is_found(mark_field: str) -> None:
    with ZohoCrm(mark=mark_field) as crm:
        connection, since_ms = connected(crm.fake, mark_field=mark_field), int(time.time() * 1000)
        contact = create_lost_deal(connection, crm.fake, "m-1")
        adapter = connection.adapter()
        [made] = crm.fake.records("deals")
        found = adapter.find_marked("deals", contact, "m-1", sent=DEAL, since_ms=since_ms)
        assert found is not None
        assert found.id == made
        other = adapter.find_apart(
            "deals", contact, "m-2", sent=DEAL, since_ms=since_ms, others=[made]
        )
        assert other is None
        cheaper = {**DEAL, "amount": "1"}
        assert not adapter.find_marked("deals", contact, "m-3", sent=cheaper, since_ms=since_ms)


def test_the_wait_after_a_lost_answer_ends_where_zoho_refuses_a_second_record() -> None:
    lead = {"email": "ada@example.com", "lastname": "Lovelace"}
    with ZohoCrm(mark="crmhub_mark") as crm:
        marked = adapted(crm.fake, mark_field="crmhub_mark")
        assert [marked.may_land_for(kind, lead) for kind in ("contacts", "deals")] == [0.0, 0.0]
        assert adapted(crm.fake).may_land_for("contacts", lead) == 60.0
    with ZohoCrm(mark="crmhub_mark", mark_is_unique=False, unique_email=True) as crm:
        plain = adapted(crm.fake, mark_field="crmhub_mark")
        assert [plain.may_land_for(kind, lead) for kind in ("contacts", "deals")] == [0.0, 60.0]


def test_a_mark_field_that_was_made_a_moment_ago_is_not_trusted() -> None:
    with ZohoCrm(mark="crmhub_mark") as crm:
        connection, since_ms = connected(crm.fake), int(time.time() * 1000)
        contact = create_lost_deal(connection, crm.fake, "m-1")
        made = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        crm.fake.columns["Deals"]["crmhub_mark"].created = made
        fresh = adapted(crm.fake, mark_field="crmhub_mark")
        found = fresh.find_marked("deals", contact, "m-1", sent=DEAL, since_ms=since_ms)
        assert found is not None
        assert fresh.may_land_for("deals", DEAL) == 60.0


def test_a_mark_field_that_refuses_the_mark_is_named() -> None:
    with ZohoCrm(mark="crmhub_mark") as crm:
        adapter = adapted(crm.fake, mark_field="crmhub_mark")
        adapter.describe("contacts")
        crm.fake.columns["Contacts"]["crmhub_mark"].length = 3
        with pytest.raises(BadConfig, match="mark in crmhub_mark of Contacts"):
            adapter.create_contact({"lastname": "Lovelace"}, mark="m-100")


@for_each("known_by", ["email", "phone"])
def test_a_contact_whose_answer_was_lost_is_found_without_a_mark(known_by: str) -> None:
    sent = {"email": "ada@example.com", "phone": "+4915112345678", "lastname": "Lovelace"}
    del sent["email" if known_by == "phone" else "phone"]
    with ZohoCrm() as crm:
        adapter = adapted(crm.fake)
        lose_the_answer(crm.fake, "Contacts")
        with pytest.raises(Uncertain):
            adapter.create_contact(sent, mark="m-1")
        found = adapter.find_marked("contacts", "", "m-1", sent=sent, since_ms=0)
        assert found is not None
        assert [found.id] == [*crm.fake.records("contacts")]


def test_a_plain_mark_goes_before_a_phone_that_somebody_else_has() -> None:
    phone = {"phone": "+4915112345678", "lastname": "Lee"}
    with ZohoCrm(mark="crmhub_mark", mark_is_unique=False) as crm:
        adapter = adapted(crm.fake, mark_field="crmhub_mark")
        adapter.create_contact({**phone, "email": "ann@example.com"}, mark="m-1")
        lose_the_answer(crm.fake, "Contacts")
        with pytest.raises(Uncertain):
            adapter.create_contact(phone, mark="m-2")
        found = adapter.find_marked("contacts", "", "m-2", sent=phone, since_ms=0)
        assert found is not None
        assert crm.fake.records("contacts")[found.id]["crmhub_mark"] == "m-2"
