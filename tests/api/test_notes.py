"""The notes of a record: listed in pages, added once, and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from crmhub.bounds import MAX_BODY_BYTES
from crmhub.database import expired
from crmhub.helpers.notes import LONGEST
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS
from crmhub.records import timeline
from crmhub.records.timeline import Added
from tests.api.helpers.helper_calls import ADD_NOTE, known
from tests.api.refusals import refused
from tests.clients import Client
from tests.operators.traces import left
from tests.pages import walk
from tests.queue.working import change

RESOURCES = ("contacts", "deals", "companies", "tickets")


def add(client: Client, path: str, **body: Any) -> dict[str, Any]:
    made = client.post(path, body)
    assert made.status_code == 201, made.text
    note: dict[str, Any] = made.get_json()
    return note


@pytest.mark.parametrize("resource", RESOURCES)
def test_a_note_is_added_listed_and_deleted(client: Client, resource: str) -> None:
    path = f"/{resource}/{client.make(resource)}/notes"
    empty = {"total": 0, "results": [], "cursor": {"next": "", "nextLink": ""}, "hasMore": False}
    assert client.get(path).get_json() == empty
    at = "2026-11-28T10:20:00.000Z"
    note = add(client, path, text="Calls\n<b>back</b>", author=" Bob ", at="2026-11-28T11:20+01:00")
    created = note.pop("createdAt")
    assert note == {
        "id": note["id"],
        "text": "Calls\n<b>back</b>",
        "kind": "note",
        "author": "Bob",
        "at": at,
    }
    page = client.get(path)
    assert page.get_json() == {**empty, "total": 1, "results": [{**note, "createdAt": created}]}
    assert page.headers["X-Record-Source"] == "hub"
    assert client.delete(f"{path}/{note['id']}").status_code == 204
    assert client.get(path).get_json() == empty
    refused(client.delete(f"{path}/{note['id']}"), 404)


def test_pages_come_newest_first(client: Client) -> None:
    id, other = client.make("contacts"), client.make("contacts")
    path = f"/contacts/{id}/notes"
    for minute in (3, 1, 2, 2):
        add(client, path, text=f"{minute}", at=f"2026-11-28T10:0{minute}:00Z")
    add(client, f"/contacts/{other}/notes", text="of another")
    first = client.get(f"{path}?limit=1").get_json()
    assert (first["total"], first["hasMore"]) == (4, True)
    add(client, path, text="newer", at="2026-11-28T11:00:00Z")
    texts, page = [one["text"] for one in first["results"]], first
    while page["hasMore"]:
        page = client.get(path + page["cursor"]["nextLink"]).get_json()
        assert (page["total"], len(page["results"])) == (4, 1)
        texts += [one["text"] for one in page["results"]]
    assert texts == ["3", "2", "2", "1"]
    cursor = first["cursor"]["next"]
    refused(client.get(f"/contacts/{other}/notes?cursor={cursor}"), 400)
    refused(client.get(f"/contacts?cursor={cursor}"), 400)
    refused(client.get(f"{path}?limit=101"), 400)


def test_long_texts_end_a_page_early(client: Client) -> None:
    path = f"/contacts/{client.make('contacts')}/notes"
    long = ["x" * (MAX_BODY_BYTES - 100)]
    for _ in range(6):
        add(client, path, text=long)
    first = client.get(f"{path}?limit=100").get_json()
    assert (first["total"], len(first["results"]), first["hasMore"]) == (6, 4, True)
    last = client.get(path + first["cursor"]["nextLink"]).get_json()
    assert (len(last["results"]), last["hasMore"]) == (2, False)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"text": None}, 400),
        ({"text": 1}, 400),
        ({"text": "x", "noteId": 1}, 400),
        ({"text": "x", "kind": "memo"}, 400),
        ({"text": "x", "at": "yesterday"}, 400),
        ({"text": "x", "author": "x" * 201}, 400),
        ({"text": [{"text": {}}]}, 400),
        ({"text": " \n"}, 422),
        ({"text": []}, 422),
        ({"text": "x" * (LONGEST + 1)}, 422),
    ],
)
def test_an_unusable_note_is_refused(client: Client, body: Any, status: int) -> None:
    path = f"/contacts/{client.make('contacts')}/notes"
    refused(client.post(path, body), status)
    assert client.get(path).get_json()["total"] == 0


def test_a_transcript_is_one_message_a_line(client: Client) -> None:
    path = f"/tickets/{client.make('tickets')}/notes"
    note = add(client, path, text=[{"from": "Ann", "text": "hi", "at": "10:15"}, "bye"])
    assert (note["kind"], note["text"]) == ("transcript", "Ann (10:15): hi\nbye")


@pytest.mark.parametrize("length", [10, 60_000])
def test_a_repeated_request_adds_one_note(client: Client, length: int) -> None:
    path = f"/contacts/{client.make('contacts')}/notes"
    headers = {"Idempotency-Key": "k"}
    first, again = (client.post(path, {"text": "é" * length}, headers=headers) for _ in range(2))
    assert first.get_json() == again.get_json()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert client.get(path).get_json()["total"] == 1
    client.post(path, {"text": "é" * length})
    assert client.get(path).get_json()["total"] == 2


def test_archived_records_keep_their_notes(client: Client) -> None:
    id = client.make("contacts")
    path = f"/contacts/{id}/notes"
    note = add(client, path, text="x")
    client.delete(f"/contacts/{id}")
    refused(client.get(path), 404)
    refused(client.post(path, {"text": "x"}), 404)
    refused(client.delete(f"{path}/{note['id']}"), 404)
    assert client.post(f"/contacts/{id}/restore", None).status_code == 200
    assert walk(client, path) == [note]


def test_notes_of_a_bot_are_listed_too(client: Client) -> None:
    contact_id = known(client)
    answer = client.helper(ADD_NOTE, {"contactToken": "t", "text": "Hello"})
    [note] = walk(client, f"/contacts/{contact_id}/notes")
    assert (str(note["id"]), note["text"]) == (answer.get_json()["noteId"], "Hello")
    other = client.make("contacts")
    refused(client.delete(f"/contacts/{other}/notes/{note['id']}"), 404)


def test_a_record_that_is_deleted_for_good_takes_its_notes_along(hub: Hub, client: Client) -> None:
    gone, kept = client.make("deals"), client.make("deals")
    for id in (gone, kept):
        add(client, f"/deals/{id}/notes", text=f"of {id}")
    client.delete(f"/deals/{gone}")
    change(hub, client, "archived_at = 1", "archived_record")
    assert expired.delete_expired(hub.database, expired.ARCHIVED) == 1
    assert left(hub, [f"of {gone}"], client.account.id) == []
    assert walk(client, f"/deals/{kept}/notes")


def test_notes_of_a_record_in_a_crm_are_deleted_by_age(hub: Hub, client: Client) -> None:
    own = client.make("contacts")
    add(client, f"/contacts/{own}/notes", text="own")
    connection_id = client.account.connection.id
    assert connection_id != timeline.OWN

    def sent(text: str, days: int) -> None:
        added = Added(connection_id, CONTACTS, "501", timeline.NOTE, text, 0)
        hub.database.transact(lambda tx: timeline.add(tx, client.account, added))
        past = f"created_at = created_at - {days * 24 * 3600 * 1000}"
        change(hub, client, past, "timeline_entry")

    # Both become older with the second one.
    sent("the old", 20)
    sent("the new", 20)
    expired.delete_expired(hub.database, expired.CRM_NOTES)
    assert left(hub, ["the old"], client.account.id) == []
    assert left(hub, ["the new"], client.account.id)
    assert walk(client, f"/contacts/{own}/notes")
