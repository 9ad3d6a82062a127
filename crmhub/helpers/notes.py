"""The helper addNote: add a note or the transcript of a conversation to a record's timeline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Described, Kind, Problem, Written, hold_back_update
from crmhub.adapter.coercion import Misfit, coerced
from crmhub.database.connection import Connection
from crmhub.errors import BadRequest, Semantic, shortened
from crmhub.helpers import dispatch
from crmhub.helpers.attempts import Action, Attempt, Done, Mapped, crm_id_of
from crmhub.helpers.contact_properties import binding_of_conversation
from crmhub.helpers.copied_writes import order_of
from crmhub.helpers.create_linked import (
    RIGHT_ID,
    bind_contact,
    identity_of,
    not_found,
    require_possible_id,
)
from crmhub.helpers.inputs import filled, unfilled, usable
from crmhub.helpers.partial_writes import refusal
from crmhub.hub import Hub
from crmhub.identity.chats import note_chat
from crmhub.identity.placeholders import has_only_variables, is_unfilled
from crmhub.properties.kinds import KINDS
from crmhub.properties.values import from_json
from crmhub.queue.models import New
from crmhub.records.timeline import NOTE, OWN, TRANSCRIPT, Added
from crmhub.translatable import named, translatable

LONGEST = 65_536
"""The most characters of a note, and of one message of a transcript."""
MOST_MESSAGES = 2_000
_MOMENT = Described("at", "at", "datetime")
# The second characters of graphemes, which a split must not divide; others are rarer.
_JOINED = re.compile(
    "[\u0300-\u036f\u093c-\u094d\u200d\u20d0-\u20ff\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]"
)
# A longer sequence is no grapheme that people write.
_LONGEST_GRAPHEME = 32
_PART_MS = 1_000
# Names of a message's parts: the hub's own, then those of OpenAI and of builders.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "from": ("from", "role", "sender", "author"),
    "text": ("text", "content", "message", "body"),
    "at": ("at", "timestamp", "time", "date", "created_at", "createdAt"),
}
_RIGHT_RECORD_ID = translatable("send the id of a record of the CRM")


def add_note(hub: Hub, account: Account, note: AddNote, *, key: str) -> Done:
    """An equal note for the same record within a minute is added once, without another key.

    Raises NotFound for an unknown contact or record, and Semantic if the text is blank or the CRM
    has no notes for such records.
    """
    if note.contact_token:
        filled(note.contact_token, "contactToken")
    elif note.of == "contacts":
        require_possible_id(hub, account, note.record_id)
    else:
        note = replace(note, record_id=filled(note.record_id, ID_NAMES[note.of]))
    return dispatch.run(hub, account, note, key=key)


ID_NAMES: Mapping[Written, str] = {
    "contacts": "contactId",
    "deals": "dealId",
    "tickets": "ticketId",
}


@dataclass(frozen=True, slots=True)
class AddNote(Action):
    """`of`: the kind of the record, which `record_id` names, or `contact_token` a contact.

    `at`: when it was said, as the caller wrote it, "" for now. `at` and `author` are None for an
    array or an object.
    """

    kind: ClassVar[str] = "addNote"
    record: ClassVar[Kind] = "contacts"

    text: str
    of: Written = "contacts"
    record_id: str = ""
    contact_token: str = ""
    type: str = NOTE
    at: str | None = ""
    author: str | None = ""

    def enter(self, tx: Connection, account: Account, mapped: Mapped | None) -> New:
        if self.contact_token:
            binding = binding_of_conversation(tx, account, self.contact_token)
            person, hub_id = note_chat(tx, account, binding) or binding.person, binding.hub_id
        elif self.of == "contacts":
            _, hub_id, person = bind_contact(tx, account, self.record_id)
        else:
            # No contact's id: a contact of the CRM may have the same one.
            person, hub_id = order_of(KINDS[self.of], self.record_id), ""
        identity = identity_of(self.kind, self.of, self.type, self.author, self.text)
        return New(self.kind, person, hub_id, asdict(self), identity)

    def mapped(self, account: Account) -> Mapped:
        good, problems = usable({"author": self.author, "at": self.at})
        if "at" in good:
            try:
                coerced(_MOMENT, good["at"], account.switches.reading)
            except Misfit as exc:
                problems.append(Problem("at", str(exc), exc.options))
        return Mapped({}, tuple(problems))

    def check(self, account: Account, adapter: Adapter | None, mapped: Mapped) -> None:
        if account.switches.strict and mapped.refused:
            raise refusal(mapped.refused)
        if adapter is not None and not adapter.can("add_note"):
            raise contract.Unsupported(
                translatable("The %(crm)s adapter cannot add notes.", crm=adapter.title)
            )

    def perform(self, at: Attempt) -> Done:
        self.check(at.account, at.adapter, at.mapped)
        adapter, entry = at.adapter, at.entry
        record_id = crm_id_of(at) if self.of == "contacts" else self.record_id
        refused = {one.name for one in at.mapped.refused}
        at_ms = entry.created_at
        said_at = "" if "at" in refused else self.at or ""
        if moment := coerced(_MOMENT, said_at, at.account.switches.reading):
            at_ms = round(datetime.fromisoformat(moment).timestamp() * 1000)
        author = "" if "author" in refused else (self.author or "").strip()
        # An adapter finds the note of an earlier attempt only once the CRM has it.
        hold_back_update(adapter, entry.written_at)
        text = f"{author}:\n{self.text}" if author and adapter.remote else self.text
        parts = split_text(text, adapter.longest_note)
        ids = []
        for n, part in enumerate(parts):
            mark = f"{entry.id}-{n}" if n else entry.id
            try:
                record_id, saved = self._add(at, record_id, part, at_ms + n * _PART_MS, mark)
            except contract.NotFound as exc:
                right = RIGHT_ID if self.of == "contacts" else _RIGHT_RECORD_ID
                raise not_found(ID_NAMES[self.of], exc.message, right) from exc
            ids.append(saved.id)
        return Done(
            "created",
            contact_id=record_id if self.of == "contacts" else "",
            record_id=ids[0],
            refused=at.mapped.refused,
            added=Added(
                entry.connection_id if adapter.remote else OWN,
                KINDS[self.of],
                record_id,
                self.type,
                self.text,
                at_ms,
                author,
                crm_id=ids[0] if adapter.remote else "",
            ),
        )

    def _add(
        self, at: Attempt, record_id: str, text: str, at_ms: int, mark: str
    ) -> tuple[str, contract.Saved]:
        """Return also the id of the record that has the note now."""
        adapter, of = at.adapter, self.of
        try:
            return record_id, adapter.add_note(of, record_id, text, at_ms=at_ms, mark=mark)
        except contract.NotFound:
            if of != "contacts":
                raise
            # The CRM may have merged the contact into another one.
            found = adapter.get_contact(record_id, [])
            if found.id == record_id:
                raise
            return found.id, adapter.add_note(of, found.id, text, at_ms=at_ms, mark=mark)


def split_text(text: str, longest: int) -> list[str]:
    """Return the text in parts of at most `longest` characters, each numbered if there are several.

    It is divided between lines if possible, else between words, never within a grapheme.
    """
    if len(text) <= longest:
        return [text]
    room = longest - len("(1000/1000)\n")
    parts = list(_parts(text, room))
    return [f"({n}/{len(parts)})\n{part}" for n, part in enumerate(parts, 1)]


def _parts(text: str, room: int) -> Iterator[str]:
    while len(text) > room:
        end = text.rfind("\n", room // 2, room)
        if end < 0:
            end = text.rfind(" ", room // 2, room)
        is_blank = end >= 0
        if not is_blank:
            end = next(
                (n for n in range(room, room - _LONGEST_GRAPHEME, -1) if not _is_joined(text, n)),
                room,
            )
        yield text[:end]
        text = text[end + is_blank :]
    yield text


def _is_joined(text: str, end: int) -> bool:
    """Return whether the characters on both sides of `end` belong to one grapheme."""
    return bool(_JOINED.match(text[end])) or text[end - 1] == "\u200d"


def transcript_text(messages: Sequence[Any]) -> str:
    """Return the messages of a conversation, texts or objects with `from`, `text` and `at`.

    One message a line, such as `Ann (10:15): hello`; those without a text, or with variables only,
    are left out. `from` may be an object with a `name`; a text may be a list of parts with `text`.
    Each part may have another of the names in `_KEYS`. Raises BadRequest for other texts, and if
    no message has a known name of the text.
    """
    if len(messages) > MOST_MESSAGES:
        raise BadRequest(
            "text: %(count)s messages; send at most %(most)s",
            count=len(messages),
            most=MOST_MESSAGES,
        )
    objects = [one if isinstance(one, dict) else {"text": one} for one in messages]
    if objects and not any(_key_of("text", said) for said in objects):
        raise BadRequest(
            "text: no message has a text; send a list of objects with from and text, or with role"
            " and content"
        )
    lines = []
    for index, said in enumerate(objects):
        words = {}
        for name in _KEYS:
            key = _key_of(name, said) or name
            value = name_of(said.get(key, ""))
            if name == "text":
                value = _joined_parts(value)
            if not isinstance(value, dict | list):
                words[name] = from_json(value).strip()
            elif name == "text":
                raise BadRequest(named(f"text[{index}].{key}", translatable("must be a string")))
            else:
                words[name] = ""
        # "None" is an answer that people give.
        empty = {"from": is_unfilled, "text": has_only_variables, "at": is_unfilled}
        words = {name: "" if empty[name](text) else text for name, text in words.items()}
        if words["text"]:
            at = f" ({words['at']})" if words["at"] else ""
            lines.append(f"{words['from']}{at}: ".lstrip(": ") + words["text"])
    return "\n".join(lines)


def _key_of(name: str, message: Mapping[str, Any]) -> str:
    return next((key for key in _KEYS[name] if message.get(key) is not None), "")


def _joined_parts(value: Any) -> Any:
    """Return the texts of a list such as `[{"type": "text", "text": …}]`, else `value`.

    Parts without a text, such as images, are left out.
    """
    if not isinstance(value, list) or not all(isinstance(part, str | dict) for part in value):
        return value
    texts = [part if isinstance(part, str) else part.get("text") for part in value]
    return "\n".join(text for text in texts if isinstance(text, str))


def name_of(value: Any) -> Any:
    """Return the `name` of an object, such as a sender; any other value unchanged."""
    return value.get("name", value) if isinstance(value, dict) else value


def read_note(value: str | Sequence[Any], type: str) -> tuple[str, str]:
    """Return the text of a note and its type; a list is a transcript.

    Raises Semantic for a blank text, a text that is an unreplaced variable, one that is too long,
    and an unknown `type`.
    """
    if type not in ("", NOTE, TRANSCRIPT):
        raise Semantic("kind: %(kind)s is neither note nor transcript", kind=shortened(type))
    text = value if isinstance(value, str) else transcript_text(value)
    if not text.strip():
        raise Semantic("text: it is blank; send what the note says")
    if isinstance(value, str):
        if len(text) > LONGEST:
            raise Semantic(
                "text: %(length)s characters long; send at most %(most)s, or a transcript as a list"
                " of its messages",
                length=len(text),
                most=LONGEST,
            )
        # People write what looks like a variable inside a longer text.
        if is_unfilled(text):
            raise Semantic(named("text", unfilled(text.strip())))
    return text.strip("\n"), type or (NOTE if isinstance(value, str) else TRANSCRIPT)
