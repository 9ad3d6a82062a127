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
    """`counts`: all deals and tickets; `linked`: those of one contact, with their properties."""

    contacts: Mapping[str, Mapping[str, str]]
    counts: Mapping[str, int]
    linked: Mapping[Linked, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)


def state_of(tests: Base, crm: Crm, contact_id: str = "") -> State:
    """`contact_id`: whose deals and tickets are in `linked`; it may not exist."""
    names = {"email", "phone", tests.text, tests.text2, *tests.needed.get("contacts", {})}
    contacts = {
        id: {name: properties.get(name) or "" for name in names}
        for id, properties in crm.contacts().items()
    }
    counts: dict[str, int] = {kind: crm.count(kind) for kind in tests.titles}
    linked = (
        {kind: dict(crm.linked(kind, contact_id)) for kind in tests.titles}
        if contact_id in contacts
        else {}
    )
    return State(contacts, counts, linked)


def difference(before: State, after: State) -> str:
    """Return what changed in the CRM, for a message."""
    counts = {kind: (n, after.counts[kind]) for kind, n in before.counts.items()}
    said = [f"{old} {kind}, now {new}" for kind, (old, new) in counts.items() if old != new]
    for id in before.contacts.keys() | after.contacts.keys():
        old, new = before.contacts.get(id), after.contacts.get(id)
        if old is None or new is None:
            said.append(f"contact {id} is {f'new: {new}' if new else 'gone'}")
        elif changed := dict(new.items() - old.items()):
            said.append(f"contact {id} has now {changed}")
    return "; ".join(said) or "nothing"


class Operation(ABC):
    """One call of an adapter; `sound`, an adapter that meets no fault, prepares it."""

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
        return state_of(self.tests, self.crm, self.id)

    @abstractmethod
    def is_right(self, result: object, before: State, after: State) -> bool:
        """Return whether the result agrees with the changes in the CRM."""

    def is_deceived(self, result: object, before: State, after: State) -> bool:
        """Return whether the result is wrong only because of a false success without content."""
        return False

    def effect(self, before: State, after: State) -> Effect:
        """Return the effect: `none`, `whole`, `part`, or `wrong` for anything else."""
        if after == before:
            return "none"
        return "whole" if self.is_whole(before, after) else "wrong"

    def is_whole(self, before: State, after: State) -> bool:
        """Return whether a change in the CRM is the whole intended change, and no other."""
        return False


def first_kind(tests: Base, call: Callable[[Linked], T]) -> tuple[Linked, T]:
    """Try "deals", then "tickets"; raises Unsupported if the CRM has neither."""
    for kind in tests.titles:
        with suppress(Unsupported):
            return kind, call(kind)
    raise Unsupported("the CRM has neither deals nor tickets")
