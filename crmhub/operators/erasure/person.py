"""A person: the keys of all data that the hub takes for the data of one human being."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

_NOTHING: frozenset[Any] = frozenset()


@dataclass(frozen=True, slots=True)
class Person:
    """The keys of data that the hub takes for the data of one human being.

    `contacts` are the ids of the hub's own contacts, including archived contacts. `values` are all
    texts stored about the person, including `emails` and `phones`. `whole_names` are first and last
    names together. These sets contain pairs of a
    connection id and a text:

    - `hub_ids`: a contact id that the hub has issued (`hub-…`);
    - `crm_ids`: a contact id of the CRM;
    - `persons`: the key that orders the actions of a person;
    - `tokens`: a contactToken.
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
        """The ids by which `PersonFinder.find` finds this person again.

        The names are the ids of the hub's own contacts and the ids `hub-…` that the hub has issued.
        If there are none, they are the contact ids in CRMs.
        """
        ids = [str(id) for id in sorted(self.contacts)]
        ids += [hub_id for _, hub_id in sorted(self.hub_ids)]
        return ids or sorted({crm_id for _, crm_id in self.crm_ids})

    def overlaps(self, other: Person) -> bool:
        """Return whether the two persons share a contact of the hub or CRM, or a binding.

        Equal persons overlap, too.
        """
        return self == other or bool(
            self.contacts & other.contacts
            or self.hub_ids & other.hub_ids
            or self.crm_ids & other.crm_ids
        )
