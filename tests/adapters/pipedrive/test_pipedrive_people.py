"""People in Pipedrive: several emails and phones, names, marks, and who is who."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

from adapters.pipedrive import PipedriveAdapter
from crmhub.adapter import Adapter, Conflict, Rejected, Saved, Unavailable, Uncertain
from crmhub.adapter.testing.base import either
from crmhub.adapter.testing.several_leads import at_once
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.leads import person
from tests.adapters.pipedrive.pipedrive_crm import (
    BUDGET,
    HIGH,
    HOME,
    INTEREST,
    JOB,
    SCORE,
    TOPICS,
    PipedriveCrm,
    connected,
)
from tests.loops import for_each

WORK = {"value": "+49301234567", "primary": True, "label": "work"}
MOBILE = {"value": "+49 1512 3456789", "primary": False, "label": "mobile"}
HOME_EMAIL = {"value": "Ann@Home.org", "primary": False, "label": "home"}
EMAIL = {"value": "ann@x.org", "primary": True, "label": "work"}


@pytest.fixture
def ann(crm: PipedriveCrm) -> str:
    """A person with two emails and two phones."""
    lists = {"emails": [EMAIL, HOME_EMAIL], "phones": [WORK, MOBILE]}
    return crm.fake.add("contacts", {"name": "Ann Lee", **lists})


class ReadsNothingFirst(PipedriveAdapter):
    reads_first = False


def test_a_list_is_read_before_it_is_written_whatever_the_adapter_says(
    crm: PipedriveCrm, ann: str
) -> None:
    adapter = connected(crm.fake, adapter_class=ReadsNothingFirst).adapter()
    adapter.update_contact(ann, {"email": "new@x.org"})
    assert held(crm, ann, "emails") == [{**EMAIL, "value": "new@x.org"}, HOME_EMAIL]
    crm.fake.take_requests()
    adapter.update_contact(ann, {"name": "Ann King"})
    assert [one.method for one in crm.fake.requests] == ["PATCH"]


def test_a_whole_list_is_read_only_and_its_entries_are_named(adapter: Adapter, ann: str) -> None:
    assert adapter.get_contact(ann, ["emails"]).properties == {"emails": "ann@x.org;Ann@Home.org"}
    with pytest.raises(Rejected) as caught:
        adapter.update_contact(ann, {"emails": "new@x.org", "phones": "1"})
    assert {one.name: one.reason for one in caught.value.problems} == {
        "emails": "it is read-only; send email",
        "phones": "it is read-only; send phone or mobilephone",
    }


class ExpectsOtherIds(PipedriveAdapter):
    id_form = re.compile("p_[0-9]+")


def test_an_id_that_the_adapter_would_refuse_is_an_error_when_the_crm_issues_it(
    crm: PipedriveCrm, ann: str
) -> None:
    adapter = connected(crm.fake, adapter_class=ExpectsOtherIds).adapter()
    words = r"Pipedrive issued the id \d+, which ExpectsOtherIds.id_form or largest_id refuses"
    with pytest.raises(Unavailable, match=words):
        adapter.find_contact(email="ann@x.org")
    with pytest.raises(Uncertain, match=words):
        adapter.create_contact({"email": "new@x.org"})


def held(crm: PipedriveCrm, id: str, listed: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = crm.fake.records("contacts")[id][listed]
    return entries


# Emails and phones.


def test_the_hub_sees_the_primary_entries_and_the_mobile_number(adapter: Adapter, ann: str) -> None:
    got = adapter.get_contact(ann, ["email", "phone", "mobilephone"]).properties
    assert got == {
        "email": "ann@x.org",
        "phone": "+49301234567",
        "mobilephone": "+49 1512 3456789",
    }


def test_a_new_phone_is_primary_and_no_other_is_lost(
    crm: PipedriveCrm, adapter: Adapter, ann: str
) -> None:
    adapter.update_contact(ann, {"phone": "+49309999999"})
    new = {"value": "+49309999999", "primary": True, "label": "work"}
    assert held(crm, ann, "phones") == [{**WORK, "primary": False}, MOBILE, new]
    assert held(crm, ann, "emails") == [EMAIL, HOME_EMAIL]


def test_a_new_email_corrects_the_primary_one_only(
    crm: PipedriveCrm, adapter: Adapter, ann: str
) -> None:
    adapter.update_contact(ann, {"email": "ann@y.org"})
    assert held(crm, ann, "emails") == [{**EMAIL, "value": "ann@y.org"}, HOME_EMAIL]


def test_a_further_number_in_another_notation_is_nothing_new(
    crm: PipedriveCrm, adapter: Adapter, ann: str
) -> None:
    said = {"email": "ann@x.org", "phone": "+4915123456789"}
    assert upsert_contact(adapter, person(**said)).outcome == "unchanged"
    assert held(crm, ann, "phones") == [WORK, MOBILE]


@for_each("by", [{"email": "ann@home.org"}, {"phone": "+4915123456789"}])
def test_a_person_is_found_by_a_further_entry(
    adapter: Adapter, ann: str, by: dict[str, str]
) -> None:
    found = adapter.find_contact(**by)  # type: ignore[arg-type]
    assert found is not None
    assert found.id == ann


def test_a_further_email_leads_to_its_person_and_replaces_nothing(
    crm: PipedriveCrm, adapter: Adapter, ann: str
) -> None:
    for email_id in ("", ann):
        saved = upsert_contact(adapter, person(email="ann@home.org", email_id=email_id))
        assert (saved.id, saved.outcome) == (ann, "unchanged")
    assert held(crm, ann, "emails") == [EMAIL, HOME_EMAIL]


def test_two_updates_at_once_lose_no_number(crm: PipedriveCrm, ann: str) -> None:
    connection = connected(crm.fake)
    adapters = [connection.adapter() for _ in range(2)]
    numbers = [f"+4930555000{i}" for i in range(6)]
    at_once(
        [
            lambda i=i, n=n: adapters[i % 2].update_contact(ann, {"phone": n})  # type: ignore[misc]
            for i, n in enumerate(numbers)
        ]
    )
    stored = {entry["value"] for entry in held(crm, ann, "phones")}
    assert stored == {WORK["value"], MOBILE["value"], *numbers}


# Names.


def test_a_person_without_a_name_has_the_email_in_its_place(
    crm: PipedriveCrm, adapter: Adapter
) -> None:
    saved = upsert_contact(adapter, person(email="bo@x.org"))
    assert crm.fake.records("contacts")[saved.id]["name"] == "bo@x.org"
    names = ("firstname", "lastname", "name")
    assert set(adapter.get_contact(saved.id, names).properties.values()) == {""}
    adapter.update_contact(saved.id, {"email": "bo@y.org"})
    assert crm.fake.records("contacts")[saved.id]["name"] == "bo@y.org"
    upsert_contact(adapter, person(email="bo@y.org", firstname="Bo", lastname="Li"))
    assert crm.fake.records("contacts")[saved.id]["name"] == "Bo Li"


def test_a_person_with_nothing_is_refused_by_name(crm: PipedriveCrm, adapter: Adapter) -> None:
    refused = either(Rejected, lambda: adapter.create_contact({SCORE: "1"}))
    assert isinstance(refused, Rejected)
    assert [problem.name for problem in refused.problems] == ["name"]
    assert not crm.fake.records("contacts")


# Values.


def test_values_go_out_in_pipedrives_types(crm: PipedriveCrm, adapter: Adapter) -> None:
    topics = crm.fake.catalogue["persons"][TOPICS]["options"]
    saved = adapter.create_contact(
        {
            "email": "ann@x.org",
            INTEREST: "high",
            TOPICS: "Offers;News",
            SCORE: "1 000.5",
            BUDGET: "12.50",
            HOME: "Main Street 1",
            JOB: "007",
            "hubspot_owner_id": "7301",
        }
    )
    stored = crm.fake.records("contacts")[saved.id]
    assert stored["owner_id"] == 7301
    assert stored["custom_fields"] == {
        INTEREST: int(HIGH),
        TOPICS: [topics[1]["id"], topics[0]["id"]],
        SCORE: 1000.5,
        BUDGET: {"value": 12.5, "currency": "EUR"},
        HOME: {"value": "Main Street 1"},
        JOB: "007",
    }


def test_a_deal_has_pipedrives_names(crm: PipedriveCrm, adapter: Adapter) -> None:
    sent = {"dealname": "T", "amount": "0", "closedate": "2026-12-24"}
    saved = adapter.create_for_contact("deals", crm.add_contact({"email": "ann@x.org"}), sent)
    deal = crm.fake.records("deals")[saved.id]
    assert (deal["title"], deal["value"]) == ("T", 0)
    assert deal["expected_close_date"] == "2026-12-24"


def test_an_amount_keeps_its_currency(crm: PipedriveCrm, adapter: Adapter) -> None:
    dollars = {"value": 1, "currency": "USD"}
    id = crm.fake.add("contacts", {"name": "Ann", "custom_fields": {BUDGET: dollars}})
    adapter.update_contact(id, {BUDGET: "2"})
    assert crm.fake.records("contacts")[id]["custom_fields"][BUDGET] == {**dollars, "value": 2}


def test_a_line_that_is_too_long_is_refused_by_name(adapter: Adapter) -> None:
    sent = {"email": "ann@x.org", JOB: "x" * 256}
    refused = either(Rejected, lambda: adapter.create_contact(sent))
    assert isinstance(refused, Rejected)
    assert [problem.name for problem in refused.problems] == [JOB]


def test_a_field_that_was_removed_is_refused_by_name_once_it_is_known(
    crm: PipedriveCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = connected(crm.fake).adapter()
    adapter.describe("contacts")
    del crm.fake.catalogue["persons"][JOB]
    sent = {"email": "ann@x.org", JOB: "Cook"}
    later = time.monotonic() + 120
    monkeypatch.setattr(time, "monotonic", lambda: later)
    refused = either(Rejected, lambda: adapter.create_contact(sent))
    assert isinstance(refused, Rejected)
    assert [problem.name for problem in refused.problems] == [JOB]
    assert not crm.fake.records("contacts")


def test_a_field_that_is_new_is_taken(crm: PipedriveCrm, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = connected(crm.fake).adapter()
    adapter.describe("contacts")
    key = crm.fake.define("contacts", "Shoe size", "double")
    later = time.monotonic() + 120
    monkeypatch.setattr(time, "monotonic", lambda: later)
    saved = adapter.create_contact({"email": "ann@x.org", key: "42"})
    assert crm.fake.records("contacts")[saved.id]["custom_fields"] == {key: 42}


# Who is who.


def test_a_search_that_finds_parts_leads_to_nobody_else(
    crm: PipedriveCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older endpoint of Pipedrive found parts although an exact match was asked for."""
    crm.add_contact({"email": "myself@x.org", "lastname": "Decoy", "phone": "+49151234567890"})
    hits = crm.fake.hits
    monkeypatch.setattr(
        crm.fake, "hits", lambda held, names, term, exact: hits(held, names, term, False)
    )
    adapter = connected(crm.fake).adapter()
    assert adapter.find_contact(email="self@x.org") is None
    assert adapter.find_contact(phone="+4915123456789") is None


def test_one_email_from_two_processes_makes_one_person_though_the_search_lags(
    crm: PipedriveCrm,
) -> None:
    crm.search_lag = 3600.0
    connection = connected(crm.fake)
    barrier = threading.Barrier(2)

    def create() -> Saved | Conflict:
        adapter = connection.adapter()
        assert adapter.find_contact(email="ann@x.org") is None
        barrier.wait(30)
        return either(Conflict, lambda: adapter.create_contact({"email": "ann@x.org"}))

    outcomes = at_once([create, create])
    [id] = crm.fake.records("contacts")
    assert {getattr(one, "existing_id", getattr(one, "id", "")) for one in outcomes} == {id}


# Marks.


@for_each("keeps_channel", [True, False])
@for_each("field", ["", "crmhub mark"])
def test_a_deal_whose_answer_was_lost_is_found_and_no_other(
    keeps_channel: bool, field: str
) -> None:
    with PipedriveCrm(keeps_channel=keeps_channel, marks=bool(field)) as crm:
        adapter = connected(crm.fake, mark_field=field).adapter()
        id, other = crm.add_contact({"email": "ann@x.org"}), crm.add_contact({"email": "bo@x.org"})
        since_ms, sent = int(time.time() * 1000), {"dealname": "T", "amount": "5"}

        def found(mark: str, *others: str, contact_id: str = id) -> str:
            saved = adapter.find_apart(
                "deals", contact_id, mark, sent=sent, since_ms=since_ms, others=others
            )
            return saved.id if saved else ""

        first = adapter.create_for_contact("deals", id, sent, mark="m1").id
        assert found("m1") == first
        assert found("m2", first) == ""
        second = adapter.create_for_contact("deals", id, sent, mark="m2").id
        assert [found("m1", second), found("m2", first)] == [first, second]
        adapter.create_for_contact("deals", id, {"dealname": "U", "amount": "5"}, mark="m3")
        assert found("m4", first, second) == ""
        assert found("m1", contact_id=other) == ""


def test_a_source_channel_that_a_bot_sends_is_kept(crm: PipedriveCrm, adapter: Adapter) -> None:
    id, since_ms = crm.add_contact({"email": "ann@x.org"}), int(time.time() * 1000)
    sent = {"dealname": "T", "channel_id": "Billboard"}
    made = adapter.create_for_contact("deals", id, sent, mark="m")
    assert crm.fake.records("deals")[made.id]["channel_id"] == "Billboard"
    assert adapter.find_marked("deals", id, "m", sent=sent, since_ms=since_ms) == made


def test_a_person_without_email_is_found_by_the_mark() -> None:
    with PipedriveCrm(marks=True) as crm:
        adapter = connected(crm.fake, mark_field="Crmhub Mark").adapter()
        since_ms, sent = int(time.time() * 1000), {"name": "Ann"}
        ids = [adapter.create_contact(sent, mark=mark).id for mark in ("m1", "m2")]
        marked = [
            adapter.find_marked("contacts", "", mark, sent=sent, since_ms=since_ms)
            for mark in ("m1", "m2", "m3")
        ]
        assert [one.id if one else "" for one in marked] == [*ids, ""]


def test_an_owner_is_named_by_email_or_id(crm: PipedriveCrm, adapter: Adapter) -> None:
    for owner in ("me@acme.example", "7301"):
        saved = adapter.create_contact({"lastname": "Lee", "hubspot_owner_id": owner})
        assert crm.fake.records("contacts")[saved.id]["owner_id"] == 7301
    refused = either(Rejected, lambda: adapter.create_contact({"hubspot_owner_id": "1"}))
    assert isinstance(refused, Rejected)
    assert [problem.name for problem in refused.problems] == ["hubspot_owner_id"]
