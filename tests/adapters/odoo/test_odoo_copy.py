"""A copy of Odoo: what changed or was archived, companies, and whose a deal is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from adapters import odoo as module
from adapters.fakes.odoo import FakeOdoo
from crmhub.adapter import Adapter, Conflict, Kind, LacksRight, NotFound, Rejected
from crmhub.adapter.testing.reads import changed
from crmhub.adapter.walks import Walk
from tests.adapters.odoo.odoo_crm import OdooCrm
from tests.adapters.odoo.test_odoo_calls import SEARCH, calls

PARTNER = "res.partner"
KINDS: tuple[Kind, ...] = ("contacts", "companies", "deals", "tickets")


def add(fake: FakeOdoo, *names: str, **values: object) -> list[str]:
    return [fake.add("contacts", {"name": name, **values}) for name in names]


def test_what_changes_between_two_pages_of_the_load_is_not_missed(
    adapter: Adapter, fake: FakeOdoo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAGE", 2)
    ids = add(fake, "Ann", "Bob", "Cem", "Dee", "Eve")
    page = adapter.changed_since("contacts", "", ["name"])
    assert ([one.id for one in page.records], page.total) == (ids[:2], 5)
    fake.set("contacts", ids[0], name="Ann Lee")
    fake.set("contacts", ids[1], active=False)
    fake.set("contacts", ids[4], is_company=True)
    new = add(fake, "Fay")
    records, pages = changed(adapter, "contacts", page.next, ["name"])
    told = {id: one.properties["name"] for id, one in records.items()}
    assert told == {ids[0]: "Ann Lee", ids[2]: "Cem", ids[3]: "Dee", new[0]: "Fay"}
    assert {ids[1], ids[4]} <= {id for page in pages for id in page.deleted}
    fake.data.update(fake.data.get(PARTNER, int(ids[1])), {"active": True})
    records, _ = changed(adapter, "contacts", pages[-1].next, [])
    assert ids[1] in records


def test_a_transaction_that_commits_late_is_not_missed(adapter: Adapter, fake: FakeOdoo) -> None:
    _, pages = changed(adapter, "contacts", "", [])
    [id] = add(fake, "Ann")
    walk = Walk.of(pages[-1].next)
    swept = json.dumps(walk._replace(swept=walk.since - 900))
    for minutes, since, is_told in ((2, pages[-1].next, True), (14, pages[-1].next, False),
                                    (14, swept, True), (31, swept, False)):  # fmt: skip
        began = datetime.now(UTC) - timedelta(minutes=minutes)
        fake.data.get(PARTNER, int(id)).properties["write_date"] = f"{began:%Y-%m-%d %H:%M:%S.%f}"
        records, _ = changed(adapter, "contacts", since, [])
        assert (id in records) == is_told, minutes
        if is_told:
            assert records[id].changed_ms == int(began.timestamp()) * 1000


def test_records_too_large_for_one_answer_come_in_smaller_pages(
    adapter: Adapter, fake: FakeOdoo
) -> None:
    ids = add(fake, "Ann", "Bob", "Cem", comment="x" * 3_000_000)
    records, pages = changed(adapter, "contacts", "", ["comment"])
    assert (sorted(records), len(pages) > 2) == (sorted(ids), True)
    assert len(adapter.get_records("contacts", ids, ["comment"])) == len(ids)


def test_asking_for_changes_takes_one_call_and_whose_deals_are_another(
    adapter: Adapter, fake: FakeOdoo
) -> None:
    [id] = add(fake, "Ann")
    since = {kind: changed(adapter, kind, "", [])[1][-1].next for kind in KINDS}
    calls(fake)
    for kind in KINDS[:2]:
        adapter.changed_since(kind, since[kind], ["name"])
        assert calls(fake) == [SEARCH]
    fake.add("deals", {"name": "A roof", "type": "opportunity", "partner_id": int(id)})
    adapter.changed_since("deals", since["deals"], [])
    assert calls(fake) == ["crm.lead.search_read", SEARCH]


def test_all_ids_are_read_with_nothing_that_is_not_needed(adapter: Adapter, fake: FakeOdoo) -> None:
    fake.take_requests()
    adapter.changed_since("companies", "", ())
    body = json.loads(fake.take_requests()[-1].body)
    options = body["params"]["args"][-1] if "params" in body else body
    assert options["fields"] == ["active", "create_date", "is_company", "parent_id", "write_date"]
    assert (options["limit"], options["load"]) == (5_000, "")


def test_a_company_is_linked_to_its_people_and_deals(adapter: Adapter, fake: FakeOdoo) -> None:
    described = {one.name: one for one in adapter.describe("companies")}
    assert (described["name"].required, "is_company" in described) == (True, False)
    assert (described["website"].type, described["phone"].type) == ("url", "phone")
    acme = adapter.write("companies", "", {"name": "Acme", "phone": "+4930123456"}, mark="m").id
    assert adapter.write("companies", "", {"name": "Acme"}, mark="m").id == acme
    [ann] = add(fake, "Ann", parent_id=int(acme))
    deal = {"name": "A roof", "type": "opportunity"}
    of_ann, of_acme, of_none = (
        fake.add("deals", {**deal, "partner_id": partner}) for partner in (int(ann), int(acme), 0)
    )
    [person] = adapter.get_records("contacts", [ann, acme], [])
    assert (person.id, person.links) == (ann, {"companies": (acme,)})
    found = adapter.get_records("deals", [of_ann, of_acme, of_none], [])
    assert {one.id: one.links for one in found} == {
        of_ann: {"contacts": (ann,), "companies": ()},
        of_acme: {"contacts": (), "companies": (acme,)},
        of_none: {"contacts": (), "companies": ()},
    }
    assert all(0 < one.created_ms <= one.changed_ms for one in found)
    with pytest.raises(Rejected) as refused:
        adapter.write("companies", acme, {"name": ""})
    assert [problem.name for problem in refused.value.problems] == ["name"]


def test_an_update_of_a_ticket_keeps_its_place_and_its_contact(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo
) -> None:
    [ann] = add(fake, "Ann")
    sent = {"subject": "A leg broke", "hs_pipeline_stage": "Done"}
    id = adapter.create_for_contact("tickets", ann, sent).id
    before = crm.linked("tickets", ann)[id]
    adapter.write("tickets", id, {"hs_ticket_priority": "HIGH", "content": "The left one"})
    after = crm.linked("tickets", ann)[id]
    changed_to = {"hs_ticket_priority": after["hs_ticket_priority"], "content": "The left one"}
    assert (after, after["hs_ticket_priority"] != "0") == ({**before, **changed_to}, True)


@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_record_is_archived_and_can_be_restored(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo, kind: Kind
) -> None:
    id = adapter.write(
        kind,
        "",
        {"dealname" if kind == "deals" else "email": "a@example.org"}
        | ({"name": "Acme"} if kind == "companies" else {}),
    ).id
    _, pages = changed(adapter, kind, "", [])
    adapter.archive(kind, id)
    assert id not in crm.shown(kind)
    assert id in adapter.changed_since(kind, pages[-1].next, []).deleted
    with pytest.raises(NotFound):
        adapter.archive(kind, id)
    assert fake.data.records[fake.own_kind(kind)][id].properties["active"] is False


def test_a_note_is_internal_and_has_its_date(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo
) -> None:
    [ann] = add(fake, "Ann")
    id = adapter.create_for_contact("deals", ann, {"dealname": "A roof"}).id
    adapter.add_note("deals", id, "Ann & Bob\n<3", at_ms=1_930_000_000_123)
    assert [*crm.notes("deals", id).values()] == ["Ann & Bob\n<3"]
    assert crm.notes("contacts", ann) == {}
    [note] = fake.data.records["mail.message"].values()
    expected = {"message_type": "comment", "subtype_id": 1, "date": "2031-02-27 23:06:40"}
    assert note.properties.items() >= expected.items()
    fake.data.denied.add(("mail.message", "create"))
    with pytest.raises(LacksRight):
        adapter.add_note("deals", id, "Again", at_ms=0)


def test_a_task_is_an_activity_of_the_contact(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo
) -> None:
    [ann, bob] = add(fake, "Ann", "Bob")
    task = {"subject": "Call", "notes": "Ann & Bob\n<3", "due": "2031-02-27T23:06:40.000Z"}
    id = adapter.create_task(ann, task | {"owner": "1"}).id
    assert crm.tasks(ann) == {id: task | {"due": "2031-02-27", "owner": "1"}}
    assert crm.tasks(bob) == {}
    [activity] = fake.data.records["mail.activity"].values()
    assert activity.properties["activity_type_id"] == 1
    with pytest.raises(Rejected) as caught:
        adapter.create_task(ann, {"subject": "Call", "owner": "999"})
    assert [one.name for one in caught.value.problems] == ["owner"]
    fake.data.denied.add(("mail.activity", "create"))
    with pytest.raises(LacksRight):
        adapter.create_task(ann, {"subject": "Call"})


def test_a_person_does_not_take_the_place_of_a_deals_company(
    adapter: Adapter, fake: FakeOdoo
) -> None:
    [person], company = add(fake, "Ann"), fake.add("companies", {"name": "Acme Ltd."})
    deal = adapter.write("deals", "", {"dealname": "An engine"}, mark="act-1").id
    adapter.link("companies", company, "deals", deal)
    with pytest.raises(Conflict) as caught:
        adapter.link("deals", deal, "contacts", person)
    said = f"Deal {deal} is linked to company {company}; remove that association first."
    assert (caught.value.message, caught.value.existing_id) == (said, company)
    adapter.link("deals", deal, "contacts", person, remove=True)
    [record] = adapter.get_records("deals", [deal], [])
    assert record.links == {"contacts": (), "companies": (company,)}
    adapter.link("deals", deal, "companies", company, remove=True)
    adapter.link("deals", deal, "contacts", person)
    [record] = adapter.get_records("deals", [deal], [])
    assert record.links == {"contacts": (person,), "companies": ()}


def test_a_contact_that_is_sent_again_is_no_conflict_with_itself(
    adapter: Adapter, fake: FakeOdoo
) -> None:
    sent = {"name": "Ann", "email": "ann@x.org"}
    saved, again = (adapter.write("contacts", "", sent, mark="act-1") for _ in range(2))
    assert (again.id, again.outcome) == (saved.id, "created")
    assert adapter.get_contact(saved.id, ["name"]).properties == {"name": "Ann"}
    with pytest.raises(Conflict) as caught:
        adapter.write("contacts", "", {"name": "Another", "email": "ann@x.org"}, mark="act-2")
    assert caught.value.existing_id == saved.id
    assert sum(one["email"] == "ann@x.org" for one in fake.records("contacts").values()) == 1
