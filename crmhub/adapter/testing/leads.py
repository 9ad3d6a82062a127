"""Tests of the upsert of a lead: to the right contact, only once, and without loss of a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from crmhub.adapter import Adapter, Conflict, Rejected, Saved
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.testing.base import DOMAIN, Base, either, for_each, phone_number
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import Crm
from crmhub.adapter.upserts import upsert_contact


class LeadTests(Base):
    def test_a_lead_of_nobody_known_makes_a_contact(self, adapter: Adapter, crm: Crm) -> None:
        crm.add_contact(self.person())
        mine = self.person(phone=phone_number())
        saved = upsert_contact(adapter, self.lead(mine))
        assert (saved.outcome, saved.refused) == ("created", ())
        assert len(crm.contacts()) == 2
        assert adapter.get_contact(saved.id, tuple(mine)).properties == mine

    def test_a_lead_goes_to_the_contact_of_its_email(self, adapter: Adapter, crm: Crm) -> None:
        phone = phone_number()
        mine = self.person(email=f"ann@{DOMAIN}", **{self.text2: "Old"})
        of_conversation = crm.add_contact(self.person())
        crm.add_contact(self.person(email=f"joann@{DOMAIN}"))
        id = crm.add_contact(mine)
        crm.add_contact(self.person(email=f"ann@{DOMAIN}.au"))
        before = crm.contacts()
        saved = upsert_contact(
            adapter,
            self.lead(
                {"email": f"ann@{DOMAIN}", "phone": phone, self.text: "New"},
                contact_id=of_conversation,
            ),
        )
        assert (saved.id, saved.outcome, saved.refused) == (id, "updated", ())
        after = adapter.get_contact(id, ["email", "phone", self.text, self.text2]).properties
        expected_id = {"email": mine["email"], "phone": phone, self.text: "New", self.text2: "Old"}
        assert after == expected_id
        assert {k: v for k, v in crm.contacts().items() if k != id} == {
            k: v for k, v in before.items() if k != id
        }

    def test_a_new_email_goes_to_the_contact_of_the_conversation(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        phone = phone_number()
        id = crm.add_contact(self.person(email=f"old@{DOMAIN}"))
        of_phone = crm.add_contact(self.person(phone=phone))
        self.settle(adapter, phone)
        said = {"email": f"new@{DOMAIN}", "phone": phone, self.text: "New"}
        before = crm.contacts()[of_phone]
        saved = upsert_contact(adapter, self.lead(said, contact_id=id))
        assert (saved.id, saved.outcome, saved.refused) == (id, "updated", ())
        assert adapter.get_contact(id, tuple(said)).properties == said
        assert saved.duplicate is not None
        assert saved.duplicate.contact_id == of_phone
        assert crm.contacts()[of_phone] == before

    def test_a_lead_goes_to_the_contact_of_its_phone_at_last(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        phone = phone_number()
        crm.add_contact(self.person(phone=phone[:-1]))
        id = crm.add_contact(self.person(phone=phone))
        self.settle(adapter, phone)
        saved = upsert_contact(adapter, self.lead({"phone": phone, self.text: "New"}))
        assert (saved.id, saved.outcome) == (id, "updated")
        assert crm.contacts()[id][self.text] == "New"
        assert len(crm.contacts()) == 2

    def test_a_phone_of_somebody_with_an_email_makes_another_contact(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        phone = phone_number()
        theirs = crm.add_contact(self.person(phone=phone))
        self.settle(adapter, phone)
        before = crm.contacts()[theirs]
        mine = self.person(phone=phone)
        saved = upsert_contact(adapter, self.lead(mine))
        assert (saved.outcome, saved.refused) == ("created", ())
        assert adapter.get_contact(saved.id, tuple(mine)).properties == mine
        assert saved.duplicate is not None
        assert (saved.duplicate.contact_id, saved.duplicate.shares) == (theirs, ("phone",))
        assert crm.contacts()[theirs] == before

    def test_a_phone_of_somebody_without_an_email_is_the_leads(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        nameless = self.person(phone=phone_number())
        mine = self.person(phone=nameless["phone"])
        del nameless["email"]
        id = crm.add_contact(nameless)
        self.settle(adapter, mine["phone"])
        saved = upsert_contact(adapter, self.lead(mine))
        assert (saved.id, saved.outcome, saved.refused) == (id, "updated", ())
        assert list(crm.contacts()) == [id]
        assert adapter.get_contact(id, tuple(mine)).properties == mine

    def test_a_phone_goes_before_the_conversation_where_it_identifies(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        phone = phone_number()
        talked = crm.add_contact(self.person())
        id = crm.add_contact(self.person(phone=phone))
        self.settle(adapter, phone)
        before = crm.contacts()
        lead = self.lead({**self.person(phone=phone), self.text: "New"}, contact_id=talked)
        saved = upsert_contact(adapter, replace(lead, phone_identifies=True))
        assert (saved.id, [problem.name for problem in saved.refused]) == (id, ["email"])
        after = crm.contacts()
        assert (after[id]["email"], after[id][self.text]) == (before[id]["email"], "New")
        assert after[talked] == before[talked]

    def test_a_lead_of_a_deleted_conversation_is_anybodys(self, adapter: Adapter, crm: Crm) -> None:
        gone = crm.add_contact(self.person())
        crm.delete_contact(gone)
        mine = self.person()
        saved = upsert_contact(adapter, self.lead(mine, contact_id=gone))
        assert saved.outcome == "created"
        assert list(crm.contacts()) == [saved.id]

    def test_a_former_email_of_a_contact_leads_to_it_no_more(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        corrected = self.person()
        id = crm.add_contact(corrected)
        mine = self.person()
        saved = upsert_contact(adapter, self.lead(mine, email_id=id))
        assert saved.outcome == "created"
        assert crm.contacts()[id]["email"] == corrected["email"]

    @for_each("by", {"email": "email", "phone": "phone"})
    def test_people_of_one_name_are_two_contacts(self, adapter: Adapter, crm: Crm, by: str) -> None:
        name = {self.text: "Lee", self.text2: "Ann"}
        theirs = crm.add_contact(self.person(phone=phone_number(), **name))
        before = crm.contacts()[theirs]
        mine = self.person(phone=phone_number(), **name)
        if by == "phone":
            del mine["email"]
        saved = upsert_contact(adapter, self.lead(mine))
        assert (saved.outcome, saved.refused) == ("created", ())
        assert crm.contacts().keys() == {theirs, saved.id}
        assert crm.contacts()[theirs] == before
        assert adapter.get_contact(saved.id, tuple(mine)).properties == mine

    def test_a_phone_is_looked_for_where_it_was_last_seen(self, adapter: Adapter, crm: Crm) -> None:
        phone = phone_number()
        id = crm.add_contact(self.person(phone=phone))
        moved = crm.add_contact(self.person(phone=phone_number()))
        self.settle(adapter, phone)
        seen = upsert_contact(adapter, self.lead({"phone": phone, self.text: "One"}, phone_id=id))
        self.settle(adapter, phone)
        stale = upsert_contact(
            adapter, self.lead({"phone": phone, self.text: "Two"}, phone_id=moved)
        )
        assert (seen.id, stale.id) == (id, id)
        assert crm.contacts()[id][self.text] == "Two"
        assert len(crm.contacts()) == 2

    @for_each("by", {"email": "email_id", "conversation": "contact_id"})
    def test_a_contact_that_is_remembered_for_an_email_is_not_searched_for(
        self, connection: Connection, crm: Crm, by: str
    ) -> None:
        if not self.adapter_class.remembered_first:
            pytest.skip(f"{self.adapter_class.title} is searched for an email first")
        adapter = connection.adapter()
        mine = self.person()
        saved = upsert_contact(adapter, self.lead(mine))

        def find(**asked: object) -> None:
            raise AssertionError(f"it searches for {asked}")

        adapter.find_contact = find  # type: ignore[method-assign]
        known = {"email_id": "", "contact_id": "", by: saved.id}
        lead = self.lead(mine, email_id=known["email_id"], contact_id=known["contact_id"])
        again = upsert_contact(adapter, lead)
        assert (again.id, again.outcome) == (saved.id, "unchanged")

    def test_a_phone_of_another_is_refused_and_the_rest_is_stored(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        phone = phone_number()
        theirs = crm.add_contact(self.person(phone=phone))
        self.settle(adapter, phone)
        mine = self.person(phone=phone_number())
        id = crm.add_contact(mine)
        lead = self.lead({"email": mine["email"], "phone": phone, self.text: "New"})
        saved = upsert_contact(adapter, lead)
        assert (saved.id, [problem.name for problem in saved.refused]) == (id, ["phone"])
        got = adapter.get_contact(id, ["phone", self.text]).properties
        assert got == {"phone": mine["phone"], self.text: "New"}
        assert crm.contacts()[theirs]["phone"] == phone

    def test_a_strict_lead_with_a_phone_of_another_is_rejected_whole(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        phone = phone_number()
        crm.add_contact(self.person(phone=phone))
        self.settle(adapter, phone)
        mine = self.person(phone=phone_number())
        crm.add_contact(mine)
        before = crm.contacts()
        with pytest.raises(Rejected) as caught:
            upsert_contact(
                adapter,
                self.lead({"email": mine["email"], "phone": phone, self.text: "New"}, strict=True),
            )
        assert [problem.name for problem in caught.value.problems] == ["phone"]
        assert crm.contacts() == before

    def test_what_a_lead_does_not_say_is_kept(self, adapter: Adapter, crm: Crm) -> None:
        phone = phone_number()
        mine = self.person(phone=phone, **{self.text2: "Kept"})
        id = crm.add_contact(mine)
        lead = self.lead({"email": mine["email"], self.text: "New"})
        assert upsert_contact(adapter, lead).outcome == "updated"
        got = adapter.get_contact(id, [*mine]).properties
        assert got == {**mine, self.text: "New", "phone": phone, self.text2: "Kept"}

    def test_an_email_that_finds_a_contact_stays_as_it_is_stored(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        id = crm.add_contact(self.person(email=f"Ann.Lee@{DOMAIN}"))
        stored = crm.contacts()[id]["email"]
        lead = self.lead({"email": f"ann.lee@{DOMAIN}", self.text: "New"})
        assert upsert_contact(adapter, lead).id == id
        assert crm.contacts()[id]["email"] == stored
        assert crm.contacts()[id][self.text] == "New"

    def test_a_lead_that_says_nothing_new_is_unchanged(self, adapter: Adapter, crm: Crm) -> None:
        mine = self.person(phone=phone_number())
        id = crm.add_contact(mine)
        before = crm.contacts()
        saved = upsert_contact(adapter, self.lead(mine))
        assert (saved.id, saved.outcome) == (id, "unchanged")
        assert crm.contacts() == before

    def test_a_lead_that_says_something_new_is_updated(self, adapter: Adapter, crm: Crm) -> None:
        mine = self.person()
        id = crm.add_contact(mine)
        saved = upsert_contact(adapter, self.lead({**mine, self.text: "New"}))
        assert (saved.id, saved.outcome) == (id, "updated")
        assert crm.contacts()[id][self.text] == "New"

    def test_an_unknown_property_of_a_lead_is_told_or_stored(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        mine = self.person()
        lead = self.lead({**mine, self.unknown: "x"})
        saved = either(Rejected, lambda: upsert_contact(adapter, lead))
        if isinstance(saved, Rejected):
            assert [problem.name for problem in saved.problems] == [self.unknown]
            assert not crm.contacts()
            return
        got = adapter.get_contact(saved.id, [self.unknown, *mine]).properties
        refused = {problem.name for problem in saved.refused}
        assert got == (mine if refused else {**mine, self.unknown: "x"})
        assert refused <= {self.unknown}

    @for_each("together", {"alone": False, "together": True})
    def test_what_is_for_an_empty_place_leaves_a_value_that_is_there(
        self, adapter: Adapter, crm: Crm, together: bool
    ) -> None:
        named, nameless, new = self.person(), self.person(), self.person()
        ids = [crm.add_contact(named)]
        ids += [crm.add_contact({**nameless, self.text: ""})]
        leads = [
            replace(
                self.lead({"email": one["email"], self.text: "Only here", self.text2: "New"}),
                initial=frozenset({self.text}),
            )
            for one in (named, nameless, new)
        ]
        if together:
            outcomes = upsert_contacts(adapter, leads)
        else:
            outcomes = [upsert_contact(adapter, lead) for lead in leads]
        saved = [one for one in outcomes if isinstance(one, Saved)]
        assert [one.id for one in saved[:2]] == ids
        got = [adapter.get_contact(one.id, [self.text, self.text2]).properties for one in saved]
        assert [one[self.text] for one in got] == [named[self.text], "Only here", "Only here"]
        assert [one[self.text2] for one in got] == ["New"] * 3

    def test_a_contact_is_found_by_email_although_the_search_lags(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        self.lagging(crm)
        mine = self.person()
        first = adapter.create_contact(mine)
        contact = adapter.find_contact(email=mine["email"])
        assert contact is not None
        assert contact.id == first.id
        again = upsert_contact(adapter, self.lead({**mine, self.text: "New"}))
        assert (again.id, again.outcome) == (first.id, "updated")
        assert len(crm.contacts()) == 1

    def test_a_phone_is_found_where_it_was_last_seen_although_the_search_lags(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        self.lagging(crm)
        phone = phone_number()
        first = upsert_contact(adapter, self.lead({"phone": phone, self.text: "One"}))
        again = self.lead({"phone": phone, self.text: "Two"}, phone_id=first.id)
        assert upsert_contact(adapter, again).id == first.id
        assert len(crm.contacts()) == 1

    def test_an_email_that_only_a_create_knows_of_is_the_contacts(
        self, connection: Connection, crm: Crm
    ) -> None:
        """Test an upsert whose contact is added to the CRM between the lookup and the write."""
        mine = self.person()
        adapter = connection.adapter()
        made: list[str] = []
        create = adapter.create_contact

        def late(*args: object, **options: object) -> Saved:
            if not made:
                made.append(crm.add_contact(mine))
            return create(*args, **options)  # type: ignore[arg-type]

        adapter.create_contact = late  # type: ignore[method-assign]
        lead = self.lead({**mine, self.text: "New"})
        saved = either(Conflict, lambda: upsert_contact(adapter, lead))
        id = saved.existing_id if isinstance(saved, Conflict) else saved.id
        assert id in crm.contacts()
        assert len(crm.contacts()) == 1

    def test_the_email_of_a_new_lead_with_a_phone_is_looked_up_unless_the_crm_keeps_it_unique(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        phone, asked = phone_number(), list[str]()
        find = adapter.find_contact

        def noted(**options: object) -> object:
            asked.extend(name for name in ("email", "phone") if options.get(name))
            return find(**options)  # type: ignore[arg-type]

        adapter.find_contact = noted  # type: ignore[method-assign,assignment]
        mine = self.person(phone=phone)
        saved = upsert_contact(adapter, self.lead(mine))
        first = ["phone"] if self.adapter_class.unique_emails else ["email", "phone"]
        # `create_contact` may look the email up once more, under a lease.
        assert asked in (first, [*first, "email"])
        assert (saved.outcome, list(crm.contacts())) == ("created", [saved.id])

    def test_a_contact_that_is_deleted_before_it_is_written_to_is_made_anew(
        self, connection: Connection, crm: Crm
    ) -> None:
        mine = self.person()
        crm.add_contact(mine)
        adapter = connection.adapter()
        update = adapter.update_contact

        def late(contact_id: str, properties: Mapping[str, str]) -> Saved:
            if contact_id in crm.contacts():
                crm.delete_contact(contact_id)
            return update(contact_id, properties)

        adapter.update_contact = late  # type: ignore[method-assign]
        said = {**mine, self.text: "New"}
        saved = upsert_contact(adapter, self.lead(said))
        assert list(crm.contacts()) == [saved.id]
        assert adapter.get_contact(saved.id, tuple(said)).properties == said
