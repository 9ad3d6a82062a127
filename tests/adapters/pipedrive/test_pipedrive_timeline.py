"""Notes and tasks in Pipedrive, which have no field for a mark."""

from __future__ import annotations

import pytest

from crmhub.adapter import Adapter, NotFound, Rejected
from crmhub.adapter.testing.base import new_mark
from tests.adapters.pipedrive.pipedrive_crm import PipedriveCrm, calls

AT_MS = 1_795_000_000_000


@pytest.fixture
def ann(crm: PipedriveCrm) -> str:
    return crm.fake.add("contacts", {"name": "Ann"})


def test_a_note_of_another_second_or_record_is_another_note(
    crm: PipedriveCrm, adapter: Adapter, ann: str
) -> None:
    deal = crm.fake.add("deals", {"title": "T"})
    for _ in range(2):
        adapter.add_note("contacts", ann, "ok", at_ms=AT_MS, mark=new_mark())
        adapter.add_note("contacts", ann, "ok", at_ms=AT_MS + 1000, mark=new_mark())
        adapter.add_note("deals", deal, "ok", at_ms=AT_MS, mark=new_mark())
    assert [len(crm.notes(*one)) for one in (("contacts", ann), ("deals", deal))] == [2, 1]
    dates = [one["add_time"] for one in crm.fake.added["notes"]]
    assert dates == ["2026-11-18 11:06:40", "2026-11-18 11:06:41", "2026-11-18 11:06:40"]


def test_a_note_costs_a_read_a_list_and_a_write(
    crm: PipedriveCrm, adapter: Adapter, ann: str
) -> None:
    adapter.add_note("contacts", ann, "ok", at_ms=AT_MS, mark=new_mark())
    assert calls(crm.fake) == [f"GET v2/persons/{ann}", "GET v1/notes", "POST v1/notes"]


def test_an_equal_task_is_the_same_until_it_is_done(
    crm: PipedriveCrm, adapter: Adapter, ann: str
) -> None:
    sent = {"subject": "Call", "due": "2031-01-31T09:30:00.000Z", "owner": "7303"}
    ids = [adapter.create_task(ann, sent, mark=new_mark()).id for _ in range(2)]
    others = [{**sent, "notes": "soon"}, {"subject": "Call"}, {**sent, "owner": "7301"}]
    different = {adapter.create_task(ann, one, mark=new_mark()).id for one in others}
    assert (ids[0] == ids[1], len(different - {*ids})) == (True, 3)
    crm.fake.added["activities"][0]["done"] = True
    assert adapter.create_task(ann, sent, mark=new_mark()).id not in {*ids, *different}


@pytest.mark.parametrize(
    ("sent", "name"),
    [({"priority": "HIGH"}, "priority"), ({"owner": "me"}, "owner"), ({"due": "soon"}, "due")],
)
def test_a_task_with_a_value_that_is_not_taken_is_refused_by_name(
    adapter: Adapter, ann: str, sent: dict[str, str], name: str
) -> None:
    with pytest.raises(Rejected) as caught:
        adapter.create_task(ann, {"subject": "Call", **sent})
    assert [problem.name for problem in caught.value.problems] == [name]


def test_a_deleted_deal_gets_no_note(crm: PipedriveCrm, adapter: Adapter) -> None:
    deal = crm.fake.add("deals", {"title": "T"})
    crm.fake.delete("deals", deal)
    with pytest.raises(NotFound):
        adapter.add_note("deals", deal, "ok", at_ms=AT_MS)
