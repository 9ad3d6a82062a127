"""Notes and tasks in Zoho CRM, which have no field for a mark."""

from __future__ import annotations

import pytest

from crmhub.adapter import Adapter, NotFound, Rejected
from crmhub.adapter.testing.base import new_mark
from tests.adapters.zoho.zoho_crm import ZohoCrm, calls

AT_MS = 1_795_000_000_000
TODAY = {"subject": "Call", "due": "2031-01-31T09:30:00.000Z", "owner": "5725767000000000001"}


@pytest.fixture
def ann(crm: ZohoCrm) -> str:
    id: str = crm.fake.add("contacts", {"Last_Name": "Lee"})
    return id


def test_a_note_of_another_second_or_record_is_another_note(
    crm: ZohoCrm, adapter: Adapter, ann: str
) -> None:
    case = crm.fake.add("tickets", {"Subject": "Help"})
    for _ in range(2):
        adapter.add_note("contacts", ann, "ok", at_ms=AT_MS, mark=new_mark())
        adapter.add_note("contacts", ann, "ok", at_ms=AT_MS + 1000, mark=new_mark())
        adapter.add_note("tickets", case, "ok", at_ms=AT_MS, mark=new_mark())
    assert [len(crm.notes(*one)) for one in (("contacts", ann), ("tickets", case))] == [2, 1]
    titles = {one.properties["Note_Title"] for one in crm.fake.store.records["Notes"].values()}
    assert titles == {"2026-11-18 11:06:40 UTC", "2026-11-18 11:06:41 UTC"}


def test_a_note_costs_three_credits(crm: ZohoCrm, adapter: Adapter, ann: str) -> None:
    adapter.describe("contacts")
    calls(crm.fake)
    adapter.add_note("contacts", ann, "ok", at_ms=AT_MS, mark=new_mark())
    assert calls(crm.fake) == [
        "POST /crm/v8/coql",
        f"GET /crm/v8/Contacts/{ann}/Notes",
        "POST /crm/v8/Notes",
    ]


def test_an_equal_task_is_the_same_until_it_is_completed(
    crm: ZohoCrm, adapter: Adapter, ann: str
) -> None:
    ids = [adapter.create_task(ann, TODAY, mark=new_mark()).id for _ in range(2)]
    others = [{**TODAY, "notes": "soon"}, {"subject": "Call"}, {**TODAY, "priority": "LOW"}]
    different = {adapter.create_task(ann, one, mark=new_mark()).id for one in others}
    assert (ids[0] == ids[1], len(different - {*ids})) == (True, 3)
    for task in crm.fake.store.records["Tasks"].values():
        crm.fake.store.update(task, {"Status": "Completed"})
    assert adapter.create_task(ann, TODAY, mark=new_mark()).id not in {*ids, *different}


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ({"priority": "URGENT"}, "priority"),
        ({"owner": "me"}, "owner"),
        ({"owner": "77"}, "owner"),
        ({"due": "soon"}, "due"),
        ({"colour": "red"}, "colour"),
        ({"subject": "x" * 256}, "subject"),
    ],
)
def test_a_task_with_a_value_that_is_not_taken_is_refused_by_name(
    adapter: Adapter, ann: str, sent: dict[str, str], name: str
) -> None:
    with pytest.raises(Rejected) as caught:
        adapter.create_task(ann, {"subject": "Call", **sent})
    assert [problem.name for problem in caught.value.problems] == [name]


def test_a_deleted_deal_gets_no_note(crm: ZohoCrm, adapter: Adapter) -> None:
    deal = crm.fake.add("deals", {"Deal_Name": "T"})
    crm.fake.delete("deals", deal)
    with pytest.raises(NotFound):
        adapter.add_note("deals", deal, "ok", at_ms=AT_MS)
