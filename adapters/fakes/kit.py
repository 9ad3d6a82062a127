"""A fake CRM as crmhub's conformance tests read and change it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Self

from adapters.fakes.answers import Refused
from adapters.fakes.fake import Fake


class KitCrm:
    """Serves a fake, and shows its records under crmhub's names, with texts as values.

    `conflict` is raised for a contact that the fake refuses: `crmhub.adapter.Conflict`.
    """

    fake: Any

    def __init__(self, fake: Fake, conflict: type[Exception] = Refused) -> None:
        self.fake, self._conflict = fake, conflict

    def __enter__(self) -> Self:
        self.fake.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.fake.stop()

    @property
    def url(self) -> str:
        """The base URL of the fake."""
        return str(self.fake.url)

    def add_contact(self, properties: Mapping[str, str]) -> str:
        """Create a contact; return its id."""
        try:
            return str(self.fake.add("contacts", self.fake.own_names("contacts", properties)))
        except Refused as exc:
            raise self._conflict(str(exc)) from exc

    def add_email(self, contact_id: str, email: str) -> bool:
        """Add a further email to a contact; return False if the CRM has no list of emails."""
        own = self.fake.own_names("contacts", {"email": email})
        added = {name: value for name, value in own.items() if value and isinstance(value, list)}
        with self.fake.lock:
            contact = self.fake.stored("contacts")[contact_id]
            for name, values in added.items():
                self.fake.update(contact, {name: [*(contact.properties.get(name) or ()), *values]})
            contact.index()
        return bool(added)

    def make_older(self, seconds: int) -> None:
        """Date all records back, their creation and their last change."""
        with self.fake.lock:
            for kind in self.fake.kinds:
                for record in self.fake.stored(kind).values():
                    record.created_at -= seconds * 1000
                    record.updated_at -= seconds * 1000
                    record.index()

    def contacts(self) -> Mapping[str, Mapping[str, str]]:
        """Return the properties of all contacts, by id."""
        return self.shown("contacts")

    def delete_contact(self, contact_id: str) -> None:
        """Delete a contact."""
        self.fake.delete("contacts", contact_id)

    def linked(self, kind: str, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        """Return the properties of a contact's deals or tickets, by id."""
        shown = self.shown(kind)
        return {id_: shown[id_] for id_ in self.fake.linked("contacts", contact_id, kind)}

    def count(self, kind: str) -> int:
        """Return the number of records of a kind."""
        return len(self.shown(kind))

    def shown(self, kind: str) -> dict[str, dict[str, str]]:
        """Return all records of a kind, by id."""
        with self.fake.lock:
            return {
                id_: {
                    name: to_text(value)
                    for name, value in self.fake.hub_names(kind, record).items()
                }
                for id_, record in self.fake.stored(kind).items()
            }


class LaggingKitCrm(KitCrm):
    """A fake whose searches can lag behind writes, which the tests try, too."""

    @property
    def search_lag(self) -> float:
        """Seconds until a search sees a change."""
        return float(self.fake.search_lag)

    @search_lag.setter
    def search_lag(self, seconds: float) -> None:
        self.fake.search_lag = seconds


def to_text(value: Any) -> str:
    """Return a value as crmhub writes it; of a link, the id."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case list():
            return ";".join(map(to_text, value))
        case dict():
            return to_text(value.get("id"))
        case float():
            text = f"{Decimal(str(value)):f}"
            return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)
