from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from crmhub.adapter import Adapter, AdapterError, ContactWrite, Rejected, Saved
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.testing.base import Base, new_mark, phone_number
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import Crm
from crmhub.adapter.upserts import upsert_contact

THREADS = 20
T = TypeVar("T")


def at_once(works: Sequence[Callable[[], T]]) -> list[T]:
    barrier = threading.Barrier(len(works))

    def start(work: Callable[[], T]) -> T:
        barrier.wait(30)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(start, works))


class SeveralLeadsTests(Base):
    def test_leads_of_one_new_email_at_once_make_one_contact(
        self, connection: Connection, crm: Crm
    ) -> None:
        adapters = [connection.adapter() for _ in range(2)]
        mine = self.person()

        def upsert(i: int) -> Callable[[], Saved]:
            lead = self.lead({**mine, self.text: f"Said {i}"})
            return lambda: upsert_contact(adapters[i % 2], lead)

        saved = at_once([upsert(i) for i in range(THREADS)])
        assert {one.id for one in saved} == set(crm.contacts())
        assert len(crm.contacts()) == 1
        assert [one.outcome for one in saved].count("created") == 1

    def test_leads_of_many_at_once_make_one_contact_each(self, adapter: Adapter, crm: Crm) -> None:
        people = [self.person() for _ in range(THREADS)]

        def upsert(person: dict[str, str]) -> Callable[[], Saved]:
            return lambda: upsert_contact(adapter, self.lead(person))

        saved = at_once([upsert(person) for person in people])
        assert len(crm.contacts()) == THREADS
        for contact, person in zip(saved, people, strict=True):
            assert adapter.get_contact(contact.id, tuple(person)).properties == person

    def _batch(self, adapter: Adapter, *people: dict[str, str]) -> Sequence[Saved | AdapterError]:
        outcomes = upsert_contacts(adapter, [self.lead(person) for person in people])
        assert len(outcomes) == len(people)
        return outcomes

    def test_what_became_of_several_leads_comes_in_their_order(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        new, same, changed, newer = (self.person() for _ in range(4))
        ids = [crm.add_contact(person) for person in (same, changed)]
        changed = {**changed, self.text: "New"}
        outcomes = self._batch(adapter, new, same, changed, newer)
        saved = [one for one in outcomes if isinstance(one, Saved)]
        assert [one.outcome for one in saved] == ["created", "unchanged", "updated", "created"]
        assert [one.id for one in saved][1:3] == ids
        for one, person in zip(saved, (new, same, changed, newer), strict=True):
            assert adapter.get_contact(one.id, tuple(person)).properties == person
        assert len(crm.contacts()) == 4

    def test_a_lead_that_is_refused_sinks_no_other(self, adapter: Adapter, crm: Crm) -> None:
        good, bad, last = (self.person() for _ in range(3))
        bad[self.choice[0] if self.choice else self.unknown] = "no such option"
        outcomes = self._batch(adapter, good, bad, last)
        for outcome, person in zip(outcomes[::2], (good, last), strict=True):
            assert isinstance(outcome, Saved)
            assert adapter.get_contact(outcome.id, tuple(person)).properties == person
        if isinstance(outcomes[1], AdapterError):
            assert isinstance(outcomes[1], Rejected)
            blamed = {problem.name for problem in outcomes[1].problems}
            assert blamed <= {self.choice[0] if self.choice else self.unknown}
            assert len(crm.contacts()) == 2
        else:
            assert len(crm.contacts()) == 3

    def test_a_full_batch_is_found_and_written(self, adapter: Adapter, crm: Crm) -> None:
        """Test that the CRM takes as many contacts in one call as `batch_size` says."""
        self.announced("write_contacts")
        people = [self.person() for _ in range(self.adapter_class.batch_size)]
        emails = [person["email"] for person in people]
        made = adapter.write_contacts([ContactWrite("", one, new_mark()) for one in people])
        failed = [one for one in made if not isinstance(one, Saved)]
        assert not failed, f"batch_size is more than the CRM takes: {failed[0]!r}"
        ids = [one.id for one in made if isinstance(one, Saved)]
        held = crm.contacts()
        assert len(held) == len(ids)
        assert [held[id]["email"] for id in ids] == emails
        found = adapter.find_contacts(emails=emails)
        assert [found[email].id for email in emails] == ids
        changes = [ContactWrite(id, {self.text: f"Changed {id}"}) for id in ids]
        assert all(isinstance(one, Saved) for one in adapter.write_contacts(changes))
        assert all(one[self.text] == f"Changed {id}" for id, one in crm.contacts().items())

    def test_a_write_that_a_batch_leaves_out_was_not_made(self, adapter: Adapter, crm: Crm) -> None:
        """None must mean "not made", since the hub makes such a write once more."""
        self.announced("write_contacts")
        first, taken, last = (self.person() for _ in range(3))
        id, gone, _ = (crm.add_contact(one) for one in (self.person(), self.person(), taken))
        crm.delete_contact(gone)
        change = {self.text: "Changed"}
        writes = [ContactWrite("", one, new_mark()) for one in (first, taken, last)]
        writes[1:1] = [ContactWrite(gone, change), ContactWrite(id, change)]
        made, deleted, changed, conflict, also_made = adapter.write_contacts(writes)
        held = crm.contacts()
        for outcome, person in ((made, first), (also_made, last)):
            ids = [id for id, one in held.items() if one["email"] == person["email"]]
            assert ids == ([outcome.id] if isinstance(outcome, Saved) else []), (
                f"it says {outcome!r} of a contact that it has made"
            )
        was_changed = held[id][self.text] == "Changed"
        assert isinstance(changed, Saved) == was_changed, f"it says {changed!r} of a change"
        assert not isinstance(deleted, Saved), "it changed a contact that is deleted"
        assert not isinstance(conflict, Saved), "it made a contact with an email that is taken"

    def test_leads_of_one_contact_take_effect_in_their_order(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        mine = self.person()
        first, second, third = (
            {**mine, self.text: f"Said {i}", self.text2: f"And {i}"} for i in range(3)
        )
        del third[self.text2]
        outcomes = self._batch(adapter, first, self.person(), second, third)
        ids = {one.id for one in outcomes if isinstance(one, Saved)}
        assert len(ids) == len(crm.contacts()) == 2
        contact = adapter.find_contact(email=mine["email"], names=[self.text, self.text2])
        assert contact is not None
        assert contact.properties == {self.text: "Said 2", self.text2: "And 1"}

    def test_leads_at_once_go_where_each_would_go_alone(self, adapter: Adapter, crm: Crm) -> None:
        phones = [phone_number(), phone_number()]
        talked = crm.add_contact(self.person())
        theirs = [crm.add_contact(self.person(phone=phone)) for phone in phones]
        self.settle(adapter, *phones)
        mine, strict = (self.person(phone=phone_number()) for _ in range(2))
        id, strict_id = crm.add_contact(mine), crm.add_contact(strict)
        before, new = crm.contacts(), {self.text: "New"}
        leads = [
            self.lead({**self.person(), **new}, contact_id=talked),
            self.lead({"email": mine["email"], "phone": phones[0], **new}),
            self.lead({"email": strict["email"], "phone": phones[1], **new}, strict=True),
        ]
        known, shared, whole = upsert_contacts(adapter, leads)
        assert isinstance(known, Saved)
        assert known.id == talked
        assert isinstance(shared, Saved)
        assert (shared.id, [problem.name for problem in shared.refused]) == (id, ["phone"])
        assert isinstance(whole, Rejected)
        assert [problem.name for problem in whole.problems] == ["phone"]
        after = crm.contacts()
        assert [after[one][self.text] for one in (talked, id)] == ["New", "New"]
        assert after[id]["phone"] == mine["phone"]
        assert [after[one] for one in (*theirs, strict_id)] == [
            before[one] for one in (*theirs, strict_id)
        ]
        assert after.keys() == before.keys()
