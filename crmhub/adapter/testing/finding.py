from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from crmhub.adapter import Adapter, AdapterError, Conflict, Contact, NotFound, Unsupported
from crmhub.adapter.testing.base import DOMAIN, Base, either, for_each, phone_number
from crmhub.adapter.testing.crm import Crm

WRONG_IDS = {
    "nothing": "",
    "a dot": ".",
    "two dots": "..",
    "a path upwards": "../deals",
    "an encoded path upwards": "%2e%2e/deals",
    "another path": "1/2",
    "with a path": "{id}/../{id}",
    "with a query": "{id}?x=y",
    "with a fragment": "{id}#a",
    "with a parameter": "{id};a=b",
    "an address": "http://127.0.0.1:9/{id}",
    "an address without scheme": "//127.0.0.1:9/{id}",
    "with a blank": "{id} ",
    "with a line break": "{id}\r\nX-Injected: yes",
    "with a NUL": "{id}\x00",
    "letters of elsewhere": "ünï-\u0663\U0001f600",
    "half a letter": "\ud800",
    "much too long": "9" * 10_000,
}
"""Invalid contact ids, by description; `{id}` is replaced by the id of a contact."""


MANY = 250
"""A number of records that is too large for one page of a CRM's list."""


def lookalikes(email: str) -> list[str]:
    local, _, domain = email.partition("@")
    return [
        f"jo{email}",
        f"{email}.au",
        f"{local}@other-{domain}",
        f"{local}s@{domain}",
        f"{local.replace('_', 'x')}-2@{domain}",
    ]


class FindingTests(Base):
    def _find(self, adapter: Adapter, *names: str, email: str = "", phone: str = "") -> Contact:
        contact = self.shown(lambda: adapter.find_contact(email=email, phone=phone, names=names))
        assert contact is not None, "it was not found"
        return contact

    @for_each("local", {one: one for one in ("ann", "o'hara", "a_n", "ann+news", "a.n", "a%n")})
    def test_an_email_finds_its_contact_among_lookalikes(
        self, adapter: Adapter, crm: Crm, local: str
    ) -> None:
        email = f"{local}@{DOMAIN}"
        others = [self.person(email=other) for other in lookalikes(email)]
        others += [self.person(email=f"{'axn'}@{DOMAIN}", **{self.text: email})]
        for other in others[:3]:
            crm.add_contact(other)
        expected_id = crm.add_contact(self.person(email=email))
        for other in others[3:]:
            crm.add_contact(other)
        assert self._find(adapter, email=email).id == expected_id

    def test_an_email_that_only_lookalikes_have_finds_nothing(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        for other in lookalikes(f"ann@{DOMAIN}"):
            crm.add_contact(self.person(email=other, **{self.text: f"ann@{DOMAIN}"}))
        for local in ("ann", "a_n", "a%n", "%", "*", '"'):
            assert adapter.find_contact(email=f"{local}@{DOMAIN}") is None, local

    def test_a_contact_is_found_behind_more_lookalikes_than_a_page_holds(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        """Test a contact before the lookalikes and one behind, whatever comes first in the CRM."""
        mine = [
            self.person(email=f"n@{DOMAIN}", phone="+491512345678"),
            self.person(email=f"ann@{DOMAIN}", phone="+4915123456789"),
        ]
        ids = [crm.add_contact(mine[0])]
        for i in range(MANY):
            email, phone = (mine[1][name] for name in ("email", "phone"))
            crm.add_contact(self.person(email=f"jo{i}.{email}", phone=f"{phone}{i % 100:02d}"))
        ids += [crm.add_contact(mine[1])]
        for by in ("email", "phone"):
            assert [self._find(adapter, **{by: one[by]}).id for one in mine] == ids, by

    def test_an_email_is_found_in_whatever_case_it_is_stored(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        expected_id = crm.add_contact(self.person(email=f"Ann.Lee@{DOMAIN.title()}"))
        assert self._find(adapter, email=f"ann.lee@{DOMAIN}").id == expected_id

    def test_the_oldest_of_several_with_an_email_is_found(self, adapter: Adapter, crm: Crm) -> None:
        crm.add_contact(self.person())
        expected_id = crm.add_contact(self.person(email=f"ann@{DOMAIN}"))
        self._age(crm)
        try:
            for _ in range(2):
                crm.add_contact(self.person(email=f"ann@{DOMAIN}"))
        except Conflict:
            pytest.skip("this CRM takes an email only once")
        assert self._find(adapter, email=f"ann@{DOMAIN}").id == expected_id

    def _age(self, crm: Crm) -> None:
        """Create contacts until ids may have one more digit, which texts sort otherwise."""
        for _ in range(10):
            crm.add_contact(self.person())

    def test_a_deleted_contact_is_not_found(self, adapter: Adapter, crm: Crm) -> None:
        phone = phone_number()
        gone = crm.add_contact(self.person(email=f"ann@{DOMAIN}", phone=phone))
        assert self._find(adapter, email=f"ann@{DOMAIN}").id == gone
        crm.delete_contact(gone)
        assert adapter.find_contact(email=f"ann@{DOMAIN}") is None
        assert adapter.find_contact(phone=phone) is None
        with pytest.raises(NotFound):
            adapter.get_contact(gone, [])

    def _finds_phone_stored_as(self, adapter: Adapter, crm: Crm, stored: str) -> None:
        for other in ("+4315123456789", "+491512345678", "+49151234567890", "+4915123456788"):
            crm.add_contact(self.person(phone=other))
        expected_id = crm.add_contact(self.person(phone=stored))
        for other in ("+4115123456789", "+4915223456789", "+4930123456789"):
            crm.add_contact(self.person(phone=other))
        assert self._find(adapter, phone="+4915123456789").id == expected_id

    def test_a_phone_is_found_in_e164(self, adapter: Adapter, crm: Crm) -> None:
        self._finds_phone_stored_as(adapter, crm, "+4915123456789")

    def test_a_phone_is_found_with_spaces(self, adapter: Adapter, crm: Crm) -> None:
        self._finds_phone_stored_as(adapter, crm, "+49 1512 3456789")

    def test_a_phone_is_found_as_bare_digits(self, adapter: Adapter, crm: Crm) -> None:
        self._finds_phone_stored_as(adapter, crm, "4915123456789")

    def test_a_phone_is_found_in_national_notation(self, adapter: Adapter, crm: Crm) -> None:
        self._finds_phone_stored_as(adapter, crm, "015123456789")

    def test_a_phone_that_only_lookalikes_have_finds_nothing(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        crm.add_contact(self.person(**{self.text: "+4915123456789"}))
        for other in (
            "+4315123456789",
            "+491512345678",
            "+49151234567890",
            "+12025556789",
            "004315123456789",
            "4315123456789",
        ):
            crm.add_contact(self.person(phone=other))
        assert adapter.find_contact(phone="+4915123456789") is None

    def test_the_oldest_of_several_with_a_phone_is_found(self, adapter: Adapter, crm: Crm) -> None:
        phone = phone_number()
        crm.add_contact(self.person())
        expected_id = crm.add_contact(self.person(phone=phone))
        self._age(crm)
        for _ in range(2):
            crm.add_contact(self.person(phone=phone))
        assert self._find(adapter, phone=phone).id == expected_id

    def test_names_that_are_asked_for_come_back_unless_they_are_unknown(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        crm.add_contact(self.person(**{self.text: "Someone else", self.text2: "Somebody"}))
        phone = phone_number()
        mine = {**self.person(phone=phone), self.text: "Lee"}
        mine.pop(self.text2, None)
        id = crm.add_contact(mine)
        names = [self.text, self.text2, self.unknown]
        for contact in (
            self._find(adapter, *names, email=mine["email"]),
            self._find(adapter, *names, phone=phone),
            adapter.get_contact(id, names),
        ):
            assert (contact.id, contact.properties) == (id, {self.text: "Lee", self.text2: ""})

    def test_names_that_nobody_asked_for_do_not_come_back(self, adapter: Adapter, crm: Crm) -> None:
        mine = self.person()
        id = crm.add_contact(mine)
        assert adapter.get_contact(id, []).properties == {}
        assert self._find(adapter, email=mine["email"]).properties == {}

    def test_ids_and_values_are_text(self, adapter: Adapter, crm: Crm) -> None:
        mine = self.person(**{self.text: "007"})
        id = crm.add_contact(mine)
        for contact in (
            self._find(adapter, self.text, "email", email=mine["email"]),
            adapter.get_contact(id, [self.text, "email"]),
        ):
            values = [contact.id, contact.url, *contact.properties, *contact.properties.values()]
            assert all(type(value) is str for value in values), values
            assert contact.properties[self.text] == "007"

    def test_what_is_stored_is_what_is_read(self, adapter: Adapter, crm: Crm) -> None:
        """Test that no reading trims a value, folds its case, or writes a phone otherwise."""
        email, phone = f"Ann.Lee@{DOMAIN.title()}", "+4915123456789"
        mine = {"email": email, "phone": phone, self.text: "van  DER Lee", self.text2: "ANN"}
        if not self.adapter_class.whole_name:
            # The words of a whole name are the same with other blanks around them.
            mine[self.text] = "  van  DER Lee "
        id = crm.add_contact(self.person(**mine))
        stored = {name: crm.contacts()[id][name] for name in mine}
        read = [
            adapter.get_contact(id, tuple(mine)),
            self._find(adapter, *mine, email=email.lower()),
            self._find(adapter, *mine, phone=phone),
        ]
        if adapter.can("find_contacts"):
            read += adapter.find_contacts(emails=[email.lower()], names=tuple(mine)).values()
            read += adapter.find_contacts(phones=[phone], names=tuple(mine)).values()
        for contact in read:
            assert (contact.id, contact.properties) == (id, stored), "it changes what it reads"

    def test_what_the_crm_holds_now_is_read_each_time(self, adapter: Adapter, crm: Crm) -> None:
        mine = self.person()
        first = crm.add_contact(mine)
        assert self._find(adapter, email=mine["email"]).id == first
        crm.delete_contact(first)
        second = crm.add_contact(mine | {self.text: "Made anew"})
        assert self._find(adapter, email=mine["email"]).id == second
        assert adapter.get_contact(second, [self.text]).properties == {self.text: "Made anew"}

    def test_one_contact_is_never_taken_for_another(self, adapter: Adapter, crm: Crm) -> None:
        mine = {crm.add_contact(person): person for person in (self.person() for _ in range(3))}
        for id, person in [*mine.items(), *mine.items()]:
            got = adapter.get_contact(id, ["email"])
            assert (got.id, got.properties["email"]) == (id, person["email"])

    def test_every_id_that_was_issued_may_be_one(self, adapter: Adapter, crm: Crm) -> None:
        issued = crm.add_contact(self.person()), adapter.create_contact(self.person()).id
        assert all(map(adapter.may_be_id, issued)), f"may_be_id refuses one of {issued}"
        for form in WRONG_IDS.values():
            assert adapter.may_be_id(form.replace("{id}", issued[0])) in (True, False)

    def test_an_id_that_was_never_issued_is_not_found(self, adapter: Adapter, crm: Crm) -> None:
        issued = crm.add_contact(self.person())
        before = crm.contacts()
        for case, form in WRONG_IDS.items():
            wrong = form.replace("{id}", issued)
            for i, call in enumerate(self.calls_by_id(adapter)):
                result = either(AdapterError, lambda: call(wrong))  # noqa: B023
                expected = NotFound if i < 2 else (NotFound, Unsupported)
                assert isinstance(result, expected), f"an id {case}, call {i + 1}: {result!r}"
        assert crm.contacts() == before
        assert [crm.count(kind) for kind in self.titles] == [0, 0]

    def test_threads_that_share_an_adapter_get_their_own_contact(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        people = [self.person() for _ in range(20)]
        ids = [crm.add_contact(person) for person in people]

        def look(i: int) -> list[tuple[str, str]]:
            looked = []
            for _ in range(3):
                for contact in (
                    adapter.get_contact(ids[i], ["email"]),
                    self._find(adapter, "email", email=people[i]["email"]),
                ):
                    looked.append((contact.id, contact.properties["email"]))
            return looked

        with ThreadPoolExecutor(20) as pool:
            for i, looked in enumerate(pool.map(look, range(20))):
                assert looked == [(ids[i], people[i]["email"])] * 6
