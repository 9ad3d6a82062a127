from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest

from crmhub.adapter import (
    Adapter,
    Conflict,
    ContactWrite,
    NotFound,
    PropertyType,
    Rejected,
    Saved,
    features,
)
from crmhub.adapter.answers import parse_time
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.bot_names import BOT_NAMES
from crmhub.adapter.testing.base import (
    DOMAIN,
    Base,
    either,
    for_each,
    leaving_out,
    new_mark,
    phone_number,
)
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import Crm
from crmhub.adapter.testing.several_leads import at_once
from crmhub.adapter.types import FORMS

TEXTS = {
    "letters of elsewhere": "Ångström Łukasz Ἀθηνᾶ 山田太郎 عبد",
    "emoji": "👩🏽‍🚀 ok",
    "quotes": '"O\'Hara" «x» `y`',
    "a path": "../x?y=1&z=2#f %2e +",
    "markup": "<b>&amp;</b>{{x}}${y}",
    "a list": "one;two,three|four",
    "leading zeros": "0049",
    "a number": "1.50",
    "a zero": "0",
    "a word of programs": "null",
    "a truth": "True",
    "an untruth": "false",
    "a minus": "-",
    "a backslash": "a\\nb",
    "blanks inside": "a  b\tc",
}
_FALSY: Mapping[PropertyType, str] = {"bool": "false", "number": "0", "currency": "0"}
_NOW_S = 600


class WritingTests(Base):
    def test_what_is_created_is_there_at_once(self, adapter: Adapter, crm: Crm) -> None:
        crm.add_contact(self.person())
        mine = self.person(phone=phone_number())
        saved = adapter.create_contact(mine)
        assert (type(saved.id), saved.outcome, saved.refused) == (str, "created", ())
        assert len(crm.contacts()) == 2
        assert saved.id in crm.contacts()
        for contact in (
            adapter.get_contact(saved.id, tuple(mine)),
            adapter.find_contact(email=mine["email"], names=tuple(mine)),
        ):
            assert contact is not None
            assert (contact.id, contact.properties) == (saved.id, mine)

    def test_each_value_is_stored_under_its_own_name(self, adapter: Adapter, crm: Crm) -> None:
        names = {self.text: "Lovelace", self.text2: "Ada"}
        chosen = dict([self.choice]) if self.choice else {}
        mine = self.person(phone=phone_number(), **names, **chosen)
        saved = adapter.create_contact(mine, mark=new_mark())
        others = {self.text: "King", self.text2: "Augusta"}
        new = self.person(**names)
        held = crm.contacts()[saved.id]
        assert {name: held[name] for name in mine} == mine
        adapter.update_contact(saved.id, others)
        known, made = upsert_contacts(adapter, [self.lead(one) for one in (mine, new)])
        assert isinstance(known, Saved)
        assert isinstance(made, Saved)
        assert known.outcome == "updated"
        for outcome, sent in ((known, mine), (made, new)):
            held = crm.contacts()[outcome.id]
            assert {name: held[name] for name in sent} == sent

    def test_a_value_of_each_type_has_the_form_of_its_type(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        if not self.typed:
            pytest.skip("the test class names no typed properties")
        sent = {name: FORMS[kind].example for kind, name in self.typed.items()}
        saved = adapter.create_contact(self.person(**sent))
        assert adapter.get_contact(saved.id, tuple(sent)).properties == sent
        if at := self.typed.get("datetime"):
            held = crm.contacts()[saved.id].get(at, "")
            assert parse_time(held) == parse_time(sent[at]), f"the CRM holds {held} for {sent[at]}"
        adapter.update_contact(saved.id, dict.fromkeys(sent, ""))
        cleared = adapter.get_contact(saved.id, tuple(sent)).properties
        falsy = {name: _FALSY.get(kind, "") for kind, name in self.typed.items()}
        assert {name: text for name, text in cleared.items() if text not in ("", falsy[name])} == {}
        if "describe" in features(self.adapter_class):
            described = {one.name: one.type for one in adapter.describe("contacts")}
            assert {described[name]: name for name in sent} == self.typed

    def test_false_and_zero_are_values(self, adapter: Adapter, crm: Crm) -> None:
        kinds = _FALSY.keys() & self.typed.keys()
        if not kinds:
            pytest.skip(f"the test class names no typed property of {', '.join(_FALSY)}")
        sent = {self.typed[kind]: _FALSY[kind] for kind in kinds}
        saved = adapter.create_contact(self.person(**sent))
        assert adapter.get_contact(saved.id, tuple(sent)).properties == sent
        adapter.update_contact(saved.id, {self.typed[kind]: FORMS[kind].example for kind in kinds})
        adapter.update_contact(saved.id, sent)
        assert adapter.get_contact(saved.id, tuple(sent)).properties == sent

    def test_times_that_the_crm_sets_are_in_utc(self, adapter: Adapter, crm: Crm) -> None:
        self.announced("describe")
        described = adapter.describe("contacts")
        names = [one.name for one in described if one.read_only and one.type == "datetime"]
        if not names:
            pytest.skip(f"{self.adapter_class.title} describes no time that it sets itself")
        id = crm.add_contact(self.person())
        got = {n: text for n, text in adapter.get_contact(id, names).properties.items() if text}
        assert got, f"let the fake set a time of a new contact, as the CRM does: one of {names}"
        off = {n: text for n, text in got.items() if abs(parse_time(text) - time.time()) > _NOW_S}
        assert not off, f"the contact was created now, and these times are not now in UTC: {off}"

    @for_each("text", TEXTS)
    def test_a_value_comes_back_as_it_was_written(
        self, adapter: Adapter, crm: Crm, text: str
    ) -> None:
        saved = adapter.create_contact(self.person(**{self.text: text}))
        assert adapter.get_contact(saved.id, [self.text]).properties == {self.text: text}
        adapter.update_contact(saved.id, {self.text: "between"})
        adapter.update_contact(saved.id, {self.text: text})
        assert adapter.get_contact(saved.id, [self.text]).properties == {self.text: text}

    def test_a_line_break_comes_back_as_it_was_written(self, adapter: Adapter, crm: Crm) -> None:
        saved = adapter.create_contact(self.person(**{self.text: "one\ntwo"}))
        assert adapter.get_contact(saved.id, [self.text]).properties == {self.text: "one\ntwo"}

    def test_a_long_value_comes_back_whole_or_is_rejected(self, adapter: Adapter, crm: Crm) -> None:
        long = "ä€" * 32_768
        mine = self.person(**{self.text: long})
        saved = either(Rejected, lambda: adapter.create_contact(mine))
        if isinstance(saved, Rejected):
            assert [problem.name for problem in saved.problems] in ([self.text], [])
            assert not crm.contacts()
        else:
            assert adapter.get_contact(saved.id, [self.text]).properties == {self.text: long}

    def test_an_email_that_is_taken_is_a_conflict_that_names_the_other(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        crm.add_contact(self.person())
        mine = self.person()
        holder = crm.add_contact(mine)
        before = crm.contacts()
        with pytest.raises(Conflict) as caught:
            adapter.create_contact(mine | {self.text: "Another"})
        assert caught.value.existing_id == holder
        assert crm.contacts() == before

    def test_an_email_that_is_taken_in_another_case_is_taken(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        holder = crm.add_contact(self.person(email=f"ann.lee@{DOMAIN}"))
        mine = self.person(email=f"Ann.Lee@{DOMAIN.title()}")
        saved = either(Conflict, lambda: adapter.create_contact(mine))
        assert isinstance(saved, Conflict), "it made a second contact with the email, in other case"
        assert saved.existing_id == holder
        if "write_contacts" in features(self.adapter_class):
            [outcome] = adapter.write_contacts([ContactWrite("", mine, new_mark())])
            assert outcome is None or isinstance(outcome, Conflict), outcome
        assert list(crm.contacts()) == [holder]

    def test_creates_of_one_email_at_once_make_one_contact_in_whatever_case(
        self, connection: Connection, crm: Crm
    ) -> None:
        adapters = [connection.adapter() for _ in range(2)]
        number = phone_number()[-5:]
        emails = [f"{name}.lee{number}@{DOMAIN}" for name in ("ann", "Ann", "ANN")]

        def create(i: int) -> Callable[[], Saved | Conflict]:
            mine = self.person(email=emails[i % 3])
            return lambda: either(Conflict, lambda: adapters[i % 2].create_contact(mine))

        made = [one for one in at_once([create(i) for i in range(6)]) if isinstance(one, Saved)]
        assert [one.id for one in made] == list(crm.contacts()), "an email was taken twice"
        assert len(made) == 1
        leases = connection.leases.granted
        assert len({key.lower() for key in leases}) == len(leases), (
            f"the same email in another case has a lease of its own: {sorted(leases)}"
        )

    def test_an_email_of_another_cannot_be_given_to_a_contact(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        theirs = self.person()
        holder = crm.add_contact(theirs)
        id = crm.add_contact(self.person())
        before = crm.contacts()
        sent = {"email": theirs["email"], self.text: "Changed"}
        saved = either(Conflict, lambda: adapter.update_contact(id, sent))
        if isinstance(saved, Conflict):
            assert saved.existing_id in (holder, "")
            assert crm.contacts() == before
        else:
            assert crm.contacts()[id]["email"] == theirs["email"]

    def test_an_unknown_property_is_rejected_by_name_or_stored(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        mine = self.person(**{self.unknown: "x"})
        saved = either(Rejected, lambda: adapter.create_contact(mine))
        if isinstance(saved, Rejected):
            assert [problem.name for problem in saved.problems] == [self.unknown]
            assert all(problem.reason for problem in saved.problems)
            assert not crm.contacts()
        else:
            assert adapter.get_contact(saved.id, [self.unknown]).properties == {self.unknown: "x"}

    def test_an_unknown_property_of_a_change_is_rejected_by_name_or_stored(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        id = crm.add_contact(self.person())
        before = crm.contacts()
        sent = {self.text: "Changed", self.unknown: "x"}
        saved = either(Rejected, lambda: adapter.update_contact(id, sent))
        if isinstance(saved, Rejected):
            assert [problem.name for problem in saved.problems] == [self.unknown]
            assert crm.contacts() == before
        else:
            got = adapter.get_contact(id, [self.text, self.unknown])
            assert got.properties == {self.text: "Changed", self.unknown: "x"}

    def test_a_property_that_only_the_crm_writes_is_rejected_by_name(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        if self.read_only is None:
            pytest.skip("the test class names no read_only property")
        self._rejected(adapter, crm, self.read_only, "1")

    def test_a_value_that_is_no_option_is_rejected_by_name(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        if self.choice is None:
            pytest.skip("the test class names no property with a choice")
        name, value = self.choice
        self._rejected(adapter, crm, name, "no such option")
        saved = adapter.create_contact(self.person(**{name: value}))
        assert adapter.get_contact(saved.id, [name]).properties == {name: value}

    def _rejected(self, adapter: Adapter, crm: Crm, name: str, value: str) -> None:
        id = crm.add_contact(self.person())
        before = crm.contacts()
        with pytest.raises(Rejected) as created:
            adapter.create_contact(self.person(**{name: value}))
        with pytest.raises(Rejected) as changed:
            adapter.update_contact(id, {self.text: "Changed", name: value})
        for error in (created.value, changed.value):
            assert [problem.name for problem in error.problems] == [name]
        assert crm.contacts() == before

    def test_leaving_out_what_is_rejected_lets_the_rest_through(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        bad = {f"{self.unknown}_{i}": "x" for i in range(3)}
        if self.choice is not None:
            bad[self.choice[0]] = "no such option"
        mine = self.person()
        saved, left = leaving_out(adapter.create_contact, mine | bad)
        assert left.items() >= mine.items(), "it names what is right"
        assert adapter.get_contact(saved.id, tuple(left)).properties == left

    def test_the_names_that_bots_use_are_stored_or_rejected_by_name(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        """Test that no property of `BOT_NAMES` is dropped, or refused under another name."""
        mine = self.made("contacts", BOT_NAMES["contacts"])
        saved, sent = leaving_out(adapter.create_contact, mine)
        got = adapter.get_contact(saved.id, tuple(sent)).properties
        assert [name for name in sent if not got.get(name)] == [], "these were dropped"

    def test_a_change_leaves_other_properties_and_other_contacts(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        other = crm.add_contact(self.person(**{self.text2: "Theirs"}))
        id = crm.add_contact(self.person(**{self.text2: "Mine"}))
        before = crm.contacts()
        saved = adapter.update_contact(id, {self.text: "Changed"})
        assert (saved.id, saved.outcome) == (id, "updated")
        assert crm.contacts()[other] == before[other]
        assert crm.contacts()[id][self.text] == "Changed"
        assert crm.contacts()[id][self.text2] == "Mine"
        assert crm.contacts()[id]["email"] == before[id]["email"]

    def test_a_changed_email_leaves_the_further_emails_of_the_contact(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        mine = self.person()
        second, third = (self.person()["email"] for _ in range(2))
        id = crm.add_contact(mine)
        if not getattr(crm, "add_email", lambda *_: False)(id, second):
            pytest.skip("a contact has one email in this CRM: the fake's add_email adds none")

        def found(email: str) -> bool:
            return self.shown(lambda: adapter.find_contact(email=email)) is not None

        assert found(second), "name the list of emails in email_names: the second one is not found"
        adapter.update_contact(id, {"email": third})
        assert found(second), "the new email has replaced the whole list"
        assert found(third)
        assert not adapter.find_contact(email=mine["email"])

    def test_a_change_to_nothing_clears_the_property(self, adapter: Adapter, crm: Crm) -> None:
        id = crm.add_contact(self.person(**{self.text: "Lee", self.text2: "Ann"}))
        assert adapter.update_contact(id, {self.text2: ""}).outcome == "updated"
        got = adapter.get_contact(id, [self.text, self.text2])
        assert got.properties == {self.text: "Lee", self.text2: ""}
        assert not crm.contacts()[id].get(self.text2)

    def test_a_change_that_changes_nothing_leaves_everything(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        mine = self.person()
        id = crm.add_contact(mine)
        assert adapter.update_contact(id, mine).outcome in ("unchanged", "updated")
        assert {name: crm.contacts()[id][name] for name in mine} == mine

    def test_a_change_is_called_unchanged_only_when_it_is(self, adapter: Adapter, crm: Crm) -> None:
        id = crm.add_contact(self.person(**{self.text: "lee"}))
        assert adapter.get_contact(id, [self.text]).properties == {self.text: "lee"}
        crm_changed = adapter.update_contact(id, {self.text: "Lee"})
        assert crm_changed.outcome == "updated"
        assert adapter.update_contact(id, {self.text: "lee"}).outcome == "updated"
        assert crm.contacts()[id][self.text] == "lee"

    def test_a_deleted_contact_cannot_be_changed(self, adapter: Adapter, crm: Crm) -> None:
        id = crm.add_contact(self.person())
        crm.delete_contact(id)
        with pytest.raises(NotFound):
            adapter.update_contact(id, {self.text: "Changed"})
        assert not crm.contacts()

    def test_a_new_email_is_found_and_the_old_one_is_not(self, adapter: Adapter, crm: Crm) -> None:
        id = crm.add_contact(self.person(email=f"old@{DOMAIN}"))
        adapter.update_contact(id, {"email": f"new@{DOMAIN}"})
        assert adapter.find_contact(email=f"old@{DOMAIN}") is None
        contact = adapter.find_contact(email=f"new@{DOMAIN}")
        assert contact is not None
        assert contact.id == id
