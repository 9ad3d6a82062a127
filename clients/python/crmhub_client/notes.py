"""The notes of a record: a part of `Records`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from crmhub_client.operations import Found, Group, Steps, Walk, in_path, new_key, operation, walk
from crmhub_client.results import Kind, RecordNote
from crmhub_client.values import NoteText, time_text


class NoteOperations(Group):
    """The notes of the records of one kind."""

    kind: Kind

    @walk
    def notes(self, id: int) -> Walk[RecordNote]:
        """Iterate over the notes of a record that the hub was sent, the newest `at` first."""
        params = {"limit": "100"}
        while True:
            page: Any = yield from self._api("GET", self._notes(id), params=params)
            yield Found([RecordNote.parse(each) for each in page["results"]])
            if not page["hasMore"]:
                return
            params = {"cursor": page["cursor"]["next"]}

    @operation
    def add_note(
        self,
        id: int,
        text: NoteText,
        *,
        kind: Literal["note", "transcript"] | None = None,
        author: str = "",
        at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[RecordNote]:
        """Add a note to a record and return it.

        `text`: a text, or messages with `from`, `text` and `at`. `kind`: by default a transcript if
        `text` is a list. `at`: when it was said, now by default.
        """
        body: dict[str, Any] = {"text": text, "author": author}
        body |= {} if kind is None else {"kind": kind}
        body |= {} if at is None else {"at": time_text(at)}
        key, path = new_key(idempotency_key), self._notes(id)
        return (yield from self._api("POST", path, body, key=key, parse=RecordNote.parse))

    @operation
    def delete_note(self, id: int, note_id: int) -> Steps[None]:
        """Delete a note of a record. Raises ConflictError for a note that is in a CRM."""
        yield from self._api("DELETE", f"{self._notes(id)}/{in_path(note_id)}")

    def _notes(self, id: int) -> str:
        return f"{self.kind}/{in_path(id)}/notes"
