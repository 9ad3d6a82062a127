"""The report of an erasure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crmhub.records.associations import Links


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """An erased action whose last attempt may have written to the CRM."""

    action_id: str
    kind: str
    adapter: str


@dataclass(frozen=True, slots=True)
class Erased:
    """The report of an erasure: ids and counts of the erased data, without personal values."""

    contacts: tuple[int, ...] = ()
    archived: tuple[int, ...] = ()
    conversations: int = 0
    actions: Mapping[str, int] = field(default_factory=dict)
    """The number of erased actions by state, including unfinished actions."""
    enrolments: int = 0
    sticky_assignments: int = 0
    duplicates: int = 0
    """The number of erased pairs of possible duplicates, including merged pairs."""
    answers: int = 0
    """The number of erased HTTP responses that were stored for an Idempotency-Key."""
    outage_reasons: int = 0
    """The number of replaced reasons of outages, which contained data of the person."""
    notes: int = 0
    """The number of erased texts on other people's actions: former values, reasons, messages."""
    events: int = 0
    """The number of events that were erased, or in which the person was hidden."""
    linked: Links = field(default_factory=dict)
    """The ids of records that lose their link to the person but are kept, by kind of record."""
    linked_to_nobody_else: Links = field(default_factory=dict)
    """The deals and tickets in `linked` that have no link to another contact."""
    linked_erased: Links = field(default_factory=dict)
    """The ids of erased deals and tickets, by kind of record."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """(adapter, contact id) of the contacts that operators must erase in another CRM."""
    unconfirmed: tuple[Unconfirmed, ...] = ()
    same_phone: tuple[str, ...] = ()
    """The ids of other people who have one of the person's phones."""
    swept: bool = True
    """Whether the deleted data has been removed from the database's files, too."""

    @property
    def nothing(self) -> bool:
        records = (self.contacts, self.archived, self.conversations, self.duplicates)
        calls = (self.actions, self.events, self.notes, self.enrolments, self.sticky_assignments)
        return not any((*records, *calls, self.answers, self.outage_reasons))
