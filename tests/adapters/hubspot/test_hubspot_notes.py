"""Notes and tasks: to which records they belong, and when an equal one is meant."""

from __future__ import annotations

import pytest

from adapters.hubspot import HubSpotAdapter
from crmhub.adapter import LacksRight, Linked, NotFound, Rejected
from tests.adapters.hubspot.hubspot_crm import VERSIONS, HubSpotCrm, adapted
from tests.loops import for_each

AT_MS = 1_930_000_000_123
TITLES: dict[Linked, dict[str, str]] = {
    "deals": {"dealname": "A"},
    "tickets": {"subject": "A", "hs_pipeline_stage": "1"},
}


@for_each("kind", ["deals", "tickets"])
def test_a_note_belongs_to_its_record_alone(
    kind: Linked, crm: HubSpotCrm, adapter: HubSpotAdapter
) -> None:
    contact_id = crm.add_contact({"email": f"{kind}@example.com"})
    record_id = crm.fake.add(kind, TITLES[kind], contacts=[contact_id])
    note = adapter.add_note(kind, record_id, "Ann & Bob\n<3", at_ms=AT_MS, mark="a")
    assert crm.notes(kind, record_id) == {note.id: "Ann & Bob\n<3"}
    assert crm.notes("contacts", contact_id) == {}
    stored = crm.fake.records("notes")[note.id]
    assert stored["hs_timestamp"] == "2031-02-27T23:06:40.123Z"
    with pytest.raises(NotFound):
        adapter.add_note(kind, f"{record_id}9", "x", at_ms=AT_MS)


def test_an_equal_text_of_another_time_is_another_note(
    crm: HubSpotCrm, adapter: HubSpotAdapter
) -> None:
    contact_id = crm.add_contact({"email": "ann@example.com"})
    times = (AT_MS, AT_MS + 1, AT_MS)
    ids = [
        adapter.add_note("contacts", contact_id, "Called.", at_ms=at_ms, mark="a").id
        for at_ms in times
    ]
    assert ids[0] == ids[2] != ids[1]
    assert len(crm.notes("contacts", contact_id)) == 2


def test_the_longest_note_fits_whatever_its_characters(
    crm: HubSpotCrm, adapter: HubSpotAdapter
) -> None:
    contact_id, text = crm.add_contact({"email": "ann@example.com"}), "&" * adapter.longest_note
    note = adapter.add_note("contacts", contact_id, text, at_ms=AT_MS, mark="a")
    assert crm.notes("contacts", contact_id) == {note.id: text}
    with pytest.raises(Rejected):
        adapter.add_note("contacts", contact_id, "&" * 20_000, at_ms=AT_MS)


@for_each("version", VERSIONS)
def test_a_task_that_is_done_is_not_the_one_that_is_created_again(
    version: str, crm: HubSpotCrm
) -> None:
    adapter = adapted(crm.fake, api_version=version)
    contact_id = crm.add_contact({"email": f"{version}@example.com"})
    sent = {"subject": "Call", "due": "2031-01-31T09:30:00.000Z", "owner": "41629779"}
    first = adapter.create_task(contact_id, sent, mark="a")
    assert adapter.create_task(contact_id, sent, mark="a").id == first.id
    other = adapter.create_task(contact_id, {**sent, "owner": "60158084"}, mark="b")
    crm.fake.set("tasks", first.id, hs_task_status="COMPLETED")
    third = adapter.create_task(contact_id, sent, mark="c")
    assert len({first.id, other.id, third.id}) == len(crm.tasks(contact_id)) == 3


def test_a_task_without_a_date_is_due_now_and_refused_values_have_the_senders_names(
    crm: HubSpotCrm, adapter: HubSpotAdapter
) -> None:
    contact_id = crm.add_contact({"email": "ann@example.com"})
    task = adapter.create_task(contact_id, {"subject": "Call", "notes": ""})
    assert crm.tasks(contact_id)[task.id]["due"]
    for name, value in (("due", "soon"), ("owner", "7"), ("priority", "URGENT"), ("colour", "x")):
        with pytest.raises(Rejected) as caught:
            adapter.create_task(contact_id, {"subject": "Call", name: value})
        assert [problem.name for problem in caught.value.problems] == [name]
    assert len(crm.tasks(contact_id)) == 1


def test_notes_need_the_right_to_write_contacts(crm: HubSpotCrm, adapter: HubSpotAdapter) -> None:
    contact_id = crm.add_contact({"email": "ann@example.com"})
    crm.fake.tokens.scopes = crm.fake.tokens.scopes - {"crm.objects.contacts.write"}
    with pytest.raises(LacksRight):
        adapter.add_note("contacts", contact_id, "x", at_ms=AT_MS, mark="a")
