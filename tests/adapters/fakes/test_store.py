"""The store of a fake: what it refuses, finds and links, and how the kit sees it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from adapters.fakes import records
from adapters.fakes.answers import Answer
from adapters.fakes.fake import Fake, Options
from adapters.fakes.fields import Field, boolean, each, integer, matching, number, short
from adapters.fakes.kit import LaggingKitCrm, to_text
from adapters.fakes.records import Record
from adapters.fakes.server import Received
from adapters.fakes.store import Store
from tests.clocks import clock_of

FIELDS = {
    "people": {
        "name": Field(check=short(5), required=True),
        "email": Field(unique=True),
        "status": Field(options=("lead", "customer")),
        "made": Field(read_only=True),
        "age": Field(check=integer),
        "score": Field(check=number),
        "vip": Field(check=boolean),
        "tags": Field(check=each(matching("[a-z]+"))),
        "phones": Field(check=each(short(9)), unique=True),
    },
    "deals": {"title": Field(), "person": Field(check=lambda value: "", to="people")},
}


@pytest.fixture
def store() -> Store:
    return Store(FIELDS, first=7, id_of=lambda kind, number: f"x{number}")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("nonsense", "x", "does not exist"),
        ("made", "x", "is read-only"),
        ("name", None, "is required"),
        ("name", "Augusta", "at most 5"),
        ("name", 1, "must be a string"),
        ("status", "LEAD", "one of lead, customer"),
        ("age", "1", "an integer"),
        ("age", True, "an integer"),
        ("score", "1", "a number"),
        ("vip", 1, "true or false"),
        ("tags", "news", "an array"),
        ("tags", ["news", "1"], "an item must match"),
    ],
)
def test_a_wrong_value_is_refused_with_a_reason(
    store: Store, name: str, value: Any, why: str
) -> None:
    faults = store.faults("people", {"name": "Ada", name: value})
    assert faults.keys() == {name}
    assert why in faults[name]


def test_a_change_needs_no_required_field_but_empties_none(store: Store) -> None:
    ada = store.insert("people", {"name": "Ada"})
    assert store.faults("people", {"age": 36, "email": None}, own=ada) == {}
    assert store.faults("people", {"name": ""}, own=ada) == {"name": "is required"}


def test_a_unique_value_is_held_once_whatever_its_case(store: Store) -> None:
    ada = store.insert("people", {"name": "Ada", "email": "ada@x.org"})
    assert store.holders("people", {"email": "ADA@x.org"}) == {"email": ada}
    assert store.holders("people", {"email": "ADA@x.org"}, own=ada) == {}
    assert store.holders("people", {"email": None, "name": "Ada"}) == {}
    store.delete(ada)
    assert store.holders("people", {"email": "ada@x.org"}) == {}
    assert (store.records["people"], store.deleted["people"]) == ({}, {"x7": ada})


def test_each_value_of_a_list_is_found_and_may_be_unique(store: Store) -> None:
    ada = store.insert("people", {"name": "Ada", "phones": ["12", "34"], "tags": None})
    assert store.find("people", "phones", ["34"]) == [ada]
    assert store.find("people", "tags", ["none", ""]) == []
    assert store.holders("people", {"phones": ["56", "12"]}) == {"phones": ada}
    assert store.holders("people", {"phones": ["56"]}) == {}


def test_a_search_for_a_value_looks_at_no_other_record(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = [store.insert("people", {"name": f"p{n}"}) for n in range(9)]
    looked_at, searchable = [], Record.searchable
    monkeypatch.setattr(
        Record, "searchable", lambda one, lag: looked_at.append(one) or searchable(one, lag)
    )
    assert store.find("people", "name", ["P4", "p2", "none"]) == [people[2], people[4]]
    assert looked_at == [people[2], people[4]]


def test_former_values_lead_to_a_record_until_it_is_deleted(store: Store) -> None:
    ada, bob = (store.insert("people", {"name": name}) for name in ("Ada", "Bob"))
    store.update(ada, {"name": "Eve"})
    assert store.having("people", "name", ["ada"]) == [ada]
    store.update(ada, {"name": "Bob"})
    assert store.having("people", "name", ["eve", "bob"]) == [ada, bob]
    assert store.find("people", "name", ["eve"]) == []
    store.delete(ada)
    assert store.having("people", "name", ["ada", "bob"]) == [bob]


def test_the_records_written_since_a_time_are_known(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_of(records, monkeypatch)
    ada, bob, eve = (store.insert("people", {"name": name}) for name in ("Ada", "Bob", "Eve"))
    clock.forward(10)
    for one in (eve, ada, ada):
        store.update(one, {"status": "lead"})
    assert store.written_since("people", bob.updated_at + 1) == [ada, eve]
    assert store.written_since("people", bob.updated_at) == [ada, bob, eve]
    store.delete(eve)
    assert store.written_since("people", ada.updated_at) == [ada]


@pytest.mark.parametrize("value", ["x7", {"id": "x7"}, ["x7", "x9"]])
def test_a_link_is_seen_from_both_sides(store: Store, value: Any) -> None:
    store.insert("people", {"name": "Ada"})
    deal = store.insert("deals", {"person": value})
    store.insert("deals", {"person": None})
    assert store.linked("people", "x7", "deals") == [deal.id]
    assert store.linked("deals", deal.id, "people") == ["x7"]
    store.delete(store.records["people"]["x7"])
    assert store.linked("deals", deal.id, "people") == []


class _Crm(Fake):
    kinds: ClassVar = {"contacts": "people", "deals": "deals"}
    names: ClassVar = {"contacts": {"name": "firstname"}, "deals": {"title": "dealname"}}
    fields = FIELDS

    def handle(self, received: Received) -> Answer:
        return Answer(204)


def test_the_kit_sees_the_hubs_names_and_texts() -> None:
    with LaggingKitCrm(_Crm(Options()), KeyError) as crm:
        ada = crm.add_contact({"firstname": "Ada", "email": "a@x.org", "status": ""})
        crm.fake.set("contacts", ada, vip=True, age=None, tags=["a", "b"], score=1500.0)
        deal = crm.fake.add("deals", {"title": "A"}, contacts=[ada])
        crm.fake.add("deals", {"title": "B"})
        expected = {"firstname": "Ada", "email": "a@x.org", "vip": "true", "age": ""}
        assert crm.contacts() == {ada: expected | {"tags": "a;b", "score": "1500"}}
        assert crm.linked("deals", ada) == {deal: {"dealname": "A", "person": ada}}
        assert crm.count("deals") == 2
        with pytest.raises(KeyError):
            crm.add_contact({"firstname": "Bo", "email": "A@x.org"})
        crm.delete_contact(ada)
        assert crm.contacts() == {}
        crm.search_lag = 5.0
        assert crm.fake.search_lag == 5.0


def test_a_value_as_text() -> None:
    assert [to_text(one) for one in (None, False, 0, 0.5, 1e20, {"id": 7}, ["a", 1])] == [
        *("", "false", "0", "0.5", "100000000000000000000", "7", "a;1")
    ]
