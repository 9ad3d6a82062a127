"""One person in all that the hub holds of an account: found by what names them, told from others.

Whoever has the same email, or is the same contact of a CRM, is one person. A phone may be shared,
so it never makes two of them one: who has the same phone is listed, for the operator to decide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import sqlalchemy as sa

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.adapter import BadConfig
from crmhub.database import tables
from crmhub.database.connection import Connection, containing
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import action, binding, enrolment, kept_number, possible_duplicate
from crmhub.helpers import sticky_assignments
from crmhub.hub import Hub
from crmhub.identity.bindings import HUB_ID, LONGEST
from crmhub.identity.phones import forms, readings
from crmhub.properties import values
from crmhub.records import erasing

Reading = Literal["id", "contact", "email", "phone", "token"]
READINGS: tuple[Reading, ...] = ("id", "contact", "email", "phone", "token")
_RECORD_ID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
# Nobody was ever named so: neither JSON nor PostgreSQL takes it.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_NOTHING: frozenset[Any] = frozenset()

_binding = binding.c
_OF_BINDINGS = sa.select(
    _binding.connection_id,
    _binding.hub_id,
    _binding.person,
    _binding.contact_token,
    _binding.crm_id,
    _binding.email,
    _binding.phone,
    _binding.last_values,
).where(_binding.account_id == param("account_id"))


def _bound(*where: sa.ColumnElement[bool]) -> Statement:
    order = (_binding.connection_id, _binding.hub_id)
    return Statement(_OF_BINDINGS.where(*where).order_by(*order))


_BY_HUB_ID = _bound(_binding.hub_id == param("hub_id"))
_BY_CRM_ID = _bound(_binding.crm_id == param("crm_id"))
_BY_EMAIL = _bound(_binding.email == param("email"))
_BY_TOKEN = _bound(_binding.contact_token == param("contact_token"))
_BY_PHONE = _bound(in_list(_binding.phone, "phones"))
_HERE_BY_HUB_ID = _bound(
    _binding.connection_id == param("connection_id"), _binding.hub_id == param("hub_id")
)
_HERE_BY_CRM_ID = _bound(
    _binding.connection_id == param("connection_id"), _binding.crm_id == param("crm_id")
)
_BY_VALUE = Statement(_OF_BINDINGS.where(_binding.last_values.like(param("pattern"), escape="!")))

_pair = possible_duplicate.c


def _merged(*where: sa.ColumnElement[bool]) -> Statement:
    return Statement(
        sa.select(_pair.connection_id, _pair.kept_id, _pair.merged_id, _pair.email)
        .where(_pair.account_id == param("account_id"), _pair.kept_id.is_not(None), *where)
        .order_by(_pair.connection_id, _pair.one, _pair.other)
    )


_MERGED_BY_ID = _merged(_pair.merged_id == param("merged_id"))
_MERGED_BY_EMAIL = _merged(_pair.email == param("email"))
_MERGED_HERE = _merged(
    _pair.connection_id == param("connection_id"),
    sa.or_(_pair.merged_id == param("crm_id"), _pair.kept_id == param("crm_id")),
)
_CONNECTIONS = Statement(
    sa.select(tables.connection.c.id)
    .where(tables.connection.c.account_id == param("account_id"))
    .order_by(tables.connection.c.id)
)
_ENROLLED_OR_ACTED = Statement(
    sa.union(
        sa.select(enrolment.c.connection_id).where(
            enrolment.c.account_id == param("account_id"),
            enrolment.c.contact_id == param("crm_id"),
        ),
        sa.select(action.c.connection_id).where(
            action.c.account_id == param("account_id"),
            action.c.person == param("crm_id"),
            action.c.hub_id == param("crm_id"),
        ),
    )
)
_KEPT_NUMBER = Statement(
    sa.select(kept_number.c.contact)
    .where(
        kept_number.c.account_id == param("account_id"),
        kept_number.c.contact == param("contact"),
    )
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Person:
    """What stands for one person.

    `contacts` are ids of the hub's records, archived ones too. The others but `emails` and
    `phones` are pairs with the number of a connection: acquaintances, ids that the connection's
    CRM gave, names for the order of actions, conversations. `said` are further values of theirs.
    """

    contacts: frozenset[int] = _NOTHING
    hub_ids: frozenset[tuple[int, str]] = _NOTHING
    crm_ids: frozenset[tuple[int, str]] = _NOTHING
    persons: frozenset[tuple[int, str]] = _NOTHING
    tokens: frozenset[tuple[int, str]] = _NOTHING
    emails: frozenset[str] = field(default=_NOTHING, repr=False)
    phones: frozenset[str] = field(default=_NOTHING, repr=False)
    said: frozenset[str] = field(default=_NOTHING, repr=False)

    def __or__(self, other: Person) -> Person:
        return Person(*(getattr(self, f.name) | getattr(other, f.name) for f in fields(Person)))

    @property
    def names(self) -> list[str]:
        """Ids by which `contact` or `id` finds them again."""
        ids = [str(id) for id in sorted(self.contacts)]
        ids += [hub_id for _, hub_id in sorted(self.hub_ids)]
        return ids or sorted({crm_id for _, crm_id in self.crm_ids})

    def meets(self, other: Person) -> bool:
        """Return whether both have a record, an acquaintance or a contact of a CRM in common."""
        return self == other or bool(
            self.contacts & other.contacts
            or self.hub_ids & other.hub_ids
            or self.crm_ids & other.crm_ids
        )


class People:
    """Finds the people of an account; every method looks anew through `connection`."""

    def __init__(self, hub: Hub, connection: Connection, account: Account) -> None:
        self._connection = connection
        self._account = account
        self.connections = [row.id for row in self._rows(_CONNECTIONS)]
        self.own = frozenset(it for it in self.connections if self._is_own(hub, it))
        """The connections whose CRM are the hub's own records."""

    def found(self, text: str, reading: Reading) -> list[Person]:
        """Return the people whom a text names when it is read so, each once and whole."""
        if _UNSTORABLE.search(text):
            return []
        seeds = getattr(self, f"_by_{reading}")(text.strip())
        people: list[Person] = []
        for seed in seeds:
            if not any(seed.meets(one) for one in people):
                people.append(self.whole(seed))
        return people

    def others(self, person: Person) -> list[Person]:
        """Return who else has one of the person's phones."""
        found: list[Person] = []
        for seed in self._with_phones(person.phones):
            if not any(seed.meets(one) for one in (person, *found)):
                found.append(self.whole(seed))
        return found

    def whole(self, person: Person) -> Person:
        """Return the person with all that their ids and emails lead to."""
        while (grown := self._grown(person)) != person:
            person = grown
        return person

    def _is_own(self, hub: Hub, number: int) -> bool:
        adapter = accounts.load_connection(self._connection, self._account.id, number).adapter
        try:
            return not hub.registry.load(adapter).remote
        except BadConfig:
            # What cannot be loaded now was another CRM's, as far as anybody can tell.
            return False

    # What leads to somebody.

    def _by_id(self, text: str) -> list[Person]:
        if not _RECORD_ID.fullmatch(text):
            return []
        found = erasing.contacts(self._connection, self._account.id, [int(text)])
        return [Person(frozenset({one.id})) for one in found[:1]]

    def _by_contact(self, text: str) -> list[Person]:
        if text.startswith(HUB_ID):
            return self._bound(_BY_HUB_ID, hub_id=text)
        found = self._bound(_BY_CRM_ID, crm_id=text[:LONGEST])
        rows = self._rows(_ENROLLED_OR_ACTED, crm_id=text)
        found += [self._of_crm(row.connection_id, text) for row in rows]
        found += self._merged(_MERGED_BY_ID, merged_id=text)
        here = [one for one in found if self._is_here(one)]
        return here or found

    def _is_here(self, person: Person) -> bool:
        """Return whether the person is one of the account's present connection."""
        here = self._account.connection.id
        return any(number == here for number, _ in person.crm_ids | person.hub_ids)

    def _by_email(self, text: str) -> list[Person]:
        if "@" not in text:
            return []
        email = values.for_search("email", text)
        seeds = self._bound(_BY_EMAIL, email=email[:LONGEST])
        seeds += self._told("email", {email})
        seeds += self._merged(_MERGED_BY_EMAIL, email=email)
        ids = erasing.contacts_with(self._connection, self._account.id, erasing.EMAILS, {email})
        return seeds + [Person(frozenset({id})) for id in sorted(ids)]

    def _by_phone(self, text: str) -> list[Person]:
        if not any(c.isdigit() for c in text) or "@" in text or text.startswith(HUB_ID):
            return []
        return self._with_phones(set(readings(text, self._account.switches.region)))

    def _by_token(self, text: str) -> list[Person]:
        found = self._bound(_BY_TOKEN, contact_token=text[:LONGEST])
        kept = self._rows(_KEPT_NUMBER, contact=sticky_assignments.of_token(text))
        if kept and not found:
            found = [Person(tokens=frozenset({(self._account.connection.id, text)}))]
        return found

    # What belongs together.

    def _contacts(self, person: Person) -> Person:
        ids = set(person.contacts)
        ids |= {
            int(crm_id)
            for number, crm_id in person.crm_ids
            if number in self.own and _RECORD_ID.fullmatch(crm_id)
        }
        here, account_id = self._connection, self._account.id
        ids |= erasing.contacts_with(here, account_id, erasing.EMAILS, person.emails)
        return _of_records(erasing.contacts(here, account_id, ids), self.own)

    def _bindings(self, person: Person) -> Person:
        found: list[Person] = []
        for number, hub_id in sorted(person.hub_ids):
            found += self._bound(_HERE_BY_HUB_ID, connection_id=number, hub_id=hub_id)
        for number, crm_id in sorted(person.crm_ids):
            found += self._bound(_HERE_BY_CRM_ID, connection_id=number, crm_id=crm_id)
        for email in sorted(person.emails):
            alike = self._bound(_BY_EMAIL, email=email[:LONGEST])
            found += [one for one in alike if one.emails]
        together = Person()
        for one in found:
            together |= one
        return together

    def _grown(self, person: Person) -> Person:
        """Return the person with what their ids and emails lead to in one step."""
        grown = person | self._contacts(person) | self._bindings(person)
        for number, crm_id in sorted(person.crm_ids):
            for one in self._merged(_MERGED_HERE, connection_id=number, crm_id=crm_id):
                grown |= one
        return grown

    # The rows.

    def _with_phones(self, phones: Collection[str]) -> list[Person]:
        """Return who has one of the phones in any form, each row and record by itself."""
        region = self._account.switches.region
        wanted = {form for phone in phones for form in forms(phone, region)}
        if not wanted:
            return []
        found = self._bound(_BY_PHONE, phones=sorted(wanted))
        for name in erasing.PHONES:
            found += self._told(name, wanted)
        here, account_id = self._connection, self._account.id
        ids = erasing.contacts_with(here, account_id, erasing.PHONES, wanted)
        return found + [Person(frozenset({id})) for id in sorted(ids)]

    def _told(self, name: str, texts: Collection[str]) -> list[Person]:
        """Return whose last known value of this property is one of the texts."""
        found = []
        for text in sorted(texts):
            rows = self._rows(_BY_VALUE, pattern=containing(json.dumps(text)))
            found += [
                self._of_binding(row)
                for row in rows
                if json.loads(row.last_values).get(name) == text
            ]
        return found

    def _bound(self, statement: Statement, **params: Any) -> list[Person]:
        return [self._of_binding(row) for row in self._rows(statement, **params)]

    def _merged(self, statement: Statement, **params: Any) -> list[Person]:
        """Return the people of merges: both contacts, with the email that the merge took away."""
        people = []
        for row in self._rows(statement, **params):
            person = self._of_crm(row.connection_id, row.kept_id)
            if row.merged_id:
                person |= self._of_crm(row.connection_id, row.merged_id)
            people.append(person | Person(said=frozenset({row.email} if row.email else ())))
        return people

    def _of_binding(self, row: Any) -> Person:
        number = row.connection_id
        known = self._of_crm(number, row.crm_id) if row.crm_id else Person()
        told: Mapping[str, str] = json.loads(row.last_values or "{}")
        texts = {row.email or "", *told.values()} - {""}
        # By the record: the email of a conversation may since have become somebody else's.
        email = None if self._has_email(known.contacts) else row.email
        return known | Person(
            hub_ids=frozenset({(number, row.hub_id)}),
            persons=frozenset({(number, row.person)}),
            tokens=frozenset({(number, row.contact_token)} if row.contact_token else ()),
            emails=frozenset({email} if email else ()),
            phones=frozenset({row.phone} if row.phone else ()),
            said=frozenset(texts),
        )

    def _has_email(self, ids: Collection[int]) -> bool:
        held = erasing.contacts(self._connection, self._account.id, ids)
        return any(one.properties.get(name) for one in held for name in erasing.EMAILS)

    def _of_crm(self, number: int, crm_id: str) -> Person:
        own = number in self.own and _RECORD_ID.fullmatch(crm_id)
        return Person(
            contacts=frozenset({int(crm_id)} if own else ()),
            crm_ids=frozenset({(number, crm_id)}),
            # What was accepted before the hub knew this contact has its id for the person.
            persons=frozenset({(number, crm_id)}),
        )

    def _rows(self, statement: Statement, **params: Any) -> list[Any]:
        return self._connection.rows(statement, {"account_id": self._account.id, **params})


def _of_records(held: Collection[erasing.Held], own: Collection[int]) -> Person:
    def values_of(*names: str) -> frozenset[str]:
        found = (one.properties.get(name) for one in held for name in names)
        return frozenset(value for value in found if value)

    ids = frozenset((number, str(one.id)) for one in held for number in own)
    return Person(
        contacts=frozenset(one.id for one in held),
        crm_ids=ids,
        persons=ids,
        emails=values_of(*erasing.EMAILS),
        phones=values_of(*erasing.PHONES),
        said=frozenset(value for one in held for value in one.properties.values()),
    )
