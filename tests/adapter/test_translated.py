"""First and last names in a CRM with one name: nothing of them is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crmhub.adapter import (
    Adapter,
    AdapterError,
    Changes,
    Contact,
    ContactWrite,
    Rejected,
    Saved,
)
from crmhub.adapter.testing import Connection
from crmhub.adapter.translated import BORDER, join, split
from tests.adapter.rpc_adapter import RosterAdapter
from tests.adapter.rpc_crm import PASSWORD, USER, Roster
from tests.loops import for_each

_PARTS = st.text(alphabet=st.sampled_from("aé ̈\t\n\u00a0" + BORDER), max_size=6)


@given(first=_PARTS, last=_PARTS)
def test_what_was_joined_is_split_as_it_was(first: str, last: str) -> None:
    assert split(join(first, last)) == (first.replace(BORDER, ""), last)


@for_each(
    ("first", "last", "name"),
    [
        ("Ada", "Lovelace", "Ada Lovelace"),
        ("Ada", "King of Lovelace", "Ada King of Lovelace"),
        ("Ada", "", "Ada"),
        ("", "", ""),
    ],
)
def test_the_usual_name_is_plain(first: str, last: str, name: str) -> None:
    assert join(first, last) == name


@for_each(("first", "last"), [("Mary Ann", "Lee"), ("", "Lee"), ("Mary Ann", "")])
def test_what_looks_the_same_is_told_apart_by_what_nobody_sees(first: str, last: str) -> None:
    name = join(first, last)
    assert name.replace(BORDER, "") == f"{first} {last}".strip()
    assert name.strip() == name


@for_each("name", ["Ada  Lovelace", " Ada Lovelace ", "Ada Lovelace"])
def test_a_name_that_people_typed_is_split_at_its_first_blank(name: str) -> None:
    assert split(name) == ("Ada", "Lovelace")


@pytest.fixture
def crm() -> Iterator[Roster]:
    with Roster() as crm:
        yield crm


@pytest.fixture
def adapter(crm: Roster) -> Iterator[Adapter]:
    settings = {"login_url": crm.urls["login"], "user": USER}
    connection = Connection(RosterAdapter, settings, {"password": PASSWORD})
    yield connection.adapter()
    connection.outgoing.close()


def _stored(crm: Roster) -> list[str]:
    return [record["values"]["name"] for record in crm.records["contacts"].values()]


def test_half_a_name_leaves_the_other_half(adapter: Adapter, crm: Roster) -> None:
    id = adapter.create_contact({"firstname": "Ada", "lastname": "Byron"}).id
    adapter.update_contact(id, {"lastname": "King"})
    assert _stored(crm) == ["Ada King"]


def test_a_change_of_one_half_writes_both_without_another_read(
    adapter: Adapter, crm: Roster
) -> None:
    id = adapter.create_contact({"firstname": "Ada", "lastname": "Byron"}).id
    sent = {"firstname": "Ada", "lastname": "King"}
    contact = adapter.get_contact(id, tuple(sent))
    assert adapter.changes(contact, sent).properties == sent
    assert adapter.changes(contact, {"firstname": "Ada"}).properties == {}


class _OtherNames(RosterAdapter):
    """Takes `mobile`, too, and answers with the hub's name of it, as Odoo's adapter does."""

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        names = {"mobile": "mobilephone"}
        return Changes({names.get(name, name): value for name, value in properties.items()})


def test_a_change_under_another_name_of_the_property_is_written(crm: Roster) -> None:
    settings = {"login_url": crm.urls["login"], "user": USER}
    connection = Connection(_OtherNames, settings, {"password": PASSWORD})
    sent = {"mobile": "+4930123456", "city": "Bonn", "lastname": "King"}
    changed = connection.adapter().changes(Contact("7", {}), sent).properties
    connection.outgoing.close()
    assert changed == {"mobilephone": "+4930123456", "city": "Bonn", "lastname": "King"}


def test_a_name_that_is_refused_is_told_under_the_names_that_were_sent(
    adapter: Adapter, crm: Roster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(crm.__dict__, "_check", _refuse_names)
    with pytest.raises(Rejected) as caught:
        adapter.create_contact({"lastname": "Byron", "email": "ada@example.com"})
    assert [problem.name for problem in caught.value.problems] == ["lastname"]


def _refuse_names(kind: str, values: object) -> None:
    from tests.adapter.rpc_crm import Fault

    raise Fault("Invalid", "values are refused", name="too short")


def test_the_whole_name_beside_its_halves_is_refused(adapter: Adapter, crm: Roster) -> None:
    with pytest.raises(Rejected):
        adapter.create_contact({"name": "Ada King", "lastname": "Byron"})
    assert _stored(crm) == []


class _InBatches(RosterAdapter):
    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        plain = RosterAdapter
        return [
            plain.update_contact(self, write.contact_id, write.properties)
            if write.contact_id
            else plain.create_contact(self, write.properties)
            for write in writes
        ]


def test_a_write_that_cannot_be_made_keeps_no_other_one_of_its_batch_back(crm: Roster) -> None:
    settings = {"login_url": crm.urls["login"], "user": USER}
    connection = Connection(_InBatches, settings, {"password": PASSWORD})
    adapter = connection.adapter()
    outcomes = adapter.write_contacts(
        [
            ContactWrite("", {"name": "Ada King", "lastname": "Byron"}),
            ContactWrite("404404", {"lastname": "Byron"}),
            ContactWrite("", {"firstname": "Grace", "lastname": "Hopper"}),
        ]
    )
    connection.outgoing.close()
    assert [type(outcome) for outcome in outcomes] == [Rejected, type(None), Saved]
    assert _stored(crm) == ["Grace Hopper"]


def test_a_contact_that_is_gone_sinks_no_other_of_its_batch(crm: Roster) -> None:
    settings = {"login_url": crm.urls["login"], "user": USER}
    connection = Connection(_InBatches, settings, {"password": PASSWORD})
    adapter = connection.adapter()
    gone, id = (adapter.create_contact({"firstname": name}).id for name in ("Bob", "Ada"))
    crm.delete_contact(gone)
    writes = [ContactWrite(one, {"lastname": "King"}, "") for one in (gone, id)]
    assert adapter.write_contacts(writes) == [None, Saved(id, "updated")]
    assert _stored(crm) == ["Ada King"]
    connection.outgoing.close()


def test_only_what_the_class_overrides_is_announced(adapter: Adapter) -> None:
    assert adapter.can("find_marked")
    assert not adapter.can("find_contacts")
