"""An adapter with definitions and marks: it finds records that unanswered creates have made.

Such a record is recognized by its mark, a text that the hub has written into it, or by its values
and its creation time.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

from crmhub.adapter.answers import parse_time, text_of
from crmhub.adapter.contract import Adapter
from crmhub.adapter.definitions import Definitions
from crmhub.adapter.errors import BadConfig, Rejected
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.remembered import HOUR
from crmhub.adapter.values import (
    Changes,
    Contact,
    Described,
    Kind,
    Linked,
    Owner,
    Pipeline,
    Saved,
    Written,
)

# For the rounding of times in headers and records.
_CLOCKS_S = 2.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """`created`: by the CRM's clock, in seconds since 1970."""

    saved: Saved
    created: float
    values: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Create:
    kind: Written
    contact_id: str
    mark: str
    sent: Mapping[str, str] = field(repr=False)
    since_ms: int
    others: Collection[str] = ()


class DefinedAdapter(Adapter):
    """The constructor sets `definitions` and `fitting`."""

    definitions: Definitions
    fitting: Fitting

    def describe(self, kind: Kind) -> list[Described]:
        described = self.definitions.described(kind)
        return [self.fitting.with_options(kind, one) for one in described]

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        return self.definitions.pipelines(kind)

    def check_place(self, kind: Linked, properties: Mapping[str, str]) -> None:
        self.fitting.check_place(kind, properties)

    def owners(self) -> list[Owner]:
        return self.definitions.owners()

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        return super().changes(contact, self.fitting.fitted("contacts", properties))

    @abstractmethod
    def find_create(self, create: Create) -> Saved | None: ...

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        return self.find_create(Create(kind, contact_id, mark, sent, since_ms))

    def find_apart(
        self,
        kind: Linked,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        return self.find_create(Create(kind, contact_id, mark, sent, since_ms, others))


class MarkedAdapter(DefinedAdapter):
    """An account may have a property for marks, maybe unique; the constructor sets `mark_name`."""

    search_lag_s: ClassVar[float] = 60.0
    """For how many seconds the CRM's search may hide a new contact that has no email."""
    mark_name: str

    def mark_to_send(self, kind: Kind, mark: str, *, newer_than: float = HOUR) -> dict[str, str]:
        """Return the mark as a property; empty if the account has no property for marks."""
        known = mark and self.definitions.mark(kind, newer_than=newer_than)
        return {self.mark_name: mark} if known else {}

    def raise_for_mark(self, of: str, sent: Mapping[str, str], refused: Rejected) -> None:
        """Raise BadConfig for a refused mark, without which no unanswered write is found."""
        reasons = [one.reason for one in refused.problems if one.name == self.mark_name]
        if reasons and self.mark_name not in sent:
            raise BadConfig(
                f"{self.title} does not take the hub's mark in {self.mark_name} of {of}:"
                f" {reasons[0]}. Free this property of rules, or name another one in the settings."
            ) from refused

    @abstractmethod
    def find_unique_mark(self, kind: Written, mark: str) -> Saved | None:
        """Return the record with this mark, whose values are unique; None without one."""

    @abstractmethod
    def search_mark(self, mark: str) -> Saved | None:
        """Return a contact with this mark by a search, which may lag; None without one."""

    @abstractmethod
    def candidates(
        self, kind: Linked, contact_id: str, names: Iterable[str], others: Collection[str]
    ) -> Iterable[Candidate]:
        """Yield the contact's deals or tickets except `others`, with the properties `names`."""

    @abstractmethod
    def clock_ahead(self) -> float:
        """Return by how many seconds the CRM's clock is ahead of this machine's."""

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        """Return 0 if the CRM would refuse a second record with the same email or mark."""
        if kind == "contacts" and properties.get("email"):
            return 0.0
        seconds = self.under_way_s + (self.search_lag_s if kind == "contacts" else 0.0)
        # A write that may still show up was sent within the last hour.
        unique, sure = self._marks_since(kind, int((time.time() - HOUR) * 1000))
        return 0.0 if unique and sure else seconds

    def find_create(self, create: Create) -> Saved | None:
        """Return the record that an earlier attempt has made, or None.

        Unless every attempt had a unique mark, a contact is found by its email or phone or by a
        search for the mark, and a deal or ticket among those of the contact.
        """
        kind, mark, sent = create.kind, create.mark, create.sent
        newer = self.definitions.stale_s
        unique, sure = False, False
        if mark:
            unique, sure = self._marks_since(kind, create.since_ms, newer_than=newer)
        created = self.find_unique_mark(kind, mark) if unique else None
        if created or (unique and sure):
            return created
        if kind == "contacts":
            email, phone = sent.get("email", "").lower(), sent.get("phone", "")
            if email or phone:
                contact = self.find_contact(email=email, phone="" if email else phone)
                return Saved(contact.id, "created", contact.url) if contact else None
            return self.search_mark(mark) if sure else None
        # Pipeline and stage are not compared, because an automation may have changed them.
        expected = {self.mark_name: mark} if sure else self.fitting.without_place(kind, sent)
        names = [name for name, value in expected.items() if value]
        found = self.candidates(kind, create.contact_id, names, create.others)
        since = 0.0 if sure else create.since_ms / 1000 + self.clock_ahead() - _CLOCKS_S
        return find_created(found, expected, since=since)

    def _marks_since(
        self, kind: Written, since_ms: int, *, newer_than: float = HOUR
    ) -> tuple[bool, bool]:
        """Return whether marks are unique, and whether every create since `since_ms` has one."""
        found = self.definitions.mark(kind, newer_than=newer_than)
        if found is None:
            return False, False
        unique, changed = found
        # Another process may still use definitions from before the property existed.
        sure = not changed or changed + HOUR < since_ms / 1000 + self.clock_ahead()
        return unique, sure


def find_created(
    candidates: Iterable[Candidate], sent: Mapping[str, str], *, since: float
) -> Saved | None:
    """Return the oldest candidate since `since` (seconds since 1970) with the values `sent`.

    Blank values are not compared, nor the forms of numbers, times and several options.
    """
    expected = {name: value for name, value in sent.items() if value}
    matches = [
        candidate
        for candidate in candidates
        if candidate.created >= since
        and all(_alike(v, text_of(candidate.values.get(n))) for n, v in expected.items())
    ]
    oldest = min(matches, key=lambda match: (match.created, match.saved.id), default=None)
    return None if oldest is None else oldest.saved


def _alike(sent: str, stored: str) -> bool:
    if sent.strip().casefold() == stored.strip().casefold():
        return True
    try:
        return Decimal(sent) == Decimal(stored)
    except InvalidOperation:
        pass
    if parse_time(sent) and parse_time(sent) == parse_time(stored):
        return True
    return ";" in sent and set(sent.split(";")) == set(stored.split(";"))
