"""Leads in bulk on a HubSpot-like CRM: few calls, each lead its own outcome, nobody twice."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from adapters.fakes.hubspot import FakeHubSpot
from crmhub.adapter import AdapterError, Conflict, Rejected, Saved, Throttled, Uncertain
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.matching import Duplicate
from crmhub.adapter.upserts import SavedLead
from tests.adapters.hubspot.hubspot_crm import VERSIONS, adapted, calls
from tests.adapters.hubspot.hubspot_wire import TOKEN, record, wire
from tests.adapters.leads import person
from tests.loops import for_each

PHONE = "+4915112345678"


def told(outcomes: list[Saved | AdapterError]) -> list[str]:
    return [one.outcome if isinstance(one, Saved) else type(one).__name__ for one in outcomes]


@for_each("version", VERSIONS, fresh="fake")
def test_a_hundred_leads_cost_three_calls(fake: FakeHubSpot, version: str) -> None:
    for i in range(50):
        fake.add_contact(email=f"ann{i}@x.org")
    adapter = adapted(fake, api_version=version)
    adapter.find_contact(email="ann0@x.org")
    upsert_contacts(adapter, [person(email="warm@x.org", mark="m")])
    calls(fake)
    leads = [person(email=f"ann{i}@x.org", city="Rome", mark=f"m{i}") for i in range(100)]
    outcomes = upsert_contacts(adapter, leads)
    assert [one.rpartition("/")[2] for one in calls(fake)] == ["read", "update", "create"]
    assert told(outcomes) == ["updated"] * 50 + ["created"] * 50
    emails = [fake.contacts[one.id]["email"] for one in outcomes if isinstance(one, Saved)]
    assert emails == [lead.email for lead in leads]


def test_a_lead_that_is_refused_stops_no_other(fake: FakeHubSpot) -> None:
    fake.define("contacts", "score", "number")
    leads = [person(email=f"ann{i}@x.org", score="1" if i != 3 else "many") for i in range(6)]
    leads += [person(email="not an email"), person(email="last@x.org", no_such="x")]
    outcomes = upsert_contacts(adapted(fake), leads)
    kinds = ["created"] * 3 + ["Rejected"] + ["created"] * 2 + ["Rejected"] * 2
    assert told(outcomes) == kinds
    named = [[one.name for one in e.problems] for e in outcomes if isinstance(e, Rejected)]
    assert named == [["score"], ["email"], ["no_such"]]


def test_what_hubspot_refuses_of_some_is_told_for_each(fake: FakeHubSpot) -> None:
    fake.require("contacts", "company")
    leads = [person(email=f"ann{i}@x.org", **({"company": "X"} if i % 2 else {})) for i in range(4)]
    outcomes = upsert_contacts(adapted(fake), leads)
    assert told(outcomes) == ["Rejected", "created"] * 2
    error = outcomes[0]
    assert isinstance(error, Rejected)
    assert [one.name for one in error.problems] == ["company"]


def test_leads_of_one_person_take_effect_in_their_order(fake: FakeHubSpot) -> None:
    leads = [person(email="ann@x.org", city=f"City {i}", zip=str(i)) for i in range(3)]
    leads.insert(1, person(email="bob@x.org"))
    outcomes = upsert_contacts(adapted(fake), leads)
    assert told(outcomes) == ["created", "created", "updated", "updated"]
    assert len(fake.contacts) == 2
    assert next(iter(fake.contacts.values()))["city"] == "City 2"


def test_leads_without_an_email_go_one_by_one(fake: FakeHubSpot) -> None:
    known = fake.add_contact(firstname="Ann", phone="01511 2345678")
    leads = [person(email="bob@x.org"), person(phone=PHONE, city="Rome"), person(firstname="Eve")]
    outcomes = upsert_contacts(adapted(fake), leads)
    assert told(outcomes) == ["created", "updated", "created"]
    assert fake.contacts[known]["city"] == "Rome"


def test_a_lead_of_a_conversation_goes_to_its_contact(fake: FakeHubSpot) -> None:
    id = fake.add_contact(firstname="Ann")
    leads = [person(email="ann@x.org", contact_id=id), person(email="bob@x.org")]
    outcomes = upsert_contacts(adapted(fake), leads)
    assert told(outcomes) == ["updated", "created"]
    assert fake.contacts[id]["email"] == "ann@x.org"


def test_a_phone_the_hub_knows_to_be_anothers_is_not_given_away(fake: FakeHubSpot) -> None:
    other = fake.add_contact(email="bob@x.org", phone=PHONE)
    fake.add_contact(email="ann@x.org", phone="+4915198765432")
    fake.search_lag = 60.0
    for one in fake.portal.records["contacts"].values():
        one.indexed = []
    lead = replace(person(email="ann@x.org", phone=PHONE), phone_id=other)
    saved = upsert_contacts(adapted(fake), [lead, person(email="c@x.org")])[0]
    assert isinstance(saved, Saved)
    assert [one.name for one in saved.refused] == ["phone"]


def test_results_in_another_order_find_their_leads() -> None:
    with wire() as it:
        it.give(207, {"results": []})
        made = [record(str(9 - i), email=f"ann{i}@x.org") for i in range(3)]
        it.give(201, {"results": made[::-1]})
        outcomes = upsert_contacts(it.adapter, [person(email=f"ann{i}@x.org") for i in range(3)])
        assert [one.id for one in outcomes if isinstance(one, Saved)] == ["9", "8", "7"]


def test_results_of_updates_find_their_leads_by_the_contact() -> None:
    with wire() as it:
        known = [record(str(9 - i), email=f"ann{i}@x.org", city="Rome") for i in range(2)]
        it.give(200, {"results": known})
        it.give(200, {"results": [record("8"), record("9")]})
        leads = [person(email=f"ann{i}@x.org", city="Oslo") for i in range(2)]
        outcomes = upsert_contacts(it.adapter, leads)
        assert told(outcomes) == ["updated", "updated"]
        assert [one.id for one in outcomes if isinstance(one, Saved)] == ["9", "8"]


def test_a_result_that_is_left_out_is_in_doubt() -> None:
    with wire() as it:
        it.give(207, {"results": []})
        it.give(201, {"results": [record("9", email="ann0@x.org")]})
        outcomes = upsert_contacts(it.adapter, [person(email=f"ann{i}@x.org") for i in range(2)])
        assert told(outcomes) == ["created", "Uncertain"]


@for_each("status", [400, 409])
def test_a_batch_that_is_refused_as_a_whole_goes_one_by_one(status: int) -> None:
    with wire() as it:
        it.give(207, {"results": []})
        it.give(status, {"message": "Contact already exists. Existing ID: 5"})
        for i in range(2):
            it.give(404, {"message": "none"}).give(201, record(str(i)))
        outcomes = upsert_contacts(it.adapter, [person(email=f"ann{i}@x.org") for i in range(2)])
        assert told(outcomes) == ["created", "created"]


def errors_for(*traces: Any, category: str) -> dict[str, Any]:
    context = {"objectWriteTraceId": list(traces)}
    error = {"category": category, "message": "x", "context": context}
    return {"results": [], "numErrors": 1, "errors": [error]}


def test_an_error_of_an_unknown_kind_leaves_its_lead_in_doubt() -> None:
    with wire() as it:
        it.give(207, {"results": []}).give(207, errors_for("0", category="INTERNAL"))
        it.give(404, {"message": "none"}).give(201, record("5"))
        outcomes = upsert_contacts(it.adapter, [person(email=f"ann{i}@x.org") for i in range(2)])
        # What no result and no error speaks of was not written, and is tried by itself.
        assert told(outcomes) == ["Uncertain", "created"]


@for_each("traces", [[None], [7], ["x"], [{}], []])
def test_trace_ids_of_another_kind_are_nobodys(traces: list[Any]) -> None:
    with wire() as it:
        it.give(207, {"results": []}).give(207, errors_for(*traces, category="CONFLICT"))
        it.give(404, {"message": "none"}).give(201, record("5"))
        assert told(upsert_contacts(it.adapter, [person(email="ann@x.org")])) == ["created"]


@for_each("kind", ["close", "reset", "cut"], fresh="fake")
def test_a_batch_whose_answer_was_lost_is_in_doubt_and_makes_nobody_twice(
    fake: FakeHubSpot, kind: str
) -> None:
    known = fake.add_contact(email="known@x.org")
    fake.fail(kind=kind, path="*/batch/create", written=True)
    leads = [person(email=f"ann{i}@x.org") for i in range(20)]
    leads.append(person(email="known@x.org", city="Rome"))
    adapter = adapted(fake)
    outcomes = upsert_contacts(adapter, leads)
    assert told(outcomes) == ["Uncertain"] * 20 + ["updated"]
    assert all(isinstance(one, Uncertain) for one in outcomes[:20])
    began = int(time.time() * 1000)
    again = upsert_contacts(adapter, [replace(one, tried_ms=began) for one in leads[:20]])
    assert told(again) == ["unchanged"] * 20
    assert len(fake.contacts) == 21
    assert fake.contacts[known]["city"] == "Rome"


def test_one_call_too_many_puts_off_only_what_it_was_for(fake: FakeHubSpot) -> None:
    fake.add_contact(email="known@x.org")
    fake.fail(429, path="*/batch/create", times=None, retry_after="seconds", retry_seconds=600)
    leads = [person(email="known@x.org", city="Rome"), person(email="new@x.org")]
    updated, late = upsert_contacts(adapted(fake), leads)
    assert isinstance(updated, Saved)
    assert isinstance(late, Throttled)
    assert late.retry_after == 600


def test_no_leads_need_no_calls(fake: FakeHubSpot) -> None:
    assert upsert_contacts(adapted(fake), []) == []
    assert fake.requests == []


def test_a_lead_whose_contact_was_made_meanwhile_goes_to_it(fake: FakeHubSpot) -> None:
    fake.fail(
        207,
        path="*/batch/read",
        body={"results": [], "errors": [{"category": "OBJECT_NOT_FOUND"}]},
    )
    id = fake.add_contact(email="ann@x.org")
    leads = [person(email="ann@x.org", city="Rome"), person(email="new@x.org")]
    outcomes = upsert_contacts(adapted(fake), leads)
    assert told(outcomes) == ["updated", "created"]
    assert not any(isinstance(one, Conflict) for one in outcomes)
    assert fake.contacts[id]["city"] == "Rome"


@for_each("gone", ["the mark", "an option"], fresh="fake")
def test_what_was_defined_anew_meanwhile_is_fitted_again(
    fake: FakeHubSpot, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    monkeypatch.setattr("crmhub.adapter.definitions.Definitions.stale_s", 0.0)
    fake.define("contacts", "crmhub_mark")
    adapter = adapted(fake)
    upsert_contacts(adapter, [person(email="a@x.org", mark="m", hs_lead_status="New")])
    definitions = fake.portal.definitions["contacts"]
    if gone == "the mark":
        del definitions["crmhub_mark"]
    else:
        definitions["hs_lead_status"]["options"][0]["value"] = "BRAND_NEW"
    leads = [person(email=f"b{i}@x.org", mark="m", hs_lead_status="New") for i in range(2)]
    assert told(upsert_contacts(adapter, leads)) == ["created", "created"]
    assert len(fake.contacts) == 3


def test_what_is_told_of_one_lead_holds_no_secret_and_the_id_of_the_call() -> None:
    body = errors_for("0", category="VALIDATION_ERROR")
    context = {"propertyName": ["email"]}
    body["errors"][0]["errors"] = [{"message": f"sent with {TOKEN}", "context": context}]
    with wire() as it:
        it.give(207, {"results": []}).give(207, body, x_hubspot_correlation_id="c-1")
        (error,) = upsert_contacts(it.adapter, [person(email="ann@x.org")])
    assert isinstance(error, Rejected)
    assert error.problems[0].reason == "sent with ***"
    assert error.correlation_id == "c-1"


def test_leads_that_share_a_phone_do_not_go_together(fake: FakeHubSpot) -> None:
    leads = [person(email=f"ann{i}@x.org", phone=PHONE, city=f"City {i}") for i in range(2)]
    first, second = upsert_contacts(adapted(fake), leads)
    assert told([first, second]) == ["created", "created"]
    assert isinstance(first, Saved)
    assert isinstance(second, SavedLead)
    assert second.duplicate == Duplicate(first.id, ("phone",))


def test_two_leads_of_one_contact_are_not_sent_in_one_batch(fake: FakeHubSpot) -> None:
    id = fake.add_contact(firstname="Ann", phone="01511 2345678", mobilephone="01511 8765432")
    leads = [
        person(email="ann@x.org", phone=PHONE),
        person(email="b@x.org", phone="+4915118765432"),
    ]
    first, second = upsert_contacts(adapted(fake), leads)
    assert isinstance(first, Saved)
    assert isinstance(second, SavedLead)
    assert (first.id, second.outcome) == (id, "created")
    assert fake.contacts[id]["email"] == "ann@x.org"
    assert second.duplicate == Duplicate(id, ("phone",))
