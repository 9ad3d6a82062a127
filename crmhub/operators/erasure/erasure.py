"""The database transaction that erases a person, the data of one human being."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from crmhub import idempotency
from crmhub.accounts.accounts import Account
from crmhub.database.advisory_locks import hold
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, equals, in_list, one_of, param
from crmhub.database.tables import action, binding, outage
from crmhub.events import recording
from crmhub.helpers import sticky_assignments
from crmhub.helpers.copied_writes import order_of
from crmhub.helpers.create_lead import lease_key
from crmhub.helpers.create_linked import CreateDeal, CreateTicket
from crmhub.hub import Hub
from crmhub.identity import possible_duplicates
from crmhub.identity.bindings import LONGEST
from crmhub.operators.erasure import mentions
from crmhub.operators.erasure.mentions import Texts
from crmhub.operators.erasure.person_finder import Person, PersonFinder
from crmhub.operators.failures import fix_group
from crmhub.operators.files import import_jobs
from crmhub.properties import catalogue
from crmhub.properties.kinds import CONTACTS, DEALS, KINDS, TICKETS, Kind
from crmhub.queue import action_events, leases
from crmhub.queue.models import as_result
from crmhub.records import copied, erasing, marks, timeline
from crmhub.records.associations import Links
from crmhub.records.record_events import subject_of
from crmhub.records.search.filters import iso

# Shorter texts occur in texts about anybody.
_SHORTEST_TEXT = 3
_NEW_OUTAGE_REASON = "The CRM is unavailable."
_NEW_DISCARD_REASON = "The reason named a person who was erased."

_ACTIONS_OF_PERSON = sa.select(
    action.c.id,
    action.c.state,
    action.c.kind,
    action.c.connection_id,
    action.c.doubt_since,
    action.c.result,
).where(
    action.c.account_id == param("account_id"),
    in_list(action.c.person, "persons"),
    in_list(action.c.hub_id, "hub_ids"),
    in_list(action.c.connection_id, "connection_ids"),
)
_ACTIONS = Statement(_ACTIONS_OF_PERSON)
_UNFINISHED_ACTIONS = Statement(_ACTIONS_OF_PERSON.where(action.c.finished_at.is_(None)))
_LOCK_UNFINISHED_ACTIONS = Statement(
    _ACTIONS_OF_PERSON.where(action.c.finished_at.is_(None)).order_by(action.c.id).with_for_update()
)
_CREATED = {one.kind: KINDS[one.record] for one in (CreateDeal, CreateTicket)}
_FAIL_BLOCKED = Statement(
    sa.update(action)
    .where(
        action.c.account_id == param("account_id"),
        one_of(action.c.state, "parked"),
        in_list(action.c.behind, "failed"),
    )
    .values(state="dead", behind=sa.null(), reason="What it waited behind was erased.")
)
_LOCK_BINDINGS = Statement(
    sa.select(binding.c.hub_id)
    .where(binding.c.account_id == param("account_id"), in_list(binding.c.hub_id, "hub_ids"))
    .order_by(binding.c.connection_id, binding.c.hub_id)
    .with_for_update()
)
_HUB_IDS_OF_PERSON = Statement(
    sa.select(binding.c.hub_id).where(*equals(binding, "account_id", "connection_id", "person"))
)


_OUTAGE_REASONS = Texts(outage.c.reason)
_ACTION_VERSIONS = Texts(action.c.versions, action.c.versions.is_not(None))
_DISCARD_REASONS = Texts(
    action.c.reason,
    # As in the condition of a partial index.
    one_of(action.c.state, "refused", "dead", "parked", "discarded"),
    one_of(action.c.state, "discarded"),
)


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """An erased action whose last attempt may have written to the CRM."""

    action_id: str
    kind: str
    adapter: str


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased: ids and counts, without personal values."""

    contacts: tuple[int, ...] = ()
    archived: tuple[int, ...] = ()
    conversations: int = 0
    actions: Mapping[str, int] = field(default_factory=dict)
    enrolments: int = 0
    sticky_assignments: int = 0
    duplicates: int = 0
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
    elsewhere: tuple[tuple[str, str], ...] = ()
    """(adapter, contact id) of the contacts that operators must erase in another CRM."""
    unconfirmed: tuple[Unconfirmed, ...] = ()
    same_phone: tuple[str, ...] = ()
    """The ids of other people who have one of the person's phones."""
    swept: bool = True

    @property
    def nothing(self) -> bool:
        records = (self.contacts, self.archived, self.conversations, self.duplicates)
        calls = (self.actions, self.events, self.notes, self.enrolments, self.sticky_assignments)
        return not any((*records, *calls, self.answers, self.outage_reasons))


class Erasure:
    """The transaction that erases one person; `person` needs only one key of their data."""

    def __init__(self, hub: Hub, tx: Connection, account: Account, person: Person) -> None:
        self._tx = tx
        self._account = account
        self._finder = PersonFinder(hub, tx, account)
        self._person = self._finder.complete(person)

    def run(self, *, with_linked: bool) -> Erased:
        """Delete all data, with `with_linked` also deals and tickets of no other contact."""
        self._lock_all()
        person, tx, account_id = self._person, self._tx, self._account.id
        contacts = erasing.contacts(tx, account_id, person.contacts)
        ids = {contact.id for contact in contacts}
        others = self._finder.same_phone(person)
        same_phone = tuple(name for other in others for name in other.names)
        actions = self._actions(_ACTIONS)
        self._delete_actions(actions)
        linked = erasing.linked(tx, account_id, CONTACTS, ids)
        linked.pop(CONTACTS.name, None)
        exclusive = self._linked_to_nobody_else(linked, ids)
        erased = exclusive if with_linked else {}
        records = [*contacts]
        # Before the records: what is told of their end stays, without their data.
        events = recording.erase(tx, account_id, self._event_subjects(ids, erased))
        events += self._erase_timeline(CONTACTS, contacts)
        for connection_id, kind, id in self._created_in_crms(actions):
            actions += self._delete_writes_of(connection_id, kind, id)
            timeline.erase(tx, account_id, connection_id, kind, [id])
            subject = timeline.subject_of(connection_id, kind, id)
            events += recording.erase(tx, account_id, {subject})
        for name, record_ids in {CONTACTS.name: sorted(ids), **erased}.items():
            kind = KINDS[name]
            if kind != CONTACTS:
                held = erasing.records(tx, account_id, kind, record_ids)
                records += held
                actions += self._delete_writes(kind, held)
                events += self._erase_timeline(kind, held)
            properties = catalogue.load(tx, account_id, kind)
            erasing.erase(tx, properties, record_ids, now=now_ms())
            marks.erase(tx, account_id, kind, record_ids)
        noted = self._replace_texts(_ACTION_VERSIONS, None)
        noted += self._replace_texts(_DISCARD_REASONS, _NEW_DISCARD_REASON)
        mentions_noted, mentions_told = mentions.hide(tx, account_id, self._identifying(others))
        import_jobs.erase(tx, account_id)
        fix_group.erase(tx, account_id)
        leases.forget(tx, account_id, [lease_key(phone) for phone in person.phones])
        created = {(record.id, iso(record.created_at)) for record in records}
        kept = {
            name: sorted({*record_ids} - {*erased.get(name, ())})
            for name, record_ids in linked.items()
        }
        return Erased(
            contacts=tuple(contact.id for contact in contacts if not contact.archived),
            archived=tuple(contact.id for contact in contacts if contact.archived),
            actions=Counter(action.state for action in actions),
            events=events + mentions_told,
            unconfirmed=self._unconfirmed(actions),
            enrolments=self._delete("enrolment", "contact_id", self._contact_ids()),
            sticky_assignments=self._delete_sticky_assignments(),
            duplicates=possible_duplicates.erase(tx, self._account, self._contact_ids()),
            answers=idempotency.erase(tx, account_id, records=created, texts=self._texts(records)),
            outage_reasons=self._replace_texts(_OUTAGE_REASONS, _NEW_OUTAGE_REASON),
            notes=noted + mentions_noted,
            conversations=self._delete("binding", "hub_id", person.hub_ids),
            linked={name: record_ids for name, record_ids in kept.items() if record_ids},
            linked_to_nobody_else={} if with_linked else exclusive,
            linked_erased=erased,
            elsewhere=self._elsewhere(),
            same_phone=same_phone,
        )

    def _lock_all(self) -> None:
        """Lock all data that helpers could write for the person, and complete `self._person`.

        After each round of locks the data is searched again, until nothing new is found. Locks are
        taken in the same order as in helper calls, so that few transactions deadlock.
        """
        account, tx = self._account, self._tx
        tx.hold(account.id, exclusive=True)
        while True:
            person = self._person
            for connection_id in self._finder.adapters:
                for name, values in (
                    ("token", {token for id, token in person.tokens if id == connection_id}),
                    ("email", {email[:LONGEST] for email in person.emails}),
                    ("phone", {phone[:LONGEST] for phone in person.phones}),
                    ("contact", {crm_id for id, crm_id in person.crm_ids if id == connection_id}),
                ):
                    for value in sorted(values):
                        hold(tx, account.id, connection_id, name, value)
            unfinished = self._actions(_LOCK_UNFINISHED_ACTIONS)
            if tx.dialect == "postgresql":
                hub_ids = sorted({hub_id for _, hub_id in person.hub_ids})
                tx.rows(_LOCK_BINDINGS, {"account_id": account.id, "hub_ids": hub_ids})
            for _, value in sorted(person.persons):
                hold(tx, account.id, "person", value)
            own = [row.id for row in unfinished if row.connection_id in self._finder.own]
            created = marks.close(tx, account.id, own)
            self._person = self._finder.complete(person | Person(contacts=frozenset(created)))
            # Whatever was written before the locks may have led to more data.
            waiting = self._actions(_UNFINISHED_ACTIONS)
            if self._person == person and len(waiting) == len(unfinished):
                return

    def _contact_ids(self) -> set[tuple[int, str]]:
        """Return (connection id, contact id) for all CRMs and the hub's own contacts."""
        contacts, own = self._person.contacts, self._finder.own
        return {(id, str(contact)) for contact in contacts for id in own} | self._person.crm_ids

    def _event_subjects(self, ids: Iterable[int], linked: Links) -> set[str]:
        erased = {CONTACTS.name: list(ids), **linked}
        calls = self._person.hub_ids | self._contact_ids()
        return {
            subject_of(KINDS[name], id) for name, record_ids in erased.items() for id in record_ids
        } | {action_events.subject_of(*contact) for contact in calls}

    def _actions(self, statement: Statement) -> list[Any]:
        ids = self._person.hub_ids | self._contact_ids()
        if not ids:
            return []
        return self._tx.rows(
            statement,
            {
                "account_id": self._account.id,
                "persons": sorted({person for _, person in self._person.persons}),
                "hub_ids": sorted({id for _, id in ids}),
                "connection_ids": sorted({connection_id for connection_id, _ in ids}),
            },
        )

    def _unconfirmed(self, actions: Sequence[Any]) -> tuple[Unconfirmed, ...]:
        return tuple(
            Unconfirmed(row.id, row.kind, self._finder.adapters[row.connection_id])
            for row in sorted(actions)
            if row.doubt_since
            and row.state not in ("done", "refused")
            and row.connection_id not in self._finder.own
        )

    def _delete_actions(self, rows: Sequence[Any]) -> None:
        """Delete actions; other people's actions that a deleted one blocked become failed."""
        account_id = self._account.id
        keys = sorted((account_id, row.id) for row in rows)
        self._tx.delete("action_try", {"account_id": "int", "action_id": "text"}, keys)
        self._tx.delete("team_assignment", {"account_id": "int", "action_id": "text"}, keys)
        self._tx.delete("action", {"account_id": "int", "id": "text"}, keys)
        if failed := [row.id for row in rows if row.state == "dead"]:
            # They are of others who share a phone, and nothing else would ever unblock them.
            self._tx.run(_FAIL_BLOCKED, {"account_id": account_id, "failed": failed})
        if rows:
            # Other actions may have waited for these.
            self._tx.notify_workers()

    def _created_in_crms(self, actions: Sequence[Any]) -> list[tuple[int, Kind, str]]:
        """Return (connection id, kind, id) of the deals and tickets that the actions created."""
        created = {
            (row.connection_id, row.kind, (as_result(row.result) or {}).get("record_id", ""))
            for row in actions
            if row.kind in _CREATED and row.connection_id not in self._finder.own
        }
        return [(place, _CREATED[kind], id) for place, kind, id in sorted(created) if id]

    def _delete_writes_of(self, connection_id: int, kind: Kind, id: str) -> list[Any]:
        where = {
            "account_id": self._account.id,
            "persons": [order_of(kind, id)],
            "hub_ids": ["", id],
            "connection_ids": [connection_id],
        }
        found = self._tx.rows(_ACTIONS, where)
        self._delete_actions(found)
        return found

    def _delete_writes(self, kind: Kind, records: Sequence[erasing.Held]) -> list[Any]:
        """Delete and return the writes of records by programs, and of their notes."""
        own, found = self._finder.own, list[Any]()
        for connection_id in sorted({self._account.connection.id, *own}):
            ids = [
                str(one.id) if connection_id in own else one.properties.get(copied.ID, "")
                for one in records
            ]
            for id in sorted({*ids} - {""}):
                found += self._delete_writes_of(connection_id, kind, id)
        return found

    def _erase_timeline(self, kind: Kind, records: Sequence[erasing.Held]) -> int:
        """Delete the notes and tasks of records, also those in a CRM; count the events of these."""
        here, tx, account_id = self._account.connection.id, self._tx, self._account.id
        places = {(timeline.OWN, str(one.id)) for one in records}
        places |= {(here, one.properties.get(copied.ID, "")) for one in records}
        places |= self._person.crm_ids if kind == CONTACTS else set()
        for connection_id in sorted({id for id, _ in places}):
            ids = [record_id for id, record_id in places if id == connection_id]
            timeline.erase(tx, account_id, connection_id, kind, ids)
        subjects = {timeline.subject_of(id, kind, record_id) for id, record_id in places}
        return recording.erase(tx, account_id, subjects)

    def _delete(self, table: str, column: str, pairs: Iterable[tuple[int, str]]) -> int:
        rows = [(self._account.id, *pair) for pair in sorted(pairs)]
        return self._tx.delete(
            table, {"account_id": "int", "connection_id": "int", column: "text"}, rows
        )

    def _delete_sticky_assignments(self) -> int:
        person = self._person
        keys = {sticky_assignments.of_token(token) for _, token in person.tokens}
        ids = person.hub_ids | self._contact_ids()
        keys |= {sticky_assignments.of_id(connection_id, id) for connection_id, id in ids}
        keys |= {
            sticky_assignments.of_person(connection_id, name)
            for connection_id, name in person.persons
            if not self._is_shared(connection_id, name)
        }
        rows = [(self._account.id, key) for key in sorted(keys)]
        return self._tx.delete("kept_number", {"account_id": "int", "contact": "text"}, rows)

    def _is_shared(self, connection_id: int, name: str) -> bool:
        """Whether others have this person key, such as people with the same phone."""
        key = {"account_id": self._account.id, "connection_id": connection_id, "person": name}
        rows = self._tx.rows(_HUB_IDS_OF_PERSON, key)
        return any((connection_id, row.hub_id) not in self._person.hub_ids for row in rows)

    def _replace_texts(self, texts: Texts, new: str | None) -> int:
        """Replace the texts that contain data of the person; return their number."""
        personal = [text.casefold() for text in self._texts(())]

        def change(text: str) -> str | None:
            return new if any(part in text.casefold() for part in personal) else text

        return mentions.replace(self._tx, self._account.id, texts, change)

    def _texts(self, records: Iterable[erasing.Held]) -> set[str]:
        """Texts of at least three characters that mark other texts as the person's."""
        person = self._person
        texts = {token for _, token in person.tokens}
        texts |= person.emails | person.phones | person.values
        texts |= {value for record in records for value in record.properties.values()}
        return {text for text in texts if len(text) >= _SHORTEST_TEXT}

    def _identifying(self, others: Iterable[Person]) -> set[str]:
        """The emails, phones, tokens and whole names that people with the phone lack."""
        person = self._person
        texts = {*person.emails, *person.phones, *person.whole_names}
        texts |= {token for _, token in person.tokens}
        texts |= {value for value in person.values if "@" in value}
        for other in others:
            texts -= other.emails | other.phones | other.whole_names
        # Messages also show a number by its digits alone.
        texts |= {text.removeprefix("+") for text in texts}
        return {text for text in texts if len(text) >= _SHORTEST_TEXT}

    def _linked_to_nobody_else(self, linked: Links, ids: set[int]) -> Links:
        exclusive: Links = {}
        for kind in (DEALS, TICKETS):
            for id in linked.get(kind.name, []):
                contacts = erasing.linked(self._tx, self._account.id, kind, [id])[CONTACTS.name]
                if ids >= {*contacts}:
                    exclusive.setdefault(kind.name, []).append(id)
        return exclusive

    def _elsewhere(self) -> tuple[tuple[str, str], ...]:
        adapters, own = self._finder.adapters, self._finder.own
        return tuple(
            (adapters[id], crm) for id, crm in sorted(self._person.crm_ids) if id not in own
        )
