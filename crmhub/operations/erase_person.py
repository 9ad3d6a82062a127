"""Erasing a person: whatever the hub holds of them goes for good, and what waits is not sent.

A remote CRM is not touched. The hub's own records are, also where they are the account's CRM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from crmhub import audit, idempotency
from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.database.advisory_locks import hold
from crmhub.database.connection import (
    Connection,
    Database,
    now_ms,
)
from crmhub.errors import BadRequest, Conflict, Unavailable
from crmhub.helpers import sticky_assignments as kept_numbers
from crmhub.helpers.create_lead import lease_key
from crmhub.helpers.inputs import shortened
from crmhub.hub import Hub
from crmhub.identity import possible_duplicates as duplicates
from crmhub.identity.bindings import LONGEST
from crmhub.journal import leases
from crmhub.operations.person_finder import (
    READINGS,
    People,
    Person,
    Reading,
)
from crmhub.properties import catalogue
from crmhub.properties.kinds import (
    CONTACTS,
    DEALS,
    KINDS,
    TICKETS,
)
from crmhub.records import erasing, marks
from crmhub.records.associations import Links
from crmhub.records.search.filters import iso

# A shorter text says nothing of anybody.
_SHORTEST = 3
_TABLES = (
    "records, archived_record, ix_text, ix_num, ix_date, unique_value, association, binding,"
    " enrolment, kept_number, action, action_try, idempotency, outage, lease, mark,"
    " possible_duplicate"
)
_UNAVAILABLE = "The CRM is away."
_NAMED = "The reason named a person who was erased."
# The first half is that of a partial index.
_DISCARDED = "state in ('refused', 'dead', 'parked', 'discarded') and state = 'discarded'"


@dataclass(frozen=True, slots=True)
class Unsettled:
    """An action that may have reached the CRM all the same, as far as the hub knows."""

    action_id: str
    kind: str
    adapter: str


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased, or would be; ids and counts, no values."""

    contacts: tuple[int, ...] = ()
    archived: tuple[int, ...] = ()
    acquaintances: int = 0
    actions: Mapping[str, int] = field(default_factory=dict)
    """Ended and unfinished actions, by state."""
    enrolments: int = 0
    kept_numbers: int = 0
    duplicates: int = 0
    """Pairs of possible duplicates, merged ones too."""
    answers: int = 0
    """Answers under an Idempotency-Key from which the person was taken out."""
    reasons: int = 0
    """Reasons of outages that held something of the person."""
    notes: int = 0
    """Actions of others whose former values, or reason for a discard, held something of them."""
    linked: Links = field(default_factory=dict)
    """Records that lose their link and stay, by kind."""
    alone: Links = field(default_factory=dict)
    """Of these, the deals and tickets that are linked to no other contact."""
    gone: Links = field(default_factory=dict)
    """Deals and tickets that are erased, too."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """Adapter and contact id, where the person stays until they are erased in that CRM."""
    unsettled: tuple[Unsettled, ...] = ()
    same_phone: tuple[str, ...] = ()
    """Ids of others who have one of the person's phones."""
    swept: bool = True
    """Whether the database's files are rid of what was deleted, its log and backups aside."""

    @property
    def nothing(self) -> bool:
        """Whether there is nothing of such a person."""
        records = (self.contacts, self.archived, self.acquaintances, self.duplicates)
        calls = (self.actions, self.notes, self.enrolments, self.kept_numbers)
        return not any((*records, *calls, self.answers, self.reasons))


def find(
    hub: Hub, account: Account, text: str, reading: Reading | None = None
) -> tuple[Person | None, tuple[Reading, ...]]:
    """Return whom a text names, None for nobody, and how it was read to find them.

    Without `reading` the text is read in every way. Raises Conflict that names the people, when
    there are several.
    """
    found: list[tuple[Reading, Person]] = []
    with hub.database.reading() as connection:
        people = People(hub, connection, account)
        for one in (reading,) if reading else READINGS:
            found += [(one, person) for person in people.found(text, one)]
    if not found:
        return None, ()
    first = found[0][1]
    if strangers := [one for one in found if not one[1].meets(first)]:
        told = "; ".join(
            f"as {one}: {', '.join(person.names) or 'a conversation'}" for one, person in found
        )
        ways = len({one for one, _ in [found[0], *strangers]})
        remedy = f"say --as {'|'.join(READINGS)}" if ways > 1 else "name one by such an id"
        raise Conflict(f"{shortened(text)} leads to several people ({told}); {remedy}.")
    return first, tuple(dict.fromkeys(one for one, _ in found))


def include(hub: Hub, account: Account, person: Person, names: Collection[str]) -> Person:
    """Return the person together with others who have the same phone, named by their ids.

    Raises BadRequest for a name that `Erased.same_phone` does not list.
    """
    with hub.database.reading() as connection:
        others = People(hub, connection, account).others(person)
    for name in names:
        same = next((one for one in others if name in one.names), None)
        if same is None:
            listed = ", ".join(id for one in others for id in one.names) or "nobody"
            raise BadRequest(f"{shortened(name)} has none of the person's phones; {listed} has.")
        person |= same
    return person


def look(hub: Hub, account: Account, person: Person, *, with_linked: bool = False) -> Erased:
    """Return what `erase` would erase; nothing is changed."""

    class Undone(Exception):
        """Rolls the transaction back."""

    seen: list[Erased] = []

    def work(tx: Connection) -> None:
        seen.append(_Erasure(hub, tx, account, person).run(with_linked=with_linked))
        raise Undone

    with suppress(Undone):
        hub.database.transact(work)
    return seen[-1]


def erase(
    hub: Hub, account: Account, person: Person, *, by: Author, with_linked: bool = False
) -> Erased:
    """Erase the person; whatever was accepted of them before this returns is gone then.

    `with_linked` erases the deals and tickets, too, that are linked to no other contact. Raises
    Unavailable, and nothing is erased then.
    """

    def work(tx: Connection) -> Erased:
        erased = _Erasure(hub, tx, account, person).run(with_linked=with_linked)
        # That somebody was erased, not who.
        after = {"contacts": len(erased.contacts) + len(erased.archived)}
        audit.note(tx, by, "erase", "person", "", account_id=account.id, after=after)
        return erased

    return replace(hub.database.transact(work), swept=_sweep(hub.database))


class _Erasure:
    """One transaction of an erasure."""

    def __init__(self, hub: Hub, tx: Connection, account: Account, person: Person) -> None:
        self._tx = tx
        self._account = account
        self._people = People(hub, tx, account)
        self._person = self._people.whole(person)

    def run(self, *, with_linked: bool) -> Erased:
        """Delete everything and return what it was."""
        self._hold()
        person, tx, account_id = self._person, self._tx, self._account.id
        held = erasing.contacts(tx, account_id, person.contacts)
        ids = {one.id for one in held}
        same_phone = tuple(name for one in self._people.others(person) for name in one.names)
        rows = self._actions("")
        self._delete_actions(rows)
        linked = erasing.linked(tx, account_id, CONTACTS, ids)
        linked.pop(CONTACTS.name, None)
        alone = self._linked_to_nobody_else(linked, ids)
        gone = alone if with_linked else {}
        linked = {name: sorted({*some} - {*gone.get(name, ())}) for name, some in linked.items()}
        records = [*held]
        for name, some in {CONTACTS.name: sorted(ids), **gone}.items():
            kind = KINDS[name]
            records += erasing.records(tx, account_id, kind, some) if kind != CONTACTS else []
            erasing.erase(tx, catalogue.load(tx, account_id, kind), some, now=now_ms())
            marks.erase(tx, account_id, kind, some)
        leases.forget(tx, account_id, [lease_key(phone) for phone in person.phones])
        created = {(one.id, iso(one.created_at)) for one in records}
        texts = self._texts(records)
        return Erased(
            contacts=tuple(one.id for one in held if not one.archived),
            archived=tuple(one.id for one in held if one.archived),
            actions=Counter(row[1] for row in rows),
            unsettled=self._unsettled(rows),
            enrolments=self._delete("enrolment", "contact_id", self._contact_ids()),
            kept_numbers=self._delete_kept_numbers(),
            duplicates=duplicates.erase(tx, self._account, self._contact_ids()),
            answers=idempotency.erase(tx, account_id, records=created, texts=texts),
            reasons=self._blank("outage", "connection_id", "reason", "true", _UNAVAILABLE),
            notes=self._blank("action", "id", "versions", "versions is not null", None)
            + self._blank("action", "id", "reason", _DISCARDED, _NAMED),
            acquaintances=self._delete("binding", "hub_id", person.hub_ids),
            linked={name: some for name, some in linked.items() if some},
            alone={} if with_linked else alone,
            gone=gone,
            elsewhere=self._elsewhere(),
            same_phone=same_phone,
        )

    # Nobody else writes of this person meanwhile.

    def _hold(self) -> None:
        """Wait for whoever writes of the person, let others wait, and know all that they wrote.

        In the order in which helpers take their locks, so that few have to give way.
        """
        account, tx = self._account, self._tx
        tx.hold(account.id, alone=True)
        while True:
            person = self._person
            for number in self._people.connections:
                for name, some in (
                    ("token", {token for at, token in person.tokens if at == number}),
                    ("email", {email[:LONGEST] for email in person.emails}),
                    ("phone", {phone[:LONGEST] for phone in person.phones}),
                    ("contact", {crm_id for at, crm_id in person.crm_ids if at == number}),
                ):
                    for one in sorted(some):
                        hold(tx, account.id, number, name, one)
            unfinished = self._actions(f"and finished_at is null order by id{tx.for_update}")
            if tx.dialect == "postgresql":
                self._lock_acquaintances()
            for _, one in sorted(person.persons):
                hold(tx, account.id, "person", one)
            own = [row[0] for row in unfinished if row[3] in self._people.own]
            made = marks.close(tx, account.id, own)
            self._person = self._people.whole(person | Person(contacts=frozenset(made)))
            if self._person == person and len(self._actions("and finished_at is null")) == len(
                unfinished
            ):
                return

    def _lock_acquaintances(self) -> None:
        among, params = self._tx.among("hub_id", "ids", self._hub_ids() or [""])
        self._tx.rows(
            f"select 1 from binding where account_id = :account and {among}"
            " order by connection_id, hub_id for update",
            {"account": self._account.id, **params},
        )

    # The tables.

    def _hub_ids(self) -> list[str]:
        return sorted({hub_id for _, hub_id in self._person.hub_ids})

    def _contact_ids(self) -> set[tuple[int, str]]:
        ids = {(number, str(id)) for id in self._person.contacts for number in self._people.own}
        return ids | self._person.crm_ids

    def _actions(self, which: str, **params: Any) -> list[tuple[Any, ...]]:
        """Return id, state, kind, connection and doubt of the person's actions."""
        theirs = self._person.hub_ids | self._contact_ids()
        if not theirs:
            return []
        names = sorted({person for _, person in self._person.persons} or {""})
        ids = sorted({id for _, id in theirs})
        persons, one = self._tx.among("person", "persons", names)
        among, two = self._tx.among("hub_id", "ids", ids)
        numbers, three = self._tx.among(
            "connection_id", "numbers", sorted({number for number, _ in theirs})
        )
        return self._tx.rows(
            "select id, state, kind, connection_id, doubt_since from action"
            f" where account_id = :account and {persons} and {among} and {numbers} {which}",
            {"account": self._account.id, **one, **two, **three, **params},
        )

    def _unsettled(self, rows: Sequence[tuple[Any, ...]]) -> tuple[Unsettled, ...]:
        return tuple(
            Unsettled(id, kind, self._adapter(number))
            for id, state, kind, number, doubt in sorted(rows)
            if doubt and state not in ("done", "refused") and number not in self._people.own
        )

    def _delete_actions(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Delete actions with their tries; what is parked behind them becomes dead itself."""
        account_id = self._account.id
        keys = sorted((account_id, row[0]) for row in rows)
        self._tx.delete("action_try", {"account_id": "int", "action_id": "text"}, keys)
        self._tx.delete("action", {"account_id": "int", "id": "text"}, keys)
        if dead := [row[0] for row in rows if row[1] == "dead"]:
            # Of others who share a phone with the person: nobody would ever bring it back.
            among, params = self._tx.among("behind", "dead", dead)
            self._tx.run(
                "update action set state = 'dead', behind = null,"
                " reason = 'What it waited behind was erased.'"
                f" where account_id = :account and state = 'parked' and {among}",
                {"account": account_id, **params},
            )
        if rows and self._tx.dialect == "postgresql":
            # Others may have waited for these.
            self._tx.run("notify crmhub_journal")

    def _delete(self, table: str, column: str, pairs: Iterable[tuple[int, str]]) -> int:
        rows = [(self._account.id, *pair) for pair in sorted(pairs)]
        return self._tx.delete(
            table, {"account_id": "int", "connection_id": "int", column: "text"}, rows
        )

    def _delete_kept_numbers(self) -> int:
        person = self._person
        keys = {kept_numbers.of_token(token) for _, token in person.tokens}
        ids = person.hub_ids | self._contact_ids()
        keys |= {kept_numbers.of_id(number, id) for number, id in ids}
        keys |= {
            kept_numbers.of_person(number, one)
            for number, one in person.persons
            if not self._shared(number, one)
        }
        rows = [(self._account.id, key) for key in sorted(keys)]
        return self._tx.delete("kept_number", {"account_id": "int", "contact": "text"}, rows)

    def _shared(self, number: int, person: str) -> bool:
        """Return whether the actions of others are in one order with this person's."""
        rows = self._tx.rows(
            "select hub_id from binding where account_id = :account"
            " and connection_id = :connection and person = :person",
            {"account": self._account.id, "connection": number, "person": person},
        )
        return any((number, hub_id) not in self._person.hub_ids for (hub_id,) in rows)

    def _blank(self, table: str, key: str, column: str, which: str, instead: str | None) -> int:
        """Replace texts that tell of the person on what is not theirs; return how many."""
        texts = [text.casefold() for text in self._texts(())]
        rows = self._tx.rows(
            f"select {key}, {column} from {table} where account_id = :account and {which}",
            {"account": self._account.id},
        )
        theirs = [id for id, told in rows if any(text in told.casefold() for text in texts)]
        for id in theirs:
            self._tx.run(
                f"update {table} set {column} = :instead"
                f" where account_id = :account and {key} = :id",
                {"account": self._account.id, "id": id, "instead": instead},
            )
        return len(theirs)

    def _texts(self, records: Iterable[erasing.Held]) -> set[str]:
        """Return what would tell of the person in a text."""
        person = self._person
        texts = {token for _, token in person.tokens} | person.emails | person.phones | person.said
        texts |= {value for one in records for value in one.properties.values()}
        return {text for text in texts if len(text) >= _SHORTEST}

    def _linked_to_nobody_else(self, linked: Links, ids: set[int]) -> Links:
        alone: Links = {}
        for kind in (DEALS, TICKETS):
            for id in linked.get(kind.name, []):
                theirs = erasing.linked(self._tx, self._account.id, kind, [id])[CONTACTS.name]
                if ids >= {*theirs}:
                    alone.setdefault(kind.name, []).append(id)
        return alone

    def _elsewhere(self) -> tuple[tuple[str, str], ...]:
        remote = (pair for pair in self._person.crm_ids if pair[0] not in self._people.own)
        return tuple((self._adapter(number), crm_id) for number, crm_id in sorted(remote))

    def _adapter(self, number: int) -> str:
        return accounts.load_connection(self._tx, self._account.id, number).adapter


def _sweep(database: Database) -> bool:
    """Let what is deleted leave the database's files, as far as that goes without a stop."""
    try:
        with database.reading() as connection:
            if database.dialect == "postgresql":
                connection.run(f"vacuum {_TABLES}")
                return True
            # The pages as they were stand in the log until it begins anew.
            busy: int = connection.scalar("pragma wal_checkpoint(truncate)")
            return not busy
    except Unavailable:
        # What is erased is erased, and the caller must hear of it.
        return False
