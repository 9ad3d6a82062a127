"""Erasing a person: whatever the hub holds of them goes for good, and what waits is not sent.

A remote CRM is not touched. The hub's own records are, also where they are the account's CRM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import sqlalchemy as sa

from crmhub import audit, idempotency
from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.database.advisory_locks import hold
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.database.tables import action, binding, outage
from crmhub.errors import BadRequest, Conflict, Unavailable
from crmhub.helpers import sticky_assignments as kept_numbers
from crmhub.helpers.create_lead import lease_key
from crmhub.helpers.inputs import shortened
from crmhub.hub import Hub
from crmhub.identity import possible_duplicates as duplicates
from crmhub.identity.bindings import LONGEST
from crmhub.journal import leases
from crmhub.operations.person_finder import READINGS, People, Person, Reading
from crmhub.properties import catalogue
from crmhub.properties.kinds import CONTACTS, DEALS, KINDS, TICKETS
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

_THEIRS = sa.select(
    action.c.id, action.c.state, action.c.kind, action.c.connection_id, action.c.doubt_since
).where(
    action.c.account_id == param("account_id"),
    in_list(action.c.person, "persons"),
    in_list(action.c.hub_id, "hub_ids"),
    in_list(action.c.connection_id, "connection_ids"),
)
_ACTIONS = Statement(_THEIRS)
_UNFINISHED_ACTIONS = Statement(_THEIRS.where(action.c.finished_at.is_(None)))
_LOCK_UNFINISHED_ACTIONS = Statement(
    _THEIRS.where(action.c.finished_at.is_(None)).order_by(action.c.id).with_for_update()
)
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
    sa.select(binding.c.hub_id).where(
        binding.c.account_id == param("account_id"),
        binding.c.connection_id == param("connection_id"),
        binding.c.person == param("person"),
    )
)


class _Text(NamedTuple):
    """A column whose text may tell of a person: how its rows are read, and how one is replaced."""

    read: Statement
    replace: Statement


def _text(key: sa.Column[Any], column: sa.Column[Any], *where: sa.ColumnElement[bool]) -> _Text:
    of_account = key.table.c.account_id == param("account_id")
    return _Text(
        Statement(sa.select(key.label("key"), column.label("text")).where(of_account, *where)),
        Statement(
            sa.update(key.table)
            .where(of_account, key == param("key"))
            .values({column: param("instead")})
        ),
    )


_OUTAGE_REASON = _text(outage.c.connection_id, outage.c.reason)
_ACTION_VERSIONS = _text(action.c.id, action.c.versions, action.c.versions.is_not(None))
_DISCARDED_REASON = _text(
    action.c.id,
    action.c.reason,
    # The words of a partial index.
    one_of(action.c.state, "refused", "dead", "parked", "discarded"),
    one_of(action.c.state, "discarded"),
)


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
        rows = self._actions(_ACTIONS)
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
            actions=Counter(row.state for row in rows),
            unsettled=self._unsettled(rows),
            enrolments=self._delete("enrolment", "contact_id", self._contact_ids()),
            kept_numbers=self._delete_kept_numbers(),
            duplicates=duplicates.erase(tx, self._account, self._contact_ids()),
            answers=idempotency.erase(tx, account_id, records=created, texts=texts),
            reasons=self._blank(_OUTAGE_REASON, _UNAVAILABLE),
            notes=self._blank(_ACTION_VERSIONS, None) + self._blank(_DISCARDED_REASON, _NAMED),
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
        tx.hold(account.id, exclusive=True)
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
            unfinished = self._actions(_LOCK_UNFINISHED_ACTIONS)
            if tx.dialect == "postgresql":
                self._lock_acquaintances()
            for _, one in sorted(person.persons):
                hold(tx, account.id, "person", one)
            own = [row.id for row in unfinished if row.connection_id in self._people.own]
            made = marks.close(tx, account.id, own)
            self._person = self._people.whole(person | Person(contacts=frozenset(made)))
            waiting = self._actions(_UNFINISHED_ACTIONS)
            if self._person == person and len(waiting) == len(unfinished):
                return

    def _lock_acquaintances(self) -> None:
        hub_ids = sorted({hub_id for _, hub_id in self._person.hub_ids})
        self._tx.rows(_LOCK_BINDINGS, {"account_id": self._account.id, "hub_ids": hub_ids})

    # The tables.

    def _contact_ids(self) -> set[tuple[int, str]]:
        ids = {(number, str(id)) for id in self._person.contacts for number in self._people.own}
        return ids | self._person.crm_ids

    def _actions(self, statement: Statement) -> list[Any]:
        """Return id, state, kind, connection and doubt of the person's actions."""
        theirs = self._person.hub_ids | self._contact_ids()
        if not theirs:
            return []
        return self._tx.rows(
            statement,
            {
                "account_id": self._account.id,
                "persons": sorted({person for _, person in self._person.persons}),
                "hub_ids": sorted({id for _, id in theirs}),
                "connection_ids": sorted({number for number, _ in theirs}),
            },
        )

    def _unsettled(self, rows: Sequence[Any]) -> tuple[Unsettled, ...]:
        return tuple(
            Unsettled(row.id, row.kind, self._adapter(row.connection_id))
            for row in sorted(rows)
            if row.doubt_since
            and row.state not in ("done", "refused")
            and row.connection_id not in self._people.own
        )

    def _delete_actions(self, rows: Sequence[Any]) -> None:
        """Delete actions with their tries; what is parked behind them becomes dead itself."""
        account_id = self._account.id
        keys = sorted((account_id, row.id) for row in rows)
        self._tx.delete("action_try", {"account_id": "int", "action_id": "text"}, keys)
        self._tx.delete("action", {"account_id": "int", "id": "text"}, keys)
        if failed := [row.id for row in rows if row.state == "dead"]:
            # Of others who share a phone with the person: nobody would ever bring it back.
            self._tx.run(_FAIL_BLOCKED, {"account_id": account_id, "failed": failed})
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
        of = {"account_id": self._account.id, "connection_id": number, "person": person}
        rows = self._tx.rows(_HUB_IDS_OF_PERSON, of)
        return any((number, row.hub_id) not in self._person.hub_ids for row in rows)

    def _blank(self, where: _Text, instead: str | None) -> int:
        """Replace texts that tell of the person on what is not theirs; return how many."""
        texts = [text.casefold() for text in self._texts(())]
        of = {"account_id": self._account.id}
        theirs = [
            row.key
            for row in self._tx.rows(where.read, of)
            if any(text in row.text.casefold() for text in texts)
        ]
        for key in theirs:
            self._tx.run(where.replace, of | {"key": key, "instead": instead})
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
