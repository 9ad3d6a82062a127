"""A call of an adapter as an object, which the fault tests execute and check."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeVar

from crmhub.adapter import (
    Adapter,
    Linked,
    Unsupported,
)
from crmhub.adapter.testing.base import Base, new_mark, phone_number
from crmhub.adapter.testing.crm import Crm

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


def first_kind(tests: Base, call: Callable[[Linked], T]) -> tuple[Linked, T]:
    """Call `call` with "deals", then with "tickets", until the CRM supports the kind.

    Return the kind and the result of the call. Raises Unsupported if the CRM supports neither.
    """
    for kind in tests.titles:
        with suppress(Unsupported):
            return kind, call(kind)
    raise Unsupported("the CRM has neither deals nor tickets")
