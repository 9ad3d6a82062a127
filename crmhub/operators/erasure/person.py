"""A person: the keys of all data that the hub takes for the data of one human being."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

_NOTHING: frozenset[Any] = frozenset()


@dataclass(frozen=True, slots=True)
class Person:
    """The keys of data that the hub takes for the data of one human being.

    `contacts`: the hub's own, live and archived. `values`: all texts stored about the person.
    `whole_names`: first and last names together. The pairs are of a connection id and a text:
    `hub_ids` have ids that the hub has issued (`hub-…`), `persons` the key that orders the person's
    actions.
    """

    contacts: frozenset[int] = _NOTHING
    hub_ids: frozenset[tuple[int, str]] = _NOTHING
    crm_ids: frozenset[tuple[int, str]] = _NOTHING
    persons: frozenset[tuple[int, str]] = _NOTHING
    tokens: frozenset[tuple[int, str]] = _NOTHING
    emails: frozenset[str] = field(default=_NOTHING, repr=False)
    phones: frozenset[str] = field(default=_NOTHING, repr=False)
    values: frozenset[str] = field(default=_NOTHING, repr=False)
    whole_names: frozenset[str] = field(default=_NOTHING, repr=False)

    def __or__(self, other: Person) -> Person:
        return Person(*(getattr(self, f.name) | getattr(other, f.name) for f in fields(Person)))

    @property
    def names(self) -> list[str]:
        """The ids by which `PersonFinder.find` finds this person again; at last, ids in CRMs."""
        ids = [str(id) for id in sorted(self.contacts)]
        ids += [hub_id for _, hub_id in sorted(self.hub_ids)]
        return ids or sorted({crm_id for _, crm_id in self.crm_ids})

    def overlaps(self, other: Person) -> bool:
        return self == other or bool(
            self.contacts & other.contacts
            or self.hub_ids & other.hub_ids
            or self.crm_ids & other.crm_ids
        )
