"""The calls of an adapter as objects, which the fault tests execute and check."""

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
    ContactWrite,
    Linked,
    Saved,
    Unsupported,
    features,
    hold_back_create,
)
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.matching import Lead
from crmhub.adapter.testing.base import Base, new_mark, phone_number
from crmhub.adapter.testing.crm import Crm
from crmhub.adapter.upserts import upsert_contact

T = TypeVar("T")
Effect = Literal["none", "whole", "part", "wrong"]
"""The effect of a call: no change, the whole intended change, a part of it, or a wrong change."""


@dataclass(frozen=True, slots=True)
class State:
    """The records of a CRM at one moment, as far as a call may change them.

    `contacts` maps contact ids to properties. `counts` maps deals and tickets to the number of all
    such records. `linked` holds the deals and tickets of one contact: it maps record ids to
    properties.
    """

    contacts: Mapping[str, Mapping[str, str]]
    counts: Mapping[Linked, int]
    linked: Mapping[Linked, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)


def state_of(tests: Base, crm: Crm, contact_id: str = "") -> State:
    """Return the CRM's current records as a State.

    The field `linked` contains the deals and tickets of the contact `contact_id`; it is empty if
    there is no such contact.
    """
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
    """One call of an adapter, prepared with values and with a contact in the CRM.

    `sound` is an adapter whose requests meet no fault; it is used to prepare the call.
    """

    name: ClassVar[str]
    feature: ClassVar[str] = ""
    """The optional method that the adapter must support for this call; "" for none."""
    reads: ClassVar[bool] = False
    may_be_constant: ClassVar[bool] = False
    """Whether an adapter may answer the call without a request, such as with fixed pipelines."""
    may_find_none: ClassVar[bool] = False
    """Whether the call may return None, for "no such contact", if the CRM answers 404."""
    reads_definitions: ClassVar[bool] = False
    """Whether the call returns definitions; then no process has read and shared them before."""
    returns_nothing: ClassVar[bool] = False
    """Whether the call has no result: it raises an error, or all is well."""

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
        """Make the call with this adapter, and return the result."""

    def state(self) -> State:
        """Return the CRM's present records, with the deals and tickets of the call's contact."""
        return state_of(self.tests, self.crm, self.id)

    @abstractmethod
    def is_right(self, result: object, before: State, after: State) -> bool:
        """Return whether the call's result agrees with the changes that the call made in the CRM.

        `before` and `after` are the CRM's records before and after the call.
        """

    def is_deceived(self, result: object, before: State, after: State) -> bool:
        """Return whether the result is wrong only because the CRM reported success falsely.

        Some CRMs answer a change with a success without content, so the adapter cannot notice that
        the CRM changed nothing. `before` and `after` are the CRM's records before and after the
        call.
        """
        return False

    def effect(self, before: State, after: State) -> Effect:
        """Return the effect of the call on the CRM's records.

        `before` and `after` are the CRM's records before and after the call. The effect is `none`;
        `whole`, all that the call should change; `part`, only a part of that; or `wrong`, anything
        else.
        """
        return "none" if after == before else "wrong"


def _first(tests: Base, call: Callable[[Linked], T]) -> tuple[Linked, T]:
    """Call `call` with "deals", then with "tickets", until the CRM supports the kind.

    Return the kind and the result of the call. Raises Unsupported if the CRM supports neither.
    """
    for kind in tests.titles:
        with suppress(Unsupported):
            return kind, call(kind)
    raise Unsupported("the CRM has neither deals nor tickets")


class Reads(Operation):
    """A call that only reads; under a fault, its result must equal the result without faults."""

    reads = True

    def prepare(self) -> None:
        if self.may_find_none:
            self.expected = self.tests.shown(lambda: self.call(self.sound))
        else:
            self.expected = self.call(self.sound)

    def is_right(self, result: object, before: State, after: State) -> bool:
        return result == self.expected


class FindByEmail(Reads):
    """The call `find_contact` with an email."""

    name = "find_contact by email"
    may_find_none = True

    def call(self, adapter: Adapter) -> object:
        return adapter.find_contact(email=self.person["email"], names=["email", self.tests.text])


class FindByPhone(Reads):
    """The call `find_contact` with a phone number."""

    name = "find_contact by phone"
    may_find_none = True

    def call(self, adapter: Adapter) -> object:
        return adapter.find_contact(phone=self.person["phone"], names=["phone", self.tests.text])


class Get(Reads):
    """The call `get_contact`."""

    name = "get_contact"

    def call(self, adapter: Adapter) -> object:
        return adapter.get_contact(self.id, ["email", self.tests.text, self.tests.unknown])


class Describe(Reads):
    """The call `describe` for contacts."""

    name = feature = "describe"
    may_be_constant = reads_definitions = True

    def call(self, adapter: Adapter) -> object:
        return adapter.describe("contacts")


class Pipelines(Reads):
    """The call `pipelines` for deals, or for tickets if the CRM has no deals."""

    name = feature = "pipelines"
    may_be_constant = reads_definitions = True

    def prepare(self) -> None:
        self.kind, self.expected = _first(self.tests, self.sound.pipelines)

    def call(self, adapter: Adapter) -> object:
        return adapter.pipelines(self.kind)


class Owners(Reads):
    """The call `owners`."""

    name = feature = "owners"

    def call(self, adapter: Adapter) -> object:
        return adapter.owners()


class ActiveWorkflow(Reads):
    """The call `active_workflow`."""

    name = feature = "active_workflow"

    def call(self, adapter: Adapter) -> object:
        return adapter.active_workflow(self.id, since_ms=self.since_ms)


class Check(Reads):
    """The call `check`, which tests the connection."""

    name = feature = "check"
    returns_nothing = True
    expected = None

    def prepare(self) -> None:
        """Do nothing: a check that succeeds returns None."""

    def call(self, adapter: Adapter) -> object:
        adapter.check()
        return None


class FindMarked(Reads):
    """The call `find_marked` for a deal or ticket that an earlier call created."""

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
    """A call that creates one contact; base class of such calls."""

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
    """The call `create_contact`."""

    name = "create_contact"

    def call(self, adapter: Adapter) -> object:
        return adapter.create_contact(self.new, mark=self.mark)


class UpsertNew(Creates):
    """The creation of a contact for a lead that has none yet (`upsert_contact`)."""

    name = "upsert_contact of somebody new"

    def call(self, adapter: Adapter) -> object:
        return upsert_contact(adapter, self.tests.lead(self.new, mark=self.mark))

    def repeat(self, adapter: Adapter, *, written_ms: int) -> Saved:
        """Write the lead again, as the hub does after an attempt that ended Uncertain.

        `written_ms` is the latest time at which that attempt may have sent a write, in milliseconds
        since 1970.
        """
        again = self.tests.lead(
            self.new, mark=self.mark, tried_ms=self.since_ms, written_ms=written_ms
        )
        return upsert_contact(adapter, again)


class Changes(Operation):
    """A call that changes one text property of a contact; base class of such calls."""

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
    """The call `update_contact`."""

    name = "update_contact"

    def call(self, adapter: Adapter) -> object:
        return adapter.update_contact(self.id, {self.tests.text: "Changed"})


class UpsertKnown(Changes):
    """The update of a lead's existing contact (`upsert_contact`)."""

    name = "upsert_contact of somebody known"

    def call(self, adapter: Adapter) -> object:
        said = {"email": self.person["email"], self.tests.text: "Changed"}
        return upsert_contact(adapter, self.tests.lead(said, mark=self.mark))


class CreatesLinked(Operation):
    """The call `create_for_contact`; base class of its variants for deals and tickets."""

    kind: ClassVar[Linked]

    def call(self, adapter: Adapter) -> object:
        sent = self.tests.title(self.kind)
        return adapter.create_for_contact(self.kind, self.id, sent, mark=self.mark)

    def find(self, adapter: Adapter) -> Saved | None:
        """Return the record that an earlier attempt of the call created, or None."""
        sent = self.tests.title(self.kind)
        return adapter.find_marked(self.kind, self.id, self.mark, sent=sent, since_ms=self.since_ms)

    def repeat(self, adapter: Adapter, *, written_ms: int) -> Saved:
        """Create the record again, as the hub does after an attempt that ended Uncertain.

        If `find` returns a record, return that record instead. `written_ms` is the latest time at
        which the attempt may have sent a write, in milliseconds since 1970.
        """
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
        fresh = after.linked[self.kind].keys() - before.linked[self.kind].keys()
        linked = len(after.linked[self.kind]) - len(before.linked[self.kind])
        title = self.tests.title(self.kind).items()
        if not all(after.linked[self.kind][id].items() >= title for id in fresh):
            return "wrong"
        if after.contacts != before.contacts or made != 1:
            return "wrong"
        return {0: "part", 1: "whole"}.get(linked, "wrong")  # type: ignore[return-value]


class CreateDeal(CreatesLinked):
    """The call `create_for_contact` for a deal."""

    name = "create_for_contact of a deal"
    kind = "deals"


class CreateTicket(CreatesLinked):
    """The call `create_for_contact` for a ticket."""

    name = "create_for_contact of a ticket"
    kind = "tickets"


class UpsertSeveral(Operation):
    """The call `upsert_contacts` with three leads; only the second lead's contact exists.

    Without `write_contacts`, the hub makes one call of `upsert_contact` for each lead.
    """

    name = "upsert_contacts"
    feature = "write_contacts"

    def prepare(self) -> None:
        self.second = self.tests.person()

    def leads(self) -> list[Lead]:
        """Return the three leads, in the order in which the call sends them."""
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


class WriteSeveral(UpsertSeveral):
    """The call `write_contacts` with two creates, and an update between them."""

    name = feature = "write_contacts"

    def call(self, adapter: Adapter) -> object:
        changed = ContactWrite(self.id, {self.tests.text: "Changed"})
        first, last = (ContactWrite("", one, new_mark()) for one in (self.new, self.second))
        return adapter.write_contacts([first, changed, last])

    def _is_right(self, outcome: object, sent: Mapping[str, str], after: State) -> bool:
        if outcome is not None:
            return super()._is_right(outcome, sent, after)
        # The hub makes such a write once more, so it must not have been made.
        return not any(one.items() >= sent.items() for one in after.contacts.values())


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
    WriteSeveral,
    Describe,
    Pipelines,
    Owners,
    ActiveWorkflow,
    Check,
    FindMarked,
)


def operations_of(adapter: type[Adapter]) -> list[type[Operation]]:
    """Return the operations that an adapter class supports, in the order of `OPERATIONS`."""
    announced = features(adapter)
    return [
        operation
        for operation in OPERATIONS
        if not operation.feature or operation.feature in announced
    ]
