"""Notes of an account with a copy: added in the CRM, and listed by the hub."""

from __future__ import annotations

import pytest

from crmhub.hub import Hub
from crmhub.operators.erasure import erase_person
from tests.adapter.small_adapter import SmallAdapter
from tests.adapter.small_crm import SmallCrm
from tests.api.refusals import refused
from tests.clients import TESTS, Client
from tests.copies.copying import pull
from tests.copies.test_record_writes import create, crm_id, unavailable
from tests.operators.traces import left


def test_a_note_is_added_in_the_crm(copied: Client, crm: SmallCrm) -> None:
    record = create(copied)
    path = f"/contacts/{record['id']}/notes"
    made = copied.post(path, {"text": "Calls\n<back>", "author": "Bob", "at": "2026-11-28T10:20Z"})
    assert made.status_code == 201, made.text
    assert made.headers["X-Record-Source"] == "copy"
    note = made.get_json()
    assert note["at"] == "2026-11-28T10:20:00.000Z"
    assert crm.notes("contacts", crm_id(record)) == {note["crmId"]: "Bob:\nCalls\n<back>"}
    assert copied.get(path).get_json()["results"] == [note]
    assert copied.get(path).headers["X-Record-Source"] == "copy"
    assert "delete it there" in refused(copied.delete(f"{path}/{note['id']}"), 409)
    refused(copied.delete(f"{path}/{note['id'] + 1}"), 404)
    # Without a key, an equal note is another one.
    assert copied.post(path, {"text": "Calls\n<back>", "author": "Bob"}).status_code == 201
    assert copied.get(path).get_json()["total"] == 2


def test_a_repeated_request_adds_one_note(copied: Client, crm: SmallCrm) -> None:
    record = create(copied)
    path, headers = f"/contacts/{record['id']}/notes", {"Idempotency-Key": "k"}
    answers = [copied.post(path, {"text": "x"}, headers=headers).get_json() for _ in range(2)]
    assert answers[0] == answers[1]
    assert len(crm.notes("contacts", crm_id(record))) == 1


def test_a_crm_that_is_down_gets_nothing(
    copied: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = create(copied)
    path = f"/contacts/{record['id']}/notes"
    monkeypatch.setattr(SmallAdapter, "add_note", unavailable)
    refused(copied.post(path, {"text": "x"}), 503)
    prefer = {"Prefer": "respond-async"}
    answer = copied.post(path, {"text": "y"}, headers=prefer)
    assert (answer.status_code, list(answer.get_json())) == (202, ["actionId"])
    monkeypatch.undo()
    assert copied.get(path).get_json()["total"] == 0
    assert crm.notes("contacts", crm_id(record)) == {}


def test_notes_follow_a_merge_in_the_crm(hub: Hub, copied: Client, crm: SmallCrm) -> None:
    kept, gone = create(copied, 1), create(copied, 2)
    for record in (kept, gone):
        copied.post(f"/contacts/{record['id']}/notes", {"text": record["properties"]["email"]})
    crm.merge_contacts(crm_id(gone), crm_id(kept))
    pull(hub, copied)
    assert copied.get(f"/contacts/{kept['id']}/notes").get_json()["total"] == 2


def test_notes_of_a_person_are_erased(hub: Hub, copied: Client) -> None:
    record = create(copied)
    headers = {"Idempotency-Key": "k"}
    copied.post(f"/contacts/{record['id']}/notes", {"text": "Owes us 3"}, headers=headers)
    person, _ = erase_person.find(hub, copied.account, "p1@example.org")
    assert person is not None
    assert left(hub, ["Owes us 3"], copied.account.id)
    erase_person.erase(hub, copied.account, person, by=TESTS)
    assert left(hub, ["Owes us 3"], copied.account.id) == []
