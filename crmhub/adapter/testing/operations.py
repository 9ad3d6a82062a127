"""The methods of an adapter as objects that the fault tests call and check."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeVar

from crmhub.adapter import (
    Adapter,
    AdapterError,
    Linked,
    Saved,
    Unsupported,
    features,
    hold_back_create,
)
from crmhub.adapter.matching import Lead
from crmhub.adapter.testing.base import Base, new_mark, phone_number
from crmhub.adapter.testing.crm import Crm
from crmhub.adapter.upserts import upsert_contact, upsert_contacts

T = TypeVar("T")
Effect = Literal["none", "whole", "part", "wrong"]
"""How much a call changed: nothing, all it should, a part of it, or other records."""


@dataclass(frozen=True, slots=True)
class State:
    """The records of a CRM that a call may change."""

    contacts: Mapping[str, Mapping[str, str]]
    counts: Mapping[Linked, int]
    linked: Mapping[Linked, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)


def state_of(tests: Base, crm: Crm, contact_id: str = "") -> State:
    """Return the CRM's current records; links only of the contact `contact_id`."""
    names = {"email", "phone", tests.text, tests.text2, *tests.needed.get("contacts", {})}
    contacts = {
        id: {name: properties.get(name) or "" for name in names}
        for id, properties in crm.contacts().items()
    }
    counts = {kind: crm.count(kind) for kind in tests.titles}
    linked = (
        {kind: dict(crm.linked(kind, contact_id)) for kind in tests.titles}
        if contact_id in contacts
        else {}
    )
    return State(contacts, counts, linked)


class Operation(ABC):
    """One call of an adapter, with its contact and values prepared in a CRM.

    `sound` is an adapter without faults, which the preparation may call.
    """

    name: ClassVar[str]
    feature: ClassVar[str] = ""
    """The optional method that the adapter must support for this call."""
    reads: ClassVar[bool] = False
    may_find_none: ClassVar[bool] = False
    """Whether a 404 may mean that there is no such contact."""

    def __init__(self, tests: Base, crm: Crm, sound: Adapter) -> None:
        self.tests = tests
        self.crm = crm
        self.sound = sound
        self.mark = new_mark()
        self.since_ms = int(time.time() * 1000)
        self.person = tests.person(phone=phone_number())
        self.new = tests.person(phone=phone_number())
        self.other = crm.add_contact(tests.person())
        self.id = crm.add_contact(self.person)
        self.prepare()

    def prepare(self) -> None:  # noqa: B027 (most need nothing)
        """Create the records that the call needs in addition to its contact."""

    @abstractmethod
    def call(self, adapter: Adapter) -> object:
        """Make the call through this adapter and return its result."""

    def state(self) -> State:
        """Return the CRM's current records."""
        return state_of(self.tests, self.crm, self.id)

    @abstractmethod
    def is_right(self, result: object, before: State, after: State) -> bool:
        """Return whether a result agrees with the CRM's records before and after the call."""

    def is_deceived(self, result: object, before: State, after: State) -> bool:
        """Return whether a result is wrong only because the CRM claimed a change it did not make.

        Some CRMs answer a change with a success without content, so an adapter cannot notice this.
        """
        return False

    def effect(self, before: State, after: State) -> Effect:
        """Return how much the call changed: `none`, `part`, `whole`, or `wrong` (other records)."""
        return "none" if after == before else "wrong"


def _first(tests: Base, call: Callable[[Linked], T]) -> tuple[Linked, T]:
    """Call a function with each kind of record.

    Return the result of the first that the CRM supports.
    """
    for kind in tests.titles:
        with suppress(Unsupported):
            return kind, call(kind)
    raise Unsupported("the CRM has neither deals nor tickets")


class Reads(Operation):
    """A call that reads; its result is compared with that of the same call without faults."""

    reads = True

    def prepare(self) -> None:
        self.expected = self.call(self.sound)

    def is_right(self, result: object, before: State, after: State) -> bool:
        return result == self.expected


class FindByEmail(Reads):
    """Find a contact by email."""

    name = "find_contact by email"
    may_find_none = True

    def call(self, adapter: Adapter) -> object:
        return adapter.find_contact(email=self.person["email"], names=["email", self.tests.text])


class FindByPhone(Reads):
    """Find a contact by phone."""

    name = "find_contact by phone"
    may_find_none = True

    def call(self, adapter: Adapter) -> object:
        return adapter.find_contact(phone=self.person["phone"], names=["phone", self.tests.text])


class Get(Reads):
    """Get a contact."""

    name = "get_contact"

    def call(self, adapter: Adapter) -> object:
        return adapter.get_contact(self.id, ["email", self.tests.text, self.tests.unknown])


class Describe(Reads):
    """List the properties of contacts."""

    name = feature = "describe"

    def call(self, adapter: Adapter) -> object:
        return adapter.describe("contacts")


class Pipelines(Reads):
    """List the pipelines of deals; of tickets if the CRM has no deals."""

    name = feature = "pipelines"

    def prepare(self) -> None:
        self.kind, self.expected = _first(self.tests, self.sound.pipelines)

    def call(self, adapter: Adapter) -> object:
        return adapter.pipelines(self.kind)


class Owners(Reads):
    """List the owners."""

    name = feature = "owners"

    def call(self, adapter: Adapter) -> object:
        return adapter.owners()


class ActiveWorkflow(Reads):
    """Ask for a contact's active workflow."""

    name = feature = "active_workflow"

    def call(self, adapter: Adapter) -> object:
        return adapter.active_workflow(self.id, since_ms=self.since_ms)


class Check(Reads):
    """Check the connection."""

    name = feature = "check"

    def call(self, adapter: Adapter) -> object:
        adapter.check()
        return None


class FindMarked(Reads):
    """Find the record of an earlier write by its mark."""

    name = feature = "find_marked"

    def prepare(self) -> None:
        self.kind, _ = _first(
            self.tests,
            lambda kind: self.sound.create_for_contact(
                kind, self.id, self.tests.title(kind), mark=self.mark
            ),
        )
        self.sent = self.tests.title(self.kind)
        super().prepare()

    def call(self, adapter: Adapter) -> object:
        found = adapter.find_marked(
            self.kind, self.id, self.mark, sent=self.sent, since_ms=self.since_ms
        )
        return found.id if found is not None else None


class Creates(Operation):
    """A call that creates one contact."""

    def is_right(self, result: object, before: State, after: State) -> bool:
        return (
            isinstance(result, Saved)
            and result.outcome == "created"
            and {result.id} == after.contacts.keys() - before.contacts.keys()
        )

    def effect(self, before: State, after: State) -> Effect:
        fresh = [after.contacts[id] for id in after.contacts.keys() - before.contacts.keys()]
        kept = {id: after.contacts.get(id) for id in before.contacts} == before.contacts
        if not kept or after.counts != before.counts or len(fresh) > 1:
            return "wrong"
        if not fresh:
            return "none"
        return "whole" if fresh[0].items() >= self.new.items() else "part"


class Create(Creates):
    """Create a contact with `create_contact`."""

    name = "create_contact"

    def call(self, adapter: Adapter) -> object:
        return adapter.create_contact(self.new, mark=self.mark)


class UpsertNew(Creates):
    """Upsert a lead that has no contact yet."""

    name = "upsert_contact of somebody new"

    def call(self, adapter: Adapter) -> object:
        return upsert_contact(adapter, self.tests.lead(self.new, mark=self.mark))

    def repeat(self, adapter: Adapter, *, written_ms: int) -> Saved:
        """Upsert the lead again, as the hub does after an attempt that ended Uncertain."""
        again = self.tests.lead(
            self.new, mark=self.mark, tried_ms=self.since_ms, written_ms=written_ms
        )
        return upsert_contact(adapter, again)


class Changes(Operation):
    """A call that changes one text property of a contact."""

    def is_right(self, result: object, before: State, after: State) -> bool:
        return (
            isinstance(result, Saved)
            and (result.id, result.outcome) == (self.id, "updated")
            and self.effect(before, after) == "whole"
        )

    def is_deceived(self, result: object, before: State, after: State) -> bool:
        return after == before

    def effect(self, before: State, after: State) -> Effect:
        if after == before:
            return "none"
        changed = {**before.contacts[self.id], self.tests.text: "Changed"}
        expected = {**before.contacts, self.id: changed}
        same = (after.counts, after.linked) == (before.counts, before.linked)
        return "whole" if same and after.contacts == expected else "wrong"


class Update(Changes):
    """Change a contact with `update_contact`."""

    name = "update_contact"

    def call(self, adapter: Adapter) -> object:
        return adapter.update_contact(self.id, {self.tests.text: "Changed"})


class UpsertKnown(Changes):
    """Upsert a lead whose contact exists."""

    name = "upsert_contact of somebody known"

    def call(self, adapter: Adapter) -> object:
        said = {"email": self.person["email"], self.tests.text: "Changed"}
        return upsert_contact(adapter, self.tests.lead(said, mark=self.mark))


class CreatesLinked(Operation):
    """A call that creates a deal or ticket for a contact."""

    kind: ClassVar[Linked]

    def call(self, adapter: Adapter) -> object:
        sent = self.tests.title(self.kind)
        return adapter.create_for_contact(self.kind, self.id, sent, mark=self.mark)

    def find(self, adapter: Adapter) -> Saved | None:
        """Look up the record of an earlier attempt."""
        sent = self.tests.title(self.kind)
        return adapter.find_marked(self.kind, self.id, self.mark, sent=sent, since_ms=self.since_ms)

    def repeat(self, adapter: Adapter, *, written_ms: int) -> Saved:
        """Create the record again, as the hub does after an attempt that ended Uncertain."""
        sent = self.tests.title(self.kind)
        if record := self.find(adapter):
            return record
        hold_back_create(adapter, self.kind, sent, written_ms)
        return adapter.create_for_contact(self.kind, self.id, sent, mark=self.mark)

    def is_right(self, result: object, before: State, after: State) -> bool:
        return (
            isinstance(result, Saved)
            and result.outcome == "created"
            and {result.id} == after.linked[self.kind].keys() - before.linked[self.kind].keys()
        )

    def effect(self, before: State, after: State) -> Effect:
        if after == before:
            return "none"
        made = after.counts[self.kind] - before.counts[self.kind]
        linked = len(after.linked[self.kind]) - len(before.linked[self.kind])
        if after.contacts != before.contacts or made != 1:
            return "wrong"
        return {0: "part", 1: "whole"}.get(linked, "wrong")  # type: ignore[return-value]


class CreateDeal(CreatesLinked):
    """Create a deal for a contact."""

    name = "create_for_contact of a deal"
    kind = "deals"


class CreateTicket(CreatesLinked):
    """Create a ticket for a contact."""

    name = "create_for_contact of a ticket"
    kind = "tickets"


class UpsertSeveral(Operation):
    """Upsert two new leads and one lead whose contact exists, together; check each result."""

    name = "upsert_contacts"

    def prepare(self) -> None:
        self.second = self.tests.person()

    def leads(self) -> list[Lead]:
        """Return the three leads in the order in which they are sent."""
        known = {"email": self.person["email"], self.tests.text: "Changed"}
        return [self.tests.lead(said) for said in (self.new, known, self.second)]

    def call(self, adapter: Adapter) -> object:
        return upsert_contacts(adapter, self.leads())

    def is_right(self, result: object, before: State, after: State) -> bool:
        assert isinstance(result, Sequence)
        people = (self.new, {"email": self.person["email"], self.tests.text: "Changed"})
        return all(
            self._is_right(outcome, sent, after)
            for outcome, sent in zip(result, (*people, self.second), strict=True)
        )

    def is_deceived(self, result: object, before: State, after: State) -> bool:
        changed = {**after.contacts[self.id], self.tests.text: "Changed"}
        pretended = replace(after, contacts={**after.contacts, self.id: changed})
        return self.is_right(result, before, pretended)

    def _is_right(self, outcome: object, sent: Mapping[str, str], after: State) -> bool:
        holders = [
            id for id, contact in after.contacts.items() if contact["email"] == sent["email"]
        ]
        written = [id for id in holders if after.contacts[id].items() >= sent.items()]
        if isinstance(outcome, Saved):
            return written == [outcome.id]
        surely_not = type(outcome).__name__ != "Uncertain"
        return isinstance(outcome, AdapterError) and not (surely_not and written)

    def effect(self, before: State, after: State) -> Effect:
        if after == before:
            return "none"
        emails = [one["email"] for one in after.contacts.values()]
        once = len(emails) == len(set(emails))
        return "whole" if once and after.counts == before.counts else "wrong"


OPERATIONS: tuple[type[Operation], ...] = (
    FindByEmail,
    FindByPhone,
    Get,
    Create,
    Update,
    CreateDeal,
    CreateTicket,
    UpsertNew,
    UpsertKnown,
    UpsertSeveral,
    Describe,
    Pipelines,
    Owners,
    ActiveWorkflow,
    Check,
    FindMarked,
)


def operations_of(adapter: type[Adapter]) -> list[type[Operation]]:
    """Return the calls that an adapter class supports."""
    announced = features(adapter)
    return [
        operation
        for operation in OPERATIONS
        if not operation.feature or operation.feature in announced
    ]
