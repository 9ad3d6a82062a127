"""addNote and createTask: once, whole, in order, and read back."""

from __future__ import annotations

from typing import Any

import pytest

from crmhub.errors import BadRequest, Semantic
from crmhub.helpers.notes import LONGEST, read_note, split_text
from crmhub.hub import Hub
from crmhub.properties.kinds import KINDS
from crmhub.records import timeline
from tests.api.helpers.helper_calls import ADD_NOTE, ADD_NOTE_TO, CREATE_DEAL, CREATE_TASK, known
from tests.clients import Client
from tests.queue.working import rows

CHAT = [
    {"from": "Ann", "text": "¿Está abierto? 👩‍👩‍👧", "at": "10:15"},
    {"from": "bot", "text": "<b>نعم</b> @ann"},
    "{{last}}",
    {"from": "{{name}}", "text": "bye {{name}}, see [[wiki]] at ${5}"},
    "None",
]


def entries(hub: Hub, client: Client, kind: str, record_id: str) -> list[Any]:
    of = (client.account.id, timeline.OWN, KINDS[kind], [record_id])
    with hub.database.reading() as connection:
        return timeline.latest(connection, *of)


def test_a_note_of_a_conversation_is_stored_once(hub: Hub, client: Client) -> None:
    contact_id = known(client)
    body = {"contactToken": "t", "text": "Calls back\non Monday", "author": "Bob"}
    first = client.helper(ADD_NOTE, body)
    assert first.status_code == 200, first.text
    assert (first.json["status"], first.json["contactId"]) == ("created", contact_id)
    again = client.helper(ADD_NOTE, body)
    assert (again.json["status"], again.json["noteId"]) == ("unchanged", first.json["noteId"])
    [note] = entries(hub, client, "contacts", contact_id)
    assert (str(note.id), note.text, note.author, note.type) == (
        first.json["noteId"],
        "Calls back\non Monday",
        "Bob",
        "note",
    )


def test_a_transcript_is_stored_as_text(hub: Hub, client: Client) -> None:
    contact_id = known(client)
    answer = client.helper(ADD_NOTE, {"contactToken": "t", "text": CHAT, "at": "2026-11-28T10:20Z"})
    assert answer.status_code == 200, answer.text
    [note] = entries(hub, client, "contacts", contact_id)
    assert (note.type, note.at) == ("transcript", 1795861200000)
    assert note.text.splitlines() == [
        "Ann (10:15): ¿Está abierto? 👩‍👩‍👧",
        "bot: <b>نعم</b> @ann",
        "bye {{name}}, see [[wiki]] at ${5}",
        "None",
    ]


@pytest.mark.parametrize(
    ("sent", "author", "refused"),
    [
        ({"author": {"name": "Bob", "id": 7}}, "Bob", ""),
        ({"author": {"id": 7}, "at": ["2026-11-28"]}, "", "author,at"),
        ({"author": ["Bob"]}, "", "author"),
        ({"author": 7.5}, "7.5", ""),
    ],
)
def test_an_unusable_author_or_time_does_not_lose_the_note(
    hub: Hub, client: Client, sent: dict[str, Any], author: str, refused: str
) -> None:
    contact_id = known(client)
    messages = [{"from": {"name": "Ann"}, "text": "hi", "at": {}}, {"from": [], "text": "yes"}]
    answer = client.helper(ADD_NOTE, {"contactToken": "t", "text": messages, **sent})
    assert answer.status_code == 200, answer.text
    assert answer.json["refused"] == refused
    [note] = entries(hub, client, "contacts", contact_id)
    assert (note.text, note.author) == ("Ann: hi\nyes", author)


def test_a_note_of_a_deal_names_exactly_one_record(hub: Hub, client: Client) -> None:
    contact_id = known(client)
    deal = {"contactId": contact_id, "properties": {"dealname": "A deal"}}
    deal_id = client.helper(CREATE_DEAL, deal).json["dealId"]
    assert client.helper(ADD_NOTE_TO, {"dealId": deal_id, "text": "Signed"}).status_code == 200
    assert [one.text for one in entries(hub, client, "deals", deal_id)] == ["Signed"]
    assert client.helper(ADD_NOTE_TO, {"dealId": deal_id, "text": {"a": 1}}).status_code == 400
    # Builders send all their variables.
    state = {"dealId": deal_id, "contactId": "{{contact}}", "ticketId": "0", "kind": "{{kind}}"}
    answer = client.helper(ADD_NOTE_TO, {**state, "text": "Use code {SAVE10}, {{first_name}}"})
    assert answer.status_code == 200, answer.text
    unfilled = client.helper(ADD_NOTE_TO, {"dealId": "{{deal}}", "ticketId": "0", "text": "x"})
    assert (unfilled.status_code, "{{deal}}" in unfilled.json["message"]) == (422, True)
    both = {"dealId": deal_id, "contactId": contact_id, "text": "x"}
    for body, status in (
        (both, 422),
        ({"text": "x"}, 400),
        ({"contactId": " ", "text": "x"}, 422),
        ({"dealId": "999", "text": "x"}, 404),
    ):
        assert client.helper(ADD_NOTE_TO, body).status_code == status, body


def test_a_task_is_stored_with_what_fits(hub: Hub, client: Client) -> None:
    contact_id = known(client)
    properties = {"subject": "Call", "due": "31.12.2026", "priority": "high", "colour": "red"}
    body = {"contactId": contact_id, "properties": properties}
    answer = client.helper(CREATE_TASK, body)
    assert answer.status_code == 200, answer.text
    assert answer.json["refused"] == "colour"
    [task] = entries(hub, client, "contacts", contact_id)
    assert task.type == "task"
    assert '"due": "2026-12-31T00:00:00.000Z"' in task.properties
    for bad in ({}, {"subject": " "}, {"subject": "{{x}}"}, {"subject": ["a"]}):
        answer = client.helper(CREATE_TASK, {"contactId": contact_id, "properties": bad})
        assert answer.status_code == 422, bad
    for value in (["x"], {"a": 1}):
        refused = client.helper(CREATE_TASK, {**body, "properties": {"subject": value}})
        assert (refused.status_code, "an array" in refused.json["message"]) == (422, True)
    unknown = client.helper(CREATE_TASK, {**body, "contactId": "5"})
    assert unknown.status_code == 404
    assert unknown.json["message"].startswith(
        "contactId: there is no contact 5; send the contactId"
    )


@pytest.mark.parametrize(
    ("value", "type", "error"),
    [
        (" ", "", Semantic),
        ("{{transcript}}", "", Semantic),
        ("x" * (LONGEST + 1), "", Semantic),
        ("x", "memo", Semantic),
        ([{"from": "x"}], "", BadRequest),
        ([{"from": "x", "text": "{{said}}"}], "", Semantic),
        ([{"text": {}}], "", BadRequest),
        ([{"from": "x", "words": "hi"}], "", BadRequest),
        ([{"role": "user", "content": {"a": 1}}], "", BadRequest),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "", Semantic),
        ([{"role": "user", "content": [1]}], "", BadRequest),
        ([["hi", 1], None], "", BadRequest),
    ],
)
def test_an_unusable_note_is_refused(value: Any, type: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_note(value, type)


@pytest.mark.parametrize(
    "message",
    [
        {"from": "user", "text": "hi", "at": "10:15"},
        {"role": "user", "content": "hi", "timestamp": "10:15"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "hi"}, {"type": "image_url"}],
            "time": "10:15",
        },
        {"sender": {"name": "user"}, "text": "hi", "created_at": "10:15"},
        {"from": None, "author": "user", "text": None, "message": "hi", "date": "10:15"},
    ],
)
def test_messages_of_builders_and_language_models_are_read(message: dict[str, Any]) -> None:
    assert read_note([message, {"from": "bot", "image": "x.png"}], "") == (
        "user (10:15): hi",
        "transcript",
    )


def test_a_long_text_is_split_between_lines_and_words() -> None:
    text = "\n".join(f"line {n} " + "word " * (n % 17) for n in range(2_000)) + "x" * 3_000
    parts = split_text(text, 1_000)
    assert max(map(len, parts)) <= 1_000
    bodies = [part.split("\n", 1) for part in parts]
    assert [head for head, _ in bodies] == [f"({n}/{len(parts)})" for n in range(1, len(parts) + 1)]
    joined = "".join(body for _, body in bodies)
    assert joined.replace("\n", "").replace(" ", "") == text.replace("\n", "").replace(" ", "")


def test_a_grapheme_is_not_split() -> None:
    parts = split_text("👩‍👩‍👧" * 50, 60)
    assert all(part.split("\n", 1)[1].startswith("👩") for part in parts)
    assert not any(part.endswith("\u200d") for part in parts)


def test_a_note_of_a_deal_is_no_call_of_the_contact_with_its_id(hub: Hub, client: Client) -> None:
    contact_id = known(client)
    deal = {"contactId": contact_id, "properties": {"dealname": "A deal"}}
    deal_id = client.helper(CREATE_DEAL, deal).json["dealId"]
    bodies = [{"dealId": deal_id, "text": "Signed"}, {"contactId": contact_id, "text": "Signed"}]
    for body in bodies:
        assert client.helper(ADD_NOTE_TO, body).json["status"] == "created"
        spaced = {name: f" {value} " if name != "text" else value for name, value in body.items()}
        assert client.helper(ADD_NOTE_TO, spaced).json["status"] == "unchanged"
    found = rows(hub, client, "kind, person, hub_id")
    assert [one[1:] for one in found if one[0] == "addNote" and one[2] == ""] == [
        (f"deals {deal_id}", "")
    ]


def test_marks_without_end_make_no_more_parts() -> None:
    text = "a" + "\u0301" * 5_000
    assert len(split_text(text, 1_000)) == 6
