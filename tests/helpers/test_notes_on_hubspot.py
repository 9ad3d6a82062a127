"""Notes and tasks in a CRM over HTTP: never lost, never twice, never before their lead."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.adapter.types import from_html
from crmhub.hub import Hub
from tests.api.helpers.helper_calls import (
    ADD_NOTE,
    ADD_NOTE_TO,
    CREATE_DEAL,
    CREATE_TASK,
    known,
    lead,
)
from tests.clients import Client
from tests.helpers.test_assign_owner import fake as fake
from tests.helpers.test_assign_owner import hubspot as hubspot
from tests.queue.working import finish_all, rows, take_over

Json = Any
NOTE = {"contactToken": "t", "text": "Calls back"}


def texts(fake: FakeHubSpot) -> list[str]:
    """Return the notes' texts as people read them, the oldest first."""
    notes = fake.records("notes").values()
    ordered = sorted(notes, key=lambda one: str(one["hs_timestamp"]))
    return [from_html(str(one["hs_note_body"])) for one in ordered]


def kinds(hub: Hub, client: Client) -> list[tuple[str, str]]:
    return [tuple(row) for row in rows(hub, client, "kind, state")]


def test_a_note_waits_behind_its_lead_for_an_unavailable_crm(
    hub: Hub, hubspot: Client, fake: FakeHubSpot
) -> None:
    fake.fail(503, times=None)
    queued: Json = lead(hubspot).json
    assert queued["contactId"].startswith("hub-")
    note = hubspot.helper(ADD_NOTE, NOTE)
    assert (note.status_code, note.json["noteId"]) == (202, "")
    task = {"contactId": queued["contactId"], "properties": {"subject": "Call"}}
    assert hubspot.helper(CREATE_TASK, task).status_code == 202
    fake.faults.clear()
    finish_all(hub, hubspot)
    assert kinds(hub, hubspot) == [(k, "done") for k in ("createLead", "addNote", "createTask")]
    assert texts(fake) == ["Calls back"]
    assert len(fake.records("tasks")) == 1


@pytest.mark.parametrize("kind", ["reset", "cut", "close"])
@pytest.mark.parametrize("path", [ADD_NOTE, CREATE_TASK])
def test_a_lost_answer_adds_nothing_twice(
    hub: Hub, hubspot: Client, fake: FakeHubSpot, kind: str, path: str
) -> None:
    contact_id = known(hubspot)
    fake.fail(kind=kind, method="POST", path="*/notes|*/tasks", written=True)
    task = {"contactId": contact_id, "properties": {"subject": "Call"}}
    answer = hubspot.helper(path, NOTE if path == ADD_NOTE else task)
    assert answer.status_code in (200, 202), answer.text
    take_over(hub, hubspot)
    assert {state for _, state in kinds(hub, hubspot)} == {"done"}
    assert len(fake.records("notes" if path == ADD_NOTE else "tasks")) == 1


def test_a_long_transcript_is_split_once_although_an_answer_is_lost(
    hub: Hub, hubspot: Client, fake: FakeHubSpot
) -> None:
    known(hubspot)
    said = [{"from": "Ann", "text": f"{n} <b>نعم</b> @ann 👩‍👩‍👧 " + "x" * 60} for n in range(500)]
    fake.fail(kind="reset", method="POST", path="*/notes", written=True, skip=1)
    answer = hubspot.helper(ADD_NOTE, {"contactToken": "t", "text": said})
    assert answer.status_code in (200, 202), answer.text
    take_over(hub, hubspot)
    found = texts(fake)
    assert [text.partition("\n")[0] for text in found] == [
        f"({n}/{len(found)})" for n in range(1, len(found) + 1)
    ]
    whole = "\n".join(text.partition("\n")[2] for text in found)
    assert whole == "\n".join(f"Ann: {one['text']}" for one in said)


def test_a_note_of_a_deal_stands_on_the_deal(hub: Hub, hubspot: Client, fake: FakeHubSpot) -> None:
    contact_id = known(hubspot)
    deal = {"contactId": contact_id, "properties": {"dealname": "A"}}
    deal_id = hubspot.helper(CREATE_DEAL, deal).json["dealId"]
    first = hubspot.helper(ADD_NOTE_TO, {"dealId": deal_id, "text": "Signed"})
    assert first.status_code == 200, first.text
    again = hubspot.helper(ADD_NOTE_TO, {"dealId": deal_id, "text": "Signed"})
    assert (again.json["status"], again.json["noteId"]) == ("unchanged", first.json["noteId"])
    assert texts(fake) == ["Signed"]
    gone = hubspot.helper(ADD_NOTE_TO, {"dealId": f"{deal_id}9", "text": "x"})
    assert gone.status_code == 404, gone.text
