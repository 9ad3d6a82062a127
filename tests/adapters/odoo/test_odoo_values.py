"""What Odoo's adapter writes, and what it refuses."""

from __future__ import annotations

import pytest

from adapters.fakes.odoo import FakeOdoo
from crmhub.adapter import Adapter, Rejected, Unsupported
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.leads import person
from tests.adapters.odoo.odoo_crm import OdooCrm, connected
from tests.loops import for_each

EMAIL = "ann@example.org"


@pytest.fixture
def contact(crm: OdooCrm) -> str:
    crm.add_contact({"lastname": "Before", "email": "before@example.org"})
    return crm.add_contact({"lastname": "Lee", "email": EMAIL, "phone": "+4915123456789"})


def stored(fake: FakeOdoo, kind: str, id: str) -> dict[str, object]:
    return fake.records(kind)[id]


def test_links_are_ids_and_tags_are_replaced(
    adapter: Adapter, fake: FakeOdoo, contact: str
) -> None:
    adapter.update_contact(contact, {"category_id": "3;1", "country_id": "2"})
    held = stored(fake, "contacts", contact)
    assert (held["category_id"], held["country_id"]) == ([3, 1], 2)
    names = ["category_id", "country_id"]
    assert adapter.get_contact(contact, names).properties == {
        "category_id": "1;3",
        "country_id": "2",
    }
    adapter.update_contact(contact, {"category_id": "2", "country_id": ""})
    held = stored(fake, "contacts", contact)
    assert (held["category_id"], held["country_id"]) == ([2], False)


def test_a_link_to_nothing_is_rejected_by_name(adapter: Adapter, contact: str) -> None:
    for wrong in ("999", "1.5", str(2**31)):
        with pytest.raises(Rejected) as caught:
            adapter.update_contact(contact, {"lastname": "Ross", "country_id": wrong})
        assert [problem.name for problem in caught.value.problems] == ["country_id"]


@for_each(
    ("name", "wrong", "right"),
    [
        ("color", "2147483648", "2147483647"),
        ("color", "1.5", "-3"),
        ("x_birthday", "0001-01-01", "1000-01-01"),
        ("x_visited", "0001-01-01T00:00:00Z", "1000-01-01T00:00:00.000Z"),
    ],
)
def test_a_value_out_of_range_is_rejected_by_name(
    adapter: Adapter, crm: OdooCrm, contact: str, name: str, wrong: str, right: str
) -> None:
    """Odoo does not name the field of each of them."""
    before = crm.contacts()
    with pytest.raises(Rejected) as caught:
        adapter.update_contact(contact, {"lastname": "Ross", name: wrong})
    assert [problem.name for problem in caught.value.problems] == [name]
    assert crm.contacts() == before
    adapter.update_contact(contact, {name: right})
    assert adapter.get_contact(contact, [name]).properties == {name: right}


def test_a_time_is_stored_in_utc_whatever_the_users_zone(
    adapter: Adapter, fake: FakeOdoo, contact: str
) -> None:
    assert fake.options.zone == "Europe/Berlin"
    adapter.update_contact(contact, {"x_visited": "2026-07-01T12:00:00+02:00"})
    assert stored(fake, "contacts", contact)["x_visited"] == "2026-07-01 10:00:00"


def test_a_new_contact_has_no_time_zone(adapter: Adapter, fake: FakeOdoo) -> None:
    """By default, Odoo gives a contact the zone of the call that creates it."""
    held = stored(fake, "contacts", adapter.create_contact({"lastname": "Lee"}, mark="m").id)
    assert (held["tz"], held["lang"]) == (False, "en_US")


def test_what_odoo_stores_otherwise_is_unchanged_when_it_is_sent_again(
    adapter: Adapter, fake: FakeOdoo, contact: str
) -> None:
    lead = person(
        email=EMAIL,
        comment="<Ann> & Bob\nsecond line",
        x_visited="2026-07-01T12:00:00.999Z",
        category_id="3;1",
        x_newsletter="no",
        x_score="0",
        country_id="1",
        x_budget="1 250",
        x_status="Customer",
    )
    assert upsert_contact(adapter, lead).outcome == "updated"
    assert stored(fake, "contacts", contact)["comment"] == (
        "<p>&lt;Ann&gt; &amp; Bob<br>second line</p>"
    )
    assert upsert_contact(adapter, lead).outcome == "unchanged"


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ({"email": EMAIL}, EMAIL),
        ({"phone": "+4915123456780"}, "+4915123456780"),
        ({"email": EMAIL, "firstname": "Ann"}, "Ann"),
    ],
)
def test_a_contact_without_a_name_gets_one(
    adapter: Adapter, fake: FakeOdoo, sent: dict[str, str], name: str
) -> None:
    saved = adapter.create_contact(sent, mark="m")
    assert stored(fake, "contacts", saved.id)["name"] == name


def test_a_name_cannot_be_cleared(adapter: Adapter, crm: OdooCrm, contact: str) -> None:
    with pytest.raises(Rejected) as caught:
        adapter.update_contact(contact, {"firstname": "", "lastname": ""})
    assert {problem.name for problem in caught.value.problems} == {"firstname", "lastname"}
    assert crm.contacts()[contact]["lastname"] == "Lee"


# Deals and tickets.


def test_a_deal_is_an_opportunity_in_its_place(
    adapter: Adapter, fake: FakeOdoo, contact: str
) -> None:
    sent = {
        "dealname": "A roof",
        "amount": "1250.50",
        "closedate": "2026-12-24",
        "dealstage": "signed",
        "hubspot_owner_id": "ADMIN@acme.example",
        "description": "3 < 4",
    }
    id = adapter.create_for_contact("deals", contact, sent, mark="m").id
    held = stored(fake, "deals", id)
    assert held["type"] == "opportunity"
    assert (held["partner_id"], held["user_id"]) == (int(contact), 1)
    assert (held["expected_revenue"], held["date_deadline"]) == (1250.5, "2026-12-24")
    assert (held["team_id"], held["stage_id"]) == (2, 3)
    assert held["description"] == "<p>3 &lt; 4</p>"


def test_a_stage_of_another_team_is_rejected(adapter: Adapter, crm: OdooCrm, contact: str) -> None:
    sent = {"dealname": "A roof", "pipeline": "1", "dealstage": "3"}
    with pytest.raises(Rejected) as caught:
        adapter.create_for_contact("deals", contact, sent, mark="m")
    assert [problem.name for problem in caught.value.problems] == ["dealstage"]
    assert crm.count("deals") == 0


@for_each("name", ["phone", "email_from", "partner_id"])
def test_a_deal_does_not_change_its_contact(
    adapter: Adapter, crm: OdooCrm, contact: str, name: str
) -> None:
    before = crm.contacts()
    sent = {"dealname": "A roof", name: "1"}
    with pytest.raises(Rejected) as caught:
        adapter.create_for_contact("deals", contact, sent, mark="m")
    assert [problem.name for problem in caught.value.problems] == [name]
    assert (crm.contacts(), crm.count("deals")) == (before, 0)


def test_a_ticket_has_a_priority_and_an_owner(
    adapter: Adapter, fake: FakeOdoo, contact: str
) -> None:
    sent = {"subject": "Broken", "content": "a\nb", "hs_ticket_priority": "HIGH"}
    sent["hubspot_owner_id"] = "2"
    held = stored(fake, "tickets", adapter.create_for_contact("tickets", contact, sent).id)
    assert (held["priority"], held["user_id"]) == ("2", 2)
    assert (held["description"], held["team_id"]) == ("<p>a<br>b</p>", 1)


@for_each(("version", "high"), [(17, "1"), (19, "2")])
def test_a_task_is_in_the_project_of_the_settings(version: int, high: str) -> None:
    with OdooCrm(version=version, tickets="project.task") as crm:
        contact = crm.add_contact({"lastname": "Lee", "email": EMAIL})
        connection = connected(crm.fake, project="2")
        adapter = connection.adapter()
        sent = {"subject": "Broken", "hs_ticket_priority": "high", "hubspot_owner_id": "1"}
        held = stored(crm.fake, "tickets", adapter.create_for_contact("tickets", contact, sent).id)
        assert (held["project_id"], held["priority"], held["user_ids"]) == (2, high, [1])
        sent = {"subject": "Broken", "hs_pipeline": "1"}
        with pytest.raises(Rejected):
            adapter.create_for_contact("tickets", contact, sent)
        connection.outgoing.close()


def test_tickets_without_a_model_are_unsupported(fake: FakeOdoo, contact: str) -> None:
    connection = connected(fake, tickets="")
    adapter = connection.adapter()
    with pytest.raises(Unsupported, match="tickets"):
        adapter.create_for_contact("tickets", contact, {"subject": "Broken"})
    with pytest.raises(Unsupported):
        adapter.describe("tickets")
    adapter.check()
    connection.outgoing.close()


def test_labels_are_in_the_language_of_the_settings(fake: FakeOdoo, contact: str) -> None:
    connection = connected(fake, language="de_DE")
    adapter = connection.adapter()
    assert [stage.label for stage in adapter.pipelines("deals")[0].stages] == ["Neu", "Gewonnen"]
    sent = {"dealname": "Ein Dach", "dealstage": "gewonnen"}
    id = adapter.create_for_contact("deals", contact, sent, mark="m").id
    assert stored(fake, "deals", id)["stage_id"] == 2
    connection.outgoing.close()


def test_teams_and_stages_come_in_the_order_of_people(adapter: Adapter, fake: FakeOdoo) -> None:
    for model in ("crm.team", "crm.stage", "helpdesk.team", "helpdesk.stage"):
        for record in fake.data.records[model].values():
            fake.data.update(record, {"sequence": -int(record.id)})
    listed = {
        one.label: [stage.label for stage in one.stages]
        for kind in ("deals", "tickets")
        for one in adapter.pipelines(kind)  # type: ignore[arg-type]
    }
    assert [*listed.items()] == [
        ("Partners", ["Signed", "Won", "New"]),
        ("Sales", ["Won", "New"]),
        ("Returns", ["Sent", "New"]),
        ("Support", ["Done", "New"]),
    ]


# Marks.


def test_a_repeated_create_leaves_what_people_have_changed(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo, contact: str
) -> None:
    sent = {"dealname": "A roof"}
    first = adapter.create_for_contact("deals", contact, sent, mark="m")
    fake.set("deals", first.id, name="A new roof", stage_id=2)
    assert adapter.create_for_contact("deals", contact, sent, mark="m").id == first.id
    assert crm.count("deals") == 1
    assert stored(fake, "deals", first.id)["name"] == "A new roof"
    assert adapter.create_for_contact("deals", contact, sent, mark="n").id != first.id


def test_a_deleted_record_is_made_anew(adapter: Adapter, crm: OdooCrm, fake: FakeOdoo) -> None:
    sent = {"lastname": "Lee", "phone": "+4915123456780"}
    first = adapter.create_contact(sent, mark="m")
    assert adapter.create_contact(sent, mark="m").id == first.id
    crm.delete_contact(first.id)
    second = adapter.create_contact(sent, mark="m")
    assert list(crm.contacts()) == [second.id]


def test_a_field_that_an_upgrade_removes_is_rejected_by_name(
    adapter: Adapter, fake: FakeOdoo, contact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Odoo names no field in this error: newer definitions tell it."""
    monkeypatch.setattr("crmhub.adapter.definitions.Definitions.stale_s", 0.0)
    adapter.update_contact(contact, {"function": "Roofer"})
    del fake.data.models["res.partner"].fields["function"]
    with pytest.raises(Rejected) as caught:
        adapter.update_contact(contact, {"function": "Boss"})
    assert [problem.name for problem in caught.value.problems] == ["function"]


# Odoo's own names.


def test_a_deal_may_have_odoos_own_names(adapter: Adapter, fake: FakeOdoo, contact: str) -> None:
    sent = {"name": "A roof", "expected_revenue": "1 250", "team_id": "1", "stage_id": "2"}
    id = adapter.create_for_contact("deals", contact, {**sent, "user_id": "admin@acme.example"}).id
    held = stored(fake, "deals", id)
    assert (held["name"], held["expected_revenue"], held["user_id"]) == ("A roof", 1250, 1)
    assert (held["team_id"], held["stage_id"]) == (1, 2)


@for_each("name", ["stage_id", "user_id", "priority", "dealstage"])
def test_a_problem_has_the_name_that_was_sent(adapter: Adapter, contact: str, name: str) -> None:
    with pytest.raises(Rejected) as caught:
        adapter.create_for_contact("deals", contact, {"name": "A roof", name: "nobody@x"})
    assert [problem.name for problem in caught.value.problems] == [name]


@for_each(
    "twice",
    [{"dealname": "a", "name": "b"}, {"dealstage": "2", "stage_id": "2", "dealname": "a"}],
)
def test_a_property_under_both_its_names_is_rejected(
    adapter: Adapter, crm: OdooCrm, contact: str, twice: dict[str, str]
) -> None:
    with pytest.raises(Rejected, match="two names"):
        adapter.create_for_contact("deals", contact, twice)
    assert crm.count("deals") == 0
