"""Writes whose answer was lost on a HubSpot-like CRM are found, and made once."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from adapters.fakes.hubspot import FakeHubSpot
from crmhub.adapter import BadConfig, Linked, NotYet, Rejected, Saved, Uncertain, Written
from crmhub.adapter.upserts import upsert_contact
from crmhub.records.search.filters import iso
from tests.adapters.hubspot.hubspot_crm import adapted
from tests.adapters.leads import person
from tests.loops import for_each

KINDS: tuple[Linked, ...] = ("deals", "tickets")
each_kind = for_each("kind", KINDS, fresh="fake")


def title(kind: Linked, text: str = "A title") -> dict[str, str]:
    return {"dealname" if kind == "deals" else "subject": text}


def now_ms() -> int:
    return int(time.time() * 1000)


def marked(fake: FakeHubSpot, how: str, *kinds: str) -> None:
    for kind in kinds if how != "none" else ():
        fake.define(kind, "crmhub_mark", unique=how == "unique")


@each_kind
@for_each("how", ["unique", "plain", "none"], fresh="fake")
@for_each("version", ["2026-09", "v3"], fresh="fake")
def test_a_record_whose_answer_was_cut_off_is_found_and_is_one(
    fake: FakeHubSpot, kind: Linked, how: str, version: str
) -> None:
    marked(fake, how, kind)
    id, began = fake.add_contact(email="ann@x.org"), now_ms()
    fake.fail(kind="cut", method="POST", path=f"*/{kind}", written=True)
    adapter = adapted(fake, api_version=version)
    with pytest.raises(Uncertain):
        adapter.create_for_contact(kind, id, title(kind), mark="crmhub-1")
    found = adapter.find_marked(kind, id, "crmhub-1", sent=title(kind), since_ms=began)
    assert isinstance(found, Saved)
    assert [found.id] == list(fake.records(kind))
    assert fake.linked("contacts", id, kind) == [found.id]


@each_kind
@for_each("how", ["unique", "plain", "none"], fresh="fake")
def test_a_mark_is_written_where_the_account_has_room_for_it(
    fake: FakeHubSpot, kind: Linked, how: str
) -> None:
    marked(fake, how, kind)
    id = fake.add_contact(email="ann@x.org")
    saved = adapted(fake).create_for_contact(kind, id, title(kind), mark="crmhub-1")
    mark = fake.records(kind)[saved.id].get("crmhub_mark")
    assert mark == (None if how == "none" else "crmhub-1")


@each_kind
@for_each("how", ["unique", "plain"], fresh="fake")
def test_what_was_written_before_a_process_knew_of_the_mark_is_found(
    fake: FakeHubSpot, kind: Linked, how: str
) -> None:
    id, unaware = fake.add_contact(email="ann@x.org"), adapted(fake)
    unaware.create_for_contact(kind, id, title(kind, "Another"), mark="m")
    marked(fake, how, kind)
    began = now_ms()
    fake.portal.definitions[kind]["crmhub_mark"]["updatedAt"] = iso(began)
    fake.fail(kind="cut", method="POST", path=f"*/{kind}", written=True)
    with pytest.raises(Uncertain):
        unaware.create_for_contact(kind, id, title(kind), mark="crmhub-1")
    written = [*fake.records(kind)][-1]
    found = adapted(fake).find_marked(kind, id, "crmhub-1", sent=title(kind), since_ms=began)
    assert found is not None
    assert found.id == written


@each_kind
def test_a_unique_mark_makes_a_second_try_the_first_record(fake: FakeHubSpot, kind: Linked) -> None:
    marked(fake, "unique", kind)
    id, adapter = fake.add_contact(email="ann@x.org"), adapted(fake)
    saved = [adapter.create_for_contact(kind, id, title(kind), mark="m") for _ in range(2)]
    assert saved[0].id == saved[1].id
    assert len(fake.records(kind)) == 1


def test_a_contact_with_a_unique_mark_is_made_once(fake: FakeHubSpot) -> None:
    marked(fake, "unique", "contacts")
    adapter = adapted(fake)
    made = [adapter.create_contact({"firstname": "Ann"}, mark="m") for _ in range(2)]
    assert made[0].id == made[1].id
    assert len(fake.contacts) == 1


@for_each("gone", ["never there", "a number", "read-only", "gone since"], fresh="fake")
def test_without_room_for_it_a_write_goes_unmarked(fake: FakeHubSpot, gone: str) -> None:
    if gone != "never there":
        kind = "number" if gone == "a number" else "string"
        fake.define("contacts", "crmhub_mark", kind, read_only=gone == "read-only")
    adapter = adapted(fake)
    if gone == "gone since":
        adapter.create_contact({"firstname": "Bob"}, mark="m1")
        del fake.portal.definitions["contacts"]["crmhub_mark"]
    saved = adapter.create_contact({"firstname": "Ann"}, mark="m2")
    assert "crmhub_mark" not in fake.contacts[saved.id]


def test_a_mark_that_is_refused_is_for_the_operator_and_no_fault_of_the_lead(
    fake: FakeHubSpot,
) -> None:
    marked(fake, "unique", "contacts")
    refusal = {
        "category": "VALIDATION_ERROR",
        "message": "Property values were not valid",
        "errors": [{"message": "too long", "context": {"propertyName": ["crmhub_mark"]}}],
    }
    fake.fail(400, method="POST", path="*/contacts", body=refusal, times=None)
    with pytest.raises(BadConfig, match="in crmhub_mark of contacts: too long"):
        upsert_contact(adapted(fake), person(email="ann@x.org", mark="m"))
    assert not fake.contacts


def test_a_refused_mark_that_the_caller_sent_is_named(fake: FakeHubSpot) -> None:
    marked(fake, "plain", "contacts")
    context = {"propertyName": ["crmhub_mark"]}
    refusal = {"message": "bad", "errors": [{"message": "too long", "context": context}]}
    fake.fail(400, method="POST", path="*/contacts", body=refusal, times=None)
    with pytest.raises(Rejected) as caught:
        adapted(fake).create_contact({"firstname": "Ann", "crmhub_mark": "own"}, mark="m")
    assert [one.name for one in caught.value.problems] == ["crmhub_mark"]
    assert not fake.contacts


@each_kind
def test_a_mark_that_a_caller_sends_does_not_replace_the_hubs(
    fake: FakeHubSpot, kind: Linked
) -> None:
    marked(fake, "unique", kind)
    id, adapter = fake.add_contact(email="ann@x.org"), adapted(fake)
    sent = {**title(kind), "crmhub_mark": "of the caller"}
    made = [adapter.create_for_contact(kind, id, sent, mark=f"crmhub-{i}").id for i in range(2)]
    assert [fake.records(kind)[id]["crmhub_mark"] for id in made] == ["crmhub-0", "crmhub-1"]


@each_kind
def test_one_among_six_hundred_is_found(fake: FakeHubSpot, kind: Linked) -> None:
    marked(fake, "plain", kind)
    id = fake.add_contact(email="ann@x.org")
    places = (
        {"pipeline": "default", "dealstage": "closedwon"}
        if kind == "deals"
        else {"hs_pipeline": "0", "hs_pipeline_stage": "1"}
    )
    for i in range(600):
        mark = {"crmhub_mark": "wanted"} if i == 580 else {}
        fake.add(kind, title(kind) | places | mark, contacts=[id])
    found = adapted(fake).find_marked(kind, id, "wanted", sent=title(kind), since_ms=now_ms())
    assert isinstance(found, Saved)
    assert fake.records(kind)[found.id]["crmhub_mark"] == "wanted"
    assert fake.count("GET", f"*/associations/{kind}") == 2


def test_values_that_hubspot_writes_its_own_way_are_the_same(fake: FakeHubSpot) -> None:
    id, began, adapter = fake.add_contact(email="ann@x.org"), now_ms(), adapted(fake)
    sent = {"dealname": " A deal ", "amount": "1,200.50", "closedate": "2026-12-24"}
    made = adapter.create_for_contact("deals", id, sent, mark="m")
    fake.set("deals", made.id, amount="1200.500", closedate="2026-12-24T00:00:00Z")
    fake.set("deals", made.id, dealstage="closedwon")
    found = adapter.find_marked("deals", id, "m", sent=sent, since_ms=began)
    assert found is not None
    assert found.id == made.id


def test_a_contact_of_a_phone_is_found_by_it(fake: FakeHubSpot) -> None:
    sent, began = {"phone": "+4915112345678", "firstname": "Ann"}, now_ms()
    adapter = adapted(fake)
    made = adapter.create_contact(sent, mark="m")
    found = adapter.find_marked("contacts", "", "m", sent=sent, since_ms=began)
    assert found is not None
    assert found.id == made.id


ANN = {"firstname": "Ann", "phone": "+4915112345678"}
LANDS: tuple[tuple[Written, dict[str, str], float], ...] = (
    ("contacts", {**ANN, "email": "ann@x.org"}, 0),
    # Until the search shows it, too.
    ("contacts", ANN, 90),
    ("deals", title("deals"), 30),
    ("tickets", title("tickets"), 30),
)


@for_each(
    ("how", "age_ms"),
    [("unique", 7_300_000), ("unique", 0), ("plain", 7_300_000), ("none", 0)],
    fresh="fake",
)
@for_each(("kind", "sent", "seconds"), LANDS, fresh="fake")
def test_what_hubspot_keeps_unique_lands_once_and_anything_else_is_waited_for(
    fake: FakeHubSpot, how: str, age_ms: int, kind: Written, sent: dict[str, str], seconds: float
) -> None:
    marked(fake, how, kind)
    if how != "none":
        changed = iso(now_ms() - age_ms)
        fake.portal.definitions[kind]["crmhub_mark"]["updatedAt"] = changed
    # A process that did not know yet of a new property may have written without it.
    once = how == "unique" and age_ms > 0
    adapter, contact_id = adapted(fake), "" if kind == "contacts" else "1"
    assert adapter.may_land_for(kind, sent, contact_id=contact_id) == (0 if once else seconds)
    if contact_id:
        # Without a contact, the record is found by a search alone.
        assert adapter.may_land_for(kind, sent) == (0 if once else seconds + 60)


@for_each("late", [False, True], fresh="fake")
def test_values_that_may_still_be_written_are_not_sent_again(fake: FakeHubSpot, late: bool) -> None:
    id, adapter = fake.add_contact(email="ann@x.org", lastname="Lee"), adapted(fake)
    lead = person(email="ann@x.org", lastname="Ray")
    doubt = now_ms() - 31_000 if late else now_ms()
    again = replace(lead, tried_ms=doubt, written_ms=doubt)
    if late:
        assert upsert_contact(adapter, again).outcome == "updated"
    else:
        with pytest.raises(NotYet) as caught:
            upsert_contact(adapter, again)
        assert 0 < caught.value.retry_after <= 30
    assert fake.contacts[id]["lastname"] == ("Ray" if late else "Lee")


def test_a_contact_without_email_and_phone_is_found_by_a_plain_mark(fake: FakeHubSpot) -> None:
    marked(fake, "plain", "contacts")
    adapter, sent = adapted(fake), {"firstname": "Ann"}
    made = [adapter.create_contact(sent, mark=f"crmhub-{i}") for i in range(2)]
    since = now_ms() - 61_000
    found = adapter.find_marked("contacts", "", "crmhub-1", sent=sent, since_ms=since)
    assert found is not None
    assert found.id == made[1].id
    assert adapter.find_marked("contacts", "", "other", sent=sent, since_ms=since) is None


@for_each("kind", ["close", "cut", "reset"], fresh="fake")
def test_a_lead_that_is_tried_again_makes_nobody_twice(fake: FakeHubSpot, kind: str) -> None:
    fake.fail(kind=kind, method="POST", path="*/contacts", written=True)
    adapter, lead = adapted(fake), person(email="ann@x.org")
    with pytest.raises(Uncertain):
        upsert_contact(adapter, lead)
    assert upsert_contact(adapter, lead).outcome == "unchanged"
    assert len(fake.contacts) == 1
