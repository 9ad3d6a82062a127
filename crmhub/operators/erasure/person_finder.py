"""Find all data that the hub has of one person, by an id, email, phone or contactToken.

Data with the same email, or of the same contact in a CRM, belongs to one person. Several people may
share a phone, so data that has only the phone in common is listed separately, and the operator
decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import WHOLE_NAME
from crmhub.adapter import is_record_id
from crmhub.adapter.phone_reading import read_phone
from crmhub.database import tables
from crmhub.database.connection import Connection, containing
from crmhub.database.statements import Statement, equals, in_list, param
from crmhub.database.tables import action, binding, enrolment, kept_number, possible_duplicate
from crmhub.helpers import sticky_assignments
from crmhub.hub import Hub
from crmhub.identity.bindings import HUB_ID, LONGEST
from crmhub.identity.phones import forms, readings
from crmhub.properties import values
from crmhub.records import copied, erasing

Reading = Literal["id", "contact", "email", "phone", "token"]
READINGS: tuple[Reading, ...] = ("id", "contact", "email", "phone", "token")
# Neither JSON nor PostgreSQL can store these, so no data has such a name.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

_BINDINGS = sa.select(binding).where(*equals(binding, "account_id"))
_MERGES = sa.select(
    *(possible_duplicate.c[name] for name in ("connection_id", "kept_id", "merged_id", "email"))
).where(*equals(possible_duplicate, "account_id"), possible_duplicate.c.kept_id.is_not(None))


@cache
def _bindings(*names: str) -> Statement:
    where = equals(binding, *names)
    return Statement(_BINDINGS.where(*where).order_by(binding.c.connection_id, binding.c.hub_id))


@cache
def _merges(*names: str) -> Statement:
    pair = possible_duplicate.c
    where = equals(possible_duplicate, *names)
    return Statement(_MERGES.where(*where).order_by(pair.connection_id, pair.one, pair.other))


_BY_PHONE = Statement(
    _BINDINGS.where(in_list(binding.c.phone, "phones")).order_by(
        binding.c.connection_id, binding.c.hub_id
    )
)
_BY_VALUE = Statement(_BINDINGS.where(binding.c.last_values.like(param("pattern"), escape="!")))
_CONNECTIONS = Statement(
    sa.select(tables.connection.c.id, tables.connection.c.adapter)
    .where(*equals(tables.connection, "account_id"))
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
_STICKY_ASSIGNMENT = Statement(
    sa.select(kept_number.c.contact).where(*equals(kept_number, "account_id", "contact")).limit(1)
)


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


class PersonFinder:
    """Searches the database in every method.

    `adapters`: the adapter's name by connection; `own`: the connections to the hub's records.
    """

    def __init__(self, hub: Hub, connection: Connection, account: Account) -> None:
        self._connection = connection
        self._account = account
        self.adapters = {row.id: row.adapter for row in self._rows(_CONNECTIONS)}
        is_remote = hub.registry.is_remote
        self.own = frozenset(id for id, name in self.adapters.items() if not is_remote(name))

    def find(self, text: str, reading: Reading) -> list[Person]:
        """Return the named persons; "id" is a record's, "contact" a hub id or an id in a CRM."""
        if _UNSTORABLE.search(text):
            return []
        return self._complete_all(getattr(self, f"_by_{reading}")(text.strip()), ())

    def same_phone(self, person: Person) -> list[Person]:
        """Return the other persons who share a phone with `person`, each with all their data."""
        return self._complete_all(self._with_phones(person.phones), (person,))

    def _complete_all(self, parts: Sequence[Person], known: Sequence[Person]) -> list[Person]:
        """Return different persons with all data, without those that overlap with `known`."""
        people: list[Person] = []
        for part in parts:
            if not any(part.overlaps(person) for person in (*known, *people)):
                people.append(self.complete(part))
        return people

    def complete(self, person: Person) -> Person:
        """Add all data of the person: look up ids and emails until nothing new is found."""
        while (grown := self._grow(person)) != person:
            person = grown
        return person

    # By the kind of name.

    def _by_id(self, text: str) -> list[Person]:
        if not is_record_id(text):
            return []
        records = erasing.contacts(self._connection, self._account.id, [int(text)])
        return [Person(frozenset({record.id})) for record in records[:1]]

    def _by_contact(self, text: str) -> list[Person]:
        if text.startswith(HUB_ID):
            return self._bound(hub_id=text)
        found = self._bound(crm_id=text[:LONGEST])
        rows = self._rows(_ENROLLED_OR_ACTED, crm_id=text)
        found += [self._of_crm(row.connection_id, text) for row in rows]
        found += self._merged(merged_id=text)
        here = self._account.connection.id
        current = [
            each for each in found if any(id == here for id, _ in each.crm_ids | each.hub_ids)
        ]
        return current or found

    def _by_email(self, text: str) -> list[Person]:
        if "@" not in text:
            return []
        email = values.for_search("email", text)
        found = self._bound(email=email[:LONGEST])
        found += self._with_value("email", {email})
        found += self._merged(email=email)
        ids = erasing.contacts_with(self._connection, self._account.id, erasing.EMAILS, {email})
        return found + [Person(frozenset({id})) for id in sorted(ids)]

    def _by_phone(self, text: str) -> list[Person]:
        is_phone = read_phone(text) is not None or ("@" not in text and any(map(str.isdigit, text)))
        if not is_phone or text.startswith(HUB_ID):
            return []
        return self._with_phones(set(readings(text, self._account.switches.region, doubtful=True)))

    def _by_token(self, text: str) -> list[Person]:
        found = self._bound(contact_token=text[:LONGEST])
        assignment = self._rows(_STICKY_ASSIGNMENT, contact=sticky_assignments.of_token(text))
        if assignment and not found:
            found = [Person(tokens=frozenset({(self._account.connection.id, text)}))]
        return found

    # What belongs together.

    def _grow(self, person: Person) -> Person:
        """Do one round of look-ups, among contacts, bindings and merges."""
        grown = person | self._contacts_of(person)
        for part in self._bindings_of(person):
            grown |= part
        for connection_id, crm_id in sorted(person.crm_ids):
            for side in ("merged_id", "kept_id"):
                for part in self._merged(**{"connection_id": connection_id, side: crm_id}):
                    grown |= part
        return grown

    def _contacts_of(self, person: Person) -> Person:
        ids = set(person.contacts)
        ids |= {
            int(crm_id)
            for connection_id, crm_id in person.crm_ids
            if connection_id in self.own and is_record_id(crm_id)
        }
        db, account_id, here = self._connection, self._account.id, self._account.connection.id
        ids |= erasing.contacts_with(db, account_id, erasing.EMAILS, person.emails)
        in_crm = {crm_id for connection_id, crm_id in person.crm_ids if connection_id == here}
        # The contacts of a copy of the CRM.
        ids |= erasing.contacts_with(db, account_id, (copied.ID,), in_crm)
        return _of_records(erasing.contacts(db, account_id, ids), self.own, here)

    def _bindings_of(self, person: Person) -> Iterator[Person]:
        for connection_id, hub_id in sorted(person.hub_ids):
            yield from self._bound(connection_id=connection_id, hub_id=hub_id)
        for connection_id, crm_id in sorted(person.crm_ids):
            yield from self._bound(connection_id=connection_id, crm_id=crm_id)
        for email in sorted(person.emails):
            yield from (part for part in self._bound(email=email[:LONGEST]) if part.emails)

    # The rows.

    def _with_phones(self, phones: Collection[str]) -> list[Person]:
        """In any notation; several per person."""
        region = self._account.switches.region
        notations = {form for phone in phones for form in forms(phone, region, doubtful=True)}
        if not notations:
            return []
        found = [self._of_binding(row) for row in self._rows(_BY_PHONE, phones=sorted(notations))]
        for name in erasing.PHONES:
            found += self._with_value(name, notations)
        db, account_id = self._connection, self._account.id
        ids = erasing.contacts_with(db, account_id, erasing.PHONES, notations)
        return found + [Person(frozenset({id})) for id in sorted(ids)]

    def _with_value(self, name: str, texts: Collection[str]) -> list[Person]:
        """Return the bindings whose last value of a property is in `texts`."""
        return [
            self._of_binding(row)
            for text in sorted(texts)
            for row in self._rows(_BY_VALUE, pattern=containing(json.dumps(text)))
            if json.loads(row.last_values).get(name) == text
        ]

    def _bound(self, **values: Any) -> list[Person]:
        """Return the bindings that have these values."""
        return [self._of_binding(row) for row in self._rows(_bindings(*values), **values)]

    def _merged(self, **values: Any) -> list[Person]:
        """Return both ids, and the removed email, of each merge of two contacts."""
        people = []
        for row in self._rows(_merges(*values), **values):
            person = self._of_crm(row.connection_id, row.kept_id)
            if row.merged_id:
                person |= self._of_crm(row.connection_id, row.merged_id)
            people.append(person | Person(values=frozenset({row.email} if row.email else ())))
        return people

    def _of_binding(self, row: Any) -> Person:
        id = row.connection_id
        person = self._of_crm(id, row.crm_id) if row.crm_id else Person()
        last_values: Mapping[str, str] = json.loads(row.last_values or "{}")
        texts = {row.email or "", *last_values.values()} - {""}
        # The record's email counts: since the conversation, its email may belong to another person.
        records = erasing.contacts(self._connection, self._account.id, person.contacts)
        has_email = any(each.properties.get(name) for each in records for name in erasing.EMAILS)
        email = None if has_email else row.email
        return person | Person(
            hub_ids=frozenset({(id, row.hub_id)}),
            persons=frozenset({(id, row.person)}),
            tokens=frozenset({(id, row.contact_token)} if row.contact_token else ()),
            emails=frozenset({email} if email else ()),
            phones=frozenset({row.phone} if row.phone else ()),
            values=frozenset(texts),
            whole_names=_whole_names([last_values]),
        )

    def _of_crm(self, connection_id: int, crm_id: str) -> Person:
        is_own = connection_id in self.own and is_record_id(crm_id)
        return Person(
            contacts=frozenset({int(crm_id)} if is_own else ()),
            crm_ids=frozenset({(connection_id, crm_id)}),
            # Actions accepted before the hub knew this contact have its id as their person.
            persons=frozenset({(connection_id, crm_id)}),
        )

    def _rows(self, statement: Statement, **params: Any) -> list[Any]:
        return self._connection.rows(statement, {"account_id": self._account.id, **params})


def _of_records(records: Collection[erasing.Held], own: Collection[int], here: int) -> Person:
    """`here`: the connection to the CRM of which records may be copies."""

    def values_of(names: Collection[str]) -> frozenset[str]:
        found = (record.properties.get(name) for record in records for name in names)
        return frozenset(value for value in found if value)

    ids = frozenset(
        pair
        for record in records
        for pair in (
            [(here, record.properties[copied.ID])]
            if copied.ID in record.properties
            else [(connection_id, str(record.id)) for connection_id in own]
        )
    )
    return Person(
        contacts=frozenset(record.id for record in records),
        crm_ids=ids,
        persons=ids,
        emails=values_of(erasing.EMAILS),
        phones=values_of(erasing.PHONES),
        values=frozenset(value for record in records for value in record.properties.values()),
        whole_names=_whole_names(record.properties for record in records),
    )


def _whole_names(records: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """Return first and last names together; a single word is many people's."""
    names = {
        each.get(WHOLE_NAME) or f"{each.get('firstname', '')} {each.get('lastname', '')}"
        for each in records
    }
    return frozenset(name.strip() for name in names if " " in name.strip())
