"""How the adapter brings values into Zoho's form, and what it fills in."""

from __future__ import annotations

import json

import pytest

from adapters.fakes.zoho import FakeZoho
from adapters.fakes.zoho.schema import USERS
from crmhub.adapter import Conflict, Contact, Rejected
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.leads import person
from tests.adapters.zoho.zoho_crm import ZohoCrm, adapted
from tests.loops import for_each

EMAIL = "ada@example.com"
DEAL = {"dealname": "Engine"}


def names_of(caught: pytest.ExceptionInfo[Rejected]) -> list[str]:
    return [problem.name for problem in caught.value.problems]


@for_each("name", ["Emial", "first_name", "FIRST_NAME", "Record_Image", "Tag"], fresh="fake")
def test_a_name_that_zoho_would_ignore_is_rejected(fake: FakeZoho, name: str) -> None:
    with pytest.raises(Rejected) as caught:
        adapted(fake).create_contact({"lastname": "Lovelace", name: "x"})
    assert names_of(caught) == [name]
    assert not fake.records("contacts")


def test_a_field_that_only_a_create_may_write_is_rejected_later(fake: FakeZoho) -> None:
    adapter = adapted(fake)
    made = adapter.create_contact({"lastname": "Lovelace", "Sign_Up_Code": "A1"})
    with pytest.raises(Rejected) as caught:
        adapter.update_contact(made.id, {"Sign_Up_Code": "B2"})
    assert names_of(caught) == ["Sign_Up_Code"]


def test_one_field_under_two_names_is_rejected(fake: FakeZoho) -> None:
    with pytest.raises(Rejected) as caught:
        adapted(fake).create_contact({"lastname": "Lovelace", "Last_Name": "King"})
    assert names_of(caught) == ["Last_Name"]
    holder = Contact("1", {"lastname": "Lovelace", "Last_Name": "Lovelace"})
    with pytest.raises(Rejected) as caught:
        adapted(fake).changes(holder, {"lastname": "Lovelace", "Last_Name": "King"})
    assert names_of(caught) == ["Last_Name"]


def test_an_email_that_zoho_would_cut_is_rejected(fake: FakeZoho) -> None:
    with pytest.raises(Rejected) as caught:
        adapted(fake).create_contact({"lastname": "L", "email": f"{'a' * 100}@example.com"})
    assert names_of(caught) == ["email"]


def test_values_are_sent_as_the_json_of_their_type(fake: FakeZoho) -> None:
    adapter = adapted(fake)
    sent = {
        "lastname": "Lovelace",
        "Score": "1.5",
        "Visits": "1 000",
        "Ledger_Number": "12345678901234567",
        "Email_Opt_Out": "yes",
        "Interests": "News;offers",
        "Last_Visit": "2026-11-25T09:30:00.000Z",
        "Lead_Source": "empfehlung",
        "hubspot_owner_id": USERS[1]["email"],
    }
    made = adapter.create_contact(sent)
    [row] = json.loads(fake.requests[-1].body)["data"]
    assert row == {
        "Last_Name": "Lovelace",
        "Score": 1.5,
        "Visits": 1000,
        "Ledger_Number": "12345678901234567",
        "Email_Opt_Out": True,
        "Interests": ["news", "offers"],
        "Last_Visit": "2026-11-25T09:30:00+00:00",
        "Lead_Source": "Referral",
        "Owner": {"id": USERS[1]["id"]},
    }
    read = adapter.get_contact(made.id, tuple(sent)).properties
    assert read["Last_Visit"] == sent["Last_Visit"]
    assert read["hubspot_owner_id"] == USERS[1]["id"]
    assert read["Visits"] == "1000"


def test_an_owner_whom_zoho_does_not_know_is_rejected(fake: FakeZoho) -> None:
    with pytest.raises(Rejected) as caught:
        adapted(fake).create_contact({"lastname": "L", "hubspot_owner_id": "nobody@example.com"})
    assert names_of(caught) == ["hubspot_owner_id"]


@for_each(
    ("sent", "filled"),
    [
        ({"firstname": "Ada", "email": EMAIL}, "-"),
        ({"email": EMAIL}, EMAIL),
        ({"phone": "+4915112345678"}, "+4915112345678"),
    ],
    fresh="fake",
)
def test_a_last_name_that_nobody_gave_is_filled_in_and_read_as_nothing(
    fake: FakeZoho, sent: dict[str, str], filled: str
) -> None:
    adapter = adapted(fake)
    made = upsert_contact(adapter, person(**sent))
    assert fake.records("contacts")[made.id]["Last_Name"] == f"{filled}\u2060"
    assert adapter.get_contact(made.id, ["lastname"]).properties == {"lastname": ""}
    assert upsert_contact(adapter, person(**sent)).outcome == "unchanged"
    named = upsert_contact(adapter, person(**sent, lastname="Lovelace"))
    assert (named.id, named.outcome) == (made.id, "updated")
    adapter.update_contact(made.id, {"lastname": ""})
    assert adapter.get_contact(made.id, ["lastname"]).properties == {"lastname": ""}


def test_a_second_email_finds_its_contact(fake: FakeZoho) -> None:
    id = fake.add("contacts", {"Last_Name": "L", "Email": "a@b.org", "Secondary_Email": EMAIL})
    saved = upsert_contact(adapted(fake), person(email=EMAIL, firstname="Ada"))
    assert (saved.id, saved.outcome) == (id, "updated")
    assert fake.records("contacts")[id]["Email"] == "a@b.org"


def test_a_backslash_gets_into_no_query(fake: FakeZoho) -> None:
    adapter = adapted(fake)
    adapter.describe("contacts")
    fake.take_requests()
    assert adapter.find_contact(email="a\\b@example.com") is None
    assert not fake.take_requests()


@for_each("unique", [False, True])
def test_capitals_of_an_email_where_coql_tells_them_apart(unique: bool) -> None:
    with ZohoCrm(exact_case=True, unique_email=unique) as crm:
        id = crm.fake.add("contacts", {"Last_Name": "Lovelace", "Email": "Ada@Example.com"})
        saved = upsert_contact(adapted(crm.fake), person(email=EMAIL, lastname="King"))
        # Without a unique email, such a contact is made again.
        assert (saved.id == id) is unique


# Deals and cases.


def test_what_the_layout_demands_is_filled_in() -> None:
    demanded = frozenset({"Closing_Date", "Case_Origin"})
    with ZohoCrm(demanded=demanded) as crm:
        adapter = adapted(crm.fake)
        contact = crm.fake.add("contacts", {"Last_Name": "Lovelace"})
        for kind, sent, name in (
            ("deals", {"dealname": "Engine"}, "Closing_Date"),
            ("tickets", {"subject": "Help"}, "Case_Origin"),
        ):
            for _ in range(2):
                adapter.create_for_contact(kind, contact, sent)  # type: ignore[arg-type]
            assert all(name in record for record in crm.fake.records(kind).values())
        # The second deal is right at once.
        assert crm.fake.count("POST", "*/Deals") == 3


def test_a_pipeline_of_another_layout_is_sent_with_its_layout(fake: FakeZoho) -> None:
    adapter = adapted(fake)
    contact = fake.add("contacts", {"Last_Name": "Lovelace"})
    pipelines = {one.label: one for one in adapter.pipelines("deals")}
    assert [*pipelines] == ["Standard", "Enterprise", "Partner sales"]
    sent = {**DEAL, "pipeline": "partner sales", "dealstage": "signed"}
    made = adapter.create_for_contact("deals", contact, sent)
    record = fake.records("deals")[made.id]
    assert (record["Pipeline"], record["Stage"]) == ("Partners (Partners)", "Signed")
    won = adapter.create_for_contact("deals", contact, {**DEAL, "dealstage": "gewonnen"})
    assert fake.records("deals")[won.id]["Stage"] == "Closed Won"


def test_a_case_has_a_status_and_no_pipeline(fake: FakeZoho) -> None:
    adapter = adapted(fake)
    contact = fake.add("contacts", {"Last_Name": "Lovelace"})
    [pipeline] = adapter.pipelines("tickets")
    assert (pipeline.id, [stage.value for stage in pipeline.stages]) == (
        "",
        ["New", "On Hold", "Closed"],
    )
    with pytest.raises(Rejected, match="no pipelines") as caught:
        adapter.create_for_contact("tickets", contact, {"subject": "Help", "hs_pipeline": "0"})
    assert names_of(caught) == ["hs_pipeline"]
    sent = {"subject": "Help", "hs_pipeline_stage": "on hold", "hs_ticket_priority": "HIGH"}
    made = adapter.create_for_contact("tickets", contact, sent)
    record = fake.records("tickets")[made.id]
    assert (record["Status"], record["Priority"]) == ("On Hold", "High")
    assert record["Related_To"] == {"id": contact}


def test_an_owner_by_email_needs_the_right_to_list_users(fake: FakeZoho) -> None:
    fake.tokens.scopes -= {"ZohoCRM.users.READ"}
    with pytest.raises(Rejected, match="send the id") as caught:
        adapted(fake).create_contact({"lastname": "L", "hubspot_owner_id": USERS[0]["email"]})
    assert names_of(caught) == ["hubspot_owner_id"]


def test_a_refused_deal_is_sent_once_where_a_closing_date_is_mandatory(fake: FakeZoho) -> None:
    fake.columns["Deals"]["Closing_Date"].required = True
    contact = fake.add("contacts", {"Last_Name": "Lovelace"})
    adapter = adapted(fake)
    adapter.create_for_contact("deals", contact, DEAL)
    with pytest.raises(Rejected) as caught:
        adapter.create_for_contact("deals", contact, {**DEAL, "Account_Name": "404"})
    assert names_of(caught) == ["Account_Name"]
    assert fake.count("POST", "*/Deals") == 2


def test_an_email_under_zohos_name_is_not_taken_twice(fake: FakeZoho) -> None:
    adapter = adapted(fake)
    made = adapter.create_contact({"lastname": "Lovelace", "email": EMAIL})
    with pytest.raises(Conflict) as caught:
        adapter.create_contact({"lastname": "King", "Email": "Ada@Example.com"})
    assert caught.value.existing_id == made.id
