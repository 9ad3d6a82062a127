"""The routes for the notes of a record: listed, added, and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flask
import marshmallow as ma
import orjson
from marshmallow import fields, validate

from crmhub.api.http import schemas
from crmhub.api.http.answers import JsonAnswer, as_json, nothing, page_frame, record_source
from crmhub.api.http.authentication import account, hub
from crmhub.api.http.blueprint import Blueprint, writes
from crmhub.api.http.document_components import PREFER
from crmhub.api.http.documentation import documents
from crmhub.api.http.field_types import Choice, Strict, Text, ZonedTime
from crmhub.api.http.idempotency_key import Rebuild
from crmhub.api.http.schemas import CountedPage, Shown
from crmhub.api.public.copies import DEFERRED, crm_records
from crmhub.api.public.record_paths import number
from crmhub.errors import NotFound
from crmhub.helpers.crm_records import Deferred
from crmhub.helpers.notes import AddNote, read_note
from crmhub.properties.kinds import Kind
from crmhub.records import notes, timeline
from crmhub.records.search.filters import iso
from crmhub.records.timeline import NOTES, OWN, Added

_DEFAULT_LIMIT = 20
_LONGEST_AUTHOR = 200


class _SaidText(fields.Field[Any]):
    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, str | list):
            raise ma.ValidationError("must be a string, or an array of messages")
        return value


_MESSAGE = {
    "type": ["string", "object"],
    "properties": {name: {"type": "string"} for name in ("from", "text", "at")},
}


class NoteInput(Strict):
    document_name = "NewRecordNote"

    text = _SaidText(
        required=True,
        error_messages=dict.fromkeys(("required", "null"), "is missing; send what the note says"),
        metadata={
            "type": ["string", "array"],
            "items": _MESSAGE,
            "description": "A text, or the messages of a conversation.",
        },
    )
    type = Choice(NOTES, data_key="kind", metadata={"description": "By default as `text` is."})
    author = Text(validate=validate.Length(max=_LONGEST_AUTHOR))
    at = ZonedTime(metadata={"description": "When it was said; now by default."})


class NoteShown(Shown):
    document_name = "RecordNote"

    id = fields.Integer(required=True, metadata=schemas.ID)
    text = fields.String(required=True)
    kind = fields.String(required=True, metadata={"enum": list(NOTES)})
    author = fields.String(required=True)
    at = fields.String(required=True, metadata={"format": "date-time"})
    created_at = fields.String(
        data_key="createdAt", required=True, metadata={"format": "date-time"}
    )
    crm_id = fields.String(
        data_key="crmId", metadata={"description": "The note's id in the CRM that has it."}
    )


class NotePageShown(CountedPage):
    document_name = "RecordNotePage"

    results = fields.List(fields.Nested(NoteShown), required=True)


def add_notes(blueprint: Blueprint, kind: Kind, *, read: Callable[..., Any]) -> None:
    """Add the routes for the notes of a kind of records to its blueprint."""
    one, single = kind.singular, kind.singular.capitalize()
    # An erasure deletes notes; no kept answer may have what they say.
    rebuild = Rebuild(_without_text, _with_text, always=True, by_journal=True)
    write = writes(f"{kind.name}:write", rebuild)

    @blueprint.get("/<record:id>/notes")
    @documents(f"listNotesOf{single}", 200, NotePageShown, f"List the notes of a {one}")
    @read
    @blueprint.arguments(schemas.LinkQuery(), location="query")
    def list_notes(query: dict[str, Any], id: str) -> flask.Response:
        records, owner = hub().records, account()
        text = query.get("cursor")
        after = records.cursor(owner, kind, text) if text else None
        limit = query.get("limit") or (after.limit if after else _DEFAULT_LIMIT)
        total, rows, cursor = notes.listed(
            records, owner, kind, number(kind, id), limit=limit, after=after
        )
        shown = orjson.dumps([_shown(row) for row in rows])
        return JsonAnswer(page_frame(shown, cursor, total), headers=record_source())

    @blueprint.post("/<record:id>/notes")
    @documents(
        f"createNoteOf{single}",
        201,
        NoteShown,
        f"Add a note to a {one}",
        others=DEFERRED,
        parameters=[PREFER],
    )
    @write
    @blueprint.arguments(NoteInput())
    def add_note(body: dict[str, Any], id: str) -> flask.Response:
        owner, record_id = account(), number(kind, id)
        text, type = read_note(body["text"], body.get("type", ""))
        author, at = body.get("author", "").strip(), body.get("at", 0)
        if (crm := crm_records()) is not None:
            said = iso(at) if at else ""
            note = AddNote(text, type=type, author=author, at=said)
            action_id = crm.add_note(owner, kind, record_id, note)
            with hub().database.reading() as db:
                entry = timeline.with_mark(db, owner.id, action_id)
            if entry is None:
                raise Deferred(action_id)
        else:
            added = Added(OWN, kind, str(record_id), type, text, at, author)
            entry = notes.add(hub().records, owner, added)
        return as_json(_shown(entry), 201, record_source())

    @blueprint.delete("/<record:id>/notes/<note_id>")
    @documents(f"deleteNoteOf{single}", 204, None, f"Delete a note of a {one}")
    @write
    def delete_note(id: str, note_id: str) -> flask.Response:
        record_id = number(kind, id)
        try:
            note_number = number(kind, note_id)
        except NotFound:
            raise NotFound(f"{single} {id} has no note {note_id[:60]}.") from None
        notes.delete(hub().records, account(), kind, record_id, note_number)
        return nothing()


def _shown(entry: Any) -> dict[str, Any]:
    shown = {
        "id": entry.id,
        "text": entry.text,
        "kind": entry.type,
        "author": entry.author,
        "at": iso(entry.at),
        "createdAt": iso(entry.created_at),
    }
    return {**shown, "crmId": entry.crm_id} if entry.crm_id else shown


def _without_text(answer: Any) -> Any:
    return {**answer, "text": "", "author": ""} if "text" in answer else answer


def _with_text(kept: Any) -> Any:
    """Add what the note says; one that was deleted since then stays without."""
    if "text" not in kept:
        return kept
    with hub().database.reading() as db:
        found = timeline.entries(db, account().id, [kept["id"]])
    return _shown(found[0]) if found else kept
