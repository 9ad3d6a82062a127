"""A CRM that is a file of SQLite: an adapter of somebody else's, without HTTP.

A column takes what the hub calls by its name; there are no other properties.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import ClassVar

from crmhub.adapter import (
    Adapter,
    Conflict,
    Contact,
    Linked,
    NotFound,
    Problem,
    Rejected,
    Saved,
    Setting,
    Unavailable,
    Unsupported,
)
from crmhub.adapter.phones import same

NAMES = {
    "contacts": ("email", "phone", "firstname", "lastname"),
    "deals": ("dealname", "amount", "pipeline", "dealstage"),
}
SCHEMA = """
create table if not exists contacts (id integer primary key autoincrement,
  email text collate nocase unique, phone text, firstname text, lastname text);
create table if not exists deals (id integer primary key autoincrement,
  contact_id integer not null, dealname text, amount text, pipeline text, dealstage text);
"""


class CardfileAdapter(Adapter):
    """Contacts and deals in a file; it has no tickets."""

    title = "Card file"
    linked_kinds: ClassVar[Mapping[Linked, str]] = {"deals": ""}
    settings = (Setting("path", "Path of the file", required=True),)
    # A transaction that is cut off is rolled back: no write takes effect late.
    under_way_s = 0.0

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        with self._file() as file:
            for card in file.execute("select * from contacts order by id"):
                if (card["email"] or "").lower() == email if email else _has(card, phone):
                    return _contact(card, names)
        return None

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        with self._file() as file:
            return _contact(_card(file, contact_id), names)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        with self._file() as file:
            return Saved(_insert(file, "contacts", properties), "created")

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        _check("contacts", properties)
        changes = ", ".join(f"{name} = :{name}" for name in properties)
        values = {name: value or None for name, value in properties.items()}
        with self._file() as file:
            id = _card(file, contact_id)["id"]
            file.execute(f"update contacts set {changes} where id = :id", {**values, "id": id})
        return Saved(contact_id, "updated")

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        if kind == "tickets":
            raise Unsupported(f"{self.title} has no tickets.")
        with self._file() as file:
            id = _card(file, contact_id)["id"]
            return Saved(_insert(file, "deals", properties, contact_id=id), "created")

    @contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction; what fails in it has written nothing."""
        timeout = self.context.remaining()
        try:
            with closing(sqlite3.connect(self.context.settings["path"], timeout=timeout)) as file:
                file.row_factory = sqlite3.Row
                file.executescript(SCHEMA)
                with file:
                    yield file
        except sqlite3.IntegrityError:
            raise Conflict("Another card has this email.") from None
        except sqlite3.OperationalError as exc:
            raise Unavailable(f"The file cannot be used: {exc}.") from None


def _has(card: sqlite3.Row, phone: str) -> bool:
    return card["phone"] is not None and same(phone, card["phone"])


def _contact(card: sqlite3.Row, names: Sequence[str]) -> Contact:
    held = {name: card[name] or "" for name in names if name in NAMES["contacts"]}
    return Contact(str(card["id"]), held)


def _card(file: sqlite3.Connection, contact_id: str) -> sqlite3.Row:
    id = contact_id if contact_id.isascii() else ""
    found = file.execute("select * from contacts where cast(id as text) = ?", (id,)).fetchone()
    if found is None:
        raise NotFound(f"There is no card {contact_id[:60]!r}")
    card: sqlite3.Row = found
    return card


def _check(kind: str, properties: Mapping[str, str]) -> None:
    unknown = [name for name in properties if name not in NAMES[kind]]
    if unknown:
        known = ", ".join(NAMES[kind])
        raise Rejected([Problem(name, f"a card has only {known}") for name in unknown])


def _insert(file: sqlite3.Connection, kind: str, properties: Mapping[str, str], **more: int) -> str:
    _check(kind, properties)
    values = {**{name: value or None for name, value in properties.items()}, **more}
    names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    try:
        made = file.execute(f"insert into {kind} ({names}) values ({places})", values)
    except sqlite3.IntegrityError:
        email = properties.get("email")
        holder = file.execute("select id from contacts where email = ?", (email,)).fetchone()
        raise Conflict(
            "Another card has this email.", existing_id=str(holder["id"]), name="email"
        ) from None
    return str(made.lastrowid)
