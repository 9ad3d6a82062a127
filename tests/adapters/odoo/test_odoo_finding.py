"""Whom Odoo's adapter finds: people who are customers, by their first address and both phones."""

from __future__ import annotations

import pytest

from adapters.fakes.odoo import FakeOdoo
from crmhub.adapter import Adapter, Contact, NotFound
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.leads import person
from tests.adapters.odoo.odoo_crm import OdooCrm, connected

EMAIL, PHONE = "ann@example.org", "+4915123456789"


@pytest.mark.parametrize(
    "decoy",
    [
        {"is_company": True},
        {"partner_share": False},
        {"type": "delivery"},
        {"type": "invoice"},
        {"active": False},
    ],
    ids=["a company", "a colleague", "an address", "a payer", "archived"],
)
def test_who_is_no_active_customer_is_not_found(
    adapter: Adapter, fake: FakeOdoo, decoy: dict[str, object]
) -> None:
    held = {"name": "Acme", "email": EMAIL, "phone": PHONE}
    theirs = fake.add("contacts", {**held, **decoy})
    assert adapter.find_contact(email=EMAIL) is None
    assert adapter.find_contact(phone=PHONE) is None
    saved = upsert_contact(adapter, person(email=EMAIL, phone=PHONE, lastname="Lee"))
    assert saved.outcome == "created"
    record = fake.data.records["res.partner"][theirs].properties
    assert {name: record[name] for name in held} == held


def test_an_archived_contact_is_gone(adapter: Adapter, crm: OdooCrm, fake: FakeOdoo) -> None:
    id = crm.add_contact({"lastname": "Lee", "email": EMAIL})
    fake.set("contacts", id, active=False)
    with pytest.raises(NotFound):
        adapter.get_contact(id, ["email"])
    with pytest.raises(NotFound):
        adapter.update_contact(id, {"lastname": "Ross"})
    with pytest.raises(NotFound):
        adapter.create_for_contact("deals", id, {"dealname": "A roof"}, mark="m")
    fake.data.records["res.partner"][id].properties["active"] = True
    assert (crm.count("deals"), crm.contacts()[id]["lastname"]) == (0, "Lee")


@pytest.mark.parametrize(
    "stored", ["Ann@Example.org", "Ann Lee <ann@example.org>", "ann@example.org, a.lee@example.org"]
)
def test_a_contact_is_found_by_its_first_address(
    adapter: Adapter, crm: OdooCrm, stored: str
) -> None:
    crm.add_contact({"lastname": "Lee", "email": f"jo{EMAIL}"})
    id = crm.add_contact({"lastname": "Lee", "email": stored})
    found = adapter.find_contact(email=EMAIL, names=["email"])
    assert found is not None
    assert (found.id, found.properties) == (id, {"email": stored})
    assert adapter.has_email(found, EMAIL)
    assert not adapter.has_email(found, "nn@example.org")


def test_a_further_address_belongs_to_the_contact_of_the_conversation(
    adapter: Adapter, crm: OdooCrm
) -> None:
    id = crm.add_contact({"lastname": "Lee", "email": f"a.lee@example.org; {EMAIL}"})
    assert adapter.has_email(adapter.get_contact(id, adapter.email_names), EMAIL)


def test_a_corrected_email_replaces_the_first_address_only(adapter: Adapter, crm: OdooCrm) -> None:
    for stored, corrected in [
        ("a.lee@example.org; lee@example.org", f"{EMAIL}; lee@example.org"),
        ("Ann <a.lee@example.org>, lee@example.org", f"Ann <{EMAIL}>, lee@example.org"),
        (f"a.lee@example.org; {EMAIL}; lee@example.org", f"{EMAIL}; lee@example.org"),
        ("a.lee@example.org", EMAIL),
        ("Ann <a.lee@example.org>", EMAIL),
    ]:
        first, second = (crm.add_contact({"lastname": "Lee", "email": stored}) for _ in range(2))
        adapter.update_contact(first, {"email": EMAIL})
        held = adapter.get_contact(second, ["email"])
        assert adapter.changes(held, {"email": ""}).properties == {"email": ""}
        adapter.update_contact(second, adapter.changes(held, {"email": EMAIL}).properties)
        for id in (first, second):
            assert adapter.get_contact(id, ["email"]).properties["email"] == corrected


def test_a_mobile_number_is_found_where_the_field_is(adapter: Adapter, fake: FakeOdoo) -> None:
    if fake.options.version < 19:
        id = fake.add("contacts", {"name": "Ann", "mobile": "+49 1512 3456789"})
    else:
        # What an upgrade leaves of phone and mobile.
        id = fake.add("contacts", {"name": "Ann", "phone": "+49 30 123456 | +49 1512 3456789"})
    fake.add("contacts", {"name": "Bob", "phone": "+49 30 123456 | +49 1512 345678"})
    found = adapter.find_contact(phone=PHONE)
    assert found is not None
    assert found.id == id
    held = adapter.get_contact(id, ["phone", "mobilephone"])
    assert ("mobilephone" in held.properties) == (fake.options.version < 19)
    assert adapter.has_phone(held, PHONE)


def test_several_at_once_are_found_by_their_first_address(adapter: Adapter, crm: OdooCrm) -> None:
    ann, bob = "ann@example.org", "bob@example.org"
    crm.add_contact({"lastname": "Lee", "email": f"{ann}; {bob}"})
    second = crm.add_contact({"lastname": "Ross", "email": bob})
    found = adapter.find_contacts(emails=[bob, ann], names=["lastname"])
    assert found[bob].id == second
    assert found[ann].properties == {"lastname": "Lee"}


def test_a_number_is_found_in_any_punctuation(adapter: Adapter, fake: FakeOdoo) -> None:
    id = fake.add("contacts", {"name": "Ann", "phone": "+49 (1512) 34.56-789"})
    found = adapter.find_contact(phone=PHONE)
    assert isinstance(found, Contact)
    assert found.id == id


def test_pages_lead_into_odoo(adapter: Adapter, crm: OdooCrm, fake: FakeOdoo) -> None:
    id = crm.add_contact({"lastname": "Lee", "email": EMAIL})
    page = f"/odoo/res.partner/{id}"
    if fake.options.version < 19:
        page = f"/web#id={id}&model=res.partner&view_type=form"
    assert adapter.get_contact(id, []).url == f"{fake.url}{page}"


def test_phones_are_found_without_the_search_field_of_newer_apps(fake: FakeOdoo) -> None:
    del fake.data.models["res.partner"].fields["phone_mobile_search"]
    id = fake.add("contacts", {"name": "Ann", "phone": "+49 1512 3456789"})
    connection = connected(fake)
    found = connection.adapter().find_contact(phone=PHONE)
    connection.outgoing.close()
    assert found is not None
    assert found.id == id


def test_odoo_tells_which_address_is_the_first(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo
) -> None:
    id = crm.add_contact({"lastname": "Lee", "email": f"mailto:{EMAIL}"})
    fake.data.records["res.partner"][id].properties["email_normalized"] = EMAIL
    found = adapter.find_contact(email=EMAIL)
    assert found is not None
    assert found.id == id
