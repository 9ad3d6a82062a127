from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, cast

from crmhub.adapter import (
    Adapter,
    AdapterError,
    ContactWrite,
    Linked,
    Saved,
    hold_back_create,
)
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.matching import Lead
from crmhub.adapter.testing.base import NEW_RECORDS, new_mark
from crmhub.adapter.testing.crm import ExtendedCrm
from crmhub.adapter.testing.operation import Effect, Operation, State, first_kind
from crmhub.adapter.upserts import upsert_contact


class Creates(Operation):
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
    name = "create_contact"

    def call(self, adapter: Adapter) -> object:
        return adapter.create_contact(self.new, mark=self.mark)


class UpsertNew(Creates):
    name = "upsert_contact of somebody new"

    def call(self, adapter: Adapter) -> object:
        return upsert_contact(adapter, self.tests.lead(self.new, mark=self.mark))

    def repeat(self, adapter: Adapter, *, written_ms: int) -> Saved:
        """Write again; `written_ms`: when an Uncertain attempt last wrote (ms since 1970)."""
        again = self.tests.lead(
            self.new, mark=self.mark, tried_ms=self.since_ms, written_ms=written_ms
        )
        return upsert_contact(adapter, again)


class Changes(Operation):
    def is_right(self, result: object, before: State, after: State) -> bool:
        return (
            isinstance(result, Saved)
            and (result.id, result.outcome) == (self.id, "updated")
            and self.effect(before, after) == "whole"
        )

    def is_deceived(self, result: object, before: State, after: State) -> bool:
        return after == before

    def is_whole(self, before: State, after: State) -> bool:
        changed = {**before.contacts[self.id], self.tests.text: "Changed"}
        expected = {**before.contacts, self.id: changed}
        same = (after.counts, after.linked) == (before.counts, before.linked)
        return same and after.contacts == expected


class Update(Changes):
    name = "update_contact"

    def call(self, adapter: Adapter) -> object:
        return adapter.update_contact(self.id, {self.tests.text: "Changed"})


class UpsertKnown(Changes):
    name = "upsert_contact of somebody known"

    def call(self, adapter: Adapter) -> object:
        said = {"email": self.person["email"], self.tests.text: "Changed"}
        return upsert_contact(adapter, self.tests.lead(said, mark=self.mark))


class Write(Changes):
    name = feature = "write"

    def call(self, adapter: Adapter) -> object:
        return adapter.write("contacts", self.id, {self.tests.text: "Changed"})


class Archive(Operation):
    name = feature = "archive"

    def call(self, adapter: Adapter) -> object:
        adapter.archive("contacts", self.other)
        return None

    def is_right(self, result: object, before: State, after: State) -> bool:
        return self.effect(before, after) == "whole"

    def is_deceived(self, result: object, before: State, after: State) -> bool:
        return after == before

    def is_whole(self, before: State, after: State) -> bool:
        left = {id: one for id, one in before.contacts.items() if id != self.other}
        return after == replace(before, contacts=left)


class Link(Operation):
    name = feature = "link"

    def prepare(self) -> None:
        titles = {kind: self.tests.title(kind) for kind in self.tests.titles}
        # A read is sent again if the last fault has closed the connection, and no write is.
        self.sound.get_contact(self.id, [])
        self.kind, self.made = first_kind(
            self.tests, lambda kind: self.sound.write(kind, "", titles[kind], mark=self.mark)
        )

    def call(self, adapter: Adapter) -> object:
        adapter.link(self.kind, self.made.id, "contacts", self.id)
        return None

    def is_right(self, result: object, before: State, after: State) -> bool:
        return self.effect(before, after) == "whole"

    def is_deceived(self, result: object, before: State, after: State) -> bool:
        return after == before

    def is_whole(self, before: State, after: State) -> bool:
        rest = {id: one for id, one in after.linked[self.kind].items() if id != self.made.id}
        return replace(after, linked={**after.linked, self.kind: rest}) == before


class Merge(Operation):
    name = feature = "merge"

    def call(self, adapter: Adapter) -> object:
        return adapter.merge("contacts", self.id, self.other)

    def is_right(self, result: object, before: State, after: State) -> bool:
        is_there = isinstance(result, Saved) and result.id in after.contacts
        return is_there and self.effect(before, after) == "whole"

    def is_whole(self, before: State, after: State) -> bool:
        # The resulting contact may have a new id.
        both = {self.id, self.other}
        rest = {id: one for id, one in before.contacts.items() if id not in both}
        merged = [one for id, one in after.contacts.items() if id not in rest]
        kept = {id: after.contacts.get(id) for id in rest} == rest
        same = kept and after.counts == before.counts and len(merged) == 1
        return same and merged[0].items() >= self.person.items()


class AddNote(Operation):
    name = feature = "add_note"
    text = 'It\'s <b>5 > 3</b> &amp; "more"\n\nthan that'

    def call(self, adapter: Adapter) -> object:
        now_ms = int(time.time() * 1000)
        return adapter.add_note("contacts", self.id, self.text, at_ms=now_ms, mark=self.mark)

    def added(self) -> Mapping[str, object]:
        return cast(ExtendedCrm, self.crm).notes("contacts", self.id)

    def state(self) -> State:
        state = super().state()
        return replace(state, counts={**state.counts, self.feature: len(self.added())})

    def is_right(self, result: object, before: State, after: State) -> bool:
        if not isinstance(result, Saved) or result.outcome != "created":
            return False
        return result.id in self.added() and after != before

    def is_whole(self, before: State, after: State) -> bool:
        counts = {**before.counts, self.feature: before.counts[self.feature] + 1}
        return after == replace(before, counts=counts)


class CreateTask(AddNote):
    name = feature = "create_task"

    def call(self, adapter: Adapter) -> object:
        return adapter.create_task(self.id, {"subject": "Call Ann"}, mark=self.mark)

    def added(self) -> Mapping[str, object]:
        return cast(ExtendedCrm, self.crm).tasks(self.id)


class CreatesLinked(Operation):
    kind: ClassVar[Linked]

    def prepare(self) -> None:
        self.sent = self.tests.title(self.kind)

    def call(self, adapter: Adapter) -> Saved:
        return adapter.create_for_contact(self.kind, self.id, self.sent, mark=self.mark)

    def find(self, adapter: Adapter) -> Saved | None:
        return adapter.find_marked(
            self.kind, self.id, self.mark, sent=self.sent, since_ms=self.since_ms
        )

    def find_or_call(self, adapter: Adapter) -> Saved:
        return self.find(adapter) or self.call(adapter)

    def repeat(self, adapter: Adapter, *, written_ms: int) -> Saved:
        """Return the record that `find` returns, else create it again; `written_ms` as above."""
        if record := self.find(adapter):
            return record
        hold_back_create(adapter, self.kind, self.sent, written_ms)
        return self.call(adapter)

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
        sent = self.sent.items()
        if not all(after.linked[self.kind][id].items() >= sent for id in fresh):
            return "wrong"
        if after.contacts != before.contacts or made != 1:
            return "wrong"
        return {0: "part", 1: "whole"}.get(linked, "wrong")  # type: ignore[return-value]


class CreateDeal(CreatesLinked):
    name = "create_for_contact of a deal"
    kind = "deals"


class CreateTicket(CreatesLinked):
    name = "create_for_contact of a ticket"
    kind = "tickets"


class WriteNew(Operation):
    """A record that is linked to no other; `of` is one of `NEW_RECORDS`."""

    feature = "write"
    of: ClassVar[str]

    def prepare(self) -> None:
        self.kind, self.sent = self.tests.new_record(self.of)

    def call(self, adapter: Adapter) -> Saved:
        return adapter.write(self.kind, "", self.sent, mark=self.mark)

    def find_or_call(self, adapter: Adapter) -> Saved:
        """Return the record that `find_marked` finds, else create it again.

        Without `find_marked`, the CRM itself takes the mark only once.
        """
        found = adapter.can("find_marked") and adapter.find_marked(
            self.kind, "", self.mark, sent=self.sent, since_ms=self.since_ms
        )
        return found or self.call(adapter)

    def state(self) -> State:
        state = super().state()
        is_contact = self.kind == "contacts"
        count = len(state.contacts) if is_contact else self.crm.count(self.kind)
        return replace(state, counts={**state.counts, self.kind: count})

    def is_right(self, result: object, before: State, after: State) -> bool:
        fresh = after.contacts.keys() - before.contacts.keys()
        if not isinstance(result, Saved) or result.outcome != "created":
            return False
        is_it = {result.id} == fresh if self.kind == "contacts" else not fresh
        return is_it and self.effect(before, after) == "whole"

    def is_whole(self, before: State, after: State) -> bool:
        kept = {id: after.contacts.get(id) for id in before.contacts} == before.contacts
        counts = {**before.counts, self.kind: before.counts[self.kind] + 1}
        same = kept and after.linked == before.linked
        return same and after.counts == counts


WRITES_NEW: Mapping[str, type[WriteNew]] = {
    of: type("WriteNew", (WriteNew,), {"of": of, "name": f"write of new {of}"})
    for of in NEW_RECORDS
}


class UpsertSeveral(Operation):
    """Only the second lead's contact exists; without `write_contacts`, each lead is one call."""

    name = "upsert_contacts"
    feature = "write_contacts"

    def prepare(self) -> None:
        self.second = self.tests.person()

    def leads(self) -> list[Lead]:
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

    def is_whole(self, before: State, after: State) -> bool:
        emails = [one["email"] for one in after.contacts.values()]
        return len(emails) == len(set(emails)) and after.counts == before.counts


class WriteSeveral(UpsertSeveral):
    name = feature = "write_contacts"

    def call(self, adapter: Adapter) -> object:
        changed = ContactWrite(self.id, {self.tests.text: "Changed"})
        first, last = (ContactWrite("", one, new_mark()) for one in (self.new, self.second))
        return adapter.write_contacts([first, changed, last])

    def _is_right(self, outcome: object, sent: Mapping[str, str], after: State) -> bool:
        if outcome is not None:
            return super()._is_right(outcome, sent, after)
        return not any(one.items() >= sent.items() for one in after.contacts.values())
