"""The base class of REST adapters whose accounts may have a property for the hub's marks.

The record of an unanswered create is found by its mark, or else by its values and creation time.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

from crmhub.adapter.context import Context
from crmhub.adapter.creates import Candidate, Create, find_created
from crmhub.adapter.errors import BadConfig, Rejected
from crmhub.adapter.remembered import HOUR
from crmhub.adapter.rest_adapter import RestAdapter
from crmhub.adapter.tables import Write
from crmhub.adapter.values import Kind, Linked, Saved

# For the rounding of times in headers and records.
_CLOCKS_S = 2.0


class MarkedAdapter(RestAdapter):
    """A setting names the property for marks, whose values may be unique, or no property."""

    mark_setting: ClassVar[str] = "mark_field"
    search_lag_s: ClassVar[float] = 60.0
    """For how many seconds the CRM's search may hide a new record.

    A contact with an email and the records of a contact are found without it.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.mark_name = context.settings[self.mark_setting]

    # Hooks.

    @abstractmethod
    def find_unique_mark(self, kind: Kind, mark: str) -> Saved | None:
        """Return the record with this mark, whose values are unique; None without one."""

    def search_mark(self, kind: Kind, mark: str) -> Saved | None:
        """Return a record with this mark by a search, which may lag; None without one."""
        return None

    @abstractmethod
    def candidates(
        self, kind: Linked, contact_id: str, names: Iterable[str], others: Collection[str]
    ) -> Iterable[Candidate]:
        """Yield the contact's deals or tickets except `others`, with the properties `names`."""

    @abstractmethod
    def latest(self, kind: Kind, since: float, names: Iterable[str]) -> Iterable[Candidate]:
        """Yield the records created since `since` (seconds since 1970, by the CRM's clock).

        By a search, which may lag for `search_lag_s`.
        """

    def clock_ahead(self) -> float:
        """Return by how many seconds the CRM's clock is ahead of this machine's."""
        return self.http.clock_ahead

    # The hooks of `TableAdapter`, and the contract.

    def before_write(self, write: Write) -> None:
        write.values = self.mark_to_send(write.kind, write.mark) | write.values

    def mark_to_send(self, kind: Kind, mark: str, *, newer_than: float = HOUR) -> dict[str, str]:
        """Return the mark as a property; empty if the account has no property for marks."""
        known = mark and self.definitions.mark(kind, newer_than=newer_than)
        return {self.mark_name: mark} if known else {}

    def raise_for_mark(self, write: Write, refused: Rejected) -> None:
        """Raise BadConfig for a refused mark, without which no unanswered write is found."""
        reasons = [one.reason for one in refused.problems if one.name == self.mark_name]
        if reasons and self.mark_name not in write.sent:
            raise BadConfig(
                f"{self.title} does not take the hub's mark in {self.mark_name} of"
                f" {self.kinds[write.kind].path}: {reasons[0]}."
                " Free this property of rules, or name another one in the settings."
            ) from refused

    def may_land_for(
        self, kind: Kind, properties: Mapping[str, str], *, contact_id: str = ""
    ) -> float:
        """Return 0 if the CRM would refuse a second record with the same email or mark."""
        if kind == "contacts" and properties.get("email") and self.takes_email_once():
            return 0.0
        seconds = self.under_way_s + (0.0 if contact_id else self.search_lag_s)
        # A write that may still show up was sent within the last hour.
        unique, sure = self._marks_since(kind, int((time.time() - HOUR) * 1000))
        return 0.0 if unique and sure else seconds

    def find_create(self, create: Create) -> Saved | None:
        """Return the record that an earlier attempt has made, or None.

        Unless every attempt had a unique mark, a contact is found by its email, a deal or ticket
        among those of its contact, and any other record by a search for the mark, or else for its
        values among the latest records.
        """
        kind, mark, sent = create.kind, create.mark, create.sent
        unique, sure = False, False
        if mark:
            newer = self.definitions.stale_s
            unique, sure = self._marks_since(kind, create.since_ms, newer_than=newer)
        created = self.find_unique_mark(kind, mark) if unique else None
        if created or (unique and sure):
            return created
        since = create.since_ms / 1000 + self.clock_ahead() - _CLOCKS_S
        email = sent.get("email", "").lower() if kind == "contacts" else ""
        if email and (self.search_lag_s or not sure):
            return self._of_email(email, since, create.others)
        if sure and not create.contact_id:
            return self.search_mark(kind, mark)
        # Pipeline and stage are not compared, because an automation may have changed them.
        expected = {self.mark_name: mark} if sure else self.fitting.without_place(kind, sent)
        names = [name for name, value in expected.items() if value]
        if create.contact_id and kind in ("deals", "tickets"):
            found = self.candidates(kind, create.contact_id, names, create.others)
            return find_created(found, expected, since=0.0 if sure else since)
        latest = self.latest(kind, since, names)
        others = (one for one in latest if one.saved.id not in create.others)
        return find_created(others, expected, since=since)

    def _of_email(self, email: str, since: float, others: Collection[str]) -> Saved | None:
        """Return the contact with an email if it was created since, and is not one of `others`."""
        contact = self.find_contact(email=email)
        if contact is None or contact.id in others:
            return None
        created = self.read(contact.id, ()).get(self.kinds["contacts"].created)
        return Saved(contact.id, "created", contact.url) if self.seconds(created) >= since else None

    def _marks_since(
        self, kind: Kind, since_ms: int, *, newer_than: float = HOUR
    ) -> tuple[bool, bool]:
        """Return whether marks are unique, and whether every create since `since_ms` has one."""
        found = self.definitions.mark(kind, newer_than=newer_than)
        if found is None:
            return False, False
        unique, changed = found
        # Another process may still use definitions from before the property existed.
        sure = not changed or changed + HOUR < since_ms / 1000 + self.clock_ahead()
        return unique, sure
