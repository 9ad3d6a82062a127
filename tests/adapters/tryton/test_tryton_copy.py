"""A copy of Tryton: what changed in parties, opportunities and tasks, and how they are written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters import tryton as module
from crmhub.adapter import Adapter, NotFound, Rejected, Unsupported
from crmhub.adapter.testing.reads import changed
from tests.adapters.tryton.tryton_crm import TrytonCrm, connected


@pytest.fixture
def adapter(tryton_crm: TrytonCrm) -> Iterator[Adapter]:
    connection = connected(tryton_crm)
    yield connection.adapter()
    connection.outgoing.close()


@pytest.fixture
def people(tryton_crm: TrytonCrm) -> list[str]:
    names = ("Ann", "Bob", "Cem", "Dee", "Eve")
    emails = [{"lastname": name, "email": f"{name}@example.org"} for name in names]
    return [tryton_crm.add_contact(one) for one in emails]


def age(crm: TrytonCrm) -> None:
    """Date all parties and mechanisms a day back, before what a walk asks for again."""
    for table in ("party_party", "party_contact_mechanism"):
        crm.sql.execute(
            f"update {table} set create_date = now() - interval '1 day', write_date = null"
        )


def test_what_changes_between_two_pages_of_the_load_is_not_missed(
    tryton_crm: TrytonCrm, adapter: Adapter, people: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAGE", 3)
    age(tryton_crm)
    page = adapter.changed_since("contacts", "", ["name", "email"])
    # The company and its employee are parties, too.
    assert [one.id for one in page.records][2:] == people[:1]
    rpc = tryton_crm.rpc
    rpc.call("party.party", "write", [int(people[0])], {"name": "Ann Lee"})
    [mechanism] = rpc.call("party.contact_mechanism", "search", [["party", "=", int(people[1])]])
    rpc.call("party.contact_mechanism", "write", [mechanism], {"value": "new@example.org"})
    rpc.call("party.party", "write", [int(people[2])], {"active": False})
    records, pages = changed(adapter, "contacts", page.next, ["name", "email"])
    told = {id: one.properties for id, one in records.items()}
    assert told[people[0]]["name"] == "Ann Lee"
    assert told[people[1]]["email"] == "new@example.org"
    assert {*people[3:]} <= told.keys()
    assert people[2] in {id for page in pages for id in page.deleted}
    rpc.call("party.party", "write", [int(people[2])], {"active": True})
    records, pages = changed(adapter, "contacts", pages[-1].next, [])
    assert people[2] in records
    age(tryton_crm)
    assert changed(adapter, "contacts", pages[-1].next, [])[0] == {}


def test_a_deal_is_moved_and_deleted(
    tryton_crm: TrytonCrm, adapter: Adapter, people: list[str]
) -> None:
    names = ["dealname", "pipeline", "dealstage", "comment"]
    sent = {"dealname": "Chairs", "comment": "Blue"}
    id = adapter.create_for_contact("deals", people[0], sent, mark="m").id
    [deal] = adapter.get_records("deals", [id], names)
    place = {"pipeline": "default", "dealstage": "lead"}
    assert (deal.properties, deal.links) == ({**sent, **place}, {"contacts": (people[0],)})
    for stage in ("opportunity", "lost", "lead", "cancelled", "lead"):
        saved = adapter.write("deals", id, {"dealstage": stage})
        assert (saved.outcome, saved.refused) == ("updated", ())
        assert tryton_crm.linked("deals", people[0])[id]["dealstage"] == stage
    assert adapter.write("deals", id, {"amount": "7", "dealstage": "lost"}).refused == ()
    saved = adapter.write("deals", id, {"dealstage": "opportunity"})
    assert [problem.name for problem in saved.refused] == ["dealstage"]
    assert tryton_crm.linked("deals", people[0])[id].items() >= {"amount": "7"}.items()
    # Tryton deletes cancelled opportunities alone, and lost ones become leads first.
    with pytest.raises(Rejected, match="cancel"):
        adapter.archive("deals", id)
    adapter.write("deals", id, {"dealstage": "lead"})
    adapter.archive("deals", id)
    assert tryton_crm.count("deals") == 0
    for call in (adapter.archive, lambda kind, id: adapter.write(kind, id, sent)):
        with pytest.raises(NotFound):
            call("deals", id)


def test_a_ticket_moves_within_the_projects_and_out_of_them(
    tryton_crm: TrytonCrm, adapter: Adapter, people: list[str]
) -> None:
    id = adapter.create_for_contact("tickets", people[0], {"subject": "A leg broke"}).id
    [project] = adapter.pipelines("tickets")
    adapter.write("tickets", id, {"hs_pipeline_stage": project.stages[-1].label, "content": "Left"})
    [ticket] = adapter.get_records("tickets", [id], ["hs_pipeline", "hs_pipeline_stage", "content"])
    place = {"hs_pipeline": project.id, "hs_pipeline_stage": project.stages[-1].value}
    assert ticket.properties == {**place, "content": "Left"}
    _, pages = changed(adapter, "tickets", "", [])
    moved = "parent = null, write_date = now() at time zone 'UTC'"
    tryton_crm.sql.execute(f"update project_work set {moved} where id = %s", (id,))
    # Projects that have just been made are no tickets either.
    assert id in adapter.changed_since("tickets", pages[-1].next, []).deleted


def test_tryton_tells_no_companies_apart(adapter: Adapter) -> None:
    with pytest.raises(Unsupported):
        adapter.changed_since("companies", "", [])
